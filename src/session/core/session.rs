//! One side of a session: its state, and what its program does with it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use prost::Message as _;

use super::{
    call::{Call, Role},
    event::Event,
    limits::{Limits, MAX_WAITING_ANSWER_BYTES, MAX_WAITING_CONTROL, MAX_WITHDRAWN},
    link::Link,
};
use crate::wire::pb::{self, frame::Body};
use crate::wire::{Reason, Status, headers};

/// Which side opened the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This one. Its calls have odd numbers.
    Opener,
    /// The other one. The calls of this side have even numbers.
    Acceptor,
}

/// One connection of a session, told from those before it. Chosen by the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection(pub u64);

/// A call to be made.
#[derive(Debug, Clone, Default)]
pub struct NewCall {
    /// The model's own id for it; may be empty.
    pub id: String,
    /// The action.
    pub action: String,
    /// Header name, lower case → value.
    pub headers: BTreeMap<String, bytes::Bytes>,
    /// How much time is left for it.
    pub timeout: Option<Duration>,
    /// The inputs that will be written; `None` where that is not known.
    pub inputs: Option<Vec<String>>,
}

#[derive(Debug)]
pub(super) struct Attached {
    pub(super) connection: Connection,
    /// When something came last.
    pub(super) heard: Instant,
    pub(super) ping: Ping,
}

/// Whether the other side has been asked since something came last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ping {
    None,
    Due,
    Sent,
}

#[derive(Debug)]
pub(super) enum Phase {
    Open,
    /// The end is still to be told.
    Ending(Status),
    Over,
}

/// One side of one session.
#[derive(Debug)]
pub struct Core {
    side: Side,
    pub(super) limits: Limits,
    pub(super) peer_limits: Limits,
    pub(super) grace: Duration,
    pub(super) link: Link,
    pub(super) calls: BTreeMap<u64, Call>,
    pub(super) next_call: u64,
    /// The number of the other side's latest call.
    pub(super) last_called: u64,
    pub(super) calls_made: u32,
    pub(super) calls_hosted: u32,
    /// Control frames that wait.
    pub(super) control: VecDeque<Body>,
    /// What the answers among them take.
    pub(super) answer_bytes: usize,
    /// The calls that have something to send, each once.
    pub(super) lined_up: VecDeque<u64>,
    /// The nodes whose credit is to be told, each once.
    pub(super) credits: VecDeque<(u64, String)>,
    pub(super) pong: Option<u64>,
    pub(super) attached: Option<Attached>,
    pub(super) detached_at: Instant,
    pub(super) phase: Phase,
    pub(super) events: VecDeque<Event>,
}

impl Core {
    /// A session after its opening exchange, not yet attached to a connection.
    /// `limits` are this side's own, `grace` what the acceptor said.
    pub fn new(
        side: Side,
        limits: Limits,
        peer_limits: Limits,
        grace: Duration,
        now: Instant,
    ) -> Self {
        Self {
            side,
            limits,
            peer_limits,
            grace,
            link: Link::new(),
            calls: BTreeMap::new(),
            next_call: match side {
                Side::Opener => 1,
                Side::Acceptor => 2,
            },
            last_called: 0,
            calls_made: 0,
            calls_hosted: 0,
            control: VecDeque::new(),
            answer_bytes: 0,
            lined_up: VecDeque::new(),
            credits: VecDeque::new(),
            pong: None,
            attached: None,
            detached_at: now,
            phase: Phase::Open,
            events: VecDeque::new(),
        }
    }

    /// The highest number received: what the opening exchange tells the other
    /// side.
    pub fn received(&self) -> u64 {
        self.link.received()
    }

    /// Goes on over a connection. The other side has received up to `received`;
    /// the rest is sent again. A connection that there was is given up.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a number that was never sent, UNAVAILABLE where the
    /// session is over.
    pub fn attach(
        &mut self,
        connection: Connection,
        received: u64,
        now: Instant,
    ) -> Result<(), Status> {
        if self.is_over() {
            return Err(Status::of(Reason::UnknownSession, "the session is over"));
        }
        self.link.attach(received)?;
        self.pong = None;
        self.attached = Some(Attached { connection, heard: now, ping: Ping::None });
        Ok(())
    }

    /// The connection is gone; another one may go on within the grace period.
    /// Nothing happens where it is not the one in use.
    pub fn detach(&mut self, connection: Connection, now: Instant) {
        if self.attached.as_ref().is_some_and(|attached| attached.connection == connection) {
            self.attached = None;
            self.detached_at = now;
            if matches!(self.phase, Phase::Ending(_)) {
                self.phase = Phase::Over;
            }
        }
    }

