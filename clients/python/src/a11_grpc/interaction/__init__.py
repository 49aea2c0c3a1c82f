"""Interactions: helpers that need no server.

Build a user's turn, read and write both JSON forms, append a result.
"""

from a11_grpc._proto.interaction_pb2 import (
    ROLE_MODEL,
    ROLE_SYSTEM,
    ROLE_USER,
    ActionConfig,
    Interaction,
    Peer,
)
from a11_grpc.interaction.backend import Backend
from a11_grpc.interaction.peer import peer_from_text
from a11_grpc.interaction.portable import from_json, to_json
from a11_grpc.interaction.proto_json import from_proto_json, to_proto_json
from a11_grpc.interaction.turn import append_result, user_turn

__all__ = [
    "ROLE_MODEL",
    "ROLE_SYSTEM",
    "ROLE_USER",
    "ActionConfig",
    "Backend",
    "Interaction",
    "Peer",
    "append_result",
    "from_json",
    "from_proto_json",
    "peer_from_text",
    "to_json",
    "to_proto_json",
    "user_turn",
]
