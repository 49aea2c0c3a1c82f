//! A provider's raw reply, and the calls in it.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{
    Arguments, Dialect, backend_name,
    raw::{self, Object},
    recognition::{Found, recognise},
    shape::shape_of,
    usage,
};
use crate::wire::{
    Reason, Status,
    json_weight::{self, TooManyValues},
    pb::{Backend, UsageMetadata},
};

/// How deep lists and objects of a reply, or of one call's arguments, may be
/// nested: as deep as what comes after can read.
pub const MAX_DEPTH: usize = 127;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a model asked for in one reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The shape the reply has, which is the one its results must have.
    pub dialect: Dialect,
    /// The calls in the order the model made them. None is a fine reply.
    pub calls: Vec<ReplyCall>,
    /// The tokens it says were spent. None where it has no counters: a message
    /// by itself has none.
    pub usage: Option<UsageMetadata>,
}

impl Reply {
    /// Whether its results can be what `wanted` takes: they always have the
    /// reply's own shape.
    ///
    /// # Errors
    /// [`ReplyError::OtherBackend`] where another backend is wanted.
    pub fn fits(&self, wanted: Option<Backend>) -> Result<(), ReplyError> {
        let found = self.dialect.backend();
        match wanted {
            Some(wanted) if wanted != Backend::Unspecified && wanted != found => {
                let name = |backend| backend_name(backend).unwrap_or_default();
                Err(ReplyError::OtherBackend { wanted: name(wanted), found: name(found) })
            }
            _ => Ok(()),
        }
    }
}

/// One call of a reply.
#[derive(Debug, Clone)]
pub struct ReplyCall {
    /// The provider's own id, whatever text that is; None where it gave none.
    pub id: Option<String>,
    /// The name called. Empty where the provider gave none, and then the
    /// arguments are an error.
    pub name: String,
    /// The arguments; or, for the model, what is wrong with this call.
    pub arguments: Result<Arguments, String>,
}

impl ReplyCall {
    pub(super) fn new(
        id: Option<String>,
        name: Option<String>,
        arguments: Result<Arguments, String>,
    ) -> Self {
        match name.filter(|name| !name.is_empty()) {
            Some(name) => Self { id, name, arguments },
            None => {
                let problem = arguments.err().unwrap_or_else(|| "the call has no name".to_owned());
                Self { id, name: String::new(), arguments: Err(problem) }
            }
        }
    }
}

/// Why something is not a provider's reply.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// The bytes are no JSON.
    #[error("the reply is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// The text would take too much memory.
    #[error(transparent)]
    TooHeavy(#[from] TooManyValues),
    /// Lists and objects within each other, past [`MAX_DEPTH`].
    #[error("the reply is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// JSON, but no provider's shape.
    #[error("no provider's reply looks like this: {seen}")]
    Unknown {
        /// What kind of value it is, and its field names.
        seen: String,
    },
    /// A conversation whose last turn is not the model's: nothing there is
    /// waiting to be run.
    #[error("the last message is the {role:?} turn, not the model's")]
    NotTheModel {
        /// The role it has.
        role: String,
    },
    /// A reply of one backend, whose results are wanted for another.
    #[error(
        "backend: {wanted} was asked for, but the reply is {found}'s; the results of a reply \
         have its own shape"
    )]
    OtherBackend {
        /// The backend asked for.
        wanted: &'static str,
        /// That of the reply.
        found: &'static str,
    },
    /// A field that holds the calls, but is no list.
    #[error("`{field}` should be a list, but is {seen}")]
    NotAList {
        /// The field.
        field: &'static str,
        /// What it is instead.
        seen: String,
    },
}

impl From<ReplyError> for Status {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::TooHeavy(error) => error.into(),
            error => Status::of(Reason::UnknownReply, error.to_string()),
        }
    }
}

/// Reads a provider's reply: the whole response, or the assistant's message, its
/// content, or its items alone, as the HTTP API or an SDK gives them.
///
/// Where the shape is clear it alone decides the dialect. `hint` decides among
/// dialects whose shapes are equal: gpt, vllm and ollama; claude and claude_code;
/// gpt and codex.
///
/// # Errors
/// Where it is no reply. What is wrong with one call is in that call.
pub fn read_reply(json: &[u8], hint: Option<Backend>) -> Result<Reply, ReplyError> {
    let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
    if raw::is_deeper_than(MAX_DEPTH, json) {
        return Err(ReplyError::TooDeep);
    }
    json_weight::check(json)?;
    let raw: &RawValue = serde_json::from_slice(json)?;
    let Found { dialect, pieces } = recognise(raw, hint)?;
    let mut calls = shape_of(dialect).calls(&pieces);
    let answered = answered(&pieces);
    if !answered.is_empty() {
        calls.retain(|call| call.id.as_ref().is_none_or(|id| !answered.contains(id)));
    }
    Ok(Reply { dialect, calls, usage: usage::of_reply(dialect, raw) })
}

/// The ids of calls that have their result in the same list already, as in a
/// list of items that a program keeps: they must not run a second time.
fn answered(pieces: &[&RawValue]) -> HashSet<String> {
    let is_result = |piece: &&&RawValue| {
        ["function_call_output", "function_result", "tool_result"]
            .iter()
            .any(|kind| piece.get().contains(kind))
    };
    pieces
        .iter()
        .filter(is_result)
        .filter_map(|piece| Object::of(piece))
        .filter_map(|piece| match piece.text("type")?.as_str() {
            "function_call_output" | "function_result" => piece.id("call_id"),
            "tool_result" => piece.id("tool_use_id"),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
