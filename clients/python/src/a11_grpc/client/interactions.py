"""Conversations of the service: append, read, watch, check, convert."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping
from typing import TypeVar

from grpc import aio

from a11_grpc._proto import interaction_service_pb2 as pb
from a11_grpc._proto.interaction_pb2 import Interaction
from a11_grpc._proto.interaction_service_pb2_grpc import InteractionServiceStub
from a11_grpc.client.conversation import (
    Appended,
    ConversationRecord,
    Converted,
    Fork,
    Normalized,
    Validation,
    appended_from_proto,
    converted_from_proto,
    fork_from_proto,
    normalized_from_proto,
    record_from_proto,
    validation_from_proto,
)
from a11_grpc.client.turns import Turn, is_reply, known, turn_of
from a11_grpc.interaction.backend import Backend, backend_to_proto
from a11_grpc.session.connection import Metadata
from a11_grpc.wire.json import load_json
from a11_grpc.wire.status import Code, Reason, StatusError, error_from_grpc

T = TypeVar("T")

PROTOBUF = "application/x-protobuf;type=a11.v1.Interaction"
"""The media type of an encoded interaction."""
PORTABLE_JSON = "application/json;type=a11.sdk.Interaction"
"""The media type of an interaction's portable JSON."""

LEAST_PAUSE, MOST_PAUSE = 0.05, 2.0
"""How long to wait before a watcher's connection is made again, in seconds, doubled each time."""


