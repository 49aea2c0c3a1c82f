//! Runs the calls of a plan in parallel.

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;

use super::{
    collect::{CallEvent, Shared, collect},
    journal::{Journal, Unrecorded},
    limits::{MAX_ROUND_LOG_BYTES, Room},
    plan::Plan,
    round::{Ended, Round},
};
use crate::action::Scope;

/// Runs a round. Calls run at once, as many as the scope has slots; one's failure
/// never touches another. Dropping the future cancels what has not ended.
///
/// `events` is told what happens as it happens; a receiver that does not read
/// holds up the collecting of results, but neither the handlers nor their
/// deadlines.
pub async fn execute(scope: &Scope, plan: Plan, events: Option<mpsc::Sender<CallEvent>>) -> Round {
    execute_recorded(scope, plan, events, &Unrecorded).await
}

/// The same, with a record of the calls.
pub(super) async fn execute_recorded(
    scope: &Scope,
    plan: Plan,
    events: Option<mpsc::Sender<CallEvent>>,
    journal: &dyn Journal,
) -> Round {
    let Plan { calls, dialect, limits, answer, previous } = plan;
    let shared = Shared {
        scope,
        limits: &limits,
        end: limits.end(),
        room: Room::new(limits.max_round_bytes),
        log_room: Room::new(MAX_ROUND_LOG_BYTES),
        answer,
        events,
        journal,
    };
    let mut ended: Vec<Option<Ended>> = Vec::new();
    ended.resize_with(calls.len(), || None);
    let mut running: FuturesUnordered<_> = calls
        .into_iter()
        .enumerate()
        .map(|(place, call)| {
            let shared = &shared;
            async move { (place, collect(shared, place, call).await) }
        })
        .collect();
    while let Some((place, call)) = running.next().await {
        ended[place] = Some(call);
    }
    drop(running);
    Round::new(previous, dialect, ended.into_iter().flatten().collect())
}
