//! What a fragment counts against its node's credit.

use crate::wire::pb::{NodeFragment, chunk::Body, node_fragment::Payload};

/// Counted for every fragment, so that empty ones are bounded too.
pub const FIXED_COST: u64 = 64;

/// What a fragment costs, in bytes: both sides count the same.
pub fn cost(fragment: &NodeFragment) -> u64 {
    let Some(Payload::Chunk(chunk)) = &fragment.payload else { return FIXED_COST };
    let body = match &chunk.body {
        Some(Body::Data(data)) => data.len(),
        Some(Body::Ref(reference)) => reference.len(),
        None => 0,
    };
    let attributes: usize = chunk.metadata.as_ref().map_or(0, |metadata| {
        metadata.attributes.iter().map(|(name, value)| name.len() + value.len()).sum()
    });
    FIXED_COST + (body + attributes) as u64
}
