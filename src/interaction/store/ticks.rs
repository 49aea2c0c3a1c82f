//! Tells those who wait for a conversation that it changed.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

/// A bell a conversation, as long as somebody listens.
#[derive(Debug, Default)]
pub(super) struct Ticks(Mutex<HashMap<String, watch::Sender<()>>>);

impl Ticks {
    pub(super) fn listen(&self, conversation: &str) -> watch::Receiver<()> {
        let mut bells = self.0.lock();
        match bells.get(conversation) {
            Some(bell) => bell.subscribe(),
            None => {
                // Here and not on leaving: then nobody has to say that they leave.
                bells.retain(|_, bell| bell.receiver_count() > 0);
                let (bell, listener) = watch::channel(());
                bells.insert(conversation.to_owned(), bell);
                listener
            }
        }
    }

    /// Tells everybody, where it is not known who is meant.
    pub(super) fn tick_all(&self) {
        for bell in self.0.lock().values() {
            bell.send_replace(());
        }
    }

    pub(super) fn tick(&self, conversation: &str) {
        if let Some(bell) = self.0.lock().get(conversation) {
            bell.send_replace(());
        }
    }
}
