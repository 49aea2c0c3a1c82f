//! A tool's result as the outputs of the action it became.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::Value;

use super::{
    result::PORT_KEY,
    taken_tool::{CONTENT, Results, STRUCTURED_CONTENT, TEXT, TakenTool},
};
use crate::action::{Port, port::Cardinality, schema::Field};
use crate::wire::chunk::Kind;
use crate::wire::status::code_of_name;
use crate::wire::{Chunk, Code, Status, base64, json_weight};

/// What a result puts on each output, by its name, in order.
///
/// # Errors
/// What the tool failed with: the code that an A11 server names in its text,
/// else UNKNOWN. UNKNOWN too where a value does not fit its port.
pub(super) fn outputs(
    taken: &TakenTool,
    result: CallToolResult,
) -> Result<Vec<(String, Chunk)>, Status> {
    let CallToolResult { content, structured_content, is_error, .. } = result;
    if is_error == Some(true) {
        return Err(failure(taken, &content));
    }
    match taken.results {
        Results::Blocks => blocks(content, structured_content),
        Results::Ports => ports(taken, content, structured_content),
    }
}

fn failure(taken: &TakenTool, content: &[ContentBlock]) -> Status {
    let texts = content.iter().filter_map(ContentBlock::as_text).map(|block| &*block.text);
    let text = texts.collect::<Vec<_>>().join("\n");
    let named = (taken.results == Results::Ports)
        .then(|| text.split_once(": "))
        .flatten()
        .and_then(|(code, message)| Some((code_of_name(code)?, message)))
        .filter(|(code, _)| *code != Code::Ok);
    match named {
        Some((code, message)) => Status::handler(code, message),
        None if text.trim().is_empty() => Status::handler(
            Code::Unknown,
            format!("the tool {:?} failed without a word", taken.tool),
        ),
        None => Status::handler(Code::Unknown, text),
    }
}

fn unfit(error: impl std::fmt::Display) -> Status {
    Status::handler(Code::Unknown, format!("the tool's result does not fit: {error}"))
}

/// Blocks as they are: what no port was declared for.
fn blocks(
    content: Vec<ContentBlock>,
    structured: Option<Value>,
) -> Result<Vec<(String, Chunk)>, Status> {
    let mut outputs = vec![];
    for block in content {
        outputs.push(match block {
            ContentBlock::Text(text) => (TEXT.to_owned(), Chunk::text(text.text)),
            block => (CONTENT.to_owned(), Chunk::json(&block).map_err(unfit)?),
        });
    }
    if let Some(structured) = structured {
        outputs.push((STRUCTURED_CONTENT.to_owned(), Chunk::json(&structured).map_err(unfit)?));
    }
    Ok(outputs)
}

/// The outputs that the server's action declared.
fn ports(
    taken: &TakenTool,
    content: Vec<ContentBlock>,
    structured: Option<Value>,
) -> Result<Vec<(String, Chunk)>, Status> {
    let mut outputs = vec![];
    let mut texts = vec![];
    for block in content {
        let (meta, data, media_type) = match block {
            ContentBlock::Image(image) => (image.meta, image.data, image.mime_type),
            ContentBlock::Audio(audio) => (audio.meta, audio.data, audio.mime_type),
            ContentBlock::Text(text) => {
                texts.push(text.text);
                continue;
            }
            _ => continue,
        };
        let port = meta.as_ref().and_then(port_of).filter(|port| has_output(taken, port));
        if let Some(port) = port {
            let bytes = base64::decode(&data).map_err(unfit)?;
            outputs.push((port.to_owned(), Chunk::new(media_type, bytes)));
        }
    }
    for port in taken.schema.outputs() {
        let value = match taken.schema.field_of(port) {
            Field::Dropped => continue,
            // A string that is the whole result came as text.
            Field::Whole => structured.clone().or_else(|| texts.first().map(|t| whole(port, t))),
            Field::Named(field) => {
                structured.as_ref().and_then(|document| document.get(field)).cloned()
            }
        };
        let values = match (port.cardinality(), value) {
            (_, None) => continue,
            (Cardinality::Stream, Some(Value::Array(values))) => values,
            (_, Some(value)) => vec![value],
        };
        for value in values {
            outputs.push((port.name().to_owned(), chunk(port, value)?));
        }
    }
    Ok(outputs)
}

