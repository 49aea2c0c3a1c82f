//! The inputs of one call: arguments or fragments are checked against the ports
//! once, here, and become nodes.

use bytes::Bytes;
use serde_json::value::RawValue;
use thiserror::Error;

use super::{
    port::{Cardinality, Port},
    schema::{ActionSchema, autofill_of},
};
use crate::node::{DEFAULT_CAPACITY, Node, NodeError, Piece, WhenUnread, in_order, join};
use crate::wire::chunk::{JSON, Kind, TEXT};
use crate::wire::pb::node_fragment::Payload;
use crate::wire::{Chunk, NodeFragment, Reason, Status, base64, pb};

/// One node for each input port of an action, in the order of its schema.
#[derive(Debug, Clone)]
pub struct Inputs(Vec<Node>);

/// Why inputs do not fit an action.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InputError {
    /// No value for a required input.
    #[error("input {0:?} is required")]
    Missing(String),
    /// The action has no such input.
    #[error("there is no input {input:?}; the inputs are: {known}")]
    Undeclared {
        /// The input written.
        input: String,
        /// What there is.
        known: String,
    },
    /// Only the runtime fills that input.
    #[error("input {0:?} is filled by the runtime and cannot be given")]
    Autofilled(String),
    /// The value does not fit.
    #[error("input {input:?}: {fault}")]
    Unfit {
        /// The input.
        input: String,
        /// What does not fit.
        fault: String,
    },
    /// A fragment's id is one port's name and another port's node.
    #[error("fragment id {0:?} is one input's name and another input's node")]
    Ambiguous(String),
    /// The fragments of an input contradict each other.
    #[error("input {input:?}: {error}")]
    Node {
        /// The input.
        input: String,
        /// How.
        error: NodeError,
    },
    /// A fragment refers to a node that is not held here.
    #[error("input {input:?} refers to node {node:?}, which is not held here")]
    UnknownNode {
        /// The input.
        input: String,
        /// The node.
        node: String,
    },
}

impl From<InputError> for Status {
    fn from(error: InputError) -> Self {
        let reason = match &error {
            InputError::Missing(_) => Reason::MissingInput,
            InputError::Undeclared { .. } => Reason::UndeclaredInput,
            InputError::Autofilled(_) => Reason::AutofilledInput,
            InputError::Unfit { .. } | InputError::Ambiguous(_) => Reason::InvalidInput,
            InputError::Node { error, .. } => Status::from(error.clone()).reason,
            InputError::UnknownNode { .. } => Reason::UnknownNode,
        };
        Status::of(reason, error.to_string())
    }
}

/// What each input port has been given so far.
struct Given<'a> {
    schema: &'a ActionSchema,
    pieces: Vec<Option<Vec<Piece>>>,
}

impl Inputs {
    /// All inputs as JSON arguments, by port name. A stream port takes an array.
    /// `null` for an optional port whose schema has no null is as good as absent.
    ///
    /// # Errors
    /// Names the input that is missing, undeclared or unfit.
    pub fn from_arguments<'a>(
        schema: &ActionSchema,
        arguments: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> Result<Self, InputError> {
        let mut given = Given::new(schema);
        given.take_arguments(arguments)?;
        given.close()
    }

    /// All inputs as fragments, whose id is a port's name or the node that
    /// `bindings` binds to the port.
    ///
    /// # Errors
    /// Names the input that is missing, undeclared or unfit.
    pub fn from_fragments(
        schema: &ActionSchema,
        bindings: &[pb::PortBinding],
        fragments: impl IntoIterator<Item = NodeFragment>,
    ) -> Result<Self, InputError> {
        let mut given = Given::new(schema);
        let mut by_port: Vec<Vec<(Option<u32>, Piece)>> = vec![vec![]; schema.inputs().len()];
        for fragment in fragments {
            let index = given.port_of_fragment(&fragment.id, bindings)?;
            by_port[index].push(Piece::from_fragment(fragment));
        }
        for (index, fragments) in by_port.into_iter().enumerate() {
            if !fragments.is_empty() {
                let port = &schema.inputs()[index];
                let pieces = in_order(port.media_type(), fragments)
                    .map_err(|error| InputError::Node { input: port.name().to_owned(), error })?;
                given.pieces[index] = Some(fit_pieces(port, pieces)?);
            }
        }
        given.close()
    }

