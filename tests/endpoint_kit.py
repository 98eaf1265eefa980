"""What the tests of the transport share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pave_policy.llm.settings import chat_settings
from pave_policy.llm.transport import CallError, ChatRequest, Endpoint, Reply
from pave_policy.testing import StubReply

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


def endpoint(url: str, **options: Any) -> Endpoint:
    return Endpoint(chat_settings(**{"base_url": url, "model": "stub", **options}))


def ask(target: Endpoint, request: ChatRequest = HELLO) -> Reply:
    return asyncio.run(target.send(request))


def fail(target: Endpoint, request: ChatRequest = HELLO) -> CallError:
    with pytest.raises(CallError) as caught:
        ask(target, request)
    return caught.value
