//! `peers.json`: a peer's text → its parts, or an error.

use std::path::Path;

use a11_grpc::wire::peer::Peer;
use serde_json::{Value, json};

use crate::tally::{self, Tally};

const FILE: &str = "peers.json";

pub fn run(dir: &Path, tally: &mut Tally) {
    for case in tally::cases(dir, FILE) {
        let name = format!("{FILE} {}", case["peer"]);
        tally.check(&name, check(&case));
    }
}

fn check(case: &Value) -> Result<(), String> {
    let text = case["peer"].as_str().ok_or("the case has no peer")?;
    let peer: Peer = match (text.parse(), case.get("error")) {
        (Err(_), Some(_)) => return Ok(()),
        (Err(error), None) => return Err(format!("refused: {error}")),
        (Ok(_), Some(_)) => return Err("not refused".to_owned()),
        (Ok(peer), None) => peer,
    };
    let written = json!(peer.to_string());
    let Peer { protocol, scheme, identity, endpoint } = peer;
    let parts = json!({
        "protocol": protocol, "scheme": scheme, "identity": identity, "endpoint": endpoint,
    });
    tally::same(&parts, &case["parsed"])?;
    tally::same(&written, &case["text"])
}
