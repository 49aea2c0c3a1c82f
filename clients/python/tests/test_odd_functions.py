"""Functions and calls of every odd kind, against the real service."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import logging
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

import pytest
from pydantic import Base64Bytes, BaseModel, Field

import a11_grpc
from a11_grpc import Chunk, Client, Code, Context, Outputs, Reason, Registry, StatusError

T = TypeVar("T")


class Place(BaseModel):
    city: str


class Thing(BaseModel):
    size: int


class Box(BaseModel, Generic[T]):
    item: T


class Tree(BaseModel):
    children: list[Tree] = []


class Sealed(BaseModel):
    data: Base64Bytes


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


@dataclasses.dataclass
class Point:
    x: float
    y: object = None


@dataclasses.dataclass
class Several(Outputs):
    later: AsyncIterator[int]
    soon: Iterator[int]
    blob: bytes | None = None
    count: int | None = None


class Counter:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, x: int) -> int:
        self.calls += 1
        return x + self.calls

    def method(self, x: int) -> int:
        return x


def hosted(function: Callable[..., Any], name: str = "odd") -> Registry:
    registry = Registry()
    registry.action(name=name)(function)
    return registry


async def call(client: Client, function: Callable[..., Any], **arguments: Any) -> Any:
    """Hosts a function for the length of a call."""
    registry = hosted(function)
    assert await client.host(registry) == {}
    try:
        async with asyncio.timeout(20):
            return await client.call("odd", **arguments)
    finally:
        registry.remove("odd")
        async with asyncio.timeout(20):
            while await client.actions("odd"):
                await asyncio.sleep(0.005)


async def test_inputs_that_are_not_given(client: Client) -> None:
    async def stream(x: AsyncIterator[str] | None = None) -> int:
        return -1 if x is None else len([item async for item in x])

    async def blob(x: bytes | None) -> bytes | None:
        return x

    async def factory(x: Annotated[list[int], Field(default_factory=list)]) -> list[int]:
        x.append(1)
        return x

    async def mutable(x: list[int] = []) -> int:  # noqa: B006 (that is what is tested)
        x.append(1)
        return len(x)

    # A stream that is not given is an empty one.
    assert await call(client, stream) == 0
    assert await call(client, stream, x=["a", "b"]) == 2
    assert await call(client, blob) is None
    assert await call(client, blob, x=None) is None
    assert await call(client, blob, x=b"\xff") == Chunk("application/octet-stream", b"\xff")
    await client.host(registry := hosted(factory, "odd_factory"))
    registry.action(name="odd_mutable")(mutable)
    async with asyncio.timeout(20):
        while len(await client.actions("odd_.*")) < 2:
            await asyncio.sleep(0.005)
    for _ in range(2):
        assert await client.call("odd_factory") == [1]
        assert await client.call("odd_mutable") == 1


async def test_generators_and_iterators_of_every_kind(client: Client) -> None:
    async def later(n: int):  # type: ignore[no-untyped-def]
        for at in range(n):
            yield at

    def soon(n: int) -> Iterator[int]:
        yield from range(n)

    def mapped(n: int) -> Iterator[int]:
        return map(abs, range(n))

    async def listed(n: int) -> AsyncIterator[int]:
        return [*range(n)]  # type: ignore[return-value]

    async def made(n: int) -> AsyncIterator[int]:
        return later(n)  # type: ignore[no-any-return]

    for function in (later, soon, mapped, listed, made):
        assert await call(client, function, n=3) == [0, 1, 2], function


async def test_several_outputs_of_which_one_fails(client: Client) -> None:
    async def several(fail: bool) -> Several:
        async def later() -> AsyncIterator[int]:
            yield 1
            if fail:
                raise StatusError(Code.NOT_FOUND, "gone")

        return Several(later(), iter([1, 2]))

    found = await call(client, several, fail=False)
    assert found == {"later": [1], "soon": [1, 2], "blob": None, "count": None}
    with pytest.raises(StatusError, match="gone") as caught:
        await call(client, several, fail=True)
    assert caught.value.code is Code.NOT_FOUND


async def test_what_is_called_like_a_function(client: Client) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async def add_later(a: int, b: int) -> int:
        return a + b

    assert await call(client, functools.partial(add, b=2), a=1) == 3
    assert await call(client, functools.partial(add_later, b=2), a=1) == 3
    assert await call(client, lambda a: a, a=[1]) == [1]
    assert await call(client, Counter(), x=1) == 2
    assert await call(client, Counter().method, x=1) == 1


async def test_types_of_every_kind(client: Client) -> None:
    async def union(x: Place | Thing) -> str:
        return type(x).__name__

    async def generic(x: Box[int]) -> Box[str]:
        return Box[str](item=str(x.item))

    async def tree(x: Tree) -> Tree:
        return x

    async def sealed(x: Sealed) -> Sealed:
        return x

    async def literal(x: Literal["a", 1, None]) -> str:
        return repr(x)

    async def keyword(*, x: int, y: int = 2) -> int:
        return x + y

    async def aliased(x: Annotated[str, Field(alias="class")]) -> str:
        return x

    assert await call(client, union, x=Place(city="Bern")) == "Place"
    assert await call(client, union, x={"size": 1}) == "Thing"
    assert await call(client, generic, x=Box[int](item=3)) == {"item": "3"}
    assert await call(client, tree, x=Tree(children=[Tree()])) == {"children": [{"children": []}]}
    assert await call(client, sealed, x={"data": "/w=="}) == {"data": "/w=="}
    assert await call(client, literal, x=None) == "None"
    assert await call(client, literal, x="a") == "'a'"
    assert await call(client, keyword, x=1) == 3
    assert await call(client, aliased, **{"class": "c"}) == "c"


async def test_arguments_go_as_their_json_form(client: Client) -> None:
    async def document(x: object) -> object:
        return x

    async def text(x: str) -> str:
        return x

    id = uuid.UUID(int=1)
    moment = datetime(2026, 1, 2, 3, 4, 5)
    registry = hosted(document, "odd_json")
    registry.action(name="odd_text")(text)
    await client.host(registry)

    async def check(value: object, expected: object) -> None:
        assert await client.call("odd_json", x=value) == expected
        if isinstance(expected, str):
            assert await client.call("odd_text", x=value) == expected

    await check(moment, "2026-01-02T03:04:05")
    await check(date(2026, 1, 2), "2026-01-02")
    await check(id, str(id))
    await check(Decimal("1.10"), "1.10")
    await check(Path("/etc"), "/etc")
    await check(Colour.RED, "red")
    await check(Colour.TWO, 2)
    await check({1, 2}, [1, 2])
    await check(Point(1.5, {id: {Colour.TWO}}), {"x": 1.5, "y": {str(id): [2]}})
    await check([Place(city="Bern"), (1, 2)], [{"city": "Bern"}, [1, 2]])
    await check({moment: 1}, {"2026-01-02T03:04:05": 1})
    await check((1 << 64) + 1, (1 << 64) + 1)
    await check(10**400, 10**400)

    async def refused(value: object, expected: str, name: str = "odd_json") -> None:
        with pytest.raises(StatusError, match=expected) as caught:
            await client.call(name, x=value)
        assert caught.value.reason is Reason.INVALID_INPUT
        assert caught.value.message.startswith("input 'x': ")

    cyclic: list[object] = []
    cyclic.append(cyclic)
    deep: object = 1
    for _ in range(200_000):
        deep = [deep]
    await refused(float("nan"), "NaN")
    await refused(Point(float("inf")), "NaN and infinity")
    await refused({id: [float("nan")]}, "NaN")
    await refused(10**5000, "4300 digits")
    await refused(b"x", "bytes have no place in JSON")
    await refused({"a": [b"\xff"]}, "bytes have no place in JSON")
    await refused("\ud800", "lone surrogate")
    await refused({"\ud800": 1}, "lone surrogate")
    await refused(cyclic, "Circular")
    await refused(deep, "nested too deep")
    await refused(object(), "object")
    await refused(5, "expected text, got int", "odd_text")
    await refused("\ud800", "lone surrogate", "odd_text")


async def test_results_that_are_none_of_their_type_are_told_in_a_line(client: Client) -> None:
    async def wrong() -> int:
        return "no"  # type: ignore[return-value]

    async def forgotten() -> int:
        return None  # type: ignore[return-value]

    async def no_number() -> float:
        return float("nan")

    async def half() -> str:
        return "\ud800"

    async def whole() -> AsyncIterator[str]:
        return "abc"  # type: ignore[return-value]

    async def several() -> Several:
        return {"count": 1}  # type: ignore[return-value]

    async def check(function: Callable[..., Any], expected: str, name: str = "output") -> None:
        with pytest.raises(StatusError) as caught:
            await call(client, function)
        assert (caught.value.code, caught.value.reason) == (Code.INTERNAL, Reason.INVALID_OUTPUT)
        assert caught.value.message == f"{name}{expected}"

    await check(several, ": expected Several, got dict", "outputs")

    await check(wrong, " 'output': expected int, got 'no'")
    await check(forgotten, " 'output': expected int, got None")
    await check(no_number, " 'output': NaN and infinity have no place in JSON")
    await check(half, " 'output': a lone surrogate has no place in a text")
    await check(whole, " 'output' is a stream, not str")


async def test_what_a_handler_may_raise_ends_its_call(client: Client) -> None:
    async def check(error: BaseException, expected: str) -> None:
        async def raises() -> int:
            raise error

        with pytest.raises(StatusError) as caught:
            await call(client, raises)
        assert caught.value.reason is Reason.HANDLER_FAILED
        assert expected in caught.value.message

    await check(KeyError("x"), "KeyError: 'x'")
    await check(StopIteration(1), "StopIteration")
    await check(GeneratorExit(), "GeneratorExit")
    await check(SystemExit(3), "SystemExit: 3")
    await check(StatusError(Code.OK, "ok?"), "ok?")


async def test_arguments_that_are_generators(client: Client) -> None:
    async def count(x: AsyncIterator[str]) -> int:
        return len([item async for item in x])

    def failing() -> Iterator[str]:
        yield "a"
        raise RuntimeError("mine")

    async def failing_later() -> AsyncIterator[str]:
        yield "a"
        raise RuntimeError("mine")

    assert await call(client, count, x=(text for text in "ab")) == 2
    assert await call(client, count, x={"a", "b"}) == 2
    for values in (failing(), failing_later()):
        with pytest.raises(RuntimeError, match="mine"):
            await call(client, count, x=values)
    wrong: list[Any] = ["ab", {"a": 1}, 5]
    for values in wrong:
        with pytest.raises(StatusError, match="give a list or an iterator"):
            await call(client, count, x=values)


async def test_mistakes_in_calling_are_answered_with_what_to_do(client: Client) -> None:
    with pytest.raises(StatusError, match=r"client\.with_options\(timeout=…\)"):
        await client.call("word_count", text="a", timeout=3)
    with pytest.raises(StatusError, match="header 'x-a11-n'"):
        client.with_options(headers={"x-a11-n": 5})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="a Registry, not list"):
        await client.host([])  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="has to be awaited"):
        a11_grpc.connect(client.url).call("word_count", text="a")
    with pytest.raises(a11_grpc.ConnectError, match="it is no text"):
        await a11_grpc.connect(5)  # type: ignore[arg-type]

    async def empty(x: bytes) -> int:
        return len(x)

    with pytest.raises(StatusError, match="are no value") as caught:
        await call(client, empty, x=b"")
    assert caught.value.reason is Reason.MISSING_INPUT


async def test_what_grpc_would_not_take_is_refused_by_its_name(
    client: Client, address: str
) -> None:
    turn = {"role": "assistant", "content": []}

    async def check(asking: Awaitable[object], expected: str) -> None:
        with pytest.raises(StatusError, match=expected) as caught:
            await asking
        assert caught.value.code is Code.INVALID_ARGUMENT

    async def executed(headers: dict[str, str | bytes]) -> None:
        await client.with_options(headers=headers).execute(turn)

    wrong: Any
    for wrong in ({"bad key": "x"}, {"key": "a\nb"}, {"key": "ü"}, {"key": 5}, [("key",)], "key"):
        await check(a11_grpc.connect(address, metadata=wrong), "metadata")
    await check(executed({"x-a11-t": "ü"}), "header 'x-a11-t'")
    await check(executed({"x a": "b"}), "header: 'x a'")
    for wrong in (float("nan"), "3"):
        await check(client.execute(turn, timeout=wrong), "timeout")
    for wrong in (5, [5]):
        await check(client.execute(turn, allow=wrong), "allow")
        await check(client.actions(wrong), "actions")
        await check(client.call(wrong), "an action's name")
        await check(client.interactions.append("talk", wrong), "Interaction")
    await check(client.interactions.convert(cast("Any", 5), to="gpt"), "a list of turns")
    wrong = Chunk("application/json", "text")  # type: ignore[arg-type]
    await check(client.call("word_count", text=wrong), "input 'text': a Chunk's data")
    with pytest.raises(StatusError, match="is not a name"):
        client.write_node("bad name")
    # Any value arrives over the session, and metadata of bytes as it is.
    async with a11_grpc.connect(address, metadata=[("x-bin", b"\x00")]) as other:
        assert await other.call("word_count", text="a")


async def test_a_function_that_blocks_the_event_loop_is_named(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a11_grpc.hosting.watch.HELD_UP", 0.1)

    async def blocks() -> None:
        time.sleep(0.5)  # noqa: ASYNC251 (that is what is tested)

    async def waits(ctx: Context) -> None:
        await asyncio.sleep(0.5)

    def in_thread() -> None:
        time.sleep(0.5)

    with caplog.at_level(logging.WARNING, "a11_grpc.hosting"):
        for function in (waits, in_thread):
            await call(client, function)
        assert caplog.messages == []
        await call(client, blocks)
    assert len(caplog.messages) == 1
    assert "while odd ran" in caplog.messages[0]


CLOSED = """
import asyncio, sys, a11_grpc
from a11_grpc import StatusError

