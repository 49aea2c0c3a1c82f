//! One call of a session, from either side: its nodes, its narration, its end.

use super::{incoming::Incoming, limits::MAX_CALL_NODES, narration::Narration, outgoing::Outgoing};
use crate::wire::{Reason, Status};

/// A side of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It writes the inputs and reads the outputs.
    Caller,
    /// It runs the action.
    Host,
}

impl Role {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Caller => Self::Host,
            Self::Host => Self::Caller,
        }
    }
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) role: Role,
    pub(super) outgoing: Vec<Outgoing>,
    pub(super) incoming: Vec<Incoming>,
    pub(super) narration: Narration,
    /// How the call ended, to be told once everything before it has left.
    pub(super) ending: Option<Status>,
    /// The other side broke a rule of the call, which is to end: nothing more of
    /// its nodes is taken.
    pub(super) is_broken: bool,
    /// It has its place among the calls that have something to send.
    pub(super) is_lined_up: bool,
    /// The node that is served first next time, so that none starves another.
    pub(super) first_served: usize,
}

impl Call {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            narration: Narration::default(),
            ending: None,
            is_broken: false,
            is_lined_up: false,
            first_served: 0,
        }
    }

    /// The node that this side writes, made when it is first named.
    ///
    /// # Errors
    /// Past [`MAX_CALL_NODES`].
    pub(super) fn outgoing(&mut self, id: &str, window: u32) -> Result<&mut Outgoing, Status> {
        let make = || Outgoing::new(id.to_owned(), window);
        named(&mut self.outgoing, |node| node.id == id, make)
    }

    /// The node that this side reads, made when it is first named.
    ///
    /// # Errors
    /// Past [`MAX_CALL_NODES`].
    pub(super) fn incoming(&mut self, id: &str, window: u32) -> Result<&mut Incoming, Status> {
        let make = || Incoming::new(id.to_owned(), window);
        named(&mut self.incoming, |node| node.id == id, make)
    }

    /// Whether something can leave now.
    pub(super) fn is_ready(&self) -> bool {
        !self.narration.is_empty() || self.outgoing.iter().any(Outgoing::is_ready) || self.can_end()
    }

    /// Whether its status may leave: after everything where it went well, else
    /// after everything that credit allows.
    pub(super) fn can_end(&self) -> bool {
        if self.role == Role::Caller {
            return false;
        }
        let left = match &self.ending {
            None => return false,
            Some(status) if status.is_ok() => self.outgoing.iter().all(Outgoing::is_drained),
            Some(_) => !self.outgoing.iter().any(Outgoing::is_ready),
        };
        left && self.narration.is_empty()
    }

    /// Lets go of everything that waits.
    pub(super) fn clear(&mut self) {
        self.outgoing.iter_mut().for_each(Outgoing::clear);
        self.narration.clear();
    }
}

/// The node that is looked for, made where there is none.
fn named<T>(
    nodes: &mut Vec<T>,
    is_it: impl Fn(&T) -> bool,
    make: impl FnOnce() -> T,
) -> Result<&mut T, Status> {
    let place = match nodes.iter().position(is_it) {
        Some(place) => place,
        None if nodes.len() < MAX_CALL_NODES => {
            nodes.push(make());
            nodes.len() - 1
        }
        None => {
            return Err(Status::of(
                Reason::InvalidFrame,
                format!("a call has at most {MAX_CALL_NODES} nodes a direction"),
            ));
        }
    };
    Ok(&mut nodes[place])
}
