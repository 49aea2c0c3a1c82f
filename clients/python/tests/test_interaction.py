"""Interactions without a server: both JSON forms, and building turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

import a11_grpc
from a11_grpc import Chunk, Code, Interaction, Reason, StatusError, append_result, user_turn
from a11_grpc._proto.interaction_pb2 import ROLE_MODEL, ROLE_USER
from a11_grpc.interaction import from_json, from_proto_json, to_json, to_proto_json

PNG = b"\x89PNG\r\n\x1a\n..."

FULL: dict[str, Any] = {
    "id": "x1",
    "role": "model",
    "created_at_millis": (1 << 63) - 1,
    "previous_interaction_id": "x0",
    "model": "m",
    "status": {
        "code": 5,
        "message": "gone",
        "details": [{"n": (1 << 63) - 1, "null": None, "deep": [[[]]]}],
        "reason": "UNKNOWN_ACTION",
    },
    "system_instructions": [{"data": "YQ==", "metadata": {"mimetype": "text/plain"}}],
    "action_configs": {
        "a": {
            "peer": {
                "protocol": "a11",
                "scheme": "session",
                "identity": "$sender",
                "endpoint": "",
            },
            "header_autofills": {"x-k": "/w=="},
        }
    },
    "content": [
        {
            "data": "YQ==",
            "metadata": {
                "mimetype": "text/plain",
                "timestamp": "2026-01-02T03:04:05.678901234+00:00",
                "attributes": {"k": "AHY="},
            },
        },
        {"data": "Yg=="},
        {"data": "", "metadata": {"mimetype": "text/uri-list"}, "ref": "node-9"},
    ],
    "action_calls": [
        {
            "id": "c",
            "name": "n",
            "inputs": [{"name": "p", "id": "c#p"}],
            "outputs": [{"name": "q", "id": "c#q"}],
            "headers": {"x-a11-k": "AA=="},
        }
    ],
    "action_inputs": {"c": [{"data": {"data": "YQ=="}, "id": "p", "seq": 0, "continued": True}]},
    "action_outputs": {"c": [{"data": {"id": "other", "offset": 4, "length": 9}, "id": "q"}]},
    "backend_specific_metadata": {"backend": "Z3B0"},
    "usage_metadata": {"input_tokens": 0, "total_tokens": (1 << 64) - 1},
}


def test_every_field_survives_both_forms_and_the_message() -> None:
    interaction = from_json(json.dumps(FULL))
    assert json.loads(to_json(interaction)) == FULL
    assert from_proto_json(to_proto_json(interaction)) == interaction
    assert Interaction.FromString(interaction.SerializeToString()) == interaction
    assert json.loads(to_proto_json(interaction))["createdAtMillis"] == str((1 << 63) - 1)


def test_what_is_wrong_is_named() -> None:
    def check(document: Any, expected: str) -> None:
        with pytest.raises(StatusError) as caught:
            from_json(json.dumps(document))
        assert caught.value.code is Code.INVALID_ARGUMENT
        assert caught.value.message.startswith(expected), caught.value.message

    def content(chunk: Any) -> Any:
        return {"content": [{}, {}, chunk]}

    def given(fragment: Any) -> Any:
        return {"action_inputs": {"c": [fragment]}}

    check(["x1", "user"], "interaction: ")
    check(None, "interaction: ")
    check({"id": 5}, "id: ")
    check({"id": "é" * 256}, "id: has 256")
    check({"id": "\ud800"}, "id: ")
    check({"role": "assistant"}, "role: unknown role 'assistant'")
    check({"created_at_millis": 1.5}, "created_at_millis: ")
    check({"created_at_millis": "soon"}, "created_at_millis: ")
    check({"created_at_millis": 1 << 63}, "created_at_millis: ")
    check({"status": 3}, "status: ")
    check({"status": {"code": 17}}, "status.code: ")
    check({"status": {"code": "5"}}, "status.code: ")
    check({"status": {"reason": "BAD_MOOD"}}, "status.reason: ")
    check({"status": {"details": ["\ud800"]}}, "status.details[0]: ")
    check({"content": {}}, "content: ")
    check(content({"data": "a b"}), "content[2].data: not base64")
    check(content({"data": "_-8="}), "content[2].data: not base64")
    check(content({"data": "YQ==", "ref": "node-9"}), "content[2]: ")
    check(content({"ref": ""}), "content[2]: ")
    check(content({"ref": "x" * 2049}), "content[2].ref: ")
    check(content({"metadata": []}), "content[2].metadata: ")
    check(content(["YQ=="]), "content[2]: ")
    check(content(None), "content[2]: ")
    check(content({"metadata": {"timestamp": "x"}}), "content[2].metadata.timestamp: ")
    check(content({"metadata": {"attributes": {"k": 1}}}), "content[2].metadata.attributes.k: ")
    check(content({"metadata": {"attributes": {"a b": ""}}}), "content[2].metadata.attributes.a b")
    check(given({"seq": 1 << 32}), "action_inputs.c[0].seq: ")
    check(given({"seq": -1}), "action_inputs.c[0].seq: ")
    check(given({"continued": 1}), "action_inputs.c[0].continued: ")
    check(given({"data": {"id": "n", "offset": -1}}), "action_inputs.c[0].data.offset: ")
    check({"action_calls": [{"headers": {"k": "?"}}]}, "action_calls[0].headers.k: ")
    check({"action_calls": [{"name": "a b"}]}, "action_calls[0].name: ")
    check({"action_configs": {"a": {"peer": "ftp://h"}}}, "action_configs.a.peer: ")
    check({"action_configs": {"a": {"peer": 3}}}, "action_configs.a.peer: ")
    check({"usage_metadata": {"input_tokens": -1}}, "usage_metadata.input_tokens: ")
    twice = {"action_calls": [{"id": "c", "name": "n"}, {"id": "c", "name": "m"}]}
    with pytest.raises(StatusError) as caught:
        from_json(json.dumps(twice))
    assert caught.value.reason is Reason.DUPLICATE_CALL


def test_odd_json_is_read_as_it_is_or_refused_at_the_door() -> None:
    """Scenario 16."""
    for junk in ["", "{", "{} {}", '{"id": NaN}', '{"usage_metadata":{"input_tokens":Infinity}}']:
        for read in (from_json, from_proto_json):
            with pytest.raises(StatusError) as caught:
                read(junk)
            assert caught.value.reason is Reason.INVALID_REQUEST
    for depth in (30, 33, 40, 101):
        nested = "[" * depth + "]" * depth
        document = f'{{"status": {{"details": [{nested}]}}}}'
        assert from_json(document).status.details == [nested]
        assert json.loads(to_json(from_json(document)))["status"]["details"] == [json.loads(nested)]
    bottomless = "[" * 100_000 + "]" * 100_000
    for read in (from_json, from_proto_json):
        with pytest.raises(StatusError, match="deep"):
            read(f'{{"colour": {bottomless}}}')
    assert from_json('{"id": "x", "colour": "red", "role": null}').role == ROLE_USER


def test_proto_json_is_read_leniently_and_junk_refused() -> None:
    def check(document: Any, expected: str | None) -> None:
        if expected is None:
            from_proto_json(json.dumps(document))
            return
        with pytest.raises(StatusError) as caught:
            from_proto_json(json.dumps(document))
        assert expected in caught.value.message

    check({"role": "ROLE_MODEL", "actionCalls": [], "colour": 1}, None)
    check({"role": 2, "action_calls": None}, None)
    check({"content": [{"data": "_-8="}, {"data": "/+8"}]}, None)
    check({"content": [{"data": "a b"}]}, "content[0].data")
    check({"content": [{"data": "_/8="}]}, "content[0].data")
    check({"role": "ROLE_BOSS"}, "role")
    check({"role": 9}, "role")
    check({"createdAtMillis": "9223372036854775808"}, "")
    check({"actionCalls": [{"headers": {"k": "!"}}]}, "actionCalls[0].headers.k")
    check([], "object")


def test_what_is_not_canonical_is_brought_there() -> None:
    interaction = Interaction()
    for text in ("a", "b"):
        chunk = interaction.content.add()
        chunk.metadata.media_type = "text/plain"
        chunk.data = text.encode()
    interaction.status.details.append(' { "a" : 1 } ')
    written = json.loads(to_json(interaction))
    assert "metadata" not in written["content"][1]
    assert written["status"]["details"] == [{"a": 1}]
    # What was given is not changed.
    assert interaction.content[1].metadata.media_type == "text/plain"


def test_a_user_s_turn_is_built() -> None:
    turn = user_turn("look", images=[PNG, Chunk("image/heic", b"x")], previous="x0")
    assert turn.role == ROLE_USER
    assert len(turn.id) == 36
    assert turn.previous_interaction_id == "x0"
    kinds = [(chunk.metadata.media_type, chunk.data) for chunk in turn.content]
    assert kinds == [("text/plain", b"look"), ("image/png", PNG), ("image/heic", b"x")]
    assert user_turn("x", id="own", previous=turn).previous_interaction_id == turn.id
    with pytest.raises(StatusError, match="picture"):
        user_turn(images=[b"nothing known"])
    with pytest.raises(StatusError, match="'audio/wav' is not the media type of a picture"):
        user_turn(images=Chunk("audio/wav", b"x"))
    with pytest.raises(StatusError, match="surrogate"):
        user_turn("\ud800")
    with pytest.raises(StatusError, match="surrogate"):
        user_turn("x", system="\ud800")
    told = user_turn("x", system="Be brief.")
    assert [chunk.data for chunk in told.system_instructions] == [b"Be brief."]


def test_a_result_is_appended_to_messages_or_to_interactions() -> None:
    turn = Interaction(id="r", role=ROLE_MODEL)
    result = a11_grpc.Result([{"role": "tool"}], turn, [], a11_grpc.Backend.GPT)
    messages: list[Any] = [{"role": "user"}]
    append_result(messages, result)
    assert messages == [{"role": "user"}, {"role": "tool"}]
    turns = [user_turn("x")]
    append_result(turns, result)
    assert turns[1] is turn
    with pytest.raises(StatusError, match="backend"):
        append_result([], a11_grpc.Result([], turn, [], None))
