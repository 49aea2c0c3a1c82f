"""A client that knows nothing of the service but what its reflection says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc import aio
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)


class Reflected:
    """Its messages by full name, and its methods on a channel."""

    def __init__(self, pool: Any) -> None:  # A DescriptorPool, whose methods have no types.
        self._pool = pool

    def message(self, name: str, /, **fields: Any) -> Any:
        """A message of the package `a11.v1`."""
        descriptor = self._pool.FindMessageTypeByName(f"a11.v1.{name}")
        return message_factory.GetMessageClass(descriptor)(**fields)

    def method(self, channel: Any, service: str, name: str) -> Any:
        """A method of a service of that package, on a channel of either API."""
        descriptor: MethodDescriptor = self._pool.FindServiceByName(
            f"a11.v1.{service}"
        ).FindMethodByName(name)
        sides = (descriptor.client_streaming, descriptor.server_streaming)
        kinds = {
            (False, False): channel.unary_unary,
            (False, True): channel.unary_stream,
            (True, False): channel.stream_unary,
            (True, True): channel.stream_stream,
        }
        answer = message_factory.GetMessageClass(descriptor.output_type)
        return kinds[sides](
            f"/a11.v1.{service}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )


async def reflect(address: str) -> Reflected:
    """Asks a server what it has."""

    def ask() -> Reflected:
        with grpc.insecure_channel(address) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            pool: Any = DescriptorPool(database)
            for service in database.get_services():
                if service.startswith("a11."):
                    pool.FindServiceByName(service)
        return Reflected(pool)

    return await asyncio.to_thread(ask)


@asynccontextmanager
async def channel_to(address: str) -> AsyncIterator[aio.Channel]:
    """One channel, and so one connection."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with aio.insecure_channel(address, options=options) as channel:
        yield channel
