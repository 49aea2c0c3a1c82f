//! What the log says of sessions, for whoever runs the service. Names and texts
//! that a peer chose are fields of strings, which every form of the log escapes.

use std::time::Duration;

use super::driver::Session;
use crate::wire::{Status, pb, status::code_name};

/// How many names one line has, and how many lines of refusals there are.
const MOST_NAMES: usize = 20;
/// How much of a status's message is said, in characters.
const MOST_TEXT: usize = 200;

pub(super) fn attached(session: &Session, actions: usize) {
    tracing::info!(peer = session.peer(), session = session.short_id(), actions, "a peer attached");
}

pub(super) fn resumed(session: &Session) {
    tracing::info!(peer = session.peer(), session = session.short_id(), "a peer came back");
}

pub(super) fn disconnected(session: &Session, grace: Duration) {
    let (peer, session, kept_seconds) = (session.peer(), session.short_id(), grace.as_secs());
    tracing::info!(peer, session, kept_seconds, "a peer's connection is gone");
}

pub(super) fn left(session: &Session, actions: usize, status: &Status) {
    let (peer, session, code) = (session.peer(), session.short_id(), code_name(status.code));
    let why = text(status);
    tracing::info!(peer, session, actions, code, why, "a peer left");
}

pub(super) fn published(session: &Session, names: &[String]) {
    if !names.is_empty() {
        let (peer, session, count) = (session.peer(), session.short_id(), names.len());
        tracing::info!(peer, session, count, actions = listed(names), "actions were published");
    }
}

pub(super) fn withdrawn(session: &Session, names: &[String]) {
    if !names.is_empty() {
        let (peer, session, count) = (session.peer(), session.short_id(), names.len());
        tracing::info!(peer, session, count, actions = listed(names), "actions were withdrawn");
    }
}

pub(super) fn refused(session: &Session, refused: &[pb::RefusedAction]) {
    let (peer, session) = (session.peer(), session.short_id());
    for refused in refused.iter().take(MOST_NAMES) {
        let status = Status::from(refused.status.clone().unwrap_or_default());
        let (action, code, why) = (&*refused.name, code_name(status.code), text(&status));
        tracing::info!(peer, session, action, code, why, "an action was refused");
    }
    if let Some(more) = refused.len().checked_sub(MOST_NAMES).filter(|more| *more > 0) {
        tracing::info!(peer, session, more, "further actions were refused");
    }
}

fn listed(names: &[String]) -> String {
    let mut listed = names[..names.len().min(MOST_NAMES)].join(" ");
    if names.len() > MOST_NAMES {
        listed.push_str(" …");
    }
    listed
}

fn text(status: &Status) -> Option<String> {
    (!status.message.is_empty()).then(|| status.message.chars().take(MOST_TEXT).collect())
}
