//! The values of an input, one chunk at a time as they come, each as its port wants
//! it: what a handler reads a stream by.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::Stream;

use super::{fit::fit_value, port::Port, schema::ActionSchema};
use crate::node::Reader;
use crate::wire::{Chunk, Status};

/// The values of one input, as they come. Null chunks are none.
///
/// After a value that does not fit, the next one can be read.
#[derive(Debug)]
pub struct InputValues {
    reader: Reader,
    schema: ActionSchema,
    /// Of the port in the schema.
    index: usize,
    /// Whether the values are still as their writer sent them.
    is_open: bool,
}

impl InputValues {
    pub(super) fn new(reader: Reader, schema: ActionSchema, index: usize, is_open: bool) -> Self {
        Self { reader, schema, index, is_open }
    }

    /// The input.
    pub fn port(&self) -> &Port {
        &self.schema.inputs()[self.index]
    }
}

impl Stream for InputValues {
    type Item = Result<Chunk, Status>;

    /// Polls for the next value: INVALID_ARGUMENT where it does not fit the port,
    /// NOT_FOUND where it is a reference to another place, and what the input failed
    /// with.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let piece = match ready!(self.reader.poll_piece(cx)) {
                Ok(Some(piece)) => piece,
                Ok(None) => return Poll::Ready(None),
                Err(status) => return Poll::Ready(Some(Err(status))),
            };
            if piece.is_null() {
                continue;
            }
            let value =
                piece.value_chunk().map_err(Status::from).and_then(|chunk| match self.is_open {
                    true => Ok(fit_value(self.port(), chunk.clone())?),
                    false => Ok(chunk.clone()),
                });
            return Poll::Ready(Some(value));
        }
    }
}
