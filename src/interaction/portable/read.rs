//! Portable JSON → record.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::values::{Base64, JsonPeer, JsonReason, JsonRole, Millis, Moment, Object};
use crate::{
    interaction::{InteractionError, canonical},
    wire::{
        Chunk, NodeFragment, NodeRef, Reason, json_weight,
        pb::{self, Interaction, NodeFragments, Role, chunk::Body, node_fragment::Payload},
    },
};

/// Reads an interaction, in its canonical form. Unknown fields are ignored; a
/// field that is `null` counts as absent, but for `status`, where `null` means
/// none and absent means OK.
///
/// # Errors
/// [`InteractionError`] names the field that is malformed or refused.
pub fn from_json(json: &[u8]) -> Result<Interaction, InteractionError> {
    canonical::accept(fields(json)?.into())
}

/// The same for a turn that is run or kept, whose calls may have the ids that
/// their provider gave them.
///
/// # Errors
/// As [`from_json`], but for those ids.
pub fn turn_from_json(json: &[u8]) -> Result<Interaction, InteractionError> {
    canonical::accept_turn(fields(json)?.into())
}

fn fields(json: &[u8]) -> Result<InteractionFields, InteractionError> {
    let text = std::str::from_utf8(json)
        .map_err(|error| InteractionError::NotJson(format!("not UTF-8: {error}")))?;
    json_weight::check(json)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let Object(fields) =
        serde_path_to_error::deserialize::<_, Object<InteractionFields>>(&mut deserializer)
            .map_err(malformed)?;
    deserializer.end().map_err(|error| InteractionError::NotJson(error.to_string()))?;
    Ok(fields)
}

fn malformed(error: serde_path_to_error::Error<serde_json::Error>) -> InteractionError {
    if error.inner().is_data() {
        InteractionError::malformed(error.path(), error.inner().to_string())
    } else {
        InteractionError::NotJson(error.into_inner().to_string())
    }
}

#[derive(Deserialize)]
struct InteractionFields {
    id: Option<String>,
    role: Option<JsonRole>,
    created_at_millis: Option<Millis>,
    previous_interaction_id: Option<String>,
    model: Option<String>,
    #[serde(default = "JsonStatus::ok")]
    status: Option<JsonStatus>,
    system_instructions: Option<Vec<JsonChunk>>,
    action_configs: Option<BTreeMap<String, Option<Object<ConfigFields>>>>,
    content: Option<Vec<JsonChunk>>,
    action_calls: Option<Vec<Object<CallFields>>>,
    action_inputs: Option<BTreeMap<String, Option<Vec<Object<FragmentFields>>>>>,
    action_outputs: Option<BTreeMap<String, Option<Vec<Object<FragmentFields>>>>>,
    backend_specific_metadata: Option<BTreeMap<String, Base64>>,
    usage_metadata: Option<Object<UsageFields>>,
}

impl From<InteractionFields> for Interaction {
    fn from(fields: InteractionFields) -> Self {
        let chunks = |chunks: Option<Vec<JsonChunk>>| {
            chunks.into_iter().flatten().map(|JsonChunk(chunk)| chunk).collect()
        };
        Self {
            id: fields.id.unwrap_or_default(),
            role: fields.role.map_or(Role::User, |JsonRole(role)| role) as i32,
            created_at_millis: fields.created_at_millis.map(|Millis(millis)| millis),
            previous_interaction_id: fields.previous_interaction_id.unwrap_or_default(),
            model: fields.model.unwrap_or_default(),
            status: fields.status.map(|JsonStatus(status)| status),
            system_instructions: chunks(fields.system_instructions),
            action_configs: fields
                .action_configs
                .into_iter()
                .flatten()
                .map(|(name, config)| (name, config.map(Into::into).unwrap_or_default()))
                .collect(),
            content: chunks(fields.content),
            action_calls: fields.action_calls.into_iter().flatten().map(Into::into).collect(),
            action_inputs: fragments(fields.action_inputs),
            action_outputs: fragments(fields.action_outputs),
            backend_specific_metadata: bytes_map(fields.backend_specific_metadata),
            usage_metadata: fields.usage_metadata.map(Into::into),
        }
    }
}

type FragmentLists = BTreeMap<String, Option<Vec<Object<FragmentFields>>>>;

