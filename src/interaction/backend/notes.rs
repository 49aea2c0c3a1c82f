//! What a conversion could not carry over, and what it had to add.

use super::raw::start_of;

/// One thing that a conversion left out, changed or added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The interaction it was in; empty where it is about the whole.
    pub interaction_id: String,
    /// What: `reasoning`, `the result of call a`.
    pub what: String,
    /// Why.
    pub why: String,
}

#[derive(Default)]
pub(super) struct Notes {
    pub(super) dropped: Vec<Note>,
    pub(super) added: Vec<Note>,
}

impl Notes {
    pub(super) fn dropped(&mut self, interaction: &str, what: impl Into<String>, why: &str) {
        self.dropped.push(note(interaction, what.into(), why));
    }

    pub(super) fn added(&mut self, interaction: &str, what: impl Into<String>, why: &str) {
        self.added.push(note(interaction, what.into(), why));
    }
}

fn note(interaction: &str, what: String, why: &str) -> Note {
    Note { interaction_id: interaction.to_owned(), what, why: start_of(why) }
}