address = sys.argv[1]
turn = {"role": "assistant", "content": [
    {"type": "tool_use", "id": "a", "name": "order_status", "input": {"order_id": "A-1"}}]}

def uses(client):
    interactions = client.interactions
    return [
        lambda: client.call("word_count", text="a"),
        lambda: client.actions(),
        lambda: client.ping(),
        lambda: client.execute(turn),
        lambda: anext(client.execute_stream(turn)),
        lambda: client.host(a11_grpc.Registry()),
        lambda: interactions.get("a", "b"),
        lambda: client.interactions.get("a", "b"),
        lambda: anext(client.interactions.watch("a")),
        lambda: anext(client.stream("disk_usage")),
        lambda: anext(client.read_node("n")),
        lambda: anext(client.read_node("n", run="r")),
        lambda: client.write_node("n").finish(),
        lambda: client.open_session(),
    ]

async def refused(error, ask, text):
    try:
        await ask()
    except error as caught:
        assert text in str(caught), caught
    else:
        raise AssertionError("nothing was raised")

async def first():
    client = await a11_grpc.connect(address)
    uses_of_it = uses(client)
    await client.call("word_count", text="a")
    await client.close()
    await client.close()
    for _ in range(20):
        for ask in uses_of_it:
            await refused(StatusError, ask, "the client is closed")
    return await a11_grpc.connect(address)

