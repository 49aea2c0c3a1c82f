//! The tokens a provider says it spent, as counters that mean the same for all.

use serde_json::value::RawValue;

use super::{
    MAX_DEPTH,
    raw::{self, Object, list},
};
use crate::wire::{json_weight, pb::UsageMetadata};

/// Reads the counters of a reply: a whole response, its `usage` alone, or the
/// list of a stream's events, whose later counters replace earlier ones. None
/// where it has no counters.
pub fn usage(reply: &[u8]) -> Option<UsageMetadata> {
    if raw::is_deeper_than(MAX_DEPTH, reply) || json_weight::check(reply).is_err() {
        return None;
    }
    let raw: &RawValue = serde_json::from_slice(reply).ok()?;
    match list(raw) {
        Some(events) => events
            .into_iter()
            .filter_map(|event| of_object(&Object::of(event)?))
            .reduce(|before, after| UsageMetadata {
                input_tokens: after.input_tokens.or(before.input_tokens),
                output_tokens: after.output_tokens.or(before.output_tokens),
                total_tokens: after.total_tokens.or(before.total_tokens),
                cached_input_tokens: after.cached_input_tokens.or(before.cached_input_tokens),
                cache_write_tokens: after.cache_write_tokens.or(before.cache_write_tokens),
                reasoning_tokens: after.reasoning_tokens.or(before.reasoning_tokens),
            }),
        None => of_object(&Object::of(raw)?),
    }
}

fn of_object(object: &Object) -> Option<UsageMetadata> {
    if let Some(usage) = object.either(["usageMetadata", "usage_metadata"]) {
        return of_counters(&Object::of(usage)?);
    }
    if let Some(usage) = object.object("usage") {
        return of_counters(&usage);
    }
    // Events of a stream, and the agents' lines, wrap what has the counters.
    for key in ["message", "response", "interaction"] {
        if let Some(found) = object.object(key).and_then(|inner| of_object(&inner)) {
            return Some(found);
        }
    }
    of_counters(object)
}

fn of_counters(counters: &Object) -> Option<UsageMetadata> {
    let usage = claude(counters)
        .or_else(|| chat(counters))
        .or_else(|| responses(counters))
        .or_else(|| generate_content(counters))
        .or_else(|| interactions(counters))
        .or_else(|| ollama(counters))?;
    (usage != UsageMetadata::default()).then_some(usage)
}

/// Its `input_tokens` are those that came from no cache.
fn claude(usage: &Object) -> Option<UsageMetadata> {
    let is_openai =
        usage.get("input_tokens_details").is_some() || usage.get("total_tokens").is_some();
    if is_openai || usage.get("output_tokens").or(usage.get("input_tokens")).is_none() {
        return None;
    }
    Some(UsageMetadata {
        input_tokens: count(usage, "input_tokens"),
        output_tokens: count(usage, "output_tokens"),
        total_tokens: None,
        cached_input_tokens: count(usage, "cache_read_input_tokens"),
        cache_write_tokens: count(usage, "cache_creation_input_tokens"),
        reasoning_tokens: usage
            .object("output_tokens_details")
            .and_then(|details| count(&details, "thinking_tokens")),
    })
}

/// OpenAI chat completions, and vLLM's.
fn chat(usage: &Object) -> Option<UsageMetadata> {
    let prompt = count(usage, "prompt_tokens")?;
    let cached = nested(usage, "prompt_tokens_details", "cached_tokens");
    Some(UsageMetadata {
        input_tokens: Some(prompt.saturating_sub(cached.unwrap_or(0))),
        output_tokens: count(usage, "completion_tokens"),
        total_tokens: count(usage, "total_tokens"),
        cached_input_tokens: cached,
        cache_write_tokens: None,
        reasoning_tokens: nested(usage, "completion_tokens_details", "reasoning_tokens"),
    })
}

/// OpenAI Responses, and Codex.
fn responses(usage: &Object) -> Option<UsageMetadata> {
    let input = count(usage, "input_tokens")?;
    let cached = nested(usage, "input_tokens_details", "cached_tokens");
    Some(UsageMetadata {
        input_tokens: Some(input.saturating_sub(cached.unwrap_or(0))),
        output_tokens: count(usage, "output_tokens"),
        total_tokens: count(usage, "total_tokens"),
        cached_input_tokens: cached,
        cache_write_tokens: None,
        reasoning_tokens: nested(usage, "output_tokens_details", "reasoning_tokens"),
    })
}

