//! InteractionService and recorded rounds over a real connection.

#![allow(missing_docs)]

use std::sync::Arc;

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, handler},
    interaction::{document, store::open},
    runner::Recorder,
    service::{ActionApi, InteractionApi},
    wire::{
        Chunk, Code, NodeFragment, Reason, Status,
        pb::{
            self, Interaction, RecordForm, Role, action_service_client::ActionServiceClient,
            action_service_server::ActionServiceServer, append_interaction_request as append,
            interaction_record::Body, interaction_service_client::InteractionServiceClient,
            interaction_service_server::InteractionServiceServer,
            stream_actions_from_interaction_response::Event,
            validate_interaction_request as validation, watch_interactions_response as watched,
        },
    },
};
use prost::Message as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};

struct Service {
    interactions: InteractionServiceClient<Channel>,
    actions: ActionServiceClient<Channel>,
    _folder: tempfile::TempDir,
}

async fn service() -> Service {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let store = open(path.to_str().expect("UTF-8")).await.expect("opens");
    let registry = Arc::new(Registry::new());
    let echo = handler(|context: Context| async move {
        let word: String = context.read("word").await?;
        context.log(format!("said {word}"));
        context.write("echoed", &word).await
    });
    let schema = ActionSchema::builder("echo")
        .input(Port::text("word").required())
        .output(Port::text("echoed"));
    registry.register(schema.build(), echo).expect("registered");
    let actions = ActionApi::new(registry).recording(Recorder::new(store.clone()));
    let channel = serve(actions, InteractionApi::new(store)).await;
    Service {
        interactions: InteractionServiceClient::new(channel.clone()),
        actions: ActionServiceClient::new(channel),
        _folder: folder,
    }
}

async fn serve(actions: ActionApi, interactions: InteractionApi) -> Channel {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let server = Server::builder()
        .add_service(ActionServiceServer::new(actions))
        .add_service(InteractionServiceServer::new(interactions))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("a URL");
    endpoint.connect().await.expect("connected")
}

fn turn(id: &str) -> Interaction {
    Interaction {
        id: id.to_owned(),
        role: Role::User as i32,
        content: vec![Chunk::text("hello")],
        ..Interaction::default()
    }
}

/// Appended as the message's own field.
fn typed(interaction: &Interaction) -> append::Body {
    append::Body::Interaction(interaction.encode_to_vec().into())
}

async fn append(service: &mut Service, body: append::Body) -> Result<(u64, bool), Status> {
    let request = pb::AppendInteractionRequest { conversation: "c".into(), body: Some(body) };
    let response = service.interactions.append_interaction(request).await?.into_inner();
    assert!(response.appended_at.is_some());
    Ok((response.position, response.existed))
}

#[track_caller]
fn reason<T: std::fmt::Debug>(result: Result<T, impl Into<Status>>) -> Reason {
    result.expect_err("refused").into().reason
}

