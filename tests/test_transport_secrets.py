"""Canary keys in every place a key can be given: they reach the server and come out nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Coroutine
from typing import Any
from urllib.parse import quote

import pytest
from endpoint_kit import HELLO, Impatience, endpoint, no_pauses

from pave_policy.llm.secrets import MASK
from pave_policy.llm.transport import CallError, Endpoint, Reply
from pave_policy.testing import StubReply, StubRequest, StubServer
from voville_env.errors import RunAbortedError

KEY, HEADER, QUERY = "c4nary-key/1", "c4nary header+2", "c4nary&query=3"
CANARIES = ("c4nary", "YzRuYXJ5")  # as it is, and as Basic credentials begin
USER = "c4nary-user"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    no_pauses(monkeypatch)
    monkeypatch.setenv("CANARY_KEY", KEY)
    caplog.set_level(logging.DEBUG)


def echo(request: StubRequest) -> str:
    return json.dumps({"headers": dict(request.headers), "query": request.query})


def refuses(request: StubRequest) -> StubReply:
    return StubReply(status=401, content=f"bad: {echo(request)}")


def breaks(request: StubRequest) -> StubReply:
    return StubReply(status=500, body=echo(request), headers={"X-Echo": str(request.headers)})


def shows_page(request: StubRequest) -> StubReply:
    return StubReply(status=502, body=f"<html><title>{echo(request)}</title></html>")


def fails_inside(request: StubRequest) -> StubReply:
    """With a secret where the message is cut off: 37 characters stand before it, 500 are shown."""
    said = "x" * (500 - 37 - 8) + request.headers["x-canary"]
    return StubReply(body=json.dumps({"error": {"message": said}}))


def sends_away(request: StubRequest) -> StubReply:
    return StubReply(status=302, headers={"Location": f"http://h/?{request.query}"})


def rejects(request: StubRequest) -> StubReply:
    return StubReply(status=422, content=echo(request))


def filters(request: StubRequest) -> StubReply:
    return StubReply(status=400, content=f"content_filter {echo(request)}")


def hangs(request: StubRequest) -> StubReply:
    return StubReply(hang=True)


def answers(request: StubRequest) -> StubReply:
    said = echo(request)
    return StubReply(said, finish_reason=said, message={"refusal": said, "reasoning": said})


def with_canaries(url: str, *, user: bool) -> Endpoint:
    query = f"?k={quote(QUERY)}&{quote('k 2')}={quote(QUERY, safe='')}"
    address = url.replace("//", f"//{USER}:{quote(KEY, safe='')}@") if user else url
    headers = {"X-Canary": HEADER, "X-Token": f"Token {KEY}"}
    return endpoint(address + query, headers=headers, api_key_env="CANARY_KEY", retries=1)


def everything_said(target: Endpoint, call: Coroutine[Any, Any, Reply]) -> list[str]:
    """All that comes out of a call: values, errors with all that hangs on them, traces."""
    said: list[str] = []
    try:
        reply = asyncio.run(call)
        assert isinstance(reply, Reply)
        said += [repr(reply), str(reply)]
    except (CallError, RunAbortedError) as error:
        said += [repr(error), str(error), str(vars(error)), *traceback.format_exception(error)]
        assert error.__context__ is None
    try:
        said.append(str(asyncio.run(target.models())))
    except (CallError, RunAbortedError) as error:
        said += [repr(error), str(error), *traceback.format_exception(error)]
    return [*said, repr(target), repr(target.settings), repr(target.secrets), str(target.notes)]


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        *(refuses, breaks, shows_page, fails_inside, sends_away, rejects, filters, hangs),
        answers,
    ],
)
def test_canaries_come_out_nowhere(
    answer: Any, user: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StubServer(answer) as server:
        target = with_canaries(server.url, user=user)
        call = target.send(HELLO)
        if answer is hangs:
            call.close()
            call = Impatience(monkeypatch).send(target, server, 2)
        said = everything_said(target, call)
        request = server.requests[0]
    expected = "Basic YzRuYXJ5" if user else f"Bearer {KEY}"
    assert request.headers["authorization"].startswith(expected)
    assert request.headers["x-canary"] == HEADER
    assert quote(QUERY, safe="") in request.query
    logged = [caplog.text, *(str(vars(record)) for record in caplog.records)]
    assert f"?k={MASK}&k+2={MASK}" in caplog.text
    for text in (*said, *logged):
        assert not any(canary in text for canary in CANARIES), text


def test_canaries_stay_in_where_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    with StubServer() as server:
        url = server.url
    target = with_canaries(url, user=True)
    said = everything_said(target, target.send(HELLO))
    assert any("connection refused" in text for text in said)
    for text in (*said, caplog.text):
        assert not any(canary in text for canary in CANARIES), text


def test_logged_exceptions_show_no_canary(caplog: pytest.LogCaptureFixture) -> None:
    target = with_canaries("http://127.0.0.1:9/v1", user=False)
    try:
        raise ValueError(f"at ?k={quote(QUERY, safe='')}")
    except ValueError:
        logging.getLogger("httpx").exception("failed with %s", KEY)
    del target
    assert f"failed with {MASK}" in caplog.text
    assert f"ValueError: at ?k={MASK}" in caplog.text
    assert "c4nary" not in caplog.text
