"""A peer whose one action ends its process, as a crash does.

Run: python -m a11_grpc host tests/interop/vanishing_peer.py --server URL
"""

import os

import a11_grpc

REGISTRY = a11_grpc.Registry()


@REGISTRY.action
async def vanish() -> str:
    """Is gone before it answers."""
    os._exit(1)
