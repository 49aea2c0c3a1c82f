"""The schemas of the service's actions, kept for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence

from grpc import aio

from a11_grpc._proto.action_service_pb2 import GetActionRequest, ListActionsRequest
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc.schema import ActionSchema, schema_from_proto
from a11_grpc.session.connection import Metadata
from a11_grpc.wire.status import Reason, Status, error_from_grpc

KEPT_SECONDS = 30.0
"""How long a schema is trusted. A call that fails over its schema drops it at once."""
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
            request = GetActionRequest(name=name)
            answer = await self._service.GetAction(request, metadata=tuple(self._metadata))
        except aio.AioRpcError as error:
            self._kept.pop(name, None)
            raise error_from_grpc(error) from error
        schema = schema_from_proto(answer.action)
        self._keep(schema)
        return schema

    async def list(self, patterns: Sequence[str]) -> list[ActionSchema]:
        """The actions whose whole name matches one of the patterns; without any, all.

        Raises:
            StatusError: INVALID_ARGUMENT for a pattern that is no regular expression.
        """
        found: list[ActionSchema] = []
        request = ListActionsRequest(patterns=patterns)
        while True:
            try:
                page = await self._service.ListActions(request, metadata=tuple(self._metadata))
            except aio.AioRpcError as error:
                raise error_from_grpc(error) from error
            found += [schema_from_proto(action) for action in page.actions]
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        for schema in found:
            self._keep(schema)
        return found

    def ended(self, name: str, status: Status) -> None:
        """A call ended so; what was kept may be wrong."""
        if status.reason in _STALE:
            self._kept.pop(name, None)

    def _keep(self, schema: ActionSchema) -> None:
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[schema.name] = (schema, time.monotonic())
