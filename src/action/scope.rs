//! What calls share: the registry they find each other in, how many run at once
//! under one root, and how deep they may nest.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    inputs::Inputs,
    registry::{Entry, Registry},
    run::Run,
};
use crate::wire::{Headers, Reason, Status, headers};

/// How many calls of one root run at once, unless the program says otherwise.
pub const DEFAULT_CONCURRENT_CALLS: usize = 64;
/// How deep calls may nest: a call of a call of a call …
pub const MAX_DEPTH: u32 = 32;
/// How long a handler that was cancelled may take to stop before it is given up
/// and reported.
pub const ABANDON_AFTER: Duration = Duration::from_secs(5);

/// Where a call is made: under which root, and how deep. Every root of calls
/// (an RPC, a program) makes its own with [`Scope::root`].
#[derive(Clone)]
pub struct Scope {
    pub(super) root: Arc<Root>,
    pub(super) depth: u32,
}

pub(super) struct Root {
    pub(super) registry: Arc<Registry>,
    pub(super) slots: Arc<Semaphore>,
    pub(super) handlers: Arc<Handlers>,
}

/// How many handlers there are in a program. Shared by all roots.
#[derive(Debug)]
pub struct Handlers {
    pub(super) running: AtomicUsize,
    pub(super) abandoned: AtomicUsize,
    pub(super) abandon_after: Duration,
}

impl Default for Handlers {
    fn default() -> Self {
        Self::abandoned_after(ABANDON_AFTER)
    }
}

impl Handlers {
    /// Handlers that are given up when they go on for so long after their call
    /// is over; [`ABANDON_AFTER`] by default.
    pub fn abandoned_after(abandon_after: Duration) -> Self {
        Self { running: AtomicUsize::new(0), abandoned: AtomicUsize::new(0), abandon_after }
    }

    /// Handlers that have begun and not ended.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Handlers that went on for too long after their call was over.
    pub fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Acquire)
    }
}

/// One call to be made: an action, its inputs, and its limits.
pub struct Call {
    /// The call's id, as it shows in logs and to the handler.
    pub id: String,
    /// The action.
    pub entry: Entry,
    /// Its inputs.
    pub inputs: Inputs,
    /// What the caller sends along. Only what flows or is declared arrives.
    pub headers: Headers,
    /// When the call ends at the latest.
    pub deadline: Option<Instant>,
}

impl Scope {
    /// A root for calls to the actions of `registry`, with 64 at once.
    pub fn root(registry: Arc<Registry>) -> Self {
        Self::limited(registry, DEFAULT_CONCURRENT_CALLS, Arc::default())
    }

    /// A root with its own number of calls at once, counting its handlers in
    /// `handlers`.
    pub fn limited(
        registry: Arc<Registry>,
        concurrent_calls: usize,
        handlers: Arc<Handlers>,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(concurrent_calls.max(1)));
        Self { root: Arc::new(Root { registry, slots, handlers }), depth: 0 }
    }

    /// The same for calls that are made within so many others elsewhere.
    #[must_use]
    pub fn at(self, depth: u32) -> Self {
        Self { depth, ..self }
    }

    /// The registry that calls are found in.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.root.registry
    }

    /// Starts a call. It runs as its own task as soon as a slot is free, and is
    /// cancelled when the [`Run`] is dropped.
    ///
    /// # Errors
    /// NOT_FOUND where the action has no handler, RESOURCE_EXHAUSTED past
    /// [`MAX_DEPTH`].
    pub fn start(&self, call: Call) -> Result<Run, Status> {
        let name = call.entry.schema().name();
        let Some(handler) = call.entry.handler().cloned() else {
            return Err(Status::of(Reason::NoHandler, format!("nothing here runs {name:?}")));
        };
        if self.depth >= MAX_DEPTH {
            return Err(Status::of(
                Reason::TooDeep,
                format!("{name:?} would be nested deeper than {MAX_DEPTH} calls"),
            ));
        }
        Ok(Run::start(self.clone(), call, handler))
    }

    pub(super) fn nested(&self) -> Self {
        Self { root: self.root.clone(), depth: self.depth.saturating_add(1) }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// The headers that reach an action: what flows, what it declares, its defaults,
/// and the deadline as a header.
pub(super) fn arriving_headers(
    entry: &Entry,
    mut sent: Headers,
    deadline: Option<Instant>,
) -> Headers {
    let schema = entry.schema();
    // The scope knows it, and counts it on.
    sent.remove(headers::DEPTH);
    // Removed one by one: what others have in common with it is not copied.
    let not_taken = sent.iter().map(|(name, _)| name).filter(|name| !schema.takes_header(name));
    let not_taken: Vec<String> = not_taken.map(str::to_owned).collect();
    not_taken.iter().for_each(|name| sent.remove(name));
    for header in schema.headers() {
        if let (None, Some(default)) = (sent.value(&header.name), &header.default) {
            sent.set(&header.name, default.clone());
        }
    }
    if let Some(deadline) = deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = now.saturating_add(left).as_millis();
        sent.set(headers::DEADLINE, millis.to_string());
    }
    sent
}

/// One call's place among those that run at once. A call with nested calls under
/// way gives its place back, so that a full tree cannot wait for itself.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Semaphore>,
    held: Mutex<Held>,
    /// One waits for a place at a time: a second would wait for what the first has got.
    taking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Held {
    permit: Option<OwnedSemaphorePermit>,
    nested: usize,
}

impl Held {
    /// Whether the call is to have a place, and has none.
    fn wants(&self) -> bool {
        self.nested == 0 && self.permit.is_none()
    }

    /// Keeps a place, unless a nested call has begun while it was waited for: that one
    /// may wait for this very place.
    fn keep(&mut self, permit: Option<OwnedSemaphorePermit>) {
        if self.wants() {
            self.permit = permit;
        }
    }
}

impl Slot {
    pub(super) fn new(slots: Arc<Semaphore>) -> Self {
        Self { slots, held: Mutex::default(), taking: tokio::sync::Mutex::default() }
    }

    /// Waits for a place, as long as the call is to have one.
    pub(super) async fn take(&self) {
        let _taking = self.taking.lock().await;
        if self.held.lock().wants() {
            // The semaphore is never closed.
            let permit = self.slots.clone().acquire_owned().await.ok();
            self.held.lock().keep(permit);
        }
    }

    /// Gives the place back for as long as the lease lives.
    pub(super) fn lend(self: &Arc<Self>) -> Lease {
        let mut held = self.held.lock();
        held.nested += 1;
        held.permit = None;
        Lease { slot: Some(self.clone()) }
    }
}

/// A place given back while a nested call is under way.
#[derive(Debug)]
pub(super) struct Lease {
    slot: Option<Arc<Slot>>,
}

impl Lease {
    /// Waits for a place again, if no other nested call is under way.
    pub(super) async fn end(mut self) {
        if let Some(slot) = self.slot.take()
            && Self::returned(&slot)
        {
            slot.take().await;
        }
    }

    fn returned(slot: &Slot) -> bool {
        let mut held = slot.held.lock();
        held.nested -= 1;
        held.nested == 0
    }
}

impl Drop for Lease {
    /// A nested call that was dropped unawaited: the handler is running already,
    /// so it goes on even where no place is free.
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && Self::returned(&slot)
            && let Ok(permit) = slot.slots.clone().try_acquire_owned()
        {
            slot.held.lock().keep(Some(permit));
        }
    }
}
