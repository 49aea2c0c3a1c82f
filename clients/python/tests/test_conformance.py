"""The recorded cases, with their actions hosted here and executed through this client."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc import aio
from support import fixtures
from support.server import SHARED, serving

import a11_grpc
from a11_grpc import Backend, Client, Code, Interaction, RejectedCall, Result, Status, StatusError
from a11_grpc._proto.action_service_pb2 import ListActionsRequest
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc.interaction import from_json, to_json

CASES = SHARED / "conformance"
YOURS = "<wording yours>"
BACKENDS = ["claude", "claude_code", "gemini", "gpt", "ollama", "vllm"]

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"there is no directory {CASES.name}")


def cases(name: str) -> Any:
    return json.loads((CASES / name).read_text())


class Tally:
    """Counts cases, and keeps each difference."""

    def __init__(self) -> None:
        self.total = 0
        self.differences: list[str] = []

    def check(self, name: str, faults: Iterator[str]) -> None:
        self.total += 1
        try:
            self.differences += [f"{name}: {fault}" for fault in faults]
        except StatusError as error:
            self.differences.append(f"{name}: {error}")

    def report(self, capsys: pytest.CaptureFixture[str]) -> None:
        names = {difference.split(":")[0] for difference in self.differences}
        with capsys.disabled():
            print(f"\nconformance: {self.total - len(names)} of {self.total}", file=sys.stderr)
        assert self.total > 0
        assert not self.differences, "\n".join(self.differences)


@pytest.fixture
async def hosted() -> AsyncIterator[tuple[str, Client]]:
    async with (
        serving() as server,
        a11_grpc.connect(server.address, registry=fixtures.REGISTRY) as host,
        a11_grpc.connect(server.address) as client,
    ):
        assert host.refused == {}
        yield server.address, client


async def test_every_recorded_turn_has_the_same_results(
    hosted: tuple[str, Client], capsys: pytest.CaptureFixture[str]
) -> None:
    _, client = hosted
    tally = Tally()
    for case in cases("execute.json"):
        for backend in BACKENDS:
            name = f"execute {case['name']} for {backend}"
            turn = from_json(json.dumps(case["interaction"]))
            try:
                result = await execute(client, case, turn, backend, rejected(case))
            except StatusError as error:
                tally.check(name, iter([str(error)]))
                continue
            tally.check(name, differences(case, backend, result, turn))
        content = [
            {"type": "tool_use", "id": it["id"], "name": it["name"], "input": it["params"]}
            for it in case["tool_calls"]
        ]
        reply = {"type": "message", "role": "assistant", "content": content}
        name = f"execute {case['name']} from a raw reply"
        try:
            result = await execute(client, case, reply, None, [])
        except StatusError as error:
            tally.check(name, iter([str(error)]))
            continue
        tally.check(name, differences(case, "claude", result, None))
    tally.report(capsys)


def rejected(case: Any) -> list[RejectedCall]:
    calls = [call["id"] for call in case["tool_calls"]]
    return [
        RejectedCall(
            calls.index(id),
            id,
            case["tool_calls"][calls.index(id)]["name"],
            Status(Code[status["code"]], message="refused"),
        )
        for id, status in case["expect"]["rejected"].items()
    ]


async def execute(
    client: Client, case: Any, reply: object, backend: str | None, refused: list[RejectedCall]
) -> Result:
    headers = {}
    if case["allowed"] is not None:
        headers["x-a11-allowed-llm-actions"] = case["allowed"]
    deadline = case.get("deadline_ms")
    return await client.with_options(headers=headers).execute(
        reply,
        backend=backend,
        timeout=None if deadline is None else deadline / 1000,
        max_output_bytes=case.get("max_output_bytes"),
        rejected=refused,
    )


def differences(case: Any, backend: str, result: Result, turn: Interaction | None) -> Iterator[str]:
    expect = case["expect"]
    ids = [call["id"] for call in case["tool_calls"]]
    if [it.id for it in result.results] != ids:
        yield f"the results stand as {[it.id for it in result.results]}, the calls as {ids}"
    if turn is not None and result.interaction.previous_interaction_id != turn.id:
        yield "the turn does not follow the assistant's"
    for call in result.results:
        error = expect["errors"].get(call.id, {"code": "OK"})
        if call.status.code.name != error["code"]:
            yield f"{call.id}: {call.status}, not {error['code']}"
        message = error.get("message")
        if message not in (None, YOURS, call.status.message):
            yield f"{call.id}: {call.status.message!r}, not {message!r}"
        log = expect["logs"].get(call.id, "")
        if call.log != log:
            yield f"{call.id}: the log is {call.log!r}, not {log!r}"
        found = by_id(fragments_of(result.interaction, call.id))
        recorded = by_id(expect["outputs"].get(call.id, []))
        if found != recorded:
            yield f"{call.id}: outputs {found}, not {recorded}"
    if result.backend is not Backend(backend):
        yield f"the messages are for {result.backend}"
    found_messages = plain(messages(backend, result))
    recorded_messages = plain(expect["tool_results"][backend])
    if expect["rejected"] and len(found_messages) == len(recorded_messages):
        # They are recorded after the others, and stand here in the order of the calls.
        recorded_messages = [
            next((it for it in recorded_messages if matches(one, it)), None)
            for one in found_messages
        ]
    if not matches(found_messages, recorded_messages):
        yield f"messages {json.dumps(found_messages)}, not {json.dumps(recorded_messages)}"


def fragments_of(interaction: Interaction, call: str) -> list[Any]:
    return [
        {
            "id": it.id,
            "mimetype": it.chunk.metadata.media_type,
            "data_b64": base64.b64encode(it.chunk.data).decode(),
            "seq": it.seq,
            "continued": it.continued,
        }
        for it in interaction.action_outputs[call].fragments
    ]


def by_id(fragments: list[Any]) -> dict[str, list[Any]]:
    """The order of ids is free, that within an id is not."""
    found: dict[str, list[Any]] = {}
    for fragment in fragments:
        found.setdefault(fragment["id"], []).append(fragment)
    return found


def messages(backend: str, result: Result) -> list[Any]:
    """As they are recorded: Claude's blocks without the message around them."""
    if backend == "claude":
        return [block for message in result.messages for block in message["content"]]
    return result.messages


