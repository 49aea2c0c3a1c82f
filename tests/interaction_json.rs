//! Interactions through their forms: portable JSON, proto JSON, protobuf.

#![allow(missing_docs, unreachable_pub)]

#[path = "support/interactions.rs"]
mod interactions;

use a11_grpc::interaction::{
    Interaction,
    document::{self, Document, Form},
    portable, proto_json,
};
use proptest::prelude::*;
use serde_json::Value;

/// Enough to meet every field absent, default and given, in a few seconds.
const CASES: u32 = 96;

fn through_portable(interaction: &Interaction) -> Interaction {
    let json = portable::to_json(interaction).expect("written");
    portable::from_json(json.as_bytes()).expect("read")
}

fn through_proto_json(interaction: &Interaction) -> Interaction {
    let json = proto_json::to_json(interaction).expect("written");
    proto_json::from_json(json.as_bytes()).expect("read")
}

fn through_protobuf(interaction: &Interaction) -> Interaction {
    let bytes = document::encode(interaction, Form::Protobuf).expect("written");
    document::decode(bytes, document::PROTOBUF).expect("read")
}

/// Any JSON whose objects have the field names of an interaction, so that the
/// readers go deep into it.
fn json_like() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9+/=_ -]{0,8}".prop_map(Value::from),
        prop_oneof![Just("user"), Just("ROLE_USER"), Just("2026-01-02T03:04:05Z")]
            .prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "id",
        "role",
        "content",
        "data",
        "metadata",
        "mimetype",
        "timestamp",
        "attributes",
        "ref",
        "status",
        "code",
        "details",
        "reason",
        "action_calls",
        "actionCalls",
        "inputs",
        "headers",
        "action_inputs",
        "actionInputs",
        "fragments",
        "chunk",
        "nodeRef",
        "seq",
        "continued",
        "action_configs",
        "peer",
        "usage_metadata",
        "usageMetadata",
        "input_tokens",
        "created_at_millis",
        "createdAtMillis",
        "system_instructions",
        "choices",
    ]);
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|fields| {
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

/// Reads `bytes` as every form. What is read must survive every form.
fn read_as_everything(bytes: &[u8]) {
    let read = [
        portable::from_json(bytes).ok(),
        proto_json::from_json(bytes).ok(),
        document::decode(bytes.to_vec().into(), document::PROTOBUF).ok(),
        match document::read_document(bytes) {
            Ok(Document::Portable(interaction) | Document::ProtoJson(interaction)) => {
                Some(interaction)
            }
            Ok(Document::Other(_)) | Err(_) => None,
        },
    ];
    for interaction in read.into_iter().flatten() {
        assert_eq!(through_portable(&interaction), interaction);
        assert_eq!(through_proto_json(&interaction), interaction);
        assert_eq!(through_protobuf(&interaction), interaction);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() })]

    #[test]
    fn an_interaction_survives_every_form_and_each_to_the_other(
        interaction in interactions::interaction()
    ) {
        prop_assert_eq!(&through_portable(&interaction), &interaction);
        prop_assert_eq!(&through_proto_json(&interaction), &interaction);
        prop_assert_eq!(&through_protobuf(&interaction), &interaction);
        let around = through_protobuf(&through_proto_json(&through_portable(&interaction)));
        prop_assert_eq!(&around, &interaction);
        let back = through_portable(&through_proto_json(&through_protobuf(&interaction)));
        prop_assert_eq!(&back, &interaction);
    }

    #[test]
    fn the_indented_form_and_the_document_reader_mean_the_same(
        interaction in interactions::interaction()
    ) {
        let pretty = portable::to_json_pretty(&interaction).expect("written");
        let Ok(Document::Portable(read)) = document::read_document(pretty.as_bytes()) else {
            return Err(TestCaseError::fail(pretty));
        };
        prop_assert_eq!(read, interaction);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        read_as_everything(&bytes);
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "[\\[\\]{}\":,0-9a-z\\\\ ]{0,48}") {
        read_as_everything(text.as_bytes());
    }

    #[test]
    fn no_json_makes_a_reader_panic(value in json_like()) {
        read_as_everything(value.to_string().as_bytes());
    }
}

#[test]
fn a_reader_takes_deep_nesting_without_harm() {
    for depth in [30, 33, 40, 101, 100_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for place in [
            nested.clone(),
            format!("{{\"role\":\"user\",\"content\":{nested}}}"),
            format!("{{\"role\":\"ROLE_USER\",\"action_calls\":{nested}}}"),
            format!("{{\"role\":\"user\",\"status\":{{\"details\":[{nested}]}}}}"),
            format!("{{\"role\":\"user\",\"colour\":{nested}}}"),
        ] {
            read_as_everything(place.as_bytes());
        }
    }
}
