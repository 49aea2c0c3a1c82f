//! Record → portable JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap as _},
};
use serde_json::value::RawValue;

use crate::{
    interaction::{InteractionError, canonical, timestamp},
    wire::{
        Chunk, NodeFragment, NodeRef, Reason, base64,
        pb::{self, Interaction, NodeFragments, Role, chunk::Body, node_fragment::Payload},
    },
};

/// Writes an interaction's canonical form on one line.
///
/// # Errors
/// [`InteractionError::Refused`] for what could not be read back.
pub fn to_json(interaction: &Interaction) -> Result<String, InteractionError> {
    let canonical = canonical::checked(interaction)?;
    serde_json::to_string(&Portable(canonical.as_ref())).map_err(unwritable)
}

/// The same for a turn that is run or kept, whose calls may have the ids that
/// their provider gave them. [`turn_from_json`] reads it.
///
/// # Errors
/// As [`to_json`], but for those ids.
///
/// [`turn_from_json`]: super::turn_from_json
pub fn turn_to_json(interaction: &Interaction) -> Result<String, InteractionError> {
    let canonical = canonical::checked_turn(interaction)?;
    serde_json::to_string(&Portable(canonical.as_ref())).map_err(unwritable)
}

/// Writes an interaction's canonical form over indented lines.
///
/// # Errors
/// As [`to_json`].
pub fn to_json_pretty(interaction: &Interaction) -> Result<String, InteractionError> {
    let canonical = canonical::checked(interaction)?;
    serde_json::to_string_pretty(&Portable(canonical.as_ref())).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> InteractionError {
    InteractionError::NotJson(error.to_string())
}

/// A part of the record, to be written in the portable form.
struct Portable<'a, T: ?Sized>(&'a T);

impl Serialize for Portable<'_, Interaction> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Interaction {
            id,
            role,
            created_at_millis,
            previous_interaction_id,
            model,
            status,
            system_instructions,
            action_configs,
            content,
            action_calls,
            action_inputs,
            action_outputs,
            backend_specific_metadata,
            usage_metadata,
        } = self.0;
        let role = match Role::try_from(*role).map_err(S::Error::custom)? {
            Role::Unspecified | Role::User => "user",
            Role::Model => "model",
            Role::System => "system",
        };
        let mut map = serializer.serialize_map(Some(14))?;
        map.serialize_entry("id", id)?;
        map.serialize_entry("role", role)?;
        map.serialize_entry("created_at_millis", created_at_millis)?;
        map.serialize_entry("previous_interaction_id", previous_interaction_id)?;
        map.serialize_entry("model", model)?;
        map.serialize_entry("status", &status.as_ref().map(Portable))?;
        map.serialize_entry("system_instructions", &Portable(system_instructions))?;
        map.serialize_entry("action_configs", &Portable(action_configs))?;
        map.serialize_entry("content", &Portable(content))?;
        map.serialize_entry("action_calls", &Portable(action_calls))?;
        map.serialize_entry("action_inputs", &Portable(action_inputs))?;
        map.serialize_entry("action_outputs", &Portable(action_outputs))?;
        map.serialize_entry("backend_specific_metadata", &Portable(backend_specific_metadata))?;
        map.serialize_entry("usage_metadata", &usage_metadata.as_ref().map(Portable))?;
        map.end()
    }
}

impl Serialize for Portable<'_, pb::Status> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pb::Status { code, message, details, reason } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", code)?;
        map.serialize_entry("message", message)?;
        if !details.is_empty() {
            let details: Vec<&RawValue> = details
                .iter()
                .map(|detail| serde_json::from_str(detail))
                .collect::<Result<_, _>>()
                .map_err(S::Error::custom)?;
            map.serialize_entry("details", &details)?;
        }
        if *reason != Reason::Unspecified as i32 {
            let reason = Reason::try_from(*reason).map_err(S::Error::custom)?;
            let name = reason.as_str_name();
            map.serialize_entry("reason", name.strip_prefix("REASON_").unwrap_or(name))?;
        }
        map.end()
    }
}

impl Serialize for Portable<'_, Chunk> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Chunk { metadata, body } = self.0;
        let mut map = serializer.serialize_map(None)?;
        match body {
            Some(Body::Data(data)) => map.serialize_entry("data", &Portable(data))?,
            Some(Body::Ref(_)) => map.serialize_entry("data", "")?,
            None => {}
        }
        if let Some(metadata) = metadata {
            map.serialize_entry("metadata", &Portable(metadata))?;
        }
        if let Some(Body::Ref(reference)) = body {
            map.serialize_entry("ref", reference)?;
        }
        map.end()
    }
}

