"""The canonical form of an interaction, which equal interactions share, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from a11_grpc._proto.action_pb2 import ActionMessage
from a11_grpc._proto.chunk_pb2 import Chunk
from a11_grpc._proto.interaction_pb2 import ROLE_UNSPECIFIED, ROLE_USER, Interaction, Role
from a11_grpc._proto.status_pb2 import Reason as ReasonNumber
from a11_grpc.interaction.timestamp import write_timestamp
from a11_grpc.wire.json import JsonError, dump_json, load_json
from a11_grpc.wire.names import is_name
from a11_grpc.wire.status import Code, Reason, StatusError

MAX_TEXT_LEN = 255
"""The longest id of an interaction, and the longest media type, in characters."""
MAX_REF_LEN = 2048
"""The longest reference to where bytes are, in characters."""
MAX_ATTRIBUTES = 64
"""How many attributes a chunk has at most."""
MAX_ATTRIBUTE_BYTES = 64 * 1024
"""How many bytes the names and values of a chunk's attributes have in all."""


def accept(interaction: Interaction) -> Interaction:
    """The canonical form of an interaction, as a copy.

    The role is said; in `content` a media type that repeats its predecessor's is dropped; details
    of the status have no white space.

    Raises:
        StatusError: INVALID_ARGUMENT, naming the field with which it could not be read back.
    """
    copy = Interaction()
    copy.CopyFrom(interaction)
    if copy.role == ROLE_UNSPECIFIED:
        copy.role = ROLE_USER
    current = ""
    for chunk in copy.content:
        media_type = chunk.metadata.media_type
        if media_type and media_type == current:
            chunk.metadata.ClearField("media_type")
            if not chunk.metadata.ByteSize():
                chunk.ClearField("metadata")
        current = media_type or current
    for place, detail in enumerate(copy.status.details):
        try:
            copy.status.details[place] = dump_json(load_json(detail)).decode()
        except JsonError as error:
            raise refused(f"status.details[{place}]", str(error)) from error
    fault = next(_faults(copy), None)
    if fault is not None:
        raise fault
    return copy


def refused(field: str, fault: str, reason: Reason = Reason.INVALID_REQUEST) -> StatusError:
    """Why an interaction is refused."""
    return StatusError(Code.INVALID_ARGUMENT, f"{field}: {fault}", reason=reason)


def _faults(interaction: Interaction) -> Iterator[StatusError]:
    yield from _length("id", interaction.id, MAX_TEXT_LEN)
    if interaction.role not in Role.values():
        yield refused("role", f"{interaction.role} is not the number of a role")
    yield from _length("previous_interaction_id", interaction.previous_interaction_id, MAX_TEXT_LEN)
    code, reason = interaction.status.code, interaction.status.reason
    if not 0 <= code <= 16:
        yield refused("status.code", f"{code} is not a status code; they go from 0 to 16")
    if reason not in ReasonNumber.values():
        yield refused("status.reason", f"{reason} is not the number of a reason")
    for place, chunk in enumerate(interaction.system_instructions):
        yield from _chunk(f"system_instructions[{place}]", chunk)
    for place, chunk in enumerate(interaction.content):
        yield from _chunk(f"content[{place}]", chunk)
    yield from _calls(interaction.action_calls)
    for name in ("action_inputs", "action_outputs"):
        lists = interaction.action_inputs if name == "action_inputs" else interaction.action_outputs
        for call, fragments in lists.items():
            for place, fragment in enumerate(fragments.fragments):
                if fragment.HasField("chunk"):
                    yield from _chunk(f"{name}.{call}[{place}].data", fragment.chunk)


def _chunk(field: str, chunk: Chunk) -> Iterator[StatusError]:
    metadata = chunk.metadata
    yield from _length(f"{field}.metadata.mimetype", metadata.media_type, MAX_TEXT_LEN)
    if metadata.HasField("timestamp") and write_timestamp(metadata.timestamp) is None:
        yield refused(f"{field}.metadata.timestamp", "must lie in years 1 to 9999")
    attributes = metadata.attributes
    if len(attributes) > MAX_ATTRIBUTES:
        yield refused(
            f"{field}.metadata.attributes",
            f"there are {len(attributes)}, and may be {MAX_ATTRIBUTES}",
        )
    size = sum(len(name.encode()) + len(value) for name, value in attributes.items())
    if size > MAX_ATTRIBUTE_BYTES:
        yield refused(
            f"{field}.metadata.attributes",
            f"{size} bytes in all, and may have {MAX_ATTRIBUTE_BYTES}",
        )
    for key in attributes:
        if not is_name(key):
            yield refused(f"{field}.metadata.attributes.{key}", "is not a name")
    if chunk.WhichOneof("body") == "ref":
        if not chunk.ref:
            yield refused(f"{field}.ref", "a ref must not be empty")
        yield from _length(f"{field}.ref", chunk.ref, MAX_REF_LEN)


def _calls(calls: Sequence[ActionMessage]) -> Iterator[StatusError]:
    seen: set[str] = set()
    for place, call in enumerate(calls):
        if call.id and not is_name(call.id):
            yield refused(f"action_calls[{place}].id", f"{call.id[:64]!r} is not a name")
        if call.name and not is_name(call.name):
            yield refused(f"action_calls[{place}].name", f"{call.name[:64]!r} is not a name")
        if call.id and call.id in seen:
            fault = f"another call has the id {call.id!r} too"
            yield refused(f"action_calls[{place}].id", fault, Reason.DUPLICATE_CALL)
        seen.add(call.id)


def _length(field: str, text: str, most: int) -> Iterator[StatusError]:
    if len(text) > most:
        yield refused(field, f"has {len(text)} characters, and may have {most}")
