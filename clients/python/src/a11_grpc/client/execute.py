"""Running what a model asked for: the results, and the messages to append."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpc import aio

from a11_grpc._proto import action_service_pb2 as pb
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc._proto.interaction_pb2 import Interaction
from a11_grpc.client.events import Log, log_from_proto
from a11_grpc.client.given import pair_of, patterns_of
from a11_grpc.client.outputs import FieldReader, result_outputs, result_value
from a11_grpc.client.reply import Config, check_configs, put_reply
from a11_grpc.client.resending import Resending
from a11_grpc.interaction.backend import Backend, backend_from_proto, backend_to_proto
from a11_grpc.schema import ActionSchema
from a11_grpc.wire.json import load_json
from a11_grpc.wire.status import (
    Code,
    Reason,
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
CALL_SECONDS = 300.0
"""How long the service lets a call take, where nothing else is said, in seconds."""


@dataclass(frozen=True, slots=True)
class RejectedCall:
    """A call that was refused already, and cut out of the reply.

    `position` is its place among all the calls of the whole reply, from 0; `status` why, or the
    error that says so.
    """

    position: int
    id: str
    name: str
    status: Status | StatusError


@dataclass(frozen=True, slots=True)
class CallResult:
    """How one call ended.

    `value` is what `Client.call` answers: the value of the action's one output (or of the one that
    is the whole result), a dict where it has several; None where it failed. `outputs` is always a
    dict, by the names of the outputs; those that are no part of the result are not in it.
    """

    id: str
    name: str
    status: Status
    log: str = ""
    value: Any = None
    outputs: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """How the calls of a turn ended, and what to go on with; shown without the latter."""

    messages: list[Any] = field(repr=False)
    """What to append for the provider, plain JSON values; empty without a backend."""
    interaction: Interaction = field(repr=False)
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
    """A call put a value out.

    `field` is where it stands in the result document: the output's name, or what the schema's
    `output_to_json_field` makes of it; `_` where the output is the whole result.
    """

    id: str
    field: str
    value: Any


@dataclass(frozen=True, slots=True)
class Ended:
    """A call ended: its id, name, status and log. Its value and outputs come with the summary."""

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
            allowed_actions=patterns_of("allow", self.allow),
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
                status=status_to_proto(_failure(call)),
            )
        return request

    def resending(self) -> Resending:
        """Its attempts."""
        seconds = CALL_SECONDS if self.timeout is None else self.timeout
        return Resending(is_recorded=self.store and bool(self.conversation), seconds=seconds)


async def execute(parts: Parts, execution: Execution, headers: Mapping[str, bytes]) -> Result:
    """Runs the calls of a turn; a recorded round is asked for again when its connection breaks."""
    request, resending = execution.request(), execution.resending()
    await check_configs(parts, request, execution.action_configs)
    service = ActionServiceStub(parts.channel)
    while True:
        try:
            response = await service.ExecuteActionsFromInteraction(
                request,
                metadata=request_metadata(parts, headers),
                timeout=_timeout(execution, resending),
            )
            return await _result(parts, response)
        except aio.AioRpcError as failure:
            await resending.failed(error_from_grpc(failure))
            request.call_timeout.FromNanoseconds(math.ceil(resending.time_left() * 1e9))


async def execute_stream(
    parts: Parts, execution: Execution, headers: Mapping[str, bytes]
) -> AsyncGenerator[ExecuteEvent, None]:
    """Runs the calls of a turn and yields what happens; leaving it cancels them.

    Of a recorded round that is asked for again no event comes twice: a call that had begun tells
    only its end, from the summary if need be.
    """
    request, resending = execution.request(), execution.resending()
    await check_configs(parts, request, execution.action_configs)
    told = Told()
    while True:
        rpc = ActionServiceStub(parts.channel).StreamActionsFromInteraction(
            pb.StreamActionsFromInteractionRequest(request=request),
            metadata=request_metadata(parts, headers),
            timeout=_timeout(execution, resending),
        )
        try:
            async for message in rpc:
                kind = message.WhichOneof("event")
                if kind == "started":
                    if told.started(message.started.id):
                        yield Started(message.started.id, message.started.name)
                elif kind == "log":
                    if not told.is_cut(message.log.id):
                        yield Narrated(message.log.id, log_from_proto(message.log.entry))
                elif kind == "output":
                    for fragment in message.output.fragments:
                        for value in told.values(message.output.id, fragment):
                            yield Produced(message.output.id, fragment.id, value)
                elif kind == "finished":
                    if told.ended(message.finished.id):
                        yield Ended(_call_result(message.finished))
                elif kind == "summary":
                    result = await _result(parts, message.summary)
                    for call in message.summary.results:
                        if told.ended(call.id):
                            yield Ended(_call_result(call))
                    yield Summary(result)
                    return
            # The service ends with a summary, or with a status.
            error = StatusError(Code.UNAVAILABLE, "the events ended before the summary")
        except aio.AioRpcError as failure:
            error = error_from_grpc(failure)
        finally:
            rpc.cancel()
        await resending.failed(error)
        request.call_timeout.FromNanoseconds(math.ceil(resending.time_left() * 1e9))
        told.again()


class Told:
    """What was told of a round, which is not told again."""

    def __init__(self) -> None:
        self._started: set[str] = set()
        self._ended: set[str] = set()
        self._cut: frozenset[str] = frozenset()
        self._readers: dict[tuple[str, str], FieldReader] = {}

    def again(self) -> None:
        """The round is asked for again: what a call does that had begun was told, in part."""
        self._cut = frozenset(self._started)
        self._readers.clear()

    def started(self, call: str) -> bool:
        """Whether that is news."""
        return _added(self._started, call)

    def ended(self, call: str) -> bool:
        """Whether that is news."""
        return _added(self._ended, call)

    def is_cut(self, call: str) -> bool:
        """Whether it had begun when the connection broke."""
        return call in self._cut

    def values(self, call: str, fragment: NodeFragment) -> Iterator[Any]:
        """The value of a piece, if it has one that is news."""
        if not self.is_cut(call):
            reader = self._readers.setdefault((call, fragment.id), FieldReader())
            if reader.add(fragment):
                yield reader.latest()


def _failure(call: RejectedCall) -> Status:
    status = call.status.status if isinstance(call.status, StatusError) else call.status
    if status.is_ok:
        message = f"rejected {call.id!r}: its status is OK, which is no failure"
        raise StatusError.of(Reason.INVALID_REQUEST, message)
    return status


def _added(known: set[str], id: str) -> bool:
    if id in known:
        return False
    known.add(id)
    return True


def _timeout(execution: Execution, resending: Resending) -> float | None:
    """The deadline of an attempt: none where none was asked for."""
    return None if execution.timeout is None else resending.time_left() + ANSWER_SECONDS


def request_metadata(
    parts: Parts, headers: Mapping[str, bytes]
) -> tuple[tuple[str, str | bytes], ...]:
    """What goes with a request about a model's calls: who asks, and these headers."""
    sent: list[tuple[str, str | bytes]] = list(parts.metadata)
    session = parts.keeper.current
    if session is not None and not any(key == "x-a11-session" for key, _ in sent):
        sent.append(("x-a11-session", session.id))
    sent += [pair_of("header", name, value) for name, value in headers.items()]
    return tuple(sent)


