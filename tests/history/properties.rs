//! Histories made up at random: nothing panics, and what is written keeps the
//! provider's rules.

use a11_grpc::interaction::{
    Interaction,
    backend::{Dialect, convert, normalize, read_reply},
};
use proptest::prelude::*;
use serde_json::Value;
use serde_json::json;

use super::{checker, conversations::close};

#[path = "../support/interactions.rs"]
mod interactions;

fn written(history: &[Interaction], to: Dialect) -> Vec<Value> {
    let json = |message: &String| serde_json::from_str(message).expect("a message is JSON");
    convert(history, to).messages.iter().map(json).collect()
}

fn keeps_the_rules(history: &[Interaction]) -> Result<(), TestCaseError> {
    for interaction in history {
        serde_json::to_value(normalize(interaction)).expect("parts are JSON");
    }
    for to in Dialect::ALL {
        if let Err(rule) = checker::check(to, &written(history, to)) {
            return Err(TestCaseError::fail(rule));
        }
    }
    Ok(())
}

proptest! {
    // Next to an integration test there is no place proptest would keep failures.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_written_within_each_providers_rules(
        history in prop::collection::vec(interactions::interaction(), 0..5),
    ) {
        keeps_the_rules(&history)?;
    }

    #[test]
    fn a_history_close_to_real_ones_is_written_within_each_providers_rules(history in close()) {
        keeps_the_rules(&history)?;
    }

    #[test]
    fn no_counters_make_counting_panic(n in [any::<u64>(); 5]) {
        let [input, output, cached, thought, tools] = n;
        let replies = [
            json!({"candidates": [], "usageMetadata": {"promptTokenCount": input,
                "candidatesTokenCount": output, "cachedContentTokenCount": cached,
                "thoughtsTokenCount": thought, "toolUsePromptTokenCount": tools}}),
            json!({"object": "response", "output": [], "usage": {"input_tokens": input,
                "output_tokens": output, "input_tokens_details": {"cached_tokens": cached}}}),
            json!({"choices": [{"message": {"role": "assistant", "content": ""}}],
                "usage": {"prompt_tokens": input, "completion_tokens": output,
                          "prompt_tokens_details": {"cached_tokens": cached}}}),
        ];
        for reply in replies {
            let read = read_reply(reply.to_string().as_bytes(), None).expect("a reply");
            prop_assert!(read.usage.is_some());
        }
    }
}
