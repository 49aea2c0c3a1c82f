//! The result of a call as a model reads it: one JSON document, with the
//! pictures beside it.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::action::{ActionSchema, port::Cardinality, schema::Field};
use crate::interaction::backend::Image;
use crate::node::{Piece, join};
use crate::wire::chunk::Kind;
use crate::wire::{Chunk, Reason, Status, base64};

/// What a call's outputs come to.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultDocument {
    /// The document; a string that is the whole result stands for itself.
    /// `None` where there is nothing but pictures.
    pub text: Option<String>,
    /// Whether `text` is JSON, rather than a string that is the whole result.
    pub is_json: bool,
    /// The pictures, in the order of their ports.
    pub images: Vec<Image>,
}

/// What is handed over beside the document rather than in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Pictures; sound stays in the document as base64url.
    Pictures,
    /// Pictures and sound.
    PicturesAndSound,
}

/// A document, and what stands beside it with the port it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// As [`ResultDocument::text`]; `None` where there is nothing but media.
    pub text: Option<String>,
    /// As [`ResultDocument::is_json`].
    pub is_json: bool,
    /// Pictures and sound in the order of their ports, each with the place of
    /// its port in the schema.
    pub media: Vec<(usize, Image)>,
}

impl ResultDocument {
    /// Puts the outputs of a call, by port of the schema, into one document.
    /// JSON is taken over as it is written, never parsed into values and back.
    ///
    /// # Errors
    /// INTERNAL where an output is not what its media type says, NOT_FOUND where
    /// one is in another node.
    pub fn new(schema: &ActionSchema, outputs: &[Vec<Piece>]) -> Result<Self, Status> {
        let Parts { text, is_json, media } = Parts::new(schema, outputs, Beside::Pictures)?;
        Ok(Self { text, is_json, images: media.into_iter().map(|(_, image)| image).collect() })
    }
}

impl Parts {
    /// The same, with a choice of what stands beside the document.
    ///
    /// # Errors
    /// As [`ResultDocument::new`].
    pub fn new(
        schema: &ActionSchema,
        outputs: &[Vec<Piece>],
        beside: Beside,
    ) -> Result<Self, Status> {
        let mut media = vec![];
        let mut fields = 0;
        let mut any_media = false;
        let mut document = String::from("{");
        for (index, (port, pieces)) in schema.outputs().iter().zip(outputs).enumerate() {
            let field = schema.field_of(port);
            if field == Field::Dropped {
                continue;
            }
            let mut value = String::new();
            let broken = |fault: String| {
                let (action, port) = (schema.name(), port.name());
                Status::of(Reason::InvalidOutput, format!("{action:?}: output {port:?} {fault}"))
            };
            let mut writer = Writer {
                value: &mut value,
                media: &mut media,
                port: index,
                declared: port.kind(),
                beside,
            };
            let written = match port.cardinality() {
                Cardinality::Unary => match join(pieces)? {
                    Some(chunk)
                        if field == Field::Whole
                            && writer.kind(&chunk) == Kind::Text
                            && chunk.reference().is_none() =>
                    {
                        let text = utf8(&chunk).map_err(broken)?.to_owned();
                        return Ok(Self { text: Some(text), is_json: false, media });
                    }
                    Some(chunk) => writer.write(&chunk).map_err(broken)?,
                    None => Written::Nothing,
                },
                Cardinality::Stream => {
                    if let Some(other) = pieces.iter().find(|piece| piece.chunk().is_none()) {
                        other.check_here()?;
                    }
                    writer.write_all(pieces).map_err(broken)?
                }
            };
            match (written, field) {
                (Written::Beside, _) => any_media = true,
                (Written::Value, Field::Named(name)) => {
                    if fields > 0 {
                        document.push(',');
                    }
                    fields += 1;
                    push_string(&mut document, name);
                    document.push(':');
                    document.push_str(&value);
                }
                (Written::Value, _) => {
                    return Ok(Self { text: Some(value), is_json: true, media });
                }
                (Written::Nothing, _) => {}
            }
        }
        document.push('}');
        let text = (fields > 0 || !any_media).then_some(document);
        Ok(Self { text, is_json: true, media })
    }
}

#[derive(PartialEq)]
enum Written {
    Value,
    Beside,
    Nothing,
}

/// Writes the chunks of one port.
struct Writer<'a> {
    value: &'a mut String,
    media: &'a mut Vec<(usize, Image)>,
    port: usize,
    declared: Kind,
    beside: Beside,
}

impl Writer<'_> {
    fn kind(&self, chunk: &Chunk) -> Kind {
        match Kind::of(chunk.media_type()) {
            Kind::Bytes if self.stands_beside(self.declared) => self.declared,
            kind => kind,
        }
    }

    fn stands_beside(&self, kind: Kind) -> bool {
        match kind {
            Kind::Image => true,
            Kind::Audio => self.beside == Beside::PicturesAndSound,
            Kind::Text | Kind::Json | Kind::Bytes => false,
        }
    }

    /// A stream is always an array; one of nothing but media is media.
    fn write_all(&mut self, pieces: &[Piece]) -> Result<Written, String> {
        let mut count = 0;
        let before = self.media.len();
        let media_port = self.stands_beside(self.declared);
        self.value.push('[');
        for chunk in pieces.iter().filter_map(Piece::chunk).filter(|chunk| !chunk.is_null()) {
            let start = self.value.len();
            if count > 0 {
                self.value.push(',');
            }
            match self.write(chunk)? {
                Written::Value => count += 1,
                Written::Beside | Written::Nothing => self.value.truncate(start),
            }
        }
        self.value.push(']');
        match count {
            0 if self.media.len() > before => Ok(Written::Beside),
            0 if media_port => Ok(Written::Nothing),
            _ => Ok(Written::Value),
        }
    }

    fn write(&mut self, chunk: &Chunk) -> Result<Written, String> {
        if let Some(reference) = chunk.reference() {
            push_string(self.value, reference);
            return Ok(Written::Value);
        }
        let kind = self.kind(chunk);
        if self.stands_beside(kind) {
            let data: Bytes = chunk.data().clone();
            let media_type = chunk.media_type().to_owned();
            self.media.push((self.port, Image { media_type, data }));
            return Ok(Written::Beside);
        }
        match kind {
            Kind::Text => push_string(self.value, utf8(chunk)?),
            Kind::Json => {
                let json: &RawValue = serde_json::from_slice(chunk.data())
                    .map_err(|error| format!("is not JSON: {error}"))?;
                self.value.push_str(json.get());
            }
            Kind::Image | Kind::Audio | Kind::Bytes => {
                self.value.push('"');
                self.value.push_str(&base64::encode_url_safe(chunk.data()));
                self.value.push('"');
            }
        }
        Ok(Written::Value)
    }
}

fn utf8(chunk: &Chunk) -> Result<&str, String> {
    std::str::from_utf8(chunk.data()).map_err(|_| "is text, but not UTF-8".to_owned())
}

fn push_string(json: &mut String, text: &str) {
    // A string always has a JSON form.
    json.push_str(&serde_json::to_string(text).unwrap_or_default());
}