fn fragments(lists: Option<FragmentLists>) -> BTreeMap<String, NodeFragments> {
    let list = |list: Option<Vec<Object<FragmentFields>>>| NodeFragments {
        fragments: list.into_iter().flatten().map(Into::into).collect(),
    };
    lists.into_iter().flatten().map(|(call, fragments)| (call, list(fragments))).collect()
}

fn bytes_map(map: Option<BTreeMap<String, Base64>>) -> BTreeMap<String, Bytes> {
    map.into_iter().flatten().map(|(key, Base64(bytes))| (key, bytes)).collect()
}

#[derive(Deserialize)]
struct StatusFields {
    code: Option<i32>,
    message: Option<String>,
    details: Option<Vec<Box<RawValue>>>,
    reason: Option<JsonReason>,
}

#[derive(Deserialize)]
#[serde(from = "Object<StatusFields>")]
struct JsonStatus(pb::Status);

impl JsonStatus {
    /// What a status that is not there means.
    fn ok() -> Option<Self> {
        Some(Self(pb::Status::default()))
    }
}

impl From<Object<StatusFields>> for JsonStatus {
    fn from(Object(fields): Object<StatusFields>) -> Self {
        let details = fields.details.into_iter().flatten();
        Self(pb::Status {
            code: fields.code.unwrap_or_default(),
            message: fields.message.unwrap_or_default(),
            details: details.map(|detail| Box::<str>::from(detail).into_string()).collect(),
            reason: fields.reason.map_or(Reason::Unspecified, |JsonReason(reason)| reason) as i32,
        })
    }
}

#[derive(Deserialize)]
struct ChunkFields {
    data: Option<Base64>,
    metadata: Option<Object<MetadataFields>>,
    #[serde(rename = "ref")]
    reference: Option<String>,
}

#[derive(Deserialize)]
#[serde(try_from = "Object<ChunkFields>")]
struct JsonChunk(Chunk);

impl TryFrom<Object<ChunkFields>> for JsonChunk {
    type Error = &'static str;

    fn try_from(Object(fields): Object<ChunkFields>) -> Result<Self, &'static str> {
        let ChunkFields { data, metadata, reference } = fields;
        let body = match (data, reference) {
            (Some(Base64(data)), Some(reference)) if !data.is_empty() && !reference.is_empty() => {
                return Err("has both data and a ref");
            }
            (_, Some(reference)) if !reference.is_empty() => Some(Body::Ref(reference)),
            (Some(Base64(data)), _) => Some(Body::Data(data)),
            (None, Some(_)) => return Err("ref must not be empty"),
            (None, None) => None,
        };
        Ok(Self(Chunk { metadata: metadata.map(Into::into), body }))
    }
}

#[derive(Deserialize)]
struct MetadataFields {
    mimetype: Option<String>,
    timestamp: Option<Moment>,
    attributes: Option<BTreeMap<String, Base64>>,
}

impl From<Object<MetadataFields>> for pb::ChunkMetadata {
    fn from(Object(fields): Object<MetadataFields>) -> Self {
        Self {
            media_type: fields.mimetype.unwrap_or_default(),
            timestamp: fields.timestamp.map(|Moment(timestamp)| timestamp),
            attributes: bytes_map(fields.attributes),
        }
    }
}

#[derive(Deserialize)]
struct FragmentFields {
    data: Option<JsonPayload>,
    id: Option<String>,
    seq: Option<u32>,
    continued: Option<bool>,
}

impl From<Object<FragmentFields>> for NodeFragment {
    fn from(Object(fields): Object<FragmentFields>) -> Self {
        Self {
            id: fields.id.unwrap_or_default(),
            payload: fields.data.map(|JsonPayload(payload)| payload),
            seq: fields.seq,
            continued: fields.continued.unwrap_or_default(),
        }
    }
}

/// The fields of a chunk and of a reference to a node: an id makes it the latter.
#[derive(Deserialize)]
struct PayloadFields {
    data: Option<Base64>,
    metadata: Option<Object<MetadataFields>>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    id: Option<String>,
    offset: Option<u32>,
    length: Option<u32>,
}

#[derive(Deserialize)]
#[serde(try_from = "Object<PayloadFields>")]
struct JsonPayload(Payload);

