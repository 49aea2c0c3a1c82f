//! Actions as what a provider's request has under `tools`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Dialect, result::written};
use crate::action::{ActionSchema, Definition};

/// An action as a provider is told of it, one JSON text: an element of what
/// [`tools`] puts together.
///
/// - Claude: `name`, `description`, `input_schema`;
/// - gpt and vLLM chat, and Ollama: `{"type": "function", "function": {…}}` of
///   `name`, `description`, `parameters`; the older functions: that inner object;
/// - OpenAI Responses, and Codex: `type`, `name`, `description`, `parameters`, and
///   `strict` false, without which every optional input would be refused;
/// - Gemini Interactions: `type`, `name`, `description`, `parameters`;
///   generateContent: `name`, `description`, `parametersJsonSchema`. Gemini takes
///   a function without inputs only where it has no schema;
/// - Claude Code: a tool of MCP, `name`, `description`, `inputSchema`.
///
/// `description` is absent where the action has none.
pub fn declaration(dialect: Dialect, action: &ActionSchema) -> String {
    let Definition { name, description, input_schema } = Definition::of(action);
    let schema = &input_schema;
    let inputs = match dialect {
        Dialect::Claude => Inputs::Claude(schema),
        Dialect::ClaudeCode => Inputs::Mcp(schema),
        Dialect::GeminiInteractions | Dialect::GeminiGenerateContent if takes_nothing(schema) => {
            Inputs::Nothing {}
        }
        Dialect::GeminiGenerateContent => Inputs::GenerateContent(schema),
        Dialect::Codex
        | Dialect::GeminiInteractions
        | Dialect::GptChat
        | Dialect::GptFunctions
        | Dialect::GptResponses
        | Dialect::Ollama
        | Dialect::Vllm => Inputs::Parameters(schema),
    };
    let tool = Tool { name: &name, description, inputs };
    match dialect {
        Dialect::Claude
        | Dialect::ClaudeCode
        | Dialect::GeminiGenerateContent
        | Dialect::GptFunctions => written(&tool),
        Dialect::GeminiInteractions => written(&Typed { tool, strict: None }),
        Dialect::Codex | Dialect::GptResponses => written(&Typed { tool, strict: Some(false) }),
        Dialect::GptChat | Dialect::Ollama | Dialect::Vllm => written(&Nested { function: tool }),
    }
}

/// The elements of a request's `tools` (of the older OpenAI functions: its
/// `functions`), each one JSON text, out of [declarations](declaration) of the
/// same dialect. All but generateContent have an element a declaration; there one
/// tool has them all, as its `functionDeclarations`.
pub fn tools(dialect: Dialect, declarations: Vec<String>) -> Vec<String> {
    if dialect != Dialect::GeminiGenerateContent || declarations.is_empty() {
        return declarations;
    }
    vec![format!(r#"{{"functionDeclarations":[{}]}}"#, declarations.join(","))]
}

fn takes_nothing(schema: &Map<String, Value>) -> bool {
    schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty)
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(flatten)]
    inputs: Inputs<'a>,
}

/// The arguments' schema, under the key that the provider has for it.
#[derive(Serialize)]
enum Inputs<'a> {
    #[serde(rename = "input_schema")]
    Claude(&'a Map<String, Value>),
    #[serde(rename = "inputSchema")]
    Mcp(&'a Map<String, Value>),
    #[serde(rename = "parameters")]
    Parameters(&'a Map<String, Value>),
    #[serde(rename = "parametersJsonSchema")]
    GenerateContent(&'a Map<String, Value>),
    #[serde(untagged)]
    Nothing {},
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Typed<'a> {
    #[serde(flatten)]
    tool: Tool<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Nested<'a> {
    function: Tool<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Port;

    fn action() -> ActionSchema {
        let node = r##"{"type":"object","properties":{"next":{"$ref":"#"}}}"##;
        ActionSchema::builder("text#find")
            .describe("Finds a word.")
            .input(Port::text("word").describe("Which.").required())
            .input(Port::json("list").schema(node))
            .build()
            .expect("valid")
    }

    #[test]
    fn each_provider_is_told_of_an_action_in_its_own_shape() {
        let schema = concat!(
            r#"{"type":"object","properties":{"word":{"type":"string","description":"Which."},"#,
            r##""list":{"$ref":"#/$defs/list"}},"$defs":{"list":{"type":"object","##,
            r##""properties":{"next":{"$ref":"#/$defs/list"}}}},"required":["word"]}"##,
        );
        let about = r#""name":"text_find_714f628cf383","description":"Finds a word.""#;
        let check = |dialect: Dialect, expected: &str| {
            let expected = expected.replace("ABOUT", about).replace("SCHEMA", schema);
            assert_eq!(declaration(dialect, &action()), expected, "{dialect:?}");
        };
        let chat = r#"{"type":"function","function":{ABOUT,"parameters":SCHEMA}}"#;
        let responses = r#"{"type":"function",ABOUT,"parameters":SCHEMA,"strict":false}"#;
        check(Dialect::Claude, r#"{ABOUT,"input_schema":SCHEMA}"#);
        check(Dialect::ClaudeCode, r#"{ABOUT,"inputSchema":SCHEMA}"#);
        check(Dialect::Codex, responses);
        check(Dialect::GeminiInteractions, r#"{"type":"function",ABOUT,"parameters":SCHEMA}"#);
        check(Dialect::GeminiGenerateContent, r#"{ABOUT,"parametersJsonSchema":SCHEMA}"#);
        check(Dialect::GptChat, chat);
        check(Dialect::GptFunctions, r#"{ABOUT,"parameters":SCHEMA}"#);
        check(Dialect::GptResponses, responses);
        check(Dialect::Ollama, chat);
        check(Dialect::Vllm, chat);
    }

    #[test]
    fn an_action_that_says_and_takes_nothing_is_a_tool_all_the_same() {
        let action = ActionSchema::builder("now").build().expect("valid");
        let empty = r#"{"type":"object","properties":{}}"#;
        let check = |dialect: Dialect, expected: &str| {
            let expected = expected.replace("EMPTY", empty);
            assert_eq!(declaration(dialect, &action), expected, "{dialect:?}");
        };
        let chat = r#"{"type":"function","function":{"name":"now","parameters":EMPTY}}"#;
        check(Dialect::Claude, r#"{"name":"now","input_schema":EMPTY}"#);
        check(Dialect::GptChat, chat);
        check(Dialect::Ollama, chat);
        check(Dialect::GeminiInteractions, r#"{"type":"function","name":"now"}"#);
        check(Dialect::GeminiGenerateContent, r#"{"name":"now"}"#);
    }

    #[test]
    fn generate_content_has_all_functions_in_one_tool() {
        let check = |dialect, declarations: &[&str], expected: &[&str]| {
            let declarations = declarations.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(tools(dialect, declarations), expected);
        };
        check(Dialect::Claude, &["1", "2"], &["1", "2"]);
        check(Dialect::GeminiGenerateContent, &["1", "2"], &[r#"{"functionDeclarations":[1,2]}"#]);
        check(Dialect::GeminiGenerateContent, &[], &[]);
    }
}
