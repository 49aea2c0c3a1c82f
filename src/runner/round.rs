//! What a round came to: a result a call, and the next user turn.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use super::{answer::tool_result, collect::Collected, plan::Known};
use crate::interaction::backend::{Dialect, backend_name, messages};
use crate::wire::chunk::JSON;
use crate::wire::pb::{Interaction, NodeFragments, Role};
use crate::wire::{Chunk, Status, pb};

/// How the calls of a turn ended, and the turn to go on with.
#[derive(Debug, Clone)]
pub struct Round {
    /// One a call, in the order the model made them.
    pub results: Vec<CallResult>,
    /// The next user turn.
    pub interaction: Interaction,
    /// What to append for the provider, each one JSON text; empty without one.
    pub messages: Vec<String>,
    /// Whose shape the messages have.
    pub dialect: Option<Dialect>,
}

/// How one call ended.
#[derive(Debug, Clone)]
pub struct CallResult {
    /// The model's id for it; one made here where the model gave none.
    pub id: String,
    /// What the model called: the action's name, or its
    /// [tool name](crate::action::tool_name).
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// What it narrated for the user, in one text.
    pub log: String,
}

/// A call and what it came to.
pub(super) struct Ended {
    pub(super) known: Known,
    pub(super) collected: Collected,
}

/// The status of a call as it is stored with the turn.
#[derive(Serialize)]
struct StoredStatus<'a> {
    code: i32,
    message: &'a str,
}

impl Round {
    pub(super) fn new(previous: String, dialect: Option<Dialect>, calls: Vec<Ended>) -> Self {
        let mut results = Vec::with_capacity(calls.len());
        let mut tool_results = Vec::with_capacity(calls.len());
        let mut action_outputs = BTreeMap::new();
        for call in calls {
            let Ended { known, collected } = call;
            let Collected { status, log, fragments, document } = collected;
            if let Some(dialect) = dialect {
                tool_results.push(tool_result(dialect, &known, &status, document));
            }
            let Known { id, id_is_own: _, name } = known;
            action_outputs.insert(id.clone(), NodeFragments { fragments });
            results.push(CallResult { id, name, status, log });
        }
        let messages = dialect.map_or_else(Vec::new, |dialect| messages(dialect, &tool_results));
        let interaction = Interaction {
            id: Uuid::new_v4().to_string(),
            role: Role::User as i32,
            created_at_millis: Some(now_millis()),
            previous_interaction_id: previous,
            status: Some(pb::Status::default()),
            content: content(&messages),
            action_outputs,
            backend_specific_metadata: metadata(dialect, &results),
            ..Interaction::default()
        };
        Self { results, interaction, messages, dialect }
    }
}

/// The messages, a chunk each; the media type holds from the first on.
fn content(messages: &[String]) -> Vec<Chunk> {
    let chunk = |(at, message): (usize, &String)| {
        let mut chunk = Chunk::new(JSON, message.clone());
        if at > 0 {
            chunk.metadata = None;
        }
        chunk
    };
    messages.iter().enumerate().map(chunk).collect()
}

fn metadata(dialect: Option<Dialect>, results: &[CallResult]) -> BTreeMap<String, Bytes> {
    let mut metadata = BTreeMap::new();
    if let Some(name) = dialect.and_then(|dialect| backend_name(dialect.backend())) {
        metadata.insert("backend".to_owned(), name.into());
    }
    let logs: BTreeMap<&str, &str> = results
        .iter()
        .filter(|result| !result.log.is_empty())
        .map(|result| (result.id.as_str(), result.log.as_str()))
        .collect();
    if !logs.is_empty() {
        metadata.insert("tool_logs".to_owned(), json(&logs));
    }
    let statuses: BTreeMap<&str, StoredStatus<'_>> = results
        .iter()
        .map(|result| {
            let Status { code, message, .. } = &result.status;
            (result.id.as_str(), StoredStatus { code: *code as i32, message })
        })
        .collect();
    if !statuses.is_empty() {
        metadata.insert("tool_statuses".to_owned(), json(&statuses));
    }
    metadata
}

/// Texts and numbers always have a JSON form.
fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
