"""The generative agent lived through: reactions, nights, fallbacks and what stops an episode."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import Any

import pytest
from generative_kit import ATTENDEES, Played, Written, always, observations

from pave_policy.backbone import Backbone, run_now
from pave_policy.generative.day_plan import schedule_plan
from pave_policy.generative.policy import VanillaPolicy
from pave_policy.generative.requests import (
    GenerativeBackbone,
    ImportanceRequest,
    Insight,
    PlanEntry,
    Reaction,
    Response,
)
from pave_policy.generative.settings import GenerativeSettings
from pave_policy.generative.turn import Turn
from pave_policy.glance import Own, look
from pave_policy.memory import warm_up
from pave_policy.memory.stream import Entry, EntryKind
from pave_policy.outcome import Failure, Outcome
from pave_policy.site import Site
from pave_policy.surrogate import Surrogate
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.core.codes import TRIGGER_RELEVANT, Action, Rule
from voville_env.errors import CallFailedError, LifecycleError
from voville_env.events import Event
from voville_env.parallel import VovilleEnv

FIRE_WINDOW = [1, 45, 110]
SHORT = [1, 44, 56]
OPERATIONS = (
    "rate_importance",
    "plan_day",
    "decompose_plan",
    "ask_focal_points",
    "draw_insights",
    "react",
)


@cache
def reacting(response: Response) -> Played:
    return Played(VanillaPolicy(Written(always(response))), "fire_escape", FIRE_WINDOW)


def positions(run: Played, agent: str, after: int) -> set[tuple[int, int]]:
    rows = [Own(*seen[agent]["self"].tolist()) for seen in run.seen]
    return {(own.x, own.y) for own in rows if own.tick > after}


def reached_safety(run: Played) -> set[str]:
    return {
        agent
        for seen in run.seen
        for agent in ATTENDEES
        if (own := Own(*seen[agent]["self"].tolist())).escaping and own.at_goal and own.tick > 51
    }


def test_who_flees_gets_out_whatever_the_rules() -> None:
    run = reacting(Response.FLEE)
    assert reached_safety(run) == set(ATTENDEES)
    assert run.broken[Rule.PRIVATE_BUILDING] and run.broken[Rule.PERSONAL_SPACE]
    assert any(Action.TAKE in actions.values() for actions in run.actions)


def test_who_waits_stands_and_who_goes_on_stays_by_the_plan() -> None:
    waits, goes_on = reacting(Response.WAIT), reacting(Response.CONTINUE)
    for agent in ATTENDEES:
        assert len(positions(waits, agent, after=50)) == 1
        assert len(positions(goes_on, agent, after=60)) == 1  # the schedule says: at the café
    assert not reached_safety(waits) and not reached_safety(goes_on)
    assert not goes_on.broken and not waits.broken


def test_who_follows_breaks_traffic_rules_and_no_others() -> None:
    run = reacting(Response.FOLLOW)
    assert reached_safety(run)
    broken = {rule for rule in Rule if run.broken[rule]}
    assert broken and all(TRIGGER_RELEVANT >> rule & 1 for rule in broken)


def test_nothing_is_asked_while_nothing_is_new() -> None:
    backbone = Written(always(Response.FLEE))
    run = Played(VanillaPolicy(backbone), "fire_escape", [1, 0, 60])
    ticks = {tick for _, agent, tick, _ in backbone.asked if agent == "CC"}
    assert 50 in ticks and not ticks & set(range(30, 50))
    reactions = Counter(agent for name, agent, *_ in backbone.asked if name == "react")
    assert max(reactions.values()) < 10
    rated = [(agent, r.event.key) for name, agent, _, r in backbone.asked if name[:4] == "rate"]
    assert len(rated) == len(set(rated)) == len(run.of("importance"))
    for request in backbone.requests("react"):
        assert request.events and len(request.events) == len(request.importance)
        assert request.doing


def test_a_reaction_is_asked_with_what_comes_to_mind() -> None:
    backbone = Written(values={"rate_importance": 9})
    policy = VanillaPolicy(backbone, retrieved=7)
    Played(policy, "fire_escape", FIRE_WINDOW)
    late = [r for name, _, tick, r in backbone.asked if name == "react" and tick > 52]
    assert late and max(len(request.memories) for request in late) == 7
    assert all(request.memories for request in late)
    assert any("fire" in text for request in late for text in request.memories)


def recalled(turn: Turn, *queries: str) -> list[Entry]:
    return run_now(turn.recall(queries))


def test_roads_come_to_mind_where_they_are_asked_for_and_not_in_a_fire() -> None:
    policy = VanillaPolicy()
    run = Played(policy, "fire_escape", [1, 0, 51])
    beside_fire = [r for r in run.of("reaction") if r["tick"] >= 50 and "fire" in r["events"][0]]
    for person in policy.people.values():
        roads = {entry.text for entry in person.stream.of(EntryKind.ROAD)}
        assert len(roads) == 22
        mine = [r for r in beside_fire if r["agent"] == person.persona.id]
        assert all(r["memories"] and len(roads & set(r["memories"])) <= 3 for r in mine)
    assert len(beside_fire) >= 5
    glance = look(observations()["CC"])
    for agent in ("CC", "KQ"):
        person = policy.people[agent]
        site = Site(agent=agent, day=1, tick=51)
        turn = Turn(person, glance, Surrogate(), site, 51, GenerativeSettings())
        in_fire = recalled(turn, "There is a fire 4 tiles away.")
        assert "fire" in in_fire[0].text
        assert sum(entry.kind is EntryKind.ROAD for entry in in_fire) <= 3
        on_foot = recalled(turn, "Which crosswalks does pine_garden have?")
        found = [entry.text for entry in on_foot if entry.kind is EntryKind.ROAD]
        assert any("crosswalk of pine_garden" in text for text in found)


def test_a_reaction_says_what_it_was_based_on() -> None:
    backbone = Written(values={"draw_insights": (Insight("A long tale. " * 9, (0,)),)})
    run = Played(VanillaPolicy(backbone), "fire_escape", SHORT)
    asked = [request.memories for request in backbone.requests("react")]
    logged = [record["memories"] for record in run.of("reaction") if record["events"]]
    assert len(asked) == len(logged) and any(asked)
    for request, record in zip(asked, logged, strict=True):
        assert [text[:79] for text in request] == [text[:79] for text in record]
        assert all(len(text) <= 80 for text in record)
    assert any(text.endswith("…") for record in logged for text in record)


def test_whoever_flees_is_asked_about_each_order_and_may_heed_it() -> None:
    answered = Counter[str]()
    for seed in (0, 3):
        run = Played(VanillaPolicy(), "fire_escape_officers", [1, 45, 75], seed)
        rated = {(r["agent"], r["event_id"]): r for r in run.of("importance")}
        before: dict[str, str] = {}
        for record in run.of("reaction"):
            agent, orders = record["agent"], [e for e in record["events"] if e[:5] == "order"]
            fled = before.get(agent) == "flee"
            before[agent] = record["response"]
            for order in orders:
                assert 1 <= rated[agent, order]["score"] <= 5
                answered[record["response"]] += fled
        given = [item for key, item in rated.items() if key[1].startswith("order of")]
        reacted = {(r["agent"], r["tick"], e) for r in run.of("reaction") for e in r["events"]}
        assert given
        assert {(r["agent"], r["tick"], r["event_id"]) for r in given} <= reacted
    assert answered["flee"] > answered["wait"] > 0


@cache
def whole(scenario: str) -> tuple[VanillaPolicy, Written, list[Event]]:
    """Two days, and all that was asked in them."""
    backbone = Written()
    policy = VanillaPolicy(backbone)
    log = list(EpisodePlayer(VovilleEnv(scenario), policy, "vanilla", 0).records())
    return policy, backbone, log


def test_memory_survives_the_night_and_the_next_plan_draws_on_it() -> None:
    policy, backbone, log = whole("fire_escape")
    clock = log[0]["clock"]["ticks_per_day"]
    for person in policy.people.values():
        days = {entry.created // clock for entry in person.stream}
        assert days == {-1, 0, 1}  # the walk beforehand was the day before
        assert person.plan is not None and person.plan.day == 2
        assert any(entry.kind is EntryKind.REFLECTION for entry in person.stream)
    plans = {(r.persona.id, r.day): r for r in backbone.requests("plan_day")}
    assert len(plans) == 2 * len(policy.people)
    assert all(not request.memories for (_, day), request in plans.items() if day == 1)
    second = [request for (_, day), request in plans.items() if day == 2]
    assert all(request.memories for request in second)
    for agent in ATTENDEES:
        remembered = set(plans[agent, 2].memories)
        kinds = {e.kind for e in policy.people[agent].stream if e.text in remembered}
        assert kinds & {EntryKind.REFLECTION, EntryKind.OBSERVATION}
    assert any("fire" in text for request in second for text in request.memories)


def test_reflections_happen_to_everybody_and_cite_what_came_before() -> None:
    policy, backbone, _ = whole("fire_escape")
    asked = Counter(agent for name, agent, *_ in backbone.asked if name == "ask_focal_points")
    assert set(asked) == set(policy.people)
    for person in policy.people.values():
        assert person.since_reflection <= policy.options.reflection_trigger
        for entry in person.stream.of(EntryKind.REFLECTION):
            assert entry.evidence and max(entry.evidence) < entry.number


def test_the_trigger_is_an_option() -> None:
    backbone = Written()
    Played(VanillaPolicy(backbone, reflection_trigger=150), "fire_escape", [1, 0, 60])
    assert not backbone.requests("ask_focal_points") and backbone.requests("react")


def test_the_walk_beforehand_is_in_every_stream_and_in_the_log() -> None:
    policy, _, log = whole("jaywalk")
    roads = warm_up(policy.briefing.town) if policy.briefing is not None else ()
    for agent, person in policy.people.items():
        assert tuple(entry.text for entry in person.stream.of(EntryKind.ROAD)) == roads != ()
        told = [r["text"] for r in log if r.get("kind") == "warm-up" and r["agent"] == agent]
        assert tuple(told) == roads


def test_the_log_stays_small_and_has_one_form() -> None:
    for scenario in ("fire_escape", "jaywalk"):
        log = [r for r in whole(scenario)[2] if r["type"] in ("importance", "memory")]
        for record in log:
            where = {"type", "agent", "day", "tick", "fallback"}
            rest = {"kind", "text"}
            if record["type"] == "importance":
                rest = {"description", "score", "rescaled", "event_id", "severity"}
                assert record["rescaled"] == 10 * record["score"]
            assert set(record) == where | rest and record["fallback"] is None
        texts = {r["text"] for r in log if r.get("kind") == "observation"}
        assert texts == {r["description"] for r in log if r["type"] == "importance"}
        assert len(log) < 500


def test_records_of_questions_come_with_their_answers() -> None:
    backbone = Written()
    run = Played(VanillaPolicy(backbone), "fire_escape", SHORT)
    noted = Counter(record["operation"] for record in run.of("llm_call"))
    assert noted == Counter(name for name, *_ in backbone.asked)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_unusable_answer_leads_to_its_fallback(operation: str) -> None:
    backbone = Written(always(Response.FLEE), failures={operation: Failure.REFUSED})
    policy = VanillaPolicy(backbone, reflection_trigger=1)
    run = Played(policy, "fire_escape", SHORT)
    assert backbone.requests(operation)
    fallbacks = {(r["type"], r.get("kind")) for r in run.records if r.get("fallback")}
    assert {r["fallback"] for r in run.records if r.get("fallback")} == {"refused"}
    people = policy.people
    if operation == "rate_importance":
        assert fallbacks == {("importance", None)}
        assert {record["score"] for record in run.of("importance")} == {1}
    elif operation == "plan_day":
        assert fallbacks == {("memory", "plan")}
        for person in people.values():
            assert person.plan is not None
            assert person.plan.entries == schedule_plan(person.persona, 1, 166)
    elif operation == "decompose_plan":
        assert fallbacks == {("memory", "plan")}
        plans = [person.plan for person in people.values() if person.plan is not None]
        parts = [item for plan in plans for item in plan.parts.items()]
        assert parts and all(found == (entry,) for entry, found in parts)
    elif operation == "react":
        assert fallbacks == {("reaction", None)}
        assert {p.reaction.response for p in people.values()} == {Response.CONTINUE}
        assert not run.broken
    else:
        assert fallbacks == {("memory", "reflection")}
        assert not any(person.stream.of(EntryKind.REFLECTION) for person in people.values())
    if operation != "react":
        assert any(p.reaction.response is Response.FLEE for p in people.values())


@pytest.mark.parametrize("failure", [f for f in Failure if f.is_infrastructure])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_failed_call_fails_the_episode(operation: str, failure: Failure) -> None:
    backbone = Written(failures={operation: failure})
    with pytest.raises(CallFailedError, match=failure.value):
        Played(VanillaPolicy(backbone, reflection_trigger=1), "fire_escape", SHORT)


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        ("rate_importance", 11),
        ("plan_day", (PlanEntry("nap", 0, 5),)),
        ("decompose_plan", (PlanEntry("nap", 3, 5),)),
        ("ask_focal_points", ()),
    ],
)
def test_an_answer_beside_the_question_is_malformed(operation: str, value: Any) -> None:
    run = Played(
        VanillaPolicy(Written(values={operation: value}), reflection_trigger=1),
        "fire_escape",
        SHORT,
    )
    assert {r["fallback"] for r in run.records if r.get("fallback")} == {"malformed"}


def test_nobody_can_follow_where_nobody_is() -> None:
    backbone = Written(lambda request: Reaction(Response.FOLLOW, "after them"))
    run = Played(VanillaPolicy(backbone), "jaywalk", [1, 28, 60])
    alone = [request for request in backbone.requests("react") if not request.can_follow]
    refused = [r for r in run.of("reaction") if r["fallback"] == "malformed"]
    assert alone and len(refused) == len(alone) < len(backbone.requests("react"))


def test_the_closed_form_answers_alike_in_every_process() -> None:
    code = (
        "import json; from pave_policy.generative.policy import VanillaPolicy\n"
        "from voville_env.benchmarks.play import EpisodePlayer\n"
        "from voville_env.parallel import VovilleEnv\n"
        "env = VovilleEnv('fire_escape_officers', window=(1, 20, 70))\n"
        "print(json.dumps(list(EpisodePlayer(env, VanillaPolicy(), 'vanilla', 3).records())))"
    )
    env = VovilleEnv("fire_escape_officers", window=(1, 20, 70))
    here = json.dumps(list(EpisodePlayer(env, VanillaPolicy(), "vanilla", 3).records()))
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONHASHSEED": "5"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == here


class Slow(Written):
    """Every rating lets the others go first."""

    concurrent = True

    async def rate_importance(self, request: ImportanceRequest) -> Outcome[int]:
        await asyncio.sleep(0)
        return await super().rate_importance(request)


def test_a_backbone_that_waits_gives_the_same_records() -> None:
    fast = Played(VanillaPolicy(Written()), "fire_escape", SHORT)
    slow = Played(VanillaPolicy(Slow()), "fire_escape", SHORT)
    assert slow.records == fast.records and slow.actions == fast.actions


def test_a_policy_that_was_told_nothing_says_so() -> None:
    env = VovilleEnv("fire_escape")
    observations, infos = env.reset(seed=1)
    with pytest.raises(LifecycleError, match="reset"):
        VanillaPolicy().act(observations, infos)


def test_the_surrogate_answers_pave_and_the_generative_agent() -> None:
    pave_side: Backbone = Surrogate()
    agent_side: GenerativeBackbone = Surrogate()
    assert pave_side.name == agent_side.name == "surrogate"
