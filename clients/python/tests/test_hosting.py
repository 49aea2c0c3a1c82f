"""Actions hosted here and called through the service."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

import a11_grpc
from a11_grpc import (
    ActionSchema,
    Client,
    Code,
    Context,
    Header,
    MediaType,
    Port,
    Reason,
    Registry,
    Status,
    StatusError,
)
from a11_grpc.hosting import host

REGISTRY = Registry()


class Place(BaseModel):
    city: str
    zip: int | None = None


@dataclass
class Parcel:
    to: Place
    weights: list[float]


@REGISTRY.action
async def h_model(parcel: Parcel, day: date = date(2026, 1, 2)) -> Parcel:
    """Structures are validated on the way in and written on the way out."""
    assert isinstance(parcel.to, Place)
    assert isinstance(day, date)
    return Parcel(Place(city=f"{parcel.to.city} {day.isoformat()}"), parcel.weights)


@REGISTRY.action
def h_thread(text: str, ctx: Context) -> str:
    """Runs in a thread."""
    ctx.log("in a thread")
    return f"{text} {threading.current_thread() is threading.main_thread()}"


@REGISTRY.action
def h_thread_streams(numbers: Iterator[int]) -> Iterator[int]:
    """A stream in and a stream out, in a thread."""
    for number in numbers:
        yield number * 2


@REGISTRY.action
async def h_picture(
    png: Annotated[bytes, MediaType("image/png")],
) -> Annotated[bytes, MediaType("image/png")]:
    """A picture in and a picture out."""
    return png


@REGISTRY.action
async def h_limits(count: Annotated[int, Field(ge=1, le=3)] = 2) -> int:
    """A number within bounds."""
    return count


@REGISTRY.action
async def h_raise(kind: str) -> str:
    """Fails."""
    if kind == "status":
        raise StatusError(Code.NOT_FOUND, "no such order", details=('{"id":4}',))
    if kind == "lookup":
        raise LookupError("the shelf is empty")
    if kind == "exit":
        raise SystemExit(3)
    return 5 if kind == "type" else kind  # type: ignore[return-value]


@REGISTRY.action
async def h_partial(count: int) -> AsyncIterator[int]:
    """Fails after some values."""
    for number in range(count):
        yield number
    raise StatusError(Code.DATA_LOSS, "disk went away")


@REGISTRY.action(headers=["X-Tenant", Header("x-region", default=b"eu")])
async def h_headers(ctx: Context) -> dict[str, str]:
    """The headers that arrive."""
    return {name: value.decode() for name, value in ctx.headers.items()}


@REGISTRY.action
async def h_nested(ctx: Context, depth: int) -> dict[str, Any]:
    """Calls itself, and says what arrived below."""
    if depth > 0:
        return dict(await ctx.call("h_nested", depth=depth - 1))
    left = ctx.time_left()
    return {"trace": ctx.headers.get("x-otel-trace", b"").decode(), "left": left}


class Blocker:
    """An action that waits, and what becomes of it."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()
        self.error: BaseException | None = None

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.sleep(3600)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.ended.set()


@pytest.fixture
async def hosted(client: Client) -> Client:
    await client.host(REGISTRY)
    assert client.refused == {}
    return client


async def fails(client: Client, action: str, /, **arguments: Any) -> Status:
    with pytest.raises(StatusError) as caught:
        await client.call(action, **arguments)
    return caught.value.status


async def test_structures_arrive_as_what_they_were_declared(hosted: Client) -> None:
    parcel = {"to": {"city": "Bern", "zip": 3000}, "weights": [1, 2.5]}
    expected = {"to": {"city": "Bern 2026-01-02", "zip": None}, "weights": [1.0, 2.5]}
    assert await hosted.call("h_model", parcel=parcel) == expected
    given = Parcel(Place(city="Bern"), [1, 2.5])
    assert await hosted.call("h_model", parcel=given, day="2026-01-02") == expected


async def test_functions_that_block_run_in_threads(hosted: Client) -> None:
    assert await hosted.call("h_thread", text="main:") == "main: False"
    doubled = await hosted.call("h_thread_streams", numbers=range(500))
    assert doubled == [number * 2 for number in range(500)]


async def test_bytes_have_the_media_type_that_was_declared(hosted: Client) -> None:
    chunk = await hosted.call("h_picture", png=b"\x89PNG")
    assert (chunk.media_type, chunk.data) == ("image/png", b"\x89PNG")


async def test_arguments_are_validated_before_the_function_runs(hosted: Client) -> None:
    assert await hosted.call("h_limits", count=3) == 3
    status = await fails(hosted, "h_limits", count=4)
    assert (status.code, status.reason) == (Code.INVALID_ARGUMENT, Reason.INVALID_INPUT)
    assert "count" in status.message
    status = await fails(hosted, "h_model", parcel={"to": {"zip": 1}, "weights": []})
    assert status.code is Code.INVALID_ARGUMENT
    assert "city" in status.message