    /// Some inputs as arguments; the others stay open to be written while the
    /// action runs.
    ///
    /// # Errors
    /// Names the argument that is undeclared or unfit.
    pub fn open<'a>(
        schema: &ActionSchema,
        arguments: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> Result<Self, InputError> {
        let mut given = Given::new(schema);
        given.take_arguments(arguments)?;
        let ports = schema.inputs().iter().zip(given.pieces);
        Ok(Self(
            ports
                .map(|(port, pieces)| match (autofill_of(port), pieces) {
                    (Some(chunks), _) => Node::of_pieces(pieces_of(chunks.to_vec())),
                    (None, Some(pieces)) => Node::of_pieces(pieces),
                    (None, None) => {
                        Node::new(DEFAULT_CAPACITY, port.media_type(), WhenUnread::Discard)
                    }
                })
                .collect(),
        ))
    }

    /// The node of the input at that place in the schema.
    pub fn node(&self, index: usize) -> &Node {
        &self.0[index]
    }

    /// Ends every input that is still open.
    pub fn close(&self) {
        self.0.iter().for_each(Node::close);
    }
}

impl<'a> Given<'a> {
    fn new(schema: &'a ActionSchema) -> Self {
        Self { schema, pieces: vec![None; schema.inputs().len()] }
    }

    fn take_arguments<'v>(
        &mut self,
        arguments: impl IntoIterator<Item = (&'v str, &'v RawValue)>,
    ) -> Result<(), InputError> {
        for (name, value) in arguments {
            let index = self.port_of_argument(name)?;
            let port = &self.schema.inputs()[index];
            self.pieces[index] = argument_pieces(port, value)?;
        }
        Ok(())
    }

    fn port_of_argument(&self, name: &str) -> Result<usize, InputError> {
        let inputs = self.schema.inputs();
        match inputs.iter().position(|port| port.name() == name) {
            Some(index) if inputs[index].is_autofilled() => {
                Err(InputError::Autofilled(name.to_owned()))
            }
            Some(index) => Ok(index),
            None => Err(InputError::Undeclared {
                input: name.chars().take(255).collect(),
                known: self.known(),
            }),
        }
    }

    fn port_of_fragment(
        &self,
        id: &str,
        bindings: &[pb::PortBinding],
    ) -> Result<usize, InputError> {
        let inputs = self.schema.inputs();
        if id.is_empty() {
            let mut callable = inputs.iter().enumerate().filter(|(_, port)| !port.is_autofilled());
            if let (Some((index, _)), None) = (callable.next(), callable.next()) {
                return Ok(index);
            }
        }
        let bound = bindings.iter().find(|binding| binding.id == id).map(|b| b.name.as_str());
        match bound {
            Some(port) if port != id && inputs.iter().any(|other| other.name() == id) => {
                Err(InputError::Ambiguous(id.to_owned()))
            }
            Some(port) => self.port_of_argument(port),
            None => self.port_of_argument(id),
        }
    }

    fn known(&self) -> String {
        let callable = self.schema.inputs().iter().filter(|port| !port.is_autofilled());
        let names: Vec<&str> = callable.map(Port::name).take(32).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Fills what the runtime fills, and refuses what is missing.
    fn close(self) -> Result<Inputs, InputError> {
        let ports = self.schema.inputs().iter().zip(self.pieces);
        let node = |(port, pieces): (&Port, Option<Vec<Piece>>)| match (autofill_of(port), pieces) {
            (Some(chunks), _) => Ok(Node::of_pieces(pieces_of(chunks.to_vec()))),
            (None, Some(pieces)) => Ok(Node::of_pieces(pieces)),
            (None, None) if port.is_required() => Err(InputError::Missing(port.name().to_owned())),
            (None, None) => Ok(Node::of_pieces(vec![])),
        };
        Ok(Inputs(ports.map(node).collect::<Result<_, _>>()?))
    }
}

/// Chunks as the pieces of a complete node.
fn pieces_of(chunks: Vec<Chunk>) -> Vec<Piece> {
    let last = chunks.len().saturating_sub(1);
    let mut pieces: Vec<Piece> = chunks
        .into_iter()
        .enumerate()
        .map(|(at, chunk)| if at == last { Piece::last(chunk) } else { Piece::more(chunk) })
        .collect();
    if pieces.is_empty() {
        pieces.push(Piece::end());
    }
    pieces
}

