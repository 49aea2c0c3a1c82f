//! A service on a port of its own, and actions for its peers to host.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Handlers, Port, Registry, handler};
use a11_grpc::service::{ActionApi, NodeApi, PeerApi};
use a11_grpc::session::{Config, Directory, FreeNodes};
use a11_grpc::wire::pb::action_service_server::ActionServiceServer;
use a11_grpc::wire::pb::node_service_server::NodeServiceServer;
use a11_grpc::wire::{Code, Status};
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Arc<Registry>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) nodes: FreeNodes,
    pub(crate) handlers: Arc<Handlers>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with_grace(grace: Duration) -> Self {
        Self::with(Config { grace, ..Config::default() }).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let registry = Arc::new(Registry::new());
        let actions = ActionApi::new(registry.clone());
        let handlers = actions.handlers().clone();
        let directory = Directory::new(registry.clone(), handlers.clone(), config);
        let nodes = FreeNodes::new(directory.clone());
        let actions = actions.reachable_in(directory.runs().clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let server = Server::builder()
            .add_service(ActionServiceServer::new(actions))
            .add_service(PeerApi::new(directory.clone()).into_server())
            .add_service(NodeServiceServer::new(NodeApi::new(nodes.clone())))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        Self { address, registry, directory, nodes, handlers }
    }

    pub(crate) async fn channel(&self) -> Channel {
        channel(self.address).await
    }

    /// Waits until an action is, or is not, in the registry.
    pub(crate) async fn until(&self, wanted: impl Fn(&Registry) -> bool) {
        let mut changes = self.registry.changes();
        while !wanted(&self.registry) {
            changes.changed().await.expect("the registry lives");
        }
    }
}

pub(crate) async fn channel(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    endpoint.connect_lazy()
}

/// Puts out every value of `values` as it comes, and narrates.
pub(crate) fn host_echo(registry: &Registry) {
    let schema = ActionSchema::builder("echo")
        .describe("Puts out what comes in.")
        .input(Port::text("values").stream())
        .output(Port::text("echoes").stream())
        .build();
    let run = |context: Context| async move {
        let mut values = context.read_stream::<String>("values")?;
        context.log("begun");
        while let Some(value) = values.next().await {
            context.write("echoes", &value?).await?;
        }
        Ok(())
    };
    registry.register(schema, handler(run)).expect("echo registers");
}

/// Says who serves it.
pub(crate) fn host_name(registry: &Registry, action: &str, answer: &'static str) {
    let schema = ActionSchema::builder(action).output(Port::text("name").required()).build();
    let run = move |context: Context| async move { context.write("name", answer).await };
    registry.register(schema, handler(run)).expect("registers");
}

/// Fails with a status of its own.
pub(crate) fn host_failure(registry: &Registry) {
    let schema = ActionSchema::builder("fail").output(Port::text("parts").stream()).build();
    let run = |context: Context| async move {
        context.write("parts", "before").await?;
        Err(Status::handler(Code::NotFound, "no such row"))
    };
    registry.register(schema, handler(run)).expect("registers");
}

/// Tells when it begins and when it is dropped, and never ends by itself.
pub(crate) fn host_endless(registry: &Registry) -> tokio::sync::mpsc::Receiver<&'static str> {
    struct Dropped(tokio::sync::mpsc::Sender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.try_send("dropped");
        }
    }
    let (told, happened) = tokio::sync::mpsc::channel(8);
    let schema = ActionSchema::builder("endless").build();
    let run = move |_: Context| {
        let told = told.clone();
        async move {
            let _dropped = Dropped(told.clone());
            let _ = told.try_send("begun");
            std::future::pending::<Result<(), Status>>().await
        }
    };
    registry.register(schema, handler(run)).expect("registers");
    happened
}
