//! What an interaction must be, held against every field of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    error::InteractionError,
    problem::{Fault, Problem},
    timestamp,
};
use crate::wire::{
    Chunk, NameError, NodeFragment, Reason,
    chunk_limits::{MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES, MAX_MEDIA_TYPE_LEN, MAX_REF_LEN},
    json_weight,
    name::{self, Name},
    pb::{self, Interaction, NodeFragments, Role, chunk::Body, node_fragment::Payload},
};

/// The longest id of an interaction, in characters.
pub const MAX_TEXT_LEN: usize = 255;

/// Everything that is wrong with an interaction, and notes. Fields are named as
/// the portable JSON names them, in its order.
pub fn validate(interaction: &Interaction) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.interaction(interaction);
    problems.0
}

/// Refuses an interaction for the first thing that [`validate`] finds wrong,
/// notes apart.
///
/// # Errors
/// [`InteractionError::Refused`] names the field.
pub fn check(interaction: &Interaction) -> Result<(), InteractionError> {
    match validate(interaction).into_iter().find(Problem::is_refused) {
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}

/// The same for a turn that is run or kept: a call may have the id that its
/// provider gave it, if that is no longer than [`MAX_TEXT_LEN`] and has no control
/// characters.
///
/// # Errors
/// As [`check`].
pub fn check_turn(interaction: &Interaction) -> Result<(), InteractionError> {
    let refused =
        |found: &Problem| found.is_refused() && !matches!(found.fault, Fault::ForeignCallId(_));
    match validate(interaction).into_iter().find(refused) {
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}

/// Collects problems. Field paths are written only where there is one.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn interaction(&mut self, interaction: &Interaction) {
        let Interaction {
            id,
            role,
            created_at_millis: _,
            previous_interaction_id,
            model: _,
            status,
            system_instructions,
            action_configs: _,
            content,
            action_calls,
            action_inputs,
            action_outputs,
            backend_specific_metadata: _,
            usage_metadata: _,
        } = interaction;
        self.length(id, MAX_TEXT_LEN, || "id".into());
        if Role::try_from(*role).is_err() {
            self.push("role", Fault::UnknownRole(*role));
        }
        self.length(previous_interaction_id, MAX_TEXT_LEN, || "previous_interaction_id".into());
        if let Some(status) = status {
            self.status(status);
        }
        for (index, chunk) in system_instructions.iter().enumerate() {
            self.chunk(chunk, &|| format!("system_instructions[{index}]"));
        }
        for (index, chunk) in content.iter().enumerate() {
            self.chunk(chunk, &|| format!("content[{index}]"));
        }
        self.calls(action_calls);
        let ids: BTreeSet<&str> = action_calls.iter().map(|call| call.id.as_str()).collect();
        for call in action_inputs.keys().filter(|call| !ids.contains(call.as_str())) {
            self.push(format!("action_inputs.{call}"), Fault::UnknownCall);
        }
        self.fragments("action_inputs", action_inputs);
        self.fragments("action_outputs", action_outputs);
    }

    fn status(&mut self, status: &pb::Status) {
        let pb::Status { code, message: _, details, reason } = status;
        if !(0..=16).contains(code) {
            self.push("status.code", Fault::UnknownCode(*code));
        }
        for (index, detail) in details.iter().enumerate() {
            if let Some(fault) = detail_fault(detail) {
                self.push(format!("status.details[{index}]"), fault);
            }
        }
        if Reason::try_from(*reason).is_err() {
            self.push("status.reason", Fault::UnknownReason(*reason));
        }
    }

    fn chunk(&mut self, chunk: &Chunk, field: &dyn Fn() -> String) {
        let Chunk { metadata, body } = chunk;
        if let Some(pb::ChunkMetadata { media_type, timestamp, attributes }) = metadata {
            self.length(media_type, MAX_MEDIA_TYPE_LEN, || field() + ".metadata.mimetype");
            if timestamp.is_some_and(|timestamp| !timestamp::is_in_range(timestamp)) {
                self.push(field() + ".metadata.timestamp", Fault::TimestampOutOfRange);
            }
            let (count, max) = (attributes.len(), MAX_ATTRIBUTES);
            if count > max {
                self.push(field() + ".metadata.attributes", Fault::TooMany { count, max });
            }
            let bytes = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
            if bytes > MAX_ATTRIBUTE_BYTES {
                let fault = Fault::TooLarge { bytes, max: MAX_ATTRIBUTE_BYTES };
                self.push(field() + ".metadata.attributes", fault);
            }
            for key in attributes.keys() {
                if let Some(error) = name_fault(key) {
                    let field = format!("{}.metadata.attributes.{key}", field());
                    self.push(field, Fault::BadName(error));
                }
            }
        }
        match body {
            Some(Body::Ref(reference)) if reference.is_empty() => {
                self.push(field() + ".ref", Fault::EmptyRef);
            }
            Some(Body::Ref(reference)) => {
                self.length(reference, MAX_REF_LEN, || field() + ".ref");
            }
            Some(Body::Data(_)) | None => {}
        }
    }

    fn calls(&mut self, calls: &[pb::ActionMessage]) {
        let mut seen = BTreeSet::new();
        for (index, call) in calls.iter().enumerate() {
            let pb::ActionMessage { id, name, inputs, outputs, headers: _ } = call;
            let field = |rest: &str| format!("action_calls[{index}].{rest}");
            if !id.is_empty()
                && let Some(error) = name_fault(id)
            {
                let fault = match is_foreign_id(id) {
                    true => Fault::ForeignCallId(error),
                    false => Fault::BadName(error),
                };
                self.push(field("id"), fault);
            }
            if !name.is_empty()
                && let Some(error) = name_fault(name)
            {
                self.push(field("name"), Fault::BadName(error));
            }
            if !id.is_empty() && !seen.insert(id) {
                self.push(field("id"), Fault::DuplicateCall(id.clone()));
            }
            for (bindings, rest) in [(inputs, "inputs"), (outputs, "outputs")] {
                for (place, pb::PortBinding { name, id }) in bindings.iter().enumerate() {
                    self.usable(name, || field(&format!("{rest}[{place}].name")));
                    self.usable(id, || field(&format!("{rest}[{place}].id")));
                }
            }
        }
    }

    fn fragments(&mut self, map: &str, fragments: &BTreeMap<String, NodeFragments>) {
        for (call, NodeFragments { fragments }) in fragments {
            for (index, fragment) in fragments.iter().enumerate() {
                let NodeFragment { id, payload, seq: _, continued: _ } = fragment;
                let field = || format!("{map}.{call}[{index}]");
                self.usable(id, || field() + ".id");
                match payload {
                    Some(Payload::Chunk(chunk)) => self.chunk(chunk, &|| field() + ".data"),
                    Some(Payload::NodeRef(node)) => self.usable(&node.id, || field() + ".data.id"),
                    None => {}
                }
            }
        }
    }

    fn usable(&mut self, text: &str, field: impl Fn() -> String) {
        if let Some(error) = name_fault(text) {
            self.push(field(), Fault::UnusableName(error));
        }
    }

    fn length(&mut self, text: &str, max: usize, field: impl Fn() -> String) {
        // A text has at least as many bytes as characters.
        if text.len() > max {
            let len = text.chars().count();
            if len > max {
                self.push(field(), Fault::TooLong { len, max });
            }
        }
    }

    fn push(&mut self, field: impl Into<String>, fault: Fault) {
        self.0.push(Problem { field: field.into(), fault });
    }
}

