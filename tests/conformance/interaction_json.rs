//! `interaction_json.json`: a portable document → the wire JSON it means.

use std::path::Path;

use a11_grpc::interaction::portable;
use serde_json::Value;

use crate::tally::{self, Tally};

const FILE: &str = "interaction_json.json";

pub fn run(dir: &Path, tally: &mut Tally) {
    for case in tally::cases(dir, FILE) {
        let name = format!("{FILE} {}", case["name"]);
        tally.check(&name, check(&case));
    }
}

fn check(case: &Value) -> Result<(), String> {
    let (input, expected) = match case.get("json") {
        Some(json) => (json, Some(json)),
        None => (&case["input"], case.get("expect")),
    };
    let read = portable::from_json(input.to_string().as_bytes());
    match (read, expected) {
        (Err(_), None) => Ok(()),
        (Err(error), Some(_)) => Err(format!("refused: {error}")),
        (Ok(_), None) => Err("not refused".to_owned()),
        (Ok(interaction), Some(expected)) => {
            let written = portable::to_json(&interaction).map_err(|error| error.to_string())?;
            let written: Value =
                serde_json::from_str(&written).map_err(|error| error.to_string())?;
            tally::same(&written, expected)?;
            let keys = |value: &Value| -> Vec<String> {
                value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
            };
            if keys(&written) == keys(expected) {
                Ok(())
            } else {
                Err(format!("keys stand in the order {:?}", keys(&written)))
            }
        }
    }
}