impl TryFrom<Object<PayloadFields>> for JsonPayload {
    type Error = &'static str;

    fn try_from(Object(fields): Object<PayloadFields>) -> Result<Self, &'static str> {
        let PayloadFields { data, metadata, reference, id, offset, length } = fields;
        Ok(Self(match id {
            Some(id) => Payload::NodeRef(NodeRef { id, offset, length }),
            None => {
                let JsonChunk(chunk) =
                    Object(ChunkFields { data, metadata, reference }).try_into()?;
                Payload::Chunk(chunk)
            }
        }))
    }
}

#[derive(Deserialize)]
struct CallFields {
    id: Option<String>,
    name: Option<String>,
    inputs: Option<Vec<Object<BindingFields>>>,
    outputs: Option<Vec<Object<BindingFields>>>,
    headers: Option<BTreeMap<String, Base64>>,
}

impl From<Object<CallFields>> for pb::ActionMessage {
    fn from(Object(fields): Object<CallFields>) -> Self {
        Self {
            id: fields.id.unwrap_or_default(),
            name: fields.name.unwrap_or_default(),
            inputs: fields.inputs.into_iter().flatten().map(Into::into).collect(),
            outputs: fields.outputs.into_iter().flatten().map(Into::into).collect(),
            headers: bytes_map(fields.headers),
        }
    }
}

#[derive(Deserialize)]
struct BindingFields {
    name: Option<String>,
    id: Option<String>,
}

impl From<Object<BindingFields>> for pb::PortBinding {
    fn from(Object(fields): Object<BindingFields>) -> Self {
        Self { name: fields.name.unwrap_or_default(), id: fields.id.unwrap_or_default() }
    }
}

#[derive(Deserialize)]
struct ConfigFields {
    peer: Option<JsonPeer>,
    header_autofills: Option<BTreeMap<String, Base64>>,
}

impl From<Object<ConfigFields>> for pb::ActionConfig {
    fn from(Object(fields): Object<ConfigFields>) -> Self {
        Self {
            peer: fields.peer.map(|JsonPeer(peer)| peer),
            header_autofills: bytes_map(fields.header_autofills),
        }
    }
}

