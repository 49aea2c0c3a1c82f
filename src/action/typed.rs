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

use std::{
    borrow::Cow,
    cell::RefCell,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context as Poller, Poll},
};

use futures::{
    Stream, StreamExt as _, TryStreamExt as _,
    future::try_join_all,
    stream::{BoxStream, FusedStream as _},
};
use parking_lot::Mutex;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    context::{Context, decode},
    port::{Cardinality, Port},
    registry::{RegisterError, Registry, handler},
    schema::Builder,
};
use crate::node::{Piece, Reader};
use crate::wire::{Reason, Status};

/// Marks the schema of a stream field.
const STREAM_MARK: &str = "x-a11-stream";
/// The output of a result that is no struct.
const RESULT: &str = "result";

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

/// A stream input of a typed function: its values as they come.
pub struct Incoming<T> {
    reader: Reader,
    of: PhantomData<fn() -> T>,
}

/// A stream output of a typed function, written while the stream yields.
pub struct Outgoing<T> {
    stream: Mutex<Option<BoxStream<'static, Result<T, Status>>>>,
}

impl<T> Outgoing<T> {
    /// The values of a stream that cannot fail.
    pub fn new(stream: impl Stream<Item = T> + Send + 'static) -> Self
    where
        T: Send + 'static,
    {
        Self::fallible(stream.map(Ok))
    }

    /// The values of a stream; its first error ends the action with it.
    pub fn fallible(stream: impl Stream<Item = Result<T, Status>> + Send + 'static) -> Self {
        Self { stream: Mutex::new(Some(stream.boxed())) }
    }
}

thread_local! {
    /// Streams do not pass through serde: a field holds a number instead, and
    /// the stream waits here for the length of one (synchronous) conversion.
    static INCOMING: RefCell<Vec<Option<Reader>>> = const { RefCell::new(Vec::new()) };
    static OUTGOING: RefCell<Vec<Option<Encoded>>> = const { RefCell::new(Vec::new()) };
}

type Encoded = BoxStream<'static, Result<Value, Status>>;

impl<T: DeserializeOwned> Stream for Incoming<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Poller<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let piece = match std::task::ready!(self.reader.poll_piece(cx)) {
                Ok(Some(piece)) => piece,
                Ok(None) => return Poll::Ready(None),
                Err(status) => return Poll::Ready(Some(Err(status))),
            };
            match piece.chunk() {
                Some(chunk) if !chunk.is_null() => {
                    return Poll::Ready(Some(decode("stream", chunk)));
                }
                _ => {}
            }
        }
    }
}

impl<'de, T> Deserialize<'de> for Incoming<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let place = usize::deserialize(deserializer)?;
        let reader = INCOMING.with_borrow_mut(|open| open.get_mut(place).and_then(Option::take));
        let reader =
            reader.ok_or_else(|| serde::de::Error::custom("a stream is only read from a port"))?;
        Ok(Self { reader, of: PhantomData })
    }
}

impl<T: Serialize + 'static> Serialize for Outgoing<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stream = self.stream.lock().take();
        let stream = stream.ok_or_else(|| serde::ser::Error::custom("a stream is written once"))?;
        let values = stream.and_then(|value| {
            futures::future::ready(
                serde_json::to_value(value)
                    .map_err(|error| Status::of(Reason::InvalidOutput, error.to_string())),
            )
        });
        let place = OUTGOING.with_borrow_mut(|open| {
            open.push(Some(values.boxed()));
            open.len() - 1
        });
        place.serialize(serializer)
    }
}

fn stream_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<T>();
    json_schema!({"type": "array", "items": items, STREAM_MARK: true})
}

impl<T: JsonSchema> JsonSchema for Incoming<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Incoming_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        stream_schema::<T>(generator)
    }
}

impl<T: JsonSchema> JsonSchema for Outgoing<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Outgoing_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        stream_schema::<T>(generator)
    }
}

/// The ports of a type.
#[derive(Clone)]
enum Fields {
    /// Nothing passes: `()`.
    None,
    /// A struct: one port a field.
    Named(Vec<Port>),
    /// Anything else: one port for all of it.
    Whole(Box<Port>),
}

impl Fields {
    fn into_ports(self) -> Vec<Port> {
        match self {
            Self::None => vec![],
            Self::Named(ports) => ports,
            Self::Whole(port) => vec![*port],
        }
    }
}

fn fields_of<T: JsonSchema>() -> Fields {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let Value::Object(object) = &mut schema else {
        return Fields::Whole(Box::new(Port::json(RESULT)));
    };
    for key in ["$schema", "title"] {
        object.remove(key);
    }
    if object.get("type").is_some_and(|kind| kind == "null") {
        return Fields::None;
    }
    let definitions = object.remove("$defs");
    let Some(Value::Object(properties)) = object.remove("properties") else {
        return Fields::Whole(Box::new(port(RESULT, schema, definitions.as_ref()).required()));
    };
    let required: Vec<Value> = match object.remove("required") {
        Some(Value::Array(required)) => required,
        _ => vec![],
    };
    let ports = properties.into_iter().map(|(name, property)| {
        let is_required = required.iter().any(|required| *required == name);
        let port = port(&name, property, definitions.as_ref());
        // A stream that is not given is a stream of nothing.
        let may_be_absent = !is_required || port.cardinality() == Cardinality::Stream;
        if may_be_absent { port } else { port.required() }
    });
    Fields::Named(ports.collect())
}

/// The port of one field, from the field's schema.
fn port(name: &str, mut schema: Value, definitions: Option<&Value>) -> Port {
    let mut description = None;
    let mut stream = false;
    if let Value::Object(object) = &mut schema {
        description = object.remove("description");
        stream = object.remove(STREAM_MARK).is_some();
        if stream {
            schema = object.remove("items").unwrap_or_else(|| Value::Bool(true));
        }
    }
    strip_null(&mut schema);
    let is_text = schema.get("type").is_some_and(|kind| kind == "string");
    if let (Value::Object(object), Some(definitions)) = (&mut schema, definitions) {
        object.insert("$defs".into(), definitions.clone());
    }
    let port = if is_text { Port::text(name) } else { Port::json(name) };
    let port = port.schema(schema.to_string());
    let port = match description {
        Some(Value::String(text)) => port.describe(text),
        _ => port,
    };
    if stream { port.stream() } else { port }
}

/// An optional field is a port that may be left out; it need not take null, too.
fn strip_null(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            object.extend(only);
        }
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
    readers: &mut Vec<Option<Reader>>,
) -> Result<Option<Value>, Status> {
    match port.cardinality() {
        Cardinality::Unary => context.read_optional(port.name()).await,
        Cardinality::Stream => {
            readers.push(Some(context.input(port.name())?));
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
