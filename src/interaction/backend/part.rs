//! A turn in no provider's shape: who said it, and its parts.

use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::RawValue;

use super::{
    Image,
    result::Base64,
    turn::units_of,
    unit::{Content, Picture},
};
use crate::wire::pb::{Interaction, Role};

/// One turn, in no provider's shape. What only its own provider understands
/// (signed reasoning, a server's own tools) has no part here.
///
/// Its JSON: `{"role": "user"|"model"|"system", "parts": [ … ]}`.
#[derive(Debug, Clone, Serialize)]
pub struct NormalizedMessage {
    /// The role of the interaction; tool results are a user's.
    #[serde(serialize_with = "role")]
    pub role: Role,
    /// What it holds, in order.
    pub parts: Vec<Part>,
}

/// One part of a turn. Its JSON has a `type`: `text`, `image`, `tool_call`,
/// `tool_result`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture. One that a tool made stands after that tool's result.
    #[serde(serialize_with = "image")]
    Image(Image),
    /// A picture that is elsewhere.
    ImageUrl {
        /// Where.
        url: String,
    },
    /// A call the model made.
    ToolCall {
        /// The provider's id for it; the name where it gave none.
        id: String,
        /// The name called.
        name: String,
        /// One JSON object.
        arguments: Box<RawValue>,
    },
    /// What a call came to.
    ToolResult {
        /// The id of the call; its name where there is no id.
        call_id: String,
        /// The document, or the failure.
        content: String,
        /// Whether it failed. Left out of the JSON where it did not.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// Reads a turn, whichever backend produced it: by the `backend` in its metadata
/// or, without one, by its shape. Where the content has no calls, or no results,
/// those in the turn's own records are taken.
pub fn normalize(interaction: &Interaction) -> NormalizedMessage {
    let mut parts = vec![];
    for content in units_of(interaction).into_iter().flat_map(|unit| unit.parts) {
        match content {
            Content::Text(text) => parts.push(Part::Text { text }),
            Content::Image(picture) => parts.push(picture.into()),
            Content::Call(call) => {
                let id = call.id.unwrap_or_else(|| call.name.clone());
                parts.push(Part::ToolCall { id, name: call.name, arguments: call.arguments });
            }
            Content::Result(result) => {
                parts.push(Part::ToolResult {
                    call_id: result.id.or(result.name).unwrap_or_default(),
                    content: result.text,
                    is_error: result.is_error,
                });
                parts.extend(result.images.into_iter().map(Part::from));
            }
        }
    }
    NormalizedMessage { role: interaction.role(), parts }
}

impl From<Picture> for Part {
    fn from(picture: Picture) -> Self {
        match picture {
            Picture::Data(image) => Part::Image(image),
            Picture::Url(url) => Part::ImageUrl { url },
        }
    }
}

fn role<S: Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match role {
        Role::Unspecified | Role::User => "user",
        Role::Model => "model",
        Role::System => "system",
    })
}

fn image<S: Serializer>(image: &Image, serializer: S) -> Result<S::Ok, S::Error> {
    let mut fields = serializer.serialize_struct("Image", 2)?;
    fields.serialize_field("data", &Base64(&image.data))?;
    fields.serialize_field("mime_type", &image.media_type)?;
    fields.end()
}
