"""Keeps an event loop from doing all of one thing before any of another."""

from __future__ import annotations

import asyncio


class Turnstile:
    """Lets one task through at a time, with a turn of the event loop for all others in between.

    Of many requests answered together, none would else be followed by another before all answers
    are worked on, and the endpoint would stand idle meanwhile. It belongs to one event loop.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Waits for one's turn."""
        async with self._lock:
            await asyncio.sleep(0)
