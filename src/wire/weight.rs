//! How much memory an encoded message will take, told before it is decoded: two
//! bytes on the wire are an empty message of hundreds in memory, so a limit on
//! encoded bytes bounds nothing.

use std::{collections::HashMap, sync::LazyLock};

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};
use thiserror::Error;

use super::{
    pb::FILE_DESCRIPTOR_SET,
    status::{Code, Status},
};

/// The most that one message weighs: with 80 thousand fragments, or 260 thousand
/// messages that hold nothing, it takes about 100 MB beside its payload.
pub const MAX_WEIGHT: usize = 2 * 1024 * 1024;
/// What a message inside weighs, and a text, a map's key or bytes: the first takes
/// some hundred bytes of memory, the second some tens.
const MESSAGE_WEIGHT: usize = 8;
const TEXT_WEIGHT: usize = 1;

/// How many messages, or groups, one can stand in: those deeper are not decoded.
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
        Self::without_reason(Code::ResourceExhausted, error.to_string())
    }
}

/// Refuses an encoded message of a full name, such as `a11.v1.Frame`, that would
/// take too much memory. One that is malformed is for the decoder to refuse.
///
/// # Errors
/// Where it holds more than it may.
pub fn check(encoded: &[u8], name: &str) -> Result<(), TooHeavy> {
    of(encoded, name).map(drop)
}

/// What an encoded message weighs.
///
/// # Errors
/// As [`check`].
pub fn of(encoded: &[u8], name: &str) -> Result<usize, TooHeavy> {
    let Some(&kind) = KINDS.by_name.get(name) else { return Ok(0) };
    let mut left = MAX_WEIGHT;
    let walk = Walk { rest: encoded, left: &mut left };
    match walk.whole(kind) {
        Err(End::Heavy) => Err(TooHeavy),
        // What it took until it turned out to be malformed is counted.
        Ok(()) | Err(End::Malformed) => Ok(MAX_WEIGHT - left),
    }
}

/// Why a message is not walked to its end.
enum End {
    /// The decoder ends here, too.
    Malformed,
    Heavy,
}

/// Goes through a message as prost decodes it, at least as far as that where it is
/// malformed: what was decoded until then has taken its memory.
struct Walk<'a, 'b> {
    /// From here to the end of what is decoded at once, as prost has it: where the
    /// parts of a message go on past its end, that is told only once they are read.
    rest: &'a [u8],
    left: &'b mut usize,
}

