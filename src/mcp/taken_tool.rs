//! A tool of another MCP server as an action: its arguments and its result as
//! ports.

use std::collections::BTreeSet;

use rmcp::model::{JsonObject, Tool};
use serde_json::Value;
use thiserror::Error;

use super::declaration::ACTION_KEY;
use crate::action::{
    ActionSchema, Port, SchemaError,
    document::{self, DocumentError},
    schema::Runnable,
};
use crate::wire::Name;

/// The input that takes all arguments of a tool whose schema cannot be split.
pub const ARGUMENTS: &str = "arguments";
/// The output for text blocks.
pub const TEXT: &str = "text";
/// The output for all other blocks.
pub const CONTENT: &str = "content";
/// The output for the structured result of a tool that declares one.
pub const STRUCTURED_CONTENT: &str = "structured_content";

/// Keywords that say something of the arguments together: they hold for no
/// property alone.
const TOGETHER: [&str; 14] = [
    "$ref",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
];

/// Why a tool was not taken in.
#[derive(Debug, Error)]
pub enum TakeError {
    /// Its schema, or the action document that it carries, is broken.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The action document that it carries cannot be read.
    #[error("tool {tool:?}: {error}")]
    Document {
        /// The tool.
        tool: String,
        /// What is wrong.
        error: DocumentError,
    },
}

/// A tool, and the action it became.
#[derive(Debug, Clone)]
pub struct TakenTool {
    pub(super) tool: String,
    pub(super) schema: ActionSchema,
    pub(super) arguments: Arguments,
    pub(super) results: Results,
}

/// How inputs become arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arguments {
    /// One input holds all of them.
    Whole,
    /// Each input, in the order of the schema, is the argument of this name.
    Named(Vec<String>),
}

/// How a result becomes outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Results {
    /// `text`, `content` and, where declared, `structured_content`.
    Blocks,
    /// The outputs that the server's action has.
    Ports,
}

impl TakenTool {
    /// Reads a declaration. The action's name is the prefix and the tool's name,
    /// each character that no name can have as `_`. A tool that carries its
    /// action's document has that action's own ports.
    ///
    /// # Errors
    /// Where a schema or document is broken.
    pub fn new(tool: &Tool, prefix: &str) -> Result<Self, TakeError> {
        let name = name_of(&format!("{prefix}{}", tool.name), "tool");
        match tool.meta.as_ref().and_then(|meta| meta.get(ACTION_KEY)) {
            Some(document) => Self::described(tool, name, document),
            None => Self::derived(tool, name),
        }
    }

    /// The action.
    pub fn schema(&self) -> &ActionSchema {
        &self.schema
    }

    fn described(tool: &Tool, name: String, document: &Value) -> Result<Self, TakeError> {
        let list = Value::from(vec![document.clone()]).to_string();
        let refused = |error| TakeError::Document { tool: tool.name.to_string(), error };
        let mut actions = document::read(&list).map_err(refused)?;
        let schema = actions.remove(0);
        let mut message = schema.to_message(Runnable::Yes, crate::action::schema::Ports::Callable);
        message.name = name;
        let schema = ActionSchema::try_from(message)?;
        let names = schema.inputs().iter().map(|port| port.name().to_owned()).collect();
        let arguments = Arguments::Named(names);
        Ok(Self { tool: tool.name.to_string(), schema, arguments, results: Results::Ports })
    }

    fn derived(tool: &Tool, name: String) -> Result<Self, TakeError> {
        let mut action = ActionSchema::builder(name).describe(description(tool));
        let arguments = match properties(&tool.input_schema) {
            None => {
                let schema = Value::Object((*tool.input_schema).clone()).to_string();
                action = action.input(Port::json(ARGUMENTS).schema(schema).required());
                Arguments::Whole
            }
            Some(properties) => {
                let mut names = vec![];
                for (property, port) in properties {
                    action = action.input(port);
                    names.push(property);
                }
                Arguments::Named(names)
            }
        };
        action = action
            .output(Port::text(TEXT).stream().describe("The text of the result."))
            .output(Port::json(CONTENT).stream().describe("Other blocks of the result."));
        if let Some(schema) = &tool.output_schema {
            let schema = Value::Object((**schema).clone()).to_string();
            action = action
                .output(Port::json(STRUCTURED_CONTENT).schema(schema))
                .map(STRUCTURED_CONTENT, "$");
        }
        if tool.annotations.as_ref().is_some_and(|hints| hints.idempotent_hint == Some(true)) {
            action = action.idempotent();
        }
        let schema = action.build()?;
        Ok(Self { tool: tool.name.to_string(), schema, arguments, results: Results::Blocks })
    }
}

