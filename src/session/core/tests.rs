//! Rules of the core that a simulation does not single out.

use std::time::{Duration, Instant};

use super::{
    Connection, Core, Event, Limits, NewCall, Room, Side, cost,
    limits::{DEFAULT_GRACE, MAX_WAITING_CONTROL, MAX_WAITING_LOG_BYTES, PING_AFTER},
};
use crate::wire::pb::{self, Frame, frame::Body};
use crate::wire::{Chunk, NodeFragment, Reason, Status};

const CONNECTION: Connection = Connection(1);

fn pair(limits: Limits) -> (Core, Core, Instant) {
    let now = Instant::now();
    let core = |side| {
        let mut core = Core::new(side, limits, limits, DEFAULT_GRACE, now);
        core.attach(CONNECTION, 0, now).expect("a new session");
        core
    };
    (core(Side::Opener), core(Side::Acceptor), now)
}

fn frames(core: &mut Core, now: Instant) -> Vec<Frame> {
    std::iter::from_fn(|| core.poll_frame(now)).collect()
}

/// Moves everything from one side to the other; answers what moved.
fn pass(from: &mut Core, to: &mut Core, now: Instant) -> Vec<Frame> {
    let moved = frames(from, now);
    for frame in &moved {
        to.handle_frame(CONNECTION, frame.clone(), now);
    }
    moved
}

fn events(core: &mut Core) -> Vec<Event> {
    std::iter::from_fn(|| core.poll_event()).collect()
}

fn ended(core: &mut Core) -> Option<Status> {
    events(core).into_iter().find_map(|event| match event {
        Event::Ended(status) => Some(status),
        _ => None,
    })
}

fn call(core: &mut Core) -> u64 {
    core.start_call(NewCall { action: "a".into(), ..NewCall::default() }).expect("starts")
}

fn piece(text: &str) -> NodeFragment {
    NodeFragment::more("in", Chunk::text(text))
}

#[test]
fn a_lone_fragment_leaves_at_once_and_many_small_ones_leave_as_few_frames() {
    let check = |pieces: usize, expected: usize| {
        let (mut opener, _, now) = pair(Limits::default());
        let number = call(&mut opener);
        frames(&mut opener, now);
        for _ in 0..pieces {
            opener.write(number, piece("0123456789abcdef")).expect("fits");
        }
        assert_eq!(frames(&mut opener, now).len(), expected, "{pieces} pieces");
    };
    check(1, 1);
    check(200, 1);
    check(1_000, 4);
}

#[test]
fn a_node_without_credit_holds_up_no_other() {
    let limits = Limits { node_window_bytes: 4096, ..Limits::default() };
    let (mut opener, mut acceptor, now) = pair(limits);
    let number = call(&mut opener);
    while opener.room(number, "in") == Room::Free {
        opener.write(number, piece(&"x".repeat(1000))).expect("fits");
    }
    opener.write(number, NodeFragment::last("other", Chunk::text("y"))).expect("fits");
    pass(&mut opener, &mut acceptor, now);
    let came = |acceptor: &mut Core, id: &str| {
        let came = events(acceptor).into_iter().filter_map(|event| match event {
            Event::Fragments { fragments, .. } => Some(fragments),
            _ => None,
        });
        came.flatten().filter(|fragment| fragment.id == id).collect::<Vec<_>>()
    };
    let mut fragments = vec![];
    let all = events(&mut acceptor);
    assert!(!all.is_empty());
    for event in all {
        if let Event::Fragments { fragments: more, .. } = event {
            fragments.extend(more);
        }
    }
    assert_eq!(fragments.iter().filter(|it| it.id == "in").count(), 4);
    assert_eq!(fragments.iter().filter(|it| it.id == "other").count(), 1);
    // What the reader consumes comes back as credit, and only then more comes.
    assert!(pass(&mut opener, &mut acceptor, now).is_empty());
    acceptor.consume(number, "in", 2 * cost(&fragments[0]));
    pass(&mut acceptor, &mut opener, now);
    pass(&mut opener, &mut acceptor, now);
    assert_eq!(came(&mut acceptor, "in").len(), 2);
}

#[test]
fn frames_against_the_rules_end_the_session() {
    let check = |number: u64, body: Body, expected: &str| {
        let (_, mut acceptor, now) = pair(Limits::default());
        acceptor.handle_frame(CONNECTION, Frame { number, ack: 0, body: Some(body) }, now);
        let status = ended(&mut acceptor).expect(expected);
        assert_eq!(status.reason, Reason::InvalidFrame);
        assert!(status.message.contains(expected), "{status}");
        let told = frames(&mut acceptor, now);
        assert!(matches!(told[..], [Frame { body: Some(Body::End(_)), .. }]), "{told:?}");
    };
    let call = |call| Body::Call(pb::CallFrame { call, action: "a".into(), ..Default::default() });
    check(1, call(2), "call 2 has a number");
    check(1, call(0), "call 0 has a number");
    check(0, call(1), "without the number");
    check(1, Body::Ping(pb::PingFrame { id: 1 }), "with a number");
    check(1, Body::Status(pb::StatusFrame { call: 2, status: None }), "has not begun");
    check(1, Body::Cancel(pb::CancelFrame { call: 2, status: None }), "wrong side");
    check(1, Body::Fragments(pb::FragmentsFrame { call: 7, fragments: vec![] }), "has not begun");
    check(0, Body::Open(pb::OpenFrame::default()), "open already");
}

