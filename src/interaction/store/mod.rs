//! Where conversations are kept: named sequences of interactions, and the journal
//! of the calls that were run for them. [`Store`] is the contract; [`sqlite`] is
//! the engine that comes with the program, [`postgres`] the one for more than one
//! machine. [`open`] picks by URL. The engines decide nothing: what is the same
//! record, who holds a round, is in [`rules`](self) once for both.

mod name;
mod error;
mod record;
mod conversations;
mod rounds;
mod rules;
mod ticks;
mod watch;
pub mod lines;
pub mod sqlite;
pub mod postgres;
mod open;

pub use conversations::{After, Appended, Conversation, Conversations, Existed, Fork};
pub use error::{RecordError, StoreError};
pub use name::{ConversationName, RecordId};
pub use open::{OpenError, open};
pub use record::{MAX_RECORD_BYTES, Record, Stored};
pub use rounds::{HeldRound, Opened, RecordedCall, RoundKey, Rounds};
pub use watch::{Watched, watch};

/// A store: conversations, and the rounds of calls run for them.
pub trait Store: Conversations + Rounds {}

impl<T: Conversations + Rounds> Store for T {}
