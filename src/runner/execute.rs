//! Runs the calls of a plan in parallel.

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;

use super::{
    collect::{CallEvent, Shared, collect},
    journal::{Journal, Unrecorded},
    limits::Room,
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
    let Plan { calls, dialect, limits, previous } = plan;
    let shared = Shared {
        scope,
        limits: &limits,
        end: limits.end(),
        room: Room::new(limits.max_round_bytes),
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
            async move {
                let (id, id_is_own, name) = (call.id.clone(), call.id_is_own, call.name.clone());
                let collected = collect(shared, place, call).await;
                (place, Ended { id, id_is_own, name, collected })
            }
        })
        .collect();
    while let Some((place, call)) = running.next().await {
        ended[place] = Some(call);
    }
    drop(running);
    Round::new(previous, dialect, ended.into_iter().flatten().collect())
}