def plain(value: Any) -> Any:
    """JSON inside text compares as JSON."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return {"json": json.loads(value)}
        except ValueError:
            return value
    return value


def matches(found: Any, recorded: Any) -> bool:
    if isinstance(recorded, str) and isinstance(found, str):
        before, mark, after = recorded.partition(YOURS)
        if mark:
            return found.startswith(before) and found.endswith(after)
        if recorded.startswith("<a note"):
            return True
    if isinstance(recorded, dict) and isinstance(found, dict):
        return recorded.keys() == found.keys() and all(
            matches(found[key], recorded[key]) for key in recorded
        )
    if isinstance(recorded, list) and isinstance(found, list):
        return len(recorded) == len(found) and all(map(matches, found, recorded))
    return bool(found == recorded)


async def test_the_published_schemas_are_the_recorded_ones(hosted: tuple[str, Client]) -> None:
    address, _ = hosted
    async with aio.insecure_channel(address) as channel:
        request = ListActionsRequest(include_document=True, page_size=1000)
        answer = await ActionServiceStub(channel).ListActions(request)
    found = {it["name"]: it for it in json.loads(answer.document)["actions"]}
    for recorded in cases("definitions.json")["document"]["actions"]:
        # Without a handler there is nothing to host.
        if recorded["name"] != "schema_only":
            one = found[recorded["name"]]
            # Who serves it is the service's to say.
            assert len(one.pop("hosts")) == 1
            assert one == recorded


def test_every_recorded_document_is_read_and_written_as_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tally = Tally()
    for case in cases("interaction_json.json"):
        document = case.get("json", case.get("input"))
        expected = case.get("json", case.get("expect"))
        tally.check(f"interaction {case['name']}", document_faults(document, expected))
    tally.report(capsys)


def document_faults(document: Any, expected: Any) -> Iterator[str]:
    try:
        interaction = from_json(json.dumps(document))
    except StatusError as error:
        if expected is not None:
            yield f"refused: {error}"
        return
    if expected is None:
        yield "not refused"
        return
    written = json.loads(to_json(interaction))
    if written != expected:
        yield f"{written}, not {expected}"
    elif [*written] != [*expected]:
        yield f"keys stand in the order {[*written]}"
    if from_json(to_json(interaction)) != interaction:
        yield "does not come back"


def test_the_cases_are_where_they_are_looked_for() -> None:
    assert Path(CASES, "execute.json").is_file()
