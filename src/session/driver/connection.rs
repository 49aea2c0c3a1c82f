//! Moves the frames of a session over one connection, whatever it is made of.

use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::handle::Session;
use crate::session::core::{Connection, limits::ACK_DELAY};
use crate::wire::pb::{EndFrame, Frame, frame::Body};
use crate::wire::{Reason, Status};

/// Where frames leave, with room for [`WAITING_FRAMES`].
pub type FrameSink = mpsc::Sender<Frame>;

/// How many frames wait between a session and its connection. Few, because what
/// waits in the session still gathers.
pub const WAITING_FRAMES: usize = 4;

/// When there is no time to keep, look again after this long.
const IDLE: Duration = Duration::from_secs(3600);

/// How long the other side may take to read that the session is over, and then to
/// end the connection.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs a connection of a session until it breaks, another one takes its place,
/// or the session ends. The core must have been attached to it, and the opening
/// exchange be over. `stop` ends the session, and so does what is no frame: an
/// error with [`Reason::InvalidFrame`]. After any other error the connection is
/// broken.
///
/// Reading never waits for writing: a peer that does not read holds up what is
/// sent to it and nothing else.
pub async fn run(
    session: &Session,
    connection: Connection,
    mut frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
    sink: FrameSink,
    stop: &CancellationToken,
) {
    let changed = session.replace_waker();
    let (mut has_frames, mut can_read) = (true, true);
    // Kept from turn to turn: making them anew costs more than a small frame.
    let stopped = stop.cancelled();
    let timer = tokio::time::sleep(IDLE);
    tokio::pin!(stopped, timer);
    // How long a session that has ended waits for its end to be taken.
    let farewell = tokio::time::sleep(IDLE);
    tokio::pin!(farewell);
    let mut is_ending = false;
    // What is overdue waits for room in the sink, which wakes by itself. Nothing
    // new is due earlier than this after the last time.
    let mut not_before = tokio::time::Instant::now();
    loop {
        let due = session.look(|state| {
            let usable = state.core.is_attached(connection) && !state.core.is_closed();
            usable.then(|| state.core.next_timeout().unwrap_or_else(|| Instant::now() + IDLE))
        });
        let Some(due) = due else { break };
        let due = tokio::time::Instant::from_std(due).max(not_before);
        if session.is_over() && !std::mem::replace(&mut is_ending, true) {
            farewell.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
        }
        if timer.is_elapsed() || timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        // All branches are cancel safe: a frame is taken from the core only once
        // there is a place for it.
        tokio::select! {
            frame = frames.next(), if can_read => {
                let now = Instant::now();
                match frame {
                    Some(Ok(frame)) => {
                        session.with(|state| state.core.handle_frame(connection, frame, now));
                    }
                    // It would be sent again over every further connection.
                    Some(Err(status)) if status.reason == Reason::InvalidFrame => {
                        session.end(status);
                        (has_frames, can_read) = (true, false);
                    }
                    Some(Err(_)) | None => session.with(|state| state.core.detach(connection, now)),
                }
            }
            permit = sink.reserve(), if has_frames => match permit {
                Ok(permit) => {
                    let now = Instant::now();
                    match session.poll_frame(connection, now) {
                        Some(frame) => permit.send(frame),
                        None => has_frames = false,
                    }
                }
                Err(_) => session.with(|state| state.core.detach(connection, Instant::now())),
            },
            () = changed.notified() => has_frames = true,
            () = &mut timer => {
                not_before = tokio::time::Instant::now() + ACK_DELAY;
                session.with(|state| state.core.handle_timeout(Instant::now()));
                has_frames = true;
            }
            () = &mut farewell, if is_ending => break,
            () = &mut stopped, if !session.is_over() => {
                session.end(Status::of(Reason::ShuttingDown, "the service is shutting down"));
                has_frames = true;
            }
        }
    }
    if session.is_over() {
        // Letting go of both directions at once would take the end back.
        drop(sink);
        let rest = async { while let Some(Ok(_)) = frames.next().await {} };
        let _ = tokio::time::timeout(FAREWELL, rest).await;
    } else if session.is_connected() {
        let status = Status::of(Reason::SessionResumed, "the session goes on elsewhere");
        let body = Body::End(EndFrame { status: Some(status.into()) });
        // Only if there is room: nobody waits for it.
        let _ = sink.try_send(Frame { number: 0, ack: 0, body: Some(body) });
    }
}