#[tokio::test]
async fn what_is_appended_is_got_listed_and_watched_in_either_form() {
    let mut service = service().await;
    let json = "{\"id\":\"b\", \"role\":\"model\", \"unknown\": 1}";
    let encoded =
        pb::EncodedInteraction { media_type: document::PORTABLE_JSON.into(), data: json.into() };
    assert_eq!(append(&mut service, typed(&turn("a"))).await, Ok((1, false)));
    let body = append::Body::Encoded(encoded.clone());
    assert_eq!(append(&mut service, body.clone()).await, Ok((2, false)));
    assert_eq!(append(&mut service, body).await, Ok((2, true)));

    let get = |form: RecordForm| pb::GetInteractionRequest {
        conversation: "c".into(),
        id: "b".into(),
        form: form as i32,
    };
    let got = service.interactions.get_interaction(get(RecordForm::Unspecified)).await;
    let record = got.expect("there").into_inner().record.expect("set");
    assert_eq!((record.position, record.body), (2, Some(Body::Encoded(encoded))));
    let got = service.interactions.get_interaction(get(RecordForm::Decoded)).await;
    let record = got.expect("there").into_inner().record.expect("set");
    let Some(Body::Interaction(decoded)) = record.body else { panic!("{:?}", record.body) };
    assert_eq!((decoded.id.as_str(), decoded.role()), ("b", Role::Model));

    let mut list = pb::ListInteractionsRequest {
        conversation: "c".into(),
        page_size: 1,
        ..Default::default()
    };
    let page = service.interactions.list_interactions(list.clone()).await.expect("listed");
    assert_eq!(page.get_ref().next_after_position, 1);
    list.after_position = 1;
    let page = service.interactions.list_interactions(list).await.expect("listed").into_inner();
    assert_eq!((page.records[0].id.as_str(), page.next_after_position), ("b", 0));

    let watch = pb::WatchInteractionsRequest {
        conversation: "c".into(),
        after_position: 1,
        form: RecordForm::Decoded as i32,
    };
    let watched = service.interactions.watch_interactions(watch).await.expect("watched");
    let mut watched = watched.into_inner();
    append(&mut service, typed(&turn("d"))).await.expect("appended");
    let mut seen = vec![];
    while seen.len() < 3 {
        seen.push(match watched.message().await.expect("goes on").expect("more").event {
            Some(watched::Event::Record(record)) => record.id,
            Some(watched::Event::CaughtUp(_)) => "caught up".to_owned(),
            None => panic!("an empty event"),
        });
    }
    // It catches up before or after what was appended meanwhile.
    seen.retain(|seen| seen != "caught up");
    assert_eq!(seen, ["b", "d"]);
}

#[tokio::test]
async fn what_cannot_be_kept_or_is_not_there_is_refused_with_its_reason() {
    let mut service = service().await;
    append(&mut service, typed(&turn("a"))).await.expect("appended");
    let other = Interaction { model: "m".into(), ..turn("a") };
    let lost = Interaction { previous_interaction_id: "z".into(), ..turn("b") };
    let mut check = async |interaction, expected| {
        let refused = append(&mut service, typed(&interaction)).await;
        assert_eq!(reason(refused), expected);
    };
    check(other, Reason::InteractionConflict).await;
    check(lost, Reason::MissingPrevious).await;
    check(turn(""), Reason::InvalidRequest).await;
    check(turn("a\0"), Reason::InvalidRequest).await;
    check(Interaction { role: 9, ..turn("b") }, Reason::InvalidRequest).await;
    let mut request =
        pb::GetInteractionRequest { conversation: "c".into(), id: "b".into(), form: 0 };
    let got = service.interactions.get_interaction(request.clone()).await;
    assert_eq!(reason(got), Reason::UnknownInteraction);
    request.conversation = "d".into();
    let got = service.interactions.get_interaction(request.clone()).await;
    assert_eq!(reason(got), Reason::UnknownConversation);
    request.form = 77;
    let got = service.interactions.get_interaction(request).await;
    assert_eq!(reason(got), Reason::InvalidRequest);
    let gone = pb::DeleteConversationRequest { conversation: "c".into() };
    let deleted = service.interactions.delete_conversation(gone.clone()).await.expect("deleted");
    assert_eq!(deleted.into_inner().deleted, 1);
    let again = service.interactions.delete_conversation(gone).await;
    assert_eq!(reason(again), Reason::UnknownConversation);
}

