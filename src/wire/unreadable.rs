//! Why a message could not be read, told by the status that tonic makes of it: tonic
//! says so in its text alone.

use tonic::Code;

use super::{
    status::{Reason, Status},
    weight::TooHeavy,
};

/// Before what gRPC-Web says of a body.
pub const GRPC_WEB: &str = "tonic-web: ";

const TOO_LARGE: &str = "Error, decoded message length too large";
/// A framing flag, a compressed body, a protobuf message; a stream that ends within
/// a message, or before the only one; base64 of gRPC-Web.
const MALFORMED: [&str; 6] = [
    "protocol error: received message",
    "Error decompressing: ",
    "failed to decode Protobuf message",
    "Unexpected EOF decoding stream",
    "Missing request message",
    GRPC_WEB,
];

/// Why a message could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// It has too many bytes.
    TooLarge,
    /// It would take too much memory, see [`super::weight`].
    TooHeavy,
    /// It is no message of its kind.
    Malformed,
}

impl Unreadable {
    /// `None` where the status says something else: the failure of a handler, which
    /// has details, or what the connection ended with.
    pub fn of(status: &tonic::Status) -> Option<Self> {
        if !status.details().is_empty() {
            return None;
        }
        let text = status.message();
        match status.code() {
            Code::OutOfRange if text.starts_with(TOO_LARGE) => Some(Self::TooLarge),
            Code::ResourceExhausted if text == TooHeavy.to_string() => Some(Self::TooHeavy),
            Code::Internal if MALFORMED.iter().any(|it| text.starts_with(it)) => {
                Some(Self::Malformed)
            }
            _ => None,
        }
    }
}

/// Why the next frame of a session did not come: INVALID_ARGUMENT (INVALID_FRAME) for
/// one that cannot be read, and would be sent again over every further connection;
/// else what the connection ended with.
pub fn no_frame(status: tonic::Status) -> Status {
    match Unreadable::of(&status) {
        Some(_) => Status::of(Reason::InvalidFrame, status.message()),
        None => status.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_are_no_frame_end_the_session() {
        let check = |status: tonic::Status, expected: bool| {
            let is_invalid = no_frame(status.clone()).reason == Reason::InvalidFrame;
            assert_eq!(is_invalid, expected, "{status:?}");
        };
        let too_large = "Error, decoded message length too large: found 9 bytes, the limit is: 8";
        check(tonic::Status::out_of_range(too_large), true);
        check(tonic::Status::internal("failed to decode Protobuf message: EOF"), true);
        check(tonic::Status::resource_exhausted(TooHeavy.to_string()), true);
        // What the reasons of a reset stream become; resource exhausted is
        // ENHANCE_YOUR_CALM.
        for code in [
            Code::Cancelled,
            Code::Internal,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::Unavailable,
            Code::Unknown,
        ] {
            check(tonic::Status::new(code, "h2 protocol error: error reading a body"), false);
        }
    }
}
