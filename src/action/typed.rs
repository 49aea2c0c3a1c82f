//! Typed functions as actions: the argument struct becomes the input ports, the
//! result becomes the outputs.
//!
//! Both are described by serde and schemars. A field is a unary port, text where
//! its schema is a string and JSON otherwise; an [`Incoming`] or [`Outgoing`]
//! field is a stream port. A result that is no struct is one output named
//! `result`, and is the whole result.
//!
//! ```
//! use a11_grpc::action::{ActionSchema, Context, Registry};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greet {
//!     /// Whom to greet.
//!     name: String,
//!     /// How often; once by default.
//!     times: Option<usize>,
//! }
//!
//! let registry = Registry::new();
//! let schema = ActionSchema::builder("greet").describe("Greet somebody.");
//! registry.register_function(schema, |greet: Greet, _context: Context| async move {
//!     Ok(format!("Hello, {}! ", greet.name).repeat(greet.times.unwrap_or(1)))
//! })?;
//! # Ok::<(), a11_grpc::action::RegisterError>(())
//! ```

mod streams;
mod fields;

use std::future::Future;

use futures::{StreamExt as _, future::try_join_all, stream::FusedStream as _};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

pub use self::streams::{Incoming, Outgoing};
use self::{
    fields::{Fields, RESULT, fields_of},
    streams::{INCOMING, OUTGOING},
};
use super::{
    context::Context,
    input_values::InputValues,
    port::{Cardinality, Port},
    registry::{RegisterError, Registry, handler},
    schema::Builder,
};
use crate::node::Piece;
use crate::wire::{Reason, Status};

impl Registry {
    /// Registers a function: its argument type adds the inputs to `schema`, its
    /// result type the outputs.
    ///
    /// # Errors
    /// As [`Registry::register`].
    pub fn register_function<A, R, F, Fut>(
        &self,
        schema: Builder,
        function: F,
    ) -> Result<(), RegisterError>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + Send + 'static,
        F: Fn(A, Context) -> Fut + Send + Sync + Clone + 'static,
        Fut: Future<Output = Result<R, Status>> + Send + 'static,
    {
        let mut schema = schema;
        let inputs = fields_of::<A>();
        let outputs = fields_of::<R>();
        for port in inputs.clone().into_ports() {
            schema = schema.input(port);
        }
        if matches!(outputs, Fields::Whole(_)) {
            schema = schema.map(RESULT, "$");
        }
        for port in outputs.clone().into_ports() {
            schema = schema.output(port);
        }
        self.register(
            schema.build(),
            handler(move |context: Context| {
                let (function, inputs, outputs) =
                    (function.clone(), inputs.clone(), outputs.clone());
                async move {
                    let arguments = read_arguments(&inputs, &context).await?;
                    let result = function(arguments, context.clone()).await?;
                    write_result(&outputs, &context, result).await
                }
            }),
        )
    }
}

async fn read_arguments<A: DeserializeOwned>(
    fields: &Fields,
    context: &Context,
) -> Result<A, Status> {
    let mut readers = vec![];
    let value = match fields {
        Fields::None => Value::Null,
        Fields::Whole(port) => argument(port, context, &mut readers).await?.unwrap_or(Value::Null),
        Fields::Named(ports) => {
            let mut object = Map::new();
            for port in ports {
                if let Some(value) = argument(port, context, &mut readers).await? {
                    object.insert(port.name().to_owned(), value);
                }
            }
            object.into()
        }
    };
    INCOMING.set(readers);
    let arguments = serde_json::from_value(value);
    INCOMING.take();
    arguments.map_err(|error| Status::of(Reason::InvalidInput, error.to_string()))
}

async fn argument(
    port: &Port,
    context: &Context,
    readers: &mut Vec<Option<InputValues>>,
) -> Result<Option<Value>, Status> {
    match port.cardinality() {
        Cardinality::Unary => context.read_optional(port.name()).await,
        Cardinality::Stream => {
            readers.push(Some(context.read_chunks(port.name())?));
            Ok(Some((readers.len() - 1).into()))
        }
    }
}

async fn write_result<R: Serialize>(
    fields: &Fields,
    context: &Context,
    result: R,
) -> Result<(), Status> {
    OUTGOING.set(vec![]);
    let value = serde_json::to_value(result);
    let mut streams = OUTGOING.take();
    let value = value.map_err(|error| Status::of(Reason::InvalidOutput, error.to_string()))?;
    let ports = match (fields, value) {
        (Fields::None, _) => vec![],
        (Fields::Whole(port), value) => vec![(&**port, value)],
        (Fields::Named(ports), Value::Object(mut object)) => {
            ports.iter().filter_map(|port| Some((port, object.remove(port.name())?))).collect()
        }
        (Fields::Named(_), _) => {
            return Err(Status::of(Reason::InvalidOutput, "the result is not what its type says"));
        }
    };
    let writes = ports.into_iter().map(|(port, value)| {
        let stream = match (port.cardinality(), value.as_u64()) {
            (Cardinality::Stream, Some(place)) => {
                streams.get_mut(place as usize).and_then(Option::take)
            }
            _ => None,
        };
        async move {
            let mut output = context.output(port.name())?;
            match stream {
                Some(stream) => {
                    let mut stream = stream.fuse();
                    while let Some(value) = stream.next().await {
                        output.write(&value?).await?;
                    }
                    debug_assert!(stream.is_terminated());
                    output.finish().await
                }
                None if value.is_null() && !port.is_required() => Ok(()),
                None if port.cardinality() == Cardinality::Stream => {
                    output.write_piece(Piece::end()).await
                }
                None => output.write(&value).await,
            }
        }
    });
    try_join_all(writes).await?;
    Ok(())
}