impl Serialize for Portable<'_, pb::ChunkMetadata> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pb::ChunkMetadata { media_type, timestamp, attributes } = self.0;
        let mut map = serializer.serialize_map(None)?;
        if !media_type.is_empty() {
            map.serialize_entry("mimetype", media_type)?;
        }
        if let Some(timestamp) = timestamp {
            let text = timestamp::write(*timestamp)
                .ok_or_else(|| S::Error::custom("timestamp out of range"))?;
            map.serialize_entry("timestamp", &text)?;
        }
        if !attributes.is_empty() {
            map.serialize_entry("attributes", &Portable(attributes))?;
        }
        map.end()
    }
}

impl Serialize for Portable<'_, NodeFragment> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let NodeFragment { id, payload, seq, continued } = self.0;
        let mut map = serializer.serialize_map(None)?;
        match payload {
            Some(Payload::Chunk(chunk)) => map.serialize_entry("data", &Portable(chunk))?,
            Some(Payload::NodeRef(node)) => map.serialize_entry("data", &Portable(node))?,
            None => {}
        }
        map.serialize_entry("id", id)?;
        if let Some(seq) = seq {
            map.serialize_entry("seq", seq)?;
        }
        if *continued {
            map.serialize_entry("continued", continued)?;
        }
        map.end()
    }
}

impl Serialize for Portable<'_, NodeRef> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let NodeRef { id, offset, length } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", id)?;
        if let Some(offset) = offset {
            map.serialize_entry("offset", offset)?;
        }
        if let Some(length) = length {
            map.serialize_entry("length", length)?;
        }
        map.end()
    }
}

impl Serialize for Portable<'_, NodeFragments> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Portable(&self.0.fragments).serialize(serializer)
    }
}

impl Serialize for Portable<'_, pb::ActionMessage> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pb::ActionMessage { id, name, inputs, outputs, headers } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", id)?;
        map.serialize_entry("name", name)?;
        if !inputs.is_empty() {
            map.serialize_entry("inputs", &Portable(inputs))?;
        }
        if !outputs.is_empty() {
            map.serialize_entry("outputs", &Portable(outputs))?;
        }
        if !headers.is_empty() {
            map.serialize_entry("headers", &Portable(headers))?;
        }
        map.end()
    }
}

impl Serialize for Portable<'_, pb::PortBinding> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pb::PortBinding { name, id } = self.0;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("name", name)?;
        map.serialize_entry("id", id)?;
        map.end()
    }
}

impl Serialize for Portable<'_, pb::ActionConfig> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pb::ActionConfig { peer, header_autofills } = self.0;
        let mut map = serializer.serialize_map(None)?;
        if let Some(peer) = peer {
            map.serialize_entry("peer", &Portable(peer))?;
        }
        map.serialize_entry("header_autofills", &Portable(header_autofills))?;
        map.end()
    }
}

impl Serialize for Portable<'_, pb::Peer> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pb::Peer { protocol, scheme, identity, endpoint } = self.0;
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("protocol", protocol)?;
        map.serialize_entry("scheme", scheme)?;
        map.serialize_entry("identity", identity)?;
        map.serialize_entry("endpoint", endpoint)?;
        map.end()
    }
}

impl Serialize for Portable<'_, pb::UsageMetadata> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pb::UsageMetadata {
            input_tokens,
            output_tokens,
            total_tokens,
            cached_input_tokens,
            cache_write_tokens,
            reasoning_tokens,
        } = self.0;
        let counters = [
            ("input_tokens", input_tokens),
            ("output_tokens", output_tokens),
            ("total_tokens", total_tokens),
            ("cached_input_tokens", cached_input_tokens),
            ("cache_write_tokens", cache_write_tokens),
            ("reasoning_tokens", reasoning_tokens),
        ];
        serializer.collect_map(counters.into_iter().filter(|(_, counter)| counter.is_some()))
    }
}

impl Serialize for Portable<'_, Bytes> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::encode(self.0))
    }
}

impl<T> Serialize for Portable<'_, Vec<T>>
where
    for<'a> Portable<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Portable))
    }
}

impl<T> Serialize for Portable<'_, BTreeMap<String, T>>
where
    for<'a> Portable<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, Portable(value))))
    }
}
