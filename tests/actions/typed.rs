//! Typed functions: their structs as ports, their streams, their results.

use a11_grpc::action::{
    Context, Port, Registry, handler,
    typed::{Incoming, Outgoing},
};
use futures::StreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{action, run};

#[derive(Deserialize, JsonSchema)]
struct Counting {
    /// The first words.
    text: String,
    /// Further parts, as they come.
    parts: Incoming<String>,
    /// At most so many.
    most: Option<u32>,
    #[serde(default)]
    options: Options,
}

#[derive(Deserialize, JsonSchema, Default)]
struct Options {
    #[serde(default)]
    loud: bool,
}

#[derive(Serialize, JsonSchema)]
struct Counted {
    words: Outgoing<String>,
    total: usize,
    note: Option<String>,
}

fn counting() -> Registry {
    let registry = Registry::new();
    let schema = action("count").describe("Counts words.");
    registry
        .register_function(schema, |counting: Counting, context: Context| async move {
            let Counting { text, mut parts, most, options } = counting;
            let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            while let Some(part) = parts.next().await {
                words.push(part?);
            }
            words.truncate(most.unwrap_or(u32::MAX) as usize);
            context.log(format!("{} words", words.len()));
            let total = words.len();
            let words = futures::stream::iter(words);
            let words = Outgoing::new(
                words.map(move |word| if options.loud { word.to_uppercase() } else { word }),
            );
            Ok(Counted { words, total, note: None })
        })
        .expect("registers");
    registry
}

#[tokio::test]
async fn a_typed_function_has_its_struct_as_ports() {
    let registry = counting();
    let schema = registry.entry("count").expect("registered").schema().clone();
    let inputs = a11_grpc::action::definition::input_schema(&schema);
    assert_eq!(
        inputs,
        serde_json::json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "The first words."},
                "parts": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Further parts, as they come.",
                },
                "most": {
                    "type": "integer",
                    "format": "uint32",
                    "minimum": 0,
                    "description": "At most so many.",
                },
                "options": {
                    "type": "object",
                    "properties": {"loud": {"type": "boolean", "default": false}},
                },
            },
            "required": ["text"],
        })
    );
    let arguments = serde_json::json!({"text": "a b", "parts": ["c"], "options": {"loud": true}});
    let ran = run(registry, "count", arguments).await;
    assert!(ran.status.is_ok(), "{}", ran.status);
    let words: Vec<&str> =
        ran.outputs.iter().filter(|(port, _)| port == "words").map(|(_, word)| &**word).collect();
    assert_eq!(words, ["A", "B", "C"]);
    assert!(ran.outputs.contains(&("total".to_owned(), "3".to_owned())));
    assert_eq!(ran.log, "3 words");
}

#[tokio::test]
async fn a_typed_function_takes_a_stream_while_it_comes() {
    let registry = counting();
    let driver = handler(|context: Context| async move {
        let mut call = context.call("count").argument("text", "a").start()?;
        let mut parts = call.input("parts").expect("open");
        for part in ["b", "c"] {
            parts.send(a11_grpc::wire::Chunk::text(part)).await?;
        }
        call.close_inputs();
        let mut words = call.take_output("words").expect("an output");
        let mut seen = String::new();
        while let Some(piece) = words.next().await? {
            seen.push_str(std::str::from_utf8(piece.chunk().expect("chunk").data()).expect("text"));
        }
        assert!(call.finished().await.is_ok());
        context.write("seen", &seen).await
    });
    let schema = action("driver").output(Port::text("seen"));
    registry.register(schema.build(), driver).expect("registers");
    let ran = run(registry, "driver", serde_json::json!({})).await;
    assert_eq!(ran.outputs, [("seen".to_owned(), "abc".to_owned())], "{}", ran.status);
}

#[tokio::test]
async fn a_result_that_is_no_struct_is_the_whole_result() {
    let registry = Registry::new();
    registry
        .register_function(action("add"), |(): (), _| async { Ok(vec![1, 2]) })
        .expect("registers");
    let schema = registry.entry("add").expect("registered").schema().clone();
    assert_eq!(schema.output_to_json_field()["result"], "$");
    assert!(schema.inputs().is_empty());
    let ran = run(registry, "add", serde_json::json!({})).await;
    assert_eq!(ran.outputs, [("result".to_owned(), "[1,2]".to_owned())]);
}
