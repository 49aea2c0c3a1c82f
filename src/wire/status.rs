//! How something ended: code, reason, message. One table maps each reason to
//! its code; the conversions to a gRPC status and to the wire message are here.

use std::{borrow::Cow, collections::HashMap, fmt};

use tonic_types::{ErrorDetails, StatusExt as _};

pub use tonic::Code;

use super::pb;
pub use super::pb::Reason;

/// The longest message put on the wire, in bytes. gRPC carries it in trailers,
/// which commonly allow 8–16 KiB in all.
pub const MAX_MESSAGE_BYTES: usize = 4096;

/// The domain of the `google.rpc.ErrorInfo` that carries a reason.
pub const ERROR_DOMAIN: &str = "a11";

/// A failure (or, rarely, OK) with what a program can branch on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The canonical code.
    pub code: Code,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
    /// Further facts, each one JSON value as text.
    pub details: Vec<String>,
}

impl Status {
    /// The status that means success.
    pub fn ok() -> Self {
        Self {
            code: Code::Ok,
            reason: Reason::Unspecified,
            message: String::new(),
            details: vec![],
        }
    }

    /// A failure of the runtime's own, whose code follows from the reason.
    pub fn of(reason: Reason, message: impl Into<String>) -> Self {
        Self { code: code_of(reason), reason, message: message.into(), details: vec![] }
    }

    /// A failure of what carries messages, before anything has read one.
    pub fn without_reason(code: Code, message: impl Into<String>) -> Self {
        Self { code, reason: Reason::Unspecified, message: message.into(), details: vec![] }
    }

    /// A handler's own failure.
    pub fn handler(code: Code, message: impl Into<String>) -> Self {
        Self { code, reason: Reason::HandlerFailed, message: message.into(), details: vec![] }
    }

    /// As it goes on the wire: the message cut to [`MAX_MESSAGE_BYTES`], with a notice,
    /// and details left out that do not fit.
    #[must_use]
    pub fn bounded(self) -> Self {
        let Self { code, reason, message, mut details } = self;
        let mut room = MAX_DETAILS_BYTES;
        details.retain(|detail| {
            let fits = detail.len() <= room;
            if fits {
                room -= detail.len();
            }
            fits
        });
        let message = match cut(&message) {
            Cow::Borrowed(_) => message,
            Cow::Owned(cut) => cut,
        };
        Self { code, reason, message, details }
    }

    /// Whether it means success.
    pub fn is_ok(&self) -> bool {
        self.code == Code::Ok
    }

    /// `CODE_NAME: message`, as a model and a log are shown it.
    pub fn summary(&self) -> String {
        format!("{}: {}", code_name(self.code), cut(&self.message))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", code_name(self.code), self.message)
    }
}

impl std::error::Error for Status {}

/// The code that a reason always has. [`Reason::HandlerFailed`] and an
/// unspecified reason have whatever code happened; UNKNOWN stands in for them.
fn code_of(reason: Reason) -> Code {
    match reason {
        Reason::Unspecified | Reason::HandlerFailed => Code::Unknown,
        Reason::HandlerPanicked | Reason::InvalidOutput => Code::Internal,
        Reason::InvalidRequest
        | Reason::InvalidPattern
        | Reason::DuplicateCall
        | Reason::InvalidInput
        | Reason::MissingInput
        | Reason::UndeclaredInput
        | Reason::AutofilledInput
        | Reason::UnknownReply
        | Reason::SeqConflict
        | Reason::PastFinal
        | Reason::InvalidFrame => Code::InvalidArgument,
        Reason::NotAllowed => Code::PermissionDenied,
        Reason::UnknownAction | Reason::NoHandler | Reason::UnknownNode => Code::NotFound,
        Reason::Deadline => Code::DeadlineExceeded,
        Reason::Cancelled => Code::Cancelled,
        Reason::OutputTooLarge | Reason::TooDeep | Reason::NodeFull | Reason::SessionLimit => {
            Code::ResourceExhausted
        }
        Reason::Gap => Code::DataLoss,
        Reason::NotFinal | Reason::NodeClosed | Reason::NoSender => Code::FailedPrecondition,
        Reason::Trimmed => Code::OutOfRange,
        Reason::UnknownSession | Reason::ShuttingDown | Reason::PeerLost => Code::Unavailable,
        Reason::SessionResumed => Code::Aborted,
        Reason::UnsupportedPeer | Reason::Unsupported => Code::Unimplemented,
        Reason::PeerNotPermitted => Code::PermissionDenied,
        Reason::NameTaken | Reason::InteractionConflict => Code::AlreadyExists,
        Reason::UnknownConversation | Reason::UnknownInteraction => Code::NotFound,
        Reason::MissingPrevious => Code::FailedPrecondition,
        Reason::StoreUnavailable => Code::Unavailable,
        Reason::RecordBroken => Code::DataLoss,
        Reason::OutcomeUnknown | Reason::LeaseLost => Code::Aborted,
        Reason::HistoryTooLarge => Code::ResourceExhausted,
    }
}

/// A code's canonical name, such as `INVALID_ARGUMENT`.
pub fn code_name(code: Code) -> &'static str {
    CODES[code as usize].0
}

/// The code of a canonical name.
pub fn code_of_name(name: &str) -> Option<Code> {
    CODES.iter().find(|(candidate, _)| *candidate == name).map(|(_, code)| *code)
}

