//! The inputs of one call: arguments or fragments are checked against the ports
//! once, here, and become nodes.

use serde_json::value::RawValue;

use super::{
    fit::{argument_pieces, fit_pieces, pieces_of},
    input_error::InputError,
    port::Port,
    schema::{ActionSchema, autofill_of},
};
use crate::node::{DEFAULT_CAPACITY, Holds, Node, Piece, WhenUnread, in_order};
use crate::wire::{NodeFragment, pb};

/// One node for each input port of an action, in the order of its schema.
#[derive(Debug, Clone)]
pub struct Inputs {
    nodes: Vec<Node>,
    /// Which of them are written while the action runs. Their values are fitted to
    /// the port when they are read; the others have been already.
    open: Vec<bool>,
}

/// Which inputs a call begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// All there will be.
    Whole,
    /// Some; others follow.
    Open,
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
            let piece = Piece::from_fragment(fragment).map_err(|error| InputError::Chunk {
                input: schema.inputs()[index].name().to_owned(),
                error,
            })?;
            by_port[index].push(piece);
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
        let inputs = ports.map(|(port, pieces)| match (autofill_of(port), pieces) {
            (Some(chunks), _) => (Node::of_pieces(pieces_of(chunks.to_vec())), false),
            (None, Some(pieces)) => (Node::of_pieces(pieces), false),
            (None, None) => {
                let node = Node::new(DEFAULT_CAPACITY, port.media_type(), WhenUnread::Discard);
                (node.holding(Holds::Values), true)
            }
        });
        let (nodes, open) = inputs.unzip();
        Ok(Self { nodes, open })
    }

    /// Arguments as all inputs, or as some of them.
    ///
    /// # Errors
    /// As [`from_arguments`](Self::from_arguments) and [`open`](Self::open).
    pub fn of_arguments<'a>(
        schema: &ActionSchema,
        arguments: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
        opening: Opening,
    ) -> Result<Self, InputError> {
        match opening {
            Opening::Whole => Self::from_arguments(schema, arguments),
            Opening::Open => Self::open(schema, arguments),
        }
    }

    /// The node of the input at that place in the schema.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// Whether that input is written while the action runs, so that its values are
    /// still as they came.
    pub(super) fn is_open(&self, index: usize) -> bool {
        self.open[index]
    }

    /// Ends the open inputs that will not be written.
    ///
    /// # Errors
    /// Names one of them that is required.
    pub(crate) fn close_but(
        &self,
        schema: &ActionSchema,
        is_written: impl Fn(&str) -> bool,
    ) -> Result<(), InputError> {
        for (index, port) in schema.inputs().iter().enumerate() {
            if self.open[index] && !is_written(port.name()) {
                if port.is_required() {
                    return Err(InputError::Missing(port.name().to_owned()));
                }
                self.nodes[index].close();
            }
        }
        Ok(())
    }

    /// Ends every input that is still open.
    pub fn close(&self) {
        self.nodes.iter().for_each(Node::close);
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
        let nodes = ports.map(node).collect::<Result<Vec<_>, _>>()?;
        let open = vec![false; nodes.len()];
        Ok(Inputs { nodes, open })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::wire::Chunk;
    use crate::wire::chunk::{JSON, TEXT};

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
