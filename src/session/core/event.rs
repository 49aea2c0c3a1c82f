//! What happened in a session, for its driver.

use crate::wire::{NodeFragment, Status, pb};

/// Something for the driver to act on. Events come in the order they happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The other side hosts these actions; answer with
    /// [`answer_publish`](super::Core::answer_publish).
    Publish(Vec<pb::ActionSchema>),
    /// The other side answered a publication of ours.
    Published(Vec<pb::RefusedAction>),
    /// The other side takes these actions back.
    Withdraw(Vec<String>),
    /// The other side calls. Ends with [`finish`](super::Core::finish), or with
    /// [`Cancelled`](Self::Cancelled) when the session ends.
    Called(Box<pb::CallFrame>),
    /// Pieces of a node of a call arrived: within its credit, which
    /// [`consume`](super::Core::consume) gives back.
    Fragments {
        /// The call.
        call: u64,
        /// The pieces; their id is the node's.
        fragments: Vec<NodeFragment>,
    },
    /// A node ended beside its final fragment.
    Closed {
        /// The call.
        call: u64,
        /// The node.
        id: String,
        /// How.
        status: Status,
    },
    /// The other side broke a rule of a call, which is to end with this: one of
    /// ours by cancelling it, one that runs here by finishing it.
    Broken {
        /// The call.
        call: u64,
        /// How.
        status: Status,
    },
    /// A call of ours narrated.
    Log {
        /// The call.
        call: u64,
        /// What.
        entry: pb::LogEntry,
        /// How many entries were lost before this one.
        displaced: u32,
    },
    /// A call that runs here should end. It still has to be finished, unless the
    /// session has ended.
    Cancelled {
        /// The call.
        call: u64,
        /// Why.
        status: Status,
    },
    /// A call of ours ended. Nothing more comes of it.
    Finished {
        /// The call.
        call: u64,
        /// How.
        status: Status,
    },
    /// A node that was full takes pieces again.
    Writable {
        /// The call.
        call: u64,
        /// The node.
        id: String,
    },
    /// The connection is silent: it is given up.
    Disconnected,
    /// The session is over. The last event.
    Ended(Status),
}
