//! What a conversion carries, and what it says of the rest.

use a11_grpc::{
    action::tool_name,
    interaction::{
        Interaction,
        backend::{Converted, Dialect, convert, normalize},
    },
    wire::{
        Chunk, NodeFragment,
        pb::{ActionMessage, NodeFragments, Role, Status},
    },
};
use serde_json::{Value, json};

use super::{
    checker,
    conversations::{json_chunk, odd_ids, png, turn, whole, whole_with_ids},
};

fn written(converted: &Converted) -> Vec<Value> {
    converted.messages.iter().map(|m| serde_json::from_str(m).expect("JSON")).collect()
}

fn whats(converted: &Converted) -> Vec<(&str, &str)> {
    converted.dropped.iter().map(|n| (n.interaction_id.as_str(), n.what.as_str())).collect()
}

fn claude(blocks: Value) -> Chunk {
    json_chunk(&json!({"role": "assistant", "content": blocks}))
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "look_up", "input": {"q": 1}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "done"})
}

#[test]
fn every_pair_of_dialects_is_within_the_rules_and_loses_reasoning_alone() {
    for ids in [["call_a", "call_b"], odd_ids()] {
        check_every_pair(ids);
    }
}

fn check_every_pair(ids: [&str; 2]) {
    for from in Dialect::ALL {
        for to in Dialect::ALL {
            let converted = convert(&whole_with_ids(from, ids), to);
            checker::check(to, &written(&converted)).expect("within the rules");
            let dropped: Vec<_> =
                converted.dropped.iter().map(|n| (&*n.interaction_id, &*n.what)).collect();
            let left_out =
                if keeps_reasoning(from, to) { vec![] } else { vec![("2", "reasoning")] };
            assert_eq!(dropped, left_out, "{from:?} to {to:?}");
            assert_eq!(converted.added, [], "{from:?} to {to:?}");
            let all = converted.messages.join("\n");
            for said in ["Which floor is it?", "Let me look.", "floor", "NOT_FOUND", "Floor 3."] {
                assert!(all.contains(said), "{from:?} to {to:?}: no {said:?} in {all}");
            }
            let pictures = all.matches("iVBORw0KGgo").count();
            assert_eq!(pictures, 2, "{from:?} to {to:?}: {all}");
        }
    }
}

/// Whether nothing of it is left out: it goes back to whoever made it, but chat
/// completions take none back, and the older function calls have none.
fn keeps_reasoning(from: Dialect, to: Dialect) -> bool {
    match from {
        Dialect::Claude | Dialect::ClaudeCode => {
            matches!(to, Dialect::Claude | Dialect::ClaudeCode)
        }
        Dialect::GptResponses | Dialect::Codex => {
            matches!(to, Dialect::GptResponses | Dialect::Codex)
        }
        Dialect::GeminiInteractions | Dialect::GeminiGenerateContent | Dialect::Ollama => {
            from == to
        }
        Dialect::GptChat | Dialect::Vllm => false,
        Dialect::GptFunctions => true,
    }
}

#[test]
fn signed_reasoning_goes_back_to_its_own_provider_alone() {
    let signed = [
        Dialect::Claude,
        Dialect::GptResponses,
        Dialect::GeminiInteractions,
        Dialect::GeminiGenerateContent,
    ];
    for from in signed {
        for to in signed {
            let all = convert(&whole(from), to).messages.join("\n");
            assert_eq!(all.contains("c2ln"), from == to, "{from:?} to {to:?}: {all}");
        }
    }
}

#[test]
fn a_call_cut_off_is_answered_and_the_next_prompt_comes_after() {
    let history = [
        turn("1", Role::User, None, vec![Chunk::text("go")]),
        turn("2", Role::Model, Some(Dialect::Claude), vec![claude(json!([call("a"), call("b")]))]),
        turn("3", Role::User, None, vec![Chunk::text("and now?")]),
        turn(
            "4",
            Role::User,
            Some(Dialect::Claude),
            vec![json_chunk(&json!({"role": "user", "content": [result("b")]}))],
        ),
    ];
    for to in Dialect::ALL {
        let converted = convert(&history, to);
        checker::check(to, &written(&converted)).expect("within the rules");
        let added: Vec<_> = converted.added.iter().map(|n| n.interaction_id.as_str()).collect();
        assert_eq!((added, whats(&converted)), (vec!["2"], vec![]), "{to:?}");
    }
    let messages = written(&convert(&history, Dialect::Claude));
    assert_eq!(
        messages[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "a", "is_error": true,
             "content": "the call was cancelled or its result was lost"},
            result("b"),
            {"type": "text", "text": "and now?"},
        ])
    );
}

#[test]
fn a_result_without_a_call_or_a_second_one_is_left_out_and_reported() {
    let results = json!({"role": "user", "content": [result("x"), result("a"), result("a")]});
    let history = [
        turn("1", Role::User, None, vec![Chunk::text("go")]),
        turn("2", Role::Model, Some(Dialect::Claude), vec![claude(json!([call("a")]))]),
        turn("3", Role::User, Some(Dialect::Claude), vec![json_chunk(&results)]),
    ];
    for to in Dialect::ALL {
        let converted = convert(&history, to);
        assert_eq!(
            whats(&converted),
            [("3", "the result of call x"), ("3", "the result of call a")],
            "{to:?}"
        );
    }
}

