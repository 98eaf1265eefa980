"""Exchanges with an endpoint that answers: what is sent, what is read, how many at once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from endpoint_kit import HELLO, ask, endpoint, fail, no_pauses

from pave_policy.llm.complaint import read_complaint
from pave_policy.llm.dialect import Dialect
from pave_policy.llm.settings import ChatSettings, chat_settings
from pave_policy.llm.transport import ChatRequest, Endpoint
from pave_policy.outcome import Failure
from pave_policy.testing import (
    StubReply,
    StubRequest,
    StubServer,
    always,
    error_body,
    refuses_parameter,
    requires_key,
)
from voville_env.errors import RunAbortedError

JSON_ANSWER = ChatRequest("Answer in JSON", 7, json_answer=True)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_pauses(monkeypatch)


def completion(message: object, **more: Any) -> StubReply:
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return StubReply(body=json.dumps({"choices": choices} | more))


def test_a_reply_holds_everything() -> None:
    reply = StubReply("OK", "length", 12, 34, message={"refusal": "no", "reasoning": "hm"})
    with StubServer([reply]) as server:
        got = ask(endpoint(server.url))
        sent = server.requests[0].body
    assert (got.text, got.finish, got.refusal, got.reasoning) == ("OK", "length", "no", "hm")
    assert (got.prompt_tokens, got.completion_tokens, got.attempts) == (12, 34, 1)
    assert json.loads(got.raw)["usage"]["total_tokens"] == 46
    assert 0 < got.latency < 60
    assert got.sent == {"model": "stub", "max_tokens": 7, "temperature": 0.0}
    assert sent == {"messages": [{"role": "user", "content": "Hello"}], **got.sent}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (completion({"content": None}), None),
        (completion({}), None),
        (completion({"content": ""}), ""),
        (completion({"content": [{"type": "text", "text": "a"}, {"text": "b"}, 1]}), "ab"),
        (
            completion({"content": "half \ud83d, whole \U0001f600, \x00"}),
            "half \ufffd, whole 😀, \x00",
        ),
        (completion({"content": "a"}, usage=None, error=None), "a"),
        (completion({"content": "a"}, usage={"prompt_tokens": "many"}), "a"),
        (completion({"content": "a"}, usage=[]), "a"),
        (StubReply(body='{"choices": [{"message": {"content": "a"}}], "x": NaN}'), "a"),
    ],
)
def test_odd_replies_are_read(reply: StubReply, text: str | None) -> None:
    with StubServer([reply]) as server:
        got = ask(endpoint(server.url))
    assert (got.text, got.prompt_tokens, got.completion_tokens) == (text, None, None)


def test_reasoning_has_two_names() -> None:
    for name in ("reasoning_content", "reasoning"):
        with StubServer([completion({"content": None, name: "hm"})]) as server:
            assert ask(endpoint(server.url)).reasoning == "hm"


def test_options_reach_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_KEY", "odd-env-key")
    file = tmp_path / "key"
    file.write_text("odd-file-key\n", encoding="utf-8")
    options: dict[str, Any] = {
        **{"model": "odd/model:7b", "temperature": 0.37, "top_p": 0.71, "seed": -12345},
        **{"json_mode": True, "extra_body": {"top_k": 41, "nested": {"a": [1, None]}}},
        **{"headers": {"X-Odd": "odd value"}, "api_key_env": "ODD_KEY"},
    }
    with StubServer(always("{}")) as server:
        got = ask(endpoint(f"{server.url}?odd=query%20value", **options), JSON_ANSWER)
        ask(endpoint(server.url, **options, api_key_file=str(file)), HELLO)
        ask(endpoint(server.url, temperature=0.0))
        first, second, third = server.requests
    parameters = {
        **{"model": "odd/model:7b", "max_tokens": 7, "temperature": 0.37, "top_p": 0.71},
        **{"seed": -12345, "top_k": 41, "nested": {"a": [1, None]}},
        **{"response_format": {"type": "json_object"}},
    }
    assert got.sent == parameters
    assert first.body == {"messages": [{"role": "user", "content": "Answer in JSON"}], **parameters}
    assert first.headers["x-odd"] == "odd value"
    assert parse_qs(first.query) == {"odd": ["query value"]}
    assert first.headers["authorization"] == "Bearer odd-env-key"
    assert "response_format" not in second.body
    assert second.headers["authorization"] == "Bearer odd-file-key"
    assert third.headers["authorization"] == "Bearer none"


def test_no_temperature_leaves_it_to_the_endpoint() -> None:
    settings = ChatSettings(base_url="http://127.0.0.1", model="m", temperature=None)
    assert "temperature" not in Dialect(settings, []).parameters(7, json_answer=False)


def test_credentials_of_the_url_and_other_key_headers_are_sent() -> None:
    with StubServer(always("OK")) as server:
        ask(endpoint(server.url.replace("//", "//us%40er:pw@")))
        ask(endpoint(server.url, headers={"api-key": "azure"}))
        ask(endpoint(server.url, headers={"AUTHORIZATION": "Custom x"}))
        basic, other, custom = (request.headers for request in server.requests)
    assert basic["authorization"] == "Basic dXNAZXI6cHc="
    assert other["api-key"] == "azure"
    assert "authorization" not in other
    assert custom["authorization"] == "Custom x"


def test_what_the_environment_says_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "ambient")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with StubServer(always("OK")) as server:
        ask(endpoint(server.url))
        assert "ambient" not in str(server.requests[0].headers)


def test_what_decides_an_answer_is_told_for_the_cache() -> None:
    settings = chat_settings(
        base_url="http://127.0.0.1:9/x?key=secret", model="m", json_mode=True, seed=3
    )
    assert JSON_ANSWER.logical(settings) == {
        **{"service": "loopback", "model": "m", "temperature": 0.0, "top_p": None, "seed": 3},
        **{"extra_body": {}, "max_tokens": 7, "json_mode": True},
        "messages": [{"role": "user", "content": "Answer in JSON"}],
    }
    assert HELLO.logical(settings)["json_mode"] is False


@pytest.mark.parametrize("ending", ["/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/"])
def test_base_urls_work_in_every_spelling(ending: str) -> None:
    with StubServer(always("OK")) as server:
        target = endpoint(server.url.removesuffix("/v1") + ending)
        assert ask(target).attempts == 1
    assert target.notes == []


@pytest.mark.parametrize("ending", ["", "/", "/chat/completions"])
def test_a_missing_v1_is_found_out_once(ending: str) -> None:
    with StubServer(always("OK")) as server:
        target = endpoint(server.url.removesuffix("/v1") + ending)
        assert [ask(target).attempts, ask(target).attempts] == [2, 1]
    assert target.notes == [f"nothing is found without /v1: {server.url} is used"]


def test_models_are_listed() -> None:
    with StubServer(models=("a", "b/c")) as server:
        assert asyncio.run(endpoint(server.url.removesuffix("/v1")).models()) == ["a", "b/c"]
        assert server.requests == []


def test_models_that_are_not_told_fail_the_call_only() -> None:
    with StubServer() as server:
        target = endpoint(f"{server.url}/nothing/v1")
        with pytest.raises(Exception, match="404") as caught:
            asyncio.run(target.models())
    assert getattr(caught.value, "failure", None) is Failure.REJECTED


@pytest.mark.parametrize("name", ["temperature", "top_p", "seed", "response_format"])
def test_a_refused_parameter_is_left_out_from_then_on(name: str) -> None:
    with StubServer(refuses_parameter(name)) as server:
        target = endpoint(server.url, top_p=0.5, seed=1, json_mode=True)
        first, second = ask(target, JSON_ANSWER), ask(target, JSON_ANSWER)
        bodies = [request.body for request in server.requests]
    assert (first.attempts, second.attempts) == (2, 1)
    assert [name in body for body in bodies] == [True, False, False]
    assert name not in first.sent
    assert target.notes == [f"{name} is refused here: it is left out"]


def test_the_other_spelling_of_the_length_is_sent() -> None:
    with StubServer(refuses_parameter("max_tokens")) as server:
        target = endpoint(server.url)
        assert ask(target).sent["max_completion_tokens"] == 7
        assert ask(target).attempts == 1
        assert len(server.requests) == 3
    assert target.notes == ["max_tokens is refused here: max_completion_tokens is sent"]


def test_several_refusals_are_met_one_after_another() -> None:
    answer = refuses_parameter("max_tokens", refuses_parameter("temperature", always("OK")))
    with StubServer(answer) as server:
        target = endpoint(server.url)
        assert ask(target).sent == {"model": "stub", "max_completion_tokens": 7}
    assert len(target.notes) == 2


def test_an_endpoint_that_takes_neither_spelling_is_asked_once_each() -> None:
    answer = refuses_parameter("max_tokens", refuses_parameter("max_completion_tokens"))
    with StubServer(answer) as server:
        with pytest.raises(RunAbortedError, match="max_completion_tokens"):
            ask(endpoint(server.url))
        assert len(server.requests) == 2


def test_a_late_refusal_is_met_by_all_calls_in_flight() -> None:
    async def all_at_once() -> list[int]:
        target = endpoint(server.url, json_mode=True)
        await target.send(HELLO)
        replies = await asyncio.gather(*(target.send(JSON_ANSWER) for _ in range(6)))
        assert target.notes == ["response_format is refused here: it is left out"]
        return [reply.attempts for reply in replies]

    with StubServer(refuses_parameter("response_format"), latency=0.05) as server:
        attempts = asyncio.run(all_at_once())
    assert max(attempts) == 2


FASTAPI = {"detail": [{"loc": ["body", "top_k"], "msg": "Extra inputs are not permitted"}]}
VALIDATION = {"detail": [{"loc": ["body", "messages"], "msg": "bad", "input": {"seed": 1}}]}


@pytest.mark.parametrize(
    ("body", "left_out"),
    [
        (error_body("Unsupported value: 'temperature' does not support 0."), "temperature"),
        (error_body("Unrecognized request argument supplied: seed"), "seed"),
        (json.dumps(FASTAPI), "top_k"),
        (json.dumps({"object": "error", "message": "{'loc': ('body', 'top_k')}"}), "top_k"),
        (json.dumps([{"error": {"message": "Unknown name top_k"}}]), "top_k"),
        ("top_p is not for this model", "top_p"),
        (error_body("The seeds of temperatures are unkind."), None),
        (error_body("temperature and seed are fine", param="messages"), None),
        (json.dumps(VALIDATION), None),
    ],
)
def test_what_a_refusal_is_about(body: str, left_out: str | None) -> None:
    settings = chat_settings(
        base_url="http://127.0.0.1", model="m", top_p=0.5, seed=1, extra_body={"top_k": 2}
    )
    dialect = Dialect(settings, [])
    sent = dialect.parameters(7, json_answer=False)
    assert dialect.adapt(sent, read_complaint(body)) is (left_out is not None)
    missing = set(sent) - set(dialect.parameters(7, json_answer=False))
    assert missing == ({left_out} if left_out else set())


def test_a_reply_too_long_for_the_model_is_no_matter_of_spelling() -> None:
    dialect = Dialect(chat_settings(base_url="http://127.0.0.1", model="m"), [])
    sent = dialect.parameters(7, json_answer=False)
    for said in (
        "max_tokens is too large: 7",
        "This model's maximum context length is 5 tokens; you asked for 7 (max_tokens)",
    ):
        assert not dialect.adapt(sent, read_complaint(error_body(said, param="max_tokens")))
    assert dialect.parameters(7, json_answer=False) == sent


def test_the_first_request_goes_ahead_alone() -> None:
    async def together() -> list[object]:
        target = endpoint(server.url, concurrency=16)
        calls = (target.send(HELLO) for _ in range(16))
        return list(await asyncio.gather(*calls, return_exceptions=True))

    with StubServer(requires_key("right")) as server:
        results = asyncio.run(together())
        assert len(server.requests) == 1
    assert all(isinstance(result, RunAbortedError) for result in results)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


def test_concurrency_is_reached_and_never_exceeded_and_cancelling_frees_it() -> None:
    def answer(request: StubRequest) -> StubReply:
        return StubReply("OK", hang=1 <= request.number <= 5)

    async def crowd() -> None:
        target = endpoint(server.url, concurrency=5)
        await target.send(HELLO)
        calls = [asyncio.create_task(target.send(HELLO)) for _ in range(20)]
        await until(lambda: server.in_flight == 5)
        assert (target.in_flight, target.waiting) == (5, 15)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert (target.in_flight, target.waiting) == (0, 0)
        await asyncio.gather(*(target.send(HELLO) for _ in range(40)))

    with StubServer(answer, latency=0.002) as server:
        asyncio.run(crowd())
        assert server.max_in_flight == 5
        assert len(server.requests) == 46


def test_one_endpoint_serves_many_loops() -> None:
    async def twice() -> None:
        await asyncio.gather(target.send(HELLO), target.send(HELLO))

    async def from_inside() -> None:
        await twice()
        thread = threading.Thread(target=lambda: asyncio.run(twice()))
        thread.start()
        await asyncio.to_thread(thread.join)
        await target.aclose()
        await target.aclose()
        await twice()

    with StubServer(always("OK"), latency=0.01) as server:
        target = endpoint(server.url, concurrency=1)
        asyncio.run(twice())
        asyncio.run(from_inside())
        asyncio.run(twice())
        assert len(server.requests) == 10
    assert (target.in_flight, target.waiting) == (0, 0)


def test_what_is_spent_is_counted_and_limited() -> None:
    replies = [
        StubReply("a", prompt_tokens=100, completion_tokens=10),
        StubReply("b", prompt_tokens=None),
        StubReply(status=500),
        StubReply(body=json.dumps({"choices": [], "usage": {"prompt_tokens": 7}})),
        StubReply("c", prompt_tokens=1, completion_tokens=2),
    ]
    with StubServer(replies) as server:
        target = endpoint(server.url, max_calls=5, price_in=1.0, price_out=10.0)
        ask(target)
        assert (target.budget.calls, target.budget.tokens) == (1, 110)
        assert target.budget.cost == pytest.approx(target.cost_of(100, 10)) == pytest.approx(2e-4)
        ask(target)  # without usage: 5 // 3 + 7 tokens
        assert (target.budget.calls, target.budget.tokens) == (2, 118)
        third = ask(target)
        assert (third.attempts, third.prompt_tokens, third.completion_tokens) == (3, 8, 2)
        assert (target.budget.calls, target.budget.tokens) == (5, 118 + 14 + 3)
        over = fail(target)
        assert (over.failure, over.attempts) == (Failure.OVER_BUDGET, 0)
        assert "max_calls is 5" in str(over)
        assert len(server.requests) == 5


def test_attempts_stop_at_the_limit_too() -> None:
    with StubServer(always(StubReply(status=500))) as server:
        over = fail(endpoint(server.url, max_calls=2))
        assert (over.failure, over.attempts, len(server.requests)) == (Failure.OVER_BUDGET, 2, 2)


def test_what_was_spent_before_counts() -> None:
    with StubServer() as server:
        settings = chat_settings(base_url=server.url, model="m", max_tokens_total=100)
        assert fail(Endpoint(settings, (1, 95, 0.0))).failure is Failure.OVER_BUDGET
        assert ask(Endpoint(settings, (1, 92, 0.0))).text == "OK"


def test_the_right_key_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sesame")
    with StubServer(requires_key("sesame", always("in"))) as server:
        assert ask(endpoint(server.url, api_key_env="SOME_KEY")).text == "in"
