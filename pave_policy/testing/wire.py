"""The part of HTTP/1.1 that the stub server speaks: bodies of known length, and keep-alive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias, cast

from pave_policy.testing.exchange import error_body
from voville_env.errors import InvalidValueError

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True)
class HttpRequest:
    """A whole request.

    Attributes:
        method: In capitals.
        target: Path and query.
        headers: By name in lower case.
        body: As sent.
        keep_alive: Whether the client means to use the connection again.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    keep_alive: bool


@dataclass(frozen=True)
class HttpReply:
    """A whole reply; its headers replace those of the same name that `encode` sets."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self, *, keep_alive: bool) -> tuple[bytes, bool]:
        """Writes the reply as it goes over the wire.

        Args:
            keep_alive: Whether the connection may stay open.

        Returns:
            The bytes, and whether the connection stays open by what they say.
        """
        headers = {
            "content-type": "application/json",
            "content-length": str(len(self.body)),
            "connection": "keep-alive" if keep_alive else "close",
        }
        headers |= {name.lower(): value for name, value in self.headers.items()}
        lines = [f"HTTP/1.1 {self.status} {phrase(self.status)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(lines).encode("latin-1")
        return head + _END_OF_HEAD + self.body, headers["connection"].lower() != "close"


def phrase(status: int) -> str:
    """Names a status.

    Args:
        status: Any number.

    Returns:
        The standard phrase; one of our own for a number without one, such as 529.
    """
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown Status"


def take_request(buffer: bytearray) -> HttpRequest | None:
    """Takes one request off the front of what has arrived.

    Args:
        buffer: Shortened by the request.

    Returns:
        The request; None, and the buffer as it was, while a part is missing.

    Raises:
        InvalidValueError: If it is not a request that this server can read.
    """
    end = buffer.find(_END_OF_HEAD)
    if end < 0:
        return None
    first, *rest = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise InvalidValueError(f"request line is {first!r}; allowed: METHOD TARGET HTTP/1.1")
    headers = _read_headers(rest)
    start = end + len(_END_OF_HEAD)
    stop = start + _body_size(headers)
    if len(buffer) < stop:
        return None
    body = bytes(buffer[start:stop])
    del buffer[:stop]
    keep_alive = words[2] == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return HttpRequest(words[0], words[1], headers, body, keep_alive)


def _read_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise InvalidValueError(f"header line is {line!r}; allowed: NAME: VALUE")
        headers[name.strip().lower()] = value.strip()
    return headers


def _body_size(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        coding = headers["transfer-encoding"]
        raise InvalidValueError(f"Transfer-Encoding is {coding!r}; allowed: Content-Length only")
    size = headers.get("content-length", "0")
    if not (size.isascii() and size.isdigit()):
        raise InvalidValueError(f"Content-Length is {size!r}; allowed: digits")
    return int(size)


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpReply | None]]
"""Answers a request; None closes the connection unanswered."""


class Connection(asyncio.Protocol):
    """One client's connection: answers its requests in order, and stops when the client has left.

    Attributes:
        task: What answers; done once the connection is closed.
    """

    task: asyncio.Task[None]
    _transport: asyncio.Transport

    def __init__(self, handle: Handler, opened: set[Connection]) -> None:
        self._handle = handle
        self._opened = opened
        self._buffer = bytearray()
        self._arrived = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts answering."""
        self._transport = cast(asyncio.Transport, transport)
        self._opened.add(self)
        self.task = asyncio.create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        """Keeps what arrived until it makes a whole request."""
        self._buffer += data
        self._arrived.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Gives up the request in hand, if any."""
        self._opened.discard(self)
        self.task.cancel()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._transport.abort()

    async def _serve(self) -> None:
        try:
            while await self._serve_one():
                pass
        finally:
            self._transport.close()

    async def _serve_one(self) -> bool:
        """Answers one request and says whether another may follow."""
        try:
            request = await self._next_request()
        except InvalidValueError as error:
            refusal = HttpReply(HTTPStatus.BAD_REQUEST, error_body(str(error)).encode())
            self._transport.write(refusal.encode(keep_alive=False)[0])
            return False
        reply = await self._handle(request)
        if reply is None:
            return False
        data, keep_alive = reply.encode(keep_alive=request.keep_alive)
        self._transport.write(data)
        return keep_alive

    async def _next_request(self) -> HttpRequest:
        while (request := take_request(self._buffer)) is None:
            self._arrived.clear()
            await self._arrived.wait()
        return request
