//! Turns to append, and what is asked of a store over and over.

use std::sync::Arc;

use a11_grpc::{
    interaction::{
        Interaction,
        store::{After, Appended, ConversationName, Record, RecordId, Store, StoreError, Stored},
    },
    wire::{
        Chunk,
        pb::{ActionMessage, NodeFragments, Role},
    },
};

pub fn name(text: &str) -> ConversationName {
    ConversationName::new(text).expect("a name")
}

pub fn id(text: &str) -> RecordId {
    RecordId::new(text).expect("an id")
}

/// A turn that follows another; empty for none.
pub fn turn(id: &str, previous: &str) -> Interaction {
    Interaction {
        id: id.to_owned(),
        role: Role::User as i32,
        previous_interaction_id: previous.to_owned(),
        content: vec![Chunk::text(format!("this is {id}"))],
        ..Interaction::default()
    }
}

/// A model's turn that calls actions, by (call id, action).
pub fn calling(id: &str, calls: &[(&str, &str)]) -> Interaction {
    let calls_of = |(id, name): &(&str, &str)| ActionMessage {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        ..ActionMessage::default()
    };
    Interaction {
        id: id.to_owned(),
        role: Role::Model as i32,
        action_calls: calls.iter().map(calls_of).collect(),
        action_inputs: calls
            .iter()
            .map(|(id, _)| ((*id).to_owned(), NodeFragments::default()))
            .collect(),
        ..Interaction::default()
    }
}

pub fn record(interaction: &Interaction) -> Record {
    Record::from_interaction(interaction).expect("can be kept")
}

pub async fn append(
    store: &Arc<dyn Store>,
    conversation: &str,
    interaction: &Interaction,
) -> Result<Appended, StoreError> {
    store.append(&name(conversation), record(interaction)).await
}

/// All of a conversation.
pub async fn all(store: &Arc<dyn Store>, conversation: &str) -> Vec<Stored> {
    let after = After { position: 0, count: 10_000, bytes: 1 << 30 };
    store.list(&name(conversation), after).await.expect("listed")
}

pub async fn ids(store: &Arc<dyn Store>, conversation: &str) -> Vec<String> {
    all(store, conversation).await.into_iter().map(|stored| stored.id).collect()
}
