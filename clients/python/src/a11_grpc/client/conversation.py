"""What the service says of conversations and their turns: records, parts, problems, notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from google.protobuf.timestamp_pb2 import Timestamp

from a11_grpc._proto import interaction_service_pb2 as pb
from a11_grpc._proto.interaction_pb2 import ROLE_MODEL, ROLE_SYSTEM, Interaction
from a11_grpc.interaction.portable import from_json
from a11_grpc.wire.chunk import Chunk, chunk_from_proto
from a11_grpc.wire.json import load_json
from a11_grpc.wire.status import Reason, StatusError, reason_from_number


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a turn stands, and its id; `existed`: it was there before, and nothing was added."""

    position: int
    appended_at: datetime | None
    existed: bool
    id: str


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """One interaction of a conversation; `position` is its place, from 1."""

    conversation: str
    position: int
    id: str
    appended_at: datetime | None
    interaction: Interaction = field(repr=False)


@dataclass(frozen=True, slots=True)
class Fork:
    """An interaction that more than one other follows; `next_ids` are the first 1,000 of them."""

    id: str
    position: int
    next_ids: list[str]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an interaction, and where; not `refused`: a note."""

    field: str
    message: str
    refused: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Validation:
    """Whether an interaction would be accepted, and what there is to say of it."""

    valid: bool
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture; one that a tool made stands after that tool's result."""

    image: Chunk
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class ImageUrlPart:
    """Where a picture is."""

    url: str
    type: Literal["image_url"] = "image_url"


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call that the model made; `id` is its name where the provider gave none."""

    id: str
    name: str
    arguments: Any
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """What a call came to."""

    call_id: str
    content: str
    is_error: bool
    type: Literal["tool_result"] = "tool_result"


NormalizedPart = TextPart | ImagePart | ImageUrlPart | ToolCallPart | ToolResultPart
"""A part of a turn, in no provider's shape."""


@dataclass(frozen=True, slots=True)
class Normalized:
    """A turn in no provider's shape: whose it is, and what it holds, in order."""

    role: Literal["user", "model", "system"]
    parts: list[NormalizedPart]


@dataclass(frozen=True, slots=True)
class Note:
    """What became of a part of a conversation, and why."""

    interaction_id: str
    what: str
    why: str

    def __str__(self) -> str:
        where = f"{self.interaction_id}: " if self.interaction_id else ""
        return f"{where}{self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Converted:
    """A conversation for a provider: its messages, and what could not be said as it was.

    `system` is the system prompt, where the provider takes it beside the messages; `dropped` what
    it cannot be sent, `added` what it needs to take the rest.
    """

    messages: list[Any]
    system: str | None
    dropped: list[Note]
    added: list[Note]


def appended_from_proto(answer: pb.AppendInteractionResponse, id: str) -> Appended:
    """Reads what came of an append."""
    return Appended(answer.position, _time(answer.appended_at), answer.existed, id)


def record_from_proto(message: pb.InteractionRecord) -> ConversationRecord:
    """Reads a record.

    Raises:
        StatusError: DATA_LOSS (RECORD_BROKEN) where its bytes cannot be read back.
    """
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
    appended_at = _time(message.appended_at)
    return ConversationRecord(
        message.conversation, message.position, message.id, appended_at, interaction
    )


def fork_from_proto(message: pb.Fork) -> Fork:
    """Reads a fork."""
    return Fork(message.id, message.position, [*message.next_ids])


def validation_from_proto(answer: pb.ValidateInteractionResponse) -> Validation:
    """Reads what is wrong with an interaction."""
    return Validation(
        answer.valid,
        [
            Problem(
                problem.field, problem.message, problem.refused, reason_from_number(problem.reason)
            )
            for problem in answer.problems
        ],
    )


def normalized_from_proto(answer: pb.NormalizeInteractionResponse) -> Normalized:
    """Reads a turn in no provider's shape."""
    role: Literal["user", "model", "system"] = "user"
    if answer.role == ROLE_MODEL:
        role = "model"
    elif answer.role == ROLE_SYSTEM:
        role = "system"
    parts = [_part(part) for part in answer.parts]
    return Normalized(role, [part for part in parts if part is not None])


def converted_from_proto(answer: pb.ConvertInteractionsResponse) -> Converted:
    """Reads a conversation for a provider."""
    return Converted(
        [load_json(message) for message in answer.messages],
        answer.system if answer.HasField("system") else None,
        [Note(note.interaction_id, note.what, note.why) for note in answer.dropped],
        [Note(note.interaction_id, note.what, note.why) for note in answer.added],
    )


def _part(message: pb.NormalizedPart) -> NormalizedPart | None:
    match message.WhichOneof("part"):
        case "text":
            return TextPart(message.text)
        case "image":
            return ImagePart(chunk_from_proto(message.image))
        case "image_url":
            return ImageUrlPart(message.image_url)
        case "tool_call":
            call = message.tool_call
            return ToolCallPart(call.id, call.name, load_json(call.arguments_json))
        case "tool_result":
            result = message.tool_result
            return ToolResultPart(result.call_id, result.content, result.is_error)
        case _:  # Of a later version.
            return None


def _time(moment: Timestamp) -> datetime | None:
    return moment.ToDatetime(tzinfo=UTC) if moment.ByteSize() else None