#[tokio::test]
async fn an_export_is_imported_elsewhere() {
    let mut service = service().await;
    for id in ["a", "b"] {
        append(&mut service, typed(&turn(id))).await.expect("appended");
    }
    let export = pb::ExportConversationRequest { conversation: "c".into(), after_position: 0 };
    let mut exported =
        service.interactions.export_conversation(export).await.expect("exported").into_inner();
    let mut import = vec![];
    while let Some(pb::ExportConversationResponse { json_lines }) =
        exported.message().await.expect("goes on")
    {
        import.push(pb::ImportConversationRequest { conversation: "d".into(), json_lines });
    }
    let import = tokio_stream::iter(import);
    let imported = service.interactions.import_conversation(import).await.expect("imported");
    assert_eq!((imported.get_ref().appended, imported.get_ref().existed), (2, 0));
    let list = pb::ListConversationsRequest { page_size: 1, ..Default::default() };
    let found = service.interactions.list_conversations(list).await.expect("listed").into_inner();
    assert_eq!((found.conversations[0].name.as_str(), found.conversations[0].length), ("c", 2));
    assert_eq!(found.next_page_token, "c");
}

#[tokio::test]
async fn a_server_without_a_store_validates_and_says_so_otherwise() {
    let channel = serve(ActionApi::new(Arc::default()), InteractionApi::without_store()).await;
    let mut interactions = InteractionServiceClient::new(channel.clone());
    let list = interactions.list_conversations(pb::ListConversationsRequest::default()).await;
    assert_eq!(reason(list), Reason::Unsupported);
    let round = pb::ExecuteActionsFromInteractionRequest {
        interaction: Some(turn("a").encode_to_vec().into()),
        store: true,
        conversation: "c".into(),
        ..Default::default()
    };
    let refused = ActionServiceClient::new(channel).execute_actions_from_interaction(round).await;
    assert_eq!(reason(refused), Reason::Unsupported);
    let mut check = async |body, valid, field: &str| {
        let request = pb::ValidateInteractionRequest { body: Some(body) };
        let response = interactions.validate_interaction(request).await.expect("validated");
        let pb::ValidateInteractionResponse { valid: found, problems } = response.into_inner();
        assert_eq!(found, valid, "{problems:?}");
        assert_eq!(problems.first().map_or("", |problem| problem.field.as_str()), field);
    };
    check(validation::Body::Interaction(turn("a")), true, "").await;
    let json = "{\"id\":\"a\",\"role\":\"user\",\"action_calls\":[{\"id\":\"-\",\"name\":\"x\"}]}";
    check(validation::Body::InteractionJson(json.into()), false, "action_calls[0].id").await;
    let mut twice = turn("a");
    twice.role = 9;
    check(validation::Body::Interaction(twice), false, "role").await;
}

/// What Anthropic answers with one call of `echo`.
const REPLY: &str = r#"{"id":"msg_1","type":"message","role":"assistant","stop_reason":"tool_use",
    "content":[{"type":"tool_use","id":"toolu_1","name":"echo","input":{"word":"hi"}}]}"#;

