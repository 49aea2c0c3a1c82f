//! What a handler works with: its ports, headers, log, deadline, and calls of
//! its own.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    fit::fit_value,
    input_values::InputValues,
    inputs::Inputs,
    log::Log,
    nested::NestedCall,
    port::{Cardinality, Port},
    port_value::{Of, decode, encode},
    registry::Registry,
    schema::ActionSchema,
    scope::{Scope, Slot},
};
use crate::node::{MAX_VALUE_BYTES, Node, Piece, Reader, WhenRead, Writer};
use crate::wire::chunk::Kind;
use crate::wire::pb::LogEntry;
use crate::wire::{Chunk, Headers, Name, NodeFragment, Reason, Status, headers};

/// One call, seen from its handler. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<ContextParts>);

pub(super) struct ContextParts {
    pub(super) id: String,
    pub(super) schema: ActionSchema,
    pub(super) inputs: Inputs,
    pub(super) outputs: Vec<Node>,
    pub(super) headers: Headers,
    pub(super) deadline: Option<Instant>,
    pub(super) cancelled: CancellationToken,
    pub(super) log: Log,
    pub(super) scope: Scope,
    pub(super) slot: Arc<Slot>,
}

impl Context {
    pub(super) fn new(parts: ContextParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The call's id: the model's own, where it made the call.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The action's name.
    pub fn action(&self) -> &Name {
        self.0.schema.name()
    }

    /// The action's schema.
    pub fn schema(&self) -> &ActionSchema {
        &self.0.schema
    }

    /// The headers that reached the call.
    pub fn headers(&self) -> &Headers {
        &self.0.headers
    }

    /// When the call ends at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// How much time is left; `None` without a deadline.
    pub fn time_left(&self) -> Option<Duration> {
        self.0.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Cancelled when the call is over before the handler is. The handler's
    /// future is dropped then; work that it has put elsewhere can watch this.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.cancelled
    }

    /// How many calls those that this one makes are made within.
    pub fn depth(&self) -> u32 {
        self.0.scope.depth
    }

    /// The headers that calls made for this one send along without being told.
    pub fn flowing_headers(&self) -> Headers {
        let flowing = self.headers().iter().filter(|(name, _)| headers::flows_on(name));
        flowing.map(|(name, value)| (name, value.clone())).collect()
    }

    /// The registry of the program.
    pub fn registry(&self) -> &Arc<Registry> {
        self.0.scope.registry()
    }

    // Reading.

    /// A reader of an input, piece by piece as they were written: what is written while
    /// the action runs is held to the port only by what reads values. Each has its own
    /// place.
    ///
    /// # Errors
    /// INTERNAL where the schema has no such input.
    pub fn input(&self, port: &str) -> Result<Reader, Status> {
        let (index, _) = self.input_port(port)?;
        Ok(self.0.inputs.node(index).reader())
    }

    /// The only reader of an input: nothing is kept of what it has read.
    pub(crate) fn take_input(&self, port: &str) -> Result<Reader, Status> {
        let (index, _) = self.input_port(port)?;
        let node = self.0.inputs.node(index);
        node.set_when_read(WhenRead::LetGo);
        Ok(node.reader())
    }

    /// The one value of an input as a chunk; `None` where it was not given.
    ///
    /// # Errors
    /// What the input failed with; FAILED_PRECONDITION where it was closed
    /// without a final fragment; INVALID_ARGUMENT where it is required and was
    /// not given, or does not fit the port; RESOURCE_EXHAUSTED past
    /// [`MAX_VALUE_BYTES`] where it is written while the action runs.
    pub async fn read_chunk(&self, port: &str) -> Result<Option<Chunk>, Status> {
        let (index, _) = self.input_port(port)?;
        // One that was given with the call is here already, whatever its size.
        let most_bytes = if self.0.inputs.is_open(index) { MAX_VALUE_BYTES } else { usize::MAX };
        self.read_chunk_within(port, most_bytes).await
    }

    /// The same of a value that has `most_bytes` at most.
    ///
    /// # Errors
    /// As [`read_chunk`](Self::read_chunk); RESOURCE_EXHAUSTED as soon as more has
    /// come.
    pub async fn read_chunk_within(
        &self,
        port: &str,
        most_bytes: usize,
    ) -> Result<Option<Chunk>, Status> {
        let (index, declared) = self.input_port(port)?;
        let value = self.0.inputs.node(index).reader().value(most_bytes).await?;
        if value.is_none() && declared.is_required() {
            return Err(Status::of(Reason::MissingInput, format!("input {port:?} is required")));
        }
        match value {
            Some(chunk) if self.0.inputs.is_open(index) => Ok(Some(fit_value(declared, chunk)?)),
            value => Ok(value),
        }
    }

    /// The one value of an input: text as a string, JSON as what it says.
    ///
    /// # Errors
    /// As [`read_chunk`](Self::read_chunk); INVALID_ARGUMENT where there is no
    /// value or it is not a `T`.
    pub async fn read<T: DeserializeOwned>(&self, port: &str) -> Result<T, Status> {
        self.read_optional(port).await?.ok_or_else(|| {
            Status::of(Reason::MissingInput, format!("input {port:?} was not given"))
        })
    }

    /// The same, `None` where the input was not given.
    ///
    /// # Errors
    /// As [`read`](Self::read), but not for a missing value.
    pub async fn read_optional<T: DeserializeOwned>(
        &self,
        port: &str,
    ) -> Result<Option<T>, Status> {
        match self.read_chunk(port).await? {
            Some(chunk) => decode(Of::Input(port), &chunk).map(Some),
            None => Ok(None),
        }
    }

    /// The values of a stream input, as they come.
    ///
    /// # Errors
    /// INTERNAL where the schema has no such input. Each value may fail as with
    /// [`read`](Self::read).
    pub fn read_stream<T: DeserializeOwned + Send>(
        &self,
        port: &str,
    ) -> Result<impl Stream<Item = Result<T, Status>> + Send + Unpin + use<T>, Status> {
        let name = port.to_owned();
        let values = self.read_chunks(port)?;
        Ok(values.map(move |chunk| decode(Of::Input(&name), &chunk?)))
    }

    /// The values of a stream input as chunks, as they come.
    ///
    /// # Errors
    /// INTERNAL where the schema has no such input.
    pub fn read_chunks(&self, port: &str) -> Result<InputValues, Status> {
        let (index, _) = self.input_port(port)?;
        let inputs = &self.0.inputs;
        let (reader, is_open) = (inputs.node(index).reader(), inputs.is_open(index));
        Ok(InputValues::new(reader, self.schema().clone(), index, is_open))
    }

    // Writing.

    /// An output to write to.
    ///
    /// # Errors
    /// INTERNAL where the schema has no such output.
    pub fn output(&self, port: &str) -> Result<Output, Status> {
        let index = self.0.schema.outputs().iter().position(|output| output.name() == port);
        let index = index.ok_or_else(|| {
            let action = self.action();
            Status::of(Reason::InvalidOutput, format!("{action:?} has no output {port:?}"))
        })?;
        Ok(Output { schema: self.0.schema.clone(), index, writer: self.0.outputs[index].writer() })
    }

    /// Writes one value. A unary output is complete then; a stream goes on until
    /// the handler returns or [`finish`](Output::finish)es it.
    ///
    /// # Errors
    /// INTERNAL where there is no such output or the value does not fit its media
    /// type; the call's own status once it is over.
    pub async fn write<T: Serialize + ?Sized>(&self, port: &str, value: &T) -> Result<(), Status> {
        self.output(port)?.write(value).await
    }

    /// Writes one chunk, as [`write`](Self::write) does a value.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_chunk(&self, port: &str, chunk: Chunk) -> Result<(), Status> {
        self.output(port)?.write_chunk(chunk).await
    }

