//! `a11-grpc conversation` over a store of its own, and over a server's.

#![allow(missing_docs)]

#[cfg(unix)]
#[path = "support/postgres.rs"]
#[allow(dead_code, unreachable_pub)]
mod postgres;

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use a11_grpc::{
    client::{actions, connect},
    interaction::store::open,
    serve::{self, Options},
    wire::{base64, pb},
};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a11-grpc"));
    for variable in ["A11_SERVER_URL", "A11_STORE", "A11_CONFIG", "A11_LOG"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// Standard output, and the exit code.
fn run(arguments: &[&str], folder: &Path) -> (String, Option<i32>) {
    let output = program().current_dir(folder).args(arguments).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (if text.is_empty() { error } else { text }, output.status.code())
}

const LINES: &str = "{\"id\":\"a\",\"role\":\"user\",\"content\":[{\"data\":\"aGVsbG8=\",\
    \"metadata\":{\"mimetype\":\"text/plain\"}}]}\n\
    {\"id\":\"b\",\"role\":\"model\",\"model\":\"m-1\",\"previous_interaction_id\":\"a\",\
    \"content\":[{\"data\":\"PGI+aGk8L2I+\",\"metadata\":{\"mimetype\":\"text/plain\"}}]}\n";

#[test]
fn a_conversation_is_imported_listed_shown_and_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    check_commands(folder.path(), "store.db");
    let (error, code) = run(&["conversation", "list", "--store", "typo.db"], folder.path());
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("there is no \"typo.db\""), "{error}");
    assert!(!folder.path().join("typo.db").exists(), "nothing is made");
    let (error, code) = run(&["conversation", "list"], folder.path());
    assert_eq!(code, Some(2), "{error}");
    let (error, code) = run(&["conversation", "list", "--store", "redis://x"], folder.path());
    assert_eq!(code, Some(2), "{error}");
}

#[cfg(unix)]
#[test]
fn the_same_commands_work_on_postgres() {
    let Some(server) = postgres::Server::start() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    check_commands(folder.path(), &runtime.block_on(server.fresh_url("commands")));
}

/// All that a conversation goes through, in a store that is empty.
fn check_commands(folder: &Path, store: &str) {
    let check = |arguments: &[&str], expected: &str| {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--store", store]);
        let (output, code) = run(&arguments, folder);
        assert_eq!(code, Some(0), "{output}");
        assert!(output.contains(expected), "{arguments:?}: {output}");
        output
    };
    std::fs::write(folder.join("in.jsonl"), LINES).expect("written");
    check(&["conversation", "import", "c", "in.jsonl"], "2 appended, 0 there already");
    check(&["conversation", "import", "c", "in.jsonl"], "0 appended, 2 there already");
    check(&["conversation", "list"], "2  c\n");
    // When it was appended stands in between.
    let shown = check(&["conversation", "show", "c"], "── user · 2");
    assert!(shown.contains("+00:00 · a\nhello\n\n── model · m-1 · 2"), "{shown}");
    assert!(shown.ends_with("+00:00 · b\n<b>hi</b>\n\n"), "{shown}");
    let json = check(&["conversation", "show", "c", "--json"], "\"id\":\"a\"");
    assert_eq!(json.lines().count(), 2, "{json}");
    check(&["conversation", "show", "c", "--html", "c.html"], "");
    let page = std::fs::read_to_string(folder.join("c.html")).expect("written");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("&lt;b&gt;hi&lt;/b&gt;"), "{page}");
    let exported = check(&["conversation", "export", "c"], "a11_record");
    std::fs::write(folder.join("out.jsonl"), &exported).expect("written");
    check(&["conversation", "import", "d", "out.jsonl"], "2 appended");
    let (error, code) = run(&["conversation", "show", "z", "--store", store], folder);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("no conversation"), "{error}");
}

/// A picture of 69 bytes.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaPgPAAJjAaB56d6t\
    AAAAAElFTkSuQmCC";

