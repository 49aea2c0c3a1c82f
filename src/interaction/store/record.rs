//! One interaction as it is kept: the bytes that were appended, and what they say.

use bytes::Bytes;
use prost::{Message as _, Name as _};

use super::{
    super::{
        document::{self, Form},
        error::InteractionError,
    },
    error::{RecordError, StoreError},
    name::{MAX_LEN, RecordId},
};
use crate::wire::pb::Interaction;
use crate::wire::weight::{self, MAX_WEIGHT};

/// The largest interaction that is kept, in bytes as it is appended. With a page
/// before it, and as JSON a third larger, it still fits a message.
pub const MAX_RECORD_BYTES: usize = 40 * 1024 * 1024;

/// An interaction to be kept. One that exists can be read back.
#[derive(Debug, Clone)]
pub struct Record {
    pub(super) id: RecordId,
    pub(super) previous: Option<RecordId>,
    pub(super) media_type: String,
    pub(super) bytes: Bytes,
    pub(super) interaction: Interaction,
}

impl Record {
    /// A record of encoded bytes, which are kept as they are. As protobuf its calls
    /// may have the ids that their provider gave them.
    ///
    /// # Errors
    /// Where the bytes are no valid interaction of that media type, or its id
    /// cannot be kept.
    pub fn from_bytes(bytes: Bytes, media_type: &str) -> Result<Self, RecordError> {
        if media_type.chars().count() > MAX_LEN {
            return Err(RecordError::MediaTypeTooLong);
        }
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(RecordError::TooLarge(bytes.len()));
        }
        let interaction = document::decode_turn(bytes.clone(), media_type)?;
        Self::new(media_type.to_owned(), bytes, interaction)
    }

    /// A record of an interaction, kept as protobuf.
    ///
    /// # Errors
    /// Where it is no valid interaction, or its id cannot be kept.
    pub fn from_interaction(interaction: &Interaction) -> Result<Self, RecordError> {
        let bytes = document::encode_turn(interaction, Form::Protobuf)?;
        Self::from_bytes(bytes, document::PROTOBUF)
    }

    fn new(
        media_type: String,
        bytes: Bytes,
        interaction: Interaction,
    ) -> Result<Self, RecordError> {
        let id = RecordId::new(interaction.id.as_str())?;
        let previous = interaction.previous_interaction_id.clone();
        let previous = match previous.is_empty() {
            true => None,
            false => Some(RecordId::of_field("previous_interaction_id", previous)?),
        };
        Ok(Self { id, previous, media_type, bytes, interaction })
    }

    /// The interaction's id.
    pub fn id(&self) -> &RecordId {
        &self.id
    }

    /// What the bytes say, in the canonical form.
    pub fn interaction(&self) -> &Interaction {
        &self.interaction
    }

    /// The interaction it follows, as a column: empty for none.
    pub(super) fn previous_text(&self) -> &str {
        self.previous.as_ref().map_or("", RecordId::as_str)
    }
}

/// A kept interaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its place in the conversation, from 1.
    pub position: u64,
    /// Its id.
    pub id: String,
    /// When it was appended, in milliseconds since the Unix epoch.
    pub appended_at_millis: i64,
    /// What the bytes are.
    pub media_type: String,
    /// The bytes that were appended.
    pub bytes: Bytes,
}

impl Stored {
    /// What the bytes say, in the canonical form.
    ///
    /// # Errors
    /// [`StoreError::Broken`]: the file was changed, or this program is too old.
    pub fn interaction(&self) -> Result<Interaction, StoreError> {
        let broken = |error: InteractionError| StoreError::Broken { id: self.id.clone(), error };
        document::decode_turn(self.bytes.clone(), &self.media_type).map_err(broken)
    }

    /// What it says, and what that weighs: of several in one message, and of several
    /// held at once, no more together than of one.
    ///
    /// # Errors
    /// As [`interaction`](Self::interaction).
    pub fn weighed(&self) -> Result<(Interaction, usize), StoreError> {
        let interaction = self.interaction()?;
        let encoded = match Form::of(&self.media_type) {
            Some(Form::Protobuf) => self.bytes.clone(),
            _ => interaction.encode_to_vec().into(),
        };
        let weight = weight::of(&encoded, &Interaction::full_name());
        Ok((interaction, weight.unwrap_or(MAX_WEIGHT)))
    }
}