/// The description, after the title where that says more.
fn description(tool: &Tool) -> String {
    let description = tool.description.as_deref().unwrap_or_default().trim();
    match tool.title.as_deref().map(str::trim) {
        Some(title) if !title.is_empty() && !description.contains(title) => {
            format!("{title}\n\n{description}").trim_end().to_owned()
        }
        _ => description.to_owned(),
    }
}

/// The properties and their ports; `None` where they cannot be told apart.
fn properties(schema: &JsonObject) -> Option<Vec<(String, Port)>> {
    if TOGETHER.iter().any(|keyword| schema.contains_key(*keyword)) {
        return None;
    }
    let open = match schema.get("additionalProperties") {
        None | Some(Value::Bool(false)) => false,
        Some(_) => true,
    };
    let empty = JsonObject::new();
    let properties = match schema.get("properties") {
        None => &empty,
        Some(properties) => properties.as_object()?,
    };
    if open && properties.is_empty() {
        return None;
    }
    let required: BTreeSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut taken = BTreeSet::new();
    let ports = properties.iter().map(|(property, value)| {
        let name = unique(name_of(property, "argument"), &mut taken);
        let mut port = port(name, &with_definitions(value, schema));
        if let Some(description) = value.get("description").and_then(Value::as_str) {
            port = port.describe(description);
        }
        if required.contains(property.as_str()) {
            port = port.required();
        }
        (property.clone(), port)
    });
    Some(ports.collect())
}

/// The port of one property: an array of like items is a stream of them.
fn port(name: String, schema: &Value) -> Port {
    let is = |schema: &Value, kind: &str| schema.get("type").is_some_and(|k| k == kind);
    let of = |schema: &Value| match is(schema, "string") && schema.get("contentEncoding").is_none()
    {
        true => Port::text(name.clone()).schema(schema.to_string()),
        false => Port::json(name.clone()).schema(schema.to_string()),
    };
    let is_tuple = ["prefixItems", "additionalItems"].iter().any(|key| schema.get(key).is_some());
    match schema.get("items") {
        Some(items @ Value::Object(_)) if is(schema, "array") && !is_tuple => {
            let definitions = schema.as_object().cloned().unwrap_or_default();
            of(&with_definitions(items, &definitions)).stream()
        }
        None if is(schema, "array") && !is_tuple => Port::json(name).stream(),
        _ => of(schema),
    }
}

/// A part of a schema with the definitions of the whole, where it refers to any.
fn with_definitions(part: &Value, whole: &JsonObject) -> Value {
    let mut part = part.clone();
    if part.to_string().contains("\"$ref\"")
        && let Value::Object(part) = &mut part
    {
        for key in ["$defs", "definitions"] {
            if let (Some(definitions), false) = (whole.get(key), part.contains_key(key)) {
                part.insert(key.to_owned(), definitions.clone());
            }
        }
    }
    part
}

/// A name as near to a text as names can be.
fn name_of(text: &str, otherwise: &str) -> String {
    let fits = |character: char| character.is_ascii_alphanumeric() || "-_#".contains(character);
    let name: String =
        text.chars().map(|character| if fits(character) { character } else { '_' }).collect();
    let name: String = name.trim_matches(['-', '#']).chars().take(255).collect();
    let bare = name.trim_start_matches('_');
    match Name::new(&name) {
        _ if bare.is_empty() => otherwise.to_owned(),
        // Two underscores are the protocol's own.
        Ok(_) if name.starts_with("__") => format!("_{bare}"),
        Ok(_) => name,
        Err(_) => name.trim_end_matches(['-', '#']).to_owned(),
    }
}

