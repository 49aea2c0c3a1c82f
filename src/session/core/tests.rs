//! Rules of the core that a simulation does not single out.

use std::time::{Duration, Instant};

use prost::Message as _;

use super::{
    Connection, Core, Event, Limits, NewCall, Room, Side, cost,
    limits::{
        DEFAULT_GRACE, MAX_UNACKED_BYTES, MAX_WAITING_ANSWER_BYTES, MAX_WAITING_CONTROL,
        MAX_WAITING_LOG_BYTES, PING_AFTER,
    },
};
use crate::wire::pb::{self, Frame, frame::Body, node_fragment::Payload};
use crate::wire::{Chunk, NodeFragment, NodeRef, Reason, Status, headers};

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

/// Fragments whose parts that cost nothing are so long, or one character longer.
fn bounded_fragments(past: usize) -> Vec<NodeFragment> {
    let text = |most: usize| "é".repeat(most + past);
    let node_ref = NodeRef { id: "n".repeat(255 + past), ..NodeRef::default() };
    let chunk = |body| Chunk { body, ..Chunk::default() };
    let payloads = [
        Payload::Chunk(Chunk::new(text(255), "x")),
        Payload::Chunk(chunk(Some(pb::chunk::Body::Ref(text(2048))))),
        Payload::NodeRef(node_ref),
    ];
    let fragment = |payload| NodeFragment { payload: Some(payload), ..piece("") };
    let mut fragments: Vec<_> = payloads.into_iter().map(fragment).collect();
    fragments.push(NodeFragment { id: text(255), ..piece("x") });
    fragments
}

/// A frame as a side without rules of its own would send it.
fn fragments_frame(number: u64, call: u64, fragments: Vec<NodeFragment>) -> Frame {
    let body = Body::Fragments(pb::FragmentsFrame { call, fragments });
    Frame { number, ack: 0, body: Some(body) }
}

#[test]
fn what_costs_no_credit_is_bounded_and_breaks_its_call_alone() {
    let inputs = [Reason::InvalidRequest, Reason::InvalidRequest, Reason::InvalidRequest];
    let inputs = [&inputs[..], &[Reason::UndeclaredInput]].concat();
    for (place, expected) in inputs.into_iter().enumerate() {
        // Inputs, at the side that runs the call.
        let (mut opener, mut acceptor, now) = pair(Limits::default());
        let broken = call(&mut opener);
        let other = call(&mut opener);
        pass(&mut opener, &mut acceptor, now);
        events(&mut acceptor);
        let within = bounded_fragments(0).swap_remove(place);
        acceptor.handle_frame(CONNECTION, fragments_frame(3, broken, vec![within]), now);
        assert!(matches!(events(&mut acceptor)[..], [Event::Fragments { .. }]));
        let past = bounded_fragments(1).swap_remove(place);
        acceptor.handle_frame(CONNECTION, fragments_frame(4, broken, vec![past]), now);
        let told = events(&mut acceptor);
        assert!(
            matches!(&told[..], [Event::Broken { call, status }]
                if *call == broken && status.reason == expected),
            "{told:?}"
        );
        // Nothing more of it is held; others go on.
        acceptor.handle_frame(CONNECTION, fragments_frame(5, broken, vec![piece("x")]), now);
        assert_eq!(events(&mut acceptor), []);
        acceptor.handle_frame(CONNECTION, fragments_frame(6, other, vec![piece("x")]), now);
        assert!(matches!(events(&mut acceptor)[..], [Event::Fragments { .. }]));

        // Outputs, at the side that called; and nothing of the kind is sent.
        let past = bounded_fragments(1).swap_remove(place);
        opener.handle_frame(CONNECTION, fragments_frame(1, broken, vec![past.clone()]), now);
        let told = events(&mut opener);
        assert!(
            matches!(&told[..], [Event::Broken { status, .. }]
                if status.reason == Reason::InvalidOutput),
            "{told:?}"
        );
        let refused = opener.write(other, past.clone()).expect_err("is past the bound");
        assert_eq!(refused.reason, expected);
        let refused = acceptor.write(other, past).expect_err("is past the bound");
        assert_eq!(refused.reason, Reason::InvalidOutput);
    }
}

#[test]
fn a_node_ends_with_its_close_and_its_id_is_bounded_there_too() {
    let check = |id: &str, expected: Reason| {
        let (mut opener, mut acceptor, now) = pair(Limits::default());
        let number = call(&mut opener);
        pass(&mut opener, &mut acceptor, now);
        events(&mut acceptor);
        let body = Body::Close(pb::CloseFrame { call: number, id: id.into(), status: None });
        acceptor.handle_frame(CONNECTION, Frame { number: 2, ack: 0, body: Some(body) }, now);
        let after = fragments_frame(3, number, vec![piece("x")]);
        acceptor.handle_frame(CONNECTION, after, now);
        let told = events(&mut acceptor);
        let broken = told.iter().find_map(|event| match event {
            Event::Broken { status, .. } => Some(status.reason),
            _ => None,
        });
        assert_eq!(broken, Some(expected), "{told:?}");
    };
    check("in", Reason::InvalidInput);
    check(&"x".repeat(256), Reason::UndeclaredInput);
}

