"""What the tests of the stub server share: plain HTTP clients and prompts."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from pave_policy.testing import OPERATIONS, StubRequest, StubServer

DEADLINE_S = 10
CHAT = "/v1/chat/completions"


def chat_body(prompt: str, **more: Any) -> bytes:
    messages = [{"role": "user", "content": prompt}]
    return json.dumps({"model": "stub", "messages": messages, **more}).encode()


def raw_request(prompt: str, more_headers: str = "") -> bytes:
    body = chat_body(prompt)
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: stub\r\nContent-Length: {len(body)}\r\n{more_headers}\r\n"
    )
    return head.encode() + body


def connect(server: StubServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)


def read_all(client: socket.socket) -> bytes:
    data = b""
    while part := client.recv(65536):
        data += part
    return data


def post(url: str, prompt: str, **more: Any) -> tuple[int, dict[str, Any]]:
    """Sends one chat request; gives the status and the JSON of the reply, an error's too."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{url}/chat/completions", data=chat_body(prompt, **more), headers=headers
    )
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def content_of(answer: dict[str, Any]) -> Any:
    return answer["choices"][0]["message"]["content"]


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def prompts() -> dict[str, str]:
    return {name: f"OPERATION: {title}\nCase 7." for title, name in OPERATIONS.items()}


def request_of(prompt: str, operation: str | None) -> StubRequest:
    body = {"messages": [{"role": "user", "content": prompt}]}
    return StubRequest(CHAT, "", {}, body, operation, 0)