const CODES: [(&str, Code); 17] = [
    ("OK", Code::Ok),
    ("CANCELLED", Code::Cancelled),
    ("UNKNOWN", Code::Unknown),
    ("INVALID_ARGUMENT", Code::InvalidArgument),
    ("DEADLINE_EXCEEDED", Code::DeadlineExceeded),
    ("NOT_FOUND", Code::NotFound),
    ("ALREADY_EXISTS", Code::AlreadyExists),
    ("PERMISSION_DENIED", Code::PermissionDenied),
    ("RESOURCE_EXHAUSTED", Code::ResourceExhausted),
    ("FAILED_PRECONDITION", Code::FailedPrecondition),
    ("ABORTED", Code::Aborted),
    ("OUT_OF_RANGE", Code::OutOfRange),
    ("UNIMPLEMENTED", Code::Unimplemented),
    ("INTERNAL", Code::Internal),
    ("UNAVAILABLE", Code::Unavailable),
    ("DATA_LOSS", Code::DataLoss),
    ("UNAUTHENTICATED", Code::Unauthenticated),
];

/// Cuts a text to [`MAX_MESSAGE_BYTES`], at a character, with a notice.
fn cut(text: &str) -> Cow<'_, str> {
    cut_to(text, MAX_MESSAGE_BYTES, |_| 1)
}

/// The longest message of a gRPC status, in bytes as they stand escaped in its
/// trailer. It travels twice, the second time within the details, as base64; both
/// and the rest stay below the 8 KiB of headers that some clients take.
const MAX_ESCAPED_BYTES: usize = 3072;

/// How many bytes a byte of a message takes in the `grpc-message` trailer.
fn escaped_len(byte: u8) -> usize {
    let plain = byte.is_ascii_graphic() && !b"\"#%<>?`{}".contains(&byte);
    if plain { 1 } else { 3 }
}

/// Cuts a text, at a character and with a notice, so that its bytes cost at most
/// `most`.
fn cut_to(text: &str, most: usize, cost: impl Fn(u8) -> usize) -> Cow<'_, str> {
    let cost_of = |text: &str| text.bytes().map(&cost).sum::<usize>();
    if text.len() <= most && cost_of(text) <= most {
        return Cow::Borrowed(text);
    }
    let notice = format!("… [cut, {} bytes in all]", text.len());
    let mut room = most.saturating_sub(cost_of(&notice));
    let is_past = |(_, character): &(usize, char)| {
        let cost = cost_of(character.encode_utf8(&mut [0; 4]));
        let is_past = cost > room;
        room = room.saturating_sub(cost);
        is_past
    };
    let end = text.char_indices().find(is_past).map_or(text.len(), |(end, _)| end);
    Cow::Owned(format!("{}{notice}", &text[..end]))
}

/// How many bytes of details go on the wire with a status.
const MAX_DETAILS_BYTES: usize = 4096;

impl From<Status> for pb::Status {
    fn from(status: Status) -> Self {
        let Status { code, reason, message, details } = status.bounded();
        Self { code: code as i32, message, details, reason: reason as i32 }
    }
}

impl From<pb::Status> for Status {
    /// An unknown code number becomes UNKNOWN, an unknown reason unspecified.
    fn from(status: pb::Status) -> Self {
        let pb::Status { code, message, details, reason } = status;
        Self {
            code: Code::from_i32(code),
            reason: Reason::try_from(reason).unwrap_or_default(),
            message,
            details,
        }
    }
}

impl From<Status> for tonic::Status {
    fn from(status: Status) -> Self {
        let mut details = ErrorDetails::new();
        if status.reason != Reason::Unspecified {
            let name = status.reason.as_str_name().trim_start_matches("REASON_");
            details.set_error_info(name, ERROR_DOMAIN, HashMap::<String, String>::new());
        }
        let message = cut_to(&status.message, MAX_ESCAPED_BYTES, escaped_len);
        tonic::Status::with_error_details(status.code, message, details)
    }
}

impl From<tonic::Status> for Status {
    fn from(status: tonic::Status) -> Self {
        let reason = status
            .get_error_details()
            .error_info()
            .filter(|info| info.domain == ERROR_DOMAIN)
            .and_then(|info| Reason::from_str_name(&format!("REASON_{}", info.reason)))
            .unwrap_or_default();
        Self { code: status.code(), reason, message: status.message().to_owned(), details: vec![] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_the_grpc_status() {
        let status = Status::of(Reason::UnknownAction, "no action named \"x\"");
        assert_eq!(Status::from(tonic::Status::from(status.clone())), status);
    }

    #[test]
    fn a_long_message_is_cut_at_a_character_with_a_notice() {
        let status: pb::Status = Status::handler(Code::Internal, "é".repeat(50_000)).into();
        assert!(status.message.len() <= MAX_MESSAGE_BYTES);
        assert!(status.message.ends_with("100000 bytes in all]"));
    }

    #[test]
    fn a_grpc_status_fits_into_8_kib_of_headers_whatever_its_message() {
        for character in ["a", " ", "é", "€", "😀", "\n", "%", "\""] {
            let status = Status::handler(Code::Internal, character.repeat(50_000));
            let mut headers = http::HeaderMap::new();
            tonic::Status::from(status).add_header(&mut headers).expect("headers");
            let size: usize =
                headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
            assert!(size < 8192 - 256, "{character:?}: {size} bytes");
            assert!(size > 3072, "{character:?}: {size} bytes");
        }
    }

    #[test]
    fn codes_stand_at_their_numbers() {
        for (number, (name, code)) in CODES.iter().enumerate() {
            assert_eq!(*code as usize, number);
            assert_eq!(code_of_name(name), Some(*code));
        }
    }
}
