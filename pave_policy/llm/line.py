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
        in_flight: Requests in flight.
    """

    def __init__(self, access: Access, concurrency: int) -> None:
        """Prepares the client, which is made at the first request.

        Args:
            access: Where requests go and what they carry.
            concurrency: Requests in flight at most.
        """
        self.slots = asyncio.Semaphore(concurrency)
        self.starts = Turnstile()
        self.answers = Turnstile()
        self.first = asyncio.Lock()
        self.calls = 0
        self.in_flight = 0
        self._access = access
        self._concurrency = concurrency
        self._base = access.address.base
        self._clients = self._open()
        self._client: AsyncOpenAI | None = None

    async def open(self) -> None:
        """Makes the client, unless it is there: that takes long enough to blur a latency."""
        if self._client is None:
            self._client = await anext(self._clients)

    async def chat(
        self, base: str, prompt: str, parameters: Mapping[str, Any], timeout: float
    ) -> Answer | Fault:
        """Sends one chat request.

        Args:
            base: The base URL.
            prompt: The only message.
            parameters: The other parts of the body.
            timeout: Seconds until it is given up.

        Returns:
            The reply; a fault where there is none.
        """
        from openai import HttpxBinaryResponseContent

        client = await self._at(base)
        self.in_flight += 1
        try:
            # As it is: the method for chats checks each message's type, which takes a third longer.
            return await self._wait(
                client.post(
                    "/chat/completions",
                    cast_to=HttpxBinaryResponseContent,
                    body={"messages": [{"role": "user", "content": prompt}], **parameters},
                    options={"headers": self._left_out()},
                ),
                timeout,
            )
        finally:
            self.in_flight -= 1

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
        """Closes the client."""
        await self._clients.aclose()

    async def _wait(
        self, request: Awaitable[HttpxBinaryResponseContent], timeout: float
    ) -> Answer | Fault:
        from openai import APIConnectionError, APIStatusError

        try:
            async with asyncio.timeout(timeout):
                reply = (await request).response
        except TimeoutError:
            return fault_of_timeout(timeout)
        except APIStatusError as error:
            reply = error.response
        except APIConnectionError as error:
            return fault_of_exception(error, self._access.address)
        return Answer(reply.status_code, dict(reply.headers), reply.text)

    def _left_out(self) -> dict[str, str | Omit]:
        from openai import Omit

        return {} if self._access.authorization else {"Authorization": Omit()}

    async def _at(self, base: str) -> AsyncOpenAI:
        await self.open()
        assert self._client is not None
        if base != self._base:
            self._client.base_url = self._base = base
        return self._client

    async def _open(self) -> AsyncGenerator[AsyncOpenAI, None]:
        """Yields the client once: a loop closes its generators, and so the client, when it ends."""
        import openai

        # Taken from the library, which has changed its HTTP client once already.
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
            max_connections=None, max_keepalive_connections=self._concurrency
        )
        address = self._access.address
        local = address.is_loopback
        headers = dict(self._access.headers)
        if self._access.authorization:
            headers["Authorization"] = self._access.authorization
        client = openai.AsyncOpenAI(
            api_key="none",
            base_url=address.base,
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
