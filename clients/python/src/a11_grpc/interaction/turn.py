"""Building turns: what a user says, and what follows a model's calls."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from a11_grpc._proto.chunk_pb2 import Chunk as ChunkMessage
from a11_grpc._proto.interaction_pb2 import ROLE_USER, Interaction
from a11_grpc.interaction.canonical import accept
from a11_grpc.wire.chunk import TEXT, Chunk, chunk_to_proto
from a11_grpc.wire.status import Reason, StatusError

if TYPE_CHECKING:
    from a11_grpc.client.execute import Result

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def user_turn(
    text: str = "",
    *,
    images: bytes | Chunk | Iterable[bytes | Chunk] = (),
    id: str | None = None,
    previous: Interaction | str = "",
    system: str | None = None,
) -> Interaction:
    """A user's turn: a text, then pictures (PNG, JPEG, GIF, WebP, or a `Chunk` that says what).

    `id` is a new UUID where none is given; `previous` is the turn before, or its id; `system` is
    material for the system prompt.

    Raises:
        StatusError: INVALID_ARGUMENT for a picture of an unknown kind, or a lone surrogate.
    """
    turn = Interaction(
        id=str(uuid.uuid4()) if id is None else id,
        role=ROLE_USER,
        created_at_millis=time.time_ns() // 1_000_000,
        previous_interaction_id=previous if isinstance(previous, str) else previous.id,
    )
    turn.status.SetInParent()
    if system is not None:
        turn.system_instructions.append(_text("system_instructions[0]", system))
    if text:
        turn.content.append(_text("content[0]", text))
    for image in [images] if isinstance(images, (bytes, Chunk)) else images:
        turn.content.append(chunk_to_proto(_picture(image)))
    return accept(turn)


def append_result(conversation: list[Any], result: Result) -> None:
    """Appends what follows a model's turn: to a list of interactions the next one, else messages.

    Raises:
        StatusError: INVALID_ARGUMENT where the result has no messages for a provider.
    """
    if conversation and isinstance(conversation[-1], Interaction):
        conversation.append(result.interaction)
        return
    if result.backend is None:
        message = "the result was not shaped for a provider: name a backend when executing"
        raise StatusError.of(Reason.INVALID_REQUEST, message)
    conversation.extend(result.messages)


def _text(field: str, text: str) -> ChunkMessage:
    try:
        return chunk_to_proto(Chunk(TEXT, text.encode("utf-8")))
    except UnicodeEncodeError as error:
        message = f"{field}: a lone surrogate has no place in a text"
        raise StatusError.of(Reason.INVALID_REQUEST, message) from error


def _picture(image: bytes | Chunk) -> Chunk:
    if not isinstance(image, Chunk):
        return Chunk(_media_type(image), image)
    if not image.media_type.startswith("image/"):
        message = f"{image.media_type!r} is not the media type of a picture"
        raise StatusError.of(Reason.INVALID_REQUEST, message)
    return image


def _media_type(data: object) -> str:
    if not isinstance(data, bytes):
        message = f"a picture is bytes or a Chunk, not {type(data).__name__}"
        raise StatusError.of(Reason.INVALID_REQUEST, message)
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    message = "a picture is none of PNG, JPEG, GIF and WebP: give a Chunk with its media type"
    raise StatusError.of(Reason.INVALID_REQUEST, message)
