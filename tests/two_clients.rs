//! An interaction that one language's client appends and another's reads: the
//! same bytes, with what neither knows. `make test` sets up what they need; where
//! that is absent the test says so and passes.

#![allow(missing_docs)]

#[path = "support/installed.rs"]
mod installed;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use a11_grpc::{
    client::{connect, interactions},
    interaction::{Interaction, store::open},
    serve::{Options, Server},
    wire::{
        Chunk,
        pb::{self, RecordForm, Role, interaction_record::Body},
    },
};
use installed::{installed, skipped};
use prost::Message as _;

/// A client as a program, by its language.
struct Language {
    name: &'static str,
    program: PathBuf,
    script: &'static str,
}

fn languages() -> Option<[Language; 2]> {
    let python = installed("A11_PYTHON")?;
    if !Path::new("clients/typescript/dist/index.js").exists() {
        skipped("the TypeScript client is not built");
        return None;
    }
    Some([
        Language { name: "python", program: python, script: "tests/interop/interactions.py" },
        Language { name: "node", program: "node".into(), script: "tests/interop/interactions.mjs" },
    ])
}

impl Language {
    /// What it prints.
    async fn run(&self, arguments: [&str; 4]) -> String {
        let mut command = Command::new(&self.program);
        command.arg(self.script).args(arguments);
        let ran = tokio::task::spawn_blocking(move || command.output().expect("it starts"));
        let output = ran.await.expect("joined");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", self.name);
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }
}

async fn service(folder: &Path) -> String {
    let store = open(folder.join("store.db").to_str().expect("UTF-8")).await.expect("opens");
    let options = Options { store: Some(store), ..Options::new("127.0.0.1:0", Arc::default()) };
    let server = Server::bind(options).await.expect("a free port");
    let address = server.address().to_string();
    tokio::spawn(server.run(std::future::pending()));
    address
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A turn with fields 1,000 (a number) and 1,001 (bytes) that are not known here,
/// of itself and of its chunk.
fn from_the_future() -> Vec<u8> {
    const UNKNOWN: [u8; 9] = [0xc0, 0x3e, 0x96, 0x01, 0xca, 0x3e, 2, b'h', b'i'];
    let chunk = [&Chunk::text("hello").encode_to_vec()[..], &UNKNOWN].concat();
    let turn = Interaction {
        id: "t".to_owned(),
        role: Role::Model as i32,
        model: "m".to_owned(),
        ..Interaction::default()
    };
    let content = [0x4a, u8::try_from(chunk.len()).expect("short")];
    [&turn.encode_to_vec()[..], &content, &chunk, &UNKNOWN].concat()
}

#[tokio::test]
async fn what_one_client_appends_another_reads_with_all_that_neither_knows() {
    let Some([python, node]) = languages() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let address = service(folder.path()).await;
    let bytes = from_the_future();
    assert_eq!(Interaction::decode(&bytes[..]).expect("a turn").content[0].data(), "hello");
    for (writer, reader) in [(&python, &node), (&node, &python)] {
        let conversation = format!("by {}", writer.name);
        let said = writer.run([&address, "append", &conversation, &hex(&bytes)]).await;
        assert_eq!(said, "", "{conversation}");
        let read = reader.run([&address, "get", &conversation, "t"]).await;
        assert_eq!(read, hex(&bytes), "{conversation}, read by {}", reader.name);
        // And neither of them hides what the other spoilt.
        let mut client = interactions(connect(&address).await.expect("connects"));
        let form = RecordForm::Encoded as i32;
        let get = pb::GetInteractionRequest { conversation, id: "t".to_owned(), form };
        let record = client.get_interaction(get).await.expect("there").into_inner().record;
        let Some(Body::Encoded(kept)) = record.expect("set").body else { panic!("decoded") };
        assert_eq!(hex(&kept.data), hex(&bytes), "{}", writer.name);
    }
}

#[tokio::test]
async fn an_enum_number_that_is_unknown_is_refused_at_the_door_by_either_client() {
    let Some(languages) = languages() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let address = service(folder.path()).await;
    let role = Interaction { id: "t".to_owned(), role: 99, ..Interaction::default() };
    let status = pb::Status { code: 3, reason: 9_999, ..Default::default() };
    let reason = Interaction { id: "t".to_owned(), status: Some(status), ..role.clone() };
    let reason = Interaction { role: Role::User as i32, ..reason };
    for language in languages {
        for turn in [&role, &reason] {
            let appended = ["append", "c", &hex(&turn.encode_to_vec())];
            let [verb, conversation, what] = appended;
            let said = language.run([&address, verb, conversation, what]).await;
            assert_eq!(said, "INVALID_ARGUMENT", "{}: {turn:?}", language.name);
        }
        let said = language.run([&address, "get", "c", "t"]).await;
        assert_eq!(said, "NOT_FOUND", "{}", language.name);
    }
}