async def _result(parts: Parts, response: pb.ExecuteActionsFromInteractionResponse) -> Result:
    results = []
    for call in response.results:
        outputs, value = {}, None
        if not call.status.code:
            fragments = _fragments(response, call.id)
            schema = await _schema(parts, call.name)
            outputs = result_outputs(fragments, schema)
            value = result_value(outputs, schema)
        results.append(_call_result(call, value, outputs))
    return Result(
        [load_json(message) for message in response.messages],
        response.interaction,
        results,
        backend_from_proto(response.backend),
    )


def _call_result(
    call: pb.CallResult, value: Any = None, outputs: Mapping[str, Any] | None = None
) -> CallResult:
    status = status_from_proto(call.status)
    return CallResult(call.id, call.name, status, call.log, value, outputs or {})


def _fragments(
    response: pb.ExecuteActionsFromInteractionResponse, call: str
) -> Sequence[NodeFragment]:
    outputs = response.interaction.action_outputs
    # Looking a message up in a map makes it.
    return outputs[call].fragments if call in outputs else ()


async def _schema(parts: Parts, name: str) -> ActionSchema | None:
    try:
        return await parts.schemas.schema(name)
    except StatusError:
        # Run by a peer that a config named, or gone since: the fragments speak for themselves.
        return None
