"""Conversations of the service: append, read, watch, convert."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from grpc import aio

from a11_grpc._proto import interaction_service_pb2 as pb
from a11_grpc._proto.interaction_pb2 import ROLE_MODEL, ROLE_USER, Interaction
from a11_grpc._proto.interaction_service_pb2_grpc import InteractionServiceStub
from a11_grpc.client.reply import reply_json
from a11_grpc.interaction.backend import Backend, backend_to_proto
from a11_grpc.interaction.portable import from_json
from a11_grpc.session.connection import Metadata
from a11_grpc.wire.chunk import JSON, Chunk, chunk_to_proto
from a11_grpc.wire.json import load_json
from a11_grpc.wire.status import Reason, StatusError, error_from_grpc

T = TypeVar("T")

PROTOBUF = "application/x-protobuf;type=a11.v1.Interaction"
"""The media type of an encoded interaction."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Where an interaction stands; `existed`: it was there before, and nothing was added."""

    position: int
    existed: bool


@dataclass(frozen=True, slots=True)
class Record:
    """One interaction of a conversation."""

    conversation: str
    position: int
    id: str
    appended_at: datetime
    interaction: Interaction


@dataclass(frozen=True, slots=True)
class Converted:
    """A conversation for a provider: its messages, and what could not be said as it was."""

    messages: list[Any]
    system: str | None
    dropped: list[str]
    added: list[str]


class Interactions:
    """The conversations of a service with a store."""

    def __init__(self, channel: aio.Channel, metadata: Metadata) -> None:
        self._service = InteractionServiceStub(channel)
        self._metadata = tuple(metadata)

    async def append(self, conversation: str, interaction: Interaction) -> Appended:
        """Appends an interaction, as its encoded bytes, which are kept as they are.

        Raises:
            StatusError: ALREADY_EXISTS for another of that id, FAILED_PRECONDITION where its
                `previous_interaction_id` is not there, UNIMPLEMENTED without a store.
        """
        encoded = pb.EncodedInteraction(
            media_type=PROTOBUF, data=interaction.SerializeToString(deterministic=True)
        )
        request = pb.AppendInteractionRequest(conversation=conversation, encoded=encoded)
        answer = await _asked(self._service.AppendInteraction(request, metadata=self._metadata))
        return Appended(answer.position, answer.existed)

    async def get(self, conversation: str, id: str) -> Record:
        """One interaction.

        Raises:
            StatusError: NOT_FOUND.
        """
        request = pb.GetInteractionRequest(
            conversation=conversation, id=id, form=pb.RECORD_FORM_ENCODED
        )
        answer = await _asked(self._service.GetInteraction(request, metadata=self._metadata))
        return _record(answer.record)

    async def list(self, conversation: str, after_position: int = 0) -> AsyncIterator[Record]:
        """The interactions of a conversation in order, page by page.

        Raises:
            StatusError: NOT_FOUND for a conversation that is not there.
        """
        request = pb.ListInteractionsRequest(
            conversation=conversation,
            after_position=after_position,
            form=pb.RECORD_FORM_ENCODED,
        )
        while True:
            page = await _asked(self._service.ListInteractions(request, metadata=self._metadata))
            for record in page.records:
                yield _record(record)
            if not page.next_after_position:
                return
            request.after_position = page.next_after_position

    async def watch(self, conversation: str, after_position: int = 0) -> AsyncIterator[Record]:
        """The interactions of a conversation in order, those to come included, without end.

        Raises:
            StatusError: UNAVAILABLE where the connection breaks: go on after the last position.
        """
        request = pb.WatchInteractionsRequest(
            conversation=conversation,
            after_position=after_position,
            form=pb.RECORD_FORM_ENCODED,
        )
        rpc = self._service.WatchInteractions(request, metadata=self._metadata)
        try:
            async for message in rpc:
                if message.HasField("record"):
                    yield _record(message.record)
        except aio.AioRpcError as error:
            raise error_from_grpc(error) from error
        finally:
            rpc.cancel()

    async def delete(self, conversation: str) -> int:
        """Deletes a conversation; answers how many interactions it had."""
        request = pb.DeleteConversationRequest(conversation=conversation)
        answer = await _asked(self._service.DeleteConversation(request, metadata=self._metadata))
        return answer.deleted

    async def conversations(self, name_prefix: str = "") -> AsyncIterator[str]:
        """The names of the conversations, page by page."""
        request = pb.ListConversationsRequest(name_prefix=name_prefix)
        while True:
            page = await _asked(self._service.ListConversations(request, metadata=self._metadata))
            for conversation in page.conversations:
                yield conversation.name
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def normalize(self, turn: Interaction | object) -> Sequence[pb.NormalizedPart]:
        """A turn in a provider's shape as parts that have none.

        Raises:
            StatusError: INVALID_ARGUMENT for a shape that is not known.
        """
        request = pb.NormalizeInteractionRequest(interaction=_turn(turn))
        answer = await _asked(self._service.NormalizeInteraction(request, metadata=self._metadata))
        return answer.parts

    async def convert(
        self,
        to: Backend | str,
        *,
        conversation: str = "",
        interactions: Sequence[Interaction] = (),
        up_to_position: int = 0,
        dialect: str = "",
    ) -> Converted:
        """A conversation, or the interactions given, as another provider's messages."""
        request = pb.ConvertInteractionsRequest(
            conversation=conversation,
            up_to_position=up_to_position,
            interactions=interactions,
            to=backend_to_proto(to),
            dialect=dialect,
        )
        answer = await _asked(self._service.ConvertInteractions(request, metadata=self._metadata))
        return Converted(
            [load_json(message) for message in answer.messages],
            answer.system if answer.HasField("system") else None,
            [_note(note) for note in answer.dropped],
            [_note(note) for note in answer.added],
        )


async def _asked(rpc: Awaitable[T]) -> T:
    try:
        return await rpc
    except aio.AioRpcError as error:
        raise error_from_grpc(error) from error


def _record(message: pb.InteractionRecord) -> Record:
    if message.WhichOneof("body") == "interaction":
        interaction = message.interaction
    elif message.encoded.media_type.startswith("application/json"):
        interaction = from_json(message.encoded.data)
    else:
        try:
            interaction = Interaction.FromString(message.encoded.data)
        except Exception as error:
            text = f"interaction {message.id!r} cannot be read back"
            raise StatusError.of(Reason.RECORD_BROKEN, text) from error
    return Record(
        message.conversation,
        message.position,
        message.id,
        message.appended_at.ToDatetime(tzinfo=UTC),
        interaction,
    )


def _turn(turn: Interaction | object) -> Interaction:
    """A turn in a provider's shape as an interaction that holds it."""
    if isinstance(turn, Interaction):
        return turn
    role = turn.get("role") if isinstance(turn, Mapping) else None
    found = Interaction(role=ROLE_USER if role in _USERS else ROLE_MODEL)
    found.content.append(chunk_to_proto(Chunk(JSON, reply_json(turn).encode())))
    return found


_USERS = ("user", "tool", "developer", "system")


def _note(note: pb.ConversionNote) -> str:
    where = f"{note.interaction_id}: " if note.interaction_id else ""
    return f"{where}{note.what}: {note.why}"
