"""The schemas of the service's actions, kept for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from grpc import aio

from a11_grpc._proto.action_service_pb2 import GetActionRequest, ListActionsRequest
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc.schema import ActionSchema, schema_from_proto
from a11_grpc.session.connection import Metadata
from a11_grpc.wire.status import Reason, Status, StatusError, error_from_grpc

KEPT_SECONDS = 10.0
"""How long a schema is trusted. A call that fails over its schema drops it at once."""
RETRY_AFTER = (0.05, 0.2, 0.8)
"""A look-up changes nothing: one that was cut off is made again, after so many seconds."""
MAX_KEPT = 4096
"""How many are kept."""

_STALE = frozenset(
    {
        Reason.UNKNOWN_ACTION,
        Reason.NO_HANDLER,
        Reason.INVALID_INPUT,
        Reason.MISSING_INPUT,
        Reason.UNDECLARED_INPUT,
        Reason.INVALID_OUTPUT,
    }
)


class Schemas:
    """What the service has, looked up when it is needed."""

    def __init__(self, channel: aio.Channel, metadata: Metadata) -> None:
        self._service = ActionServiceStub(channel)
        self._metadata = metadata
        self._kept: dict[str, tuple[ActionSchema, float]] = {}

    async def schema(self, name: str, *, fresh: bool = False) -> ActionSchema:
        """The schema of an action.

        Raises:
            StatusError: NOT_FOUND where there is none of that name.
        """
        kept = self._kept.get(name)
        if not fresh and kept is not None and time.monotonic() - kept[1] < KEPT_SECONDS:
            return kept[0]
        try:
            schema = await self._fetch(name)
        except StatusError:
            self._kept.pop(name, None)
            raise
        self._keep(schema)
        return schema

    async def _fetch(self, name: str) -> ActionSchema:
        request = GetActionRequest(name=name)
        answer = await self._asked(self._service.GetAction, request)
        return schema_from_proto(answer.action)

    async def list(self, patterns: Sequence[str]) -> list[ActionSchema]:
        """The actions whose whole name matches one of the patterns; without any, all.

        Raises:
            StatusError: INVALID_ARGUMENT for a pattern that is no regular expression.
        """
        found: list[ActionSchema] = []
        request = ListActionsRequest(patterns=patterns)
        while True:
            page = await self._asked(self._service.ListActions, request)
            found += [schema_from_proto(action) for action in page.actions]
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def has(self, pattern: str) -> bool:
        """Whether there is an action whose whole name matches.

        Raises:
            StatusError: As `list`.
        """
        request = ListActionsRequest(patterns=[pattern], page_size=1)
        return bool((await self._asked(self._service.ListActions, request)).actions)

    async def _asked(self, method: Callable[..., Awaitable[Any]], request: object) -> Any:
        for pause in (*RETRY_AFTER, None):
            try:
                return await method(request, metadata=tuple(self._metadata))
            except aio.AioRpcError as failure:
                error = error_from_grpc(failure)
                if pause is None or not error.is_of_connection:
                    raise error from failure
                await asyncio.sleep(pause)
        return None

    def forget(self, names: Iterable[str]) -> None:
        """What is known of these is out of date."""
        for name in names:
            self._kept.pop(name, None)

    def ended(self, name: str, status: Status) -> None:
        """A call ended so; what was kept may be wrong."""
        if status.reason in _STALE:
            self._kept.pop(name, None)

    def _keep(self, schema: ActionSchema) -> None:
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[schema.name] = (schema, time.monotonic())
