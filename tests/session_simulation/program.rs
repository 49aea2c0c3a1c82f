//! A program on one side of a simulated session: it calls, hosts, reads at its
//! own pace, and knows what every stream must hold.

use std::{collections::BTreeMap, fmt, time::Instant};

use a11_grpc::session::core::{Core, Event, Limits, NewCall, Room, cost};
use a11_grpc::wire::{Chunk, Code, NodeFragment, Reason, Status, pb};

use super::{
    content::{Content, LARGEST_PIECE, Writer},
    publishing::Publishing,
    random::Random,
};

const PORTS: [&str; 2] = ["a", "b"];

/// A node that is written: what it holds, and how many pieces were written.
struct Writing {
    port: &'static str,
    content: Content,
    written: u64,
}

/// A node that is read: what came, and what is not yet consumed.
#[derive(Default)]
struct Reading {
    came: u64,
    is_final: bool,
    unread: Vec<u64>,
}

struct Call {
    writing: Vec<Writing>,
    reading: BTreeMap<String, Reading>,
    /// How the call ended, on the side that knows.
    ended: Option<Status>,
    cancel_at: Option<Instant>,
    cancelled: bool,
    /// Hosted calls: what the call will end with.
    verdict: Status,
    logs: u32,
}

pub(crate) struct Program {
    pub(crate) core: Core,
    pub(crate) ended: Option<Status>,
    pub(crate) publishing: Publishing,
    /// The core gave its connection up.
    gave_up: bool,
    seed: u64,
    limits: Limits,
    random: Random,
    calls_left: u64,
    made: BTreeMap<u64, Call>,
    hosted: BTreeMap<u64, Call>,
    wake_at: Option<Instant>,
}

impl Program {
    pub(crate) fn new(core: Core, limits: Limits, seed: u64, mut random: Random) -> Self {
        let calls_left = random.between(0, 8);
        Self {
            core,
            ended: None,
            publishing: Publishing::new(&mut random),
            gave_up: false,
            seed,
            limits,
            random,
            calls_left,
            made: BTreeMap::new(),
            hosted: BTreeMap::new(),
            wake_at: None,
        }
    }

    /// Does what can be done now.
    pub(crate) fn step(&mut self, now: Instant) {
        self.take_events();
        if self.wake_at.is_none_or(|at| at <= now) {
            self.wake_at = Some(now + self.random.millis(1, 30));
            self.make_calls(now);
            if self.ended.is_none() {
                self.publishing.step(&mut self.core, &mut self.random);
            }
            self.read();
        }
        self.write(now);
        self.take_events();
    }

    /// Whether the core gave its connection up since this was asked.
    pub(crate) fn gave_up(&mut self) -> bool {
        std::mem::take(&mut self.gave_up)
    }

    /// When it wants to go on by itself.
    pub(crate) fn next(&self) -> Option<Instant> {
        let busy = self.ended.is_none() && self.core.is_connected();
        self.wake_at.filter(|_| busy)
    }

    pub(crate) fn is_done(&self, other: &Self) -> bool {
        let hosted = other.hosted.values().all(|call| call.ended.is_some());
        let made = self.made.values().all(|call| call.ended.is_some());
        let all_made = self.calls_left == 0 && self.publishing.is_done(&other.publishing);
        made && hosted && (all_made || self.ended.is_some())
    }

    fn make_calls(&mut self, now: Instant) {
        if self.calls_left == 0 || self.ended.is_some() || !self.random.one_in(3) {
            return;
        }
        let call = NewCall { action: "echo".into(), ..NewCall::default() };
        match self.core.start_call(call) {
            Ok(number) => {
                self.calls_left -= 1;
                let mut call = self.new_call(number, Writer::Caller);
                call.cancel_at = self.random.one_in(4).then(|| now + self.random.millis(0, 3_000));
                assert!(self.made.insert(number, call).is_none(), "call {number} twice");
            }
            // As many as the other side takes are running.
            Err(status) => assert_eq!(status.reason, Reason::SessionLimit),
        }
    }

