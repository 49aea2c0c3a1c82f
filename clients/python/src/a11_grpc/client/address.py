"""A server's address, and the channel to it."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import grpc
from grpc import aio

from a11_grpc._proto.action_service_pb2 import ListActionsRequest
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc.client.diagnosis import explain
from a11_grpc.session.connection import Metadata
from a11_grpc.wire.status import Code, ConnectError, StatusError, error_from_grpc

CONNECT_TIMEOUT = 10.0
"""How long connecting may take, in seconds."""

MAX_MESSAGE_BYTES = 96 << 20
"""The largest message that is taken; the service sends none over 64 MiB of payload."""

_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A session is resumed as soon as the server is back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Each client has its own connection.
    ("grpc.use_local_subchannel_pool", 1),
]


class Address:
    """Where a server is: `http://HOST[:PORT]`, `https://HOST[:PORT]` or, clear, `HOST:PORT`."""

    def __init__(self, url: str) -> None:
        """Reads an address.

        Raises:
            ConnectError: INVALID_ARGUMENT where it is none.
        """
        if not isinstance(url, str):
            raise _fault(url, "it is no text")
        text = url.strip()
        bare = "://" not in text
        try:
            parts = urlsplit(f"http://{text}" if bare else text)
            port = parts.port
            host = parts.hostname
        except ValueError as error:
            raise _fault(url, str(error)) from error
        if not text:
            raise _fault(url, "it is empty")
        if parts.scheme not in ("http", "https"):
            raise _fault(url, f"scheme {parts.scheme!r} is not supported")
        if not host:
            raise _fault(url, "it has no host")
        if parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
            raise _fault(url, "it has a path, a query, or credentials")
        if bare and port is None:
            raise _fault(url, "it has no port")
        self.is_secure = parts.scheme == "https"
        shown = f"[{host}]" if ":" in host else host
        self.host = host
        self.port = port or (443 if self.is_secure else 80)
        self.target = f"{shown}:{self.port}"
        self.url = f"{parts.scheme}://{self.target}"

    def channel(self, credentials: grpc.ChannelCredentials | None) -> aio.Channel:
        """A channel to the server, not yet connected.

        Raises:
            ConnectError: INVALID_ARGUMENT for credentials that would go unused.
        """
        if credentials is not None and not self.is_secure:
            shown = self.target.removesuffix(":80")
            raise ConnectError(
                Code.INVALID_ARGUMENT,
                f"credentials were given for {self.url}, which is reached without TLS; "
                f"write https://{shown}",
            )
        if self.is_secure:
            credentials = credentials or grpc.ssl_channel_credentials()
            return aio.secure_channel(self.target, credentials, options=_OPTIONS)
        return aio.insecure_channel(self.target, options=_OPTIONS)


async def reach(channel: aio.Channel, address: Address, metadata: Metadata) -> None:
    """Waits until the channel is connected.

    Raises:
        ConnectError: UNAVAILABLE, naming the URL and the cause.
    """
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            state = channel.get_state(try_to_connect=True)
            while state is not grpc.ChannelConnectivity.READY:
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    cause = await _cause(channel, metadata)
                    if cause is None:
                        return
                    raise await _unreachable(address, cause)
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError as error:
        cause = f"no answer within {CONNECT_TIMEOUT:g} s"
        raise await _unreachable(address, cause) from error


async def ping(channel: aio.Channel, metadata: Metadata) -> None:
    """Asks for something small.

    Raises:
        StatusError: What it failed with.
    """
    try:
        await ActionServiceStub(channel).ListActions(
            ListActionsRequest(page_size=1), metadata=tuple(metadata), timeout=CONNECT_TIMEOUT
        )
    except aio.AioRpcError as error:
        raise error_from_grpc(error) from error


async def _cause(channel: aio.Channel, metadata: Metadata) -> str | None:
    """Why the channel cannot be used; None where it can, after all."""
    try:
        await ping(channel, metadata)
    except StatusError as error:
        # Any other code is the server's own answer.
        if error.code is Code.UNAVAILABLE:
            return error.message or "no connection"
    return None


def _fault(url: str, fault: str) -> ConnectError:
    return ConnectError(
        Code.INVALID_ARGUMENT,
        f"{url!r} is not a server's address: {fault}; "
        "use HOST:PORT, http://HOST:PORT or https://HOST[:PORT]",
    )


async def _unreachable(address: Address, cause: str) -> ConnectError:
    secure = address.is_secure
    cause = await explain(address.host, address.port, is_secure=secure, cause=cause)
    return ConnectError(Code.UNAVAILABLE, f"cannot reach the server at {address.url}: {cause}")
