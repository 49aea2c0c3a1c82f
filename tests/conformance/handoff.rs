//! `handoff.json`: a conversation some backend produced → the messages that
//! another one is sent.

use std::path::Path;

use a11_grpc::interaction::{
    Interaction,
    backend::{Dialect, convert, parse_backend},
    portable,
};
use serde_json::{Map, Value};

use crate::tally::{self, Tally};

const FILE: &str = "handoff.json";

pub fn run(dir: &Path, tally: &mut Tally) {
    for case in tally::cases(dir, FILE) {
        for (backend, expected) in case["messages"].as_object().unwrap_or(&Map::new()) {
            let name = format!("{FILE} {} to {backend}", case["name"]);
            tally.check(&name, check(&case["interactions"], backend, expected));
        }
    }
}

fn check(history: &Value, backend: &str, expected: &Value) -> Result<(), String> {
    let history: Vec<Interaction> = history
        .as_array()
        .ok_or("the case has no interactions")?
        .iter()
        .map(|json| portable::from_json(json.to_string().as_bytes()))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let backend = parse_backend(backend).map_err(|error| error.to_string())?;
    let dialect = Dialect::default_of(backend).ok_or("no dialect")?;
    let messages: Vec<Value> = convert(&history, dialect)
        .messages
        .iter()
        .map(|message| serde_json::from_str(message))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    tally::same(&Value::Array(messages), expected)
}
