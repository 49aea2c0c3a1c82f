//! The fixture actions of the conformance cases, written once.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::{sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler, schema::Builder};
use a11_grpc::wire::{Chunk, Code, Status, base64, status::code_of_name};
use futures::StreamExt as _;
use serde_json::{Number, Value, json};

const FRAME: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaPgPAAJjAaB56d6tAAAAAElFTkSuQmCC";
const FRAME2: &str = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGNQaPgPRAAJogM/KPz0VQAAAABJRU5ErkJggg==";
const CLIP: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

fn action(name: &str, description: &str) -> Builder {
    ActionSchema::builder(name).describe(description)
}

fn text(name: &str) -> Port {
    Port::text(name)
}

fn json_port(name: &str, schema: &str) -> Port {
    Port::json(name).schema(schema)
}

fn media(media_type: &str, encoded: &str) -> Chunk {
    Chunk::new(media_type, base64::decode(encoded).expect("base64"))
}

/// A registry with every fixture action.
///
/// # Panics
/// Where one is refused.
pub fn registry() -> Arc<Registry> {
    let registry = Registry::new();
    texts(&registry);
    documents(&registry);
    pictures(&registry);
    failures(&registry);
    numbers(&registry);
    Arc::new(registry)
}

fn texts(registry: &Registry) {
    let schema = action("echo", "Echo a word back.")
        .input(text("word").required().describe("What to say."))
        .output(text("echoed").required());
    let run = |context: Context| async move {
        let word: String = context.read("word").await?;
        context.write("echoed", &word).await
    };
    registry.register(schema.build(), handler(run)).expect("echo");

    let schema = action("split_words", "Emit the words of a line.")
        .input(text("text").required())
        .output(text("words").stream());
    let run = |context: Context| async move {
        let text: String = context.read("text").await?;
        for word in text.split_whitespace() {
            context.write("words", word).await?;
        }
        context.output("words")?.finish().await
    };
    registry.register(schema.build(), handler(run)).expect("split_words");

    let schema = action("counted", "Words of a line and their number.")
        .input(text("text").required())
        .input(text("parts").stream().describe("Extra parts."))
        .output(text("words").stream())
        .output(json_port("total", r#"{"type":"integer"}"#));
    let run = |context: Context| async move {
        let text: String = context.read("text").await?;
        let mut total = 0;
        for word in text.split_whitespace() {
            context.write("words", word).await?;
            total += 1;
        }
        let mut parts = context.read_stream::<String>("parts")?;
        while let Some(part) = parts.next().await {
            context.write("words", &part?).await?;
            total += 1;
        }
        context.output("words")?.finish().await?;
        context.write("total", &total).await
    };
    registry.register(schema.build(), handler(run)).expect("counted");

    let schema = action("narrate", "Log, then answer.")
        .input(text("topic").required())
        .output(text("result"));
    let run = |context: Context| async move {
        let topic: String = context.read("topic").await?;
        context.log(format!("Looked up {topic}.\n\n2 lines of output."));
        context.log_internal("resolved the shell");
        context.log(" Then summarised it.");
        context.write("result", &topic.to_uppercase()).await
    };
    registry.register(schema.build(), handler(run)).expect("narrate");

    let schema = action("who_am_i", "Uses an input the caller cannot set.")
        .input(text("question").required())
        .input(text("user_id").required().autofill(vec![Chunk::text("user-7")]))
        .output(text("answer"));
    let run = |context: Context| async move {
        let question: String = context.read("question").await?;
        let user: String = context.read("user_id").await?;
        context.write("answer", &format!("{question} {user}")).await
    };
    registry.register(schema.build(), handler(run)).expect("who_am_i");

    let schema = action("unicode_keys", "Reverse a text by code point.")
        .input(text("text").required())
        .output(text("reversed_text"));
    let run = |context: Context| async move {
        let text: String = context.read("text").await?;
        context.write("reversed_text", &text.chars().rev().collect::<String>()).await
    };
    registry.register(schema.build(), handler(run)).expect("unicode_keys");

    let schema = action("no_outputs", "Returns nothing.").input(text("word"));
    let run = |context: Context| async move {
        context.read_optional::<String>("word").await?;
        Ok(())
    };
    registry.register(schema.build(), handler(run)).expect("no_outputs");

    let schema =
        action("leaves_open", "Never finalizes its output.").output(text("words").stream());
    let run = |context: Context| async move {
        context.write("words", "one").await?;
        context.write("words", "two").await
    };
    registry.register(schema.build(), handler(run)).expect("leaves_open");
}

fn documents(registry: &Registry) {
    let schema = action("order_status", "Status of an order.")
        .input(text("order_id").required())
        .output(text("status"))
        .output(text("debug"))
        .map("status", "order_status");
    let run = |context: Context| async move {
        let id: String = context.read("order_id").await?;
        context.write("debug", "looked at shard 3").await?;
        context.write("status", &format!("{id}: delayed")).await
    };
    registry.register(schema.build(), handler(run)).expect("order_status");

    let result =
        r#"{"properties":{"hits":{"type":"integer"},"q":{"type":"string"}},"type":"object"}"#;
    let schema = action("whole_document", "The whole result is one document.")
        .input(text("query").required())
        .output(json_port("result", result))
        .map("result", "$");
    let run = |context: Context| async move {
        let query: String = context.read("query").await?;
        context.write("result", &json!({"q": query, "hits": 2})).await
    };
    registry.register(schema.build(), handler(run)).expect("whole_document");

    let schema = action("whole_string", "")
        .input(text("query").required())
        .output(text("result"))
        .map("result", "$");
    let run = |context: Context| async move {
        let query: String = context.read("query").await?;
        context.write("result", &format!("answer to {query}")).await
    };
    registry.register(schema.build(), handler(run)).expect("whole_string");

    let strings = r#"{"items":{"type":"string"},"type":"array"}"#;
    let schema = action("options", "One array value on a unary port.")
        .input(json_port("options", strings).required())
        .output(json_port("count", r#"{"type":"integer"}"#));
    let run = |context: Context| async move {
        let options: Vec<String> = context.read("options").await?;
        context.write("count", &options.len()).await
    };
    registry.register(schema.build(), handler(run)).expect("options");

    let schema = action("describe_object", "Sorted keys of an object.")
        .input(Port::json("thing").required())
        .output(json_port("keys", strings));
    let run = |context: Context| async move {
        let thing: std::collections::BTreeMap<String, Value> = context.read("thing").await?;
        context.write("keys", &thing.keys().collect::<Vec<_>>()).await
    };
    registry.register(schema.build(), handler(run)).expect("describe_object");

    let schema = action("schema_only", "Lives on another peer.").input(text("x")).output(text("y"));
    registry.declare(schema.build()).expect("schema_only");
}

fn pictures(registry: &Registry) {
    let schema = action("picture", "A picture and its legend.")
        .input(text("caption").required())
        .output(Port::of("frame", "image/png"))
        .output(Port::json("legend"));
    let run = |context: Context| async move {
        let caption: String = context.read("caption").await?;
        context.write_chunk("frame", media("image/png", FRAME)).await?;
        context.write("legend", &json!({"caption": caption, "floor_index": 0})).await
    };
    registry.register(schema.build(), handler(run)).expect("picture");

    let schema =
        action("picture_only", "Nothing but a picture.").output(Port::of("frame", "image/png"));
    let run = |context: Context| async move {
        context.write_chunk("frame", media("image/png", FRAME)).await
    };
    registry.register(schema.build(), handler(run)).expect("picture_only");

    let schema = action("two_pictures", "Two frames on one port.")
        .output(Port::of("frames", "image/png").stream());
    let run = |context: Context| async move {
        context.write_chunk("frames", media("image/png", FRAME)).await?;
        context.write_chunk("frames", media("image/png", FRAME2)).await?;
        context.output("frames")?.finish().await
    };
    registry.register(schema.build(), handler(run)).expect("two_pictures");

    let schema = action("sound", "A sound and its title.")
        .output(Port::of("clip", "audio/wav"))
        .output(text("title"));
    let run = |context: Context| async move {
        context.write_chunk("clip", media("audio/wav", CLIP)).await?;
        context.write("title", "beep").await
    };
    registry.register(schema.build(), handler(run)).expect("sound");

    let schema = action("raw_bytes", "Bytes that are not UTF-8.")
        .output(Port::of("blob", "application/octet-stream"))
        .output(text("note"));
    let run = |context: Context| async move {
        let blob = Chunk::new("application/octet-stream", vec![0xff, 0xfe, 0, 0x10, 0x3e, 0x3f]);
        context.write_chunk("blob", blob).await?;
        context.write("note", "six bytes").await
    };
    registry.register(schema.build(), handler(run)).expect("raw_bytes");
}

fn failures(registry: &Registry) {
    let schema = action("fail_with", "Fail on purpose.")
        .input(text("code").required())
        .input(text("message"))
        .output(text("never"));
    let run = |context: Context| async move {
        let code: String = context.read("code").await?;
        let message: Option<String> = context.read_optional("message").await?;
        Err(Status::handler(
            code_of_name(&code).unwrap_or(Code::Unknown),
            message.unwrap_or_default(),
        ))
    };
    registry.register(schema.build(), handler(run)).expect("fail_with");

    let schema = action("partial_then_fail", "One value, then a failure.")
        .input(text("word").required())
        .output(text("words").stream());
    let run = |context: Context| async move {
        let word: String = context.read("word").await?;
        context.write("words", &word).await?;
        Err(Status::handler(Code::DataLoss, "disk went away"))
    };
    registry.register(schema.build(), handler(run)).expect("partial_then_fail");

    let schema = action("slow", "Wait, then answer.")
        .input(json_port("millis", r#"{"type":"integer"}"#).required())
        .output(text("done"));
    let run = |context: Context| async move {
        let millis: u64 = context.read("millis").await?;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        context.write("done", "done").await
    };
    registry.register(schema.build(), handler(run)).expect("slow");
}

fn numbers(registry: &Registry) {
    let schema = action("big", "A result of a given size.")
        .input(json_port("bytes", r#"{"type":"integer"}"#).required())
        .output(text("data"));
    let run = |context: Context| async move {
        let bytes: usize = context.read("bytes").await?;
        context.write("data", &"x".repeat(bytes)).await
    };
    registry.register(schema.build(), handler(run)).expect("big");

    let number = r#"{"type":"number"}"#;
    let schema = action("sum_numbers", "Add numbers.")
        .input(json_port("numbers", number).stream().required())
        .output(json_port("total", number));
    let run = |context: Context| async move {
        let mut numbers = context.read_stream::<Number>("numbers")?;
        let (mut whole, mut total, mut all_whole) = (0_i64, 0.0, true);
        while let Some(number) = numbers.next().await {
            let number = number?;
            total += number.as_f64().unwrap_or_default();
            match number.as_i64() {
                Some(number) => whole += number,
                None => all_whole = false,
            }
        }
        let total = if all_whole { json!(whole) } else { json!(total) };
        context.write("total", &total).await
    };
    registry.register(schema.build(), handler(run)).expect("sum_numbers");
}
