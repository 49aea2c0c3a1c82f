//! What there is after all the crashes, and whether it may be so.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::read_to_string,
    path::Path,
};

use a11_grpc::interaction::store::{After, ConversationName, open};

use super::process::{RAN, TOLD};

/// How many calls came to what.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub turns: usize,
    /// Those with a result, and those cut off.
    pub done: usize,
    pub unknown: usize,
    /// How often an action ran.
    pub runs: usize,
    /// Calls that somebody was told to be done.
    pub told: usize,
}

/// Reads what there is, and holds that no call ran twice that may not, that each
/// has its result, and that what was told to be done is.
pub fn check(folder: &Path, store: &str, actions: &[&str]) -> Found {
    let read = |name: &str| read_to_string(folder.join(name)).unwrap_or_default();
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for key in read(RAN).lines() {
        *runs.entry(key.to_owned()).or_default() += 1;
    }
    let mut told: BTreeSet<String> = read(TOLD).lines().map(str::to_owned).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let stored = runtime.block_on(async {
        let store = open(store).await.expect("opens");
        let after = After { position: 0, count: 1_000_000, bytes: usize::MAX };
        store.list(&ConversationName::new("c").expect("a name"), after).await.expect("listed")
    });
    let mut found = Found {
        runs: runs.values().sum(),
        told: told.len(),
        turns: stored.len() / 2,
        ..Found::default()
    };
    let (turns, rest) = stored.as_chunks::<2>();
    assert!(rest.is_empty(), "a turn has no results");
    for [asked, results] in turns {
        let results = results.interaction().expect("readable");
        assert_eq!(results.previous_interaction_id, asked.id);
        assert_eq!(results.action_outputs.len(), actions.len());
        let statuses = &results.backend_specific_metadata["tool_statuses"];
        let statuses: serde_json::Value = serde_json::from_slice(statuses).expect("JSON");
        for (call, action) in actions.iter().enumerate() {
            let id = format!("c{call}");
            let key = format!("{}/{id}", asked.id);
            let ran = runs.remove(&key).unwrap_or_default();
            let may_repeat = *action == "repeatable";
            assert!(ran <= 1 || may_repeat, "{key} ran {ran} times");
            let was_told = told.remove(&key);
            let has_output = !results.action_outputs[&id].fragments.is_empty();
            match statuses[&id]["code"].as_i64() {
                Some(0) => {
                    assert!(has_output && ran > 0, "{key} has no run");
                    found.done += 1;
                }
                Some(10) => {
                    assert!(!may_repeat, "{key} was to be run again");
                    assert!(!was_told, "{key} was told to be done, and now is unknown");
                    found.unknown += 1;
                }
                other => panic!("{key} ended with {other:?}"),
            }
        }
    }
    assert!(runs.is_empty() && told.is_empty(), "of no turn: {runs:?} {told:?}");
    println!("{found:?}");
    found
}
