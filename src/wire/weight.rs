//! How much memory an encoded message will take, told before it is decoded: two
//! bytes on the wire are an empty message of hundreds in memory, so a limit on
//! encoded bytes bounds nothing.

use std::{collections::HashMap, sync::LazyLock};

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};
use thiserror::Error;

use super::{
    pb::FILE_DESCRIPTOR_SET,
    status::{Code, Reason, Status},
};

/// The most that one message weighs: with 80 thousand fragments, or 260 thousand
/// messages that hold nothing, it takes about 100 MB beside its payload.
const MAX_WEIGHT: usize = 2 * 1024 * 1024;
/// What a message inside weighs, and a text, a map's key or bytes: the first takes
/// some hundred bytes of memory, the second some tens.
const MESSAGE_WEIGHT: usize = 8;
const TEXT_WEIGHT: usize = 1;

/// How deep messages are looked into; those deeper are refused when decoded.
const MAX_DEPTH: usize = 100;

/// A message with too many messages or texts in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the message holds too many parts: it may have about {} messages inside, and eight times \
     as many texts",
    MAX_WEIGHT / MESSAGE_WEIGHT
)]
pub struct TooHeavy;

impl From<TooHeavy> for Status {
    /// RESOURCE_EXHAUSTED, without a reason: it is told before anything is read.
    fn from(error: TooHeavy) -> Self {
        let message = error.to_string();
        Self {
            code: Code::ResourceExhausted,
            reason: Reason::Unspecified,
            message,
            details: vec![],
        }
    }
}

/// Refuses an encoded message of a full name, such as `a11.v1.Frame`, that would
/// take too much memory. One that is malformed is for the decoder to refuse.
///
/// # Errors
/// Where it holds more than it may.
pub fn check(encoded: &[u8], name: &str) -> Result<(), TooHeavy> {
    let Some(&kind) = KINDS.by_name.get(name) else { return Ok(()) };
    let mut left = MAX_WEIGHT;
    // A malformed message ends the walk; what it took until then is counted.
    let _ = walk(encoded, kind, MAX_DEPTH, &mut left);
    if left == 0 { Err(TooHeavy) } else { Ok(()) }
}

/// Takes what the parts of a message weigh; `None` where it is malformed, or
/// nothing is left.
fn walk(mut encoded: &[u8], kind: usize, depth: usize, left: &mut usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    while !encoded.is_empty() {
        let tag = varint(&mut encoded)?;
        match tag & 7 {
            0 => drop(varint(&mut encoded)?),
            1 => encoded = encoded.get(8..)?,
            5 => encoded = encoded.get(4..)?,
            2 => {
                let length = usize::try_from(varint(&mut encoded)?).ok()?;
                let (part, rest) = encoded.split_at_checked(length)?;
                encoded = rest;
                let inner = u32::try_from(tag >> 3).ok();
                let inner = inner.and_then(|field| KINDS.messages[kind].get(&field));
                let weight = if inner.is_some() { MESSAGE_WEIGHT } else { TEXT_WEIGHT };
                *left = left.saturating_sub(weight);
                if *left == 0 {
                    return None;
                }
                if let Some(&inner) = inner {
                    walk(part, inner, depth, left)?;
                }
            }
            // Groups, which no proto here has.
            _ => return None,
        }
    }
    Some(())
}

fn varint(encoded: &mut &[u8]) -> Option<u64> {
    prost::encoding::decode_varint(encoded).ok()
}

/// Which fields of which messages hold messages.
struct Kinds {
    by_name: HashMap<String, usize>,
    /// By field number: the message inside.
    messages: Vec<HashMap<u32, usize>>,
}

static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default().file;
    let mut named = Vec::new();
    for file in &files {
        gather(&format!(".{}", file.package()), &file.message_type, &mut named);
    }
    // Types name each other with a dot in front, callers without.
    let by_name: HashMap<String, usize> =
        named.iter().enumerate().map(|(kind, (name, _))| (name[1..].to_owned(), kind)).collect();
    let messages = named.iter().map(|(_, message)| {
        let fields = message.field.iter().filter(|field| field.r#type() == Type::Message);
        let fields = fields.filter_map(|field| {
            let kind = by_name.get(field.type_name().strip_prefix('.')?)?;
            Some((u32::try_from(field.number()).ok()?, *kind))
        });
        fields.collect()
    });
    let messages = messages.collect();
    Kinds { by_name, messages }
});

fn gather<'a>(
    scope: &str,
    messages: &'a [DescriptorProto],
    named: &mut Vec<(String, &'a DescriptorProto)>,
) {
    for message in messages {
        let name = format!("{scope}.{}", message.name());
        gather(&name, &message.nested_type, named);
        named.push((name, message));
    }
}

#[cfg(test)]
mod tests {
    use prost::Name as _;

    use super::*;
    use crate::wire::{Chunk, NodeFragment, pb};

    fn check_message<M: prost::Message + prost::Name>(message: &M) -> Result<(), TooHeavy> {
        check(&message.encode_to_vec(), &M::full_name())
    }

    #[test]
    fn what_would_take_too_much_memory_is_refused() {
        let calls = |count| pb::Interaction {
            action_calls: vec![pb::ActionMessage::default(); count],
            ..Default::default()
        };
        assert_eq!(check_message(&calls(200_000)), Ok(()));
        assert_eq!(check_message(&calls(300_000)), Err(TooHeavy));
        // Inside a field that is kept encoded, as well.
        let request = |count| pb::ExecuteActionsFromInteractionRequest {
            interaction: Some(calls(count).encode_to_vec().into()),
            ..Default::default()
        };
        assert_eq!(check_message(&request(200_000)), Ok(()));
        assert_eq!(check_message(&request(300_000)), Err(TooHeavy));
        let patterns = |count| pb::ListActionsRequest {
            patterns: vec![String::new(); count],
            ..Default::default()
        };
        assert_eq!(check_message(&patterns(2_000_000)), Ok(()));
        assert_eq!(check_message(&patterns(2_200_000)), Err(TooHeavy));
        let fragments = vec![NodeFragment::more("x", Chunk::text("a")); 70_000];
        assert_eq!(check_message(&pb::NodeFragments { fragments }), Ok(()));
        let large = NodeFragment::last("x", Chunk::text("a".repeat(50_000_000)));
        assert_eq!(check_message(&large), Ok(()));
    }

    #[test]
    fn what_is_malformed_is_left_to_the_decoder() {
        for bytes in [
            &b"\x0a"[..],
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x0b\x0c",
            &[0xff; 32],
        ] {
            assert_eq!(check(bytes, &pb::Interaction::full_name()), Ok(()));
        }
        assert_eq!(check(b"\x0a\x00", "no.such.Message"), Ok(()));
    }
}