async def test_what_a_handler_raises_is_how_its_call_ends(hosted: Client) -> None:
    async def check(kind: str, code: Code, reason: Reason, message: str) -> None:
        status = await fails(hosted, "h_raise", kind=kind)
        assert (status.code, status.reason) == (code, reason)
        assert message in status.message

    await check("status", Code.NOT_FOUND, Reason.HANDLER_FAILED, "no such order")
    await check("lookup", Code.INTERNAL, Reason.HANDLER_FAILED, "LookupError: the shelf is empty")
    await check("exit", Code.INTERNAL, Reason.HANDLER_FAILED, "SystemExit")
    await check("type", Code.INTERNAL, Reason.INVALID_OUTPUT, "output 'output'")
    assert await hosted.call("h_raise", kind="fine") == "fine"
    status = await fails(hosted, "h_raise", kind="status")
    assert status.details == ('{"id":4}',)


async def test_values_before_a_failure_arrive_and_then_the_failure(hosted: Client) -> None:
    received = []
    with pytest.raises(StatusError, match="disk went away") as caught:
        async for value in hosted.stream("h_partial", count=3):
            received.append(value)
    assert received == [0, 1, 2]
    assert caught.value.code is Code.DATA_LOSS


async def test_headers_arrive_where_they_flow_or_are_declared(hosted: Client) -> None:
    headers = {"X-Tenant": "t", "x-other": "o", "X-A11-Mark": "m"}
    found = await hosted.with_options(headers=headers).call("h_headers")
    assert (found["x-tenant"], found["x-region"], found["x-a11-mark"]) == ("t", "eu", "m")
    assert "x-other" not in found


async def test_nested_calls_have_the_headers_and_the_time_of_their_parent(hosted: Client) -> None:
    options = hosted.with_options(timeout=30, headers={"x-otel-trace": "abc"})
    found = await options.call("h_nested", depth=3)
    assert found["trace"] == "abc"
    assert 0 < found["left"] <= 30
    assert (await hosted.call("h_nested", depth=1))["left"] is None


async def test_leaving_a_call_cancels_its_handler(client: Client) -> None:
    blocker, registry = Blocker(), Registry()

    @registry.action
    async def h_block() -> AsyncIterator[int]:
        """Says one thing and waits."""
        yield 1
        await blocker.run()

    await client.host(registry)
    async for _ in client.stream("h_block"):
        break
    async with asyncio.timeout(10):
        await blocker.ended.wait()
    assert isinstance(blocker.error, asyncio.CancelledError)


async def test_a_handler_that_only_writes_hears_of_its_end_too(client: Client) -> None:
    registry, ended = Registry(), asyncio.Event()

    @registry.action
    async def h_endless(blob: str) -> AsyncIterator[str]:
        """Waits for nothing but room."""
        try:
            while True:
                yield blob
        finally:
            ended.set()

    await client.host(registry)
    async for _ in client.stream("h_endless", blob="x" * 1000):
        break
    async with asyncio.timeout(10):
        await ended.wait()


async def test_a_deadline_ends_the_call_and_its_handler(client: Client) -> None:
    blocker, registry = Blocker(), Registry()

    @registry.action
    async def h_late() -> None:
        """Waits."""
        await blocker.run()

    await client.host(registry)
    began = time.monotonic()
    status = await fails(client.with_options(timeout=1), "h_late")
    assert (status.code, status.reason) == (Code.DEADLINE_EXCEEDED, Reason.DEADLINE)
    assert time.monotonic() - began < 5
    async with asyncio.timeout(10):
        await blocker.ended.wait()
    assert isinstance(blocker.error, asyncio.CancelledError)
    status = await fails(client.with_options(timeout=-1), "h_late")
    assert status.code is Code.DEADLINE_EXCEEDED


