//! Model providers' native shapes: the calls in a provider's raw reply, and
//! tool results as what to append for that provider. One file a backend, which
//! implements `Shape`; which of them a reply has is told in `recognition`. Pure:
//! no I/O.

mod arguments;
mod chat;
mod claude;
mod claude_code;
mod codex;
mod dialect;
mod gemini;
mod gpt;
mod ollama;
mod raw;
mod recognition;
mod reply;
mod result;
mod shape;
mod vllm;

pub use arguments::Arguments;
pub use dialect::{Dialect, UnknownBackend, backend_name, parse_backend};
pub use reply::{MAX_DEPTH, Reply, ReplyCall, ReplyError, read_reply};
pub use result::{Image, Outcome, ToolResult};
pub use shape::messages;
