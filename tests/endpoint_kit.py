"""What the tests of the transport share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pave_policy.llm.settings import chat_settings
from pave_policy.llm.transport import CallError, ChatRequest, Endpoint, Reply
from pave_policy.testing import StubReply, StubServer

HELLO = ChatRequest("Hello", 7, json_answer=False)
WRONG = StubReply(status=500, content="out of order")


def no_pauses(patch: pytest.MonkeyPatch) -> list[float]:
    """Makes back-off instant; the list gets the seconds that it would have taken."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    patch.setattr("pave_policy.llm.pace.pause", pause)
    return pauses


class Impatience:
    """Lets the time of an attempt run out just when the server has its request in hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._limits: list[asyncio.Timeout] = []
        self.seconds: list[float] = []
        timeout = asyncio.timeout

        def unlimited(seconds: float) -> asyncio.Timeout:
            self.seconds.append(seconds)
            self._limits.append(timeout(None))
            return self._limits[-1]

        patch.setattr(asyncio, "timeout", unlimited)

    async def send(self, target: Endpoint, server: StubServer, times: int) -> Reply:
        """Sends a request whose first attempts, which the server lets hang, run out of time."""
        call = asyncio.create_task(target.send(HELLO))
        for attempt in range(times):
            while len(server.requests) <= attempt:
                await asyncio.sleep(0.002)
            self._limits[attempt].reschedule(asyncio.get_running_loop().time())
        return await call


def endpoint(url: str, **options: Any) -> Endpoint:
    return Endpoint(chat_settings(**{"base_url": url, "model": "stub", **options}))


def ask(target: Endpoint, request: ChatRequest = HELLO) -> Reply:
    return asyncio.run(target.send(request))


def fail(target: Endpoint, request: ChatRequest = HELLO) -> CallError:
    with pytest.raises(CallError) as caught:
        ask(target, request)
    return caught.value