async def second(client):
    for ask in (lambda: client.call("word_count", text="a"), lambda: client.actions()):
        await refused(RuntimeError, ask, "another event loop")
    async with a11_grpc.connect(address) as one, a11_grpc.connect(address) as two:
        calls = [each.call("word_count", text="a") for each in (one, two)]
        both = await asyncio.gather(*calls)
        assert [found["words"] for found in both] == [1, 1]
    print("fine")

client = asyncio.run(first())
asyncio.run(second(client))
"""


async def test_a_client_that_is_closed_or_of_another_loop_says_so(address: str) -> None:
    """In a program of its own: gRPC's channels crash it, where they are used after their end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "faulthandler", "-c", CLOSED, address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        stdout, stderr = await process.communicate()
    assert (process.returncode, stdout) == (0, b"fine\n"), stderr.decode()


async def test_closing_ends_what_is_under_way_with_a_status(client: Client, address: str) -> None:
    async def wait() -> None:
        await asyncio.sleep(3600)

    await client.host(hosted(wait, "odd_wait"))
    turn = {"role": "assistant"}
    turn["content"] = [{"type": "tool_use", "id": "a", "name": "odd_wait", "input": {}}]  # type: ignore[assignment]

    async def last(other: Client) -> None:
        async for event in other.execute_stream(turn, allow="odd_wait"):
            if isinstance(event, a11_grpc.Started):
                began.set()

    async def check(ask: Callable[[Client], Any]) -> None:
        async with asyncio.timeout(20):
            other = await a11_grpc.connect(address)
            asking = asyncio.ensure_future(ask(other))
            await asyncio.wait((asking,), timeout=0.1)
            assert not asking.done()
            await other.close()
            with pytest.raises(StatusError) as caught:
                await asking
            assert (caught.value.code, caught.value.reason) == (Code.CANCELLED, Reason.CANCELLED)
            assert caught.value.message == "the client is closed"

    began = asyncio.Event()
    await check(lambda other: other.call("odd_wait"))
    await check(lambda other: other.execute(turn, allow="odd_wait"))
    await check(last)
    assert began.is_set()
    # Whoever is cancelled stays so.
    asking = asyncio.ensure_future(client.execute(turn, allow="odd_wait"))
    await asyncio.wait((asking,), timeout=0.1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
