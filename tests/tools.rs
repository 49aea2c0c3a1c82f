//! What a model is told of its tools, and that what it then calls by those names is
//! run, over real connections and for every provider's shape.

#![allow(missing_docs)]

#[path = "support/installed.rs"]
mod installed;
#[path = "support/turns.rs"]
mod turns;

use std::{fs, path::Path, process::Command, sync::Arc};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler, tool_name};
use a11_grpc::client::{Client, Peer, actions, connect};
use a11_grpc::interaction::backend::Dialect;
use a11_grpc::runner::MAX_DECLARED_BYTES;
use a11_grpc::serve::{Options, Server};
use a11_grpc::wire::pb::{self, Backend, stream_actions_from_interaction_response::Event};
use a11_grpc::wire::{Chunk, Reason, Status};
use serde_json::{Value, json};
use tonic::Code;
use turns::{execute_reply, failure};

/// A name of an action that no provider takes.
const ODD: &str = "text#upper";
/// Any client of the service.
type Actions = turns::Client;

struct Service {
    address: String,
}

impl Service {
    async fn start(registry: Arc<Registry>) -> Self {
        let server = Server::bind(Options::new("127.0.0.1:0", registry)).await.expect("a port");
        let address = server.address().to_string();
        tokio::spawn(server.run(std::future::pending()));
        Self { address }
    }

    async fn actions(&self) -> Actions {
        actions(connect(&self.address).await.expect("connects"))
    }

    async fn attached(&self, registry: Registry) -> Client {
        let channel = connect(&self.address).await.expect("connects");
        Peer::host(Arc::new(registry)).connect(channel).await.expect("attaches")
    }
}

/// Says a text in capitals, after a word of its own.
fn add_upper(registry: &Registry, name: &str, word: &'static str) {
    let schema = ActionSchema::builder(name)
        .describe("In capitals.")
        .input(Port::text("text").required())
        .output(Port::text("said").required())
        .map("said", "$");
    let run = move |context: Context| async move {
        let text: String = context.read("text").await?;
        context.write("said", &format!("{word}{}", text.to_uppercase())).await
    };
    registry.register(schema.build(), handler(run)).expect("registers");
}

fn long_name() -> String {
    format!("long_{}", "x".repeat(95))
}

fn registry() -> Arc<Registry> {
    let registry = Registry::new();
    add_upper(&registry, ODD, "");
    add_upper(&registry, "text_upper", "plain ");
    let add = |schema: a11_grpc::action::schema::Builder| {
        registry.register(schema.build(), handler(|_| async { Ok(()) })).expect("registers");
    };
    add(ActionSchema::builder("now"));
    add(ActionSchema::builder(long_name()).input(Port::json("at")));
    let tree = r##"{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}},"size":{"type":"number","minimum":0.10}},"required":["size"]}"##;
    add(ActionSchema::builder("tree").input(Port::json("root").schema(tree).required()));
    add(ActionSchema::builder("collect")
        .input(Port::text("words").stream().required())
        .input(Port::of("picture", "image/png"))
        .input(Port::text("secret").autofill(vec![Chunk::text("s3cret")])));
    registry.declare(ActionSchema::builder("elsewhere").build()).expect("declares");
    Arc::new(registry)
}

fn asking(dialect: Dialect, allowed: &[&str]) -> pb::DeclareToolsRequest {
    pb::DeclareToolsRequest {
        allowed_actions: allowed.iter().map(|pattern| (*pattern).to_owned()).collect(),
        backend: dialect.backend() as i32,
        dialect: dialect.name().to_owned(),
    }
}

async fn declared(client: &mut Actions, request: pb::DeclareToolsRequest) -> (Value, Vec<String>) {
    let pb::DeclareToolsResponse { tools, names } =
        client.declare_tools(request).await.expect("declares").into_inner();
    let tools = tools.iter().map(|tool| serde_json::from_str::<Value>(tool).expect("JSON"));
    let names = names.into_iter().map(|name| {
        assert_eq!(tool_name(&name.action), name.tool);
        name.action
    });
    (tools.collect(), names.collect())
}

