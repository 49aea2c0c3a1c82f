//! The fixture actions as they are served to clients of other makers: with one more
//! that tells which headers its call had, all of which a client may set.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::mcp::{McpOptions, request_headers::Accepted};
use a11_grpc::wire::{Chunk, headers};

/// Serves them, each call within `deadline` where there is one.
pub fn options(registry: Arc<Registry>, deadline: Option<Duration>) -> McpOptions {
    let schema = ActionSchema::builder("headers_seen")
        .header("x-tenant", "", None)
        .header("n", "", None)
        .output(Port::json("seen"))
        .build();
    let run = handler(|context: Context| async move {
        let seen: BTreeMap<&str, String> = context
            .headers()
            .iter()
            .filter(|(name, _)| *name != headers::DEADLINE)
            .map(|(name, value)| (name, String::from_utf8_lossy(value).into_owned()))
            .collect();
        context.write_chunk("seen", Chunk::json(&seen).expect("JSON")).await
    });
    registry.register(schema, run).expect("registered");
    let mut options = McpOptions::new(registry);
    options.accept_headers = Accepted::new(&[".*"]).expect("a pattern");
    options.deadline = deadline.unwrap_or(options.deadline);
    options
}
