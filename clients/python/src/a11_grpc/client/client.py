"""A client of a service."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from a11_grpc._proto.interaction_pb2 import Interaction
from a11_grpc.client.address import ping
from a11_grpc.client.arguments import sorted_out
from a11_grpc.client.call import Call
from a11_grpc.client.events import Log, Output
from a11_grpc.client.execute import (
    ExecuteEvent,
    Execution,
    RejectedCall,
    Result,
    execute,
    execute_stream,
)
from a11_grpc.client.given import name_of, patterns_of, seconds_of
from a11_grpc.client.interactions import Interactions
from a11_grpc.client.nodes import Nodes, NodeWriter, Place
from a11_grpc.client.parts import Options, Parts
from a11_grpc.client.reply import Config
from a11_grpc.client.tools import declare_tools
from a11_grpc.hosting.registry import Registry
from a11_grpc.interaction.backend import Backend
from a11_grpc.schema import ActionSchema
from a11_grpc.session.core import NewCall
from a11_grpc.wire.status import Reason, Status, StatusError


class Client:
    """A program attached to a service. Made by `connect`; usable from one event loop.

    The session is opened at the first need, resumed when its connection breaks, and opened anew
    when it is lost.
    """

    def __init__(self, parts: Parts, options: Options) -> None:
        self._parts = parts
        self._options = options

    def __repr__(self) -> str:
        state = f"session {self.session_id}" if self.session_id else "no session"
        return f"<Client of {self.url}, {'closed' if self._parts.gate.is_closed else state}>"

    # Calling.

    async def call(self, action: str, /, **arguments: Any) -> Any:
        """Calls an action and waits for its result.

        Stream inputs are given as lists, iterators or async iterators, and are sent while the call
        runs; None for an optional input is as good as absent. The answer is the value of the one
        output, a dict of outputs where there are several, None where there is none; a stream
        output is a list.

        Raises:
            StatusError: What the call ended with.
        """
        call = await self._begin(action, arguments, rest=True)
        try:
            return await call.result()
        except StatusError as error:
            self._parts.schemas.ended(action, error.status)
            raise

    async def stream(self, action: str, /, **arguments: Any) -> AsyncGenerator[Any, None]:
        """Calls an action and yields the values of its streamed output as they come.

        Where several outputs are streams, `with_options(port=…)` chooses. Leaving the loop early
        cancels the call.

        Raises:
            StatusError: What the call ended with, or INVALID_ARGUMENT where no port is meant.
        """
        schema = await self.schema(action)
        port = _streamed(schema, self._options.port)
        call = await self._begin(action, arguments, rest=True)
        try:
            async for event in call:
                if isinstance(event, Output) and event.port == port:
                    yield event.value
        finally:
            call.cancel()
        if call.status is not None:
            self._parts.schemas.ended(action, call.status)
            call.status.raise_if_failed()

    async def start(self, action: str, /, **arguments: Any) -> Call:
        """Starts a call whose inputs that are not given stay open: `call.write`, `call.close`.

        Raises:
            StatusError: NOT_FOUND for an unknown action, INVALID_ARGUMENT for arguments that do
                not fit, UNAVAILABLE where the service is not reached.
        """
        return await self._begin(action, arguments, rest=False)

    def with_options(
        self,
        *,
        timeout: float | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        on_log: Callable[[Log], None] | None = None,
        port: str | None = None,
    ) -> Client:
        """The same client with other options for its calls; what is not given stays.

        Args:
            timeout: How long a call may take, in seconds.
            headers: Sent along; those that an action declares, `x-a11-*` and `x-otel-*` arrive.
            on_log: Is told what a call narrates, internal entries left out.
            port: Which output `stream` yields.
        """
        options = self._options
        if timeout is not None:
            options = replace(options, timeout=seconds_of(timeout))
        if headers is not None:
            encoded = {name.lower(): _header(name, value) for name, value in headers.items()}
            options = replace(options, headers={**options.headers, **encoded})
        if on_log is not None:
            options = replace(options, on_log=on_log)
        if port is not None:
            options = replace(options, port=port)
        return Client(self._parts, options)

    async def _begin(self, action: str, arguments: Mapping[str, Any], *, rest: bool) -> Call:
        parts, options = self._parts, self._options
        parts.gate.check()
        if options.timeout is not None and options.timeout <= 0:
            raise StatusError.of(Reason.DEADLINE, "there is no time left for the call")
        name = name_of(action)
        schema, given = await sorted_out(parts.schemas, name, arguments, are_all=rest)
        session = await parts.keeper.session()
        # Nothing waits for an input that is not listed, even one that is not known here.
        inputs = [*given] if rest else [port.name for port in schema.inputs]
        id = f"call_{uuid.uuid4().hex}"
        new = NewCall(name, id, options.headers, options.timeout, inputs)
        call = Call(session, schema, new)
        call.on_log = options.on_log
        try:
            call.give(given)
        except BaseException:
            call.cancel()
            parts.schemas.ended(name, Status.of(Reason.INVALID_INPUT, ""))
            raise
        return call

    # What a model is told, and what it asked for.

    async def tools(
        self,
        backend: Backend | str,
        *,
        allow: str | Sequence[str] | None = None,
        dialect: str = "",
    ) -> list[dict[str, Any]]:
        """What goes into a provider's request as `tools`: the actions that the model may call.

        Args:
            backend: Whose request it is.
            allow: As for `execute`, which takes the same list: regular expressions, matched whole
                against action names; none lets no tool pass. One that matches no action is warned
                of, once.
            dialect: Which of its shapes: for gpt `chat`, unless it is `responses` or `functions`;
                for gemini `interactions`, unless it is `generate_content`.

        Raises:
            StatusError: INVALID_ARGUMENT for a pattern, backend or dialect that is none;
                RESOURCE_EXHAUSTED where the tools are larger than 16 MiB together.
        """
        return await declare_tools(self._parts, backend, allow, dialect, self._options.headers)

    async def execute(
        self,
        reply: Interaction | object,
        *,
        allow: str | Sequence[str] | None = None,
        backend: Backend | str | None = None,
        timeout: float | None = None,
        max_output_bytes: int | None = None,
        max_media_bytes: int | None = None,
        action_configs: Mapping[str, Config] | None = None,
        rejected: Sequence[RejectedCall] = (),
        store: bool = False,
        conversation: str = "",
        interaction_id: str = "",
    ) -> Result:
        """Runs the calls of a model's turn, and answers what to append to the conversation.

        Args:
            reply: The provider's reply as it came (an SDK's object, a dict, a list of content
                blocks, JSON text), or an `Interaction`.
            allow: Regular expressions, matched whole against action names; none allows nothing.
            backend: Whose shape the messages have; without it, the reply's own.
            timeout: How long a call may take, in seconds; 300 without it.
            max_output_bytes: What a call may put out, pictures and sound apart; 131,072 without it.
            max_media_bytes: The same for pictures and sound; 8,388,608 without it.
            action_configs: Action name → where it runs: an `ActionConfig`, or an address such as
                `a11://$sender` (this client) or `a11://SESSION`.
            rejected: Calls that were refused already; they get their results in place.
            store: Keep a record of the round in `conversation`.
            conversation: With `store`: its name.
            interaction_id: With `store`, for a turn without an id: the one it is recorded under.

        Raises:
            StatusError: INVALID_ARGUMENT for a reply that is none, or a pattern that is no regular
                expression. The failure of a call is in its result.
        """
        execution = Execution(
            reply,
            allow,
            backend,
            seconds_of(timeout) if timeout is not None else self._options.timeout,
            max_output_bytes,
            max_media_bytes,
            action_configs,
            rejected,
            store,
            conversation,
            interaction_id,
        )
        return await execute(self._parts, execution, self._options.headers)

    def execute_stream(
        self,
        reply: Interaction | object,
        *,
        allow: str | Sequence[str] | None = None,
        backend: Backend | str | None = None,
        timeout: float | None = None,
        max_output_bytes: int | None = None,
        max_media_bytes: int | None = None,
        action_configs: Mapping[str, Config] | None = None,
        rejected: Sequence[RejectedCall] = (),
        store: bool = False,
        conversation: str = "",
        interaction_id: str = "",
    ) -> AsyncGenerator[ExecuteEvent, None]:
        """The same as `execute`, as events in the order they happen, the summary last.

        Leaving the loop early cancels the calls.
        """
        execution = Execution(
            reply,
            allow,
            backend,
            seconds_of(timeout) if timeout is not None else self._options.timeout,
            max_output_bytes,
            max_media_bytes,
            action_configs,
            rejected,
            store,
            conversation,
            interaction_id,
        )
        return execute_stream(self._parts, execution, self._options.headers)

    # What there is.

    async def actions(self, *patterns: str) -> list[ActionSchema]:
        """The schemas of the actions whose whole name matches a pattern; without any, all.

        Raises:
            StatusError: INVALID_ARGUMENT for a pattern that is no regular expression.
        """
        return await self._parts.schemas.list(patterns_of("actions", patterns))

    async def schema(self, action: str) -> ActionSchema:
        """The schema of one action.

        Raises:
            StatusError: NOT_FOUND where there is none of that name.
        """
        return await self._parts.schemas.schema(name_of(action))

    @property
    def interactions(self) -> Interactions:
        """Conversations: append, read, watch, convert."""
        return Interactions(self._parts.channel, self._parts.metadata)

    def read_node(
        self, id: str, offset: int = 0, *, session: str | None = None, run: str | None = None
    ) -> AsyncGenerator[Any, None]:
        """The values of a node from a place on, as they are written.

        The node is one of this client's own session unless `session` says which; with `run` it is
        an output of the call that was made with that id in the header `x-a11-run`. A connection
        that breaks is made again from where it stopped.

        Raises:
            StatusError: OUT_OF_RANGE for a place that is no longer kept; NOT_FOUND for a run that
                is not there; the node's own failure.
        """
        return self._nodes.read(Place(id, session or "", run or ""), offset)

    def write_node(
        self,
        id: str,
        media_type: str = "application/json",
        *,
        session: str | None = None,
        run: str | None = None,
    ) -> NodeWriter:
        """Writes a node: `async with client.write_node("n") as node: await node.write(value)`.

        Leaving the block ends the node; an exception in it fails the node. The node is found as by
        `read_node`; of a run it is an input that its caller left open.
        """
        return self._nodes.writer(Place(id, session or "", run or ""), media_type)

    @property
    def _nodes(self) -> Nodes:
        return Nodes(self._parts.channel, self._parts.metadata, self._own_session)

    async def _own_session(self) -> str:
        return (await self._parts.keeper.session()).id

    # Hosting.

    async def host(self, registry: Registry) -> Mapping[str, Status]:
        """Hosts the actions of a registry, those added and removed later included.

        Answers once the service serves them, with those that it does not serve, and why; they are
        in `refused` too, and told to `on_refused` of `connect`, without which they are logged.

        Raises:
            StatusError: UNAVAILABLE where the service is not reached.
        """
        if not isinstance(registry, Registry):
            raise TypeError(f"host takes a Registry, not {type(registry).__name__}")
        await self._parts.add(registry)
        return {name: status for name, status in self.refused.items() if name in registry}

    @property
    def refused(self) -> Mapping[str, Status]:
        """The hosted actions that the service did not serve when they were published, and why.

        It does not tell when it serves one later, whose name has become free.
        """
        return self._parts.keeper.refused

    @property
    def url(self) -> str:
        """Where it is connected to."""
        return self._parts.address.url

    async def ping(self) -> None:
        """Asks the service for an answer.

        Raises:
            StatusError: UNAVAILABLE where there is none.
        """
        await ping(self._parts.channel, self._parts.metadata)

    @property
    def session_id(self) -> str | None:
        """The id of the open session: what `a11://SESSION` names; None where none is open."""
        session = self._parts.keeper.current
        return None if session is None else session.id

    async def open_session(self) -> str:
        """The id of the session, which is opened where it was not.

        Raises:
            StatusError: UNAVAILABLE where the service is not reached.
        """
        return await self._own_session()

    # The end.

    async def close(self) -> None:
        """Ends the session, and what it runs, and closes the connection."""
        await self._parts.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _header(name: str, value: str | bytes) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    message = f"header {name!r}: expected text or bytes, got {type(value).__name__}"
    raise StatusError.of(Reason.INVALID_REQUEST, message)


def _streamed(schema: ActionSchema, chosen: str | None) -> str:
    streams = [port.name for port in schema.outputs if port.stream]
    if chosen is not None:
        if schema.output(chosen) is None:
            message = f"action {schema.name!r} has no output {chosen!r}"
            raise StatusError.of(Reason.INVALID_REQUEST, message)
        return chosen
    if len(streams) != 1:
        which = ", ".join(streams) or "none"
        message = f"the streamed outputs of {schema.name!r} are: {which}; choose with port="
        raise StatusError.of(Reason.INVALID_REQUEST, message)
    return streams[0]
