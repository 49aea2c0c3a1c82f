//! What a round asks of the record of its calls, if one is kept.

use async_trait::async_trait;

use super::collect::Collected;
use crate::action::ActionSchema;
use crate::wire::Status;

/// The record of a round's calls. A failure to record fails the call it is about,
/// before it starts or before anybody hears of what came of it.
#[async_trait]
pub(super) trait Journal: Send + Sync {
    /// What came of a call in an earlier run of the round: its result, or that it
    /// was cut off. `None` where it is to be run. `schema`: of the action, where
    /// it can be run.
    async fn recorded(
        &self,
        call: &str,
        schema: Option<&ActionSchema>,
    ) -> Result<Option<Collected>, Status>;

    /// Records that a call begins, before it does.
    async fn begin(&self, call: &str) -> Result<(), Status>;

    /// Records what came of a call.
    async fn end(&self, call: &str, collected: &Collected) -> Result<(), Status>;

    /// Waits until the calls are to be stopped, and says with which status.
    async fn stopped(&self) -> Status;
}

/// No record.
pub(super) struct Unrecorded;

#[async_trait]
impl Journal for Unrecorded {
    async fn recorded(
        &self,
        _call: &str,
        _schema: Option<&ActionSchema>,
    ) -> Result<Option<Collected>, Status> {
        Ok(None)
    }

    async fn begin(&self, _call: &str) -> Result<(), Status> {
        Ok(())
    }

    async fn end(&self, _call: &str, _collected: &Collected) -> Result<(), Status> {
        Ok(())
    }

    async fn stopped(&self) -> Status {
        std::future::pending().await
    }
}
