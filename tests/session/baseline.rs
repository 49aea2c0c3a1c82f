//! Programs that are killed: whatever they had begun, the service comes back to what
//! it held before them.

use std::time::Duration;

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::client::{Peer, actions};
use a11_grpc::session::KEPT;
use a11_grpc::wire::pb::{self, call_action_request, node_service_client::NodeServiceClient};
use a11_grpc::wire::{Chunk, NodeFragment, Status, headers};
use prost::Message as _;
use tokio::runtime::{Builder, Handle, Runtime};
use tonic::{Request, transport::Channel};

use crate::service::{Service, channel};

/// What a service holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    tasks: usize,
    handlers: usize,
    sessions: usize,
    runs: usize,
    nodes: usize,
    actions: usize,
}

impl Held {
    fn by(service: &Service) -> Self {
        Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            handlers: service.handlers.running(),
            sessions: service.directory.sessions().len(),
            runs: service.directory.runs().count(),
            nodes: service.nodes.count(),
            actions: service.registry.entries(None).len(),
        }
    }
}

/// Waits for a condition, letting everything else run meanwhile.
async fn until(service: &Service, what: &str, condition: impl Fn(Held) -> bool) {
    let wait = async {
        while !condition(Held::by(service)) {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
    assert!(waited.is_ok(), "waited in vain for {what}: {:?}", Held::by(service));
}

/// Lets the time pass for which nodes are kept, and waits until all is as before.
async fn back_to(service: &Service, baseline: Held) {
    until(service, "the calls to end", |held| held.handlers == 0).await;
    tokio::time::pause();
    tokio::time::advance(KEPT + Duration::from_secs(1)).await;
    tokio::time::resume();
    until(service, &format!("{baseline:?}"), |held| held == baseline).await;
}

/// A program with its own threads and connections, which is killed without a word.
struct Program(Runtime);

impl Program {
    fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self(runtime.expect("a runtime"))
    }

    /// Does this, and then nothing for as long as it lives.
    fn run<T: Send + 'static>(&self, what: impl Future<Output = T> + Send + 'static) {
        self.0.spawn(async move {
            let _held = what.await;
            std::future::pending::<()>().await;
        });
    }

    fn kill(self) {
        self.0.shutdown_background();
    }
}

/// Puts one value out and never ends.
fn host_hanging(registry: &Registry, name: &str) {
    let schema = ActionSchema::builder(name)
        .input(Port::text("more").stream())
        .output(Port::text("parts").stream());
    let run = |context: Context| async move {
        context.write("parts", "one").await?;
        std::future::pending::<Result<(), Status>>().await
    };
    registry.register(schema.build(), handler(run)).expect("registers");
}

/// A request whose call can be reached under the id that comes with it.
fn reachable<T>(message: T) -> (Request<T>, String) {
    let id = uuid::Uuid::new_v4().to_string();
    let mut request = Request::new(message);
    request.metadata_mut().insert(headers::RUN, id.parse().expect("an id"));
    (request, id)
}