#[tokio::test]
async fn what_runs_and_is_allowed_is_declared_with_its_inputs_and_nothing_else() {
    let mut client = Service::start(registry()).await.actions().await;
    let (tools, names) = declared(&mut client, asking(Dialect::Claude, &[".*"])).await;
    let long = long_name();
    assert_eq!(names, ["collect", &long, "now", ODD, "text_upper", "tree"]);
    let tools = tools.as_array().expect("a list");
    let of = |name: &str| {
        let name = tool_name(name);
        tools.iter().find(|tool| tool["name"] == *name).unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(
        *of(ODD),
        json!({"name": tool_name(ODD), "description": "In capitals.", "input_schema":
            {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}),
    );
    assert_eq!(of(&long)["name"].as_str().map(str::len), Some(64));
    assert_eq!(
        *of("now"),
        json!({"name": "now", "input_schema": {"type": "object", "properties": {}}})
    );
    let collect = &of("collect")["input_schema"];
    assert_eq!(
        *collect,
        json!({"type": "object", "required": ["words"], "properties": {
            "words": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "picture": {"type": "string", "contentEncoding": "base64",
                        "contentMediaType": "image/png"}}}),
    );
    let tree = &of("tree")["input_schema"];
    let validator = jsonschema::validator_for(tree).expect("its references resolve");
    assert!(validator.is_valid(&json!({"root": {"size": 1, "children": [{"size": 2}]}})));
    assert!(!validator.is_valid(&json!({"root": {"size": 1, "children": [{}]}})));
}

#[tokio::test]
async fn an_allow_list_sees_real_names_and_none_of_them_lets_no_tool_pass() {
    let mut client = Service::start(registry()).await.actions().await;
    let tool = tool_name(ODD).into_owned();
    let cases: [(&[&str], &[&str]); 5] = [
        (&[], &[]),
        (&["nothing"], &[]),
        (&[ODD, "now"], &["now", ODD]),
        (&[&tool], &[]),
        (&["elsewhere"], &[]),
    ];
    for (allowed, expected) in cases {
        let (tools, names) = declared(&mut client, asking(Dialect::GptChat, allowed)).await;
        assert_eq!(names, expected, "{allowed:?}");
        assert_eq!(tools.as_array().map(Vec::len), Some(expected.len()), "{allowed:?}");
    }
    // The header's list, as for the calls.
    let mut request = tonic::Request::new(asking(Dialect::GptChat, &[]));
    request.metadata_mut().insert("x-a11-allowed-llm-actions", "now,tree".parse().expect("ASCII"));
    let answer = client.declare_tools(request).await.expect("declares").into_inner();
    let names: Vec<_> = answer.names.iter().map(|name| name.action.as_str()).collect();
    assert_eq!(names, ["now", "tree"]);
}

#[tokio::test]
async fn a_request_that_is_wrong_is_refused_and_the_field_named() {
    let mut client = Service::start(registry()).await.actions().await;
    let request = |backend: i32, dialect: &str, pattern: &str| pb::DeclareToolsRequest {
        allowed_actions: vec![pattern.to_owned()],
        backend,
        dialect: dialect.to_owned(),
    };
    let claude = Backend::Claude as i32;
    for (request, reason, names) in [
        (request(0, "", "now"), Reason::InvalidRequest, "backend: required"),
        (request(0, "chat", "now"), Reason::InvalidRequest, "backend: required"),
        (request(99, "", "now"), Reason::InvalidRequest, "backend: 99"),
        (request(claude, "chat", "now"), Reason::InvalidRequest, "dialect: "),
        (request(claude, "", "(now"), Reason::InvalidPattern, "allowed_actions: pattern \"(now\""),
    ] {
        let status = Status::from(client.declare_tools(request).await.expect_err(names));
        assert_eq!((status.code, status.reason), (Code::InvalidArgument, reason), "{status}");
        assert!(status.message.contains(names), "{names}: {status}");
    }
    let mut by_header = tonic::Request::new(asking(Dialect::Claude, &[]));
    by_header.metadata_mut().insert("x-a11-allowed-llm-actions", "[".parse().expect("ASCII"));
    let status = Status::from(client.declare_tools(by_header).await.expect_err("no pattern"));
    assert!(status.message.starts_with("x-a11-allowed-llm-actions: "), "{status}");
}

#[tokio::test]
async fn declarations_that_are_too_large_together_are_refused_and_fewer_are_not() {
    let registry = Registry::new();
    let large = "d".repeat(1_000_000);
    for number in 10..30 {
        let schema = ActionSchema::builder(format!("large_{number}")).describe(&large).build();
        registry.register(schema, handler(|_| async { Ok(()) })).expect("registers");
    }
    let mut client = Service::start(Arc::new(registry)).await.actions().await;
    let refused = client.declare_tools(asking(Dialect::Vllm, &["large_.*"])).await;
    let status = refused.expect_err("too large");
    assert!(status.message().contains(&MAX_DECLARED_BYTES.to_string()), "{status}");
    assert!(status.message().contains("\"large_26\" is one too many"), "{status}");
    assert_eq!(failure(status), (Code::ResourceExhausted, Reason::OutputTooLarge));
    let (_, names) = declared(&mut client, asking(Dialect::Vllm, &["large_1.*"])).await;
    assert_eq!(names.len(), 10);
}

/// A reply that calls `name` with the text `hi`, as the provider sends it.
fn reply(dialect: Dialect, name: &str) -> Value {
    let arguments = json!({"text": "hi"});
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let chat =
        |message: Value| json!({"object": "chat.completion", "choices": [{"message": message}]});
    match dialect {
        Dialect::Claude | Dialect::ClaudeCode => json!({"type": "message", "role": "assistant",
            "content": [{"type": "tool_use", "id": "id1", "name": name, "input": arguments}]}),
        Dialect::Codex | Dialect::GptResponses => json!({"object": "response", "output": [
            {"type": "function_call", "call_id": "id1", "name": name,
             "arguments": arguments.to_string()}]}),
        Dialect::GeminiInteractions => json!({"object": "interaction", "status": "requires_action",
            "steps": [{"type": "function_call", "id": "id1", "name": name,
                       "arguments": arguments}]}),
        Dialect::GeminiGenerateContent => json!({"candidates": [{"content": {"role": "model",
            "parts": [{"functionCall": {"name": name, "args": arguments}}]}}]}),
        Dialect::GptChat | Dialect::Vllm => chat(json!({"role": "assistant", "tool_calls": [
            {"id": "id1", "type": "function", "function": function}]})),
        Dialect::GptFunctions => chat(json!({"role": "assistant", "content": null,
            "function_call": function})),
        Dialect::Ollama => json!({"done": true, "message": {"role": "assistant", "content": "",
            "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}}),
    }
}

/// Whether results are paired with their calls by name.
fn pairs_by_name(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::GeminiGenerateContent | Dialect::GptFunctions | Dialect::Ollama)
}

#[tokio::test]
async fn a_call_by_a_declared_name_is_run_and_its_result_keeps_that_name() {
    let mut client = Service::start(registry()).await.actions().await;
    for dialect in Dialect::ALL {
        let answer = client.declare_tools(asking(dialect, &[ODD])).await.expect("declares");
        let pb::DeclareToolsResponse { tools, names } = answer.into_inner();
        let (tool, tools) = (names[0].tool.clone(), tools.join(","));
        assert!(tools.contains(&format!("\"name\":\"{tool}\"")), "{dialect:?}: {tools}");
        assert!(!tools.contains(ODD), "{dialect:?}: {tools}");

        let mut request = execute_reply(reply(dialect, &tool).to_string());
        request.allowed_actions = vec![ODD.to_owned()];
        request.backend = dialect.backend() as i32;
        let streamed = pb::StreamActionsFromInteractionRequest { request: Some(request.clone()) };
        let whole = client.execute_actions_from_interaction(request).await.expect("runs");
        let mut stream =
            client.stream_actions_from_interaction(streamed).await.expect("runs").into_inner();
        let mut heard = vec![];
        let mut summary = None;
        while let Some(message) = stream.message().await.expect("goes on") {
            match message.event.expect("an event") {
                Event::Started(call) => heard.push(call.name),
                Event::Finished(call) => heard.push(call.name),
                Event::Summary(last) => summary = Some(last),
                Event::Log(_) | Event::Output(_) => {}
            }
        }
        assert_eq!(heard, [tool.as_str(), tool.as_str()], "{dialect:?}");
        for answer in [whole.into_inner(), summary.expect("a summary")] {
            let result = &answer.results[0];
            assert_eq!(result.name, tool, "{dialect:?}");
            assert_eq!(result.status.as_ref().map(|status| status.code), Some(0), "{dialect:?}");
            let messages = answer.messages.join(",");
            assert!(messages.contains("HI"), "{dialect:?}: {messages}");
            assert!(!messages.contains(ODD), "{dialect:?}: {messages}");
            if pairs_by_name(dialect) {
                assert!(messages.contains(&tool), "{dialect:?}: {messages}");
            }
        }
    }
}

/// How the one call of a request ended, and the messages to append.
async fn ending(
    client: &mut Actions,
    request: pb::ExecuteActionsFromInteractionRequest,
) -> (Code, Reason, String) {
    let answer = client.execute_actions_from_interaction(request).await.expect("runs");
    let answer = answer.into_inner();
    let status = Status::from(answer.results[0].status.clone().expect("a status"));
    (status.code, status.reason, answer.messages.join(","))
}

#[tokio::test]
async fn an_allow_list_of_the_calls_sees_the_real_name_too() {
    let mut client = Service::start(registry()).await.actions().await;
    let tool = tool_name(ODD).into_owned();
    for (called, allowed, code, reason) in [
        (tool.as_str(), ODD, Code::Ok, Reason::Unspecified),
        (ODD, ODD, Code::Ok, Reason::Unspecified),
        (&tool, &tool, Code::PermissionDenied, Reason::NotAllowed),
        (&tool, "text_upper", Code::PermissionDenied, Reason::NotAllowed),
        ("text_upper_000000000000", ".*", Code::NotFound, Reason::UnknownAction),
    ] {
        let mut request = execute_reply(reply(Dialect::Claude, called).to_string());
        request.allowed_actions = vec![allowed.to_owned()];
        let (found, why, messages) = ending(&mut client, request).await;
        assert_eq!((found, why), (code, reason), "{called}, allowed {allowed}: {messages}");
    }
    // An interaction's own calls are named the same way.
    let call = turns::turn([turns::asked("c1", &tool, &[("text", "hi")])]);
    let mut request = turns::execute(call);
    request.backend = Backend::Claude as i32;
    let (code, _, messages) = ending(&mut client, request).await;
    assert_eq!(code, Code::Ok);
    assert!(messages.contains("HI"), "{messages}");
}

#[tokio::test]
async fn a_schema_is_found_by_the_tool_name_of_its_action() {
    let mut client = Service::start(registry()).await.actions().await;
    let mut name_of = async |name: &str| {
        let request = pb::GetActionRequest { name: name.to_owned(), ..Default::default() };
        let answer = client.get_action(request).await.ok()?;
        answer.into_inner().action.map(|action| action.name)
    };
    assert_eq!(name_of(&tool_name(ODD)).await.as_deref(), Some(ODD));
    assert_eq!(name_of(ODD).await.as_deref(), Some(ODD));
    assert_eq!(name_of("text_upper").await.as_deref(), Some("text_upper"));
    assert_eq!(name_of("text_upper_").await, None);
}

#[tokio::test]
async fn an_action_at_a_peer_is_meant_by_its_tool_name_but_one_really_named_so_goes_before() {
    let service = Service::start(registry()).await;
    let tool = tool_name(ODD).into_owned();
    let hosted = Registry::new();
    add_upper(&hosted, ODD, "at a peer ");
    let peer = service.attached(hosted).await;
    let hosted = Registry::new();
    add_upper(&hosted, &tool, "really so ");
    let named_so = service.attached(hosted).await;
    let mut client = service.actions().await;
    let at = |peer: &Client| pb::ActionConfig {
        peer: Some(format!("a11://{}", peer.session().id()).parse().expect("an address")),
        ..Default::default()
    };
    for (configs, expected) in [
        (vec![], "\"HI\""),
        (vec![(ODD, at(&peer))], "\"at a peer HI\""),
        (vec![(tool.as_str(), at(&named_so))], "\"really so HI\""),
        (vec![(ODD, at(&peer)), (tool.as_str(), at(&named_so))], "\"really so HI\""),
    ] {
        let mut turn = turns::turn([turns::asked("c1", &tool, &[("text", "hi")])]);
        let configs = configs.into_iter().map(|(name, config)| (name.to_owned(), config));
        turn.action_configs = configs.collect();
        let mut request = turns::execute(turn);
        request.backend = Backend::Claude as i32;
        let (code, _, messages) = ending(&mut client, request).await;
        assert_eq!(code, Code::Ok, "{messages}");
        assert!(messages.contains(expected), "{expected}: {messages}");
    }
}

#[tokio::test]
async fn a_program_that_is_attached_declares_by_the_same_list() {
    let service = Service::start(registry()).await;
    let client = service.attached(Registry::new()).await;
    let tools = client.tools(Dialect::GptResponses, ["now"]).await.expect("declares");
    let expected = r#"{"type":"function","name":"now","parameters":{"type":"object","properties":{}},"strict":false}"#;
    assert_eq!(tools, [expected]);
    let refused = client.tools(Dialect::Claude, ["("]).await.expect_err("no pattern");
    assert_eq!(refused.reason, Reason::InvalidPattern);
}

const MODULES: &str = "import anthropic, google.genai, mcp, ollama, openai";

#[tokio::test]
async fn the_providers_own_sdks_take_what_is_declared() {
    let Some(python) = installed::installed("A11_PYTHON") else { return };
    let has_sdks = Command::new(&python).args(["-c", MODULES]).output();
    if !has_sdks.is_ok_and(|output| output.status.success()) {
        installed::skipped("the SDKs are not installed; run `make test`");
        return;
    }
    let mut client = Service::start(registry()).await.actions().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    for dialect in Dialect::ALL {
        let (tools, _) = declared(&mut client, asking(dialect, &[".*"])).await;
        let path = folder.path().join(format!("{dialect:?}.json"));
        fs::write(path, tools.to_string()).expect("written");
    }
    let output = Command::new(&python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/check_tools.py"))
        .arg(folder.path())
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "tools: 10 dialects taken");
}
