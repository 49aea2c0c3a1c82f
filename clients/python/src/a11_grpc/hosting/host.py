"""Runs the actions of registries for whoever calls them over a session."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from a11_grpc._proto.action_pb2 import ActionSchema as ActionMessage
from a11_grpc._proto.action_pb2 import LogEntry, PortBinding
from a11_grpc._proto.peer_service_pb2 import CallFrame
from a11_grpc.hosting.context import Context, handler_failure
from a11_grpc.hosting.input import Input
from a11_grpc.hosting.registry import Entry, Registry
from a11_grpc.hosting.watch import Watch
from a11_grpc.schema import ActionSchema, Port, schema_to_proto
from a11_grpc.session.core import events
from a11_grpc.session.core.limits import DEFAULT_MAX_CALLS
from a11_grpc.session.session import Channel, ChannelEvent
from a11_grpc.wire.names import is_name
from a11_grpc.wire.status import OK, Code, Reason, Status, StatusError

if TYPE_CHECKING:
    from a11_grpc.client.client import Client
    from a11_grpc.client.parts import Parts

T = TypeVar("T")

log = logging.getLogger("a11_grpc.hosting")

THREADS = DEFAULT_MAX_CALLS
"""How many functions that are not async run at once: every call that a session may bring, so that
one that waits for another in its thread never waits for a thread."""

ABANDON_AFTER = 5.0
"""How long a cancelled handler may take to end before it is given up, in seconds."""

_IDEMPOTENCY_KEY = "x-a11-idempotency-key"  # Of one call: it flows no further.


class Host:
    """What a client hosts."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.threads = ThreadPoolExecutor(THREADS, "a11-action")
        self._registries: list[Registry] = []
        self._unsubscribe: list[Callable[[], None]] = []
        self._running: set[HostedCall] = set()
        self._watch = Watch(lambda: bool(self._running), self._in_loop)

    def add(self, registry: Registry, changed: Callable[[], None]) -> None:
        """Hosts a registry, unless it is hosted already; `changed` is told of its changes."""
        if not any(known is registry for known in self._registries):
            self._registries.append(registry)
            self._unsubscribe.append(registry.subscribe(changed))

    def published(self) -> Mapping[str, ActionMessage]:
        """What is hosted now: where two registries have one name, the first one's."""
        found: dict[str, ActionMessage] = {}
        for registry in self._registries:
            for schema in registry.schemas:
                found.setdefault(schema.name, schema_to_proto(schema))
        return found

    def called(self, channel: Channel, frame: CallFrame) -> None:
        """Runs a call to its end, which is told whatever happens."""
        try:
            call = HostedCall(self, channel, self._entry(frame.action), frame)
        except StatusError as error:
            channel.session.finish(channel, error.status)
            return
        self._running.add(call)
        self._watch.start()
        call.start(lambda: self._ended(call))

    def _entry(self, action: str) -> Entry:
        for registry in self._registries:
            entry = registry.entry(action)
            if entry is not None:
                return entry
        raise StatusError.of(Reason.UNKNOWN_ACTION, f"no action {action[:255]!r} is hosted here")

    def _in_loop(self) -> list[str]:
        return [call.context.action for call in self._running if not call.threads]

    def _ended(self, call: HostedCall) -> None:
        self._running.discard(call)
        self._watch.ended(call.context.action)

    async def close(self) -> None:
        """Cancels what still runs."""
        self._watch.stop()
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        tasks = [task for call in self._running if (task := call.task) is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=ABANDON_AFTER)
        self.threads.shutdown(wait=False, cancel_futures=True)