/// All kinds of one-shot calls over one connection, each with a reader of its output.
async fn call_in_every_way(channel: Channel) {
    let read = async |run: String| {
        let request = pb::ReadNodeRequest { run, id: "parts".into(), ..Default::default() };
        // The run may not have begun.
        while let Err(status) =
            NodeServiceClient::new(channel.clone()).read_node(request.clone()).await
        {
            assert_eq!(status.code(), tonic::Code::NotFound);
        }
    };
    let action = || "hang".to_owned();
    let (run_action, run) =
        reachable(pb::RunActionRequest { action: action(), ..Default::default() });
    let (stream, streamed) =
        reachable(pb::StreamActionRequest { action: action(), ..Default::default() });
    let start = pb::CallStart { action: action(), ..Default::default() };
    let start = Some(call_action_request::Message::Start(start));
    let inputs = futures::stream::iter([pb::CallActionRequest { message: start }]);
    let (call, called) = reachable(futures::StreamExt::chain(inputs, futures::stream::pending()));
    let asked =
        |id: &str| pb::ActionMessage { id: id.to_owned(), name: action(), ..Default::default() };
    let turn = pb::Interaction { action_calls: ["a", "b"].map(asked).into(), ..Default::default() };
    let execute = pb::ExecuteActionsFromInteractionRequest {
        interaction: Some(turn.encode_to_vec().into()),
        allowed_actions: vec![".*".to_owned()],
        ..Default::default()
    };
    let stream_execute = pb::StreamActionsFromInteractionRequest { request: Some(execute.clone()) };
    let client = || actions(channel.clone());
    let mut clients = [client(), client(), client(), client(), client()];
    let [one, two, three, four, five] = &mut clients;
    let drained = async |events: Result<_, tonic::Status>| {
        let mut events: tonic::Response<tonic::Streaming<pb::StreamActionResponse>> =
            events.expect("begins");
        while events.get_mut().message().await.expect("goes on").is_some() {}
    };
    let _ = tokio::join!(
        one.run_action(run_action),
        async { drained(two.stream_action(stream).await).await },
        async { three.call_action(call).await.expect("begins").into_inner().message().await },
        four.execute_actions_from_interaction(execute),
        async {
            let mut events =
                five.stream_actions_from_interaction(stream_execute).await.expect("begins");
            while let Ok(Some(_)) = events.get_mut().message().await {}
        },
        read(run),
        read(streamed),
        read(called),
    );
}

/// How many handlers that makes: one a call, two a turn.
const HANDLERS: usize = 3 + 2 * 2;

#[tokio::test]
async fn one_shot_calls_of_killed_programs_leave_nothing() {
    let service = Service::start().await;
    host_hanging(&service.registry, "hang");
    let address = service.address;
    let baseline = Held::by(&service);
    for _ in 0..3 {
        let programs = [Program::start(), Program::start()];
        for program in &programs {
            program.run(async move { call_in_every_way(channel(address).await).await });
        }
        let calls = programs.len() * HANDLERS;
        until(&service, "the calls", |held| held.handlers == calls && held.runs == 6).await;
        programs.into_iter().for_each(Program::kill);
        back_to(&service, baseline).await;
    }
}

#[tokio::test]
async fn a_killed_program_with_a_session_leaves_nothing_once_its_grace_is_over() {
    let service = Service::with_grace(Duration::from_millis(200)).await;
    host_hanging(&service.registry, "hang");
    let address = service.address;
    let baseline = Held::by(&service);
    for _ in 0..3 {
        let program = Program::start();
        program.run(async move {
            let hosted = Registry::new();
            host_hanging(&hosted, "hang_there");
            let peer = Peer::host(hosted.into()).named("worker");
            let client = peer.connect(channel(address).await).await.expect("attaches");
            // A call of the service, one of its own over the service, and a node.
            let mut runs = vec![];
            for action in ["hang", "hang_there"] {
                let id = uuid::Uuid::new_v4().to_string();
                let call = client.call(action).header(headers::RUN, id);
                runs.push(call.start().await.expect("starts"));
            }
            let session = client.session().id().to_owned();
            let start = pb::WriteNodeStart { session, id: "notes".into(), ..Default::default() };
            let fragment = NodeFragment::more("", Chunk::text("a"));
            let fragments = pb::NodeFragments { fragments: vec![fragment] };
            let messages = [
                pb::write_node_request::Message::Start(start),
                pb::write_node_request::Message::Fragments(fragments),
            ];
            let requests = messages.map(|message| pb::WriteNodeRequest { message: Some(message) });
            let requests = futures::StreamExt::chain(
                futures::stream::iter(requests),
                futures::stream::pending(),
            );
            let _ = NodeServiceClient::new(channel(address).await).write_node(requests).await;
            drop(runs);
        });
        let is_busy = |held: Held| {
            (held.handlers, held.sessions, held.runs, held.nodes) == (2, 1, 2, 1)
                && held.actions == baseline.actions + 1
        };
        until(&service, "the calls", is_busy).await;
        program.kill();
        back_to(&service, baseline).await;
    }
}
