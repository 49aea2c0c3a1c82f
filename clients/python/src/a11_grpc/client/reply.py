"""A provider's reply, or an interaction, as the service takes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from a11_grpc._proto.action_service_pb2 import ExecuteActionsFromInteractionRequest
from a11_grpc._proto.interaction_pb2 import ActionConfig, Interaction, Peer
from a11_grpc.client.turns import reply_json, turn_of
from a11_grpc.interaction.peer import peer_from_text
from a11_grpc.wire.status import Code, Reason, StatusError

if TYPE_CHECKING:
    from a11_grpc.client.parts import Parts

log = logging.getLogger("a11_grpc.client")

Config = ActionConfig | Peer | str | Mapping[str, Any]
"""Where an action runs: its address such as `a11://$sender`, or `{"peer": …, "headers": …}`, the
headers being set on its calls."""


def put_reply(
    request: ExecuteActionsFromInteractionRequest,
    reply: object,
    configs: Mapping[str, Config] | None,
) -> None:
    """Puts an interaction or a provider's reply into a request.

    Raises:
        StatusError: INVALID_ARGUMENT for what is neither.
    """
    if isinstance(reply, Interaction):
        request.interaction.CopyFrom(reply)
    elif not configs:
        request.interaction_json = reply_json(reply)
    else:
        request.interaction.CopyFrom(turn_of(reply))
    for name, config in (configs or {}).items():
        request.interaction.action_configs[name].CopyFrom(_config(name, config))


def _config(name: str, config: Config) -> ActionConfig:
    if isinstance(config, str):
        config = peer_from_text(config)
    if isinstance(config, Peer):
        config = ActionConfig(peer=config)
    if isinstance(config, ActionConfig):
        return config
    unknown = ", ".join(repr(key) for key in config if key not in ("peer", "headers"))
    if unknown:
        message = f"action_configs: {name!r} has {unknown}; a config has `peer` and `headers`"
        raise StatusError.of(Reason.INVALID_REQUEST, message)
    found = ActionConfig()
    peer = config.get("peer")
    if peer is not None:
        found.peer.CopyFrom(peer_from_text(peer) if isinstance(peer, str) else peer)
    for header, value in (config.get("headers") or {}).items():
        data = value.encode() if isinstance(value, str) else value
        found.header_autofills[header.lower()] = data
    return found


async def check_configs(
    parts: Parts,
    request: ExecuteActionsFromInteractionRequest,
    configs: Mapping[str, Config] | None,
) -> None:
    """Warns, once each, of configs that configure nothing: most often a name that is misspelt.

    They are not refused: a loop may keep the config of an action that this turn does not call, and
    whose host is away.
    """
    if not configs:
        return
    turn = request.interaction
    said = b"".join(chunk.data for chunk in turn.content).decode("utf-8", "replace")
    called = {call.name for call in turn.action_calls}
    hosted = parts.host.published()
    for name in configs:
        if name in called or name in hosted or name in said or name in parts.doubted:
            continue
        if turn.action_configs[name].peer.protocol == "mcp":
            # What an MCP server has, it lists itself.
            continue
        try:
            await parts.schemas.schema(name)
        except StatusError as error:
            if error.code is Code.NOT_FOUND:
                parts.doubted.add(name)
                log.warning(
                    "action_configs: %r is no action that the reply calls or the service lists",
                    name,
                )
