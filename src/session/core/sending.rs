//! Frames that leave: what goes first, and what shares a frame.

use std::time::Instant;

use super::{
    call::Role,
    event::Event,
    limits::{GATHERED_BYTES, GATHERED_FRAGMENTS},
    session::{Core, Phase, Ping, answer_len},
};
use crate::wire::pb::{self, Frame, frame::Body};

impl Core {
    /// The next frame to send over the connection; `None` where there is nothing
    /// to say, or no connection. The more has gathered before it is asked for,
    /// the fewer frames it leaves in.
    pub fn poll_frame(&mut self, now: Instant) -> Option<Frame> {
        self.attached.as_ref()?;
        if let Phase::Ending(status) = &self.phase {
            let status = Some(status.clone().into());
            self.phase = Phase::Over;
            return Some(self.link.send_bare(Body::End(pb::EndFrame { status })));
        }
        if self.is_over() {
            return None;
        }
        if let Some(frame) = self.link.replay() {
            return Some(frame);
        }
        if let Some(id) = self.pong.take() {
            return Some(self.link.send_bare(Body::Pong(pb::PongFrame { id })));
        }
        if self.link.has_room()
            && let Some(body) = self.next_body()
        {
            return Some(self.link.send(body));
        }
        if let Some(attached) = self.attached.as_mut().filter(|it| it.ping == Ping::Due) {
            attached.ping = Ping::Sent;
            return Some(self.link.send_bare(Body::Ping(pb::PingFrame { id: 0 })));
        }
        if self.link.must_tell(now) {
            return Some(self.link.send_bare(Body::AckOnly(pb::AckFrame {})));
        }
        None
    }

    /// What is new: control first, then credit, so that the other side goes on;
    /// then the calls in turn.
    fn next_body(&mut self) -> Option<Body> {
        if let Some(body) = self.control.pop_front() {
            self.answer_bytes -= answer_len(&body);
            return Some(body);
        }
        while let Some((call, id)) = self.credits.pop_front() {
            let running = self.calls.get_mut(&call);
            let node = running.and_then(|call| call.incoming.iter_mut().find(|it| it.id == id));
            if let Some(node) = node {
                node.untold = false;
                let bytes = node.granted();
                return Some(Body::Credit(pb::CreditFrame { call, id, bytes }));
            }
        }
        while let Some(call) = self.lined_up.pop_front() {
            let body = self.next_of(call);
            self.line_up(call);
            if body.is_some() {
                return body;
            }
        }
        None
    }

    /// What a call has to say next.
    fn next_of(&mut self, call: u64) -> Option<Body> {
        let running = self.calls.get_mut(&call)?;
        running.is_lined_up = false;
        if let Some((entry, displaced)) = running.narration.take() {
            return Some(Body::Log(pb::LogFrame { call, entry: Some(entry), displaced }));
        }
        let mut fragments = vec![];
        let mut gathered: usize = 0;
        let nodes = running.outgoing.len();
        for place in 0..nodes {
            let node = &mut running.outgoing[(running.first_served + place) % nodes];
            // One alone is taken whatever its size.
            while fragments.len() < GATHERED_FRAGMENTS
                && let room = GATHERED_BYTES.saturating_sub(gathered)
                && let most = if fragments.is_empty() { usize::MAX } else { room }
                && let Some((fragment, encoded)) = node.take(most)
            {
                gathered += encoded;
                fragments.push(fragment);
            }
            if node.awaited && node.has_room() {
                node.awaited = false;
                self.events.push_back(Event::Writable { call, id: node.id.clone() });
            }
        }
        if !fragments.is_empty() {
            running.first_served = (running.first_served + 1) % nodes;
            return Some(Body::Fragments(pb::FragmentsFrame { call, fragments }));
        }
        for node in &mut running.outgoing {
            if let Some(status) = node.take_end() {
                let id = node.id.clone();
                let status = (!status.is_ok()).then(|| status.into());
                return Some(Body::Close(pb::CloseFrame { call, id, status }));
            }
        }
        if running.role == Role::Host && running.can_end() {
            let status = running.ending.take().map(Into::into);
            self.calls.remove(&call);
            self.calls_hosted -= 1;
            return Some(Body::Status(pb::StatusFrame { call, status }));
        }
        None
    }
}