    // Telling.

    /// Tells the user something about the run. Never waits; models never see it.
    pub fn log(&self, text: impl Into<String>) {
        self.log_entry(LogEntry::info(text));
    }

    /// Notes something for the operator, which users never see.
    pub fn log_internal(&self, text: impl Into<String>) {
        self.log_entry(LogEntry { internal: true, ..LogEntry::info(text) });
    }

    /// Adds a log entry.
    pub fn log_entry(&self, entry: LogEntry) {
        self.0.log.add(entry);
    }

    // Calling.

    /// A call of another action, with this call's deadline and what headers flow.
    pub fn call(&self, action: &str) -> NestedCall {
        NestedCall::new(self.clone(), action)
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.0.scope
    }

    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.0.slot
    }

    fn input_port(&self, port: &str) -> Result<(usize, &Port), Status> {
        let mut inputs = self.0.schema.inputs().iter().enumerate();
        inputs.find(|(_, input)| input.name() == port).ok_or_else(|| {
            let action = self.action();
            Status::of(Reason::InvalidOutput, format!("{action:?} has no input {port:?}"))
        })
    }
}

/// One output of a call.
#[derive(Debug, Clone)]
pub struct Output {
    schema: ActionSchema,
    /// Of the port in the schema.
    index: usize,
    writer: Writer,
}