#[tokio::test]
async fn a_recorded_round_is_in_the_conversation_and_runs_once() {
    let mut service = service().await;
    let mut request = pb::ExecuteActionsFromInteractionRequest {
        interaction_json: REPLY.into(),
        allowed_actions: vec!["echo".into()],
        store: true,
        ..Default::default()
    };
    let refused = service.actions.execute_actions_from_interaction(request.clone()).await;
    assert_eq!(reason(refused), Reason::InvalidRequest);
    request.interaction_id = "t1".into();
    let refused = service.actions.execute_actions_from_interaction(request.clone()).await;
    assert_eq!(reason(refused), Reason::InvalidRequest);
    request.conversation = "c".into();
    let first = service.actions.execute_actions_from_interaction(request.clone()).await;
    let first = first.expect("ran").into_inner();
    assert_eq!(first.results[0].status.as_ref().map(|status| status.code), Some(Code::Ok as i32));
    assert_eq!(first.messages.len(), 1);
    let again = service.actions.execute_actions_from_interaction(request.clone()).await;
    assert_eq!(again.expect("found").into_inner(), first);
    // The same as events: what ran before is told by its summary alone.
    let events = pb::StreamActionsFromInteractionRequest { request: Some(request) };
    let events = service.actions.stream_actions_from_interaction(events).await.expect("found");
    let event = events.into_inner().message().await.expect("goes on").expect("one").event;
    assert_eq!(event, Some(Event::Summary(first.clone())));

    let list = pb::ListInteractionsRequest {
        conversation: "c".into(),
        form: RecordForm::Decoded as i32,
        ..Default::default()
    };
    let records = service.interactions.list_interactions(list).await.expect("listed").into_inner();
    let turns: Vec<_> = records
        .records
        .into_iter()
        .map(|record| match record.body {
            Some(Body::Interaction(interaction)) => interaction,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(turns.len(), 2);
    assert_eq!((turns[0].id.as_str(), turns[0].role()), ("t1", Role::Model));
    assert_eq!(turns[0].content[0].data().as_ref(), REPLY.as_bytes());
    assert_eq!(Some(&turns[1]), first.interaction.as_ref());
    assert_eq!(turns[1].previous_interaction_id, "t1");
}

#[tokio::test]
async fn a_typed_turn_is_kept_as_it_came_whatever_its_call_ids() {
    let mut service = service().await;
    let fragments = |id: &str| {
        let chunk = Chunk::new("application/json", "\"hi\"");
        pb::NodeFragments { fragments: vec![NodeFragment::last(id, chunk)] }
    };
    let call =
        |id: &str| pb::ActionMessage { id: id.into(), name: "echo".into(), ..Default::default() };
    let odd = "functions.echo:0";
    let turn = Interaction {
        id: "t1".into(),
        role: Role::Model as i32,
        action_calls: vec![call(odd), call("c2")],
        action_inputs: [(odd.into(), fragments("word")), ("c2".into(), fragments("word"))].into(),
        ..Interaction::default()
    };
    // Field 1,000, which is not known here, of the turn and of a call in it.
    let mut bytes = turn.encode_to_vec();
    bytes.extend_from_slice(&[0xc0, 0x3e, 7]);
    bytes.extend_from_slice(&[0x52, 17, 0x0a, 2, b'c', b'3', 0x12, 4, b'e', b'c', b'h', b'o']);
    bytes.extend_from_slice(&[0xc2, 0x3e, 2, b'h', b'i', 0x18 | 2, 0]);
    let bytes = bytes::Bytes::from(bytes);
    let request = pb::ExecuteActionsFromInteractionRequest {
        interaction: Some(bytes.clone()),
        allowed_actions: vec!["echo".into()],
        backend: pb::Backend::Gpt as i32,
        store: true,
        conversation: "c".into(),
        ..Default::default()
    };
    let ran = service.actions.execute_actions_from_interaction(request.clone()).await;
    let ran = ran.expect("ran").into_inner();
    let codes: Vec<_> = ran
        .results
        .iter()
        .map(|result| (result.id.as_str(), result.status.as_ref().map(|status| status.code)))
        .collect();
    let missing = Code::InvalidArgument as i32;
    assert_eq!(codes, [(odd, Some(0)), ("c2", Some(0)), ("c3", Some(missing))]);
    assert!(ran.messages[0].contains(odd), "{:?}", ran.messages);
    let again = service.actions.execute_actions_from_interaction(request.clone()).await;
    assert_eq!(again.expect("found").into_inner(), ran);

    // As it came, wherever it is moved to.
    let export = pb::ExportConversationRequest { conversation: "c".into(), after_position: 0 };
    let mut exported =
        service.interactions.export_conversation(export).await.expect("exported").into_inner();
    let json_lines = exported.message().await.expect("goes on").expect("lines").json_lines;
    let import = pb::ImportConversationRequest { conversation: "d".into(), json_lines };
    let import = tokio_stream::iter([import]);
    service.interactions.import_conversation(import).await.expect("imported");
    for conversation in ["c", "d"] {
        let get = pb::GetInteractionRequest {
            conversation: conversation.into(),
            id: "t1".into(),
            form: 0,
        };
        let got = service.interactions.get_interaction(get).await.expect("there").into_inner();
        let Some(Body::Encoded(encoded)) = got.record.expect("set").body else { panic!("decoded") };
        assert_eq!(
            (encoded.data, encoded.media_type.as_str()),
            (bytes.clone(), document::PROTOBUF)
        );
    }
    // Appended, it is the same; and an id that is given beside is added to it.
    let again = append(&mut service, append::Body::Interaction(bytes.clone())).await;
    assert_eq!(again, Ok((1, true)));
    let nameless = bytes.slice(4..);
    assert_eq!(Interaction::decode(nameless.clone()).expect("a turn").id, "");
    let request = pb::ExecuteActionsFromInteractionRequest {
        interaction: Some(nameless.clone()),
        interaction_id: "t9".into(),
        ..request
    };
    service.actions.execute_actions_from_interaction(request).await.expect("ran");
    let get = pb::GetInteractionRequest { conversation: "c".into(), id: "t9".into(), form: 0 };
    let got = service.interactions.get_interaction(get).await.expect("there").into_inner();
    let Some(Body::Encoded(encoded)) = got.record.expect("set").body else { panic!("decoded") };
    assert!(encoded.data.starts_with(&nameless), "{:?}", encoded.data);
}

#[tokio::test]
async fn a_page_token_that_cannot_be_is_named_as_what_it_is() {
    let mut service = service().await;
    let request = pb::ListConversationsRequest { page_token: "a\nb".into(), ..Default::default() };
    let refused = service.interactions.list_conversations(request).await;
    let status = Status::from(refused.expect_err("is refused"));
    assert_eq!(status.reason, Reason::InvalidRequest);
    assert!(status.message.starts_with("page_token "), "{status}");
}

#[tokio::test]
async fn a_kept_conversation_is_converted_for_another_provider() {
    let mut service = service().await;
    let request = pb::ExecuteActionsFromInteractionRequest {
        interaction_json: REPLY.into(),
        allowed_actions: vec!["echo".into()],
        store: true,
        conversation: "c".into(),
        interaction_id: "t1".into(),
        ..Default::default()
    };
    service.actions.execute_actions_from_interaction(request).await.expect("ran");
    let mut request = pb::ConvertInteractionsRequest {
        conversation: "c".into(),
        to: pb::Backend::Gpt as i32,
        ..Default::default()
    };
    let converted = service.interactions.convert_interactions(request.clone()).await;
    let messages = converted.expect("converted").into_inner().messages;
    let messages: Vec<serde_json::Value> =
        messages.iter().map(|json| serde_json::from_str(json).expect("JSON")).collect();
    assert_eq!(messages[0]["tool_calls"][0]["function"]["name"], "echo");
    assert_eq!(messages[1]["role"], "tool");
    request.dialect = "responses".into();
    let converted = service.interactions.convert_interactions(request.clone()).await;
    assert!(converted.expect("converted").get_ref().messages[0].contains("function_call"));
    request.dialect = "odd".into();
    let refused = service.interactions.convert_interactions(request).await;
    assert_eq!(reason(refused), Reason::InvalidRequest);

    let normalize = pb::NormalizeInteractionRequest {
        body: Some(pb::normalize_interaction_request::Body::Interaction(Interaction {
            role: Role::Model as i32,
            content: vec![Chunk::new("application/json", REPLY)],
            ..Interaction::default()
        })),
    };
    let normalized = service.interactions.normalize_interaction(normalize).await;
    let parts = normalized.expect("normalized").into_inner().parts;
    let Some(pb::normalized_part::Part::ToolCall(call)) = &parts[0].part else {
        panic!("{parts:?}")
    };
    assert_eq!((call.id.as_str(), call.name.as_str()), ("toolu_1", "echo"));
}