fn unique(name: String, taken: &mut BTreeSet<String>) -> String {
    let mut numbered = name.clone();
    let mut number = 2;
    while !taken.insert(numbered.clone()) {
        numbered = format!("{name}_{number}");
        number += 1;
    }
    numbered
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::action::{Registry, definition::input_schema, document::write_entry, schema::Ports};
    use crate::mcp::declaration::{self, Describe};

    fn tool(json: Value) -> Tool {
        serde_json::from_value(json).expect("a tool")
    }

    #[test]
    fn what_a_tool_takes_is_what_its_action_takes() {
        let check = |schema: Value| {
            let tool = tool(json!({"name": "t", "inputSchema": schema}));
            let taken = TakenTool::new(&tool, "").expect("taken");
            let again = input_schema(taken.schema());
            assert_eq!(again, schema);
        };
        check(json!({"type": "object", "properties": {}}));
        check(json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "Where."},
            "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "mode": {"enum": ["a", 7]},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {}]},
        }, "required": ["path"]}));
    }

    #[test]
    fn a_schema_that_cannot_be_split_is_one_input() {
        let check = |schema: Value, expected: &[&str]| {
            let tool = tool(json!({"name": "t", "inputSchema": schema}));
            let taken = TakenTool::new(&tool, "").expect("taken");
            let names: Vec<&str> = taken.schema().inputs().iter().map(Port::name).collect();
            assert_eq!(names, expected, "{schema}");
        };
        let one = json!({"a": {"type": "string"}});
        check(json!({"type": "object", "properties": one}), &["a"]);
        check(json!({"type": "object", "properties": one, "oneOf": [{}]}), &["arguments"]);
        check(json!({"type": "object", "additionalProperties": true}), &["arguments"]);
        check(json!({"type": "object", "properties": {"a.b": {}, "a b": {}}}), &["a_b", "a_b_2"]);
    }

    #[test]
    fn names_are_as_near_as_they_can_be() {
        let check = |name: &str, expected: &str| {
            let tool = tool(json!({"name": name, "inputSchema": {"type": "object"}}));
            let taken = TakenTool::new(&tool, "").expect("taken");
            assert_eq!(taken.schema().name().as_str(), expected);
        };
        check("read_file", "read_file");
        check("fs/read.file", "fs_read_file");
        check("-x-", "x");
        check("__private", "_private");
        check("!!!", "tool");
    }

    #[test]
    fn a_served_action_comes_back_as_it_was() {
        let registry = Registry::new();
        let schema = ActionSchema::builder("counted")
            .describe("Counts.")
            .input(Port::text("text").required())
            .input(Port::text("parts").stream())
            .output(Port::text("words").stream())
            .output(Port::of("frame", "image/png"))
            .header("x-tenant", "whose", None)
            .map("words", "w");
        registry.declare(schema.build()).expect("declared");
        let entry = registry.entry("counted").expect("there");
        let taken =
            TakenTool::new(&declaration::tool(&entry, Describe::Action), "").expect("taken");
        let written = |schema| write_entry(schema, Runnable::Yes, Ports::All);
        assert_eq!(written(taken.schema()), written(entry.schema()));
        let prefixed = TakenTool::new(&declaration::tool(&entry, Describe::Action), "far_");
        assert_eq!(prefixed.expect("taken").schema().name().as_str(), "far_counted");
    }

    #[test]
    fn definitions_follow_the_properties_that_refer_to_them() {
        let tool = tool(json!({"name": "t", "inputSchema": {"type": "object",
            "properties": {"trees": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            "$defs": {"Tree": {"type": "object", "properties": {
                "left": {"$ref": "#/$defs/Tree"}}}}}}));
        let taken = TakenTool::new(&tool, "").expect("taken");
        let [port] = taken.schema().inputs() else { panic!("one input") };
        assert!(port.value_schema().expect("a schema").raw().get().contains("\"Tree\""));
    }
}
