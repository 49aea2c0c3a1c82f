//! All that a call put out, gathered within a bound.

use serde::de::DeserializeOwned;

use super::{
    port_value::{Of, decode},
    run::{Event, Run},
    schema::ActionSchema,
};
use crate::node::{Piece, join};
use crate::wire::pb::LogEntry;
use crate::wire::{Reason, Status};

/// How many bytes of outputs are gathered of one call unless it says otherwise, each
/// piece with what it costs to keep. As JSON beside themselves, bytes in base64, they
/// still fit into one message of 64 MiB.
pub const DEFAULT_MAX_OUTPUT_BYTES: usize = 24 << 20;

/// What a call put out.
#[derive(Debug, Clone)]
pub struct Outputs {
    schema: ActionSchema,
    ports: Vec<Vec<Piece>>,
}

impl Outputs {
    /// Follows a run to its end, and hands on what it narrates.
    ///
    /// # Errors
    /// The status that it ended with; RESOURCE_EXHAUSTED (OUTPUT_TOO_LARGE) for one
    /// that puts out more than `max_bytes`, which is stopped.
    pub async fn collect(
        run: &mut Run,
        max_bytes: usize,
        mut narrate: impl FnMut(LogEntry),
    ) -> Result<Self, Status> {
        let schema = run.schema().clone();
        let mut ports = vec![Vec::new(); schema.outputs().len()];
        let mut room = Some(max_bytes);
        while let Some(event) = run.next_event().await {
            match event {
                Event::Output(port, pieces) => {
                    let cost = pieces.iter().map(Piece::cost).sum();
                    room = room.and_then(|room| room.checked_sub(cost));
                    match room {
                        Some(_) => ports[port].extend(pieces),
                        None => run.stop(too_large(&schema, max_bytes)),
                    }
                }
                Event::Log(entry) => narrate(entry),
                Event::Finished(status) if status.is_ok() => {}
                Event::Finished(status) => return Err(status),
            }
        }
        // A call may have ended well before it could be stopped.
        match room {
            Some(_) => Ok(Self { schema, ports }),
            None => Err(too_large(&schema, max_bytes)),
        }
    }

    /// The pieces of a port, in order; empty for one there is not.
    pub fn pieces(&self, port: &str) -> &[Piece] {
        let index = self.schema.outputs().iter().position(|output| output.name() == port);
        index.map_or(&[], |index| &self.ports[index])
    }

    /// The pieces of all ports, in the order of the schema.
    pub fn into_ports(self) -> Vec<Vec<Piece>> {
        self.ports
    }

    /// The one value of a port.
    ///
    /// # Errors
    /// INTERNAL (INVALID_OUTPUT) where there is no value, or it is no `T`; NOT_FOUND
    /// where it is a reference to another place.
    pub fn value<T: DeserializeOwned>(&self, port: &str) -> Result<T, Status> {
        match join(self.pieces(port))? {
            Some(chunk) => decode(Of::Output(port), &chunk),
            None => Err(Of::Output(port).unfit("it was not put out")),
        }
    }

    /// The values of a stream port.
    ///
    /// # Errors
    /// INTERNAL (INVALID_OUTPUT) where one is no `T`; NOT_FOUND where one is a
    /// reference to another place.
    pub fn values<T: DeserializeOwned>(&self, port: &str) -> Result<Vec<T>, Status> {
        let pieces = self.pieces(port).iter().filter(|piece| !piece.is_null());
        pieces.map(|piece| decode(Of::Output(port), piece.value_chunk()?)).collect()
    }
}

fn too_large(schema: &ActionSchema, max_bytes: usize) -> Status {
    let message = format!("{:?} put out more than {max_bytes} bytes", schema.name());
    Status::of(Reason::OutputTooLarge, message)
}