fn port_of(meta: &MetaObject) -> Option<&str> {
    meta.get(PORT_KEY).and_then(Value::as_str)
}

fn has_output(taken: &TakenTool, name: &str) -> bool {
    taken.schema.outputs().iter().any(|port| port.name() == name)
}

/// The whole result out of its text: JSON where the port carries JSON.
fn whole(port: &Port, text: &str) -> Value {
    match port.kind() {
        Kind::Json => json_weight::read(text.as_bytes()).unwrap_or_else(|_| text.into()),
        _ => text.into(),
    }
}

fn chunk(port: &Port, value: Value) -> Result<Chunk, Status> {
    match (port.kind(), value) {
        (Kind::Text, Value::String(text)) => Ok(Chunk::new(port.media_type(), text)),
        (Kind::Image | Kind::Audio | Kind::Bytes, Value::String(text)) => {
            Ok(Chunk::new(port.media_type(), base64::decode(&text).map_err(unfit)?))
        }
        (Kind::Json, value) => Ok(Chunk::new(port.media_type(), value.to_string())),
        (_, value) => {
            let start: String = value.to_string().chars().take(100).collect();
            Err(unfit(format!("output {:?}: {start} is not a string", port.name())))
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::Tool;
    use serde_json::json;

    use super::*;

    fn check(tool: Value, result: Value, expected: Result<Value, &str>) {
        let tool: Tool = serde_json::from_value(tool).expect("a tool");
        let taken = TakenTool::new(&tool, "").expect("taken");
        let result: CallToolResult = serde_json::from_value(result).expect("a result");
        let outputs = outputs(&taken, result).map(|outputs| {
            let text = |chunk: &Chunk| String::from_utf8_lossy(chunk.data()).into_owned();
            json!(outputs.iter().map(|(port, chunk)| (port, text(chunk))).collect::<Vec<_>>())
        });
        assert_eq!(outputs.map_err(|status| status.to_string()), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_plain_tool_puts_its_blocks_out() {
        let tool = json!({"name": "t", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"}});
        let image = json!({"type": "image", "data": "cG5n", "mimeType": "image/png"});
        check(
            tool.clone(),
            json!({"content": [{"type": "text", "text": "a"}, image], "structuredContent": {"n": 1}}),
            Ok(json!([
                ["text", "a"],
                ["content", image.to_string()],
                ["structured_content", r#"{"n":1}"#]
            ])),
        );
        let failed =
            json!({"content": [{"type": "text", "text": "NOT_FOUND: x"}], "isError": true});
        check(tool.clone(), failed, Err("UNKNOWN: NOT_FOUND: x"));
        let silent = json!({"content": [], "isError": true});
        check(tool, silent, Err("UNKNOWN: the tool \"t\" failed without a word"));
    }

    #[test]
    fn an_a11_tool_puts_its_own_outputs_out() {
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": {
        "to.a11/action": {"name": "t", "outputs": [
            {"name": "frame", "type": "image/png", "unary": true},
            {"name": "words", "type": "text/plain"},
            {"name": "blob", "type": "application/octet-stream", "unary": true},
        ]}}});
        let frame = json!({"type": "image", "data": "cG5n", "mimeType": "image/png",
            "_meta": {"to.a11/port": "frame"}});
        check(
            tool.clone(),
            json!({"content": [{"type": "text", "text": "{}"}, frame],
                "structuredContent": {"words": ["a", "b"], "blob": "aGk="}}),
            Ok(json!([["frame", "png"], ["words", "a"], ["words", "b"], ["blob", "hi"]])),
        );
        let failed =
            json!({"content": [{"type": "text", "text": "NOT_FOUND: x"}], "isError": true});
        check(tool, failed, Err("NOT_FOUND: x"));
    }
}