#[test]
fn pictures_are_noted_in_a_transcript_and_shown_on_its_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = |media_type: &str, data: &str| {
        format!(r#"{{"data":"{data}","metadata":{{"mimetype":"{media_type}"}}}}"#)
    };
    // As one is kept elsewhere, as a tool gave one, and as a browser never shows one.
    let result = serde_json::json!({"role": "user", "content": [{"type": "tool_result",
        "tool_use_id": "c1", "content": [{"type": "image", "source": {"type": "base64",
        "media_type": "image/png", "data": PNG}}]}]});
    let result = base64::encode(result.to_string().as_bytes());
    let (png, svg) = (picture("image/png", PNG), picture("image/svg+xml", "PHN2Zy8+"));
    let elsewhere = r#"{"ref":"https://example.com/a.png","metadata":{"mimetype":"image/png"}}"#;
    const AT: &str = "\"created_at_millis\":0";
    let lines = format!(
        "{{\"id\":\"a\",{AT},\"role\":\"user\",\"content\":[{png},{svg},{elsewhere}]}}\n\
         {{\"id\":\"b\",{AT},\"role\":\"user\",\"content\":[{}]}}\n",
        picture("application/json", &result),
    );
    std::fs::write(folder.path().join("in.jsonl"), lines).expect("written");
    let run = |arguments: &[&str]| {
        let arguments = [&["conversation"], arguments, &["--store", "store.db"]].concat();
        let (output, code) = run(&arguments, folder.path());
        assert_eq!(code, Some(0), "{output}");
        output
    };
    run(&["import", "c", "in.jsonl"]);
    let shown = "── user · 1970-01-01T00:00:00+00:00 · a\n[picture: image/png, 69 bytes]\n\
        [picture: image/svg+xml, 6 bytes]\n[picture: https://example.com/a.png]\n\n\
        ── tools · 1970-01-01T00:00:00+00:00 · b\n✓ c1 OK\n\
        [picture: image/png, 69 bytes]\n\n";
    assert_eq!(run(&["show", "c"]), shown);
    run(&["show", "c", "--html", "c.html"]);
    let page = std::fs::read_to_string(folder.path().join("c.html")).expect("written");
    let image = format!("<img alt=\"a picture\" src=\"data:image/png;base64,{PNG}\">");
    assert_eq!(page.matches(&image).count(), 2, "{page}");
    assert!(page.contains("[picture: image/svg+xml, 6 bytes]"), "{page}");
    // Nothing is fetched.
    assert!(page.contains("<p>[picture: https://example.com/a.png]</p>"), "{page}");
    assert!(!page.contains("<svg") && !page.contains("src=\"http"), "{page}");
}

/// The example replies, and what they say they cost.
const COSTS: [(&str, &str); 7] = [
    ("claude", "684 in, 0 in from a cache, 0 written to a cache, 163 out"),
    ("openai_chat", "214 in, 0 in from a cache, 78 out, 0 of them reasoning, 292 in all"),
    ("openai_responses", "231 in, 0 in from a cache, 215 out, 128 of them reasoning, 446 in all"),
    ("gemini_generate_content", "158 in, 184 out, 123 of them reasoning, 342 in all"),
    ("gemini_interactions", "158 in, 173 out, 115 of them reasoning, 331 in all"),
    ("ollama", "312 in, 96 out"),
    ("vllm", "298 in, 93 out, 391 in all"),
];

#[tokio::test]
async fn what_a_recorded_reply_cost_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store.db");
    let store = open(store.to_str().expect("UTF-8")).await.expect("opens");
    let options = Options { store: Some(store), ..Options::new("127.0.0.1:0", Arc::default()) };
    let server = serve::Server::bind(options).await.expect("a free port");
    let address = server.address().to_string();
    tokio::spawn(server.run(std::future::pending()));
    let mut client = actions(connect(&address).await.expect("connects"));
    for (name, _) in COSTS {
        let path = format!("{}/examples/replies/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let request = pb::ExecuteActionsFromInteractionRequest {
            interaction_json: std::fs::read_to_string(path).expect("an example"),
            store: true,
            conversation: "c".to_owned(),
            interaction_id: name.to_owned(),
            ..Default::default()
        };
        let ran = client.execute_actions_from_interaction(request.clone()).await;
        let ran = ran.expect(name).into_inner();
        // It is the same turn, whoever is said to have made it.
        let request = pb::ExecuteActionsFromInteractionRequest { backend: ran.backend, ..request };
        let again = client.execute_actions_from_interaction(request).await;
        assert_eq!(again.expect(name).into_inner(), ran, "{name}");
    }
    let place = folder.path().to_owned();
    let show = move |html: &[&str]| {
        let arguments = [&["conversation", "show", "c", "--store", "store.db"], html].concat();
        let (output, code) = run(&arguments, &place);
        assert_eq!(code, Some(0), "{output}");
        output
    };
    let shown = tokio::task::spawn_blocking(move || (show(&[]), show(&["--html", "c.html"])));
    let (text, _) = shown.await.expect("joined");
    let page = std::fs::read_to_string(folder.path().join("c.html")).expect("written");
    for (_, counted) in COSTS {
        assert!(text.contains(&format!("\n  tokens: {counted}\n")), "{counted}: {text}");
        let header = format!("<header>tokens: {counted}</header>");
        assert!(page.contains(&header), "{counted}: {page}");
    }
}