async def test_a_handler_that_ignores_its_end_is_given_up_and_reported(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Scenario 20."""
    monkeypatch.setattr(host, "ABANDON_AFTER", 0.05)
    registry, release, began = Registry(), asyncio.Event(), asyncio.Event()

    @registry.action
    async def h_stubborn() -> str:
        """Goes on whatever it is told."""
        began.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    await client.host(registry)
    call = await client.start("h_stubborn")
    await began.wait()
    call.cancel()
    async with asyncio.timeout(10):
        while "h_stubborn" not in caplog.text:
            await asyncio.sleep(0.005)
    assert "ignores that its call is over" in caplog.text
    assert await client.call("word_count", text="a") == {"words": 1, "lines": 1, "characters": 2}
    release.set()


async def test_threads_that_wait_for_each_other_do_not_run_out(client: Client) -> None:
    registry = Registry()

    @registry.action
    def h_chain(ctx: Context, depth: int) -> int:
        """As deep as it is told, each level in a thread that waits."""
        if depth == 0:
            return 0
        return 1 + int(ctx.wait_for(ctx.call("h_chain", depth=depth - 1)))

    await client.host(registry)
    async with asyncio.timeout(60):
        found = await asyncio.gather(*(client.call("h_chain", depth=7) for _ in range(12)))
    assert found == [7] * 12


async def test_a_thread_is_told_that_its_call_is_over(client: Client) -> None:
    began, ended, registry = threading.Event(), threading.Event(), Registry()

    @registry.action
    def h_spin(ctx: Context) -> None:
        """Works until it is told to stop."""
        began.set()
        while not ctx.cancelled:
            time.sleep(0.001)
        ended.set()

    await client.host(registry)
    call = await client.start("h_spin")
    assert await asyncio.to_thread(began.wait, 10)
    call.cancel()
    assert await asyncio.to_thread(ended.wait, 10)
    with pytest.raises(StatusError) as caught:
        await call.result()
    assert caught.value.code is Code.CANCELLED


async def test_a_handler_written_by_hand_reads_and_writes_ports(client: Client) -> None:
    registry = Registry()
    schema = ActionSchema(
        "h_hand",
        "Everything by hand.",
        inputs=[Port.text("text", required=True), Port("user", "text/plain", autofill="u7")],
        outputs=[Port.text("words", stream=True), Port("total")],
    )

    async def run(ctx: Context) -> None:
        words = (await ctx.read("text")).split()
        for word in [*words, await ctx.read("user")]:
            await ctx.write("words", word)
        await ctx.finish("words")
        await ctx.write("total", len(words))

    registry.register(schema, run)
    await client.host(registry)
    assert [port.name for port in (await client.schema("h_hand")).inputs] == ["text"]
    assert await client.call("h_hand", text="a b") == {"words": ["a", "b", "u7"], "total": 2}


async def test_actions_come_and_go_while_they_are_hosted(client: Client) -> None:
    registry = Registry()
    await client.host(registry)

    @registry.action
    async def h_late_comer() -> str:
        """Was not there at first."""
        return "here"

    async with asyncio.timeout(10):
        while not await client.actions("h_late_comer"):
            await asyncio.sleep(0.005)
    assert await client.call("h_late_comer") == "here"
    registry.remove("h_late_comer")
    async with asyncio.timeout(10):
        while await client.actions("h_late_comer"):
            await asyncio.sleep(0.005)
    assert (await fails(client, "h_late_comer")).reason is Reason.UNKNOWN_ACTION


async def test_what_the_service_does_not_serve_is_reported(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry()

    @registry.action
    async def word_count(text: str) -> int:
        """Of that name there is one already."""
        return len(text)

    @registry.action
    async def h_good() -> str:
        """Is served all the same."""
        return "good"

    broken = ActionSchema("h_broken", outputs=[Port("x", json_schema={"type": "nope"})])

    async def run(ctx: Context) -> None: ...

    registry.register(broken, run)
    answered = await client.host(registry)
    refused = {name: status.reason for name, status in client.refused.items()}
    assert refused == {"word_count": Reason.NAME_TAKEN, "h_broken": Reason.INVALID_REQUEST}
    assert answered == client.refused
    # A line each, with what the service said, seen without any setting of logging.
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 2
    assert f"'word_count': {client.refused['word_count']}" in "".join(lines)
    assert all(len(line.splitlines()) == 1 for line in lines)
    assert await client.call("h_good") == "good"
    registry.remove("word_count")
    registry.remove("h_broken")


async def test_who_wants_to_hear_of_refusals_is_told(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry, told = Registry(), []

    @registry.action
    async def word_count(text: str) -> int:
        """Of that name there is one already."""
        return len(text)

    def hear(name: str, status: Status) -> None:
        told.append((name, status))
        raise LookupError("mine")

    async with a11_grpc.connect(address, registry=registry, on_refused=hear) as client:
        assert told == [*client.refused.items()]
        assert [(name, status.reason) for name, status in told] == [
            ("word_count", Reason.NAME_TAKEN)
        ]
        # What it raises is the program's own fault, and none of the session's.
        assert [record.getMessage() for record in caplog.records] == ["on_refused failed"]
        assert (await client.call("word_count", text="a"))["words"] == 1


async def test_a_registry_can_be_hosted_from_the_start(address: str) -> None:
    registry = Registry()

    @registry.action
    async def h_start() -> str:
        """There from the start."""
        return "there"

    async with a11_grpc.connect(address, registry=registry) as client:
        assert client.session_id is not None
        assert await client.call("h_start") == "there"