impl Session {
    fn poll_frame(&self, connection: Connection, now: Instant) -> Option<Frame> {
        let (frame, work) = self.look(|state| {
            let attached = state.core.is_attached(connection);
            let frame = attached.then(|| state.core.poll_frame(now)).flatten();
            (frame, state.settle())
        });
        // Sending only makes room; nothing else follows from it.
        debug_assert!(work.is_empty());
        frame
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::stream;

    use super::*;
    use crate::session::core::{Core, Limits, Side};
    use crate::session::driver::{Publications, SessionParts};
    use crate::wire::pb::{OpenFrame, RefusedAction, WithdrawFrame};

    struct Nothing;

    impl Publications for Nothing {
        fn publish(
            &self,
            _: &Session,
            _: Vec<crate::wire::pb::ActionSchema>,
        ) -> Vec<RefusedAction> {
            vec![]
        }
        fn withdraw(&self, _: &Session, _: Vec<String>) {}
        fn ended(&self, _: &Session, _: &Status) {}
    }

    fn session() -> Session {
        let (limits, now) = (Limits::default(), Instant::now());
        let core = Core::new(Side::Acceptor, limits, limits, Duration::from_secs(60), now);
        let publications: Arc<dyn Publications> = Arc::new(Nothing);
        let parts = SessionParts {
            id: "s".into(),
            peer: String::new(),
            registry: Arc::default(),
            handlers: Arc::default(),
            publications: Arc::downgrade(&publications),
            tasks: Default::default(),
            runs: None,
        };
        Session::new(core, parts)
    }

    /// Else each of a peer's short connections would leave a task for the whole grace
    /// period.
    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_resumption_ends_with_it_even_where_that_is_over_already() {
        let (session, now) = (session(), Instant::now());
        for at in 1..4 {
            session.attach(Connection(at), 0, now).expect("attaches");
            session.detach(Connection(at));
            let waiting = session.keep_until_resumed();
            tokio::pin!(waiting);
            assert!(futures::poll!(&mut waiting).is_pending());
            session.attach(Connection(at + 10), 0, now).expect("attaches");
            session.detach(Connection(at + 10));
            let began = tokio::time::Instant::now();
            waiting.await;
            assert_eq!(began.elapsed(), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_session_waits_for_no_peer_that_does_not_read() {
        let (session, now) = (session(), Instant::now());
        session.attach(Connection(1), 0, now).expect("attaches");
        let (sink, _unread) = mpsc::channel(1);
        let open = Frame { number: 0, ack: 0, body: Some(Body::Open(OpenFrame::default())) };
        sink.try_send(open).expect("has room for one");
        let stop = CancellationToken::new();
        stop.cancel();
        let running = run(&session, Connection(1), stream::pending(), sink, &stop);
        tokio::time::timeout(3 * FAREWELL, running).await.expect("ends");
        assert!(session.is_over());
    }

    /// The paused clock moves only while nothing runs.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_waited_for_at_rest() {
        let (session, now) = (session(), Instant::now());
        session.attach(Connection(1), 0, now).expect("attaches");
        let (sink, _unread) = mpsc::channel(1);
        let open = Frame { number: 0, ack: 0, body: Some(Body::Open(OpenFrame::default())) };
        sink.try_send(open).expect("has room for one");
        // To be acknowledged, for which there is no room.
        let body = Some(Body::Withdraw(WithdrawFrame::default()));
        let frames = stream::iter([Ok(Frame { number: 1, ack: 0, body })]).chain(stream::pending());
        let stop = CancellationToken::new();
        let running = run(&session, Connection(1), frames, sink, &stop);
        assert!(tokio::time::timeout(Duration::from_secs(10), running).await.is_err());
    }
}
