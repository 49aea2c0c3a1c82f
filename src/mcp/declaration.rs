//! An action as a tool: name, schemas, and the action's own document in `_meta`.

use std::sync::Arc;

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::Value;

use crate::action::{
    ActionSchema, Definition, Entry, Port, definition::output_schema_of, document, schema::Ports,
};
use crate::wire::chunk::Kind;

/// The key of a tool's `_meta` that holds its action's document.
pub const ACTION_KEY: &str = "to.a11/action";

/// What a tool says of itself beside what every MCP client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Describe {
    /// The action's document, so that an A11 client restores its ports.
    #[default]
    Action,
    /// Nothing.
    Nothing,
}

/// The tool of an action.
pub fn tool(entry: &Entry, describe: Describe) -> Tool {
    let schema = entry.schema();
    let Definition { name, description, input_schema } = Definition::of(schema);
    let description = description.map(|text| text.to_owned().into());
    let mut tool = Tool::new_with_raw(name.into_owned(), description, Arc::new(input_schema));
    tool.output_schema = declared_result(schema).map(Arc::new);
    if schema.is_idempotent() {
        tool.annotations = Some(ToolAnnotations::new().idempotent(true));
    }
    if describe == Describe::Action {
        let document = document::write_entry(schema, entry.runnable(), Ports::Callable);
        let document = serde_json::from_str(&document).unwrap_or_default();
        tool.meta = Some(MetaObject::from(JsonObject::from_iter([(ACTION_KEY.into(), document)])));
    }
    tool
}

/// Whether a tool says what its structured result looks like.
pub(super) fn has_output_schema(schema: &ActionSchema) -> bool {
    declared_result(schema).is_some()
}

fn declared_result(schema: &ActionSchema) -> Option<JsonObject> {
    object_schema(output_schema_of(schema, stays))
}

/// Whether a port's values stay in the result document: pictures and sound are
/// content blocks instead.
fn stays(port: &Port) -> bool {
    !matches!(port.kind(), Kind::Image | Kind::Audio)
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// The schema, if all it describes are objects: hosts take no other at the root.
fn object_schema(schema: Value) -> Option<JsonObject> {
    let mut schema = object(schema);
    if !is_object(&schema, &schema, 0) {
        return None;
    }
    // Hosts look for the type here, not where a reference leads.
    schema.entry("type").or_insert_with(|| "object".into());
    Some(schema)
}

/// How many references are followed to find a type.
const MAX_REFERENCES: usize = 16;

fn is_object(schema: &JsonObject, root: &JsonObject, followed: usize) -> bool {
    if let Some(kind) = schema.get("type") {
        return kind == "object";
    }
    let target = schema.get("$ref").and_then(Value::as_str);
    let definition = target
        .and_then(|target| target.strip_prefix("#/$defs/"))
        .and_then(|name| root.get("$defs")?.get(name)?.as_object());
    followed < MAX_REFERENCES
        && definition.is_some_and(|definition| is_object(definition, root, followed + 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::action::{Registry, schema::Builder};

    fn declared(schema: Builder) -> Value {
        let registry = Registry::new();
        registry.declare(schema.build()).expect("valid");
        let entry = registry.entries(None).remove(0);
        serde_json::to_value(tool(&entry, Describe::Nothing)).expect("JSON")
    }

    #[test]
    fn only_a_result_that_is_an_object_has_a_schema() {
        let check = |output: Port, expected: Value| {
            let schema = ActionSchema::builder("a").output(output).map("o", "$");
            assert_eq!(declared(schema)["outputSchema"], expected);
        };
        check(Port::text("o"), Value::Null);
        check(Port::json("o"), Value::Null);
        check(Port::json("o").schema("true"), Value::Null);
        check(Port::json("o").schema(r#"{"type":["object","null"]}"#), Value::Null);
        check(Port::json("o").schema(r#"{"type":"object"}"#).stream(), Value::Null);
        check(Port::json("o").schema(r#"{"type":"object"}"#), json!({"type": "object"}));
        let tree = r##"{"type":"object","properties":{"next":{"$ref":"#"}}}"##;
        check(
            Port::json("o").schema(tree),
            json!({"type": "object", "$ref": "#/$defs/o", "$defs": {"o":
                {"type": "object", "properties": {"next": {"$ref": "#/$defs/o"}}}}}),
        );
    }

    #[test]
    fn pictures_and_sound_leave_the_schema_and_long_names_are_cut() {
        let schema = ActionSchema::builder("x#y")
            .output(Port::of("frame", "image/png"))
            .output(Port::of("clip", "audio/wav").stream())
            .output(Port::text("title"))
            .idempotent();
        let tool = declared(schema);
        assert_eq!(tool["name"], "x_y_5a1b4a82c87e");
        assert_eq!(
            tool["outputSchema"],
            json!({"type": "object", "properties": {"title": {"type": "string"}}})
        );
        assert_eq!(tool["annotations"], json!({"idempotentHint": true}));
        assert_eq!(tool.get("_meta"), None);
    }
}
