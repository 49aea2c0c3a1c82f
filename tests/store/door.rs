//! The doors of a store, over a connection: what comes through any of them comes
//! back equal, and what could not is refused with the reason and leaves nothing.

use std::sync::Arc;

use a11_grpc::{
    client::MAX_MESSAGE_BYTES,
    interaction::{
        Interaction, document,
        store::{MAX_RECORD_BYTES, Store},
    },
    service::InteractionApi,
    wire::{
        Chunk, Code, Reason, Status,
        pb::{
            self, EncodedInteraction, RecordForm, append_interaction_request::Body,
            interaction_record, interaction_service_client::InteractionServiceClient,
            interaction_service_server::InteractionServiceServer,
        },
    },
};
use bytes::Bytes;
use futures::StreamExt as _;
use prost::Message as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};

type Client = InteractionServiceClient<Channel>;

async fn serve(store: Arc<dyn Store>) -> Client {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let service = InteractionServiceServer::new(InteractionApi::new(store))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let server = Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    let client = Client::connect(format!("http://{address}")).await.expect("connected");
    client.max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// The ways in.
const DOORS: [&str; 3] = ["typed", "encoded", "line"];

/// Brings an interaction in, in its own conversation; `None` for a door that it
/// does not fit.
async fn enter(
    client: &mut Client,
    door: &str,
    conversation: &str,
    (bytes, media_type): &(Bytes, &'static str),
) -> Option<Result<(), Status>> {
    let is_protobuf = *media_type == document::PROTOBUF;
    let conversation = conversation.to_owned();
    let body = match door {
        "typed" if is_protobuf => Body::Interaction(bytes.clone()),
        "typed" => return None,
        "encoded" => Body::Encoded(EncodedInteraction {
            media_type: (*media_type).to_owned(),
            data: bytes.clone(),
        }),
        _ if is_protobuf => return None,
        _ => {
            let request = pb::ImportConversationRequest { conversation, json_lines: bytes.clone() };
            let imported = client.import_conversation(tokio_stream::iter([request])).await;
            return Some(imported.map(|_| ()).map_err(Status::from));
        }
    };
    let request = pb::AppendInteractionRequest { conversation, body: Some(body) };
    Some(client.append_interaction(request).await.map(|_| ()).map_err(Status::from))
}

async fn get(
    client: &mut Client,
    conversation: &str,
    form: RecordForm,
) -> interaction_record::Body {
    let request = pb::GetInteractionRequest {
        conversation: conversation.to_owned(),
        id: "x".to_owned(),
        form: form as i32,
    };
    let response = client.get_interaction(request).await.expect("there").into_inner();
    response.record.expect("set").body.expect("set")
}

/// What is exported and imported as another conversation.
async fn moved(client: &mut Client, from: &str, to: &str) {
    let request = pb::ExportConversationRequest { conversation: from.into(), after_position: 0 };
    let mut exported = client.export_conversation(request).await.expect("exported").into_inner();
    let json_lines = exported.message().await.expect("exported").expect("a line").json_lines;
    let request = pb::ImportConversationRequest { conversation: to.into(), json_lines };
    client.import_conversation(tokio_stream::iter([request])).await.expect("imported");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Refused,
}

async fn check(client: &mut Client, number: usize, came: &(Bytes, &'static str), fate: Fate) {
    let shown: String = String::from_utf8_lossy(&came.0).chars().take(120).collect();
    for door in DOORS {
        let name = format!("{number}-{door}");
        let Some(entered) = enter(client, door, &name, came).await else { continue };
        if fate == Fate::Refused {
            let status = entered.expect_err(&shown);
            assert_eq!(status.code, Code::InvalidArgument, "{door}: {shown}: {status}");
            let request = pb::GetInteractionRequest { conversation: name, ..Default::default() };
            client.get_interaction(request).await.expect_err("nothing is there");
            continue;
        }
        entered.unwrap_or_else(|status| panic!("{door}: {shown}: {status}"));
        let copy = format!("{name}-moved");
        moved(client, &name, &copy).await;
        let decoded = get(client, &name, RecordForm::Decoded).await;
        assert_eq!(get(client, &copy, RecordForm::Decoded).await, decoded, "{door}: {shown}");
        for name in [name, copy] {
            let encoded = get(client, &name, RecordForm::Encoded).await;
            let interaction_record::Body::Encoded(encoded) = encoded else { panic!("decoded") };
            if door != "line" || encoded.media_type == came.1 {
                assert_eq!(encoded.data, came.0, "{door}: {shown}");
            }
        }
    }
}

fn protobuf(interaction: Interaction) -> (Bytes, &'static str) {
    let interaction = Interaction { id: "x".into(), ..interaction };
    (interaction.encode_to_vec().into(), document::PROTOBUF)
}

/// An interaction whose status says more, in one JSON text.
fn detailed(detail: impl Into<String>) -> (Bytes, &'static str) {
    let details = vec![detail.into()];
    let status = pb::Status { code: 3, details, ..Default::default() };
    protobuf(Interaction { status: Some(status), ..Default::default() })
}

/// Portable JSON with these fields beside the id.
fn portable(fields: &str) -> (Bytes, &'static str) {
    (format!("{{\"id\":\"x\",{fields}}}").into(), document::PORTABLE_JSON)
}

fn nested(depth: usize) -> String {
    format!("{}1{}", "[".repeat(depth), "]".repeat(depth))
}

pub async fn what_is_kept_is_read_back_and_the_rest_is_refused_at_the_door(store: Arc<dyn Store>) {
    use Fate::{Kept, Refused};
    let detail = |json: &str| portable(&format!("\"status\":{{\"code\":3,\"details\":[{json}]}}"));
    let mut unknown = protobuf(Interaction::default());
    unknown.0 = [unknown.0.as_ref(), &[0xc0, 0x3e, 7]].concat().into();
    let json = Chunk::new("application/json", "{\"a\":\"\\ud800\",\"b\":NaN}");
    let mut cases = vec![
        // null in a JSON value
        (detailed("{\"a\":null}"), Kept),
        (detail("{\"a\":[null]}"), Kept),
        (portable("\"model\":null,\"usage_metadata\":null"), Kept),
        // NaN
        (detailed("NaN"), Refused),
        (detail("NaN"), Refused),
        (portable("\"usage_metadata\":{\"input_tokens\":NaN}"), Refused),
        // 2^63 - 1, and what lies beyond
        (detailed("9223372036854775807"), Kept),
        (detail("[9223372036854775807,18446744073709551615]"), Kept),
        (portable("\"created_at_millis\":9223372036854775807"), Kept),
        (portable("\"created_at_millis\":9223372036854775808"), Refused),
        (portable("\"usage_metadata\":{\"input_tokens\":18446744073709551615}"), Kept),
        (portable("\"usage_metadata\":{\"input_tokens\":18446744073709551616}"), Refused),
        (protobuf(Interaction { created_at_millis: Some(i64::MAX), ..Default::default() }), Kept),
        (protobuf(Interaction { created_at_millis: Some(i64::MIN), ..Default::default() }), Kept),
        // URL-safe base64, which the portable form refuses
        (portable("\"content\":[{\"data\":\"_-8=\"}]"), Refused),
        (portable("\"content\":[{\"data\":\"/+8=\"}]"), Kept),
        // unknown fields and numbers of enums
        (unknown, Kept),
        (portable("\"colour\":{\"a\":[1.50,null]},\"role\":\"model\""), Kept),
        (protobuf(Interaction { role: 9, ..Default::default() }), Refused),
        (portable("\"role\":\"narrator\""), Refused),
        (portable("\"status\":{\"code\":17}"), Refused),
        (
            protobuf(Interaction {
                status: Some(pb::Status { reason: 999, ..Default::default() }),
                ..Default::default()
            }),
            Refused,
        ),
        // a lone surrogate
        (detailed("\"\\ud800\""), Refused),
        (detail("\"\\ud800\""), Refused),
        (portable("\"model\":\"\\udc00\""), Refused),
        (portable("\"model\":\"\\ud83d\\ude00\""), Kept),
        // what a payload holds is nobody's business here
        (protobuf(Interaction { content: vec![json], ..Default::default() }), Kept),
        // not the message at all
        ((Bytes::from_static(b"\xff\xff"), document::PROTOBUF), Refused),
        ((Bytes::from_static(b"{\"id\":\"x\""), document::PORTABLE_JSON), Refused),
        (portable(&format!("\"unknown\":{},\"role\":\"user\"", nested(101))), Kept),
    ];
    for depth in [30, 33, 40, 101] {
        cases.push((detailed(nested(depth)), Kept));
        cases.push((detail(&nested(depth)), Kept));
    }
    let mut client = serve(store).await;
    for (number, (came, fate)) in cases.iter().enumerate() {
        check(&mut client, number, came, *fate).await;
    }
    // Somewhere it ends, and the same for what is typed and what is JSON: what is
    // taken can be written and read again.
    for depth in 115..135 {
        for came in [detailed(nested(depth)), detail(&nested(depth))] {
            let name = format!("deep-{depth}-{}", came.1.contains("json"));
            if let Some(Ok(())) = enter(&mut client, "encoded", &name, &came).await {
                moved(&mut client, &name, &format!("{name}-moved")).await;
            }
        }
    }
}

pub async fn the_largest_interaction_is_handed_out_in_every_form(store: Arc<dyn Store>) {
    let of_bytes = |id: &str, bytes: usize| {
        let mut interaction = Interaction { id: id.to_owned(), ..Default::default() };
        interaction.content = vec![Chunk::new("image/png", "")];
        // Tags and lengths around the payload.
        let around = interaction.encoded_len() + 3 * 4;
        interaction.content = vec![Chunk::new("image/png", vec![7; bytes - around])];
        Body::Encoded(EncodedInteraction {
            media_type: document::PROTOBUF.to_owned(),
            data: interaction.encode_to_vec().into(),
        })
    };
    let mut client = serve(store).await;
    let append =
        |body| pb::AppendInteractionRequest { conversation: "large".to_owned(), body: Some(body) };
    let too_large = append(of_bytes("z", MAX_RECORD_BYTES + 100));
    let status = client.append_interaction(too_large).await.expect_err("too large");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    // The page goes on after one that nearly fills it.
    for (id, bytes) in [("a", 4_100_000), ("x", MAX_RECORD_BYTES), ("b", 1_000)] {
        client.append_interaction(append(of_bytes(id, bytes))).await.expect(id);
    }
    for form in [RecordForm::Encoded, RecordForm::Decoded] {
        get(&mut client, "large", form).await;
        let (mut ids, mut after_position) = (String::new(), 0);
        while ids.len() < 3 {
            let request = pb::ListInteractionsRequest {
                conversation: "large".to_owned(),
                after_position,
                form: form as i32,
                ..Default::default()
            };
            let page = client.list_interactions(request).await.expect("a page").into_inner();
            ids.extend(page.records.iter().map(|record| record.id.as_str()));
            after_position = page.records.last().expect("at least one").position;
        }
        assert_eq!(ids, "axb");
    }
    let request = pb::ExportConversationRequest { conversation: "large".into(), after_position: 0 };
    let exported = client.export_conversation(request).await.expect("exported").into_inner();
    let lines: Vec<_> = exported.map(|lines| lines.expect("lines")).collect().await;
    let lines = lines.into_iter().map(|lines| pb::ImportConversationRequest {
        conversation: "copy".into(),
        json_lines: lines.json_lines,
    });
    let lines: Vec<_> = lines.collect();
    client.import_conversation(tokio_stream::iter(lines)).await.expect("imported");
    let copy = get(&mut client, "copy", RecordForm::Encoded).await;
    assert_eq!(copy, get(&mut client, "large", RecordForm::Encoded).await);
}

pub async fn forks_are_listed_a_page_at_a_time(store: Arc<dyn Store>) {
    let mut client = serve(store).await;
    let turns = [("a", ""), ("b", "a"), ("c", "a"), ("d", "b"), ("e", "c"), ("f", "c"), ("g", "a")];
    for (id, previous) in turns {
        let turn = Interaction {
            id: id.to_owned(),
            previous_interaction_id: previous.to_owned(),
            ..Interaction::default()
        };
        let body = Some(Body::Interaction(turn.encode_to_vec().into()));
        let request = pb::AppendInteractionRequest { conversation: "c".to_owned(), body };
        client.append_interaction(request).await.expect("appended");
    }
    let mut check = async |after_position, page_size, forks: &[(&str, u64, &[&str])], next| {
        let conversation = "c".to_owned();
        let request = pb::ListForksRequest { conversation, after_position, page_size };
        let listed = client.list_forks(request).await.expect("listed").into_inner();
        let fork = |&(id, position, next_ids): &(&str, u64, &[&str])| pb::Fork {
            id: id.to_owned(),
            position,
            next_ids: next_ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        assert_eq!(listed.forks, forks.iter().map(fork).collect::<Vec<_>>());
        assert_eq!(listed.next_after_position, next);
    };
    let (of_a, of_c) = (("a", 1, &["b", "c", "g"][..]), ("c", 3, &["e", "f"][..]));
    check(0, 0, &[of_a, of_c], 0).await;
    check(0, 1, &[of_a], 1).await;
    check(1, 1, &[of_c], 0).await;
    check(3, 0, &[], 0).await;
    let unknown = pb::ListForksRequest { conversation: "d".to_owned(), ..Default::default() };
    let refused = Status::from(client.list_forks(unknown).await.expect_err("refused"));
    assert_eq!(refused.reason, Reason::UnknownConversation);
}