#[test]
fn ids_stay_the_same_as_the_history_grows() {
    let odd = "functions.look_up:0";
    let round = |at: usize| {
        [
            turn(
                &format!("m{at}"),
                Role::Model,
                Some(Dialect::Claude),
                vec![claude(json!([call(odd), call("é")]))],
            ),
            turn(
                &format!("u{at}"),
                Role::User,
                Some(Dialect::Claude),
                vec![json_chunk(&json!({"role": "user", "content": [result(odd), result("é")]}))],
            ),
        ]
    };
    let history: Vec<Interaction> = (0..4).flat_map(round).collect();
    for to in Dialect::ALL {
        let all = convert(&history, to);
        checker::check(to, &written(&all)).expect("within the rules");
        let first = convert(&history[..4], to);
        assert_eq!(first.messages[..], all.messages[..first.messages.len()], "{to:?}");
    }
}

#[test]
fn a_turns_own_records_are_read_where_it_has_no_content() {
    let fragments = |fragments| NodeFragments { fragments };
    let mut asked = turn("1", Role::Model, None, vec![Chunk::text("Let me look.")]);
    asked.action_calls = vec![
        ActionMessage { id: "b".into(), name: "picture".into(), ..Default::default() },
        ActionMessage { id: "a".into(), name: "look_up".into(), ..Default::default() },
    ];
    asked.action_inputs.insert(
        "a".into(),
        fragments(vec![
            NodeFragment::last("q", Chunk::text("late")),
            NodeFragment::more("n", Chunk::new("application/json", "1")),
            NodeFragment::end("n"),
        ]),
    );
    let mut answered = turn("2", Role::User, None, vec![]);
    answered.action_outputs.insert("a".into(), fragments(vec![]));
    answered.action_outputs.insert(
        "b".into(),
        fragments(vec![NodeFragment::last("frame", Chunk::new("image/png", png()))]),
    );
    let statuses =
        json!({"a": {"code": 5, "message": "no such order"}, "b": {"code": 0, "message": ""}});
    answered.backend_specific_metadata.insert("tool_statuses".into(), statuses.to_string().into());
    assert_eq!(
        serde_json::to_value(normalize(&asked)).expect("JSON"),
        json!({"role": "model", "parts": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_call", "id": "b", "name": "picture", "arguments": {}},
            {"type": "tool_call", "id": "a", "name": "look_up",
             "arguments": {"q": "late", "n": [1]}},
        ]})
    );
    let messages = written(&convert(&[asked, answered], Dialect::Claude));
    let results = messages[2]["content"].as_array().expect("blocks");
    assert_eq!(results[0]["content"][0]["type"], "image");
    assert_eq!(
        results[1],
        json!({"type": "tool_result", "tool_use_id": "a", "is_error": true,
               "content": "NOT_FOUND: no such order"})
    );
}

#[test]
fn what_a_provider_does_not_take_is_reported_and_a_note_stands_in_for_a_picture() {
    let svg = Chunk::new("image/svg+xml", "<svg/>");
    let sound = Chunk::new("audio/wav", "RIFF");
    let mut failed = turn("2", Role::Model, None, vec![]);
    failed.status = Some(Status { code: 14, message: "gone".into(), ..Default::default() });
    let history = [turn("1", Role::User, None, vec![svg, sound]), failed];
    let converted = convert(&history, Dialect::Claude);
    assert_eq!(
        whats(&converted),
        [("1", "a picture"), ("1", "content of audio/wav"), ("2", "a turn without content")]
    );
    assert_eq!(converted.dropped[2].why, "UNAVAILABLE: gone");
    assert!(converted.messages[0].contains("picture was left out"), "{converted:?}");
}

#[test]
fn the_system_prompt_stands_where_the_provider_takes_it() {
    let mut first = turn("1", Role::User, None, vec![Chunk::text("go")]);
    first.system_instructions = vec![Chunk::text("Be brief.")];
    let second = turn("2", Role::System, None, vec![Chunk::text("Speak French.")]);
    for to in Dialect::ALL {
        let converted = convert(&[first.clone(), second.clone()], to);
        let expected = "Be brief.\n\nSpeak French.";
        match &converted.system {
            Some(system) => assert_eq!(system, expected, "{to:?}"),
            None => assert_eq!(
                written(&converted)[0],
                json!({"role": "system", "content": expected}),
                "{to:?}"
            ),
        }
    }
}

#[test]
fn a_name_that_the_provider_does_not_take_is_sent_as_its_tool_name_and_reported() {
    let message = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "look#up", "arguments": "{}"}}]});
    let history = [turn("1", Role::Model, None, vec![json_chunk(&message)])];
    let converted = convert(&history, Dialect::GptChat);
    let call = written(&converted)[0]["tool_calls"][0].clone();
    assert_eq!(call["function"]["name"], *tool_name("look#up"));
    assert_eq!(whats(&converted), [("1", "the name \"look#up\"")]);
}

#[test]
fn arguments_that_are_no_json_are_sent_as_text_in_an_object() {
    let message = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "n", "arguments": "{\"q\": "}}]});
    let history = [turn("1", Role::Model, Some(Dialect::GptChat), vec![json_chunk(&message)])];
    let messages = written(&convert(&history, Dialect::Claude));
    assert_eq!(messages[1]["content"][0]["input"], json!({"INVALID_JSON": "{\"q\": "}));
}