impl<'a> Walk<'a, '_> {
    fn whole(mut self, kind: usize) -> Result<(), End> {
        self.fields(kind, 0, MAX_DEPTH)
    }

    /// The fields of a message, until no more than `end` bytes are left; `depth` more
    /// messages may stand in each other.
    fn fields(&mut self, kind: usize, end: usize, depth: usize) -> Result<(), End> {
        while self.rest.len() > end {
            let (field, wire) = self.tag()?;
            let part = KINDS.messages[kind].get(&field);
            if wire != LENGTH_DELIMITED {
                self.skip(field, wire, depth)?;
                continue;
            }
            self.take(if part.is_some() { MESSAGE_WEIGHT } else { TEXT_WEIGHT })?;
            match part {
                Some(Part { kind, is_encoded: false }) => {
                    let depth = depth.checked_sub(1).ok_or(End::Malformed)?;
                    let end = self.end()?;
                    self.fields(*kind, end, depth)?;
                }
                Some(Part { kind, is_encoded: true }) => {
                    let length = self.length()?;
                    let bytes = self.bytes(length)?;
                    // Decoded on its own, and what is wrong in it is told there.
                    let walk = Walk { rest: bytes, left: self.left };
                    if let Err(End::Heavy) = walk.whole(*kind) {
                        return Err(End::Heavy);
                    }
                }
                None => {
                    let length = self.length()?;
                    self.bytes(length)?;
                }
            }
        }
        if self.rest.len() == end { Ok(()) } else { Err(End::Malformed) }
    }

    /// A field that holds nothing of weight, or is not known; a group with all that
    /// stands in it.
    fn skip(&mut self, field: u32, wire: u64, depth: usize) -> Result<(), End> {
        match wire {
            VARINT => drop(self.varint()?),
            FIXED_64 => drop(self.bytes(8)?),
            FIXED_32 => drop(self.bytes(4)?),
            LENGTH_DELIMITED => {
                let length = self.length()?;
                self.bytes(length)?;
            }
            START_GROUP => {
                let depth = depth.checked_sub(1).ok_or(End::Malformed)?;
                loop {
                    match self.tag()? {
                        (inner, END_GROUP) if inner == field => break,
                        (inner, wire) => self.skip(inner, wire, depth)?,
                    }
                }
            }
            _ => return Err(End::Malformed),
        }
        Ok(())
    }

    fn tag(&mut self) -> Result<(u32, u64), End> {
        let tag = u32::try_from(self.varint()?).map_err(|_| End::Malformed)?;
        match tag >> 3 {
            0 => Err(End::Malformed),
            field => Ok((field, u64::from(tag & 7))),
        }
    }

    /// How many bytes are left where the message that begins here ends.
    fn end(&mut self) -> Result<usize, End> {
        let length = self.length()?;
        self.rest.len().checked_sub(length).ok_or(End::Malformed)
    }

    fn length(&mut self) -> Result<usize, End> {
        usize::try_from(self.varint()?).map_err(|_| End::Malformed)
    }

    fn varint(&mut self) -> Result<u64, End> {
        prost::encoding::decode_varint(&mut self.rest).map_err(|_| End::Malformed)
    }

    fn take(&mut self, weight: usize) -> Result<(), End> {
        *self.left = self.left.checked_sub(weight).ok_or(End::Heavy)?;
        Ok(())
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], End> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(End::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// How the value of a field is encoded: the last three bits of its tag.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const START_GROUP: u64 = 3;
const END_GROUP: u64 = 4;
const FIXED_32: u64 = 5;

/// What a field holds that is a message.
struct Part {
    /// Its place in [`Kinds::messages`].
    kind: usize,
    /// Whether it is kept as the bytes that came.
    is_encoded: bool,
}

/// The messages whose field `interaction` is kept as the bytes that came, as
/// `build.rs` has them.
const ENCODED: &str = env!("A11_ENCODED_MESSAGES");

/// Which fields of which messages hold messages.
struct Kinds {
    by_name: HashMap<String, usize>,
    /// By field number: the message inside.
    messages: Vec<HashMap<u32, Part>>,
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
    let messages = named.iter().map(|(name, message)| {
        let is_encoded = ENCODED.split(',').any(|encoded| name[1..] == *encoded);
        let fields = message.field.iter().filter(|field| field.r#type() == Type::Message);
        let fields = fields.filter_map(|field| {
            let kind = *by_name.get(field.type_name().strip_prefix('.')?)?;
            let is_encoded = is_encoded && field.name() == "interaction";
            Some((u32::try_from(field.number()).ok()?, Part { kind, is_encoded }))
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

    fn field(number: u32, value: &[u8]) -> Vec<u8> {
        let mut encoded = vec![];
        prost::encoding::bytes::encode(number, &value.to_vec(), &mut encoded);
        encoded
    }

    /// So many empty messages of a field that they are too heavy.
    fn heavy(number: u32) -> Vec<u8> {
        field(number, b"").repeat(300_000)
    }

    /// Holds bytes that are too heavy as a message against what prost makes of them.
    fn check_decoded<M: prost::Message + prost::Name + Default>(
        encoded: &[u8],
        decoded: Result<(), &str>,
    ) {
        assert_eq!(check(encoded, &M::full_name()), Err(TooHeavy), "{decoded:?}");
        let error = M::decode(encoded).err().map(|error| error.to_string());
        match decoded {
            Ok(()) => assert_eq!(error, None),
            Err(fault) => assert!(error.is_some_and(|error| error.contains(fault)), "{fault}"),
        }
    }

    #[test]
    fn all_that_is_decoded_is_weighed() {
        // After what is not known and skipped: a group of field 100, another in it.
        let group = [0xa3, 6, 0x0b, 8, 1, 0x12, 1, 7, 0x0c, 0x0d, 1, 2, 3, 4, 0xa4, 6];
        check_decoded::<pb::Interaction>(&[&group[..], &heavy(10)].concat(), Ok(()));
        check_decoded::<pb::Interaction>(&[field(100, b"?"), heavy(10)].concat(), Ok(()));
        // After a field that is kept as it came, and is malformed.
        let encoded = [field(1, &[0xff]), heavy(8)].concat();
        check_decoded::<pb::ExecuteActionsFromInteractionRequest>(&encoded, Ok(()));
        // Past the end of the message that it stands in, which is told after it: an
        // interaction of one byte, the tag of a call.
        let encoded = [&[0x1a, 1][..], &field(10, &heavy(3))].concat();
        let fault = Err("delimited length exceeded");
        check_decoded::<pb::ConvertInteractionsRequest>(&encoded, fault);
    }

    #[test]
    fn messages_are_weighed_as_deep_as_they_are_decoded() {
        // Values of a list: the last are in 100 others.
        let arguments = |lists| {
            let list = (1..lists).fold(heavy(1), |list, _| field(1, &field(6, &list)));
            // Of a field of an object, of a field of the arguments.
            let object = field(5, &field(1, &field(2, &field(6, &list))));
            field(2, &field(1, &field(2, &object)))
        };
        check_decoded::<pb::RunActionRequest>(&arguments(47), Ok(()));
        let deeper = arguments(48);
        assert_eq!(check(&deeper, &pb::RunActionRequest::full_name()), Ok(()));
        pb::RunActionRequest::decode(&deeper[..]).expect_err("not decoded, and no memory taken");
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
