//! `normalize.json`: a turn in a provider's shape → its parts in none.

use std::path::Path;

use a11_grpc::interaction::{backend, portable};
use serde_json::Value;

use crate::tally::{self, Tally};

const FILE: &str = "normalize.json";

pub fn run(dir: &Path, tally: &mut Tally) {
    for case in tally::cases(dir, FILE) {
        let name = format!("{FILE} {}", case["name"]);
        tally.check(&name, check(&case));
    }
}

fn check(case: &Value) -> Result<(), String> {
    let interaction = portable::from_json(case["interaction"].to_string().as_bytes())
        .map_err(|error| error.to_string())?;
    let written = serde_json::to_value(backend::normalize(&interaction))
        .map_err(|error| error.to_string())?;
    tally::same(&written, &case["normalized"])
}
