//! The tokens a reply says were spent, as counters that mean the same whoever
//! counted: what its backend reads, wherever the reply has them.

use serde_json::value::RawValue;

use super::{
    Dialect,
    raw::{Object, list},
    shape::shape_of,
};
use crate::wire::pb::UsageMetadata;

/// The counters of a reply; of the responses of a stream, which count up, each
/// counter where it was told last.
pub(super) fn of_reply(dialect: Dialect, reply: &RawValue) -> Option<UsageMetadata> {
    let shape = shape_of(dialect);
    let of_response = |response: &RawValue| {
        let response = Object::of(response)?;
        // The agents' lines wrap what has the counters.
        shape.usage(&response).or_else(|| shape.usage(&response.object("message")?))
    };
    let Some(responses) = list(reply) else { return of_response(reply) };
    responses.into_iter().filter_map(of_response).reduce(|before, after| UsageMetadata {
        input_tokens: after.input_tokens.or(before.input_tokens),
        output_tokens: after.output_tokens.or(before.output_tokens),
        total_tokens: after.total_tokens.or(before.total_tokens),
        cached_input_tokens: after.cached_input_tokens.or(before.cached_input_tokens),
        cache_write_tokens: after.cache_write_tokens.or(before.cache_write_tokens),
        reasoning_tokens: after.reasoning_tokens.or(before.reasoning_tokens),
    })
}

/// None for counters of which not one was told.
pub(super) fn told(usage: UsageMetadata) -> Option<UsageMetadata> {
    (usage != UsageMetadata::default()).then_some(usage)
}

/// Counters of a provider whose input includes what came from a cache.
pub(super) fn without_cached(usage: UsageMetadata) -> UsageMetadata {
    let cached = usage.cached_input_tokens.unwrap_or(0);
    let input_tokens = usage.input_tokens.map(|input| input.saturating_sub(cached));
    UsageMetadata { input_tokens, ..usage }
}

pub(super) fn count(usage: &Object, key: &str) -> Option<u64> {
    serde_json::from_str(usage.get(key)?.get()).ok()
}

pub(super) fn nested(usage: &Object, details: &str, key: &str) -> Option<u64> {
    count(&usage.object(details)?, key)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{interaction::backend::read_reply, wire::pb::Backend};

    type Counters = [Option<u64>; 6];

    fn check(
        reply: Value,
        hint: Option<Backend>,
        [input, output, total, cached, written, reasoning]: Counters,
    ) {
        let expected = UsageMetadata {
            input_tokens: input,
            output_tokens: output,
            total_tokens: total,
            cached_input_tokens: cached,
            cache_write_tokens: written,
            reasoning_tokens: reasoning,
        };
        let read = read_reply(reply.to_string().as_bytes(), hint).expect("a reply");
        assert_eq!(read.usage, Some(expected), "{reply}");
    }

    #[test]
    fn counters_mean_the_same_whoever_counted() {
        let claude = json!({"type": "message", "role": "assistant", "content": [],
            "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 7,
                      "cache_creation_input_tokens": 3,
                      "output_tokens_details": {"thinking_tokens": 2}}});
        let counted = [Some(10), Some(5), None, Some(7), Some(3), Some(2)];
        check(claude.clone(), None, counted);
        check(json!({"type": "assistant", "message": claude}), None, counted);
        let choices = json!([{"message": {"role": "assistant", "content": "hi"}}]);
        let chat = json!({"choices": choices, "usage": {"prompt_tokens": 10,
            "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2}}});
        for hint in [None, Some(Backend::Vllm)] {
            check(chat.clone(), hint, [Some(6), Some(5), Some(15), Some(4), None, Some(2)]);
        }
        let responses = json!({"object": "response", "output": [], "usage": {"input_tokens": 10,
            "output_tokens": 5, "total_tokens": 15, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2}}});
        for hint in [None, Some(Backend::Codex)] {
            check(responses.clone(), hint, [Some(6), Some(5), Some(15), Some(4), None, Some(2)]);
        }
        check(
            json!({"object": "response", "output": [], "usage": {"input_tokens": 10,
                   "cached_input_tokens": 4, "output_tokens": 5, "reasoning_output_tokens": 2}}),
            Some(Backend::Codex),
            [Some(6), Some(5), None, Some(4), None, Some(2)],
        );
        check(
            json!({"candidates": [], "usageMetadata": {"promptTokenCount": 10,
                   "candidatesTokenCount": 5, "thoughtsTokenCount": 2,
                   "cachedContentTokenCount": 4, "totalTokenCount": 17}}),
            None,
            [Some(6), Some(7), Some(17), Some(4), None, Some(2)],
        );
        check(
            json!({"steps": [], "usage": {"total_input_tokens": 10, "total_output_tokens": 5,
                   "total_tool_use_tokens": 3, "total_thought_tokens": 2,
                   "total_cached_tokens": 0, "total_tokens": 20}}),
            None,
            [Some(13), Some(7), Some(20), Some(0), None, Some(2)],
        );
        check(
            json!({"message": {"role": "assistant", "content": ""}, "done": true,
                   "prompt_eval_count": 10, "eval_count": 5}),
            None,
            [Some(10), Some(5), None, None, None, None],
        );
    }

    #[test]
    fn the_responses_of_a_stream_count_up() {
        let response = |usage: Value| json!({"candidates": [], "usageMetadata": usage});
        check(
            json!([
                response(json!({"promptTokenCount": 10, "totalTokenCount": 10})),
                response(json!({"candidatesTokenCount": 5, "totalTokenCount": 15})),
            ]),
            None,
            [Some(10), Some(5), Some(15), None, None, None],
        );
    }

    #[test]
    fn a_reply_without_counters_has_none() {
        let none = |counters: &str| {
            let reply = format!(r#"{{"role":"assistant","content":[]{counters}}}"#);
            assert_eq!(read_reply(reply.as_bytes(), None).expect("a reply").usage, None, "{reply}");
        };
        none("");
        none(r#","usage":null"#);
        none(r#","usage":{}"#);
        none(r#","usage":{"input_tokens":-1}"#);
        none(r#","usage":{"input_tokens":"3"}"#);
    }
}