/// What an argument is on a port; `None` where it is as good as absent.
fn argument_pieces(port: &Port, value: &RawValue) -> Result<Option<Vec<Piece>>, InputError> {
    let text = value.get();
    let unfit = |fault: String| InputError::Unfit { input: port.name().to_owned(), fault };
    if text == "null" && !port.is_required() {
        let wanted = port.cardinality() == Cardinality::Unary
            && port.kind() == Kind::Json
            && port.value_schema().is_none_or(|schema| schema.accepts_null());
        if !wanted {
            return Ok(None);
        }
    }
    match port.cardinality() {
        Cardinality::Unary => {
            Ok(Some(vec![Piece::last(argument_chunk(port, text).map_err(unfit)?)]))
        }
        Cardinality::Stream => {
            // Models send arrays as JSON text now and then; an array's schema
            // takes no string, so there is no doubt about it.
            let unwrapped: String;
            let array = if text.starts_with('"') {
                unwrapped = serde_json::from_str(text).map_err(|e| unfit(e.to_string()))?;
                unwrapped.as_str()
            } else {
                text
            };
            let items: Vec<&RawValue> = serde_json::from_str(array)
                .map_err(|_| unfit(format!("{} is not an array", excerpt(text))))?;
            let chunks = items
                .iter()
                .enumerate()
                .map(|(at, item)| {
                    argument_chunk(port, item.get())
                        .map_err(|fault| unfit(format!("[{at}]: {fault}")))
                })
                .collect::<Result<Vec<_>, _>>()?;
            Ok(Some(pieces_of(chunks)))
        }
    }
}

/// One JSON value as a chunk of a port's media type.
fn argument_chunk(port: &Port, json: &str) -> Result<Chunk, String> {
    let string = || -> Result<String, String> {
        if !json.starts_with('"') {
            return Err(format!("{} is not a string", excerpt(json)));
        }
        serde_json::from_str(json).map_err(|error| error.to_string())
    };
    let chunk = match port.kind() {
        Kind::Text => Chunk::new(port.media_type(), string()?),
        Kind::Json if json.starts_with('"') => {
            Chunk::new(port.media_type(), json_of_string(port, json)?)
        }
        Kind::Json => Chunk::new(port.media_type(), Bytes::copy_from_slice(json.as_bytes())),
        Kind::Image | Kind::Audio | Kind::Bytes => {
            let text = string()?;
            let (media_type, encoded) =
                match text.strip_prefix("data:").and_then(|t| t.split_once(";base64,")) {
                    Some((media_type, encoded)) => (media_type, encoded),
                    None => (port.media_type(), text.as_str()),
                };
            let data = base64::decode(encoded).map_err(|error| format!("not base64: {error}"))?;
            Chunk::new(media_type, data)
        }
    };
    fit(port, &chunk)?;
    Ok(chunk)
}

/// JSON for a JSON port out of a JSON string: what the string says, where the
/// port takes no strings, else the string.
fn json_of_string(port: &Port, json: &str) -> Result<Bytes, String> {
    let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
    Ok(match structure_in(port, &text) {
        true => Bytes::from(text),
        false => Bytes::copy_from_slice(json.as_bytes()),
    })
}

/// Whether a text is to be read as the JSON it holds. A port without a schema
/// is offered to models as an object, so objects and arrays are read there.
fn structure_in(port: &Port, text: &str) -> bool {
    let reads = || serde_json::from_str::<&RawValue>(text).is_ok();
    match port.value_schema() {
        Some(schema) => !schema.accepts_strings() && reads(),
        None => text.trim_start().starts_with(['{', '[']) && reads(),
    }
}

