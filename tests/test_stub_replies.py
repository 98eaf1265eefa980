"""The stub's scripted replies: canned answers, their makers, faults, clients and the process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import openai
import pytest
from stub_client import DEADLINE_S, chat_body, content_of, post, prompts, request_of

from pave_policy.testing import (
    ERRORS,
    OPERATIONS,
    StubReply,
    StubServer,
    always,
    by_operation,
    canned,
    flaky,
    rate_limited,
    refuses_parameter,
    requires_key,
    values,
)
from voville_env.errors import InvalidValueError

KEYS = {
    "elicit_threshold": {"threshold", "reason"},
    "perceive_context": {
        *("authority_present", "authority_distance_tiles", "peer_behaviors"),
        *("situational_cues", "scene_summary"),
    },
    "assess_risk": {"risk", "reason"},
    "assess_empirical": {"p_emp", "n_observed", "n_complying"},
    "assess_normative": {"p_norm", "reason"},
    "assess_benefit": {"benefit", "reason"},
    "assess_legitimacy": {"legitimacy", "necessity", "proportionality", "alternatives"},
    "generate_verdict": {"decision", "justification", "confidence"},
    "propagate_outcome": {"observed_behavior", "observed_outcome", "rule_followed"},
    "rate_importance": {"importance"},
    "plan_day": {"plan"},
    "decompose_plan": {"parts"},
    "ask_focal_points": {"questions"},
    "draw_insights": {"insights"},
    "react": {"reaction", "reason"},
}


@pytest.mark.parametrize("operation", KEYS)
def test_canned_answers_have_the_keys_asked_for(operation: str) -> None:
    for case in range(30):
        prompt = f"{prompts()[operation]} {case}"
        answer = json.loads(str(canned(request_of(prompt, operation)).content))
        assert set(answer) == KEYS[operation]
        for key in ("threshold", "risk", "p_emp", "p_norm", "benefit", "legitimacy"):
            assert 1 <= answer.get(key, 1) <= 100
        assert 0 <= answer.get("n_complying", 0) <= answer.get("n_observed", 0)
        assert answer.get("decision", "comply") in ("comply", "violate")
        assert 0 <= answer.get("confidence", 0) <= 100
        assert len(answer.get("observed_behavior", "").split()) < 20
        assert (answer.get("authority_distance_tiles") == "inf") is (
            answer.get("authority_present") is False
        )
        for cue in answer.get("situational_cues", []):
            assert set(cue) == {"type", "distance_tiles", "severity"}
            assert 1 <= cue["severity"] <= 100


def test_canned_plans_end_where_the_prompt_says() -> None:
    day = 'OPERATION: PlanDay\n<day>\n{"number": 1, "ends at minute": 166}\n</day>'
    part = 'OPERATION: DecomposePlan\n<part>\n{"from": 30, "until": 42}\n</part>'
    plan = json.loads(str(canned(request_of(day, "plan_day")).content))["plan"]
    parts = json.loads(str(canned(request_of(part, "decompose_plan")).content))["parts"]
    assert (plan[-1]["until"], parts[-1]["until"]) == (166, 42)


def test_vectors_are_canned_for_each_text_by_itself() -> None:
    async def vectors(*texts: str) -> list[list[float]]:
        with StubServer() as server:
            client = openai.AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0)
            async with client:
                found = await client.embeddings.create(
                    model="m", input=list(texts), encoding_format="float"
                )
            assert server.counts() == {"embed": 1}
            assert server.requests[0].prompt == "\n".join(texts)
        assert [entry.index for entry in found.data] == list(range(len(texts)))
        return [entry.embedding for entry in found.data]

    first, second, third = asyncio.run(vectors("a", "b", "a"))
    assert first == third != second
    assert asyncio.run(vectors("b")) == [second]


def test_canned_actions_are_a_numbered_list() -> None:
    text = str(canned(request_of(prompts()["emulate_action"], "emulate_action")).content)
    lines = text.split("\n")
    assert [line.partition(". ")[0] for line in lines] == ["1", "2", "3"]
    assert {line[line.rindex("(") :] for line in lines} <= {"(5s).", "(10s).", "(15s)."}


def test_canned_answers_depend_on_the_prompt_and_on_nothing_else() -> None:
    first = request_of("OPERATION: AssessRisk\nA", "assess_risk")
    again = replace(first, number=9, headers={"x": "y"}, path="/elsewhere")
    assert canned(first) == canned(again)
    others = [request_of(f"OPERATION: AssessRisk\n{n}", "assess_risk") for n in range(40)]
    assert len({canned(other).content for other in others}) > 10
    assert canned(request_of("\ud800", "assess_risk")).content


def test_by_operation_answers_some_and_leaves_the_rest() -> None:
    asked = prompts()
    answerer = by_operation(
        {"assess_risk": "low", "assess_benefit": lambda request: request.prompt[-2:]},
        default=always("rest"),
    )
    names = ("assess_risk", "assess_benefit", "generate_verdict", None)
    answers = [answerer(request_of(asked.get(name or "", "hi"), name)) for name in names]
    assert answers == ["low", "7.", "rest", "rest"]
    with pytest.raises(InvalidValueError, match="did you mean 'assess_risk'"):
        by_operation({"asess_risk": "low"})


def test_flaky_settles_down() -> None:
    answerer = flaky([ERRORS["server_error_500"], "odd"], then=always("fine"))
    request = request_of("hi", None)
    answers = [answerer(request) for _ in range(4)]
    assert answers == [ERRORS["server_error_500"], "odd", "fine", "fine"]


def test_values_are_fixed_wherever_they_belong() -> None:
    answerer = values(legitimacy=95, decision="violate", n_observed=0)
    answers = {}
    for name, prompt in prompts().items():
        reply = answerer(request_of(prompt, name))
        assert isinstance(reply, StubReply)
        if name == "emulate_action":
            assert reply == canned(request_of(prompt, name))
        else:
            answers[name] = json.loads(str(reply.content))
            assert set(answers[name]) == KEYS[name]
    assert answers["assess_legitimacy"]["legitimacy"] == 95
    assert answers["generate_verdict"]["decision"] == "violate"
    assert answers["assess_empirical"]["n_observed"] == 0
    with pytest.raises(InvalidValueError, match="did you mean 'legitimacy'"):
        values(legitimcy=95)


@pytest.mark.parametrize(
    "name", ["max_tokens", "max_completion_tokens", "temperature", "response_format"]
)
def test_a_parameter_can_be_refused(name: str) -> None:
    with StubServer(refuses_parameter(name, then=always("fine"))) as server:
        status, answer = post(server.url, "hello", **{name: 1})
        assert (status, answer["error"]["param"]) == (400, name)
        assert name in answer["error"]["message"]
        assert content_of(post(server.url, "hello", stop="x")[1]) == "fine"


def test_an_unheard_of_parameter_cannot_be_refused() -> None:
    with pytest.raises(InvalidValueError, match="did you mean 'max_tokens'"):
        refuses_parameter("max_token")


def test_keys_and_rates_can_be_limited() -> None:
    keyed = requires_key("k", then=always("fine"))
    bare = request_of("hi", None)
    assert keyed(bare) == ERRORS["bad_key_401"]
    assert keyed(replace(bare, headers={"authorization": "Bearer kk"})) == ERRORS["bad_key_401"]
    assert keyed(replace(bare, headers={"authorization": "Bearer k"})) == "fine"
    limited = rate_limited(2, 0.5, then=always("fine"))
    for _ in range(2):
        reply = limited(bare)
        assert isinstance(reply, StubReply)
        assert (reply.status, reply.headers["Retry-After"]) == (429, "0.5")
    assert limited(bare) == "fine"


def test_the_openai_client_talks_to_it_from_a_running_loop() -> None:
    async def main() -> None:
        with StubServer(latency=0.02, models=["m"]) as server:
            client = openai.AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0)
            async with client:
                listed = await client.models.list()
                replies = await asyncio.gather(
                    *(
                        client.chat.completions.create(
                            model="m", messages=[{"role": "user", "content": prompt}]
                        )
                        for prompt in prompts().values()
                    )
                )
            assert [model.id for model in listed.data] == ["m"]
            for reply, request in zip(replies, prompts().items(), strict=True):
                expected = canned(request_of(request[1], request[0]))
                assert reply.choices[0].message.content == expected.content
                assert reply.usage is not None
                assert reply.usage.total_tokens == 15
            assert server.counts() == dict.fromkeys(OPERATIONS.values(), 1)

    asyncio.run(main())


async def error_of(reply: StubReply) -> openai.APIStatusError:
    with StubServer(always(reply)) as server:
        client = openai.AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0)
        async with client:
            with pytest.raises(openai.APIStatusError) as caught:
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "hi"}]
                )
    return caught.value


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("context_length_400", openai.BadRequestError, "context_length_exceeded"),
        ("unknown_model_404", openai.NotFoundError, "model_not_found"),
        ("bad_key_401", openai.AuthenticationError, "invalid_api_key"),
        ("forbidden_403", openai.PermissionDeniedError, None),
        ("rate_limit_429", openai.RateLimitError, "rate_limit_exceeded"),
        ("server_error_500", openai.InternalServerError, None),
        ("bad_gateway_502_html", openai.InternalServerError, None),
        ("overloaded_529", openai.InternalServerError, None),
    ],
)
def test_error_statuses_reach_the_openai_client(
    name: str, kind: type[openai.APIStatusError], code: str | None
) -> None:
    error = asyncio.run(error_of(ERRORS[name]))
    assert type(error) is kind
    assert error.code == code
    assert error.status_code == int(name.removesuffix("_html")[-3:])
    assert ("retry-after" in error.response.headers) is (name == "rate_limit_429")
    assert ("html" in error.response.headers["content-type"]) is name.endswith("html")


def test_faults_behind_a_good_status_are_what_they_are_called() -> None:
    names = [name for name, reply in ERRORS.items() if reply.status == 200]
    with StubServer([ERRORS[name] for name in names]) as server:
        bodies = {}
        for name in names:
            url = f"{server.url}/chat/completions"
            with urllib.request.urlopen(url, chat_body("hi"), timeout=DEADLINE_S) as reply:
                bodies[name] = reply.read().decode()
    assert bodies.pop("html_page").startswith("<html>")
    with pytest.raises(json.JSONDecodeError):
        json.loads(bodies.pop("invalid_json"))
    read = {name: json.loads(body) for name, body in bodies.items()}
    assert read["empty_choices"]["choices"] == []
    assert read["null_choices"]["choices"] is None
    assert set(read["error_in_200"]) == {"error"}
    assert "usage" not in read["no_usage"]
    choices = {name: answer["choices"][0] for name, answer in read.items() if answer.get("choices")}
    without = {name for name, choice in choices.items() if choice["message"]["content"] is None}
    assert without == {
        *("null_content", "null_content_length", "reasoning_content_only"),
        *("refusal", "content_filter"),
    }
    assert choices["refusal"]["message"]["refusal"]
    assert choices["reasoning_content_only"]["message"]["reasoning_content"]
    cut = {name for name, choice in choices.items() if choice["finish_reason"] == "length"}
    assert cut == {"null_content_length", "truncated_json"}
    assert choices["content_filter"]["finish_reason"] == "content_filter"


class Process:
    """`python -m pave_policy.testing`, ended by closing its standard input or by a kill."""

    def __init__(self, *options: str, hash_seed: str = "0") -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "pave_policy.testing", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
        )
        assert self._child.stdout is not None
        self.url = self._child.stdout.readline().strip()

    def end(self, *, kill: bool = False) -> int:
        if kill:
            self._child.kill()
        self._child.communicate(timeout=DEADLINE_S)
        return self._child.returncode


def test_processes_answer_alike_and_log_what_was_asked(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    answers = []
    for seed, kill in (("1", True), ("2", False)):
        process = Process("--log", str(log), "--model", "m", hash_seed=seed)
        try:
            answers.append([content_of(post(process.url, text)[1]) for text in prompts().values()])
            with urllib.request.urlopen(f"{process.url}/models", timeout=DEADLINE_S) as reply:
                assert json.load(reply)["data"][0]["id"] == "m"
        finally:
            code = process.end(kill=kill)
        assert code == (-9 if kill else 0)
    here = [canned(request_of(text, name)).content for name, text in prompts().items()]
    assert answers == [here, here]
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [line["operation"] for line in lines] == [*OPERATIONS.values()] * 2
    asked = len(OPERATIONS)
    assert [line["number"] for line in lines] == [*range(asked)] * 2
    assert [line["sha256"] for line in lines[:asked]] == [line["sha256"] for line in lines[asked:]]
    assert len({line["sha256"] for line in lines}) == asked
    sent = json.dumps([{"content": prompts()["assess_risk"], "role": "user"}])
    risk = [line for line in lines if line["operation"] == "assess_risk"]
    assert risk[0]["sha256"] == hashlib.sha256(sent.encode()).hexdigest()


def test_the_process_takes_a_latency() -> None:
    process = Process("--latency", "0.1")
    try:
        start = time.monotonic()
        assert post(process.url, "hello")[0] == 200
        assert time.monotonic() - start >= 0.099
    finally:
        process.end()


def test_the_process_takes_a_port_or_fails() -> None:
    with StubServer() as server:
        process = Process("--port", str(server.port))
        assert process.end() == 1
    assert process.url == ""