#[test]
fn answers_that_are_not_read_are_bounded_in_bytes() {
    let (_, mut acceptor, now) = pair(Limits::default());
    let refused = pb::RefusedAction { name: "x".repeat(255), status: None };
    let answer = vec![refused; 1024];
    let mut answers = 0;
    // What was sent and not acknowledged is bounded too, and counts apart.
    while ended(&mut acceptor).is_none() {
        acceptor.answer_publish(answer.clone());
        frames(&mut acceptor, now);
        assert!(acceptor.held_bytes() < (MAX_UNACKED_BYTES + 2 * MAX_WAITING_ANSWER_BYTES) as u64);
        answers += 1;
        assert!(answers < MAX_WAITING_CONTROL, "nothing bounds them");
    }
    let bytes = answers * 1024 * 255;
    assert!(bytes > MAX_UNACKED_BYTES, "{bytes}");
    assert_eq!(acceptor.held_bytes(), 0);
}

#[test]
fn no_frame_is_larger_than_the_other_side_takes() {
    let limits = Limits { max_frame_bytes: 256 * 1024, ..Limits::default() };
    let check = |what: &str, send: &dyn Fn(&mut Core, u64)| {
        let (mut opener, mut acceptor, now) = pair(limits);
        let number = call(&mut opener);
        pass(&mut opener, &mut acceptor, now);
        send(&mut acceptor, number);
        let sent = frames(&mut acceptor, now);
        assert!(!sent.is_empty(), "{what}");
        for frame in sent {
            assert!(frame.encoded_len() <= 256 * 1024, "{what}: {} bytes", frame.encoded_len());
        }
    };
    let with_attributes = |count: usize, bytes: usize| {
        let mut chunk = Chunk::text("x");
        let attribute = |at| (format!("{at:x}"), vec![0; bytes].into());
        chunk.metadata.get_or_insert_default().attributes = (0..count).map(attribute).collect();
        NodeFragment::more("out", chunk)
    };
    check("a large value", &|core, number| {
        let large = NodeFragment::more("out", Chunk::text("x".repeat(1 << 20)));
        let refused = core.write(number, large).expect_err("is too large");
        assert_eq!(refused.reason, Reason::SessionLimit);
        core.finish(number, refused);
    });
    check("many small attributes", &|core, number| {
        while core.room(number, "out") == Room::Free {
            core.write(number, with_attributes(60, 1_000)).expect("fits");
        }
    });
    check("long media types", &|core, number| {
        while core.room(number, "out") == Room::Free {
            let chunk = Chunk::new("é".repeat(255), "");
            core.write(number, NodeFragment::more("out", chunk)).expect("fits");
        }
    });
    check("a log entry", &|core, number| {
        core.log(number, pb::LogEntry::info("x".repeat(1 << 20)));
        core.log(number, pb::LogEntry::info("fits"));
    });
    check("an answer", &|core, _| {
        let status = Some(Status::of(Reason::InvalidRequest, "x".repeat(4000)).into());
        core.answer_publish(vec![pb::RefusedAction { name: "x".into(), status }; 1024]);
    });
    check("a withdrawal", &|core, _| core.withdraw(vec!["x".repeat(255); 1024]));
}

#[test]
fn headers_past_their_bound_end_their_call_alone() {
    let check = |headers: &[(&str, usize)], expected: Option<Reason>| {
        let headers = headers.iter().map(|(name, len)| ((*name).to_owned(), vec![0; *len].into()));
        let mut frame = pb::CallFrame { call: 1, action: "a".into(), ..Default::default() };
        frame.headers = headers.collect();
        let (mut opener, mut acceptor, now) = pair(Limits::default());
        let made =
            opener.start_call(NewCall { headers: frame.headers.clone(), ..NewCall::default() });
        assert_eq!(made.err().map(|status| status.reason), expected);
        let body = Some(Body::Call(frame));
        acceptor.handle_frame(CONNECTION, Frame { number: 1, ack: 0, body }, now);
        let began = matches!(events(&mut acceptor)[..], [Event::Called(_)]);
        assert_eq!(began, expected.is_none());
        let told = frames(&mut acceptor, now);
        let refused = told.into_iter().find_map(|frame| match frame.body {
            Some(Body::Status(frame)) => frame.status.map(Status::from),
            _ => None,
        });
        assert_eq!(refused.as_ref().map(|status| status.reason), expected);
        assert!(refused.is_none_or(|status| status.message.contains("headers")));
    };
    let most = headers::MAX_BYTES - headers::OVERHEAD_BYTES - 1;
    check(&[("x", most)], None);
    check(&[("x", most + 1)], Some(Reason::InvalidRequest));
    check(&[("x", most / 2), ("y", most / 2)], Some(Reason::InvalidRequest));
}

#[test]
fn a_timeout_without_end_is_told_as_the_longest_that_a_message_may_say() {
    let (mut caller, _, now) = pair(Limits::default());
    let timeout = Some(Duration::MAX);
    caller.start_call(NewCall { timeout, ..NewCall::default() }).expect("begins");
    let Some(Body::Call(frame)) = frames(&mut caller, now).pop().and_then(|it| it.body) else {
        panic!("no call")
    };
    let longest = pbjson_types::Duration { seconds: 315_576_000_000, nanos: 0 };
    assert_eq!(frame.timeout, Some(longest));
}