/// Whether a text can be handed back as a call's id.
fn is_foreign_id(id: &str) -> bool {
    id.chars().count() <= MAX_TEXT_LEN && !id.chars().any(char::is_control)
}

/// Why a text is not a name.
fn name_fault(text: &str) -> Option<NameError> {
    if name::is_name(text) { None } else { Name::new(text).err() }
}

/// Why a detail is not one JSON value that everybody can read: syntax, a lone
/// surrogate, a number out of range, or nested deeper than 127.
pub(super) fn detail_fault(detail: &str) -> Option<Fault> {
    let error = json_weight::read::<serde_json::Value>(detail.as_bytes()).err()?;
    Some(Fault::BadDetail(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Status;

    fn call(id: &str, name: &str) -> pb::ActionMessage {
        pb::ActionMessage { id: id.into(), name: name.into(), ..Default::default() }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |interaction: Interaction, expected: &str, refused: bool| {
            let problems = validate(&interaction);
            let [problem] = problems.as_slice() else { panic!("{expected}: {problems:?}") };
            assert!(problem.to_string().starts_with(expected), "{expected}: {problem}");
            assert_eq!(problem.is_refused(), refused, "{expected}");
            assert_eq!(super::check(&interaction).is_err(), refused, "{expected}");
        };
        let with_calls = |action_calls| Interaction { action_calls, ..Default::default() };
        let with_status = |status| Interaction { status: Some(status), ..Default::default() };
        let with_content = |chunk| Interaction { content: vec![chunk], ..Default::default() };
        check(with_calls(vec![call("c d", "n")]), "action_calls[0].id: ", true);
        check(with_calls(vec![call("c", "n!")]), "action_calls[0].name: ", true);
        check(with_calls(vec![call("c", "n"), call("c", "m")]), "action_calls[1].id: ", true);
        check(Interaction { role: 9, ..Default::default() }, "role: 9", true);
        check(Interaction { id: "é".repeat(256), ..Default::default() }, "id: has 256", true);
        check(with_status(pb::Status { code: 17, ..Default::default() }), "status.code: 17", true);
        check(with_status(pb::Status { code: -1, ..Default::default() }), "status.code: -1", true);
        check(with_status(pb::Status { reason: 99, ..Default::default() }), "status.reason", true);
        for detail in ["NaN", "", "{", "1 2", "\"\\ud800\"", "1e999", &"[".repeat(100_000)] {
            let status =
                pb::Status { details: vec!["1".into(), detail.into()], ..Default::default() };
            check(with_status(status), "status.details[1]: not JSON", true);
        }
        let reference = |text: String| Chunk { metadata: None, body: Some(Body::Ref(text)) };
        check(with_content(reference(String::new())), "content[0].ref: ", true);
        check(with_content(reference("x".repeat(2049))), "content[0].ref: ", true);
        let mut chunk = Chunk::text("");
        chunk.metadata.get_or_insert_default().timestamp =
            Some(pbjson_types::Timestamp { seconds: i64::MAX, nanos: 0 });
        check(with_content(chunk), "content[0].metadata.timestamp: ", true);
        let mut chunk = Chunk::text("");
        chunk.metadata.get_or_insert_default().attributes.insert("a b".into(), "".into());
        check(with_content(chunk), "content[0].metadata.attributes.a b: ", true);
        for (count, bytes) in [(65, 0), (1, 64 * 1024)] {
            let mut chunk = Chunk::text("");
            let attributes = &mut chunk.metadata.get_or_insert_default().attributes;
            attributes.extend((0..count).map(|n| (format!("n{n}"), vec![0; bytes].into())));
            check(with_content(chunk), "content[0].metadata.attributes: ", true);
        }
        let fragments = |id: &str| NodeFragments { fragments: vec![NodeFragment::end(id)] };
        check(
            Interaction {
                action_inputs: [("c".to_owned(), fragments("word"))].into(),
                ..Default::default()
            },
            "action_inputs.c: ",
            false,
        );
        check(
            Interaction {
                action_outputs: [("c".to_owned(), fragments("a b"))].into(),
                ..Default::default()
            },
            "action_outputs.c[0].id: ",
            false,
        );
        assert_eq!(validate(&with_calls(vec![call("", ""), call("", "")])), []);
    }

    #[test]
    fn a_repeated_call_id_has_a_reason_of_its_own() {
        let twice = Interaction {
            action_calls: vec![call("c", "n"), call("c", "n")],
            ..Default::default()
        };
        let error = super::check(&twice).expect_err("refused");
        assert_eq!(error.field(), "action_calls[1].id");
        assert_eq!(Status::from(error).reason, Reason::DuplicateCall);
    }
}
