"""The estimate of a benchmark: what is rehearsed, what is measured, and what both come to."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from pave_policy.backbone import LegitimacyRequest, PerceptionRequest, run_now
from pave_policy.commands.probe_run import rehearse, run_probe
from pave_policy.llm.chat import Chat, make_chat
from pave_policy.llm.estimate import Rate, Rates, Rehearsal, Spoken, Tally, estimate
from pave_policy.llm.findings import rates_of, speed_of
from pave_policy.llm.operations import GENERATIVE_OPERATIONS
from pave_policy.llm.probing import MOST_SAMPLES, Support, Trial, Tried, samples_for
from pave_policy.llm.prompts import OPERATIONS
from pave_policy.llm.sample_requests import closed_gate_request, sample_requests
from pave_policy.llm.store import Exchange
from pave_policy.records import GateMode
from pave_policy.site import Site
from pave_policy.testing import Answerer, StubReply, StubRequest, StubServer, canned
from voville_env.benchmarks.episodes import Job, player_of
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import Suite, make_policy, plan

ALL_OPERATIONS = {"perception": "llm", "elicit_threshold": True, "peer_text": True}
Start = Callable[[Answerer], StubServer]


@pytest.fixture
def stub() -> Iterator[Start]:
    servers = []

    def start(answer: Answerer) -> StubServer:
        servers.append(StubServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def counting(answers: dict[str, str]) -> Answerer:
    """Answers known prompts, and counts tokens in a way of its own for each operation."""

    def answer(request: StubRequest) -> StubReply:
        content = answers.get(request.prompt)
        if content is None:
            content = str(canned(request).content)
        received = 7 * (1 + OPERATIONS.index(str(request.operation)))
        sent = len(request.prompt) // 4
        return StubReply(content=content, prompt_tokens=sent, completion_tokens=received)

    return answer


def answers_in(suite: Suite, chat: Chat) -> dict[str, str]:
    """What the surrogate would write to each prompt of a suite."""
    heard: list[Spoken] = []
    rehearsal = Rehearsal(chat.options, heard.append)
    for key in suite.episodes():
        policy = make_policy(suite, key.policy, rehearsal)
        for _ in player_of(Job(key, "", suite), policy).records():
            pass
    rehearsal.caller.store.close()
    return {spoken.prompt: spoken.answer for spoken in heard}


@pytest.mark.parametrize(
    ("scenario", "policies", "options", "settings"),
    [
        ("fire_escape", ["pave"], ALL_OPERATIONS, {}),
        ("jaywalk", ["pave", "pave-no-gate"], {}, {"temperature": 0.7, "paper_inputs": True}),
    ],
)
def test_a_run_asks_just_what_was_rehearsed(
    tmp_path: Path,
    stub: Start,
    scenario: str,
    policies: list[str],
    options: dict[str, Any],
    settings: dict[str, Any],
) -> None:
    suite = plan([scenario], policies, quick=True, options=options)
    answers: dict[str, str] = {}
    server = stub(counting(answers))
    chat = make_chat(base_url=server.url, model="stub", concurrency=16, **settings)
    answers |= answers_in(suite, chat)
    tally = rehearse(suite, chat.options, Progress(disable=True))
    summary, _ = run_suite(suite, tmp_path / "run", backbone=chat)
    assert summary["episodes"]["scored"] == len(suite.episodes())
    assert {request.prompt for request in server.requests} == set(answers)
    assert server.counts() == dict(tally.distinct)
    assert sum(len(request.prompt) for request in server.requests) == tally.characters.total()
    assert tally.asked.total() > tally.distinct.total()


async def play(suite: Suite, chat: Chat) -> None:
    for key in suite.episodes():
        policy = make_policy(suite, key.policy, chat)
        async for _ in player_of(Job(key, "", suite), policy).records_async():
            pass
    await chat.aclose()


def test_the_generative_agent_is_rehearsed_as_well(stub: Start) -> None:
    suite = replace(plan(["fire_escape"], ["vanilla"], quick=True), scenarios=("fire_escape",))
    answers: dict[str, str] = {}
    server = stub(counting(answers))
    chat = make_chat(base_url=server.url, model="stub", concurrency=16)
    answers |= answers_in(suite, chat)
    tally = rehearse(suite, chat.options, Progress(disable=True))
    asyncio.run(play(suite, chat))
    assert {request.prompt for request in server.requests} == set(answers)
    assert server.counts() == dict(tally.distinct)
    assert set(tally.distinct) == set(GENERATIVE_OPERATIONS)


def test_the_estimate_is_what_a_run_comes_to(stub: Start, tmp_path: Path) -> None:
    suite = plan(["jaywalk"], ["pave", "lawful"], seeds=2, days=1)
    answers: dict[str, str] = {}
    server = stub(counting(answers))
    asked: dict[str, Any] = {
        "base_url": server.url,
        "model": "stub",
        "price_in": 100.0,
        "price_out": 300.0,
    }
    chat = make_chat(**asked)
    answers |= answers_in(replace(suite, policies=("pave",)), chat)
    found = run_probe(suite, None, asked, 2, Progress(disable=True))
    assert found.benchmark.suite.policies == ("pave",)
    run_suite(suite, tmp_path / "run", backbone=chat)
    spent = json.loads((tmp_path / "run" / "usage.json").read_text("utf-8"))["total"]
    come_to = found.benchmark.estimate
    assert come_to.total.calls == spent["calls"]
    assert come_to.total.completion_tokens == spent["completion_tokens"]
    assert come_to.total.prompt_tokens == pytest.approx(spent["prompt_tokens"], rel=0.005)
    assert come_to.cost == pytest.approx(spent["cost"], rel=0.005)
    assert come_to.seconds is not None and come_to.seconds > 0


def test_the_same_prompt_gets_the_same_answer() -> None:
    heard: list[Spoken] = []
    rehearsal = Rehearsal(make_chat(base_url="http://127.0.0.1:1", model="m").options, heard.append)
    request = sample_requests()[OPERATIONS.index("assess_legitimacy")]
    assert isinstance(request, LegitimacyRequest) and request.escape is not None
    quick = replace(request.escape, lawful_steps=9, lawful_wait_steps=1, shortest_steps=10)
    slow = replace(quick, lawful_wait_steps=19)
    assert quick.lawful_is_as_quick and not slow.lawful_is_as_quick
    said = [
        run_now(rehearsal.assess_legitimacy(replace(request, escape=escape))).value
        for escape in (quick, slow)
    ]
    assert said[0] == said[1] is not None
    assert heard[0] == heard[1]
    rehearsal.caller.store.close()


def test_a_rehearsal_perceives_what_a_model_would_write() -> None:
    rehearsal = Rehearsal(make_chat(base_url="http://127.0.0.1:1", model="m").options, print)
    request = sample_requests()[OPERATIONS.index("perceive_context")]
    assert isinstance(request, PerceptionRequest)
    for position in ((3, 4), (5, 6)):
        context = request.context.model_copy(update={"position": position})
        seen = run_now(rehearsal.perceive_context(replace(request, context=context))).value
        assert seen is not None and seen.position == position
        assert [peer.text for peer in seen.peer_behaviors] == [
            peer.text for peer in context.peer_behaviors
        ]
        assert [peer.rule for peer in seen.peer_behaviors] == [None, None]
    rehearsal.caller.store.close()


@pytest.mark.parametrize("paper_inputs", [False, True])
def test_sample_requests_are_distinct_prompts(paper_inputs: bool) -> None:
    chat = make_chat(base_url="http://127.0.0.1:1", model="m", paper_inputs=paper_inputs)
    requests = [
        request for number in range(MOST_SAMPLES + 2) for request in sample_requests(number)
    ]
    requests += [closed_gate_request(number) for number in range(MOST_SAMPLES)]
    prompts = [chat.prompt(request) for request in requests]
    assert [operation for operation, _ in prompts[: len(OPERATIONS)]] == list(OPERATIONS)
    assert len({text for _, text in prompts}) == len(prompts)
    chat.caller.store.close()


def test_the_gate_is_asked_about_below_the_threshold() -> None:
    request = closed_gate_request()
    assert request.assessment.legitimacy < request.threshold
    assert request.gate is GateMode.PROMPT


@pytest.mark.parametrize(
    ("samples", "concurrency", "times"),
    [(2, 8, 2), (1, 16, 1), (1, 17, 2), (2, 64, 4), (100, 1, 100)],
)
def test_enough_is_asked_to_be_side_by_side(samples: int, concurrency: int, times: int) -> None:
    assert samples_for(samples, concurrency) == times


def exchange(latency: float, *, prompt: int, sent: int | None, received: int | None) -> Exchange:
    request = {"messages": [{"role": "user", "content": "x" * prompt}]}
    return Exchange(
        "k",
        "0",
        "assess_risk",
        Site(),
        request,
        "valid",
        text="y" * 30,
        prompt_tokens=sent,
        completion_tokens=received,
        latency=latency,
    )


def trial(*exchanges: Exchange, seconds: float) -> Trial:
    tried = [
        Tried(name, "valid", (each,), None)
        for name in OPERATIONS
        for each in (exchanges if name == "assess_risk" else exchanges[:1])
    ]
    return Trial(tuple(tried), (), 4, seconds)


def test_speed_and_rates_follow_from_the_calls() -> None:
    calls = [exchange(float(n), prompt=400, sent=100, received=n) for n in range(1, 12)]
    found = trial(*calls, seconds=20.0)
    support = Support("max_tokens", True, True, True, False, 12.5, ())
    speed = speed_of(found, support)
    assert (speed.latency_median, speed.latency_p95) == (1.0, 10.0)
    assert speed.tokens_per_second == pytest.approx((66 + 14) / 20)
    assert speed.calls_per_second == pytest.approx(25 / 20)
    rates = rates_of(found)
    assert rates.tokens_per_character == 0.25
    assert rates.side_by_side == pytest.approx((66 + 14) / 20)
    risk = rates.operations["assess_risk"]
    assert (risk.calls, risk.completion_tokens, risk.seconds) == (1, 6, 6)
    guessed = rates_of(trial(exchange(1.0, prompt=400, sent=None, received=None), seconds=1.0))
    assert guessed.tokens_per_character == pytest.approx(1 / 3)
    assert guessed.operations["assess_risk"].completion_tokens == 10


def test_an_episode_takes_as_long_as_its_chain_of_questions() -> None:
    tally = Tally()
    for seed, tick, operation in (
        (0, 3, "assess_risk"),
        (0, 3, "assess_benefit"),
        (0, 3, "generate_verdict"),
        (0, 4, "assess_risk"),
        (1, 3, "assess_risk"),
    ):
        site = Site("jaywalk", "pave", seed, "CC", day=1, tick=tick)
        tally.note(Spoken(site, operation, f"{operation} {tick} {seed}", "0", "{}"))
        tally.note(Spoken(site, operation, f"{operation} {tick} {seed}", "0", "{}"))
    rates = {name: Rate(1.0, 10.0, 2.0) for name in OPERATIONS}
    rates["assess_benefit"] = Rate(3.0, 10.0, 5.0)
    settings = make_chat(base_url="http://127.0.0.1:1", model="m").options
    alone = estimate(tally, Rates(rates, 0.25, 1.0), settings)
    assert (alone.total.asked, alone.total.distinct, alone.seconds) == (10, 5, 13)
    together = estimate(tally, Rates(rates, 0.25, 100.0), settings, times=2)
    assert (together.total.calls, together.total.completion_tokens) == (2 * (4 + 3), 100)
    sizes = {need.operation: need.prompt_tokens for need in together.needs}
    assert sizes["assess_benefit"] == math.ceil(2 * 3 * len("assess_benefit 3 0") / 4)
    assert together.seconds == 5 + 2 + 5
    assert estimate(tally, Rates(rates, 0.25, 0.0), settings).seconds is None
