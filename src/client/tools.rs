//! What a model is told of the actions that it may call, asked of a service.

use super::{actions, peer::Client};
use crate::interaction::backend::Dialect;
use crate::wire::{Status, pb};

impl Client {
    /// The elements of a provider's `tools`, each one JSON text: the actions that
    /// `allow`, patterns matched whole against names, lets pass. The same list goes
    /// with the calls of the model's replies.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a pattern that is no regular expression,
    /// RESOURCE_EXHAUSTED for declarations of more than
    /// [`MAX_DECLARED_BYTES`](crate::runner::MAX_DECLARED_BYTES) together.
    pub async fn tools<P: Into<String>>(
        &self,
        dialect: Dialect,
        allow: impl IntoIterator<Item = P>,
    ) -> Result<Vec<String>, Status> {
        let request = pb::DeclareToolsRequest {
            allowed_actions: allow.into_iter().map(Into::into).collect(),
            backend: dialect.backend() as i32,
            dialect: dialect.name().to_owned(),
        };
        Ok(actions(self.channel()).declare_tools(request).await?.into_inner().tools)
    }
}
