//! A finished call as a model is to be shown it, and what providers' shapes of
//! it have in common: pictures in base64, and the notes that stand in for them.

use std::fmt::{self, Display, Write as _};

use base64::{display::Base64Display, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::{Serialize, Serializer};

/// How one call ended, for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The provider's own id for the call. Where it gave none: one made up, if
    /// the dialect [needs one](super::Dialect::needs_id), or None.
    pub id: Option<String>,
    /// The name the model called.
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done {
        /// The result document. None where there is nothing but pictures.
        text: Option<String>,
        /// The pictures of its `image/*` ports, in order.
        images: Vec<Image>,
    },
    /// It failed: `CODE: message`.
    Failed(String),
}

/// One picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its media type: `image/png` and the like.
    pub media_type: String,
    /// The encoded picture.
    pub data: Bytes,
}

impl ToolResult {
    /// The id, or empty text.
    pub(super) fn id_or_empty(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// The pictures; none for a failure.
    pub(super) fn images(&self) -> &[Image] {
        match &self.outcome {
            Outcome::Done { images, .. } => images,
            Outcome::Failed(_) => &[],
        }
    }

    /// Whether it failed.
    pub(super) fn failed(&self) -> Option<True> {
        matches!(self.outcome, Outcome::Failed(_)).then_some(True)
    }

    /// The document or the failure, for a dialect that marks failures apart.
    pub(super) fn text(&self) -> Text<'_> {
        match &self.outcome {
            Outcome::Done { text: Some(text), .. } => Text::Given(text),
            Outcome::Done { text: None, images } if images.is_empty() => Text::Given(""),
            Outcome::Done { text: None, images } => Text::ImagesFollow(images.len()),
            Outcome::Failed(failure) => Text::Given(failure),
        }
    }

    /// The same for a dialect that has nothing but text to tell a failure by.
    pub(super) fn text_naming_failure(&self) -> Text<'_> {
        match &self.outcome {
            Outcome::Failed(failure) => Text::Failure(failure),
            Outcome::Done { .. } => self.text(),
        }
    }
}

/// A result as text. Written straight into the message, never joined before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text<'a> {
    Given(&'a str),
    Failure(&'a str),
    /// A note in place of a document, since there is none.
    ImagesFollow(usize),
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Text::Given(text) => f.write_str(text),
            Text::Failure(failure) => write!(f, "Error: {failure}"),
            Text::ImagesFollow(1) => f.write_str("(1 image, which follows the tool results)"),
            Text::ImagesFollow(count) => {
                write!(f, "({count} images, which follow the tool results)")
            }
        }
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Text::Given(text) => serializer.serialize_str(text),
            _ => serializer.collect_str(self),
        }
    }
}

/// Bytes that are written as standard base64, padded.
#[derive(Clone, Copy)]
pub(super) struct Base64<'a>(pub(super) &'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &BASE64_STANDARD))
    }
}

/// A picture that is written as a `data:` URL.
#[derive(Clone, Copy)]
pub(super) struct DataUrl<'a>(pub(super) &'a Image);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let data = Base64Display::new(&self.0.data, &BASE64_STANDARD);
        serializer.collect_str(&format_args!("data:{};base64,{data}", self.0.media_type))
    }
}

/// `true`, for a mark that is left out where it does not hold.
#[derive(Clone, Copy)]
pub(super) struct True;

impl Serialize for True {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

/// The pictures of a round that are shown after its last result.
pub(super) struct Pictures<'a> {
    /// Says which call each picture is from.
    pub(super) note: String,
    /// The pictures, in the order of their calls.
    pub(super) images: Vec<&'a Image>,
}

impl<'a> Pictures<'a> {
    /// All the pictures of a round; None where there are none.
    pub(super) fn of(results: &'a [ToolResult]) -> Option<Self> {
        let images: Vec<&Image> = results.iter().flat_map(ToolResult::images).collect();
        if images.is_empty() {
            return None;
        }
        let mut note = String::from("Images from the tool results above, in order:");
        let mut first = 1;
        for result in results.iter().filter(|result| !result.images().is_empty()) {
            let last = first + result.images().len() - 1;
            let separator = if first == 1 { "" } else { ";" };
            let _ = match first == last {
                true => write!(note, "{separator} image {first}"),
                false => write!(note, "{separator} images {first} to {last}"),
            };
            let _ = write!(note, " from {}", result.name);
            if let Some(id) = &result.id {
                let _ = write!(note, " (call {id})");
            }
            first = last + 1;
        }
        note.push('.');
        Some(Self { note, images })
    }
}

/// A message as JSON text.
pub(super) fn written(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("messages are made of text, lists and plain fields")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A successful result.
    pub(crate) fn done(
        id: &str,
        name: &str,
        text: Option<&str>,
        images: &[&'static [u8]],
    ) -> ToolResult {
        let image = |data: &&'static [u8]| Image {
            media_type: "image/png".to_owned(),
            data: Bytes::from_static(data),
        };
        ToolResult {
            id: Some(id.to_owned()),
            name: name.to_owned(),
            outcome: Outcome::Done {
                text: text.map(str::to_owned),
                images: images.iter().map(image).collect(),
            },
        }
    }

    /// A failed result.
    pub(crate) fn failed(id: &str, name: &str, failure: &str) -> ToolResult {
        ToolResult {
            id: Some(id.to_owned()),
            name: name.to_owned(),
            outcome: Outcome::Failed(failure.to_owned()),
        }
    }

    /// One round with every kind of result: a document, a failure, pictures
    /// alone, a document with a picture.
    pub(crate) fn round() -> Vec<ToolResult> {
        vec![
            done("a", "echo", Some(r#"{"echoed":"\"hi\""}"#), &[]),
            failed("b", "order_status", "NOT_FOUND: no such order"),
            done("c", "two_pictures", None, &[b"one", b"two"]),
            done("d", "picture", Some("{}"), &[b"abc"]),
        ]
    }

    #[test]
    fn the_note_says_which_call_each_picture_is_from() {
        let round = round();
        let pictures = Pictures::of(&round).expect("there are pictures");
        assert_eq!(
            pictures.note,
            "Images from the tool results above, in order: images 1 to 2 from two_pictures \
             (call c); image 3 from picture (call d)."
        );
        assert_eq!(pictures.images.len(), 3);
        assert!(Pictures::of(&round[..2]).is_none());
    }

    #[test]
    fn pictures_alone_are_a_note_and_nothing_at_all_is_empty_text() {
        let check = |result: ToolResult, expected: &str| {
            assert_eq!(result.text_naming_failure().to_string(), expected);
        };
        check(done("a", "n", None, &[]), "");
        check(done("a", "n", None, &[b"x"]), "(1 image, which follows the tool results)");
        check(failed("a", "n", "INTERNAL: it broke"), "Error: INTERNAL: it broke");
    }

    #[test]
    fn a_data_url_is_escaped_and_padded() {
        let image = Image { media_type: "image/\"png".to_owned(), data: Bytes::from_static(b"a") };
        assert_eq!(written(&DataUrl(&image)), r#""data:image/\"png;base64,YQ==""#);
    }
}
