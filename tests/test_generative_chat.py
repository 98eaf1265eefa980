"""The generative agent's operations on a chat backbone: asked, read, refused and counted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from chat_kit import REQUESTS, ask, block, chat, desk, of_type
from endpoint_kit import no_pauses

from pave_policy.generative.policy import VanillaPolicy
from pave_policy.generative.requests import (
    DayPlanRequest,
    DecompositionRequest,
    Insight,
    InsightRequest,
    PlanEntry,
    Reaction,
    ReactionRequest,
    Response,
)
from pave_policy.llm.chat import FALLBACKS, Chat
from pave_policy.llm.operations import GENERATIVE_OPERATIONS
from pave_policy.llm.prompts import load_templates
from pave_policy.outcome import Failure, Outcome
from pave_policy.testing import (
    ERRORS,
    Answerer,
    StubReply,
    StubRequest,
    StubServer,
    always,
    by_operation,
    values,
)
from voville_env.errors import CallFailedError
from voville_env.events import Event
from voville_env.parallel import VovilleEnv
from voville_env.scenario.briefing import make_briefing

PLAN = [{"activity": "Sit at the café", "until": 90}, {"activity": "Walk home", "until": 160}]
SAID: dict[str, tuple[dict[str, Any], Any]] = {
    "rate_importance": ({"importance": 4}, 4),
    "plan_day": (
        {"plan": PLAN},
        (PlanEntry("Sit at the café", 0, 90), PlanEntry("Walk home", 90, 70)),
    ),
    "decompose_plan": (
        {"parts": [{"activity": "Pay", "until": 95}, {"activity": "Walk", "until": 120}]},
        (PlanEntry("Pay", 90, 5), PlanEntry("Walk", 95, 25)),
    ),
    "ask_focal_points": (
        {"questions": ["Who waits?", "Who runs?", "Why?"]},
        ("Who waits?", "Who runs?", "Why?"),
    ),
    "draw_insights": (
        {"insights": [{"insight": "People hurry.", "evidence": [4, 1]}]},
        (Insight("People hurry.", (3, 0)),),
    ),
    "react": (
        {"reaction": "follow", "reason": "All cross."},
        Reaction(Response.FOLLOW, "All cross."),
    ),
}
"""What a model says to the sample requests, and what is read out of it."""
BESIDE_THE_POINT: dict[str, dict[str, Any]] = {
    "rate_importance": {"importance": 0},
    "plan_day": {"plan": PLAN[:1]},
    "decompose_plan": {"parts": PLAN},
    "ask_focal_points": {"questions": ["Who waits?"]},
    "draw_insights": {"insights": [{"insight": "People hurry.", "evidence": [5]}]},
    "react": {"reaction": "shout", "reason": "All cross."},
}
"""Good JSON that does not answer the sample requests."""
every_operation = pytest.mark.parametrize("operation", GENERATIVE_OPERATIONS)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_pauses(monkeypatch)


def play(
    operation: str, answer: Answerer
) -> tuple[Outcome[Any], dict[str, Any], list[StubRequest]]:
    """Asks the sample request once; gives outcome, log entry and what was sent."""

    async def once(url: str) -> tuple[Outcome[Any], dict[str, Any]]:
        here = desk(chat(url, retries=0))
        outcome = await ask(here, operation)
        ((call,),) = (record["calls"] for record in here.take_records())
        await here.aclose()
        return outcome, call

    with StubServer(answer) as server:
        outcome, call = asyncio.run(once(server.url))
        return outcome, call, list(server.requests)


@every_operation
def test_an_answer_is_read(operation: str) -> None:
    said, expected = SAID[operation]
    outcome, call, sent = play(operation, lambda request: json.dumps(said))
    assert outcome == Outcome(expected)
    assert type(outcome.value) is type(expected)
    assert (call["operation"], call["outcome"], len(call["keys"])) == (operation, "valid", 1)
    assert "fallback" not in call
    (request,) = sent
    template = load_templates()[operation]
    assert (request.operation, request.body["max_tokens"]) == (operation, template.max_tokens)


@every_operation
@pytest.mark.parametrize("kind", ["prose", "beside the point"])
def test_a_reminder_follows_what_cannot_be_used(operation: str, kind: str) -> None:
    first = "Hard to say." if kind == "prose" else json.dumps(BESIDE_THE_POINT[operation])
    reminder = load_templates()[operation].reminder

    def answer(request: StubRequest) -> str:
        return json.dumps(SAID[operation][0]) if request.prompt.endswith(reminder) else first

    outcome, call, sent = play(operation, answer)
    assert outcome == Outcome(SAID[operation][1])
    assert (call["outcome"], len(call["keys"])) == ("valid", 2)
    assert sent[1].prompt == f"{sent[0].prompt}\n\n{reminder}"


@every_operation
def test_what_is_never_usable_is_malformed_and_names_what_stands_in(operation: str) -> None:
    outcome, call, sent = play(operation, lambda _: json.dumps(BESIDE_THE_POINT[operation]))
    assert (outcome.value, outcome.failure) == (None, Failure.MALFORMED)
    assert outcome.conduct(operation) is outcome
    assert "allowed: " in outcome.detail == call["detail"]
    assert (call["outcome"], call["fallback"]) == ("malformed", FALLBACKS[operation])
    assert len(sent) == 2


@every_operation
def test_a_cut_off_answer_gets_twice_the_room_once(operation: str) -> None:
    outcome, call, sent = play(operation, lambda _: StubReply("{", "length"))
    assert (outcome.failure, call["outcome"]) == (Failure.TRUNCATED, "truncated")
    limit = load_templates()[operation].max_tokens
    assert [request.body["max_tokens"] for request in sent] == [limit, 2 * limit]


@every_operation
@pytest.mark.parametrize("name", ["refusal", "content_filter"])
def test_what_a_model_declines_is_conduct_and_not_asked_again(operation: str, name: str) -> None:
    outcome, call, sent = play(operation, lambda _: ERRORS[name])
    assert outcome.failure is (Failure.REFUSED if name == "refusal" else Failure.FILTERED)
    assert (call["fallback"], len(sent)) == (FALLBACKS[operation], 1)


@every_operation
def test_a_failed_call_fails_the_episode(operation: str) -> None:
    def answer(request: StubRequest) -> StubReply:
        return ERRORS["server_error_500"]

    outcome, _, _ = play(operation, answer)
    with pytest.raises(CallFailedError, match=f"{operation}: unavailable"):
        outcome.conduct(operation)


def prompt_of(operation: str, **changes: Any) -> str:
    request: Any = REQUESTS[operation]
    backbone = chat("http://127.0.0.1:1", offline=True)
    try:
        return backbone.prompt(replace(request, **changes))[1]
    finally:
        backbone.caller.store.close()


def test_the_prompt_says_what_the_answer_is_held_against() -> None:
    day, part, insights, react = (
        REQUESTS[name] for name in ("plan_day", "decompose_plan", "draw_insights", "react")
    )
    assert isinstance(day, DayPlanRequest) and isinstance(part, DecompositionRequest)
    assert isinstance(insights, InsightRequest) and isinstance(react, ReactionRequest)
    assert block(prompt_of("plan_day"), "day") == {"number": 2, "ends at minute": day.minutes}
    shown = block(prompt_of("decompose_plan"), "part")
    assert (shown["from"], shown["until"]) == (90, 120)
    numbered = block(prompt_of("draw_insights"), "statements")
    assert [entry["number"] for entry in numbered] == [1, 2, 3, 4]
    assert [entry["statement"] for entry in numbered] == list(insights.statements)
    assert list(block(prompt_of("react"), "reactions")) == ["continue", "wait", "flee", "follow"]
    without = block(prompt_of("react", can_follow=False), "reactions")
    assert list(without) == ["continue", "wait", "flee"]


def test_follow_counts_only_where_it_was_on_offer() -> None:
    request = REQUESTS["react"]
    assert isinstance(request, ReactionRequest)
    said = json.dumps({"reaction": "follow", "reason": "All cross."})

    async def ask_both(url: str) -> list[Failure | None]:
        here = desk(chat(url))
        found = [
            (await here.react(replace(request, can_follow=can_follow))).failure
            for can_follow in (True, False)
        ]
        await here.aclose()
        return found

    with StubServer(lambda _: said) as server:
        assert asyncio.run(ask_both(server.url)) == [None, Failure.MALFORMED]


def test_statements_beyond_what_is_shown_are_no_evidence() -> None:
    request = REQUESTS["draw_insights"]
    assert isinstance(request, InsightRequest)
    many = replace(request, statements=tuple(f"Note {number}" for number in range(1, 41)))

    async def cite(url: str) -> Outcome[tuple[Insight, ...]]:
        here = desk(chat(url))
        outcome = await here.draw_insights(many)
        await here.aclose()
        return outcome

    for number, works in ((30, True), (31, False)):
        said = json.dumps({"insights": [{"insight": "So it is.", "evidence": [number]}]})
        with StubServer(always(said)) as server:
            assert (asyncio.run(cite(server.url)).value is not None) is works


def test_a_day_is_told_in_minutes_and_only_its_own_appointments() -> None:
    prompt = prompt_of("plan_day")
    assert block(prompt, "schedule") == ["from minute 90: home"]
    assert "tick" not in prompt
    assert block(prompt_of("plan_day", day=1), "schedule") == ["from minute 0: the cafe seat"]
    assert block(prompt_of("plan_day", day=3), "schedule") == []
    assert "memories" not in prompt_of("plan_day", memories=())


@every_operation
def test_the_threshold_and_the_rules_of_a_person_are_in_no_prompt(operation: str) -> None:
    prompt = prompt_of(operation)
    assert "60" not in prompt.replace("160", "").replace("RateImportance", "")
    assert "crosswalks" not in prompt and "red light" not in prompt


def ticks(backbone: Chat, until: int, scenario: str = "jaywalk", since: int = 30) -> list[Event]:
    """A few ticks of the generative agent in town; gives its records."""
    env = VovilleEnv(scenario, window=(1, since, until))
    policy = VanillaPolicy(backbone)
    policy.reset(make_briefing(env.world, 0))
    observations, infos = env.reset(seed=0)
    records: list[Event] = []
    try:
        while env.agents:
            observations, *_, infos = env.step(policy.act(observations, infos))
            records += policy.records()
    finally:
        backbone.close()
    return records


def test_the_agent_plays_on_a_model() -> None:
    with StubServer() as server:
        records = ticks(chat(server.url), 33)
        asked = server.counts()
    logged = [call for record in of_type(records, "llm_call") for call in record["calls"]]
    assert {"rate_importance", "plan_day", "decompose_plan"} <= set(asked) <= {*SAID}
    assert {call["operation"] for call in logged} == set(asked)
    assert {call["outcome"] for call in logged} == {"valid"}
    assert {record["fallback"] for record in of_type(records, "importance")} <= {None}


def test_no_prompt_of_a_run_knows_of_rules_legitimacy_or_thresholds() -> None:
    prompts = []
    for scenario, since in (("jaywalk", 30), ("fire_escape_officers", 48)):
        with StubServer() as server:
            ticks(chat(server.url), since + 12, scenario, since)
            prompts += [request.prompt for request in server.requests]
    texts = [re.sub(r"<person>\n.*\n</person>", "", prompt) for prompt in prompts]
    assert len(texts) > 100 and all("<person>" not in text for text in texts)
    assert any("Somebody nearby is waiting." in text for text in texts)
    assert any("An officer tells people to" in text for text in texts)
    for text in texts:
        assert not re.search(r"\brules?\b|legitim|threshold", text, re.IGNORECASE), text


@pytest.mark.parametrize("reply", ["no idea", StubReply("{", "length"), ERRORS["refusal"]])
def test_the_agent_plays_on_whatever_a_model_says(reply: StubReply | str) -> None:
    with StubServer(lambda _: reply) as server:
        records = ticks(chat(server.url), 33)
    logged = [call for record in of_type(records, "llm_call") for call in record["calls"]]
    assert logged
    for call in logged:
        assert call["fallback"] == FALLBACKS[call["operation"]]


def test_a_call_that_fails_is_never_conduct() -> None:
    broken = by_operation({"rate_importance": ERRORS["server_error_500"]})
    with (
        StubServer(broken) as server,
        pytest.raises(CallFailedError, match="RateImportance: unavailable"),
    ):
        ticks(chat(server.url, retries=0), 33)


def test_values_can_be_fixed_for_this_agent_too() -> None:
    wait: Callable[[StubRequest], StubReply | str] = values(reaction="wait", importance=9)
    outcome, _, _ = play("react", wait)
    assert outcome.value is not None and outcome.value.response is Response.WAIT
    assert play("rate_importance", wait)[0].value == 9