/// Its candidates are without the thoughts, its prompt with what is cached and
/// without what tools gave.
fn generate_content(usage: &Object) -> Option<UsageMetadata> {
    let either = |keys: [&str; 2]| keys.into_iter().find_map(|key| count(usage, key));
    let prompt = either(["promptTokenCount", "prompt_token_count"]);
    let tools = either(["toolUsePromptTokenCount", "tool_use_prompt_token_count"]);
    let cached = either(["cachedContentTokenCount", "cached_content_token_count"]);
    let thoughts = either(["thoughtsTokenCount", "thoughts_token_count"]);
    let said = either(["candidatesTokenCount", "candidates_token_count"]);
    let total = either(["totalTokenCount", "total_token_count"]);
    gemini(prompt, tools, cached, thoughts, said, total)
}

fn interactions(usage: &Object) -> Option<UsageMetadata> {
    gemini(
        count(usage, "total_input_tokens"),
        count(usage, "total_tool_use_tokens"),
        count(usage, "total_cached_tokens"),
        count(usage, "total_thought_tokens"),
        count(usage, "total_output_tokens"),
        count(usage, "total_tokens"),
    )
}

fn gemini(
    prompt: Option<u64>,
    tools: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
    said: Option<u64>,
    total: Option<u64>,
) -> Option<UsageMetadata> {
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    let input = sum(prompt, tools);
    input.or(said).or(total)?;
    Some(UsageMetadata {
        input_tokens: input.map(|input| input.saturating_sub(cached.unwrap_or(0))),
        output_tokens: sum(said, thoughts),
        total_tokens: total,
        cached_input_tokens: cached,
        cache_write_tokens: None,
        reasoning_tokens: thoughts,
    })
}

fn ollama(usage: &Object) -> Option<UsageMetadata> {
    let input = count(usage, "prompt_eval_count");
    let output = count(usage, "eval_count");
    input.or(output)?;
    Some(UsageMetadata { input_tokens: input, output_tokens: output, ..UsageMetadata::default() })
}

fn count(usage: &Object, key: &str) -> Option<u64> {
    serde_json::from_str(usage.get(key)?.get()).ok()
}

fn nested(usage: &Object, details: &str, key: &str) -> Option<u64> {
    count(&usage.object(details)?, key)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn counters_mean_the_same_whoever_counted() {
        let check =
            |reply: Value, [input, output, total, cached, written, reasoning]: [Option<u64>; 6]| {
                let expected = UsageMetadata {
                    input_tokens: input,
                    output_tokens: output,
                    total_tokens: total,
                    cached_input_tokens: cached,
                    cache_write_tokens: written,
                    reasoning_tokens: reasoning,
                };
                assert_eq!(usage(reply.to_string().as_bytes()), Some(expected), "{reply}");
            };
        check(
            json!({"type": "message", "usage": {"input_tokens": 10, "output_tokens": 5,
                   "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}}),
            [Some(10), Some(5), None, Some(7), Some(3), None],
        );
        check(
            json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5,
                   "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 4},
                   "completion_tokens_details": {"reasoning_tokens": 2}}}),
            [Some(6), Some(5), Some(15), Some(4), None, Some(2)],
        );
        check(
            json!({"object": "response", "usage": {"input_tokens": 10, "output_tokens": 5,
                   "total_tokens": 15, "input_tokens_details": {"cached_tokens": 4},
                   "output_tokens_details": {"reasoning_tokens": 2}}}),
            [Some(6), Some(5), Some(15), Some(4), None, Some(2)],
        );
        check(
            json!({"candidates": [], "usageMetadata": {"promptTokenCount": 10,
                   "candidatesTokenCount": 5, "thoughtsTokenCount": 2,
                   "cachedContentTokenCount": 4, "totalTokenCount": 17}}),
            [Some(6), Some(7), Some(17), Some(4), None, Some(2)],
        );
        check(
            json!({"steps": [], "usage": {"total_input_tokens": 10, "total_output_tokens": 5,
                   "total_thought_tokens": 2, "total_cached_tokens": 0, "total_tokens": 17}}),
            [Some(10), Some(7), Some(17), Some(0), None, Some(2)],
        );
        check(
            json!({"done": true, "prompt_eval_count": 10, "eval_count": 5}),
            [Some(10), Some(5), None, None, None, None],
        );
        check(
            json!([{"type": "message_start", "message": {"usage": {"input_tokens": 10,
                    "output_tokens": 1}}},
                   {"type": "message_delta", "usage": {"output_tokens": 5}}]),
            [Some(10), Some(5), None, None, None, None],
        );
    }

    #[test]
    fn a_reply_without_counters_has_none() {
        for reply in ["{}", "[]", "x", "{\"usage\":null}", "{\"usage\":{\"input_tokens\":-1}}"] {
            assert_eq!(usage(reply.as_bytes()), None, "{reply}");
        }
    }
}
