"""Addresses of peers, as text and as parts."""

from __future__ import annotations

from a11_grpc._proto.interaction_pb2 import Peer
from a11_grpc.wire.status import Reason, StatusError

_SCHEMES = {
    "a11": ("session", "ws", "wss", "rtc", "http", "https", "grpc", "grpcs"),
    "mcp": ("http", "https"),
}


def peer_from_text(text: str) -> Peer:
    """Reads `a11://SESSION`, `a11://$sender`, `a11+ws://HOST:PORT`, `mcp://HOST/PATH`.

    Raises:
        StatusError: INVALID_ARGUMENT for another text.
    """
    head, mark, rest = text.partition("://")
    protocol, plus, scheme = head.partition("+")
    if not mark:
        raise _invalid(f"peer {text!r} has no `://`")
    schemes = _SCHEMES.get(protocol)
    if schemes is None:
        raise _invalid(f"peer {text!r} has a protocol other than a11 and mcp")
    scheme = scheme if plus else schemes[0]
    if scheme not in schemes:
        raise _invalid(f"peer {text!r} has a scheme that its protocol does not know")
    identity, at, endpoint = rest.partition("@")
    if protocol == "mcp":
        if at:
            raise _invalid(f"peer {text!r} names an identity, which an MCP server does not have")
        identity, endpoint = "", rest
    return Peer(protocol=protocol, scheme=scheme, identity=identity, endpoint=endpoint)


def _invalid(message: str) -> StatusError:
    return StatusError.of(Reason.INVALID_REQUEST, message)