/// Fits the fragments written to a port: one value is put together for a unary
/// port, text becomes JSON where the port is JSON, and every value is checked.
fn fit_pieces(port: &Port, pieces: Vec<Piece>) -> Result<Vec<Piece>, InputError> {
    let input = || port.name().to_owned();
    let unfit = |fault| InputError::Unfit { input: input(), fault };
    for piece in &pieces {
        if let Payload::NodeRef(node) = &piece.payload {
            return Err(InputError::UnknownNode { input: input(), node: node.id.clone() });
        }
    }
    let complete = pieces.last().is_some_and(|piece| !piece.continued);
    match port.cardinality() {
        Cardinality::Unary if complete => {
            let Ok(Some(chunk)) = join(&pieces) else { return Ok(vec![Piece::end()]) };
            Ok(vec![Piece::last(convert(port, chunk).map_err(unfit)?)])
        }
        Cardinality::Unary => Ok(pieces),
        Cardinality::Stream => pieces
            .into_iter()
            .map(|piece| match piece.payload {
                Payload::Chunk(chunk) if !chunk.is_null() => {
                    let chunk = convert(port, chunk).map_err(unfit)?;
                    Ok(Piece { payload: Payload::Chunk(chunk), continued: piece.continued })
                }
                payload => Ok(Piece { payload, continued: piece.continued }),
            })
            .collect(),
    }
}

/// A chunk as the port wants it.
fn convert(port: &Port, mut chunk: Chunk) -> Result<Chunk, String> {
    if chunk.reference().is_some() {
        return Ok(chunk);
    }
    let text = |chunk: &Chunk| -> Result<String, String> {
        let text = std::str::from_utf8(chunk.data()).map_err(|_| "not UTF-8".to_owned())?;
        Ok(text.to_owned())
    };
    match (port.kind(), Kind::of(chunk.media_type())) {
        (Kind::Json, Kind::Json) if chunk.data().first() == Some(&b'"') => {
            let json = json_of_string(port, &text(&chunk)?)?;
            chunk = Chunk::new(chunk.media_type(), json);
        }
        (Kind::Json, Kind::Text) => {
            let text = text(&chunk)?;
            let json = match structure_in(port, &text) {
                true => text,
                false => serde_json::to_string(&text).map_err(|error| error.to_string())?,
            };
            chunk = Chunk::new(JSON, json);
        }
        (Kind::Text, Kind::Json) => {
            let text: String = serde_json::from_slice(chunk.data())
                .map_err(|_| format!("expected {TEXT}, got JSON that is not a string"))?;
            chunk = Chunk::new(port.media_type(), text);
        }
        (Kind::Json | Kind::Text, Kind::Image | Kind::Audio | Kind::Bytes) => {
            return Err(format!("expected {}, got {}", port.media_type(), chunk.media_type()));
        }
        _ => {}
    }
    fit(port, &chunk)?;
    Ok(chunk)
}

/// Checks one value against the port's schema.
fn fit(port: &Port, chunk: &Chunk) -> Result<(), String> {
    let fault = match port.kind() {
        Kind::Text => {
            let text = std::str::from_utf8(chunk.data()).map_err(|_| "not UTF-8".to_owned())?;
            port.value_schema().and_then(|schema| schema.fault_of_text(text))
        }
        Kind::Json => match port.value_schema() {
            Some(schema) => schema.fault_of_json(chunk.data()),
            None => serde_json::from_slice::<&RawValue>(chunk.data())
                .err()
                .map(|error| format!("not JSON: {error}")),
        },
        Kind::Image | Kind::Audio | Kind::Bytes => None,
    };
    fault.map_or(Ok(()), |fault| Err(excerpt_of(&fault, 1024)))
}

/// The start of a text, for an error message.
fn excerpt(text: &str) -> String {
    excerpt_of(text, 80)
}