#[test]
fn what_is_sent_past_its_credit_or_acknowledged_unsent_ends_the_session() {
    let limits = Limits { node_window_bytes: 4096, ..Limits::default() };
    let check = |change: &dyn Fn(&mut Frame), expected: &str| {
        let (mut opener, mut acceptor, now) = pair(limits);
        let number = call(&mut opener);
        for _ in 0..4 {
            opener.write(number, piece(&"x".repeat(1000))).expect("fits");
        }
        for mut frame in frames(&mut opener, now) {
            change(&mut frame);
            acceptor.handle_frame(CONNECTION, frame, now);
        }
        let status = ended(&mut acceptor).expect(expected);
        assert!(status.message.contains(expected), "{status}");
    };
    let repeat = |frame: &mut Frame| {
        if let Some(Body::Fragments(fragments)) = &mut frame.body {
            fragments.fragments.extend(fragments.fragments.clone());
        }
    };
    check(&repeat, "past its credit");
    check(&|frame| frame.ack = 9, "was acknowledged");
}

#[test]
fn a_gap_breaks_the_connection_and_not_the_session() {
    let (mut opener, mut acceptor, now) = pair(Limits::default());
    call(&mut opener);
    call(&mut opener);
    let sent = frames(&mut opener, now);
    acceptor.handle_frame(CONNECTION, sent[1].clone(), now);
    assert_eq!(events(&mut acceptor), [Event::Disconnected]);
    let again = Connection(2);
    opener.attach(again, acceptor.received(), now).expect("resumes");
    acceptor.attach(again, opener.received(), now).expect("resumes");
    for frame in frames(&mut opener, now) {
        acceptor.handle_frame(again, frame, now);
    }
    assert_eq!(events(&mut acceptor).len(), 2);
}

#[test]
fn a_peer_that_sends_without_reading_ends_the_session() {
    let limits = Limits { max_calls: 1, ..Limits::default() };
    let (_, mut acceptor, now) = pair(limits);
    for place in 0..MAX_WAITING_CONTROL as u64 + 2 {
        let body = Body::Call(pb::CallFrame { call: 2 * place + 1, ..Default::default() });
        let frame = Frame { number: place + 1, ack: 0, body: Some(body) };
        acceptor.handle_frame(CONNECTION, frame, now);
    }
    let status = ended(&mut acceptor).expect("too much waits");
    assert_eq!(status.reason, Reason::SessionLimit);
    assert_eq!(acceptor.held_bytes(), 0);
}

#[test]
fn a_log_that_nobody_reads_loses_its_oldest_entries() {
    let (mut opener, mut acceptor, now) = pair(Limits::default());
    let number = call(&mut opener);
    pass(&mut opener, &mut acceptor, now);
    let text = "x".repeat(MAX_WAITING_LOG_BYTES / 4);
    for place in 0..10 {
        acceptor.log(number, pb::LogEntry::info(format!("{place}{text}")));
    }
    pass(&mut acceptor, &mut opener, now);
    let logs: Vec<_> = events(&mut opener)
        .into_iter()
        .filter_map(|event| match event {
            Event::Log { entry, displaced, .. } => Some((entry.text[..1].to_owned(), displaced)),
            _ => None,
        })
        .collect();
    assert_eq!(logs, [("7".to_owned(), 7), ("8".to_owned(), 0), ("9".to_owned(), 0)]);
}

#[test]
fn a_silent_connection_is_asked_and_then_given_up() {
    let (mut opener, mut acceptor, start) = pair(Limits::default());
    let asked = start + PING_AFTER;
    assert_eq!(opener.next_timeout(), Some(asked));
    opener.handle_timeout(asked);
    let sent = pass(&mut opener, &mut acceptor, asked);
    assert!(matches!(sent[..], [Frame { body: Some(Body::Ping(_)), .. }]), "{sent:?}");
    let answer = pass(&mut acceptor, &mut opener, asked);
    assert!(matches!(answer[..], [Frame { body: Some(Body::Pong(_)), .. }]), "{answer:?}");
    let silent = opener.next_timeout().expect("asks again");
    opener.handle_timeout(silent);
    frames(&mut opener, silent);
    let given_up = opener.next_timeout().expect("gives up");
    opener.handle_timeout(given_up);
    assert_eq!(events(&mut opener), [Event::Disconnected]);
    opener.handle_timeout(given_up + DEFAULT_GRACE);
    assert_eq!(ended(&mut opener).expect("is over").reason, Reason::PeerLost);
}

#[test]
fn what_is_received_is_acknowledged_in_time_and_kept_no_longer() {
    let (mut opener, mut acceptor, now) = pair(Limits::default());
    call(&mut opener);
    pass(&mut opener, &mut acceptor, now);
    assert!(opener.held_bytes() > 0);
    assert!(frames(&mut acceptor, now).is_empty());
    let due = acceptor.next_timeout().expect("an acknowledgement");
    assert!(due <= now + Duration::from_millis(25));
    pass(&mut acceptor, &mut opener, due);
    assert_eq!(opener.held_bytes(), 0);
}

#[test]
fn the_calls_of_a_session_that_ends_end_once() {
    let (mut opener, mut acceptor, now) = pair(Limits::default());
    let number = call(&mut opener);
    pass(&mut opener, &mut acceptor, now);
    events(&mut acceptor);
    opener.end(Status::ok());
    let told = events(&mut opener);
    assert!(
        matches!(&told[..], [Event::Finished { call, status }, Event::Ended(_)]
            if *call == number && status.reason == Reason::PeerLost),
        "{told:?}"
    );
    pass(&mut opener, &mut acceptor, now);
    let told = events(&mut acceptor);
    assert!(
        matches!(&told[..], [Event::Cancelled { call, .. }, Event::Ended(_)] if *call == number),
        "{told:?}"
    );
    assert!(opener.is_closed() && frames(&mut acceptor, now).is_empty());
}
