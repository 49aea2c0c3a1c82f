//! Records of a store as messages, and messages as records.

use crate::interaction::{
    InteractionError, Problem,
    document::{self, Document, Form, PROTOBUF, read_document},
    store::{Conversation, Fork, Record, Stored},
    validate as problems_of,
};
use crate::wire::pb::{
    self, RecordForm, append_interaction_request as append, interaction_record::Body,
    validate_interaction_request as validation,
};
use crate::wire::{Reason, Status, weight::MAX_WEIGHT};

/// The interaction of an append.
pub(super) fn read(body: Option<append::Body>) -> Result<Record, Status> {
    let record = match body {
        Some(append::Body::Encoded(pb::EncodedInteraction { media_type, data })) => {
            Record::from_bytes(data, &media_type)
        }
        Some(append::Body::Interaction(bytes)) => Record::from_bytes(bytes, PROTOBUF),
        None => return Err(invalid("interaction: required, or encoded")),
    };
    Ok(record?)
}

pub(super) fn form(number: i32) -> Result<RecordForm, Status> {
    let form = RecordForm::try_from(number);
    form.map_err(|_| invalid(format!("form: {number} is no form that is known here")))
}

/// The records of a page; fewer where they would take too much memory together.
pub(super) fn page(
    conversation: &str,
    stored: Vec<Stored>,
    form: RecordForm,
) -> Result<Vec<pb::InteractionRecord>, Status> {
    let mut records = vec![];
    let mut left = MAX_WEIGHT;
    for stored in stored {
        let (body, weight) = body(&stored, form)?;
        if weight > left && !records.is_empty() {
            break;
        }
        left = left.saturating_sub(weight);
        records.push(record(conversation, stored, body));
    }
    Ok(records)
}

pub(super) fn message(
    conversation: &str,
    stored: Stored,
    form: RecordForm,
) -> Result<pb::InteractionRecord, Status> {
    let (body, _) = body(&stored, form)?;
    Ok(record(conversation, stored, body))
}

/// A record in a form, and what that weighs.
fn body(stored: &Stored, form: RecordForm) -> Result<(Body, usize), Status> {
    Ok(match form {
        RecordForm::Decoded => {
            let (interaction, weight) = stored.weighed()?;
            (Body::Interaction(interaction), weight)
        }
        RecordForm::Unspecified | RecordForm::Encoded => {
            let (media_type, data) = (stored.media_type.clone(), stored.bytes.clone());
            (Body::Encoded(pb::EncodedInteraction { media_type, data }), 0)
        }
    })
}

fn record(conversation: &str, stored: Stored, body: Body) -> pb::InteractionRecord {
    pb::InteractionRecord {
        conversation: conversation.to_owned(),
        position: stored.position,
        id: stored.id,
        appended_at: Some(timestamp(stored.appended_at_millis)),
        body: Some(body),
    }
}

pub(super) fn fork(fork: Fork) -> pb::Fork {
    let Fork { id, position, next_ids } = fork;
    pb::Fork { id, position, next_ids }
}

pub(super) fn conversation(conversation: Conversation) -> pb::Conversation {
    let Conversation { name, length, created_at_millis, updated_at_millis } = conversation;
    pb::Conversation {
        name,
        length,
        created_at: Some(timestamp(created_at_millis)),
        updated_at: Some(timestamp(updated_at_millis)),
    }
}

pub(super) fn timestamp(millis: i64) -> pbjson_types::Timestamp {
    let nanos = i32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap_or_default();
    pbjson_types::Timestamp { seconds: millis.div_euclid(1000), nanos }
}

/// What is wrong with an interaction; one that a reader refused by its value too.
pub(super) fn validate(
    request: pb::ValidateInteractionRequest,
) -> Result<pb::ValidateInteractionResponse, Status> {
    let read = match request.body {
        Some(validation::Body::Interaction(interaction)) => Ok(interaction),
        Some(validation::Body::Encoded(pb::EncodedInteraction { media_type, data })) => {
            match Form::of(&media_type) {
                // Not refused by its values, so that all of them are told.
                Some(Form::Protobuf) => document::read_message(data),
                Some(Form::PortableJson) => crate::interaction::portable::from_json(&data),
                None => Err(InteractionError::UnknownMediaType(media_type)),
            }
        }
        Some(validation::Body::InteractionJson(json)) => match read_document(json.as_bytes()) {
            Ok(Document::Portable(interaction) | Document::ProtoJson(interaction)) => {
                Ok(interaction)
            }
            Ok(Document::Other(_)) => {
                return Err(invalid("interaction_json: has not the shape of an interaction"));
            }
            Err(error) => Err(error),
        },
        None => return Err(invalid("interaction: required, or encoded, or interaction_json")),
    };
    let problems: Vec<_> = match read {
        Ok(interaction) => problems_of(&interaction).iter().map(problem).collect(),
        Err(InteractionError::Refused(refused)) => vec![problem(&refused)],
        Err(InteractionError::Malformed { field, message }) => vec![pb::InteractionProblem {
            field,
            message,
            refused: true,
            reason: Reason::InvalidRequest as i32,
        }],
        Err(error) => return Err(error.into()),
    };
    let valid = problems.iter().all(|problem| !problem.refused);
    Ok(pb::ValidateInteractionResponse { valid, problems })
}

fn problem(problem: &Problem) -> pb::InteractionProblem {
    let refused = problem.is_refused();
    let reason = if refused { problem.reason() } else { Reason::Unspecified };
    pb::InteractionProblem {
        field: problem.field.clone(),
        message: problem.fault.to_string(),
        refused,
        reason: reason as i32,
    }
}

fn invalid(message: impl Into<String>) -> Status {
    Status::of(Reason::InvalidRequest, message)
}
