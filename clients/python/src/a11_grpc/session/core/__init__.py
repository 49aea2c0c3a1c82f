"""The rules of a session as a pure state machine: values and `now` in, values out.

No I/O, no clock, no tasks: two of these can be simulated against each other.
"""

from a11_grpc.session.core.core import Core, NewCall, Room, Side
from a11_grpc.session.core.cost import cost
from a11_grpc.session.core.limits import Limits

__all__ = ["Core", "Limits", "NewCall", "Room", "Side", "cost"]