    /// Which side this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Whether that connection is the one in use.
    pub fn is_attached(&self, connection: Connection) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.connection == connection)
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.attached.is_some()
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        !matches!(self.phase, Phase::Open)
    }

    /// Whether the session has ended and there is nothing left to say.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // Calling.

    /// Begins a call; [`Event::Finished`] ends it, once.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the other side takes no further call, or none so
    /// large; INVALID_ARGUMENT for headers past their bound; UNAVAILABLE where the
    /// session is over.
    pub fn start_call(&mut self, call: NewCall) -> Result<u64, Status> {
        if self.is_over() {
            return Err(Status::of(Reason::PeerLost, "the session is over"));
        }
        if self.calls_made >= self.peer_limits.max_calls {
            return Err(Status::of(
                Reason::SessionLimit,
                format!("the peer runs at most {} calls at once", self.peer_limits.max_calls),
            ));
        }
        let NewCall { id, action, headers, timeout, inputs } = call;
        headers::check_size(headers.iter().map(|(name, value)| (name.as_str(), value)))?;
        let number = self.next_call;
        let frame = pb::CallFrame {
            call: number,
            id,
            action,
            headers,
            timeout: timeout.map(duration_message),
            only_listed_inputs: inputs.is_some(),
            inputs: inputs.into_iter().flatten().map(own_node).collect(),
            outputs: vec![],
        };
        self.fits(frame.encoded_len())?;
        self.next_call += 2;
        self.calls_made += 1;
        self.calls.insert(number, Call::new(Role::Caller));
        self.control(Body::Call(frame));
        Ok(number)
    }

    /// Asks for the end of a call of ours. Nothing more of its inputs is sent.
    pub fn cancel(&mut self, call: u64, status: Status) {
        let Some(running) = self.calls.get_mut(&call) else { return };
        // Once is enough.
        if running.role == Role::Caller && running.ending.is_none() {
            running.clear();
            running.ending = Some(status.clone());
            self.control(Body::Cancel(pb::CancelFrame { call, status: Some(status.into()) }));
        }
    }

    // Hosting.

    /// Ends a call that runs here, with everything written before it. What a
    /// failed call wrote beyond its credit is let go.
    pub fn finish(&mut self, call: u64, status: Status) {
        let Some(running) = self.calls.get_mut(&call) else { return };
        if running.role == Role::Host && running.ending.is_none() {
            running.ending = Some(status);
            self.line_up(call);
        }
    }

    /// Narrates, for a call that runs here. Never waits.
    pub fn log(&mut self, call: u64, entry: pb::LogEntry) {
        let Some(running) = self.calls.get_mut(&call) else { return };
        if running.role == Role::Host && running.ending.is_none() {
            running.narration.add(entry);
            self.line_up(call);
        }
    }

    /// Publishes actions of ours; [`Event::Published`] answers.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where they do not fit into a frame.
    pub fn publish(&mut self, actions: Vec<pb::ActionSchema>) -> Result<(), Status> {
        let frame = pb::PublishFrame { actions };
        self.fits(frame.encoded_len())?;
        self.control(Body::Publish(frame));
        Ok(())
    }

    /// Answers [`Event::Publish`].
    pub fn answer_publish(&mut self, refused: Vec<pb::RefusedAction>) {
        let mut frame = pb::PublishedFrame { refused };
        if self.fits(frame.encoded_len()).is_err() {
            // Which ones, and the reason, say enough.
            for status in frame.refused.iter_mut().filter_map(|it| it.status.as_mut()) {
                status.message.clear();
                status.details.clear();
            }
        }
        match self.fits(frame.encoded_len()) {
            Ok(()) => self.control(Body::Published(frame)),
            Err(status) => self.end(status),
        }
    }

    /// Takes actions of ours back.
    pub fn withdraw(&mut self, names: Vec<String>) {
        for names in names.chunks(MAX_WITHDRAWN) {
            self.control(Body::Withdraw(pb::WithdrawFrame { names: names.to_vec() }));
        }
    }

    // The end.

    /// Ends the session for good. Every call ends here, and the other side is
    /// told if there is a connection.
    pub fn end(&mut self, status: Status) {
        if self.is_over() {
            return;
        }
        let lost = lost(&status);
        for (call, running) in std::mem::take(&mut self.calls) {
            match running.role {
                Role::Caller => {
                    self.events.push_back(Event::Finished { call, status: lost.clone() });
                }
                Role::Host if running.ending.is_none() => {
                    self.events.push_back(Event::Cancelled { call, status: lost.clone() });
                }
                Role::Host => {}
            }
        }
        self.calls_made = 0;
        self.calls_hosted = 0;
        self.control.clear();
        self.answer_bytes = 0;
        self.lined_up.clear();
        self.credits.clear();
        self.link.clear();
        self.events.push_back(Event::Ended(status.clone()));
        self.phase = match self.attached {
            Some(_) => Phase::Ending(status),
            None => Phase::Over,
        };
    }

    /// Bytes held for both directions: the replay buffer, what waits, and what
    /// came and was not consumed.
    pub fn held_bytes(&self) -> u64 {
        let calls = self.calls.values().map(|call| {
            let outgoing: u64 = call.outgoing.iter().map(|node| node.waiting_bytes()).sum();
            let incoming: u64 = call.incoming.iter().map(|node| node.held()).sum();
            outgoing + incoming + call.narration.waiting_bytes() as u64
        });
        (self.link.kept_bytes() + self.answer_bytes) as u64 + calls.sum::<u64>()
    }

    /// Calls that have begun and not ended, of both sides.
    pub fn running_calls(&self) -> usize {
        self.calls.len()
    }

    // Shared with the other parts of the core.

    /// Adds a control frame. One too many, and the other side does not read.
    pub(super) fn control(&mut self, body: Body) {
        if self.is_over() {
            return;
        }
        if self.control.len() >= MAX_WAITING_CONTROL {
            let message = format!("more than {MAX_WAITING_CONTROL} frames wait to be read");
            return self.end(Status::of(Reason::SessionLimit, message));
        }
        let answer = answer_len(&body);
        if answer > 0 && self.answer_bytes >= MAX_WAITING_ANSWER_BYTES {
            let message = format!("{} bytes of answers wait to be read", self.answer_bytes);
            return self.end(Status::of(Reason::SessionLimit, message));
        }
        self.answer_bytes += answer;
        self.control.push_back(body);
    }

    /// Gives a call its turn where it has something to send.
    pub(super) fn line_up(&mut self, call: u64) {
        if let Some(running) = self.calls.get_mut(&call)
            && !running.is_lined_up
            && running.is_ready()
        {
            running.is_lined_up = true;
            self.lined_up.push_back(call);
        }
    }

    /// Whether a call number is one of this side's own.
    pub(super) fn is_own(&self, call: u64) -> bool {
        (call % 2 == 1) == (self.side == Side::Opener)
    }

    /// Whether so much fits into a frame of the other side.
    pub(super) fn fits(&self, bytes: usize) -> Result<(), Status> {
        /// The frame around it: number, acknowledgement, call, lengths.
        const FRAME_BYTES: usize = 64;
        let most = self.peer_limits.max_frame_bytes as usize;
        if bytes + FRAME_BYTES <= most {
            return Ok(());
        }
        Err(Status::of(
            Reason::SessionLimit,
            format!("{bytes} bytes do not fit into a frame of the peer, which has at most {most}"),
        ))
    }
}

/// What a control frame takes where it is an answer: the other side calls it forth.
pub(super) fn answer_len(body: &Body) -> usize {
    match body {
        Body::Published(_) | Body::Status(_) => body.encoded_len(),
        _ => 0,
    }
}

/// What the calls of a session that ended end with.
fn lost(status: &Status) -> Status {
    if status.reason == Reason::PeerLost {
        return status.clone();
    }
    let why = match status.is_ok() {
        true => "the peer ended the session".to_owned(),
        false => format!("the session ended: {}", status.message),
    };
    Status::of(Reason::PeerLost, why)
}

/// A duration as a message; past what that may say, the longest.
pub(in crate::session) fn duration_message(duration: Duration) -> pbjson_types::Duration {
    /// 10,000 years: what a Duration is documented to hold.
    const LONGEST: Duration = Duration::from_secs(315_576_000_000);
    let duration = duration.min(LONGEST);
    pbjson_types::Duration {
        seconds: duration.as_secs() as i64,
        nanos: duration.subsec_nanos() as i32,
    }
}

/// An input whose node has its own name.
fn own_node(port: String) -> pb::PortBinding {
    pb::PortBinding { id: port.clone(), name: port }
}
