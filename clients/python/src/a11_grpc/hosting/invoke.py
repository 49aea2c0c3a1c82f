"""Calling the function of an action: its inputs as arguments, what it returns as outputs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from a11_grpc.hosting.context import Context
from a11_grpc.hosting.input import Input
from a11_grpc.hosting.types import UnfitValueError, ValueType
from a11_grpc.schema import Port
from a11_grpc.wire.chunk import Chunk
from a11_grpc.wire.status import Reason, StatusError

if TYPE_CHECKING:
    from a11_grpc.hosting.signature import Parameter


class Returned:
    """What a function returns, as ports; `is_single`: the value is the one output itself.

    Else it is an instance of `kind`, whose fields the outputs are.
    """

    def __init__(
        self,
        ports: list[tuple[Port, ValueType]],
        *,
        is_single: bool,
        kind: Any = object,
    ) -> None:
        self.ports = ports
        self.is_single = is_single
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Invocation:
    """A function, and what its parameters and its result are."""

    function: Callable[..., Any]
    parameters: list[Parameter]
    returned: Returned
    in_thread: bool
    """Whether the function would hold up the event loop."""


async def invoke(invocation: Invocation, context: Context) -> None:
    """Runs the function for a call.

    Raises:
        StatusError: INVALID_ARGUMENT for an input that does not fit, INTERNAL for such an output.
    """
    arguments: dict[str, Any] = {}
    for parameter in invocation.parameters:
        arguments[parameter.name] = await _argument(parameter, context)
    if invocation.in_thread:
        await context.in_thread(_run_in_thread, invocation, context, arguments)
        return
    result = invocation.function(**arguments)
    if inspect.isawaitable(result):
        result = await result
    await _write(invocation.returned, context, result)


async def _argument(parameter: Parameter, context: Context) -> Any:
    port, type = parameter.port, parameter.type
    if port is None or type is None:
        return context
    if port.stream:
        values = Values(port, type, context.input(port.name))
        return values if parameter.is_async else _blocking(values, context)
    chunk = await context.read_chunk(port.name)
    if chunk is None:
        if port.required:
            raise StatusError.of(Reason.MISSING_INPUT, f"input {port.name!r} is required")
        return parameter.absent()
    return _read(port, type, chunk)


def _read(port: Port, type: ValueType, chunk: Chunk) -> Any:
    try:
        return type.read(chunk)
    except UnfitValueError as error:
        raise StatusError.of(Reason.INVALID_INPUT, f"input {port.name!r}: {error}") from error


class Values(AsyncIterator[Any]):
    """The values of a stream input, as they come."""

    def __init__(self, port: Port, type: ValueType, input: Input) -> None:
        self._port = port
        self._type = type
        self._input = input

    async def __anext__(self) -> Any:
        chunk = await self._input.next_chunk()
        if chunk is None:
            raise StopAsyncIteration
        return _read(self._port, self._type, chunk)


def _blocking(values: Values, context: Context) -> Iterator[Any]:
    """A stream input for a function that runs in a thread."""
    end = object()

    async def step() -> Any:
        return await anext(values, end)

    while (value := context.wait_for(step())) is not end:
        yield value


def _run_in_thread(invocation: Invocation, context: Context, arguments: dict[str, Any]) -> None:
    result = invocation.function(**arguments)
    returned = invocation.returned
    if returned.is_single and returned.ports[0][0].stream and isinstance(result, Iterator):
        port, type = returned.ports[0]
        for value in result:
            context.wait_for(context.write(port.name, _written(port, type, value)))
        context.wait_for(context.finish(port.name))
        return
    context.wait_for(_settled(returned, context, result))


async def _settled(returned: Returned, context: Context, result: Any) -> None:
    if inspect.isawaitable(result):
        result = await result
    await _write(returned, context, result)


async def _write(returned: Returned, context: Context, result: Any) -> None:
    if not returned.ports:
        return
    if returned.is_single:
        port, type = returned.ports[0]
        await _write_port(context, port, type, result)
        return
    if not isinstance(result, returned.kind):
        message = f"expected {returned.kind.__name__}, got {result.__class__.__name__}"
        raise StatusError.of(Reason.INVALID_OUTPUT, f"outputs: {message}")
    streams = []
    for port, type in returned.ports:
        value = getattr(result, port.name, None)
        if port.stream:
            streams.append(_write_port(context, port, type, value))
        elif value is not None or not _is_absent(port):
            await _write_port(context, port, type, value)
    try:
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(stream)
    except ExceptionGroup as several:
        # The first to fail ended the others; its status is the call's.
        raise several.exceptions[0] from None


def _is_absent(port: Port) -> bool:
    """Whether None on the port means that nothing is written."""
    return port.json_schema is not None and "null" not in str(port.json_schema)


async def _write_port(context: Context, port: Port, type: ValueType, value: Any) -> None:
    if not port.stream:
        if value is None and type.is_binary and not port.required:
            await context.finish(port.name)
            return
        await context.write(port.name, _written(port, type, value))
        return
    if isinstance(value, AsyncIterable):
        async for item in value:
            await context.write(port.name, _written(port, type, item))
    elif isinstance(value, Iterator):
        # Its next value may take its time.
        end = object()
        while (item := await context.in_thread(next, value, end)) is not end:
            await context.write(port.name, _written(port, type, item))
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        for item in value:
            await context.write(port.name, _written(port, type, item))
    elif value is not None:
        message = f"output {port.name!r} is a stream, not {value.__class__.__name__}"
        raise StatusError.of(Reason.INVALID_OUTPUT, message)
    await context.finish(port.name)


def _written(port: Port, type: ValueType, value: Any) -> Any:
    try:
        return type.write(value)
    except UnfitValueError as error:
        raise StatusError.of(Reason.INVALID_OUTPUT, f"output {port.name!r}: {error}") from error