fn excerpt_of(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn schema() -> ActionSchema {
        ActionSchema::builder("a")
            .input(Port::text("text"))
            .input(Port::text("texts").stream())
            .input(Port::json("any"))
            .input(Port::json("number").schema(r#"{"type":"number"}"#))
            .input(Port::json("either").schema(r#"{"type":["string","number"]}"#))
            .input(Port::of("bytes", "application/octet-stream"))
            .input(Port::text("mine").autofill(vec![Chunk::text("filled")]))
            .build()
            .expect("valid")
    }

    fn read(inputs: &Inputs, port: &str) -> Vec<String> {
        let schema = schema();
        let index = schema.inputs().iter().position(|p| p.name() == port).expect("port");
        let mut reader = inputs.node(index).reader();
        let mut found = vec![];
        while let Some(Ok(Some(piece))) = reader.next().now_or_never() {
            if !piece.is_null() {
                let data = piece.chunk().expect("chunk").data().to_vec();
                found.push(String::from_utf8_lossy(&data).into_owned());
            }
        }
        found
    }

    #[test]
    fn arguments_become_what_the_port_wants() {
        let check = |port: &str, json: &str, expected: Result<&[&str], &str>| {
            let raw = RawValue::from_string(json.to_owned()).expect("json");
            match (Inputs::from_arguments(&schema(), [(port, &*raw)]), expected) {
                (Ok(inputs), Ok(expected)) => assert_eq!(read(&inputs, port), expected, "{json}"),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (result, expected) => panic!("{port} {json}: {result:?}, not {expected:?}"),
            }
        };
        check("text", r#""{\"a\":1}""#, Ok(&[r#"{"a":1}"#]));
        check("text", r#""5""#, Ok(&["5"]));
        check("text", "5", Err("5 is not a string"));
        check("text", "null", Ok(&[]));
        check("texts", r#"["a","b"]"#, Ok(&["a", "b"]));
        check("texts", "[]", Ok(&[]));
        check("texts", r#""[\"a\"]""#, Ok(&["a"]));
        check("texts", r#""a""#, Err("is not an array"));
        check("texts", r#"["a",1]"#, Err("[1]: 1 is not a string"));
        check("any", r#""{\"a\":1}""#, Ok(&[r#"{"a":1}"#]));
        check("any", r#""plain""#, Ok(&[r#""plain""#]));
        check("any", "null", Ok(&["null"]));
        check("number", r#""2.5""#, Ok(&["2.5"]));
        check("number", r#""x""#, Err("input \"number\""));
        check("number", "12345678901234567890", Ok(&["12345678901234567890"]));
        check("either", r#""2.5""#, Ok(&[r#""2.5""#]));
        check("bytes", r#""aGk""#, Ok(&["hi"]));
        check("bytes", r#""data:image/png;base64,aGk=""#, Ok(&["hi"]));
        check("bytes", r#""%""#, Err("not base64"));
        check("mine", r#""x""#, Err("filled by the runtime"));
        check("nope", r#""x""#, Err("the inputs are: text, texts, any"));
    }

    #[test]
    fn fragments_become_what_the_port_wants() {
        let check = |port: &str, chunks: &[Chunk], expected: Result<&[&str], &str>| {
            let last = chunks.len() - 1;
            let fragments = chunks.iter().enumerate().map(|(at, chunk)| NodeFragment {
                continued: at != last,
                ..NodeFragment::more("node", chunk.clone())
            });
            let bindings = [pb::PortBinding { name: port.into(), id: "node".into() }];
            match (Inputs::from_fragments(&schema(), &bindings, fragments), expected) {
                (Ok(inputs), Ok(expected)) => assert_eq!(read(&inputs, port), expected, "{port}"),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (result, expected) => panic!("{port}: {result:?}, not {expected:?}"),
            }
        };
        let json = |text: &str| Chunk::new(JSON, text.to_owned());
        check("text", &[Chunk::text("a"), Chunk::text("b")], Ok(&["ab"]));
        check("text", &[json("\"a\"")], Ok(&["a"]));
        check("text", &[json("1")], Err("not a string"));
        check("text", &[Chunk::new("image/png", "x")], Err("expected text/plain, got image/png"));
        check("text", &[Chunk::new(TEXT, vec![0xff])], Err("not UTF-8"));
        check("texts", &[Chunk::text("a"), Chunk::text("b"), Chunk::null()], Ok(&["a", "b"]));
        check("any", &[Chunk::text("[1]")], Ok(&["[1]"]));
        check("any", &[Chunk::text("one")], Ok(&["\"one\""]));
        check("any", &[json("{\"a\":")], Err("not JSON"));
        check("number", &[Chunk::text("7")], Ok(&["7"]));
        check("number", &[json("\"7\"")], Ok(&["7"]));
        check("mine", &[Chunk::text("x")], Err("filled by the runtime"));
    }

    #[test]
    fn an_id_that_is_a_port_and_another_ports_node_is_refused() {
        let bindings = [pb::PortBinding { name: "text".into(), id: "any".into() }];
        let fragments = [NodeFragment::last("any", Chunk::text("x"))];
        let result = Inputs::from_fragments(&schema(), &bindings, fragments);
        assert_eq!(result.expect_err("ambiguous"), InputError::Ambiguous("any".into()));
    }
}
