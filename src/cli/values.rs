//! What a call puts out, as it comes: values put together from fragments, and
//! their place in the result.

use serde_json::value::{RawValue, to_raw_value};

use super::{exit::Failure, json, output::Output};
use crate::wire::{
    Chunk, NodeFragment, base64,
    chunk::Kind,
    pb::{self, node_fragment::Payload},
};

/// The field of `output_to_json_field` that makes a port the whole result.
const WHOLE: &str = "$";

/// How values are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Kept until the end, for one document.
    Kept,
    /// The one port's values as they are: text as text, bytes as bytes.
    Plain,
    /// A JSON object a value, `{"port": value}`, as they come.
    Lines,
}

/// Which document the command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Document {
    /// What suits a person.
    Readable,
    /// One JSON document.
    Json,
}

/// The outputs of one call.
pub(super) struct Values {
    ports: Vec<Port>,
    style: Style,
}

struct Port {
    name: String,
    /// The field of the result document; `None` for the whole result.
    field: Option<String>,
    kind: Kind,
    unary: bool,
    /// Of a unary port, what has come of its one value.
    begun: Option<Vec<u8>>,
    /// Values kept for the document.
    kept: Vec<Box<RawValue>>,
    ends_its_line: bool,
}

impl Values {
    /// For the outputs of an action, those left out that its result drops.
    pub(super) fn new(action: &pb::ActionSchema, document: Document) -> Self {
        let mapped = &action.output_to_json_field;
        let ports: Vec<Port> = action
            .outputs
            .iter()
            .filter_map(|port| {
                let field = match mapped.get(&port.name) {
                    Some(whole) if whole == WHOLE => None,
                    Some(field) => Some(field.clone()),
                    None if mapped.is_empty() => Some(port.name.clone()),
                    None => return None,
                };
                Some(Port {
                    name: port.name.clone(),
                    field,
                    kind: Kind::of(&port.media_type),
                    unary: port.unary,
                    begun: None,
                    kept: vec![],
                    ends_its_line: true,
                })
            })
            .collect();
        let style = match (document, ports.as_slice()) {
            (Document::Json, _) => Style::Kept,
            (Document::Readable, [_]) => Style::Plain,
            (Document::Readable, ports) if ports.iter().any(|port| !port.unary) => Style::Lines,
            (Document::Readable, _) => Style::Kept,
        };
        Self { ports, style }
    }

    /// Whether the result is bytes that a terminal should not get.
    pub(super) fn are_binary(&self) -> bool {
        let binary = |port: &Port| matches!(port.kind, Kind::Image | Kind::Audio | Kind::Bytes);
        self.style == Style::Plain && self.ports.iter().any(binary)
    }

    /// Takes a fragment, and prints what can be printed now.
    pub(super) fn take(
        &mut self,
        fragment: NodeFragment,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let style = self.style;
        let Some(port) = self.ports.iter_mut().find(|port| port.name == fragment.id) else {
            return Ok(());
        };
        let chunk = match fragment.payload {
            Some(Payload::Chunk(chunk)) if !chunk.is_null() => chunk,
            // The end, or a reference, which has no bytes to show.
            _ => return Ok(()),
        };
        let data = chunk_bytes(&chunk);
        match (style, port.unary) {
            (Style::Plain, true) if port.kind != Kind::Json => port.print(data, output),
            (_, true) => {
                port.begun.get_or_insert_default().extend_from_slice(data);
                Ok(())
            }
            (Style::Plain, false) => port.print_value(data, output),
            (Style::Lines, false) => {
                let value = port.value(data);
                output.line(&field_line(&port.name, &value))
            }
            (Style::Kept, false) => {
                port.kept.push(port.value(data));
                Ok(())
            }
        }
    }

    /// Prints what is left once the call has succeeded.
    pub(super) fn finish(mut self, output: &mut Output) -> Result<(), Failure> {
        for port in &mut self.ports {
            if let Some(bytes) = port.begun.take() {
                match self.style {
                    Style::Plain => port.print_value(&bytes, output)?,
                    Style::Lines => {
                        output.line(&field_line(&port.name, &port.value(&bytes)))?;
                    }
                    Style::Kept => port.kept.push(port.value(&bytes)),
                }
            }
            if self.style == Style::Plain && !port.ends_its_line && !output.is_file() {
                output.write(b"\n")?;
            }
        }
        if self.style == Style::Kept && !self.ports.is_empty() {
            output.line(&json::pretty(&self.document()))?;
        }
        Ok(())
    }

    /// The result document: a stream is an array, a unary port its value, absent
    /// where it gave none.
    pub(super) fn document(&mut self) -> String {
        let mut text = String::from("{");
        for port in &mut self.ports {
            if let Some(bytes) = port.begun.take() {
                port.kept.push(port.value(&bytes));
            }
            let values: Vec<&str> = port.kept.iter().map(|value| value.get()).collect();
            let value = match (port.unary, values.as_slice()) {
                (true, []) => continue,
                (true, [value, ..]) => (*value).to_owned(),
                (false, values) => format!("[{}]", values.join(",")),
            };
            let Some(field) = &port.field else { return value };
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&format!("{}:{value}", raw(field).get()));
        }
        text.push('}');
        text
    }
}

impl Port {
    /// Prints a part of the one value as it is.
    fn print(&mut self, data: &[u8], output: &mut Output) -> Result<(), Failure> {
        if let (Kind::Text, Some(last)) = (self.kind, data.last()) {
            self.ends_its_line = *last == b'\n';
        }
        output.write(data)
    }

    /// Prints a whole value: text and JSON with a line of their own.
    fn print_value(&mut self, data: &[u8], output: &mut Output) -> Result<(), Failure> {
        match (self.kind, std::str::from_utf8(data)) {
            (Kind::Json, Ok(text)) if self.unary => output.line(&json::pretty(text)),
            (Kind::Json, Ok(text)) => output.line(&json::compact(text)),
            (Kind::Text, Ok(text)) if !text.ends_with('\n') => output.line(text),
            _ => output.write(data),
        }
    }

    /// The value in a JSON document: bytes are base64.
    fn value(&self, data: &[u8]) -> Box<RawValue> {
        match self.kind {
            Kind::Json => serde_json::from_slice::<Box<RawValue>>(data)
                .unwrap_or_else(|_| raw(&String::from_utf8_lossy(data))),
            Kind::Text => raw(&String::from_utf8_lossy(data)),
            Kind::Image | Kind::Audio | Kind::Bytes => raw(&base64::encode(data)),
        }
    }
}

fn chunk_bytes(chunk: &Chunk) -> &[u8] {
    match chunk.reference() {
        Some(reference) => reference.as_bytes(),
        None => chunk.data(),
    }
}

fn field_line(name: &str, value: &RawValue) -> String {
    format!("{{{}:{}}}", raw(name).get(), json::compact(value.get()))
}

/// Strings: there is nothing to fail on.
fn raw(text: &str) -> Box<RawValue> {
    to_raw_value(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
