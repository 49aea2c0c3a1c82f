//! Actions: what one is ([`ActionSchema`]), where they are found ([`Registry`]),
//! what a handler works with ([`Context`]), and one run of one ([`Run`]).
//!
//! A handler reads and writes ports itself, or is a typed function whose
//! argument struct becomes the ports ([`typed`]).

mod schema_steps;
pub mod value_schema;
pub mod port;
mod schema_error;
mod schema_builder;
pub mod schema;
pub mod host;
pub mod document;
mod tool_name;
pub mod definition;
pub mod log;
mod input_error;
mod fit;
mod port_value;
mod input_values;
pub mod inputs;
pub mod scope;
mod run;
mod context;
mod outputs;
pub(crate) mod request;
mod nested;
pub mod registry;
pub mod typed;

pub use context::{Context, Output};
pub use definition::Definition;
pub use host::{Host, Hosts};
pub use input_error::InputError;
pub use input_values::InputValues;
pub use inputs::Inputs;
pub use nested::NestedCall;
pub use outputs::{DEFAULT_MAX_OUTPUT_BYTES, Outputs};
pub use port::{Port, PortError};
pub use registry::{Dial, Entry, Handler, Peers, RegisterError, Registry, handler};
pub use run::{Event, Run};
pub use schema::{ActionSchema, SchemaError};
pub use scope::{Call, Handlers, Scope};
pub use tool_name::{MAX_TOOL_NAME_LEN, tool_name};