impl Output {
    fn port(&self) -> &Port {
        &self.schema.outputs()[self.index]
    }

    /// Writes one value, see [`Context::write`].
    ///
    /// # Errors
    /// As [`Context::write`].
    pub async fn write<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Status> {
        let chunk = encode(self.port(), value)?;
        self.write_chunk(chunk).await
    }

    /// Writes one chunk, see [`Context::write`]. Without a media type it has the
    /// port's.
    ///
    /// # Errors
    /// As [`Context::write`].
    pub async fn write_chunk(&mut self, mut chunk: Chunk) -> Result<(), Status> {
        if chunk.media_type().is_empty() {
            chunk.set_media_type(self.port().media_type());
        }
        self.write_piece(match self.port().cardinality() {
            Cardinality::Unary => Piece::last(chunk),
            Cardinality::Stream => Piece::more(chunk),
        })
        .await
    }

    /// Writes one piece of a value or stream, saying itself whether more follows.
    ///
    /// # Errors
    /// As [`Context::write`].
    pub async fn write_piece(&mut self, piece: Piece) -> Result<(), Status> {
        self.check(piece.chunk())?;
        piece.payload.check().map_err(|error| {
            let message = format!("output {:?}: {error}", self.port().name());
            Status::of(Reason::InvalidOutput, message)
        })?;
        self.writer.write(piece).await
    }

    /// Writes a fragment at its own place, whatever its id.
    ///
    /// # Errors
    /// As [`Context::write`], and where it contradicts what is there.
    pub async fn write_fragment(&mut self, fragment: NodeFragment) -> Result<(), Status> {
        self.check(fragment.chunk())?;
        self.writer.write_fragment(fragment).await
    }

    /// Writes a piece that was checked where it came in, at its own place.
    pub(crate) async fn write_checked(
        &mut self,
        seq: Option<u32>,
        piece: Piece,
    ) -> Result<(), Status> {
        self.check(piece.chunk())?;
        self.writer.write_at(seq, piece).await
    }

    /// Whether a chunk can be a value of the port, as far as its media type says.
    fn check(&self, chunk: Option<&Chunk>) -> Result<(), Status> {
        let media_type = chunk.map_or("", Chunk::media_type);
        if media_type.is_empty() || chunk.is_some_and(Chunk::is_null) {
            return Ok(());
        }
        match (self.port().kind(), Kind::of(media_type)) {
            (Kind::Text | Kind::Json, Kind::Image | Kind::Audio | Kind::Bytes) => {
                let media_type: String = media_type.chars().take(255).collect();
                let (name, declared) = (self.port().name(), self.port().media_type());
                let message = format!("output {name:?}: expected {declared}, got {media_type}");
                Err(Status::of(Reason::InvalidOutput, message))
            }
            _ => Ok(()),
        }
    }

    /// Ends a stream: what was written is all of it.
    ///
    /// # Errors
    /// As [`Context::write`].
    pub async fn finish(&mut self) -> Result<(), Status> {
        self.writer.finish().await
    }
}
