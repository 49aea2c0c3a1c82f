//! What the journal keeps of calls and rounds, as bytes. Fields are never given
//! another meaning: older files keep opening.

use bytes::Bytes;
use prost::Message;

use super::super::{
    collect::Collected,
    document::ResultDocument,
    round::{CallResult, Round},
};
use crate::interaction::{
    Interaction,
    backend::{Dialect, Image},
};
use crate::wire::{Chunk, NodeFragment, pb};

#[derive(Clone, PartialEq, Message)]
struct StoredCall {
    #[prost(message, optional, tag = "1")]
    status: Option<pb::Status>,
    #[prost(string, tag = "2")]
    log: String,
    #[prost(message, repeated, tag = "3")]
    fragments: Vec<NodeFragment>,
    #[prost(message, optional, tag = "4")]
    document: Option<StoredDocument>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredDocument {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(bool, tag = "2")]
    is_json: bool,
    /// Pictures.
    #[prost(message, repeated, tag = "3")]
    images: Vec<Chunk>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredRound {
    /// The id of the turn of results; the outputs and messages are there.
    #[prost(string, tag = "1")]
    turn: String,
    #[prost(message, repeated, tag = "2")]
    results: Vec<pb::CallResult>,
    /// A name of [`DIALECTS`]; empty for none.
    #[prost(string, tag = "3")]
    dialect: String,
}

/// The names that dialects are kept under.
const DIALECTS: [(Dialect, &str); 10] = [
    (Dialect::Claude, "claude"),
    (Dialect::ClaudeCode, "claude_code"),
    (Dialect::Codex, "codex"),
    (Dialect::GeminiInteractions, "gemini_interactions"),
    (Dialect::GeminiGenerateContent, "gemini_generate_content"),
    (Dialect::GptChat, "gpt_chat"),
    (Dialect::GptFunctions, "gpt_functions"),
    (Dialect::GptResponses, "gpt_responses"),
    (Dialect::Ollama, "ollama"),
    (Dialect::Vllm, "vllm"),
];

pub(super) fn write_call(collected: &Collected) -> Bytes {
    let Collected { status, log, fragments, document } = collected;
    let document = document.clone().map(|ResultDocument { text, is_json, images }| {
        let images =
            images.into_iter().map(|Image { media_type, data }| Chunk::new(media_type, data));
        StoredDocument { text, is_json, images: images.collect() }
    });
    StoredCall {
        status: Some(status.clone().into()),
        log: log.clone(),
        fragments: fragments.clone(),
        document,
    }
    .encode_to_vec()
    .into()
}

pub(super) fn read_call(bytes: Bytes) -> Option<Collected> {
    let StoredCall { status, log, fragments, document } = StoredCall::decode(bytes).ok()?;
    let document = document.map(|StoredDocument { text, is_json, images }| {
        let image = |chunk: Chunk| Image {
            media_type: chunk.media_type().to_owned(),
            data: chunk.data().clone(),
        };
        ResultDocument { text, is_json, images: images.into_iter().map(image).collect() }
    });
    Some(Collected { status: status.unwrap_or_default().into(), log, fragments, document })
}

/// All of a round but its turn of results, which is a record of its own.
pub(super) fn write_round(round: &Round) -> Bytes {
    let Round { results, interaction, messages: _, dialect } = round;
    let result = |result: &CallResult| {
        let CallResult { id, name, status, log } = result.clone();
        pb::CallResult { id, name, status: Some(status.into()), log }
    };
    let name = DIALECTS.iter().find(|(known, _)| Some(*known) == *dialect);
    StoredRound {
        turn: interaction.id.clone(),
        results: results.iter().map(result).collect(),
        dialect: name.map_or("", |(_, name)| name).to_owned(),
    }
    .encode_to_vec()
    .into()
}

/// A finished round whose turn of results is still to be fetched.
pub(super) struct FinishedRound {
    pub(super) turn: String,
    results: Vec<CallResult>,
    dialect: Option<Dialect>,
}

pub(super) fn read_round(bytes: Bytes) -> Option<FinishedRound> {
    let StoredRound { turn, results, dialect } = StoredRound::decode(bytes).ok()?;
    let dialect = match dialect.as_str() {
        "" => None,
        name => Some(DIALECTS.iter().find(|(_, known)| *known == name)?.0),
    };
    let result = |result: pb::CallResult| {
        let pb::CallResult { id, name, status, log } = result;
        CallResult { id, name, status: status.unwrap_or_default().into(), log }
    };
    Some(FinishedRound { turn, results: results.into_iter().map(result).collect(), dialect })
}

impl FinishedRound {
    /// The round, as it was first.
    pub(super) fn with(self, interaction: Interaction) -> Option<Round> {
        let Self { turn: _, results, dialect } = self;
        let messages = match dialect {
            None => vec![],
            Some(_) => {
                let texts = interaction.content.iter().map(|chunk| chunk.data().to_vec());
                texts.map(String::from_utf8).collect::<Result<_, _>>().ok()?
            }
        };
        Some(Round { results, interaction, messages, dialect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Code, Status};

    #[test]
    fn every_dialect_has_a_name_of_its_own() {
        for dialect in Dialect::ALL {
            assert_eq!(DIALECTS.iter().filter(|(known, _)| *known == dialect).count(), 1);
        }
        let names: std::collections::BTreeSet<_> = DIALECTS.iter().map(|(_, name)| name).collect();
        assert_eq!(names.len(), DIALECTS.len());
    }

    #[test]
    fn what_came_of_a_call_is_read_as_it_was_written() {
        let check = |collected: Collected| {
            let read = read_call(write_call(&collected)).expect("readable");
            assert_eq!(read.status, collected.status);
            assert_eq!(read.log, collected.log);
            assert_eq!(read.fragments, collected.fragments);
            assert_eq!(read.document, collected.document);
        };
        let image = Image { media_type: "image/png".into(), data: Bytes::from_static(b"\x89PNG") };
        check(Collected {
            status: Status::ok(),
            log: "looked".into(),
            fragments: vec![NodeFragment { id: "a".into(), ..Default::default() }],
            document: Some(ResultDocument {
                text: Some("{}".into()),
                is_json: true,
                images: vec![image],
            }),
        });
        check(Collected {
            status: Status::handler(Code::NotFound, "no such order"),
            log: String::new(),
            fragments: vec![],
            document: None,
        });
    }
}
