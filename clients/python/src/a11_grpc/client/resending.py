"""When a request that runs the calls of a turn is sent again.

A recorded round is known again by the id of its turn, and the service runs each of its calls once
however often it is asked. Any other round may have run when its connection broke, and is not sent
again.
"""

from __future__ import annotations

import asyncio
import logging
import time

from a11_grpc.wire.status import Status, StatusError

log = logging.getLogger("a11_grpc.client")

LEAST_PAUSE, MOST_PAUSE = 0.1, 2.0
"""How long to wait before a request is sent again, in seconds, doubled each time."""

# How gRPC begins where there was no connection to send anything on.
_NEVER_SENT = "failed to connect"


class Resending:
    """One round's attempts, until its time is up."""

    def __init__(self, *, is_recorded: bool, seconds: float) -> None:
        self._is_recorded = is_recorded
        self._end = time.monotonic() + seconds
        self._pause = LEAST_PAUSE
        self.attempts = 0

    def time_left(self) -> float:
        """For the next attempt, in seconds."""
        return max(0.0, self._end - time.monotonic())

    async def failed(self, error: StatusError) -> None:
        """Waits until the request can be sent again.

        Raises:
            StatusError: The failure, where it is the service's own, or not to be sent again.
        """
        if not error.is_of_connection:
            raise error
        if not self._is_recorded and error.message.startswith(_NEVER_SENT):
            raise error
        if not self._is_recorded:
            message = (
                f"{error.message}: the connection broke, and whether the calls ran is not known; "
                "a recorded round (store=True, with a conversation) is sent again by itself, and "
                "runs nothing twice"
            )
            raise StatusError(Status(error.code, error.reason, message)) from error
        self.attempts += 1
        if self.time_left() <= self._pause:
            message = (
                f"{error.message}: sent {self.attempts} times, and there is no time left; the "
                "round can be asked for again as it was, and runs nothing twice"
            )
            raise StatusError(Status(error.code, error.reason, message)) from error
        log.debug("the connection broke (%s): the round is asked for again", error.message)
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, MOST_PAUSE)
