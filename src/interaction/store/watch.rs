//! Follows a conversation: what is there, then what comes.

use std::sync::Arc;

use futures::Stream;
use tokio::time::timeout;

use super::{
    Store, conversations::After, error::StoreError, name::ConversationName, record::Stored,
};

/// What a watcher is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// The next interaction.
    Record(Stored),
    /// All that was there has been told, up to this position. Once.
    CaughtUp(u64),
}

/// Follows a conversation from after a position on. One that is not there yet is
/// waited for.
///
/// The stream ends with [`StoreError::UnknownConversation`] when the conversation
/// is deleted, with [`StoreError::EndsBefore`] where one has been begun anew that is
/// shorter, and with the engine's failures.
pub fn watch(
    store: Arc<dyn Store>,
    conversation: ConversationName,
    after: u64,
) -> impl Stream<Item = Result<Watched, StoreError>> + Send {
    async_stream::try_stream! {
        let mut changes = store.changes(&conversation);
        let mut position = after;
        let mut existed = after > 0;
        let mut caught_up = false;
        loop {
            changes.mark_unchanged();
            let page = match store.list(&conversation, After::position(position)).await {
                Ok(page) => {
                    existed = true;
                    page
                }
                Err(StoreError::UnknownConversation(_)) if !existed => vec![],
                Err(error) => Err(error)?,
            };
            if page.is_empty() {
                if position > 0 {
                    let length = store.conversation(&conversation).await?.length;
                    if length < position {
                        let conversation = conversation.to_string();
                        Err(StoreError::EndsBefore { conversation, after: position, length })?;
                    }
                }
                if !caught_up {
                    caught_up = true;
                    yield Watched::CaughtUp(position);
                }
                // Out of time is a reason to look as good as a change is.
                timeout(store.poll_interval(), changes.changed()).await.ok();
            }
            for record in page {
                position = record.position;
                yield Watched::Record(record);
            }
        }
    }
}
