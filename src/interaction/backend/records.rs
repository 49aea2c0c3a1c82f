//! Calls and results as an interaction's own records have them: what is read
//! where no provider's JSON says it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Image,
    result::written,
    unit::{Call, CallResult, Picture, Unit, object, raw_of},
};
use crate::wire::{
    Chunk, Code, NodeFragment, Status, base64,
    chunk::{Kind, OCTETS},
    json_weight,
    pb::{ActionMessage, Interaction, NodeFragments, node_fragment::Payload},
};

/// The port whose value is the whole result.
const WHOLE: &str = "_";

/// The calls of a turn, with their inputs as arguments.
pub(super) fn calls(interaction: &Interaction) -> impl Iterator<Item = Unit> {
    interaction.action_calls.iter().map(|call| {
        let ActionMessage { id, name, inputs: bindings, .. } = call;
        let mut values = Values::default();
        if let Some(inputs) = interaction.action_inputs.get(id) {
            for fragment in in_order(inputs) {
                let port = bindings.iter().find(|binding| binding.id == fragment.id);
                let port = port.map_or(fragment.id.as_str(), |binding| &binding.name);
                values.add(port, fragment, Pictures::Inside);
            }
        }
        let id = Some(id.clone()).filter(|id| !id.is_empty());
        Unit::call(Call { id, name: name.clone(), arguments: raw_of(values.document()) })
    })
}

/// The results of a turn, in the order of their ids.
pub(super) fn results(interaction: &Interaction) -> impl Iterator<Item = Unit> {
    let failures = Failures::of(interaction);
    interaction.action_outputs.iter().map(move |(id, outputs)| {
        let failure = failures.of_call(id);
        let mut values = Values::default();
        for fragment in in_order(outputs).filter(|_| failure.is_none()) {
            values.add(&fragment.id, fragment, Pictures::Beside);
        }
        let images = std::mem::take(&mut values.images);
        Unit::result(CallResult {
            id: Some(id.clone()),
            name: None,
            is_error: failure.is_some(),
            text: failure.unwrap_or_else(|| values.result(images.is_empty())),
            images,
        })
    })
}

/// How the calls of a result turn ended, by call id.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<String, StoredStatus>);

#[derive(Deserialize)]
struct StoredStatus {
    #[serde(default)]
    code: i32,
    #[serde(default)]
    message: String,
}

impl Failures {
    pub(super) fn of(interaction: &Interaction) -> Self {
        let stored = interaction.backend_specific_metadata.get("tool_statuses");
        Self(stored.and_then(|json| json_weight::read(json).ok()).unwrap_or_default())
    }

    /// What a call failed with.
    pub(super) fn of_call(&self, id: &str) -> Option<String> {
        let StoredStatus { code, message } = self.0.get(id)?;
        (*code != 0).then(|| Status::handler(Code::from_i32(*code), message.clone()).summary())
    }
}

/// Fragments in the order of their places; those without one as they stand.
fn in_order(fragments: &NodeFragments) -> impl Iterator<Item = &NodeFragment> {
    let mut fragments: Vec<_> = fragments.fragments.iter().collect();
    fragments.sort_by_key(|fragment| fragment.seq.unwrap_or(u32::MAX));
    fragments.into_iter()
}

/// What becomes of pictures.
#[derive(Clone, Copy)]
enum Pictures {
    /// Base64 in the document: a model wrote them there.
    Inside,
    Beside,
}

/// The values of one call's ports, in the order they first appear.
#[derive(Default)]
struct Values {
    ports: Vec<Port>,
    places: BTreeMap<String, usize>,
    images: Vec<Picture>,
}

#[derive(Default)]
struct Port {
    name: String,
    values: Vec<Value>,
    media_type: String,
    /// Ended by a fragment without a value, as only a stream is.
    is_stream: bool,
}

enum Value {
    Text(String),
    Json(Box<RawValue>),
}

impl Values {
    fn add(&mut self, name: &str, fragment: &NodeFragment, pictures: Pictures) {
        let place = *self.places.entry(name.to_owned()).or_insert_with(|| {
            self.ports.push(Port { name: name.to_owned(), ..Port::default() });
            self.ports.len() - 1
        });
        let port = &mut self.ports[place];
        let value = match &fragment.payload {
            Some(Payload::Chunk(chunk)) => {
                if !chunk.media_type().is_empty() {
                    port.media_type = chunk.media_type().to_owned();
                }
                let is_null = chunk.data().is_empty() && chunk.reference().is_none();
                if is_null && [OCTETS, ""].contains(&port.media_type.as_str()) {
                    port.is_stream |= !fragment.continued;
                    return;
                }
                match (Kind::of(&port.media_type), pictures) {
                    (Kind::Image, Pictures::Beside) => {
                        self.images.push(picture(chunk, &port.media_type));
                        return;
                    }
                    (kind, _) => value(chunk, kind),
                }
            }
            Some(Payload::NodeRef(node)) => Value::Text(node.id.clone()),
            None => return,
        };
        port.values.push(value);
    }

    /// One object, a port a field: its value, or the list of them.
    fn document(&self) -> String {
        let fields: Vec<_> = self
            .ports
            .iter()
            .filter(|port| port.is_stream || !port.values.is_empty())
            .map(|port| (port.name.as_str(), raw_of(port.json())))
            .collect();
        object(fields.iter().map(|(name, value)| (*name, &**value)))
    }

    /// The document of a result; nothing where there are pictures alone.
    fn result(&self, alone: bool) -> String {
        match &self.ports[..] {
            [port] if port.name == WHOLE => match &port.values[..] {
                [Value::Text(text)] if !port.is_stream => text.clone(),
                [] if !port.is_stream => String::new(),
                _ => port.json(),
            },
            ports if !alone && ports.iter().all(|port| port.values.is_empty()) => String::new(),
            _ => self.document(),
        }
    }
}

impl Port {
    fn json(&self) -> String {
        if let ([value], false) = (&self.values[..], self.is_stream) {
            return value.json();
        }
        let values: Vec<String> = self.values.iter().map(Value::json).collect();
        format!("[{}]", values.join(","))
    }
}

impl Value {
    fn json(&self) -> String {
        match self {
            Value::Text(text) => written(text),
            Value::Json(raw) => raw.get().to_owned(),
        }
    }
}

fn value(chunk: &Chunk, kind: Kind) -> Value {
    if let Some(reference) = chunk.reference() {
        return Value::Text(reference.to_owned());
    }
    let data = chunk.data();
    match kind {
        Kind::Json => match serde_json::from_slice(data) {
            Ok(raw) => Value::Json(raw),
            Err(_) => Value::Text(String::from_utf8_lossy(data).into_owned()),
        },
        Kind::Text => Value::Text(String::from_utf8_lossy(data).into_owned()),
        Kind::Image | Kind::Audio | Kind::Bytes => Value::Text(base64::encode_url_safe(data)),
    }
}

fn picture(chunk: &Chunk, media_type: &str) -> Picture {
    match chunk.reference() {
        Some(reference) => Picture::Url(reference.to_owned()),
        None => {
            Picture::Data(Image { media_type: media_type.to_owned(), data: chunk.data().clone() })
        }
    }
}