class Interactions:
    """The conversations of a service with a store, and its conversions between providers."""

    def __init__(self, channel: aio.Channel, metadata: Metadata) -> None:
        self._service = InteractionServiceStub(channel)
        self._metadata = tuple(metadata)

    async def append(
        self, conversation: str, turn: Turn, *, id: str = "", previous: Interaction | str = ""
    ) -> Appended:
        """Appends a turn; the first makes the conversation.

        An interaction, or the text of its portable JSON, is kept byte for byte, and the same again
        changes nothing.

        Args:
            conversation: Its name.
            turn: An interaction, its JSON, or a provider's message as it came, as for `normalize`.
            id: What a turn without an id is kept under; a new UUID without it, and so a message
                that is appended again stands there twice.
            previous: The turn before it, or its id, where the turn itself does not say.

        Raises:
            StatusError: ALREADY_EXISTS for another of that id, FAILED_PRECONDITION where its
                `previous_interaction_id` is not there, UNIMPLEMENTED without a store.
        """
        before = previous if isinstance(previous, str) else previous.id
        if isinstance(turn, str) and not (id or before or is_reply(turn)):
            # What is wrong with it is the service's to say.
            encoded = pb.EncodedInteraction(media_type=PORTABLE_JSON, data=_utf8(turn))
        else:
            kept = known(turn_of(turn), id, before)
            id = kept.id
            data = kept.SerializeToString(deterministic=True)
            encoded = pb.EncodedInteraction(media_type=PROTOBUF, data=data)
        request = pb.AppendInteractionRequest(conversation=conversation, encoded=encoded)
        answer = await _asked(self._service.AppendInteraction(request, metadata=self._metadata))
        return appended_from_proto(answer, id or load_json(encoded.data)["id"])

    async def get(self, conversation: str, id: str) -> ConversationRecord:
        """One interaction by its id.

        Raises:
            StatusError: NOT_FOUND.
        """
        request = pb.GetInteractionRequest(
            conversation=conversation, id=id, form=pb.RECORD_FORM_ENCODED
        )
        answer = await _asked(self._service.GetInteraction(request, metadata=self._metadata))
        return record_from_proto(answer.record)

    async def list(
        self, conversation: str, *, after_position: int = 0
    ) -> AsyncGenerator[ConversationRecord, None]:
        """The interactions of a conversation in order, after a position or all, page by page.

        Raises:
            StatusError: NOT_FOUND for a conversation that is not there.
        """
        request = pb.ListInteractionsRequest(
            conversation=conversation, after_position=after_position, form=pb.RECORD_FORM_ENCODED
        )
        while True:
            page = await _asked(self._service.ListInteractions(request, metadata=self._metadata))
            for record in page.records:
                yield record_from_proto(record)
            if not page.next_after_position:
                return
            request.after_position = page.next_after_position

    async def watch(
        self, conversation: str, *, after_position: int = 0
    ) -> AsyncGenerator[ConversationRecord, None]:
        """The interactions of a conversation in order, and then each that is appended.

        One that is not there yet is waited for. It ends when the loop is left. A connection that
        breaks is made again, for as long as it takes; nothing is missed, and nothing comes twice.

        Raises:
            StatusError: What the service refuses it with.
        """
        request = pb.WatchInteractionsRequest(
            conversation=conversation, after_position=after_position, form=pb.RECORD_FORM_ENCODED
        )
        pause = LEAST_PAUSE
        while True:
            rpc = self._service.WatchInteractions(request, metadata=self._metadata)
            try:
                async for message in rpc:
                    if message.HasField("record"):
                        pause = LEAST_PAUSE
                        request.after_position = message.record.position
                        yield record_from_proto(message.record)
            except aio.AioRpcError as failure:
                error = error_from_grpc(failure)
                if error.code is not Code.UNAVAILABLE:
                    raise error from failure
            finally:
                rpc.cancel()
            await asyncio.sleep(pause)
            pause = min(pause * 2, MOST_PAUSE)

    async def delete(self, conversation: str) -> int:
        """Deletes a conversation; answers how many interactions it had."""
        request = pb.DeleteConversationRequest(conversation=conversation)
        answer = await _asked(self._service.DeleteConversation(request, metadata=self._metadata))
        return answer.deleted

    async def conversations(self, prefix: str = "") -> AsyncGenerator[str, None]:
        """The names of the conversations, those that begin with `prefix`, page by page."""
        request = pb.ListConversationsRequest(name_prefix=prefix)
        while True:
            page = await _asked(self._service.ListConversations(request, metadata=self._metadata))
            for conversation in page.conversations:
                yield conversation.name
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def forks(
        self, conversation: str, *, after_position: int = 0
    ) -> AsyncGenerator[Fork, None]:
        """The interactions that more than one other follows, in order, page by page.

        Raises:
            StatusError: NOT_FOUND for a conversation that is not there.
        """
        request = pb.ListForksRequest(conversation=conversation, after_position=after_position)
        while True:
            page = await _asked(self._service.ListForks(request, metadata=self._metadata))
            for fork in page.forks:
                yield fork_from_proto(fork)
            if not page.next_after_position:
                return
            request.after_position = page.next_after_position

    async def validate(self, turn: Turn) -> Validation:
        """Everything that is wrong with an interaction, or with its JSON in either form; notes too.

        A dict or a list that is no interaction counts as a provider's message, and is valid
        whatever it says; such a text is refused.

        Raises:
            StatusError: INVALID_ARGUMENT for a text that is no interaction at all.
        """
        request = pb.ValidateInteractionRequest()
        if isinstance(turn, str):
            # The JSON as it is: what is wrong with it is the service's to say.
            request.interaction_json = _utf8(turn).decode()
        else:
            request.interaction.CopyFrom(turn_of(turn))
        answer = await _asked(self._service.ValidateInteraction(request, metadata=self._metadata))
        return validation_from_proto(answer)

    async def normalize(self, turn: Turn) -> Normalized:
        """A turn in no provider's shape: its texts, pictures, calls and results.

        Args:
            turn: An interaction, its JSON in either form, or a provider's message as it came: an
                SDK's object, a dict, or its text.

        Raises:
            StatusError: INVALID_ARGUMENT for what is none of them.
        """
        request = pb.NormalizeInteractionRequest(interaction=turn_of(turn))
        answer = await _asked(self._service.NormalizeInteraction(request, metadata=self._metadata))
        return normalized_from_proto(answer)

    async def convert(
        self,
        source: str | Iterable[Turn],
        *,
        to: Backend | str,
        dialect: str = "",
        up_to_position: int = 0,
    ) -> Converted:
        """A conversation as the exact messages that a provider is to be sent next.

        Args:
            source: Its name, or its turns, each as for `normalize`.
            to: The provider.
            dialect: For gpt `chat`, `responses` or `functions`; for gemini `interactions` or
                `generate_content`.
            up_to_position: The last position that counts, of a conversation that is named; 0: all.

        Raises:
            StatusError: NOT_FOUND for a conversation that is not there, INVALID_ARGUMENT for a
                provider or a turn that is none.
        """
        request = pb.ConvertInteractionsRequest(to=backend_to_proto(to), dialect=dialect)
        if isinstance(source, str):
            if not source:
                message = "a conversation's name is not empty; give it, or a list of turns"
                raise StatusError.of(Reason.INVALID_REQUEST, message)
            request.conversation, request.up_to_position = source, up_to_position
        elif isinstance(source, (Interaction, Mapping)) or not isinstance(source, Iterable):
            message = (
                "source: a conversation's name, or a list of turns; got one "
                f"{type(source).__name__}"
            )
            raise StatusError.of(Reason.INVALID_REQUEST, message)
        else:
            request.interactions.extend(turn_of(turn) for turn in source)
        answer = await _asked(self._service.ConvertInteractions(request, metadata=self._metadata))
        return converted_from_proto(answer)


async def _asked(rpc: Awaitable[T]) -> T:
    try:
        return await rpc
    except aio.AioRpcError as error:
        raise error_from_grpc(error) from error


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = "a lone surrogate has no place in a text"
        raise StatusError.of(Reason.INVALID_REQUEST, message) from error
