"""Keeps a client attached.

Resumes its session after a broken connection, opens a new one after a lost session, and publishes
what changes in what it hosts.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from grpc import aio

from a11_grpc._proto.action_pb2 import ActionSchema
from a11_grpc._proto.peer_service_pb2 import CallFrame, OpenedFrame, OpenFrame, RefusedAction
from a11_grpc.session import connection
from a11_grpc.session.connection import Dialled, Metadata
from a11_grpc.session.core import Core, Limits, Side
from a11_grpc.session.core.limits import DEFAULT_GRACE
from a11_grpc.session.session import Channel, Session, now
from a11_grpc.wire.status import OK, Reason, Status, StatusError, status_from_proto

log = logging.getLogger("a11_grpc.session")

LEAST_PAUSE = 0.05
"""How long to wait before the next attempt, in seconds, up to half of it by chance left off …"""
MOST_PAUSE = 2.0
"""… doubled up to this long."""

_FINAL = (Reason.UNKNOWN_SESSION, Reason.INVALID_FRAME, Reason.SHUTTING_DOWN)
"""With these a session is not resumed any more: no service keeps one beyond its own end."""

Hosted = Mapping[str, ActionSchema]
"""Action name → what is published of it."""

OnRefused = Callable[[str, Status], None]
"""Is told of an action that the service does not serve: its name, and why."""


class Keeper:
    """The sessions of a client, one after another."""

    def __init__(
        self,
        channel: aio.Channel,
        metadata: Metadata,
        name: str,
        hosts: Callable[[Channel, CallFrame], None],
        hosted: Callable[[], Hosted],
        changed: Callable[[Iterable[str]], None],
        on_refused: OnRefused | None = None,
    ) -> None:
        """`changed` is told of the actions that are published or withdrawn.

        `on_refused` is told of those that the service does not serve; without it a warning is
        logged.
        """
        self._channel = channel
        self._metadata = metadata
        self._name = name
        self._hosts = hosts
        self._hosted = hosted
        self._changed = changed
        self._on_refused = on_refused or _warn
        self._published: dict[str, ActionSchema] = {}
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._publishing = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None
        self._closed = False
        self.refused: dict[str, Status] = {}
        self.limits = Limits()

    @property
    def current(self) -> Session | None:
        """The session, if one is open; it may be without a connection for the moment."""
        session = self._session
        return None if session is None or session.core.is_over else session

    async def session(self) -> Session:
        """The session, opened where there is none.

        Raises:
            StatusError: What the service refuses it with; UNAVAILABLE where it is not reached.
        """
        current = self.current
        if current is not None:
            return current
        async with self._opening:
            current = self.current
            if current is not None:
                return current
            if self._closed:
                raise StatusError.of(Reason.CANCELLED, "the client is closed")
            session, dialled = await self._open()
            self._session = session
            if self._keeping is not None:
                self._keeping.cancel()
            self._keeping = asyncio.create_task(self._keep(session, dialled))
            return session

    async def publish(self) -> None:
        """Publishes and withdraws what has changed, and waits for the answer."""
        session = await self.session()
        async with self._publishing:
            if session is not self.current:
                return
            hosted = self._hosted()
            gone = [name for name in self._published if name not in hosted]
            new = [action for name, action in hosted.items() if self._published.get(name) != action]
            self._published = dict(hosted)
            for name in gone:
                self.refused.pop(name, None)
            if gone:
                session.withdraw(gone)
            if new:
                for action in new:
                    self.refused.pop(action.name, None)
                self._note(await session.publish(new))
            self._changed([*gone, *(action.name for action in new)])

    async def close(self) -> None:
        """Ends the session and waits until the service has been told."""
        self._closed = True
        session, keeping = self._session, self._keeping
        if session is not None:
            session.end(OK, Status.of(Reason.CANCELLED, "the client is closed"))
        if keeping is not None:
            await asyncio.wait((keeping,), timeout=MOST_PAUSE)
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    # Below: the one task that keeps it.

    async def _open(self) -> tuple[Session, Dialled]:
        hosted = dict(self._hosted())
        open = OpenFrame(peer=self._name, actions=hosted.values(), limits=self.limits.to_proto())
        dialled = await connection.dial(self._channel, open, self._metadata)
        opened = dialled.opened
        peer_limits = Limits.from_proto(opened.limits)
        core = Core(Side.OPENER, self.limits, peer_limits, _grace(opened), now())
        self._published = hosted
        self.refused.clear()
        self._note(opened.refused)
        self._changed(hosted)
        log.debug("session %s is open", opened.session)
        return Session(opened.session, core, self._hosts), dialled

    def _note(self, refused: Sequence[RefusedAction]) -> None:
        for action in refused:
            status = status_from_proto(action.status)
            self.refused[action.name] = status
            try:
                self._on_refused(action.name, status)
            except Exception:
                # The program's own fault, and none of the session's.
                log.exception("on_refused failed")

    async def _keep(self, session: Session, dialled: Dialled) -> None:
        while True:
            await self._keep_session(session, dialled)
            # Without anything to host a new one is opened when it is needed.
            if self._closed or not self._hosted():
                return
            log.warning("the session was lost (%s): a new one is opened", session.core.ending)
            pause = LEAST_PAUSE
            while True:
                async with self._opening:
                    try:
                        session, dialled = await self._open()
                        self._session = session
                        log.warning("session %s is open, what is hosted published", session.id)
                        break
                    except StatusError as error:
                        log.debug("no session could be opened: %s", error)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, MOST_PAUSE)

    async def _keep_session(self, session: Session, dialled: Dialled) -> None:
        token = dialled.opened.resume_token
        current: Dialled | None = dialled
        while current is not None:
            try:
                await connection.run(session, current)
            except StatusError as error:
                session.end(error.status)
            if session.core.is_over:
                return
            log.debug("session %s is without a connection", session.id)
            current = await self._resume(session, token)

    async def _resume(self, session: Session, token: bytes) -> Dialled | None:
        """Tries to resume until it works; None once the session is over."""
        over = asyncio.ensure_future(session.over.wait())
        attempts = asyncio.ensure_future(self._attempts(session, token))
        try:
            await asyncio.wait((over, attempts), return_when=asyncio.FIRST_COMPLETED)
            if attempts.done():
                return attempts.result()
            return None
        except StatusError as error:
            session.end(Status.of(Reason.PEER_LOST, error.message))
            return None
        finally:
            over.cancel()
            attempts.cancel()

    async def _attempts(self, session: Session, token: bytes) -> Dialled:
        pause = LEAST_PAUSE
        while True:
            open = OpenFrame(peer=self._name, resume_token=token, received=session.core.received)
            try:
                return await connection.dial(self._channel, open, self._metadata)
            except StatusError as error:
                if error.reason in _FINAL:
                    raise
                log.debug("session %s was not resumed yet: %s", session.id, error)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, MOST_PAUSE)


def _warn(name: str, status: Status) -> None:
    log.warning("the service does not serve action %r: %s", name, status)


def _grace(opened: OpenedFrame) -> float:
    if not opened.HasField("grace"):
        return DEFAULT_GRACE
    return max(0.0, opened.grace.ToNanoseconds() / 1e9)
