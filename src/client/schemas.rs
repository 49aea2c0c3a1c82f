//! The schemas of a service's actions, as they were a moment ago.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::action::ActionSchema;
use crate::wire::pb::action_service_client::ActionServiceClient;
use crate::wire::{Reason, Status, pb};

/// How long a schema is taken for what it was. A call that fails over its schema
/// has it asked for anew at once.
const KEPT: Duration = Duration::from_secs(30);
/// How many are kept.
const MAX_KEPT: usize = 1024;

/// See the module. One for each client.
pub(super) struct Schemas {
    service: ActionServiceClient<Channel>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The session under which they were asked for: another one may be with a service
    /// that was started anew.
    session: String,
    schemas: HashMap<String, (ActionSchema, Instant)>,
}

/// Where a schema is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The service said so just now.
    Service,
    /// It was kept, and may have changed since.
    Kept,
}

impl Schemas {
    pub(super) fn new(channel: Channel) -> Self {
        Self { service: super::actions(channel), kept: Mutex::default() }
    }

    /// The schema of an action.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub(super) async fn get(
        &self,
        session: &str,
        action: &str,
    ) -> Result<(ActionSchema, Source), Status> {
        match self.kept(session, action) {
            Some(schema) => Ok((schema, Source::Kept)),
            None => Ok((self.fetch(session, action).await?, Source::Service)),
        }
    }

    /// The schema of an action, as the service has it now.
    ///
    /// # Errors
    /// NOT_FOUND for an action that the service has not; UNAVAILABLE where it cannot
    /// be reached.
    pub(super) async fn fetch(&self, session: &str, action: &str) -> Result<ActionSchema, Status> {
        self.forget(action);
        let request = pb::GetActionRequest { name: action.to_owned(), ..Default::default() };
        let answer = self.service.clone().get_action(request).await?.into_inner().action;
        let schema = ActionSchema::try_from(answer.unwrap_or_default())
            .map_err(|error| Status::of(Reason::InvalidRequest, error.to_string()))?;
        self.keep(session, action, schema.clone());
        Ok(schema)
    }

    /// Hears how a call ended, and whether its schema may be another by now.
    pub(super) fn ended(&self, action: &str, status: &Status) {
        if is_doubtful(status.reason) {
            self.forget(action);
        }
    }

    fn kept(&self, session: &str, action: &str) -> Option<ActionSchema> {
        let mut kept = self.kept.lock();
        if kept.session != session {
            kept.schemas.clear();
            session.clone_into(&mut kept.session);
        }
        let (schema, since) = kept.schemas.get(action)?;
        (since.elapsed() < KEPT).then(|| schema.clone())
    }

    fn keep(&self, session: &str, action: &str, schema: ActionSchema) {
        let mut kept = self.kept.lock();
        if kept.session != session {
            return;
        }
        if kept.schemas.len() >= MAX_KEPT {
            kept.schemas.clear();
        }
        kept.schemas.insert(action.to_owned(), (schema, Instant::now()));
    }

    fn forget(&self, action: &str) {
        self.kept.lock().schemas.remove(action);
    }
}

/// Whether a call ends so when its schema was another.
fn is_doubtful(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::UnknownAction
            | Reason::NoHandler
            | Reason::UndeclaredInput
            | Reason::MissingInput
            | Reason::InvalidInput
            | Reason::InvalidOutput
    )
}
