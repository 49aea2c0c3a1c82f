//! The runner: a model's turn full of tool calls in, the next user turn out.
//!
//! [`declare`] is what the model was told before: the allowed actions as the tools
//! of its provider's request.
//! [`Plan`] settles what each call is before anything starts (allow-list, route,
//! action, inputs); [`execute`] runs the calls in parallel and collects what
//! they put out; [`Round`] is the result, in the order the model made the calls.
//! [`Recorder`] does the same under a record, by which each turn is run once.

pub mod allow_list;
mod declare;
mod plan;
mod route;
mod limits;
mod journal;
mod collect;
mod document;
mod answer;
mod execute;
mod round;
mod recorder;

pub use allow_list::{AllowList, PatternError};
pub use collect::CallEvent;
pub use declare::{DeclareError, Declared, MAX_DECLARED_BYTES, ToolName, declare};
pub use document::{Beside, Parts, ResultDocument};
pub use execute::execute;
pub use limits::{
    DEFAULT_CALL_TIMEOUT, DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_MEDIA_BYTES,
    DEFAULT_MAX_OUTPUT_BYTES, DEFAULT_MAX_ROUND_BYTES, Limits,
};
pub use plan::{Plan, RejectedCall, Request};
pub use recorder::{DEFAULT_LEASE, Recorder, Recording};
pub use round::{CallResult, Round};
