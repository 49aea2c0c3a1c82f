"""Running what a model asked for: the results, and the messages to append."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpc import aio

from a11_grpc._proto import action_service_pb2 as pb
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc._proto.interaction_pb2 import Interaction
from a11_grpc.client.events import Log, log_from_proto
from a11_grpc.client.outputs import FieldReader, result_value
from a11_grpc.client.reply import Config, put_reply
from a11_grpc.interaction.backend import Backend, backend_from_proto, backend_to_proto
from a11_grpc.schema import ActionSchema
from a11_grpc.wire.json import load_json
from a11_grpc.wire.status import (
    Status,
    StatusError,
    error_from_grpc,
    status_from_proto,
    status_to_proto,
)

if TYPE_CHECKING:
    from a11_grpc.client.parts import Parts

ANSWER_SECONDS = 10.0
"""How much longer than its calls a request may take, in seconds."""


@dataclass(frozen=True, slots=True)
class RejectedCall:
    """A call that was refused before it got here; `position` is its place among all, from 0."""

    position: int
    id: str
    name: str
    status: Status


@dataclass(frozen=True, slots=True)
class CallResult:
    """How one call ended; `value` is its result, None where it failed."""

    id: str
    name: str
    status: Status
    log: str = ""
    value: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """How the calls of a turn ended, and what to go on with."""

    messages: list[Any]
    """What to append for the provider, plain JSON values; empty without a backend."""
    interaction: Interaction
    """The next user turn."""
    results: list[CallResult]
    """One a call, in the order the model made them."""
    backend: Backend | None
    """The provider whose shape `messages` have."""


@dataclass(frozen=True, slots=True)
class Started:
    """A call began."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Narrated:
    """A call narrated."""

    id: str
    log: Log


@dataclass(frozen=True, slots=True)
class Produced:
    """A call put a value out; `field` is where it stands in the result, `_` for all of it."""

    id: str
    field: str
    value: Any


@dataclass(frozen=True, slots=True)
class Ended:
    """A call ended; its result, without the value, which the summary has."""

    result: CallResult


@dataclass(frozen=True, slots=True)
class Summary:
    """All calls ended. Last."""

    result: Result


ExecuteEvent = Started | Narrated | Produced | Ended | Summary
"""What happens while the calls of a turn run."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A turn to run and how; the fields are those of `Client.execute`."""

    reply: object
    allow: str | Sequence[str] | None
    backend: Backend | str | None
    timeout: float | None
    max_output_bytes: int | None
    max_media_bytes: int | None
    action_configs: Mapping[str, Config] | None
    rejected: Sequence[RejectedCall]
    store: bool
    conversation: str
    interaction_id: str

    def request(self) -> pb.ExecuteActionsFromInteractionRequest:
        """The request.

        Raises:
            StatusError: INVALID_ARGUMENT for what cannot be sent.
        """
        request = pb.ExecuteActionsFromInteractionRequest(
            allowed_actions=[self.allow] if isinstance(self.allow, str) else self.allow,
            backend=backend_to_proto(self.backend),
            max_output_bytes=self.max_output_bytes,
            max_media_bytes=self.max_media_bytes,
            store=self.store,
            conversation=self.conversation,
            interaction_id=self.interaction_id,
        )
        put_reply(request, self.reply, self.action_configs)
        if self.timeout is not None:
            request.call_timeout.FromNanoseconds(math.ceil(self.timeout * 1e9))
        for call in self.rejected:
            request.rejected_calls.add(
                position=call.position,
                id=call.id,
                name=call.name,
                status=status_to_proto(call.status),
            )
        return request

    @property
    def rpc_timeout(self) -> float | None:
        """The deadline of the RPC: the calls end before it."""
        return None if self.timeout is None else self.timeout + ANSWER_SECONDS


async def execute(parts: Parts, execution: Execution, headers: Mapping[str, bytes]) -> Result:
    """Runs the calls of a turn."""
    try:
        response = await ActionServiceStub(parts.channel).ExecuteActionsFromInteraction(
            execution.request(),
            metadata=request_metadata(parts, headers),
            timeout=execution.rpc_timeout,
        )
    except aio.AioRpcError as error:
        raise error_from_grpc(error) from error
    return await _result(parts, response)


async def execute_stream(
    parts: Parts, execution: Execution, headers: Mapping[str, bytes]
) -> AsyncGenerator[ExecuteEvent, None]:
    """Runs the calls of a turn and yields what happens; leaving it cancels them."""
    rpc = ActionServiceStub(parts.channel).StreamActionsFromInteraction(
        pb.StreamActionsFromInteractionRequest(request=execution.request()),
        metadata=request_metadata(parts, headers),
        timeout=execution.rpc_timeout,
    )
    readers: dict[tuple[str, str], FieldReader] = {}
    try:
        async for message in rpc:
            kind = message.WhichOneof("event")
            if kind == "started":
                yield Started(message.started.id, message.started.name)
            elif kind == "log":
                yield Narrated(message.log.id, log_from_proto(message.log.entry))
            elif kind == "output":
                for fragment in message.output.fragments:
                    key = (message.output.id, fragment.id)
                    reader = readers.setdefault(key, FieldReader())
                    if reader.add(fragment):
                        yield Produced(message.output.id, fragment.id, reader.latest())
            elif kind == "finished":
                yield Ended(_call_result(message.finished, None))
            elif kind == "summary":
                yield Summary(await _result(parts, message.summary))
    except aio.AioRpcError as error:
        raise error_from_grpc(error) from error
    finally:
        rpc.cancel()


def request_metadata(
    parts: Parts, headers: Mapping[str, bytes]
) -> tuple[tuple[str, str | bytes], ...]:
    """What goes with a request about a model's calls: who asks, and these headers."""
    sent: list[tuple[str, str | bytes]] = list(parts.metadata)
    session = parts.keeper.current
    if session is not None and not any(key == "x-a11-session" for key, _ in sent):
        sent.append(("x-a11-session", session.id))
    for name, value in headers.items():
        sent.append((name, value if name.endswith("-bin") else value.decode("latin-1")))
    return tuple(sent)


async def _result(parts: Parts, response: pb.ExecuteActionsFromInteractionResponse) -> Result:
    results = []
    for call in response.results:
        value = None
        if not call.status.code and call.id in response.interaction.action_outputs:
            fragments = response.interaction.action_outputs[call.id].fragments
            value = result_value(fragments, await _schema(parts, call.name))
        results.append(_call_result(call, value))
    return Result(
        [load_json(message) for message in response.messages],
        response.interaction,
        results,
        backend_from_proto(response.backend),
    )


def _call_result(call: pb.CallResult, value: Any) -> CallResult:
    return CallResult(call.id, call.name, status_from_proto(call.status), call.log, value)


async def _schema(parts: Parts, name: str) -> ActionSchema | None:
    try:
        return await parts.schemas.schema(name)
    except StatusError:
        # Run by a peer that a config named, or gone since: the fragments speak for themselves.
        return None
