"""The fixture actions of the conformance cases."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

from a11_grpc import ActionSchema, Chunk, Code, Context, Port, Registry, StatusError

FRAME = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaPgPAAJjAaB56d6tAAAAAElFTkSuQmCC"
)
FRAME2 = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGNQaPgPRAAJogM/KPz0VQAAAABJRU5ErkJggg=="
)
CLIP = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=")
BLOB = bytes([0xFF, 0xFE, 0, 0x10, 0x3E, 0x3F])

REGISTRY = Registry()

Run = Callable[[Context], Awaitable[None]]


def fixture(
    name: str,
    description: str,
    inputs: list[Port] | None = None,
    outputs: list[Port] | None = None,
    **options: Any,
) -> Callable[[Run], Run]:
    """Registers a handler under a schema written by hand, as the cases have it."""

    def add(run: Run) -> Run:
        schema = ActionSchema(name, description, inputs or [], outputs or [], **options)
        REGISTRY.register(schema, run)
        return run

    return add


def text(name: str, description: str = "", **options: bool) -> Port:
    return Port.text(name, description, **options)


def json(name: str, schema: Any = None, *, required: bool = False, stream: bool = False) -> Port:
    return Port(name, required=required, stream=stream, json_schema=schema)


INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}
STRINGS = {"items": {"type": "string"}, "type": "array"}


@fixture(
    "echo",
    "Echo a word back.",
    [text("word", "What to say.", required=True)],
    [text("echoed", required=True)],
)
async def echo(ctx: Context) -> None:
    await ctx.write("echoed", await ctx.read("word"))


@fixture(
    "split_words",
    "Emit the words of a line.",
    [text("text", required=True)],
    [text("words", stream=True)],
)
async def split_words(ctx: Context) -> None:
    for word in (await ctx.read("text")).split():
        await ctx.write("words", word)
    await ctx.finish("words")


@fixture(
    "counted",
    "Words of a line and their number.",
    [text("text", required=True), text("parts", "Extra parts.", stream=True)],
    [text("words", stream=True), json("total", INTEGER)],
)
async def counted(ctx: Context) -> None:
    total = 0
    for word in (await ctx.read("text")).split():
        await ctx.write("words", word)
        total += 1
    async for part in ctx.read_stream("parts"):
        await ctx.write("words", part)
        total += 1
    await ctx.finish("words")
    await ctx.write("total", total)


@fixture("narrate", "Log, then answer.", [text("topic", required=True)], [text("result")])
async def narrate(ctx: Context) -> None:
    topic = await ctx.read("topic")
    ctx.log(f"Looked up {topic}.\n\n2 lines of output.")
    ctx.log_internal("resolved the shell")
    ctx.log(" Then summarised it.")
    await ctx.write("result", topic.upper())


@fixture(
    "who_am_i",
    "Uses an input the caller cannot set.",
    [
        text("question", required=True),
        Port("user_id", "text/plain", "", True, False, {"type": "string"}, "user-7"),
    ],
    [text("answer")],
)
async def who_am_i(ctx: Context) -> None:
    await ctx.write("answer", f"{await ctx.read('question')} {await ctx.read('user_id')}")


@fixture(
    "unicode_keys",
    "Reverse a text by code point.",
    [text("text", required=True)],
    [text("reversed_text")],
)
async def unicode_keys(ctx: Context) -> None:
    await ctx.write("reversed_text", (await ctx.read("text"))[::-1])


@fixture("no_outputs", "Returns nothing.", [text("word")])
async def no_outputs(ctx: Context) -> None:
    await ctx.read("word")


@fixture("leaves_open", "Never finalizes its output.", [], [text("words", stream=True)])
async def leaves_open(ctx: Context) -> None:
    await ctx.write("words", "one")
    await ctx.write("words", "two")


@fixture(
    "order_status",
    "Status of an order.",
    [text("order_id", required=True)],
    [text("status"), text("debug")],
    output_to_json_field={"status": "order_status"},
)
async def order_status(ctx: Context) -> None:
    await ctx.write("debug", "looked at shard 3")
    await ctx.write("status", f"{await ctx.read('order_id')}: delayed")


@fixture(
    "whole_document",
    "The whole result is one document.",
    [text("query", required=True)],
    [
        json(
            "result",
            {
                "properties": {"hits": INTEGER, "q": {"type": "string"}},
                "type": "object",
            },
        )
    ],
    output_to_json_field={"result": "$"},
)
async def whole_document(ctx: Context) -> None:
    await ctx.write("result", {"q": await ctx.read("query"), "hits": 2})


@fixture(
    "whole_string",
    "",
    [text("query", required=True)],
    [text("result")],
    output_to_json_field={"result": "$"},
)
async def whole_string(ctx: Context) -> None:
    await ctx.write("result", f"answer to {await ctx.read('query')}")


@fixture(
    "options",
    "One array value on a unary port.",
    [json("options", STRINGS, required=True)],
    [json("count", INTEGER)],
)
async def options(ctx: Context) -> None:
    await ctx.write("count", len(await ctx.read("options")))


@fixture(
    "describe_object",
    "Sorted keys of an object.",
    [json("thing", required=True)],
    [json("keys", STRINGS)],
)
async def describe_object(ctx: Context) -> None:
    thing = await ctx.read("thing")
    if not isinstance(thing, dict):
        raise StatusError(Code.INVALID_ARGUMENT, "thing is no object")
    await ctx.write("keys", sorted(thing))


@fixture(
    "picture",
    "A picture and its legend.",
    [text("caption", required=True)],
    [Port("frame", "image/png"), json("legend")],
)
async def picture(ctx: Context) -> None:
    await ctx.write("frame", FRAME)
    await ctx.write("legend", {"caption": await ctx.read("caption"), "floor_index": 0})


@fixture("picture_only", "Nothing but a picture.", [], [Port("frame", "image/png")])
async def picture_only(ctx: Context) -> None:
    await ctx.write("frame", FRAME)


@fixture("two_pictures", "Two frames on one port.", [], [Port("frames", "image/png", stream=True)])
async def two_pictures(ctx: Context) -> None:
    await ctx.write("frames", FRAME)
    await ctx.write("frames", Chunk("image/png", FRAME2))
    await ctx.finish("frames")


@fixture("sound", "A sound and its title.", [], [Port("clip", "audio/wav"), text("title")])
async def sound(ctx: Context) -> None:
    await ctx.write("clip", CLIP)
    await ctx.write("title", "beep")


@fixture(
    "raw_bytes",
    "Bytes that are not UTF-8.",
    [],
    [Port("blob", "application/octet-stream"), text("note")],
)
async def raw_bytes(ctx: Context) -> None:
    await ctx.write("blob", BLOB)
    await ctx.write("note", "six bytes")


@fixture(
    "fail_with",
    "Fail on purpose.",
    [text("code", required=True), text("message")],
    [text("never")],
)
async def fail_with(ctx: Context) -> None:
    raise StatusError(Code[await ctx.read("code")], await ctx.read("message") or "")


@fixture(
    "partial_then_fail",
    "One value, then a failure.",
    [text("word", required=True)],
    [text("words", stream=True)],
)
async def partial_then_fail(ctx: Context) -> None:
    await ctx.write("words", await ctx.read("word"))
    raise StatusError(Code.DATA_LOSS, "disk went away")


@fixture(
    "slow",
    "Wait, then answer.",
    [json("millis", INTEGER, required=True)],
    [text("done")],
)
async def slow(ctx: Context) -> None:
    await asyncio.sleep(await ctx.read("millis") / 1000)
    await ctx.write("done", "done")


@fixture(
    "big",
    "A result of a given size.",
    [json("bytes", INTEGER, required=True)],
    [text("data")],
)
async def big(ctx: Context) -> None:
    await ctx.write("data", "x" * await ctx.read("bytes"))


@fixture(
    "sum_numbers",
    "Add numbers.",
    [json("numbers", NUMBER, required=True, stream=True)],
    [json("total", NUMBER)],
)
async def sum_numbers(ctx: Context) -> None:
    await ctx.write("total", sum([number async for number in ctx.read_stream("numbers")]))
