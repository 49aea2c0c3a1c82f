"""A peer whose action tells the idempotency key of its call.

Run: python -m a11_grpc host tests/interop/key_peer.py --server URL
"""

import a11_grpc

REGISTRY = a11_grpc.Registry()


@REGISTRY.action
async def py_key(context: a11_grpc.Context) -> str:
    """The key that came with the call."""
    return context.headers["x-a11-idempotency-key"].decode()