#[cfg(unix)]
#[test]
fn a_conversation_is_deleted_by_who_means_it() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.jsonl"), LINES).expect("written");
    let check = |arguments: &[&str], expected: &str, expected_code: i32| {
        let mut arguments = [&["conversation"], arguments].concat();
        arguments.extend(["--store", "store.db"]);
        let (output, code) = run(&arguments, folder.path());
        assert_eq!((output.as_str(), code), (expected, Some(expected_code)), "{arguments:?}");
    };
    check(&["import", "c", "in.jsonl"], "2 appended, 0 there already\n", 0);
    check(&["import", "cc", "in.jsonl"], "2 appended, 0 there already\n", 0);
    let no_terminal = "error: nothing was deleted: give --yes, there is no terminal to ask on\n";
    check(&["delete", "c"], no_terminal, 2);
    let (answered, code) = delete_on_a_terminal(folder.path(), "n\n");
    assert!(answered.contains("delete c and its 2 interactions? [y/N] "), "{answered}");
    assert!(answered.contains("nothing was deleted") && code == Some(2), "{answered} {code:?}");
    check(&["list"], "      2  c\n      2  cc\n", 0);
    let (answered, code) = delete_on_a_terminal(folder.path(), "Yes\n");
    assert!(answered.contains("2 interactions deleted") && code == Some(0), "{answered} {code:?}");
    check(&["list"], "      2  cc\n", 0);
    check(&["delete", "cc", "--yes"], "2 interactions deleted\n", 0);
    check(&["list"], "", 0);
    let unknown = "error: NOT_FOUND: there is no conversation \"cc\"\n";
    check(&["delete", "cc", "--yes"], unknown, 2);
}

/// What a terminal shows that gives this answer, and the exit code.
#[cfg(unix)]
fn delete_on_a_terminal(folder: &Path, answer: &str) -> (String, Option<i32>) {
    use std::io::Write as _;

    use rustix::pty;
    let terminal = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).expect("opens");
    pty::grantpt(&terminal).expect("granted");
    pty::unlockpt(&terminal).expect("unlocked");
    let name = pty::ptsname(&terminal, vec![]).expect("named").into_string().expect("UTF-8");
    let open = || std::fs::File::options().read(true).write(true).open(&name).expect("opens");
    let mut deleting = program()
        .current_dir(folder)
        .args(["conversation", "delete", "c", "--store", "store.db"])
        .stdin(open())
        .stdout(open())
        .stderr(open())
        .spawn()
        .expect("starts");
    let mut terminal = std::fs::File::from(terminal);
    terminal.write_all(answer.as_bytes()).expect("typed");
    let code = deleting.wait().expect("ended").code();
    // All that was shown is there; what would come after it is an error.
    let mut shown = vec![];
    terminal.read_to_end(&mut shown).ok();
    (String::from_utf8_lossy(&shown).into_owned(), code)
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_server_with_a_store_is_watched() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = program()
        .current_dir(folder.path())
        .args(["serve", "--listen", "127.0.0.1:0", "--store", "store.db"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(server.stderr.take().expect("piped")).lines();
    let server = Server(server);
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
        .expect("it says where");
    let mut watching = program()
        .args(["conversation", "watch", "c", "--json", "--server", &address])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut watched = BufReader::new(watching.stdout.take().expect("piped"));
    std::fs::write(folder.path().join("in.jsonl"), LINES).expect("written");
    let import = ["conversation", "import", "c", "in.jsonl", "--server", &address];
    let (output, code) = run(&import, folder.path());
    assert_eq!((output.as_str(), code), ("2 appended, 0 there already\n", Some(0)));
    let mut line = String::new();
    for id in ["\"a\"", "\"b\""] {
        line.clear();
        watched.read_line(&mut line).expect("a line");
        assert!(line.contains(id), "{line}");
    }
    // The server is gone, and with it the watch.
    drop(server);
    let mut rest = String::new();
    watched.read_to_string(&mut rest).expect("ends");
    assert_eq!((rest.as_str(), watching.wait().expect("ended").code()), ("", Some(3)));
}
