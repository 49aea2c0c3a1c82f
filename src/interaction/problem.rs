//! One thing that is wrong with an interaction: where, what, and whether it is
//! refused for it.

use thiserror::Error;

use crate::wire::{NameError, Reason};

/// One thing that is wrong, or worth knowing, about an interaction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {fault}")]
pub struct Problem {
    /// Where: `action_calls[2].id`, `content[0].metadata.timestamp`.
    pub field: String,
    /// What.
    pub fault: Fault,
}

impl Problem {
    /// Whether the interaction is refused for it. Otherwise it is a note: what
    /// it says may have no effect, or fail when it is used.
    pub fn is_refused(&self) -> bool {
        self.fault.is_refused()
    }

    /// The reason it is refused with.
    pub fn reason(&self) -> Reason {
        match self.fault {
            Fault::DuplicateCall(_) => Reason::DuplicateCall,
            _ => Reason::InvalidRequest,
        }
    }
}

/// What can be wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// It must be a name.
    #[error(transparent)]
    BadName(NameError),
    /// A call's id that is no name, as providers make them: `functions.x:0`.
    #[error(transparent)]
    ForeignCallId(NameError),
    /// An earlier call has the same id.
    #[error("another call has the id {0:?} too")]
    DuplicateCall(String),
    /// It names no place.
    #[error("a ref must not be empty")]
    EmptyRef,
    /// It is too long.
    #[error("has {len} characters, and may have {max}")]
    TooLong {
        /// Its length in characters.
        len: usize,
        /// The limit in characters.
        max: usize,
    },
    /// There are too many.
    #[error("there are {count}, and may be {max}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// It is too large.
    #[error("{bytes} bytes in all, and may have {max}")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// It is no canonical code.
    #[error("{0} is not a status code; they go from 0 to 16")]
    UnknownCode(i32),
    /// It is no role.
    #[error("{0} is not the number of a role")]
    UnknownRole(i32),
    /// It is no reason.
    #[error("{0} is not the number of a reason")]
    UnknownReason(i32),
    /// It must be one JSON value as text.
    #[error("not JSON: {0}")]
    BadDetail(String),
    /// It is before year 1 or after year 9999, or its fraction is no fraction.
    #[error("a timestamp must lie in years 1 to 9999, its nanos in 0 to 999,999,999")]
    TimestampOutOfRange,
    /// A note: the fragments belong to no call of this interaction.
    #[error("no call of this interaction has that id")]
    UnknownCall,
    /// A note: it is no name, so nothing can be found by it.
    #[error("nothing can be found by it: {0}")]
    UnusableName(NameError),
}

impl Fault {
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::BadName(_)
            | Self::ForeignCallId(_)
            | Self::DuplicateCall(_)
            | Self::EmptyRef
            | Self::TooLong { .. }
            | Self::TooMany { .. }
            | Self::TooLarge { .. }
            | Self::UnknownCode(_)
            | Self::UnknownRole(_)
            | Self::UnknownReason(_)
            | Self::BadDetail(_)
            | Self::TimestampOutOfRange => true,
            Self::UnknownCall | Self::UnusableName(_) => false,
        }
    }
}
