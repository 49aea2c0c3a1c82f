//! Model providers' native shapes: the calls in a provider's raw reply and the
//! tokens it spent, tool results as what to append for that provider, actions as
//! the tools of a request to it, and whole conversations read and written whoever
//! produced them. One file a backend, which implements `Shape` (its history in a
//! folder of its name); which of them a reply has is told in `recognition`, which a
//! piece of a stored turn has in `turn`. Pure: no I/O.

mod arguments;
mod call_id;
mod chat;
mod claude;
mod claude_code;
mod codex;
mod convert;
mod declaration;
mod dialect;
mod gemini;
mod gpt;
mod notes;
mod ollama;
mod pairing;
mod part;
mod raw;
mod recognition;
mod records;
mod reply;
mod result;
mod shape;
mod shown;
mod turn;
mod unit;
mod usage;
mod vllm;

pub use arguments::Arguments;
pub use convert::{Converted, convert};
pub use declaration::{declaration, tools};
pub use dialect::{Dialect, UnknownBackend, backend_name, parse_backend};
pub use notes::Note;
pub use part::{NormalizedMessage, Part, normalize};
pub use reply::{MAX_DEPTH, Reply, ReplyCall, ReplyError, read_reply};
pub use result::{Image, Outcome, ToolResult};
pub use shape::messages;
