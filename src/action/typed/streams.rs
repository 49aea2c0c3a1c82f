//! The stream fields of typed functions, which serde passes through as numbers.

use std::{
    borrow::Cow,
    cell::RefCell,
    marker::PhantomData,
    pin::Pin,
    task::{Context as Poller, Poll, ready},
};

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use parking_lot::Mutex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

use super::super::{
    input_values::InputValues,
    port_value::{Of, decode},
};
use crate::wire::{Reason, Status};

/// Marks the schema of a stream field.
pub(super) const STREAM_MARK: &str = "x-a11-stream";

/// A stream input of a typed function: its values as they come.
pub struct Incoming<T> {
    values: InputValues,
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
    pub(super) static INCOMING: RefCell<Vec<Option<InputValues>>> = const { RefCell::new(Vec::new()) };
    pub(super) static OUTGOING: RefCell<Vec<Option<Encoded>>> = const { RefCell::new(Vec::new()) };
}

pub(super) type Encoded = BoxStream<'static, Result<Value, Status>>;

impl<T: DeserializeOwned> Stream for Incoming<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Poller<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.values.poll_next_unpin(cx));
        let port = self.values.port().name();
        Poll::Ready(next.map(|chunk| decode(Of::Input(port), &chunk?)))
    }
}

impl<'de, T> Deserialize<'de> for Incoming<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let place = usize::deserialize(deserializer)?;
        let values = INCOMING.with_borrow_mut(|open| open.get_mut(place).and_then(Option::take));
        let values =
            values.ok_or_else(|| serde::de::Error::custom("a stream is only read from a port"))?;
        Ok(Self { values, of: PhantomData })
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
