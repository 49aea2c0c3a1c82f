"""Calling actions of the service: values, streams, failures, options."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

import a11_grpc
from a11_grpc import (
    Chunk,
    Client,
    Code,
    Context,
    Finished,
    Log,
    Output,
    Reason,
    Status,
    StatusError,
)
from a11_grpc._proto.action_pb2 import LogEntry
from a11_grpc.client.call import MAX_HELD_LOGS
from a11_grpc.session.core import events

REGISTRY = a11_grpc.Registry()


@REGISTRY.action
async def c_upper(text: str, *, suffix: str = "") -> str:
    """Upper case."""
    return text.upper() + suffix


@REGISTRY.action
async def c_echo(values: AsyncIterator[int]) -> AsyncIterator[int]:
    """What comes."""
    async for value in values:
        yield value


@REGISTRY.action
async def c_any(value: object = "nothing") -> dict[str, object]:
    """What it got."""
    return {"value": value}


@REGISTRY.action
async def c_blob(blob: bytes) -> bytes:
    """Reversed."""
    return blob[::-1]


@dataclass
class Counted(a11_grpc.Outputs):
    words: AsyncIterator[str]
    total: int
    note: str | None = None


@REGISTRY.action
async def c_counted(text: str) -> Counted:
    """Words and their number."""

    async def words() -> AsyncIterator[str]:
        for word in text.split():
            yield word

    return Counted(words(), len(text.split()))


@REGISTRY.action
async def c_nothing() -> None:
    """Does nothing."""


@REGISTRY.action
async def c_narrate(ctx: Context, topic: str) -> str:
    """Says what it does."""
    ctx.log(f"Looked up {topic}.\n")
    ctx.log_internal("secret")
    ctx.log("Done.", level="warn", channel="end")
    return topic


@pytest.fixture
async def hosted(client: Client) -> Client:
    await client.host(REGISTRY)
    assert client.refused == {}
    return client


async def test_values_go_there_and_come_back(hosted: Client) -> None:
    async def check(action: str, arguments: dict[str, object], expected: object) -> None:
        assert await hosted.call(action, **arguments) == expected, (action, arguments)

    await check("c_upper", {"text": "é😀"}, "É😀")
    await check("c_upper", {"text": ""}, "")
    await check("c_upper", {"text": "a", "suffix": None}, "A")
    await check("c_upper", {"text": Chunk("text/plain", b"a"), "suffix": "!"}, "A!")
    await check("c_echo", {"values": [1, 2, 3]}, [1, 2, 3])
    await check("c_echo", {"values": []}, [])
    await check("c_echo", {"values": range(1000)}, list(range(1000)))
    await check("c_any", {}, {"value": "nothing"})
    await check("c_any", {"value": None}, {"value": None})
    await check("c_any", {"value": (1 << 63) - 1}, {"value": (1 << 63) - 1})
    await check("c_any", {"value": [1.5, {"a": None}]}, {"value": [1.5, {"a": None}]})
    await check("c_any", {"value": "[1"}, {"value": "[1"})
    await check("c_counted", {"text": "a b"}, {"words": ["a", "b"], "total": 2, "note": None})
    await check("c_counted", {"text": ""}, {"words": [], "total": 0, "note": None})
    await check("c_nothing", {}, None)
    blob = bytes(range(256)) * 2000
    assert (await hosted.call("c_blob", blob=blob)).data == blob[::-1]


async def test_a_config_s_command_is_called_like_any_other(client: Client) -> None:
    found = await client.call("word_count", text="as easy as pie")
    assert found == {"words": 4, "lines": 1, "characters": 15}


async def test_what_does_not_fit_is_refused_with_its_name(hosted: Client) -> None:
    async def check(arguments: dict[str, object], reason: Reason, message: str) -> None:
        with pytest.raises(StatusError) as caught:
            await hosted.call("c_upper", **arguments)
        assert (caught.value.code, caught.value.reason) == (Code.INVALID_ARGUMENT, reason)
        assert message in caught.value.message

    await check({}, Reason.MISSING_INPUT, "'text'")
    await check({"text": 5}, Reason.INVALID_INPUT, "'text': expected text, got int")
    await check({"text": "\ud800"}, Reason.INVALID_INPUT, "lone surrogate")
    await check({"text": "a", "nope": 1}, Reason.UNDECLARED_INPUT, "text, suffix")
    for value, message in [
        (float("nan"), "NaN"),
        (object(), "serialize"),
        ({1: {2: "\udfff"}}, "surrogate"),
    ]:
        with pytest.raises(StatusError, match=message) as caught:
            await hosted.call("c_any", value=value)
        assert caught.value.reason is Reason.INVALID_INPUT
    for values in ("abc", 5, {"a": 1}):
        with pytest.raises(StatusError, match="is a stream"):
            await hosted.call("c_echo", values=values)


async def test_an_unknown_action_is_not_found(client: Client) -> None:
    with pytest.raises(StatusError) as caught:
        await client.call("no_such_action", text="x")
    assert (caught.value.code, caught.value.reason) == (Code.NOT_FOUND, Reason.UNKNOWN_ACTION)


async def test_a_stream_is_yielded_as_it_comes(hosted: Client) -> None:
    sent: list[int] = []
    go_on = asyncio.Event()

    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            sent.append(number)
            yield number
            await go_on.wait()
            go_on.clear()

    received = []
    async for value in hosted.stream("c_echo", values=numbers()):
        received.append(value)
        # Each comes back before the next is sent.
        assert received == sent
        go_on.set()
    assert received == [0, 1, 2]


async def test_the_streamed_output_is_chosen_by_name(hosted: Client) -> None:
    words = hosted.with_options(port="words").stream("c_counted", text="a b")
    assert [word async for word in words] == ["a", "b"]
    for port, message in [("nope", "no output 'nope'"), (None, "are: none")]:
        action = "c_counted" if port else "c_upper"
        with pytest.raises(StatusError, match=message):
            async for _ in hosted.with_options(port=port).stream(action, text="a"):
                pass


async def test_a_started_call_is_written_while_it_runs(hosted: Client) -> None:
    async with await hosted.start("c_echo") as call:
        await call.write("values", 1)
        first = await anext(call)
        assert first == Output("output", 1)
        await call.write("values", 2)
        await call.close("values")
        rest = [event async for event in call]
    assert rest[0] == Output("output", 2)
    assert isinstance(rest[-1], Finished)
    assert rest[-1].status.is_ok
    assert call.status is not None


async def test_a_result_can_be_asked_for_again(hosted: Client) -> None:
    call = await hosted.start("c_counted", text="a b")
    expected = {"words": ["a", "b"], "total": 2, "note": None}
    assert await call.result() == expected
    assert await call.result() == expected
    with pytest.raises(StatusError):
        await call.write("nope", 1)


async def test_who_waits_no_longer_cancels_the_call(hosted: Client) -> None:
    calling = asyncio.ensure_future(hosted.call("c_echo", values=forever()))
    while not forever_began.is_set():
        await asyncio.sleep(0.001)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await hosted.call("c_upper", text="a") == "A"


forever_began = asyncio.Event()


async def forever() -> AsyncIterator[int]:
    yield 1
    forever_began.set()
    await asyncio.sleep(3600)


async def test_narration_comes_beside_the_result(hosted: Client) -> None:
    logs: list[Log] = []
    assert await hosted.with_options(on_log=logs.append).call("c_narrate", topic="x") == "x"
    assert logs == [Log("Looked up x.\n"), Log("Done.", "warn", "end")]


async def test_a_started_call_narrates_as_it_is_read(hosted: Client) -> None:
    logs: list[Log] = []
    expected = [Log("Looked up x.\n"), Log("Done.", "warn", "end")]
    options = hosted.with_options(on_log=logs.append)
    call = await options.start("c_narrate", topic="x")
    read = [event async for event in call if isinstance(event, Log)]
    assert read == [expected[0], Log("secret", internal=True), expected[1]]
    assert logs == expected
    logs.clear()
    assert await (await options.start("c_narrate", topic="x")).result() == "x"
    assert logs == expected
    stream = options.with_options(port="words").stream("c_counted", text="a")
    assert [word async for word in stream] == ["a"]


async def test_a_listener_that_fails_ends_its_call(hosted: Client) -> None:
    def fails(_: Log) -> None:
        raise LookupError("mine")

    call = await hosted.with_options(on_log=fails).start("c_narrate", topic="x")
    with pytest.raises(LookupError, match="mine"):
        await call.result()
    with pytest.raises(StatusError) as caught:
        await call.result()
    assert caught.value.code is Code.CANCELLED


async def test_a_call_is_cancelled_with_a_reason(hosted: Client) -> None:
    call = await hosted.start("c_echo")
    assert call.id.startswith("call_")
    call.cancel("had enough")
    with pytest.raises(StatusError) as caught:
        await call.result()
    assert caught.value.status == Status(Code.CANCELLED, Reason.CANCELLED, "had enough")


async def test_a_single_value_may_be_larger_than_a_frame(hosted: Client) -> None:
    text = "€" * (6 << 20)  # 18 MiB, whose pieces do not end where a letter does.
    assert await hosted.call("c_upper", text=text) == text
    assert await hosted.call("c_any", value=text) == {"value": text}
    call = await hosted.start("c_upper", suffix="!")
    await call.write("text", text)
    assert await call.result() == f"{text}!"
    blob = bytes(range(256)) * (80 << 10)
    assert (await hosted.call("c_blob", blob=blob)).data == blob[::-1]


async def test_narration_that_nobody_takes_loses_its_oldest_entries(hosted: Client) -> None:
    call = await hosted.start("c_echo")
    for number in range(MAX_HELD_LOGS + 100):
        call._deliver(events.Logged(1, LogEntry(text=str(number)), 0))
    await call.close("values")
    logs = [event.text async for event in call if isinstance(event, Log)]
    assert logs[0] == "[100 earlier log entries were dropped]\n"
    assert logs[1:] == [str(number) for number in range(100, MAX_HELD_LOGS + 100)]


async def test_an_input_that_fails_cancels_the_call(hosted: Client) -> None:
    async def broken() -> AsyncIterator[int]:
        yield 1
        raise LookupError("the source is gone")

    with pytest.raises(LookupError, match="the source is gone"):
        await hosted.call("c_echo", values=broken())


async def test_schemas_are_listed_by_pattern(hosted: Client) -> None:
    names = [schema.name for schema in await hosted.actions("c_[ab].*", "word_.*")]
    assert names == ["c_any", "c_blob", "word_count"]
    schema = await hosted.schema("c_echo")
    assert [(port.name, port.stream) for port in schema.inputs] == [("values", True)]
    with pytest.raises(StatusError) as caught:
        await hosted.actions("(")
    assert caught.value.reason is Reason.INVALID_PATTERN


async def test_a_thousand_calls_run_side_by_side(hosted: Client) -> None:
    texts = [f"t{number}" for number in range(1000)]
    found = await asyncio.gather(*(hosted.call("c_upper", text=text) for text in texts))
    assert found == [text.upper() for text in texts]