#[derive(Deserialize)]
struct UsageFields {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    cached_input_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl From<Object<UsageFields>> for pb::UsageMetadata {
    fn from(Object(fields): Object<UsageFields>) -> Self {
        Self {
            input_tokens: fields.input_tokens,
            output_tokens: fields.output_tokens,
            total_tokens: fields.total_tokens,
            cached_input_tokens: fields.cached_input_tokens,
            cache_write_tokens: fields.cache_write_tokens,
            reasoning_tokens: fields.reasoning_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let check = |json: Value, expected: &str| {
            let error = from_json(json.to_string().as_bytes()).expect_err(expected);
            let status = crate::wire::Status::from(error);
            assert_eq!(status.reason, Reason::InvalidRequest);
            assert!(status.message.starts_with(expected), "{expected}: {}", status.message);
        };
        let content = |chunk: Value| json!({"content": [{}, {}, chunk]});
        let input = |fragment: Value| json!({"action_inputs": {"c": [fragment]}});
        check(json!(["x1", "user"]), "interaction: ");
        check(json!(null), "interaction: ");
        check(json!({"id": 5}), "id: ");
        check(json!({"role": "assistant"}), "role: unknown role \"assistant\"");
        check(json!({"created_at_millis": 1.5}), "created_at_millis: ");
        check(json!({"created_at_millis": "soon"}), "created_at_millis: ");
        check(json!({"created_at_millis": 9_223_372_036_854_775_808_u64}), "created_at_millis: ");
        check(json!({"status": 3}), "status: ");
        check(json!({"status": {"code": 17}}), "status.code: ");
        check(json!({"status": {"code": "5"}}), "status.code: ");
        check(json!({"status": {"reason": "BAD_MOOD"}}), "status.reason: ");
        check(json!({"content": {}}), "content: ");
        check(content(json!({"data": "a b"})), "content[2].data: not base64");
        check(content(json!({"data": "_-8="})), "content[2].data: not base64");
        check(content(json!({"data": "YQ==", "ref": "node-9"})), "content[2]: ");
        check(content(json!({"ref": ""})), "content[2]: ");
        check(content(json!({"metadata": []})), "content[2].metadata: ");
        check(content(json!(["YQ=="])), "content[2]: ");
        check(content(json!(null)), "content[2]: ");
        check(content(json!({"metadata": {"timestamp": "x"}})), "content[2].metadata.timestamp: ");
        check(
            content(json!({"metadata": {"attributes": {"k": 1}}})),
            "content[2].metadata.attributes.k: ",
        );
        check(input(json!({"seq": 4_294_967_296_u64})), "action_inputs.c[0].seq: ");
        check(input(json!({"seq": -1})), "action_inputs.c[0].seq: ");
        check(input(json!({"continued": 1})), "action_inputs.c[0].continued: ");
        check(
            input(json!({"data": {"id": "n", "offset": -1}})),
            "action_inputs.c[0].data.offset: ",
        );
        check(json!({"action_calls": [{"headers": {"k": "?"}}]}), "action_calls[0].headers.k: ");
        check(json!({"action_calls": [{"name": "a b"}]}), "action_calls[0].name: ");
        check(json!({"action_configs": {"a": {"peer": "ftp://h"}}}), "action_configs.a.peer: ");
        check(json!({"action_configs": {"a": {"peer": 3}}}), "action_configs.a.peer: ");
        check(json!({"usage_metadata": {"input_tokens": -1}}), "usage_metadata.input_tokens: ");
    }

    #[test]
    fn what_is_not_json_is_refused_without_harm() {
        let check = |json: &[u8]| {
            let error = from_json(json).expect_err("refused");
            assert!(matches!(error, InteractionError::NotJson(_)), "{error:?}");
        };
        check(b"");
        check(b"{\"id\": \"x\"} {}");
        check(b"{\"usage_metadata\": {\"input_tokens\": NaN}}");
        check(b"{\"id\": \"\\ud800\"}");
        check(b"{\"id\": \"\xff\"}");
        let detail = |detail: &str| {
            let json = format!("{{\"status\": {{\"details\": [{detail}]}}}}");
            from_json(json.as_bytes()).map(|read| read.status.expect("given").details)
        };
        for depth in [30, 33, 40, 101, 127] {
            let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(detail(&nested), Ok(vec![nested]));
        }
        let too_deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for refused in [too_deep.as_str(), r#""\ud800""#, "1e999"] {
            assert_eq!(detail(refused).expect_err("refused").field(), "status.details[0]");
        }
        assert!(from_json(format!("{{\"colour\": {too_deep}}}").as_bytes()).is_ok());
    }

    #[test]
    fn null_is_absent_everywhere_but_as_the_status() {
        let absent = from_json(b"{}").expect("readable");
        let null = from_json(
            json!({
                "id": null, "role": null, "created_at_millis": null, "model": null,
                "previous_interaction_id": null, "system_instructions": null,
                "action_configs": null, "content": null, "action_calls": null,
                "action_inputs": null, "action_outputs": null,
                "backend_specific_metadata": null, "usage_metadata": null, "status": {},
            })
            .to_string()
            .as_bytes(),
        );
        assert_eq!(null.as_ref(), Ok(&absent));
        assert_eq!(absent.status, Some(pb::Status::default()));
        assert_eq!(from_json(b"{\"status\": null}").expect("readable").status, None);
        let read = from_json(
            json!({
                "content": [{"data": null, "metadata": null, "ref": null}, {"data": "", "ref": ""}],
                "action_inputs": {"c": [{"data": null, "seq": null, "continued": null}], "d": null},
                "action_calls": [{"inputs": null, "headers": null}],
                "action_configs": {"a": null, "b": {"peer": null}, "c": {"peer": "a11://s"}},
            })
            .to_string()
            .as_bytes(),
        )
        .expect("readable");
        assert_eq!(read.content[0], Chunk::default());
        assert_eq!(read.content[1].body, Some(Body::Data(Bytes::new())));
        assert_eq!(read.action_inputs["c"].fragments, [NodeFragment::default()]);
        assert_eq!(read.action_configs["c"].peer, Some(pb::Peer::session("s")));
        assert_eq!(read.action_configs["a"], read.action_configs["b"]);
    }
}