    fn new_call(&mut self, number: u64, role: Writer) -> Call {
        let content = |port| Content::of(self.seed, number, role, port);
        let writing = PORTS.map(|port| Writing { port, content: content(port), written: 0 });
        let verdict = match self.random.one_in(4) {
            true => Status::handler(Code::NotFound, "by the seed"),
            false => Status::ok(),
        };
        Call {
            writing: writing.into(),
            reading: BTreeMap::new(),
            ended: None,
            cancel_at: None,
            cancelled: false,
            verdict,
            logs: 0,
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Called(frame) => {
                    let call = self.new_call(frame.call, Writer::Host);
                    assert!(self.hosted.insert(frame.call, call).is_none(), "hosted twice");
                }
                Event::Fragments { call, fragments } => {
                    for fragment in fragments {
                        self.arrived(call, &fragment);
                    }
                }
                Event::Closed { call, id, status } => {
                    assert!(status.is_ok());
                    self.call(call).reading.entry(id).or_default().is_final = true;
                }
                Event::Log { call, entry, displaced } => {
                    let call = self.call(call);
                    call.logs += displaced;
                    assert_eq!(entry.text, call.logs.to_string());
                    call.logs += 1;
                }
                Event::Cancelled { call, status } => {
                    let hosted = self.hosted.get_mut(&call).expect("a hosted call");
                    assert!(hosted.ended.is_none(), "call {call} was cancelled after its end");
                    hosted.ended = Some(status.clone());
                    self.core.finish(call, status);
                }
                Event::Finished { call, status } => {
                    let made = self.made.get_mut(&call).expect("a call of ours");
                    assert!(made.ended.is_none(), "call {call} ended twice");
                    made.ended = Some(status);
                }
                Event::Ended(status) => {
                    assert!(self.ended.is_none());
                    self.ended = Some(status);
                }
                Event::Publish(actions) => self.publishing.published(actions),
                Event::Published(refused) => self.publishing.answered(refused),
                Event::Withdraw(names) => self.publishing.withdrawn(names),
                Event::Writable { .. } => {}
                Event::Disconnected => {
                    assert!(!self.core.is_connected());
                    self.gave_up = true;
                }
                Event::Broken { call, status } => panic!("call {call}: {status}"),
            }
        }
    }

    fn call(&mut self, number: u64) -> &mut Call {
        self.made.get_mut(&number).or(self.hosted.get_mut(&number)).expect("a call that is known")
    }

    /// Checks that a piece is the very next one of its node, byte for byte.
    fn arrived(&mut self, number: u64, fragment: &NodeFragment) {
        let window = u64::from(self.limits.node_window_bytes);
        let is_made = self.made.contains_key(&number);
        let writer = if is_made { Writer::Host } else { Writer::Caller };
        let content = Content::of(self.seed, number, writer, &fragment.id);
        let call = self.call(number);
        assert!(call.ended.as_ref().is_none_or(|status| status.reason != Reason::PeerLost));
        let reading = call.reading.entry(fragment.id.clone()).or_default();
        assert!(!reading.is_final, "a piece after the final one");
        let data = fragment.chunk().expect("a chunk").data();
        let is_next = *data == content.piece(reading.came);
        assert!(is_next, "call {number} {}: not piece {}", fragment.id, reading.came);
        reading.came += 1;
        reading.is_final = !fragment.continued;
        assert_eq!(reading.is_final, reading.came == content.pieces());
        reading.unread.push(cost(fragment));
        let held: u64 = reading.unread.iter().sum();
        assert!(held <= window + LARGEST_PIECE + 64, "{held} bytes of a node with {window}");
    }

    /// Some readers take some of what is there.
    fn read(&mut self) {
        let calls = self.made.iter_mut().chain(&mut self.hosted);
        for (number, call) in calls {
            for (port, reading) in &mut call.reading {
                if self.random.one_in(2) {
                    continue;
                }
                let take = self.random.between(0, reading.unread.len() as u64) as usize;
                let taken: u64 = reading.unread.drain(..take).sum();
                self.core.consume(*number, port, taken);
            }
        }
    }

    /// Writes as much as there is room for; ends what is written.
    fn write(&mut self, now: Instant) {
        for (number, call) in &mut self.made {
            if call.ended.is_some() {
                continue;
            }
            if call.cancel_at.is_some_and(|at| at <= now) {
                call.cancel_at = None;
                call.cancelled = true;
                self.core.cancel(*number, Status::of(Reason::Cancelled, "by the seed"));
            }
            for node in &mut call.writing {
                write_node(&mut self.core, *number, node);
            }
        }
        for (number, call) in &mut self.hosted {
            if call.ended.is_some() {
                continue;
            }
            let mut left = 0;
            for node in &mut call.writing {
                write_node(&mut self.core, *number, node);
                left += node.content.pieces() - node.written;
            }
            if self.random.one_in(4) {
                let text = call.logs.to_string();
                self.core.log(*number, pb::LogEntry::info(text));
                call.logs += 1;
            }
            // A failure does not wait until all is written.
            let fails = !call.verdict.is_ok() && self.random.one_in(40);
            if left == 0 || fails {
                self.core.finish(*number, call.verdict.clone());
                call.ended = Some(call.verdict.clone());
            }
        }
    }

    /// What is held is bounded by what the nodes of the running calls may hold,
    /// on both sides.
    pub(crate) fn check_memory(&self) {
        let nodes = self.core.running_calls() as u64 * PORTS.len() as u64;
        // A node waits with 64 KiB and has two windows under way: its own and,
        // kept for a resumption, that of the other direction.
        let node = 2 * 40_000 + 64 * 1024 + 3 * LARGEST_PIECE;
        let control = 1 << 20;
        let held = self.core.held_bytes();
        assert!(held <= nodes * 2 * node + control, "{held} bytes for {nodes} nodes");
    }

    /// Checks every call that was made against the side that ran it.
    pub(crate) fn check_calls(&self, host: &Self) {
        for (number, call) in &self.made {
            let ended = call.ended.as_ref().expect("every call ends");
            let Some(hosted) = host.hosted.get(number) else {
                assert_eq!(ended.reason, Reason::PeerLost, "call {number} never ran");
                continue;
            };
            assert!(hosted.ended.is_some(), "call {number} runs on");
            for node in &hosted.writing {
                let (came, is_final) =
                    call.reading.get(node.port).map_or((0, false), |it| (it.came, it.is_final));
                assert!(came <= node.written);
                if ended.is_ok() && !call.cancelled {
                    let all = came == node.content.pieces() && is_final;
                    assert!(all, "call {number} {}", node.port);
                }
            }
            if !call.cancelled && ended.reason != Reason::PeerLost {
                assert_eq!(Some(ended), hosted.ended.as_ref(), "call {number}");
            }
        }
    }
}

fn write_node(core: &mut Core, number: u64, node: &mut Writing) {
    let pieces = node.content.pieces();
    while node.written < pieces && core.room(number, node.port) == Room::Free {
        let chunk = Chunk::new("application/x-simulated", node.content.piece(node.written));
        node.written += 1;
        let fragment = NodeFragment {
            continued: node.written < pieces,
            ..NodeFragment::more(node.port, chunk)
        };
        core.write(number, fragment).expect("fits");
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unended = |calls: &BTreeMap<u64, Call>| {
            calls.iter().filter(|(_, call)| call.ended.is_none()).count()
        };
        f.debug_struct("Program")
            .field("calls_left", &self.calls_left)
            .field("made", &unended(&self.made))
            .field("hosted", &unended(&self.hosted))
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
