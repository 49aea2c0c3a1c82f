//! The process that is killed, and the one that starts and kills it.

use std::{
    env,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, Scope, handler},
    interaction::{
        Interaction,
        store::{ConversationName, Record, open},
    },
    runner::{AllowList, CallEvent, Plan, Recorder, Recording, Request},
    wire::{
        Code, Reason, Status, headers,
        pb::{ActionMessage, Role},
    },
};
use futures::FutureExt as _;
use tokio::sync::mpsc;

use super::steps::Steps;

/// Where the process keeps its files; set for the process that is killed.
const FOLDER: &str = "A11_CRASH_FOLDER";
/// The store it uses.
const STORE: &str = "A11_CRASH_STORE";
/// The actions that a turn calls, by commas.
const CALLS: &str = "A11_CRASH_CALLS";
/// The step at which it stops and says so.
const STOP: &str = "A11_CRASH_STOP";
/// Set where it ends once no turn is unfinished.
const TO_THE_END: &str = "A11_CRASH_TO_THE_END";
/// Short, since whoever follows a killed process waits for it.
pub const LEASE: Duration = Duration::from_millis(100);

/// The actions that ran, a key a line, and the calls that were told to be done.
pub const RAN: &str = "ran.log";
pub const TOLD: &str = "told.log";

pub fn turn(number: usize, actions: &[&str]) -> Interaction {
    let call = |(at, action): (usize, &&str)| ActionMessage {
        id: format!("c{at}"),
        name: (*action).to_owned(),
        ..ActionMessage::default()
    };
    Interaction {
        id: format!("t{number}"),
        role: Role::Model as i32,
        action_calls: actions.iter().enumerate().map(call).collect(),
        ..Interaction::default()
    }
}

/// One step more, for whoever decides when it was the last.
fn step(mark: &[u8]) {
    let mut out = std::io::stderr();
    out.write_all(mark).and_then(|()| out.flush()).ok();
}

fn log(folder: &Path, name: &str) -> Arc<File> {
    let log = OpenOptions::new().append(true).create(true).open(folder.join(name));
    Arc::new(log.expect("a log"))
}

/// One write of a file opened to append is whole or not there.
fn write_line(log: &File, line: &str) -> std::io::Result<()> {
    let mut log = log;
    log.write_all(format!("{line}\n").as_bytes())
}

/// Writes down that it ran, and its key.
fn action(log: &Arc<File>) -> impl a11_grpc::action::Handler {
    let log = log.clone();
    handler(move |context: Context| {
        let log = log.clone();
        async move {
            let key = context.headers().text(headers::IDEMPOTENCY_KEY).unwrap_or("none").to_owned();
            step(b".");
            write_line(&log, &key)
                .map_err(|error| Status::handler(Code::Internal, error.to_string()))?;
            tokio::task::yield_now().await;
            context.write("ran", &key).await?;
            step(b".");
            Ok(())
        }
    })
}

/// Actions that write down that they ran; one of them may run again.
pub fn registry(folder: &Path) -> Arc<Registry> {
    let log = log(folder, RAN);
    let registry = Registry::new();
    let schema = |name: &str| ActionSchema::builder(name).output(Port::text("ran"));
    registry.register(schema("once").build(), action(&log)).expect("registered");
    let repeatable = schema("repeatable").idempotent().build();
    registry.register(repeatable, action(&log)).expect("registered");
    Arc::new(registry)
}

/// What it takes to run and record a turn.
pub fn planned(registry: &Registry, turn: &Interaction) -> (Plan, Recording) {
    let request = Request {
        interaction: turn.clone(),
        allow_list: AllowList::new([".*"]).expect("a pattern"),
        ..Request::default()
    };
    let plan = Plan::new(registry, request).expect("planned");
    let conversation = ConversationName::new("c").expect("a name");
    let turn = Record::from_interaction(turn).expect("can be kept");
    (plan, Recording { conversation, turn })
}

