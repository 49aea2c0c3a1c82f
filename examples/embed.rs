//! A program of its own that runs a model's tool calls, without any server: two
//! actions, one typed and one that streams, and a recorded reply that calls both.
//!
//!     cargo run --example embed

use std::{error::Error, sync::Arc};

use a11_grpc::action::{ActionSchema, Context, Port, RegisterError, Registry, Scope, handler};
use a11_grpc::interaction::Interaction;
use a11_grpc::runner::{AllowList, Plan, Request, execute};
use a11_grpc::wire::{Chunk, Code, Status};

/// What a provider answered: it asks for `word_count`, which is not allowed here,
/// `order_status` of an order that is not there, and `disk_usage`.
const REPLY: &str = include_str!("replies/openai_chat.json");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::new();
    add_order_status(&registry)?;
    add_disk_usage(&registry)?;
    let registry = Arc::new(registry);

    let request = Request {
        interaction: Interaction {
            content: vec![Chunk::new("application/json", REPLY)],
            ..Interaction::default()
        },
        // From this program's own policy, never from what a model wrote.
        allow_list: AllowList::new(["order_status", "disk_usage"])?,
        ..Request::default()
    };
    let plan = Plan::new(&registry, request)?;
    let round = execute(&Scope::root(registry), plan, None).await;

    for call in &round.results {
        eprintln!("{}: {}", call.name, call.status);
        eprint!("{}", call.log);
    }
    // Append these to the conversation and ask the model again.
    println!("[{}]", round.messages.join(",\n "));
    Ok(())
}

/// The arguments of `order_status`: each field becomes an input.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// The order's number, such as A-1001.
    order_id: String,
}

/// A typed function: a struct in, a value out, or the failure the model is told.
fn add_order_status(registry: &Registry) -> Result<(), RegisterError> {
    registry.register_function(
        ActionSchema::builder("order_status").describe("What has become of an order."),
        |Order { order_id }: Order, context: Context| async move {
            context.log(format!("Looking up {order_id}.\n"));
            match order_id.as_str() {
                "A-1001" => Ok("shipped on Monday, arrives Thursday".to_owned()),
                _ => Err(Status::handler(Code::NotFound, format!("no order {order_id}"))),
            }
        },
    )
}

/// Ports by hand: a line a file, put out one by one while the action runs.
fn add_disk_usage(registry: &Registry) -> Result<(), RegisterError> {
    registry.register(
        ActionSchema::builder("disk_usage")
            .describe("How large the files of a directory are.")
            .input(Port::text("path").required().describe("The directory."))
            .output(Port::text("lines").stream().describe("Size in bytes, and name."))
            .build(),
        handler(|context: Context| async move {
            let path: String = context.read("path").await?;
            let unreadable = |error: std::io::Error| {
                Status::handler(Code::FailedPrecondition, format!("{path}: {error}"))
            };
            let mut entries = tokio::fs::read_dir(&path).await.map_err(unreadable)?;
            while let Some(entry) = entries.next_entry().await.map_err(unreadable)? {
                let size = entry.metadata().await.map_err(unreadable)?.len();
                let line = format!("{size} {}", entry.file_name().to_string_lossy());
                context.write("lines", &line).await?;
            }
            context.output("lines")?.finish().await
        }),
    )
}
