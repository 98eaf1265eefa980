"""The HTTP client of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pave_policy.llm.access import Access
from pave_policy.llm.faults import Fault, fault_of_exception, fault_of_timeout
from pave_policy.llm.turnstile import Turnstile

if TYPE_CHECKING:
    from openai import AsyncOpenAI, HttpxBinaryResponseContent, Omit

_SHARE = 16
"""Requests in flight through one client: for each request it looks at all of its connections."""


@dataclass(frozen=True)
class Answer:
    """An HTTP reply of any status."""

    status: int
    headers: Mapping[str, str]
    body: str


class Line:
    """What belongs to one event loop and must not be used from another.

    Attributes:
        slots: One for each request that may be in flight.
        starts: Passed before a request is sent.
        answers: Passed before an answer is acted on.
        first: Held by the first request, which goes ahead alone.
        calls: Calls that have not returned yet.
    """

    def __init__(self, access: Access, concurrency: int) -> None:
        """Prepares for clients, which are made when they are needed.

        Args:
            access: Where requests go and what they carry.
            concurrency: Requests in flight at most.
        """
        self.slots = asyncio.Semaphore(concurrency)
        self.starts = Turnstile()
        self.answers = Turnstile()
        self.first = asyncio.Lock()
        self.calls = 0
        self._access = access
        self._base = access.address.base
        self._openings: list[AsyncGenerator[AsyncOpenAI, None]] = []
        self._in_flight: dict[AsyncOpenAI, int] = {}

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return sum(self._in_flight.values())

    async def open(self) -> None:
        """Makes a client, unless one has room: that takes long enough to blur a latency."""
        if all(number >= _SHARE for number in self._in_flight.values()):
            opening = self._open()
            self._openings.append(opening)
            self._in_flight[await anext(opening)] = 0

    async def post(
        self, base: str, path: str, body: Mapping[str, Any], timeout: float
    ) -> Answer | Fault:
        """Sends one request.

        Args:
            base: The base URL.
            path: What follows it.
            body: JSON-ready.
            timeout: Seconds until it is given up.

        Returns:
            The reply; a fault where there is none.
        """
        from openai import HttpxBinaryResponseContent

        client = await self._at(base)
        self._in_flight[client] += 1
        try:
            # As it is: the method for chats checks each message's type, which takes a third longer.
            return await self._wait(
                client.post(
                    path,
                    cast_to=HttpxBinaryResponseContent,
                    body=body,
                    options={"headers": self._left_out()},
                ),
                timeout,
            )
        finally:
            self._in_flight[client] -= 1

    async def models(self, base: str, timeout: float) -> Answer | Fault:
        """Asks which models there are.

        Args:
            base: The base URL.
            timeout: Seconds until it is given up.

        Returns:
            The reply; a fault where there is none.
        """
        from openai import HttpxBinaryResponseContent

        client = await self._at(base)
        listing = client.get(
            "/models", cast_to=HttpxBinaryResponseContent, options={"headers": self._left_out()}
        )
        return await self._wait(listing, timeout)

    async def close(self) -> None:
        """Closes the clients."""
        for opening in self._openings:
            await opening.aclose()

    async def _wait(
        self, request: Awaitable[HttpxBinaryResponseContent], timeout: float
    ) -> Answer | Fault:
        from openai import APIStatusError

        try:
            async with asyncio.timeout(timeout):
                reply = (await request).response
        except TimeoutError:
            return fault_of_timeout(timeout)
        except APIStatusError as error:
            reply = error.response
        except Exception as error:  # of the connection, or of what the HTTP library makes of it
            return fault_of_exception(error, self._access.address)
        # Whatever charset a header names: JSON is UTF-8.
        body = reply.content.decode("utf-8", errors="replace")
        return Answer(reply.status_code, dict(reply.headers), body)

    def _left_out(self) -> dict[str, str | Omit]:
        from openai import Omit

        return {} if self._access.authorization else {"Authorization": Omit()}

    async def _at(self, base: str) -> AsyncOpenAI:
        """A client with room, for this base URL."""
        await self.open()
        if base != self._base:
            self._base = base
            for client in self._in_flight:
                client.base_url = base
        return next(client for client, number in self._in_flight.items() if number < _SHARE)

    async def _open(self) -> AsyncGenerator[AsyncOpenAI, None]:
        """Yields the client once: a loop closes its generators, and so the client, when it ends."""
        import openai

        # Taken from the library, which has changed its HTTP client once already.
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
            max_connections=None, max_keepalive_connections=_SHARE
        )
        address = self._access.address
        local = address.is_loopback
        headers = dict(self._access.headers)
        if self._access.authorization:
            headers["Authorization"] = self._access.authorization
        client = openai.AsyncOpenAI(
            api_key="none",
            base_url=self._base,
            max_retries=0,
            timeout=None,
            default_headers=headers,
            default_query=address.query,
            http_client=openai.DefaultAsyncHttpxClient(
                limits=limits,
                timeout=None,
                follow_redirects=False,
                trust_env=not local,  # no proxy leads to this machine
                verify=not (local and address.base.startswith("http://")),  # loading takes time
            ),
        )
        # Taken by the library from the environment; it is none of this endpoint's business.
        client.organization = client.project = client.admin_api_key = None
        try:
            yield client
        finally:
            await client.close()