/// The process that is killed: runs turn after turn, those that are unfinished
/// first, until it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_is_killed() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let registry = registry(folder);
    let told = log(folder, TOLD);
    let calls = env::var(CALLS).expect("calls");
    let calls: Vec<&str> = calls.split(',').collect();
    let stop = env::var(STOP).unwrap_or_default();
    let to_the_end = env::var_os(TO_THE_END).is_some();
    let store = open(&env::var(STORE).expect("a store")).await.expect("opens");
    let store = Steps::of(
        store,
        Arc::new(move |at| {
            if at.to_string() != stop {
                return std::future::ready(()).boxed();
            }
            step(b"!");
            std::future::pending().boxed()
        }),
    );
    let recorder = Recorder::with_lease(store.clone(), LEASE);
    let conversation = ConversationName::new("c").expect("a name");
    // The last one may be unfinished.
    let length = store.conversation(&conversation).await.map_or(0, |found| found.length);
    let mut number = usize::try_from(length / 2).expect("few").saturating_sub(1);
    loop {
        let turn = turn(number, &calls);
        let (plan, recording) = planned(&registry, &turn);
        let scope = Scope::root(registry.clone());
        let (events, mut happened) = mpsc::channel(64);
        let hearing = async {
            while let Some(event) = happened.recv().await {
                if let CallEvent::Finished { call, status, .. } = event
                    && status.is_ok()
                {
                    write_line(&told, &format!("{}/c{call}", turn.id)).expect("written");
                }
            }
        };
        let running = recorder.execute(&scope, plan, recording, Some(events));
        let ((), ran) = tokio::join!(hearing, running);
        match ran {
            Ok(round) => {
                for result in round.results.iter().filter(|result| result.status.is_ok()) {
                    write_line(&told, &format!("{}/{}", turn.id, result.id)).expect("written");
                }
                number += 1;
                let kept = store.conversation(&conversation).await.expect("there").length;
                if to_the_end && kept == 2 * number as u64 {
                    return;
                }
            }
            // On a slow machine the short lease can be over before it is renewed:
            // asked again, as any caller would. So too without a connection.
            Err(status)
                if matches!(status.reason, Reason::LeaseLost | Reason::StoreUnavailable) => {}
            Err(status) => panic!("{status}"),
        }
        step(b".");
    }
}

/// The process, whose output tells each step.
pub struct Process(Child);

impl Process {
    pub fn start(folder: &Path, store: &str, calls: &[&str]) -> Self {
        Self::start_with(folder, store, calls, &[])
    }

    /// The process that stops at a step.
    pub fn start_until(folder: &Path, store: &str, calls: &[&str], step: &str) -> Self {
        Self::start_with(folder, store, calls, &[(STOP, step)])
    }

    /// Has the process run the turn that may be unfinished, as whoever is started
    /// after a crash does, and waits until it has.
    pub fn recover(folder: &Path, store: &str, calls: &[&str]) {
        let mut process = Self::start_with(folder, store, calls, &[(TO_THE_END, "1")]);
        let mut told = String::new();
        let output = process.0.stderr.as_mut().expect("piped");
        output.read_to_string(&mut told).expect("read");
        assert!(process.0.wait().expect("ended").success(), "{told}");
    }

    fn start_with(folder: &Path, store: &str, calls: &[&str], more: &[(&str, &str)]) -> Self {
        let process = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", "process::process_that_is_killed", "--nocapture"])
            .env(FOLDER, folder)
            .env(STORE, store)
            .env(CALLS, calls.join(","))
            .envs(more.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Self(process.expect("started"))
    }

    /// Waits until it has come so far.
    pub fn take_steps(&mut self, steps: usize) {
        let mut told = vec![0; steps];
        let output = self.0.stderr.as_mut().expect("piped");
        let reached = output.read_exact(&mut told);
        let told = String::from_utf8_lossy(&told);
        assert!(reached.is_ok(), "it ended by itself: {told}");
        assert!(told.bytes().all(|byte| byte == b'.'), "{told}");
    }

    /// Waits until it has stopped where it was to.
    pub fn take_steps_until_it_stops(&mut self) {
        let output = self.0.stderr.as_mut().expect("piped");
        let mut told = String::new();
        let mut byte = [0];
        while output.read_exact(&mut byte).is_ok() {
            match byte {
                [b'!'] => return,
                [byte] => told.push(byte.into()),
            }
        }
        panic!("it did not stop: {told}");
    }

    pub fn kill(mut self) {
        self.0.kill().expect("killed");
        let mut told = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut told).expect("read");
        self.0.wait().expect("ended");
        assert!(told.bytes().all(|byte| byte == b'.'), "{told}");
    }
}
