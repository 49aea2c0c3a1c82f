//! A handler that cannot be stopped is given up after a grace period and counted;
//! nobody waits for it.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use a11_grpc::action::{
    ActionSchema, Call, Context, Handlers, Inputs, Port, Registry, Run, Scope, handler,
};
use a11_grpc::wire::{Code, Headers, Reason};
use parking_lot::Mutex;

/// How long a handler may go on after its call is over, here.
const GRACE: Duration = Duration::from_millis(20);
/// How long a handler blocks that nobody frees.
const AT_MOST: Duration = Duration::from_secs(3);

/// `block` keeps its thread until it is freed, or for [`AT_MOST`].
struct Blocking {
    registry: Arc<Registry>,
    handlers: Arc<Handlers>,
    free: mpsc::Sender<()>,
}

impl Blocking {
    fn new() -> Self {
        let registry = fixtures::registry();
        let (free, freed) = mpsc::channel();
        let freed = Arc::new(Mutex::new(freed));
        let schema = ActionSchema::builder("block").output(Port::text("done"));
        let run = move |context: Context| {
            let freed = freed.clone();
            async move {
                freed.lock().recv_timeout(AT_MOST).ok();
                context.write("done", "too late").await
            }
        };
        registry.register(schema.build(), handler(run)).expect("block");
        let handlers = Arc::new(Handlers::abandoned_after(GRACE));
        Self { registry, handlers, free }
    }

    fn scope(&self) -> Scope {
        Scope::limited(self.registry.clone(), 4, self.handlers.clone())
    }

    fn start(&self, deadline: Option<Duration>) -> Run {
        let entry = self.registry.entry("block").expect("registered");
        let inputs = Inputs::from_arguments(entry.schema(), []).expect("none needed");
        let deadline = deadline.map(|left| tokio::time::Instant::now() + left);
        let call = Call { id: "c".into(), entry, inputs, headers: Headers::default(), deadline };
        self.scope().start(call).expect("starts")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_outlives_its_deadline_is_given_up_and_reported() {
    let blocking = Blocking::new();
    let began = Instant::now();
    let mut run = blocking.start(Some(GRACE));
    let status = run.finished().await;
    assert_eq!((status.code, status.reason), (Code::DeadlineExceeded, Reason::Deadline));
    assert!(began.elapsed() < AT_MOST, "the caller does not wait for the handler");
    server::until("it is given up", || blocking.handlers.abandoned() == 1).await;
    assert_eq!(blocking.handlers.running(), 1, "it still runs, and that shows");
    blocking.free.send(()).expect("it waits");
    server::until("it is gone", || blocking.handlers.running() == 0).await;
    assert_eq!(blocking.handlers.abandoned(), 1, "it was given up once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_whose_caller_left_is_given_up_and_reported() {
    let blocking = Blocking::new();
    let run = blocking.start(None);
    server::until("it began", || blocking.handlers.running() == 1).await;
    let began = Instant::now();
    drop(run);
    assert!(began.elapsed() < GRACE, "leaving waits for nobody");
    server::until("it is given up", || blocking.handlers.abandoned() == 1).await;
    blocking.free.send(()).expect("it waits");
    server::until("it is gone", || blocking.handlers.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_stops_within_the_grace_period_is_not_given_up() {
    let blocking = Blocking::new();
    let run = blocking.start(None);
    server::until("it began", || blocking.handlers.running() == 1).await;
    blocking.free.send(()).expect("it waits");
    drop(run);
    server::until("it is gone", || blocking.handlers.running() == 0).await;
    assert_eq!(blocking.handlers.abandoned(), 0);
}
