"""When to ask again: back-off after a fault, and pauses that an endpoint asks everybody to make."""

from __future__ import annotations

import asyncio
import random
import time

from pave_policy.llm.faults import Fault

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0

pause = asyncio.sleep
"""How to wait; replaced in tests."""

# Of its own: nothing that the simulation draws may depend on the number of failed requests.
_jitter = random.Random()


class Pace:
    """The pauses of one endpoint."""

    def __init__(self) -> None:
        self._held_until = 0.0

    async def hold(self) -> None:
        """Waits until the endpoint wants to be asked again; each such time is waited for once."""
        waited_for = 0.0
        while self._held_until > max(waited_for, time.monotonic()):
            waited_for = self._held_until
            await pause(waited_for - time.monotonic())

    async def back_off(self, fault: Fault, failed: int) -> None:
        """Waits before another attempt, or makes everybody wait in `hold`.

        Args:
            fault: Why there is to be another.
            failed: How many attempts have failed before it.
        """
        seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2**failed) * _jitter.uniform(0.5, 1.0)
        seconds = max(seconds, fault.retry_after or 0.0)
        if fault.holds_all:
            self._held_until = max(self._held_until, time.monotonic() + seconds)
        else:
            await pause(seconds)
