//! Actions that hold, break or repeat, beside the fixtures.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::sync::Arc;

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::wire::Chunk;
use futures::StreamExt as _;
use serde_json::Value;

/// A registry with the fixtures and these.
///
/// # Panics
/// Where one is refused.
pub fn registry() -> Arc<Registry> {
    let registry = crate::fixtures::registry();
    register(&registry);
    registry
}

/// Adds the actions to a registry.
///
/// # Panics
/// Where one is refused.
pub fn register(registry: &Registry) {
    let schema = ActionSchema::builder("hang")
        .describe("One word, then nothing more for ever.")
        .input(Port::text("word"))
        .output(Port::text("words").stream());
    let run = |context: Context| async move {
        context.write("words", "first").await?;
        std::future::pending().await
    };
    registry.register(schema.build(), handler(run)).expect("hang");

    let schema = ActionSchema::builder("panic").output(Port::text("never"));
    let run = |_: Context| async move { panic!("boom") };
    registry.register(schema.build(), handler(run)).expect("panic");

    let schema = ActionSchema::builder("say")
        .describe("The same JSON value again.")
        .input(Port::json("value").required())
        .output(Port::json("value"))
        .map("value", "$");
    let run = |context: Context| async move {
        let value = context.read_chunk("value").await?.unwrap_or_else(Chunk::null);
        context.write_chunk("value", value).await
    };
    registry.register(schema.build(), handler(run)).expect("say");

    let schema = ActionSchema::builder("parse")
        .describe("The same JSON value again, read into values and back.")
        .input(Port::json("value").required())
        .output(Port::json("value"))
        .map("value", "$");
    let run = |context: Context| async move {
        let value: Value = context.read("value").await?;
        context.write("value", &value).await
    };
    registry.register(schema.build(), handler(run)).expect("parse");

    let schema = ActionSchema::builder("relay")
        .describe("Each word again as it comes.")
        .input(Port::text("words").stream())
        .output(Port::text("words").stream());
    let run = |context: Context| async move {
        let mut words = context.read_stream::<String>("words")?;
        while let Some(word) = words.next().await {
            context.write("words", &word?).await?;
        }
        context.output("words")?.finish().await
    };
    registry.register(schema.build(), handler(run)).expect("relay");

    let schema = ActionSchema::builder("optional")
        .describe("Whether and how each optional input was given.")
        .input(Port::text("text"))
        .input(Port::json("json"))
        .input(Port::text("texts").stream())
        .output(Port::text("seen"))
        .map("seen", "$");
    let run = |context: Context| async move {
        let text = context.read_optional::<String>("text").await?;
        let json = context.read_optional::<Value>("json").await?;
        let texts = context.read_stream::<String>("texts")?;
        let texts: Vec<_> = texts.map(|text| text.expect("text")).collect().await;
        let json = json.map(|json| json.to_string());
        context.write("seen", &format!("{text:?} {json:?} {texts:?}")).await
    };
    registry.register(schema.build(), handler(run)).expect("optional");
}
