//! The ports of calls, for whoever knows the id that a call's caller chose for its
//! run: while the call runs, and a while after for late readers.

use std::{
    collections::{HashMap, VecDeque, hash_map},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::action::Run;
use crate::node::{Node, WhenRead};
use crate::wire::{
    Headers, Reason, Status, headers,
    name::{is_name, shown},
};

/// How long a node is kept after it was closed, and how long one of a session
/// waits for a writer that left.
pub const KEPT: Duration = Duration::from_secs(60);
/// How many runs can be reached at once, those that are over included.
pub const MAX_RUNS: usize = 4096;
/// How many bytes the nodes of runs that are over hold in all; past it the runs
/// that ended first are let go before their time.
pub const MAX_KEPT_BYTES: usize = 64 << 20;
/// How long a run's id is. The least has room for 128 random bits.
const ID_LENGTH: std::ops::RangeInclusive<usize> = 22..=64;

/// The runs that can be reached. Cheap to clone.
#[derive(Clone)]
pub struct RunNodes(Arc<Inner>);

struct Inner {
    tasks: TaskTracker,
    stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` for one that is yet to begin.
    runs: HashMap<String, Option<Ports>>,
    /// Those that are over, in the order in which they ended.
    over: VecDeque<Over>,
    /// What the nodes of those hold.
    kept_bytes: usize,
    /// Whether a task waits for the first of `over`.
    is_swept: bool,
}

/// Port → node.
struct Ports {
    inputs: HashMap<String, Node>,
    outputs: HashMap<String, Node>,
}

struct Over {
    id: String,
    until: Instant,
    bytes: usize,
}

impl RunNodes {
    /// No runs yet. What waits for their time is one of `tasks`, until `stop`.
    pub(super) fn new(tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self(Arc::new(Inner { tasks, stop, state: Mutex::default() }))
    }

    /// Takes the id that the caller of a call chose out of its headers.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an id that is no name, or could be guessed.
    pub fn id_in(headers: &mut Headers) -> Result<Option<String>, Status> {
        let Some(id) = headers.value(headers::RUN) else { return Ok(None) };
        let id = std::str::from_utf8(id).ok();
        let id = id.filter(|id| ID_LENGTH.contains(&id.len()) && is_name(id)).map(str::to_owned);
        headers.remove(headers::RUN);
        let (least, most) = (ID_LENGTH.start(), ID_LENGTH.end());
        let message = format!("{} is not a name of {least} to {most} characters", headers::RUN);
        id.map(Some).ok_or_else(|| Status::of(Reason::InvalidRequest, message))
    }

    /// Takes the id of a run that is to begin, so that nothing runs whose id is refused.
    ///
    /// # Errors
    /// ALREADY_EXISTS where the id is taken, RESOURCE_EXHAUSTED past
    /// [`MAX_RUNS`].
    pub fn reserve(&self, id: String) -> Result<Reachable, Status> {
        let mut state = self.0.state.lock();
        if state.runs.len() >= MAX_RUNS && !state.let_go_of_first() {
            let message = format!("{MAX_RUNS} runs can be reached already, the most there may be");
            return Err(Status::of(Reason::SessionLimit, message));
        }
        match state.runs.entry(id.clone()) {
            hash_map::Entry::Occupied(_) => {
                return Err(Status::of(Reason::NameTaken, "another run has that id"));
            }
            hash_map::Entry::Vacant(free) => free.insert(None),
        };
        Ok(Reachable { nodes: self.clone(), id })
    }

    /// How many runs can be reached, those that are over included.
    pub fn count(&self) -> usize {
        self.0.state.lock().runs.len()
    }

    /// An output of a run, to be read.
    ///
    /// # Errors
    /// NOT_FOUND where there is no such run or port, or none any more.
    pub fn output(&self, run: &str, port: &str) -> Result<Node, Status> {
        let state = self.0.state.lock();
        let node = state.ports(run).and_then(|ports| ports.outputs.get(port));
        node.cloned().ok_or_else(|| unknown("output", port))
    }

    /// An input of a run, to be written.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn input(&self, run: &str, port: &str) -> Result<Node, Status> {
        let state = self.0.state.lock();
        let node = state.ports(run).and_then(|ports| ports.inputs.get(port));
        node.cloned().ok_or_else(|| unknown("input", port))
    }

    fn ended(&self, id: &str) {
        let mut state = self.0.state.lock();
        let Some(Some(ports)) = state.runs.get_mut(id) else {
            // It never began.
            state.runs.remove(id);
            return;
        };
        // Nobody reads any more what was written to it.
        ports.inputs.values_mut().for_each(|input| *input = Node::of_pieces(vec![]));
        let bytes = ports.outputs.values().map(Node::held_bytes).sum();
        let over = Over { id: id.to_owned(), until: Instant::now() + KEPT, bytes };
        state.kept_bytes += bytes;
        state.over.push_back(over);
        while state.kept_bytes > MAX_KEPT_BYTES && state.let_go_of_first() {}
        if !state.is_swept && !state.over.is_empty() {
            state.is_swept = true;
            drop(state);
            self.0.tasks.spawn(self.clone().sweep());
        }
    }

    /// Lets go of runs as their time comes, until there are none.
    async fn sweep(self) {
        loop {
            let due = {
                let mut state = self.0.state.lock();
                let now = Instant::now();
                while state.over.front().is_some_and(|over| over.until <= now) {
                    state.let_go_of_first();
                }
                state.is_swept = !state.over.is_empty();
                state.over.front().map(|over| over.until)
            };
            let Some(due) = due else { return };
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.0.stop.cancelled() => return,
            }
        }
    }
}

impl State {
    fn ports(&self, run: &str) -> Option<&Ports> {
        self.runs.get(run)?.as_ref()
    }

    /// Lets go of the run that ended first; false where none has ended.
    fn let_go_of_first(&mut self) -> bool {
        let Some(first) = self.over.pop_front() else { return false };
        self.kept_bytes -= first.bytes;
        self.runs.remove(&first.id);
        true
    }
}

/// The id of a run, whose ports can be reached once it was opened and for as long as
/// [`KEPT`] after this is dropped. Drop it after the run.
pub struct Reachable {
    nodes: RunNodes,
    id: String,
}

impl Reachable {
    /// Lets the ports of the run be reached, before its first event is taken.
    pub fn open(&self, run: &Run) {
        let ports = Ports {
            inputs: run.input_nodes().map(|(port, node)| (port.to_owned(), node)).collect(),
            outputs: run.output_nodes().map(kept).collect(),
        };
        self.nodes.0.state.lock().runs.insert(self.id.clone(), Some(ports));
    }
}

impl Drop for Reachable {
    fn drop(&mut self) {
        self.nodes.ended(&self.id);
    }
}

/// Nothing has been read yet, so that late readers find all of it.
fn kept((port, node): (&str, Node)) -> (String, Node) {
    node.set_when_read(WhenRead::Keep);
    (port.to_owned(), node)
}

fn unknown(kind: &str, port: &str) -> Status {
    let port = shown(port);
    Status::of(Reason::UnknownNode, format!("no run of that id has an {kind} {port:?} here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{ActionSchema, Call, Context, Inputs, Port, Registry, Scope, handler};
    use crate::wire::Chunk;

    // Less than a node keeps of what was read.
    const BYTES: usize = 1 << 19;

    /// A run that puts out so many bytes and ends.
    async fn run() -> Run {
        let registry = Registry::new();
        let schema = ActionSchema::builder("a").output(Port::of("o", "x/y")).build();
        let write = |context: Context| async move {
            context.write_chunk("o", Chunk::new("x/y", vec![0; BYTES])).await
        };
        registry.register(schema, handler(write)).expect("registers");
        let entry = registry.runnable("a").expect("is there");
        let inputs = Inputs::open(entry.schema(), []).expect("no inputs");
        let (id, headers, deadline) = ("c".to_owned(), Headers::default(), None);
        let call = Call { id, entry, inputs, headers, deadline };
        let mut run = Scope::root(Arc::new(registry)).start(call).expect("starts");
        run.output_nodes().for_each(|(_, node)| node.set_when_read(WhenRead::Keep));
        assert!(run.finished().await.is_ok());
        run
    }

    fn nodes() -> RunNodes {
        RunNodes::new(TaskTracker::new(), CancellationToken::new())
    }

    fn open(nodes: &RunNodes, id: String, run: &Run) -> Result<Reachable, Status> {
        let reachable = nodes.reserve(id)?;
        reachable.open(run);
        Ok(reachable)
    }

    #[tokio::test]
    async fn an_id_is_taken_before_its_run_begins_and_free_again_where_it_does_not() {
        let nodes = nodes();
        let reserved = nodes.reserve("r".into()).expect("is free");
        assert_eq!(nodes.reserve("r".into()).err().expect("is taken").reason, Reason::NameTaken);
        assert_eq!(nodes.output("r", "o").expect_err("is not there").reason, Reason::UnknownNode);
        drop(reserved);
        let begun = open(&nodes, "r".into(), &run().await).expect("is free");
        assert!(nodes.output("r", "o").is_ok());
        drop(begun);
        assert_eq!(nodes.reserve("r".into()).err().expect("is kept").reason, Reason::NameTaken);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_kept_for_its_time_and_no_longer() {
        let nodes = nodes();
        drop(open(&nodes, "r".into(), &run().await).expect("is free"));
        tokio::time::sleep(KEPT - KEPT / 100).await;
        assert!(nodes.output("r", "o").is_ok());
        tokio::time::sleep(KEPT / 50).await;
        assert_eq!(nodes.output("r", "o").expect_err("is gone").reason, Reason::UnknownNode);
        nodes.0.tasks.close();
        nodes.0.tasks.wait().await;
        assert_eq!(nodes.0.state.lock().kept_bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_has_a_bound_and_the_oldest_go_first() {
        let nodes = nodes();
        for at in 0..=MAX_KEPT_BYTES / BYTES {
            drop(open(&nodes, format!("r{at}"), &run().await).expect("is free"));
        }
        assert!(nodes.0.state.lock().kept_bytes <= MAX_KEPT_BYTES);
        assert!(nodes.output("r0", "o").is_err());
        assert!(nodes.output(&format!("r{}", MAX_KEPT_BYTES / BYTES), "o").is_ok());
    }

    #[tokio::test]
    async fn runs_that_go_on_are_not_let_go_for_others() {
        let (nodes, run) = (nodes(), run().await);
        let open = |at: usize| open(&nodes, format!("r{at}"), &run);
        let mut reachable: Vec<_> = (0..MAX_RUNS).map(|at| open(at).expect("is free")).collect();
        assert_eq!(open(MAX_RUNS).err().expect("is full").reason, Reason::SessionLimit);
        reachable.swap_remove(7);
        reachable.push(open(MAX_RUNS).expect("one has ended"));
        assert_eq!(open(MAX_RUNS - 1).err().expect("is full").reason, Reason::SessionLimit);
        drop(reachable);
        assert!(nodes.output("r7", "o").is_err());
    }

    #[test]
    fn ids_that_could_be_guessed_are_refused() {
        let check = |id: &str, expected: bool| {
            let mut headers: Headers = [(headers::RUN, id.to_owned())].into_iter().collect();
            let read = RunNodes::id_in(&mut headers);
            assert_eq!(read.is_ok_and(|read| read.as_deref() == Some(id)), expected, "{id}");
            assert!(headers.is_empty());
        };
        check("67e55044-10b1-426f-9247-bb680e5fe0c8", true);
        check("AAECAwQFBgcICQoLDA0ODw", true);
        check("run-1", false);
        check("", false);
        check("not a name, but long enough", false);
        check(&"a".repeat(65), false);
    }
}
