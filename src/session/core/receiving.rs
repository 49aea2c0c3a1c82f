//! Frames that come: each is checked against the rules of the session, and
//! becomes an event.

use std::time::Instant;

use super::{
    bounds::{check_fragment, check_node, cut, is_longer, misuse},
    call::{Call, Role},
    cost::cost,
    event::Event,
    limits::MAX_ID_CHARS,
    link::Arrival,
    session::{Connection, Core, Ping},
};
use crate::wire::pb::{self, Frame, frame::Body};
use crate::wire::{Code, NodeFragment, Reason, Status, headers};

impl Core {
    /// Takes a frame that came over `connection`. What comes over a connection
    /// that is not in use any more is ignored. A frame against the rules ends
    /// the session.
    pub fn handle_frame(&mut self, connection: Connection, frame: Frame, now: Instant) {
        if self.is_over() || !self.is_attached(connection) {
            return;
        }
        if let Some(attached) = &mut self.attached {
            attached.heard = now;
            attached.ping = Ping::None;
        }
        let Frame { number, ack, body } = frame;
        let result = self.acknowledged(ack).and_then(|()| match body {
            _ if number > 0 => {
                self.numbered(connection, number, body, now);
                Ok(())
            }
            Some(body) => self.bare(body),
            None => Ok(()),
        });
        if let Err(status) = result {
            self.end(status);
        }
    }

    fn acknowledged(&mut self, ack: u64) -> Result<(), Status> {
        if ack == 0 { Ok(()) } else { self.link.acknowledged(ack) }
    }

    fn bare(&mut self, body: Body) -> Result<(), Status> {
        match body {
            Body::AckOnly(pb::AckFrame {}) => Ok(()),
            Body::Ping(pb::PingFrame { id }) => {
                self.pong = Some(id);
                Ok(())
            }
            Body::Pong(pb::PongFrame { id: _ }) => Ok(()),
            Body::End(pb::EndFrame { status }) => {
                self.ended_by_peer(status.map_or_else(Status::ok, cut));
                Ok(())
            }
            Body::Open(_) | Body::Opened(_) => Err(invalid("the session is open already")),
            Body::Publish(_)
            | Body::Published(_)
            | Body::Withdraw(_)
            | Body::Call(_)
            | Body::Fragments(_)
            | Body::Close(_)
            | Body::Credit(_)
            | Body::Log(_)
            | Body::Cancel(_)
            | Body::Status(_) => Err(invalid("a frame without the number that its kind has")),
        }
    }

    fn numbered(&mut self, connection: Connection, number: u64, body: Option<Body>, now: Instant) {
        let bytes = body.as_ref().map_or(0, size);
        match self.link.arrived(number, bytes, now) {
            Arrival::New => {}
            Arrival::Repeated => return,
            Arrival::Gap => {
                // The other side goes on from what is here once it resumes.
                self.detach(connection, now);
                self.events.push_back(Event::Disconnected);
                return;
            }
        }
        if let Some(body) = body
            && let Err(status) = self.take(body)
        {
            self.end(status);
        }
    }

    fn take(&mut self, body: Body) -> Result<(), Status> {
        match body {
            Body::Publish(pb::PublishFrame { actions }) => {
                self.events.push_back(Event::Publish(actions));
            }
            Body::Published(pb::PublishedFrame { refused }) => {
                self.events.push_back(Event::Published(refused));
            }
            Body::Withdraw(pb::WithdrawFrame { names }) => {
                self.events.push_back(Event::Withdraw(names));
            }
            Body::Call(call) => self.called(call)?,
            Body::Fragments(pb::FragmentsFrame { call, fragments }) => {
                let window = self.limits.node_window_bytes;
                if let Some(running) = self.unbroken(call)? {
                    match running.arrived(&fragments, window)? {
                        Ok(()) => self.events.push_back(Event::Fragments { call, fragments }),
                        Err(status) => self.events.push_back(Event::Broken { call, status }),
                    }
                }
            }
            Body::Close(pb::CloseFrame { call, id, status }) => {
                let window = self.limits.node_window_bytes;
                if let Some(running) = self.unbroken(call)? {
                    if let Err(status) = check_node(running.role.other(), &id) {
                        running.is_broken = true;
                        self.events.push_back(Event::Broken { call, status });
                        return Ok(());
                    }
                    running.incoming(&id, window)?.close();
                    let status = status.map_or_else(Status::ok, cut);
                    self.events.push_back(Event::Closed { call, id, status });
                }
            }
            Body::Credit(pb::CreditFrame { call, id, bytes }) => {
                if let Some(running) = self.known(call)?
                    && let Some(node) = running.outgoing.iter_mut().find(|node| node.id == id)
                {
                    node.grant(bytes);
                    self.line_up(call);
                }
            }
            Body::Log(pb::LogFrame { call, entry, displaced }) => {
                if self.in_role(call, Role::Caller)?.is_some() {
                    let entry = entry.unwrap_or_default();
                    self.events.push_back(Event::Log { call, entry, displaced });
                }
            }
            Body::Cancel(pb::CancelFrame { call, status }) => {
                if let Some(running) = self.in_role(call, Role::Host)? {
                    running.clear();
                    let untold = running.ending.is_none();
                    self.line_up(call);
                    if untold {
                        let status = cause(status);
                        self.events.push_back(Event::Cancelled { call, status });
                    }
                }
            }
            Body::Status(pb::StatusFrame { call, status }) => {
                if self.in_role(call, Role::Caller)?.is_some() {
                    self.calls.remove(&call);
                    self.calls_made -= 1;
                    let status = status.map_or_else(Status::ok, cut);
                    self.events.push_back(Event::Finished { call, status });
                }
            }
            Body::Open(_)
            | Body::Opened(_)
            | Body::AckOnly(_)
            | Body::Ping(_)
            | Body::Pong(_)
            | Body::End(_) => return Err(invalid("a frame with a number that its kind has not")),
        }
        Ok(())
    }

