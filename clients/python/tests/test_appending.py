"""Turns that are appended to a conversation, in the forms that they come in."""

from __future__ import annotations

import json

import pytest

from a11_grpc import Client, Code, Reason, Registry, StatusError, interaction, user_turn
from a11_grpc._proto.interaction_pb2 import ROLE_MODEL


async def test_a_whole_conversation_is_recorded_of_what_its_provider_said(storing: Client) -> None:
    registry = Registry()

    @registry.action
    async def double(number: int) -> int:
        return number * 2

    await storing.host(registry)
    interactions = storing.interactions
    asked = await interactions.append("talk", user_turn("What is twice 21?"))
    call = {"type": "tool_use", "id": "c", "name": "double", "input": {"number": 21}}
    reply = {"type": "message", "role": "assistant", "content": [call]}
    result = await storing.execute(
        reply, allow="double", store=True, conversation="talk", interaction_id="reply"
    )
    text = {"type": "text", "text": "It is 42."}
    answer = {"type": "message", "role": "assistant", "content": [text]}
    answered = await interactions.append("talk", answer, previous=result.interaction)
    listed = [record async for record in interactions.list("talk")]
    assert [record.id for record in listed] == [
        asked.id,
        "reply",
        result.interaction.id,
        answered.id,
    ]
    assert listed[-1].interaction.role == ROLE_MODEL
    assert listed[-1].interaction.previous_interaction_id == result.interaction.id
    converted = await interactions.convert("talk", to="claude")
    assert [message["role"] for message in converted.messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert (converted.messages[1]["content"], converted.messages[3]["content"]) == ([call], [text])


async def test_a_turn_is_appended_in_any_form_under_its_own_id_or_a_given_one(
    storing: Client,
) -> None:
    interactions = storing.interactions
    block = {"type": "text", "text": "hi"}
    message = {"role": "assistant", "content": "hi"}
    chat = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": message}]}
    for at, turn in enumerate((chat, json.dumps(chat), json.dumps(chat).encode(), [block])):
        id = f"reply-{at}"
        appended = await interactions.append("talk", turn, id=id)
        assert (appended.id, appended.existed) == (id, False)
        assert (await interactions.append("talk", turn, id=id)).existed
        found = (await interactions.get("talk", id)).interaction
        said = json.loads(found.content[0].data)
        assert (found.role, said) == (ROLE_MODEL, [block] if turn == [block] else chat)
    for no_turn in (5, None, [None], '"hi"', "[1]"):
        with pytest.raises(StatusError) as caught:
            await interactions.append("talk", no_turn)
        assert caught.value.code is Code.INVALID_ARGUMENT
    # Without an id each time is another turn, also of a text.
    ids = {(await interactions.append("talk", turn)).id for turn in (chat, json.dumps(chat))}
    assert len(ids) == 2
    assert "chatcmpl-1" not in ids
    # A turn of one's own keeps its id, as plain values too.
    own = user_turn("hello", id="own")
    for form in (own, json.loads(interaction.to_json(own)), interaction.to_json(own)):
        appended = await interactions.append("talk", form)
        assert (appended.id, (await interactions.get("talk", "own")).interaction) == ("own", own)
    for given, said in (({"id": "x"}, "id: 'x' was given"), ({"previous": "y"}, "previous: 'y'")):
        with pytest.raises(StatusError, match=said) as caught:
            await interactions.append("talk", user_turn("a", id="i", previous="own"), **given)
        assert caught.value.reason is Reason.INVALID_REQUEST
