//! Random interactions: every field, absent and default told apart, all byte
//! values, texts of any script, numbers to their ends.

use std::collections::BTreeMap;

use a11_grpc::{
    interaction::{Interaction, canonicalize},
    wire::{
        Chunk, NodeFragment, NodeRef,
        pb::{
            ActionConfig, ActionMessage, ChunkMetadata, NodeFragments, Peer, PortBinding, Reason,
            Role, Status, UsageMetadata, chunk::Body, node_fragment::Payload,
        },
    },
};
use bytes::Bytes;
use pbjson_types::Timestamp;
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
};

/// An interaction in its canonical form.
pub fn interaction() -> impl Strategy<Value = Interaction> {
    let said = (
        text(),
        prop_oneof![Just(Role::User), Just(Role::Model), Just(Role::System)],
        option::of(extreme_i64()),
        text(),
        text(),
        option::of(status()),
        vec(chunk(), 0..3),
        vec(chunk(), 0..5),
    );
    let done = (
        btree_map(text(), config(), 0..3),
        btree_map(option_name(), call_parts(), 0..3),
        btree_map(text(), fragments(), 0..3),
        btree_map(text(), fragments(), 0..3),
        btree_map(text(), bytes(), 0..3),
        option::of(usage()),
    );
    (said, done).prop_map(|(said, done)| {
        let (id, role, created_at_millis, previous_interaction_id, model, status, system, content) =
            said;
        let (action_configs, calls, action_inputs, action_outputs, metadata, usage_metadata) = done;
        let mut interaction = Interaction {
            id,
            role: role as i32,
            created_at_millis,
            previous_interaction_id,
            model,
            status,
            system_instructions: system,
            action_configs,
            content,
            action_calls: calls
                .into_iter()
                .map(|(id, call)| ActionMessage { id, ..call })
                .collect(),
            action_inputs,
            action_outputs,
            backend_specific_metadata: metadata,
            usage_metadata,
        };
        canonicalize(&mut interaction);
        interaction
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z]{1,8}",
        "\\PC{0,8}",
        any::<String>(),
        Just("\u{0}\n\"\\\u{7f}\u{2028}\u{10ffff}".to_owned()),
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_]([A-Za-z0-9_#-]{0,6}[A-Za-z0-9_])?"
}

fn option_name() -> impl Strategy<Value = String> {
    prop_oneof![1 => Just(String::new()), 4 => name()]
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        Just(Bytes::new()),
        vec(any::<u8>(), 0..24).prop_map(Bytes::from),
        Just((0..=255).collect::<Bytes>()),
    ]
}

fn bytes_by(keys: impl Strategy<Value = String>) -> impl Strategy<Value = BTreeMap<String, Bytes>> {
    btree_map(keys, bytes(), 0..3)
}

fn extreme_i64() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), any::<i64>()]
}

fn extreme_u64() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), Just(1 << 53), any::<u64>()]
}

fn extreme_u32() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX), any::<u32>()]
}

fn status() -> impl Strategy<Value = Status> {
    let detail = prop_oneof![
        Just("null".to_owned()),
        Just("9223372036854775807".to_owned()),
        Just("[1.0,1e3,-0,123456789012345678901234567890]".to_owned()),
        Just(r#"{"a b":[{"\u00e9":" \" "}],"":null}"#.to_owned()),
        Just(format!("{}{}", "[".repeat(101), "]".repeat(101))),
        text().prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    let reason = (0..=Reason::ShuttingDown as i32)
        .prop_filter("known", |reason| Reason::try_from(*reason).is_ok());
    let given = (0..=16, text(), vec(detail, 0..3), reason)
        .prop_map(|(code, message, details, reason)| Status { code, message, details, reason });
    prop_oneof![1 => Just(Status::default()), 3 => given]
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    let seconds = prop_oneof![
        Just(-62_135_596_800),
        Just(253_402_300_799),
        Just(-1),
        Just(0),
        -62_135_596_800..=253_402_300_799_i64,
    ];
    let nanos = prop_oneof![Just(0), Just(1000), Just(678_901_000), Just(1), 0..=999_999_999_i32];
    (seconds, nanos).prop_map(|(seconds, nanos)| Timestamp { seconds, nanos })
}

fn chunk() -> impl Strategy<Value = Chunk> {
    let media_type = prop_oneof![
        Just(String::new()),
        Just("text/plain".to_owned()),
        Just("application/json".to_owned()),
        text(),
    ];
    let metadata = (media_type, option::of(timestamp()), bytes_by(name())).prop_map(
        |(media_type, timestamp, attributes)| ChunkMetadata { media_type, timestamp, attributes },
    );
    let metadata = prop_oneof![1 => Just(ChunkMetadata::default()), 4 => metadata];
    let reference = text().prop_map(|text| Body::Ref(format!("n{text}")));
    let body = prop_oneof![3 => bytes().prop_map(Body::Data), 1 => reference];
    (option::of(metadata), option::of(body)).prop_map(|(metadata, body)| Chunk { metadata, body })
}

fn fragments() -> impl Strategy<Value = NodeFragments> {
    let node = (text(), option::of(extreme_u32()), option::of(extreme_u32()))
        .prop_map(|(id, offset, length)| Payload::NodeRef(NodeRef { id, offset, length }));
    let payload = prop_oneof![3 => chunk().prop_map(Payload::Chunk), 1 => node];
    let fragment = (text(), option::of(payload), option::of(extreme_u32()), any::<bool>())
        .prop_map(|(id, payload, seq, continued)| NodeFragment { id, payload, seq, continued });
    vec(fragment, 0..3).prop_map(|fragments| NodeFragments { fragments })
}

fn call_parts() -> impl Strategy<Value = ActionMessage> {
    let bindings = || vec((text(), text()).prop_map(|(name, id)| PortBinding { name, id }), 0..3);
    (option_name(), bindings(), bindings(), bytes_by(text())).prop_map(
        |(name, inputs, outputs, headers)| ActionMessage {
            id: String::new(),
            name,
            inputs,
            outputs,
            headers,
        },
    )
}

fn config() -> impl Strategy<Value = ActionConfig> {
    let peer =
        (text(), text(), text(), text()).prop_map(|(protocol, scheme, identity, endpoint)| Peer {
            protocol,
            scheme,
            identity,
            endpoint,
        });
    let peer = prop_oneof![Just(Peer::default()), Just(Peer::sender()), peer];
    (option::of(peer), bytes_by(text()))
        .prop_map(|(peer, header_autofills)| ActionConfig { peer, header_autofills })
}

fn usage() -> impl Strategy<Value = UsageMetadata> {
    let counter = || option::of(extreme_u64());
    (counter(), counter(), counter(), counter(), counter(), counter()).prop_map(
        |(input, output, total, cached, written, reasoning)| UsageMetadata {
            input_tokens: input,
            output_tokens: output,
            total_tokens: total,
            cached_input_tokens: cached,
            cache_write_tokens: written,
            reasoning_tokens: reasoning,
        },
    )
}