    fn called(&mut self, frame: pb::CallFrame) -> Result<(), Status> {
        let call = frame.call;
        if call == 0 || self.is_own(call) || call <= self.last_called {
            return Err(invalid(format!("call {call} has a number that is not the caller's next")));
        }
        self.last_called = call;
        if let Err(status) = self.admits(&frame) {
            let status = Some(status.into());
            self.control(Body::Status(pb::StatusFrame { call, status }));
            return Ok(());
        }
        self.calls_hosted += 1;
        self.calls.insert(call, Call::new(Role::Host));
        self.events.push_back(Event::Called(Box::new(frame)));
        Ok(())
    }

    /// Whether a call may begin here.
    fn admits(&self, frame: &pb::CallFrame) -> Result<(), Status> {
        if self.calls_hosted >= self.limits.max_calls {
            let most = self.limits.max_calls;
            return Err(Status::of(
                Reason::SessionLimit,
                format!("at most {most} calls of a session run at once"),
            ));
        }
        if is_longer(&frame.id, MAX_ID_CHARS) {
            let message = format!("id: longer than {MAX_ID_CHARS} characters");
            return Err(Status::of(Reason::InvalidRequest, message));
        }
        headers::check_size(frame.headers.iter().map(|(name, value)| (name.as_str(), value)))
    }

    /// A call that runs, and whose nodes are still taken.
    fn unbroken(&mut self, call: u64) -> Result<Option<&mut Call>, Status> {
        Ok(self.known(call)?.filter(|running| !running.is_broken))
    }

    /// A call that runs; `None` for one that has ended.
    fn known(&mut self, call: u64) -> Result<Option<&mut Call>, Status> {
        let begun = match self.is_own(call) {
            true => call < self.next_call,
            false => call != 0 && call <= self.last_called,
        };
        if !begun {
            return Err(invalid(format!("call {call} has not begun")));
        }
        Ok(self.calls.get_mut(&call))
    }

    /// The same, for a frame that only one side of a call gets.
    fn in_role(&mut self, call: u64, role: Role) -> Result<Option<&mut Call>, Status> {
        if self.is_own(call) != (role == Role::Caller) {
            return Err(invalid(format!("a frame of call {call} from the wrong side")));
        }
        self.known(call)
    }

    fn ended_by_peer(&mut self, status: Status) {
        // There is nobody left to tell.
        self.attached = None;
        self.end(status);
    }
}

impl Call {
    /// Counts pieces that came. The inner error breaks the call, and none of them
    /// is taken.
    fn arrived(
        &mut self,
        fragments: &[NodeFragment],
        window: u32,
    ) -> Result<Result<(), Status>, Status> {
        let writer = self.role.other();
        for fragment in fragments {
            let mut fault = check_fragment(writer, fragment);
            if fault.is_ok() {
                let node = self.incoming(&fragment.id, window)?;
                node.arrived(fragment)?;
                if node.is_closed {
                    let message = format!("node {:?} was written after its close", fragment.id);
                    fault = Err(Status::of(misuse(writer), message));
                }
            }
            if fault.is_err() {
                self.is_broken = true;
                return Ok(fault);
            }
        }
        Ok(Ok(()))
    }
}

/// Why a call is cancelled.
fn cause(status: Option<pb::Status>) -> Status {
    match status.map(cut) {
        Some(status) if !status.is_ok() => status,
        _ => Status::of(Reason::Cancelled, "the caller cancelled the call"),
    }
}

/// About how large a frame is; for when it is to be acknowledged.
fn size(body: &Body) -> usize {
    match body {
        Body::Fragments(frame) => frame.fragments.iter().map(|part| cost(part) as usize).sum(),
        _ => 64,
    }
}

fn invalid(message: impl Into<String>) -> Status {
    let status = Status::of(Reason::InvalidFrame, message);
    debug_assert_eq!(status.code, Code::InvalidArgument);
    status
}