class HostedCall:
    """One call that runs here."""

    def __init__(self, host: Host, channel: Channel, entry: Entry, frame: CallFrame) -> None:
        self.host = host
        self.channel = channel
        self.task: asyncio.Task[None] | None = None
        self.threads = 0
        """How many threads run for it now."""
        self._entry = entry
        self._number = frame.call
        schema = entry.schema
        writable = [port for port in schema.inputs if port.autofill is None]
        only_listed = frame.only_listed_inputs
        nodes = _bind(writable, frame.inputs, Reason.UNDECLARED_INPUT, only_listed=only_listed)
        self._output_nodes = _bind(schema.outputs, frame.outputs, Reason.INVALID_REQUEST)
        self.inputs = {port.name: Input(port, channel) for port in schema.inputs}
        self._by_node = {node: self.inputs[name] for name, node in nodes.items()}
        for port in writable:
            if port.name not in nodes:
                if port.required:
                    raise StatusError.of(Reason.MISSING_INPUT, f"input {port.name!r} is required")
                self.inputs[port.name].put(OK)
        self._loop = asyncio.get_running_loop()
        self._asked_to_end: Status | None = None
        self._ended = False
        self._timers: list[asyncio.TimerHandle] = []
        self._waited_for: set[concurrent.futures.Future[Any]] = set()
        timeout = None
        if frame.HasField("timeout"):
            timeout = max(0.0, frame.timeout.ToNanoseconds() / 1e9)
            deadline = Status.of(Reason.DEADLINE, "the call's time is up")
            self._timers.append(self._loop.call_later(timeout, self._cancel, deadline))
        self._headers = _headers(schema, frame)
        self.context = Context(
            self,
            frame.id or f"call_{frame.call}",
            schema,
            self._headers,
            None if timeout is None else time.monotonic() + timeout,
        )
        channel.deliver = self._deliver

    def start(self, ended: Callable[[], None]) -> None:
        """Starts the handler."""
        self.task = self._loop.create_task(self._run())
        self.task.add_done_callback(lambda _: ended())

    @property
    def is_ending(self) -> bool:
        """Whether the call is to end."""
        return self._asked_to_end is not None or self._ended

    def output_node(self, port: str) -> str:
        """The node of an output."""
        return self._output_nodes[port]

    def log(self, entry: LogEntry) -> None:
        """Narrates."""
        self.channel.session.core.log(self.channel.number, entry)
        self.channel.session.changed()

    def nested(self, time_left: float | None) -> Client:
        """The client with the flowing headers, and the time left, of this call."""
        flowing = {
            name: value
            for name, value in self._headers.items()
            if name.startswith(("x-a11-", "x-otel-")) and name != _IDEMPOTENCY_KEY
        }
        return self.host.parts.client_for(flowing, time_left)

    def from_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine for a thread, which is released when the call is to end."""
        if self.is_ending:
            coroutine.close()
            raise StatusError(self._asked_to_end or Status.of(Reason.CANCELLED, "it is over"))
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        self._waited_for.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            status = self._asked_to_end or Status.of(Reason.CANCELLED, "it is over")
            raise StatusError(status) from error
        finally:
            self._waited_for.discard(future)

    async def _run(self) -> None:
        status = OK
        try:
            await self._entry.handler(self.context)
        except asyncio.CancelledError:
            status = Status.of(Reason.CANCELLED, "the handler was cancelled")
        except StatusError as error:
            status = handler_failure(error)
        except (Exception, SystemExit, GeneratorExit) as error:
            log.exception("action %r failed", self._entry.schema.name)
            message = f"handler failed: {type(error).__name__}: {error}"
            status = Status(Code.INTERNAL, Reason.HANDLER_FAILED, message)
        self._end(self._asked_to_end or status)

    def _end(self, status: Status) -> None:
        if self._ended:
            return
        self._ended = True
        for timer in self._timers:
            timer.cancel()
        for future in [*self._waited_for]:
            future.cancel()
        self.channel.session.finish(self.channel, status)

    def _cancel(self, status: Status) -> None:
        if self.is_ending:
            return
        self._asked_to_end = status
        for future in [*self._waited_for]:
            future.cancel()
        if self.task is not None:
            self.task.cancel()
        self._timers.append(self._loop.call_later(ABANDON_AFTER, self._abandon))

    def _abandon(self) -> None:
        name = self._entry.schema.name
        log.warning("action %r ignores that its call is over; it is given up", name)
        self._end(self._asked_to_end or OK)

    def _deliver(self, event: ChannelEvent) -> None:
        if isinstance(event, events.Fragments):
            for fragment in event.fragments:
                self._input(fragment.id, fragment)
        elif isinstance(event, events.Closed):
            self._input(event.id, event.status)
        elif isinstance(event, events.Cancelled):
            self._cancel(event.status)

    def _input(self, node: str, item: Any) -> None:
        found = self._by_node.get(node)
        if found is None:
            message = f"the action has no port for node {node[:255]!r}"
            self._cancel(Status.of(Reason.UNDECLARED_INPUT, message))
        else:
            found.put(item)


def _bind(
    ports: Sequence[Port],
    bindings: Sequence[PortBinding],
    unknown: Reason,
    *,
    only_listed: bool = False,
) -> dict[str, str]:
    """Port name → the node that carries it; `unknown` is what a binding to no port is."""
    bound = {} if only_listed else {port.name: port.name for port in ports}
    names = {port.name for port in ports}
    for binding in bindings:
        name = binding.name[:255]
        if binding.name not in names:
            raise StatusError.of(unknown, f"a node is bound to {name!r}, which is no port")
        if not is_name(binding.id):
            message = f"the node bound to {name!r} has an id that is no name"
            raise StatusError.of(Reason.INVALID_REQUEST, message)
        bound[binding.name] = binding.id
    if len(set(bound.values())) < len(bound):
        raise StatusError.of(Reason.INVALID_REQUEST, "two ports have one node")
    return bound


def _headers(schema: ActionSchema, frame: CallFrame) -> dict[str, bytes]:
    headers = {
        header.name.lower(): header.default
        for header in schema.headers
        if header.default is not None
    }
    headers.update(frame.headers)
    return headers
