"""The stub model server: what it speaks, what it keeps, what it sends and how it ends."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from stub_client import (
    CHAT,
    DEADLINE_S,
    chat_body,
    connect,
    content_of,
    post,
    prompts,
    raw_request,
    read_all,
    wait_until,
)

from pave_policy.testing import Answerer, StubReply, StubRequest, StubServer, always
from voville_env.errors import InvalidValueError


def test_one_connection_serves_many_requests() -> None:
    with StubServer(["one", "two", "three"]) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
        said, locals_used = [], set()
        for _ in range(3):
            client.request("POST", CHAT, chat_body("hello"))
            said.append(content_of(json.load(client.getresponse())))
            locals_used.add(client.sock.getsockname())
        client.close()
    assert said == ["one", "two", "three"]
    assert len(locals_used) == 1


def test_the_connection_closes_where_the_client_asks_for_it() -> None:
    with StubServer() as server, connect(server) as client:
        client.sendall(raw_request("hello", "Connection: close\r\n"))
        reply = read_all(client)
    assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nconnection: close\r\n" in reply


def test_requests_may_arrive_in_pieces_or_together() -> None:
    with StubServer(["first", "second", "third"]) as server, connect(server) as client:
        pieces = raw_request("één")
        for start in range(0, len(pieces), 7):
            client.sendall(pieces[start : start + 7])
        client.sendall(raw_request("two") + raw_request("three", "Connection: close\r\n"))
        reply = read_all(client)
        prompts_seen = [request.prompt for request in server.requests]
    assert prompts_seen == ["één", "two", "three"]
    found = [reply.index(f'"content": "{word}"'.encode()) for word in ("first", "second", "third")]
    assert found == sorted(found)


def test_large_bodies_pass_in_both_directions() -> None:
    long = "wall " * 200_000
    with StubServer(lambda request: request.prompt) as server:
        assert content_of(post(server.url, long)[1]) == long


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: -4\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nno colon\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_and_the_server_goes_on(data: bytes) -> None:
    with StubServer() as server:
        with connect(server) as client:
            client.sendall(data)
            assert read_all(client).startswith(b"HTTP/1.1 400 ")
        assert post(server.url, "still there?")[0] == 200
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/chat/completions", 404),
        ("GET", "/v1", 404),
        ("GET", CHAT, 405),
        ("POST", "/v1/models", 405),
    ],
)
def test_other_paths_and_methods_get_openai_style_errors(
    method: str, path: str, status: int
) -> None:
    with StubServer() as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
        client.request(method, path, b"{}" if method == "POST" else None)
        reply = client.getresponse()
        assert reply.status == status
        assert set(json.load(reply)["error"]) == {"message", "type", "param", "code"}
        client.close()
        assert server.requests == []


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"temperature": NaN}', b'{"model"', b"\xff"])
def test_bodies_that_are_no_json_objects_are_refused_and_kept(body: bytes) -> None:
    with StubServer(["for the next one"]) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
        client.request("POST", CHAT, body)
        reply = client.getresponse()
        assert reply.status == 400
        reply.read()
        client.close()
        assert [(request.body, request.number) for request in server.requests] == [({}, 0)]
        assert content_of(post(server.url, "hello")[1]) == "for the next one"


def test_models_are_listed() -> None:
    with StubServer(models=["small", "large"]) as server:
        with urllib.request.urlopen(f"{server.url}/models", timeout=DEADLINE_S) as reply:
            listed = json.load(reply)
        assert [entry["id"] for entry in listed["data"]] == ["small", "large"]
        assert server.requests == []


def test_a_request_is_kept_as_it_was_sent() -> None:
    parts = [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": {}}]
    body = {
        "model": "m",
        "temperature": 0.25,
        "messages": [
            {"role": "system", "content": "a"},
            {"role": "user", "content": [*parts, {"type": "text", "text": "c"}]},
            {"role": "assistant", "content": None},
        ],
    }
    with StubServer() as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
        headers = {"Authorization": "Bearer k", "X-Run": "7"}
        client.request("POST", f"{CHAT}?tier=flex&x=1", json.dumps(body), headers)
        client.getresponse().read()
        client.close()
        (request,) = server.requests
    assert (request.path, request.query) == (CHAT, "tier=flex&x=1")
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["x-run"] == "7"
    assert request.body == body
    assert request.prompt == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("prompt", "operation"),
    [
        ("OPERATION: AssessRisk\nrest", "assess_risk"),
        ("OPERATION: PropagateOutcome", "propagate_outcome"),
        ("OPERATION: GenerateVerdict\r\nrest", "generate_verdict"),
        ("OPERATION: Unheard\nrest", None),
        ("OPERATION: AssessRisk and more\n", None),
        ("Someone says:\nOPERATION: AssessRisk\n", None),
        ("", None),
    ],
)
def test_the_operation_is_read_from_the_first_line(prompt: str, operation: str | None) -> None:
    with StubServer() as server:
        post(server.url, prompt)
        assert server.requests[0].operation == operation


def test_the_operation_may_stand_in_any_message() -> None:
    messages = [
        {"role": "system", "content": "You live in a town."},
        {"role": "user", "content": "OPERATION: AssessBenefit\nA bakery burns."},
    ]
    with StubServer() as server:
        post(server.url, "", messages=messages)
        assert server.requests[0].operation == "assess_benefit"


def test_counts_go_by_operation() -> None:
    asked = prompts()
    with StubServer() as server:
        for prompt in (asked["assess_risk"], asked["emulate_action"], asked["assess_risk"], "hi"):
            post(server.url, prompt)
        assert server.counts() == {"assess_risk": 2, "emulate_action": 1, None: 1}


def test_fifty_requests_are_in_flight_without_a_thread_each() -> None:
    with StubServer(always(StubReply(hang=True))) as server:
        threads = threading.active_count()
        clients = [connect(server) for _ in range(50)]
        for number, client in enumerate(clients):
            client.sendall(raw_request(f"number {number}"))
        wait_until(lambda: server.in_flight == 50)
        assert threading.active_count() == threads
        assert server.max_in_flight == 50
        for client in clients:
            client.close()
        wait_until(lambda: server.in_flight == 0)
        assert server.max_in_flight == 50
        assert [count for _, count in server.busy()] == [*range(1, 51), *range(49, -1, -1)]
        assert {request.number for request in server.requests} == set(range(50))


def test_busy_follows_the_requests() -> None:
    before = time.monotonic()
    with StubServer() as server:
        for _ in range(3):
            post(server.url, "hello")
            assert server.in_flight == 0
        busy = server.busy()
    times = [moment for moment, _ in busy]
    assert [count for _, count in busy] == [1, 0] * 3
    assert times == sorted(times)
    assert before <= times[0]
    assert times[-1] <= time.monotonic()


def test_latency_and_delay_add_up() -> None:
    with StubServer(always(StubReply("late", delay=0.05)), latency=0.05) as server:
        assert content_of(post(server.url, "hello")[1]) == "late"
        (start, _), (end, _) = server.busy()
    assert end - start >= 0.099  # a clock tick less than the sum


def test_reading_while_requests_arrive_is_safe() -> None:
    workers, each = 8, 25
    with StubServer() as server, ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(lambda: [post(server.url, "hello") for _ in range(each)])
            for _ in range(workers)
        ]
        seen = 0
        while not all(job.done() for job in jobs):
            total = server.counts().get(None, 0)
            assert seen <= total <= len(server.requests)
            assert len(server.busy()) <= 2 * len(server.requests)
            seen = total
            time.sleep(0.001)  # spinning would starve the clients
        for job in jobs:
            job.result()
        assert [request.number for request in server.requests] == list(range(workers * each))
        assert server.busy()[-1][1] == server.in_flight == 0
        assert 1 <= server.max_in_flight <= workers


def test_a_reply_is_a_completion_made_from_its_fields() -> None:
    reply = StubReply(
        content="yes",
        finish_reason="length",
        prompt_tokens=7,
        completion_tokens=3,
        message={"reasoning_content": "hm"},
    )
    with StubServer([reply]) as server:
        _, answer = post(server.url, "hello")
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "stub"
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"] == {"role": "assistant", "content": "yes", "reasoning_content": "hm"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert answer["usage"] == usage


def test_bodies_and_headers_pass_verbatim() -> None:
    replies = [
        StubReply(body=b"\xff\x00", headers={"Content-Type": "image/x", "X-Id": "4"}),
        StubReply(body="cut", headers={"content-length": "9", "Connection": "close"}),
    ]
    with StubServer(replies) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
        client.request("POST", CHAT, chat_body("hello"))
        reply = client.getresponse()
        assert (reply.read(), reply.getheader("x-id")) == (b"\xff\x00", "4")
        assert reply.headers.get_all("content-type") == ["image/x"]
        client.request("POST", CHAT, chat_body("hello"))
        with pytest.raises(http.client.IncompleteRead):
            client.getresponse().read()
        client.close()


def test_an_error_status_makes_an_error_body() -> None:
    with StubServer([StubReply(status=503), StubReply("no", status=400)]) as server:
        status, answer = post(server.url, "hello")
        assert (status, answer["error"]["message"]) == (503, "Service Unavailable")
        status, answer = post(server.url, "hello")
        assert (status, answer["error"]["message"]) == (400, "no")


def test_a_script_ends_in_an_error() -> None:
    with StubServer(["a", StubReply("b")]) as server:
        assert [content_of(post(server.url, "hello")[1]) for _ in range(2)] == ["a", "b"]
        for _ in range(2):
            status, answer = post(server.url, "hello")
            assert status == 500
            assert "script exhausted" in answer["error"]["message"]


def test_a_failing_answerer_is_an_error_that_says_so() -> None:
    def fail(request: StubRequest) -> StubReply:
        raise KeyError("no such street")

    replies: list[Answerer] = [fail, always(StubReply(message={"x": object()}))]
    for answerer in replies:
        with StubServer(answerer) as server:
            status, answer = post(server.url, "hello")
            assert status == 500
            assert "Error(" in answer["error"]["message"]
            assert server.in_flight == 0


def test_a_bare_string_is_no_script() -> None:
    with pytest.raises(InvalidValueError, match="always"):
        StubServer("yes")


def test_drop_closes_the_connection_unanswered() -> None:
    with StubServer([StubReply(drop=True), "back"]) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
        client.request("POST", CHAT, chat_body("hello"))
        with pytest.raises(http.client.RemoteDisconnected):
            client.getresponse()
        client.close()
        assert content_of(post(server.url, "hello")[1]) == "back"
        assert len(server.requests) == 2


@pytest.mark.parametrize("reply", [StubReply(hang=True), StubReply("late", delay=3600)])
def test_a_client_that_leaves_ends_its_request(reply: StubReply) -> None:
    with StubServer([reply]) as server:
        with connect(server) as client:
            client.sendall(raw_request("hello"))
            wait_until(lambda: server.in_flight == 1)
        wait_until(lambda: server.in_flight == 0)


def test_close_ends_everything_and_frees_the_port() -> None:
    threads = threading.active_count()
    server = StubServer([StubReply(hang=True), StubReply(delay=3600)])
    with connect(server) as hanging, connect(server) as waiting, connect(server) as idle:
        hanging.sendall(raw_request("one"))
        waiting.sendall(raw_request("two"))
        wait_until(lambda: server.in_flight == 2)
        server.close()
        for client in (hanging, waiting, idle):
            assert read_all(client) == b""
    assert server.in_flight == 0
    assert len(server.requests) == 2
    assert threading.active_count() == threads
    with pytest.raises(ConnectionRefusedError):
        connect(server)
    with StubServer(port=server.port) as heir:
        assert heir.url == server.url
        assert post(heir.url, "hello")[0] == 200
    server.close()


def test_a_taken_port_is_refused_at_once() -> None:
    with StubServer() as server, pytest.raises(OSError, match="in use"):
        StubServer(port=server.port)
