"""Endpoints that fail: what is tried again and when, what ends the call, what ends the run."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import ssl
import time
from email.utils import formatdate
from typing import Any

import pytest
from endpoint_kit import HELLO, WRONG, Impatience, ask, endpoint, fail, no_pauses

from pave_policy.llm.address import read_address
from pave_policy.llm.complaint import page_title
from pave_policy.llm.completion import Completion, read_completion
from pave_policy.llm.faults import Fault, fault_of_exception, read_retry_after
from pave_policy.llm.transport import CallError, Endpoint, Reply
from pave_policy.outcome import Failure
from pave_policy.testing import (
    ERRORS,
    StubReply,
    StubServer,
    always,
    error_body,
    flaky,
    rate_limited,
)
from voville_env.errors import RunAbortedError

HANGS = StubReply(hang=True)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_pauses(monkeypatch)


def abortion(server: StubServer, **options: Any) -> str:
    """What ends the run; it goes on ending it, without another request."""
    target = endpoint(server.url, **options)
    with pytest.raises(RunAbortedError) as caught:
        ask(target)
    asked = len(server.requests)
    with pytest.raises(RunAbortedError) as again:
        ask(target)
    assert str(again.value) == str(caught.value)
    assert len(server.requests) == asked
    return str(caught.value)


@pytest.mark.parametrize(
    "fault",
    [
        *(StubReply(status=code) for code in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        *(ERRORS[n] for n in ("empty_choices", "null_choices", "error_in_200", "html_page")),
        *(ERRORS[n] for n in ("invalid_json", "bad_gateway_502_html")),
        *(StubReply(drop=True), StubReply(body="")),
        *(StubReply(body=text) for text in ("null", "[]", "7", "{}", "[" * 100_000)),
        *(StubReply(body=f'{{"choices": {it}}}') for it in ("{}", "[1]", '[{"message": 1}]')),
        StubReply(body='{"choices": [{"message": {"content": 7}}]}'),
        StubReply(body=f'{{"choices": [], "usage": {{"prompt_tokens": {"9" * 5000}}}}}'),
    ],
)
def test_passing_troubles_are_tried_again(fault: StubReply, pauses: list[float]) -> None:
    with StubServer(flaky([fault, fault], always("OK"))) as server:
        got = ask(endpoint(server.url, retries=2))
        assert (got.text, got.attempts, len(server.requests)) == ("OK", 3, 3)
    assert len(pauses) == 2
    with StubServer(always(fault)) as server:
        error = fail(endpoint(server.url, retries=2))
        assert (error.attempts, len(server.requests)) == (3, 3)
    assert error.failure is Failure.UNAVAILABLE


def test_back_off_doubles_up_to_half_a_minute(pauses: list[float]) -> None:
    with StubServer(always(WRONG)) as server:
        fail(endpoint(server.url, retries=9))
    most = [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert [m / 2 <= p <= m for p, m in zip(pauses, most, strict=True)] == [True] * 9


def test_no_retries_is_one_attempt(pauses: list[float]) -> None:
    with StubServer(always(WRONG)) as server:
        assert fail(endpoint(server.url, retries=0)).attempts == 1
    assert pauses == []


def test_the_timeout_is_for_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    impatience = Impatience(monkeypatch)
    with StubServer(flaky([HANGS] * 3, always("OK"))) as server:
        target = endpoint(server.url, timeout=12.5, retries=3)
        assert asyncio.run(impatience.send(target, server, 3)).attempts == 4
    assert impatience.seconds == [12.5] * 4


def test_a_timeout_in_every_attempt_fails_the_call(pauses: list[float]) -> None:
    with StubServer(always(HANGS)) as server:
        error = fail(endpoint(server.url, timeout=0.05, retries=2))
    assert (error.failure, error.attempts, len(pauses)) == (Failure.TIMEOUT, 3, 2)
    assert error.detail == "no reply within 0.05 s"


def test_the_last_cause_is_told_with_its_body() -> None:
    with StubServer([StubReply(drop=True), WRONG]) as server:
        error = fail(endpoint(server.url, retries=1))
    assert error.detail == "the endpoint is in trouble (500): out of order"
    assert "out of order" in error.raw
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.detail, copy.failure, copy.raw) == (error.detail, error.failure, error.raw)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_holds_back_all_calls(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    over = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await over.wait()

    async def two_calls() -> list[Reply]:
        target = endpoint(server.url)
        await target.send(HELLO)
        calls = [asyncio.create_task(target.send(HELLO))]
        while len(pauses) < 1:
            await asyncio.sleep(0.002)
        calls.append(asyncio.create_task(target.send(HELLO)))
        while len(pauses) < 2:
            await asyncio.sleep(0.002)
        assert len(server.requests) == 2
        assert (target.in_flight, target.waiting) == (0, 2)
        over.set()
        return await asyncio.gather(*calls)

    monkeypatch.setattr("pave_policy.llm.pace.pause", pause)
    limited = StubReply(status=status, headers={"Retry-After": "90"})
    with StubServer(flaky(["OK", limited], always("OK"))) as server:
        replies = asyncio.run(asyncio.wait_for(two_calls(), 20))
    assert [reply.attempts for reply in replies] == [2, 1]
    assert [80 < seconds <= 90 for seconds in pauses] == [True, True]


def test_retry_after_of_another_trouble_holds_back_its_own_call(pauses: list[float]) -> None:
    busy = StubReply(status=500, headers={"Retry-After": "7"})
    with StubServer(flaky([busy], always("OK"))) as server:
        target = endpoint(server.url)
        assert [ask(target).attempts, ask(target).attempts] == [2, 1]
    assert pauses == [7.0]


def test_rate_limits_are_waited_out(pauses: list[float]) -> None:
    with StubServer(rate_limited(3, 600, always("OK"))) as server:
        assert ask(endpoint(server.url)).attempts == 4
    assert [100 < seconds <= 120 for seconds in pauses] == [True] * 3


def test_retry_after_is_read_in_both_forms() -> None:
    def header(seconds: float) -> str:
        return formatdate(time.time() + seconds, usegmt=True)

    assert read_retry_after("2.5") == 2.5
    assert read_retry_after("-3") == 0.0
    assert 50 < (read_retry_after(header(60)) or 0) <= 60
    assert read_retry_after(header(-60)) == 0.0
    assert read_retry_after(header(3600)) == 120.0
    for nothing in (None, "", "soon", "nan", "inf", "Wed, 99 Foo 2025 07:28:00 GMT"):
        assert read_retry_after(nothing) is None


def test_a_retry_after_date_is_kept(pauses: list[float]) -> None:
    until = formatdate(time.time() + 100, usegmt=True)
    limited = StubReply(status=429, headers={"Retry-After": until})
    with StubServer(flaky([limited], always("OK"))) as server:
        ask(endpoint(server.url))
    assert len(pauses) == 1
    assert 80 < pauses[0] <= 100


@pytest.mark.parametrize("status", [400, 405, 413, 422])
def test_a_rejected_request_fails_its_call_only(status: int, pauses: list[float]) -> None:
    rejection = StubReply(status=status, content="too long for the context length")
    with StubServer(flaky(["OK", rejection], always("OK"))) as server:
        target = endpoint(server.url)
        ask(target)
        error = fail(target)
        assert (error.failure, error.attempts) == (Failure.REJECTED, 1)
        assert f"({status}): too long for the context length" in str(error)
        assert ask(target).text == "OK"
    assert pauses == []
    with StubServer(always(rejection)) as server:
        assert "the first request failed" in abortion(server)
        assert len(server.requests) == 1


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_content_filter_is_an_answer(code: str) -> None:
    body = error_body("The prompt was filtered.", code=code)
    with StubServer(always(StubReply(status=400, body=body))) as server:
        got = ask(endpoint(server.url))
        assert len(server.requests) == 1
    assert (got.text, got.finish, got.raw) == (None, "content_filter", body)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_ends_the_run(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sesame")
    with StubServer(always(StubReply(status=status, content="No."))) as server:
        text = abortion(server, api_key_env="SOME_KEY")
        assert f"refused ({status}): No; the key came from the environment variable SOME" in text
        assert "no key was found to send" in abortion(server)
        assert len(server.requests) == 2


def test_an_unknown_model_ends_the_run_and_names_those_there_are() -> None:
    for reply in (ERRORS["unknown_model_404"], StubReply(status=404, body="")):
        with StubServer(always(reply), models=("some-model:7b", "other")) as server:
            text = abortion(server, model="some-model")
            assert len(server.requests) == 1
        assert "the model 'some-model' was not found (404)" in text
        assert "it offers: some-model:7b, other; did you mean 'some-model:7b'?" in text


def test_an_unknown_model_is_no_missing_path() -> None:
    """Without /v1 in the address; the stub server has nothing there, so another one answers."""
    asked: list[bytes] = []
    body = b'{"error": {"message": "no such thing", "param": "model"}}'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        head = f"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: {len(body)}"
        writer.write(head.encode() + b"\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async def call() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            with pytest.raises(RunAbortedError, match="the model 'm' was not found"):
                await endpoint(f"http://{host}:{port}/api", model="m").send(HELLO)

    asyncio.run(call())
    assert [line.split()[1] for line in asked] == [b"/api/chat/completions", b"/api/models"]


def test_an_address_without_an_endpoint_ends_the_run() -> None:
    with StubServer() as server:
        for path, words in (("/v2", "/v2/v1/chat/completions, nor without /v1"), ("/v2/v1", "")):
            with pytest.raises(RunAbortedError, match=f"nothing at http.*{words}") as caught:
                ask(endpoint(server.url.replace("/v1", path)))
            assert "(404)" in str(caught.value)


@pytest.mark.parametrize(
    "reply",
    [
        StubReply(status=429, body=error_body("Pay.", code="insufficient_quota")),
        StubReply(status=429, body=error_body("Pay.", kind="insufficient_quota")),
        StubReply(status=402, content="Pay."),
        StubReply(body=error_body("Pay.", code="insufficient_quota")),
    ],
)
def test_an_empty_account_ends_the_run(reply: StubReply, pauses: list[float]) -> None:
    with StubServer(flaky(["OK"], always(reply))) as server:
        target = endpoint(server.url)
        ask(target)
        with pytest.raises(RunAbortedError, match="Pay"):
            ask(target)
        assert len(server.requests) == 2
    assert pauses == []


def test_a_redirect_ends_the_run_and_says_where_to() -> None:
    moved = StubReply(status=308, headers={"Location": "https://else.test/v1"})
    with StubServer(always(moved)) as server:
        assert "elsewhere (308) to https://else.test/v1" in abortion(server)
        assert len(server.requests) == 1


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_nobody_there_ends_the_run_after_all_attempts(pauses: list[float]) -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    with pytest.raises(RunAbortedError, match=f"nothing listens at {url}"):
        ask(endpoint(url, retries=3))
    assert len(pauses) == 3
    with pytest.raises(RunAbortedError, match=f"nothing listens at {url}"):
        asyncio.run(endpoint(url).models())


def test_a_server_that_goes_away_later_fails_the_call() -> None:
    with StubServer(always("OK")) as server:
        target = endpoint(server.url, retries=1)
        ask(target)
    error = fail(target)
    assert (error.failure, error.attempts) == (Failure.UNAVAILABLE, 2)
    assert "nothing listens" in error.detail


def unknown_host(*args: Any, **options: Any) -> Any:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def cause(target_url: str, **options: Any) -> str:
    with pytest.raises((CallError, RunAbortedError)) as caught:
        ask(endpoint(target_url, retries=0, **options))
    return str(caught.value)


def test_seven_causes_have_seven_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = {
        "the key was refused (401)": ERRORS["bad_key_401"],
        "too many requests for the endpoint's limit (429)": ERRORS["rate_limit_429"],
        "an HTML page, instead of JSON": ERRORS["html_page"],
        "no valid JSON": ERRORS["invalid_json"],
        "no reply within 0.1 s": HANGS,
    }
    texts = {}
    for words, reply in replies.items():
        with StubServer(always(reply)) as server:
            texts[words] = cause(server.url, timeout=0.1 if reply.hang else 30.0)
    texts["connection refused"] = cause(f"http://127.0.0.1:{closed_port()}/v1")
    monkeypatch.setattr(socket, "getaddrinfo", unknown_host)
    headers = {"Authorization": "Bearer x"}
    texts["'nowhere.test' is unknown (DNS"] = cause("http://nowhere.test/v1", headers=headers)
    for words, text in texts.items():
        assert [said for said in texts if said in text] == [words], text


def test_a_failure_of_tls_is_told_apart() -> None:
    error = RuntimeError("Connection error.")
    error.__cause__ = ExceptionGroup("all", [OSError("x"), ssl.SSLError(1, "WRONG_VERSION")])
    fault = fault_of_exception(error, read_address("https://api.test/v1"))
    assert fault.cause.startswith("no secure connection to https://api.test/v1 (TLS: ")


def test_what_an_endpoint_says_is_told_short_and_on_one_line() -> None:
    with StubServer(always(StubReply(status=500, content="a\n\x1b[31m" + "b" * 5000))) as server:
        text = cause(server.url)
    assert text.isprintable()
    assert len(text) < 600
    assert "a [31mbbb" in text


def test_calls_do_not_queue_behind_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    no_pauses(monkeypatch)

    async def scene(target: Endpoint) -> list[Reply | BaseException]:
        calls = (target.send(HELLO) for _ in range(6))
        return await asyncio.gather(*calls, return_exceptions=True)

    with StubServer(lambda request: WRONG, latency=0.05) as server:
        results = asyncio.run(scene(endpoint(server.url, concurrency=8, retries=1)))
        assert all(isinstance(result, CallError) for result in results)
        assert server.max_in_flight == 5


def body_of(choice: dict[str, Any]) -> str:
    return json.dumps({"choices": [{"index": 0, **choice}]})


SAID = {"role": "assistant", "content": "1. Look left (5s)"}


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (body_of({"message": SAID, "error": {"message": "upstream left"}}), "upstream left"),
        (body_of({"message": SAID, "finish_reason": "error"}), "broke off"),
        ('{"choices": [{"message": {"content": "a", "content": "b"}}]}', "twice"),
        (json.dumps({"choices": [{"message": SAID}, {"message": SAID}]}), "2 choices"),
    ],
)
def test_a_reply_that_broke_off_or_is_ambiguous_is_no_answer(body: str, cause: str) -> None:
    fault = read_completion(body)
    assert isinstance(fault, Fault) and cause in fault.cause


@pytest.mark.parametrize("word", ["length", "max_tokens", "model_length"])
def test_a_cut_off_reply_has_many_names(word: str) -> None:
    completion = read_completion(body_of({"message": SAID, "finish_reason": word}))
    assert isinstance(completion, Completion) and completion.finish == "length"


def test_a_parameter_named_like_a_filter_is_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    no_pauses(monkeypatch)
    body = error_body("Unknown argument: content_filter_level", code="unknown_parameter")
    with StubServer([StubReply(status=400, body=body)]) as server:
        with pytest.raises(RunAbortedError, match="content_filter_level"):
            ask(endpoint(server.url))


@pytest.mark.parametrize("charset", ["hex", "utf-16", "undefined", "rot13"])
def test_json_is_utf_8_whatever_a_header_says(charset: str) -> None:
    headers = {"content-type": f"application/json; charset={charset}"}
    with StubServer(lambda request: StubReply("Café", headers=headers)) as server:
        assert ask(endpoint(server.url)).text == "Café"


def test_the_title_of_a_page_is_looked_for_near_its_beginning() -> None:
    assert "Bad Gateway" in page_title("<html><h1 class=x>Bad Gateway</h1>")
    assert page_title("<html>" + "<title>" * 40_000) == "an HTML page"
