//! Turns between backends: normalised, and whole conversations as the messages of
//! a provider.

use crate::interaction::{
    Interaction,
    backend::{Converted, Dialect, NormalizedMessage, Note, Part, convert, normalize},
    canonical,
    document::{self, Document, read_document},
    store::{After, ConversationName, Store},
};
use crate::wire::pb::{
    self, normalize_interaction_request::Body, normalized_part::Part as PartMessage,
};
use crate::wire::{Chunk, Reason, Status, weight::MAX_WEIGHT};

/// How large a kept conversation may be that is converted at once, in bytes: what
/// it becomes must fit into one message.
const MOST_BYTES: usize = 48 << 20;

pub(super) fn normalized(
    request: pb::NormalizeInteractionRequest,
) -> Result<pb::NormalizeInteractionResponse, Status> {
    let interaction = match request.body {
        Some(Body::Interaction(interaction)) => canonical::accept_turn(interaction)?,
        Some(Body::Encoded(pb::EncodedInteraction { media_type, data })) => {
            document::decode_turn(data, &media_type)?
        }
        Some(Body::InteractionJson(json)) => match read_document(json.as_bytes())? {
            Document::Portable(interaction) | Document::ProtoJson(interaction) => interaction,
            Document::Other(_) => {
                return Err(invalid("interaction_json: has not the shape of an interaction"));
            }
        },
        None => return Err(invalid("interaction: required, or encoded, or interaction_json")),
    };
    let NormalizedMessage { role, parts } = normalize(&interaction);
    let parts = parts.into_iter().map(|part| pb::NormalizedPart { part: Some(message(part)) });
    Ok(pb::NormalizeInteractionResponse { role: role as i32, parts: parts.collect() })
}

fn message(part: Part) -> PartMessage {
    match part {
        Part::Text { text } => PartMessage::Text(text),
        Part::Image(image) => PartMessage::Image(Chunk::new(image.media_type, image.data)),
        Part::ImageUrl { url } => PartMessage::ImageUrl(url),
        Part::ToolCall { id, name, arguments } => PartMessage::ToolCall(pb::NormalizedCall {
            id,
            name,
            arguments_json: arguments.get().to_owned(),
        }),
        Part::ToolResult { call_id, content, is_error } => {
            PartMessage::ToolResult(pb::NormalizedResult { call_id, content, is_error })
        }
    }
}

/// Turns that came with a request.
pub(super) fn checked(turns: Vec<Interaction>) -> Result<Vec<Interaction>, Status> {
    if turns.is_empty() {
        return Err(invalid("interactions: required, or conversation"));
    }
    Ok(turns.into_iter().map(canonical::accept_turn).collect::<Result<_, _>>()?)
}

/// Turns that are kept, up to a position; 0 for all.
pub(super) async fn kept(
    store: &dyn Store,
    conversation: &ConversationName,
    up_to: u64,
) -> Result<Vec<Interaction>, Status> {
    let mut turns = vec![];
    let mut position = 0;
    let (mut bytes, mut weight) = (0_usize, 0);
    loop {
        let page = store.list(conversation, After::position(position)).await?;
        let Some(last) = page.last() else { return Ok(turns) };
        position = last.position;
        for stored in page {
            if up_to > 0 && stored.position > up_to {
                return Ok(turns);
            }
            bytes = bytes.saturating_add(stored.bytes.len());
            if bytes > MOST_BYTES {
                return Err(Status::of(
                    Reason::HistoryTooLarge,
                    format!("the conversation has more than {MOST_BYTES} bytes"),
                ));
            }
            let (turn, of_turn) = stored.weighed()?;
            weight += of_turn;
            if weight > MAX_WEIGHT {
                let message = "the conversation holds more parts than one message may";
                return Err(Status::of(Reason::HistoryTooLarge, message));
            }
            turns.push(turn);
        }
    }
}

pub(super) fn converted(turns: &[Interaction], to: Dialect) -> pb::ConvertInteractionsResponse {
    let Converted { system, messages, dropped, added } = convert(turns, to);
    let notes = |notes: Vec<Note>| notes.into_iter().map(note).collect();
    pb::ConvertInteractionsResponse {
        messages,
        system,
        dropped: notes(dropped),
        added: notes(added),
    }
}

fn note(note: Note) -> pb::ConversionNote {
    let Note { interaction_id, what, why } = note;
    pb::ConversionNote { interaction_id, what, why }
}

fn invalid(message: impl Into<String>) -> Status {
    Status::of(Reason::InvalidRequest, message)
}
