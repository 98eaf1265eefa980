"""A model server for tests: real sockets on this machine, scripted answers, every request kept."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, NoReturn

from pave_policy.testing.canned import canned
from pave_policy.testing.exchange import (
    EMBED,
    Answerer,
    StubReply,
    StubRequest,
    error_body,
    operation_of,
)
from pave_policy.testing.replies import script
from pave_policy.testing.wire import Connection, HttpReply, HttpRequest, phrase
from voville_env.errors import InvalidValueError

HOST = "127.0.0.1"
CHAT_PATH = "/v1/chat/completions"
EMBEDDINGS_PATH = "/v1/embeddings"
MODELS_PATH = "/v1/models"
_BACKLOG = 1024
_NOT_JSON = StubReply(status=400, content="The body is not a JSON object.")


class StubServer:
    """An OpenAI-compatible server in a thread of its own; it listens until it is closed.

    Only the server's thread changes what it has counted; any thread may read it at any time. A
    request is in flight from its arrival until its answer is sent or its connection is closed.

    Attributes:
        port: Where it listens.
        url: The base URL for a client.
        requests: The requests for completions and for vectors in order of arrival.
        in_flight: How many of them are in flight now.
        max_in_flight: The most there have been at once.
    """

    def __init__(
        self,
        answer: Answerer | Sequence[StubReply | str] | None = None,
        *,
        latency: float = 0.0,
        models: Sequence[str] = ("stub",),
        port: int = 0,
    ) -> None:
        """Starts the server.

        Args:
            answer: Answers each request, or the answers in order; by default `canned`.
            latency: Seconds that each request takes.
            models: The models that it lists; it answers for any.
            port: Where to listen; 0 for any free port.

        Raises:
            InvalidValueError: If `answer` is a string.
            OSError: If the port is taken.
        """
        self._answer = _answerer(answer)
        self._latency = latency
        self._models = tuple(models)
        self._numbers = itertools.count()
        self._busy: list[tuple[float, int]] = []
        self.requests: list[StubRequest] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self._socket = socket.create_server((HOST, port), backlog=_BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}/v1"
        self._ended: Future[None] = Future()
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="stub-server", daemon=True)
        self._thread.start()

    def __enter__(self) -> StubServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes every connection, answered or not, and frees the port; again, it does nothing."""
        with self._closing:
            if not self._ended.done():
                self._ended.set_result(None)
        self._thread.join()

    def counts(self) -> dict[str | None, int]:
        """Counts the requests.

        Returns:
            How many there were of each operation, ``"embed"`` included; None stands for any other
            prompt.
        """
        return dict(Counter(request.operation for request in list(self.requests)))

    def busy(self) -> list[tuple[float, int]]:
        """Tells how many requests were in flight when.

        Returns:
            `(time.monotonic(), requests in flight)` after each change.
        """
        return list(self._busy)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        opened: set[Connection] = set()
        listening = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._handle, opened), sock=self._socket, backlog=_BACKLOG
        )
        await asyncio.wrap_future(self._ended)
        listening.close()
        tasks = [connection.task for connection in opened]
        for connection in tuple(opened):
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle(self, request: HttpRequest) -> HttpReply | None:
        path, _, query = request.target.partition("?")
        routes = {CHAT_PATH: "POST", EMBEDDINGS_PATH: "POST", MODELS_PATH: "GET"}
        if path not in routes:
            message = f"There is no {path!r} here; there is {' and '.join(routes)}."
            return HttpReply(404, error_body(message, code="unknown_url").encode())
        if request.method != routes[path]:
            message = f"{path} takes {routes[path]}, not {request.method}."
            return HttpReply(405, error_body(message).encode(), {"allow": routes[path]})
        if path == MODELS_PATH:
            return HttpReply(200, _model_list(self._models))
        return await self._chat(request, path, query)

    async def _chat(self, http: HttpRequest, path: str, query: str) -> HttpReply | None:
        body = _read_object(http.body)
        operation = EMBED if path == EMBEDDINGS_PATH else operation_of(body or {})
        request = StubRequest(path, query, http.headers, body or {}, operation, next(self._numbers))
        self.requests.append(request)
        self._count(1)
        try:
            reply, rendered = self._reply_to(request, valid=body is not None)
            if reply.hang:
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(self._latency + reply.delay)
        finally:
            self._count(-1)
        return None if reply.drop else rendered

    def _count(self, change: int) -> None:
        self.in_flight += change
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self._busy.append((time.monotonic(), self.in_flight))

    def _reply_to(self, request: StubRequest, *, valid: bool) -> tuple[StubReply, HttpReply]:
        try:
            answer = self._answer(request) if valid else _NOT_JSON
            reply = StubReply(content=answer) if isinstance(answer, str) else answer
            return reply, _rendered(reply, request)
        except Exception as error:
            reply = StubReply(status=500, content=f"the answer failed: {error!r}")
            return reply, _rendered(reply, request)


def _answerer(answer: Answerer | Sequence[StubReply | str] | None) -> Answerer:
    if answer is None:
        return canned
    if callable(answer):
        return answer
    if isinstance(answer, str):
        raise InvalidValueError(
            f"answer is {answer!r}; allowed: an answerer such as always(reply), a list of replies"
        )
    return script(answer)


def _refuse(constant: str) -> NoReturn:
    raise InvalidValueError(f"number is {constant}; allowed: numbers of JSON")


def _read_object(body: bytes) -> dict[str, Any] | None:
    """Reads a JSON object by the standard, which knows neither NaN nor Infinity."""
    try:
        value = json.loads(body, parse_constant=_refuse)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _model_list(models: Sequence[str]) -> bytes:
    entries = [{"id": m, "object": "model", "created": 0, "owned_by": "stub"} for m in models]
    return json.dumps({"object": "list", "data": entries}).encode()


def _rendered(reply: StubReply, request: StubRequest) -> HttpReply:
    body = reply.body
    if body is None and reply.status >= 400:
        kind = "server_error" if reply.status >= 500 else "invalid_request_error"
        body = error_body(reply.content or phrase(reply.status), kind=kind)
    elif body is None:
        body = json.dumps(_completion(reply, request))
    data = body if isinstance(body, bytes) else body.encode()
    return HttpReply(reply.status, data, reply.headers)


def _completion(reply: StubReply, request: StubRequest) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.content, **reply.message}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    completion = {
        "id": f"chatcmpl-stub-{request.number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model"),
        "choices": [choice],
    }
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        return completion
    usage = {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
    return completion | {"usage": usage}
