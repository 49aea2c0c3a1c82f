//! `definitions.json`: the document of the fixture registry, and what a model is
//! told of each action.

use std::{fs, path::Path};

use a11_grpc::action::{Entry, definition, document, schema::Ports};
use serde_json::{Value, json};

use crate::fixtures;
use crate::tally::{Tally, same};

pub fn run(dir: &Path, tally: &mut Tally) {
    let recorded = fs::read_to_string(dir.join("definitions.json")).expect("definitions.json");
    let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
    let registry = fixtures::registry();

    let written = document::write(&registry.entries(None), Ports::Callable);
    let written: Value = serde_json::from_str(&written).expect("a document");
    for expected in recorded["document"]["actions"].as_array().expect("actions") {
        let actions = written["actions"].as_array().expect("actions");
        let name = &expected["name"];
        let actual = actions.iter().find(|action| action["name"] == *name).unwrap_or(&Value::Null);
        tally.check(&format!("document {name}"), same(actual, expected));
    }
    tally.check("document format", same(&written["format"], &recorded["document"]["format"]));
    let again = document::read(&written.to_string()).expect("reads");
    let count = registry.entries(None).len();
    tally.check("document read", same(&again.len().into(), &count.into()));

    let entry = |name: &Value| -> Entry {
        registry.entry(name.as_str().expect("name")).expect("a fixture action")
    };
    for expected in recorded["definitions"].as_array().expect("definitions") {
        let schema = entry(&expected["name"]).schema().clone();
        let actual = json!({
            "name": schema.name().as_str(),
            "description": schema.description(),
            "input_schema": definition::input_schema(&schema),
        });
        tally.check(&format!("definition {}", expected["name"]), same(&actual, expected));
    }
    for expected in recorded["output_definitions"].as_array().expect("output definitions") {
        let schema = entry(&expected["name"]).schema().clone();
        let actual = definition::output_schema(&schema);
        tally.check(&format!("output {}", expected["name"]), same(&actual, &expected["schema"]));
    }
}
