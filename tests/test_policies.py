"""Every policy in every scenario: it runs, repeats itself and does what it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

import voville_env
from pave_policy import glance
from pave_policy.backbone import RiskRequest, Score, run_now
from pave_policy.conditions import (
    pave,
    pave_fixed_threshold,
    pave_no_authority,
    pave_no_gate,
    pave_no_scope,
    pave_prompt_gate,
)
from pave_policy.generative.policy import VanillaPolicy
from pave_policy.outcome import Outcome
from pave_policy.pave import PavePolicy
from pave_policy.scripted import DirectPolicy, LawfulPolicy, OraclePolicy, RandomPolicy
from pave_policy.surrogate import Surrogate
from voville_env.core import fields
from voville_env.core.codes import (
    CARRIAGEWAY,
    TRIGGER_RELEVANT,
    UNRELATED,
    Action,
    EventCode,
    Instruction,
    Rule,
    rule_bits,
)
from voville_env.errors import LifecycleError
from voville_env.policy import BasePolicy, Policy

POLICIES: dict[str, Callable[[], BasePolicy]] = {
    "pave": pave,
    "pave-prompt-gate": pave_prompt_gate,
    "pave-no-gate": pave_no_gate,
    "pave-fixed-threshold": pave_fixed_threshold,
    "pave-no-authority": pave_no_authority,
    "pave-no-scope": pave_no_scope,
    "vanilla": VanillaPolicy,
    "lawful": LawfulPolicy,
    "direct": DirectPolicy,
    "oracle": OraclePolicy,
    "random": RandomPolicy,
}
SCENARIOS = ("fire_escape", "fire_escape_officers", "jaywalk")
WINDOW = [1, 0, 200]
ATTENDEES = ("CC", "EY", "OH", "NR", "KQ", "MF", "AY", "AM")
SEEDS = (1, 2, 3)
Key = tuple[str, int]


@dataclass
class Run:
    """What happened: per step the own rows and the actions; per tick and agent the rules broken."""

    rows: list[dict[str, list[int]]] = field(default_factory=list)
    stakes: list[dict[str, int]] = field(default_factory=list)
    held_off_road: list[set[str]] = field(default_factory=list)
    actions: list[dict[str, int]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    broken: dict[Key, int] = field(default_factory=dict)
    responses: list[bool] = field(default_factory=list)

    def add_events(self, events: Any, agents: list[str]) -> None:
        for tick, _, code, agent, _, b, c, d, *_ in events.tolist():
            if code == EventCode.OUTCOME and b & ~c:
                self.broken[agents[agent], tick] = b & ~c
            elif code == EventCode.RESPONSE:
                self.responses.append(bool(d))

    def violations(self, rules: int) -> int:
        return sum(bool(bits & rules) for bits in self.broken.values())


def reversed_items(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return dict(reversed(list(mapping.items())))


def play(
    scenario: str,
    policy: BasePolicy,
    seed: int,
    *,
    backwards: bool = False,
    window: list[int] | None = None,
    asynchronous: bool = False,
) -> Run:
    env = voville_env.parallel_env(scenario)
    observations, infos = env.reset(seed=seed, options={"window": window or WINDOW})
    policy.reset(env.briefing())
    run = Run()
    while env.agents:
        told: dict[str, Any] = infos
        if policy.privileged:
            labels = env.oracle_labels()
            told = {agent: {**infos[agent], "oracle": labels[agent]} for agent in infos}
        seen = reversed_items(observations) if backwards else observations
        if asynchronous:
            assert isinstance(policy, PavePolicy)
            actions = asyncio.run(policy.act_async(seen, told))
        else:
            actions = policy.act(seen, told)
        run.rows.append({name: item["self"].tolist() for name, item in observations.items()})
        run.stakes.append({name: glance.bits_at_stake(item) for name, item in observations.items()})
        run.held_off_road.append(
            {
                name
                for name, item in observations.items()
                if glance.look(item).officer.instruction == Instruction.HOLD
                and glance.look(item).terrain() not in CARRIAGEWAY
            }
        )
        run.actions.append(actions)
        observations, _, _, _, infos = env.step(actions)
        run.add_events(env.drain_events(), env.possible_agents)
        run.records += policy.records()
    return run


@cache
def run_of(scenario: str, name: str, seed: int = 1) -> Run:
    return play(scenario, POLICIES[name](), seed)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_plays_every_scenario(name: str, scenario: str) -> None:
    policy = POLICIES[name]()
    assert isinstance(policy, Policy)
    assert policy.name == name
    json.dumps(policy.settings(), allow_nan=False)
    run = run_of(scenario, name)
    assert len(run.actions) == 4 * (WINDOW[2] - WINDOW[1])
    for actions in run.actions:
        assert all(type(action) is int for action in actions.values())
    for record in run.records:
        json.dumps(record, allow_nan=False)
        assert {"type", "agent", "day", "tick"} <= record.keys()


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_repeats_itself_whatever_the_order_of_the_dicts(name: str) -> None:
    first = run_of("fire_escape_officers", name)
    again = play("fire_escape_officers", POLICIES[name](), 1, backwards=True)
    assert again.actions == first.actions
    assert again.records == first.records


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "random"])
def test_idle_people_wait_as_declared(name: str) -> None:
    assert POLICIES[name]().idle_when_settled
    for scenario in SCENARIOS:
        run = run_of(scenario, name)
        for rows, stakes, actions in zip(run.rows, run.stakes, run.actions, strict=True):
            for agent, row in rows.items():
                own = glance.Own(*row)
                if own.at_goal and not own.escaping and not stakes[agent]:
                    assert actions[agent] == Action.WAIT


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_lawful_breaks_no_rule(scenario: str) -> None:
    for seed in SEEDS:
        run = run_of(scenario, "lawful", seed)
        assert not run.broken
        assert all(run.responses)
    assert run_of(scenario, "direct").broken  # the same check can fail


@pytest.mark.parametrize("scenario", ["fire_escape", "fire_escape_officers"])
@pytest.mark.parametrize("name", ["pave", "lawful", "oracle", "direct"])
def test_everybody_reaches_safety_and_nobody_is_stuck(name: str, scenario: str) -> None:
    for seed in SEEDS:
        run = run_of(scenario, name, seed)
        safe = set()
        still: dict[str, int] = {}
        for k, rows in enumerate(run.rows):
            for agent, row in rows.items():
                own = glance.Own(*row)
                if own.escaping and own.at_goal and own.tick > 51:
                    safe.add(agent)
                before = run.rows[k - 1][agent] if k else row
                moved = row[:2] != before[:2]
                still[agent] = 0 if moved or own.at_goal or not own.escaping else still[agent] + 1
                assert still[agent] < 100, (agent, own)
        assert safe >= set(ATTENDEES), (seed, set(ATTENDEES) - safe)


def test_pave_violates_within_its_verdicts() -> None:
    """The one exception: somebody whose gate closes on the road has to get off it."""
    for scenario in SCENARIOS:
        for seed in SEEDS:
            run = run_of(scenario, "pave", seed)
            verdicts: dict[Key, list[dict[str, Any]]] = {}
            for record in run.records:
                if record["type"] == "verdict":
                    verdicts.setdefault((record["agent"], record["tick"]), []).append(record)
            for key, broken in run.broken.items():
                given = verdicts.get(key, [])
                targeted = rule_bits(
                    [
                        Rule[rule]
                        for verdict in given
                        if verdict["decision"] == "violate"
                        for rule in verdict["rules"]
                    ]
                )
                leaves = any(not verdict["gate_open"] for verdict in given)
                assert broken & ~targeted == 0 or leaves, (scenario, seed, key, broken)


def test_the_gate_is_what_keeps_violations_scoped() -> None:
    for seed in SEEDS:
        with_gate = run_of("fire_escape", "pave", seed)
        without = run_of("fire_escape", "pave-no-gate", seed)
        assert with_gate.violations(TRIGGER_RELEVANT) > 0
        assert with_gate.violations(UNRELATED) == 0
        assert without.violations(UNRELATED) > 0


def test_the_gate_is_what_resists_jaywalkers() -> None:
    assert not any(run_of("jaywalk", "pave", seed).broken for seed in range(1, 9))
    assert any(run_of("jaywalk", "pave-no-gate", seed).broken for seed in range(1, 9))


def test_thresholds_show_in_conduct() -> None:
    """Emma (40) finds more violations warranted than Ahmad (75)."""

    def share(agent: str) -> float:
        verdicts: list[bool] = [
            record["decision"] == "violate"
            for seed in SEEDS
            for record in run_of("fire_escape", "pave", seed).records
            if record["type"] == "verdict"
            and record["agent"] == agent
            and record["rule_set"] == "trigger_relevant"
            and 50 <= record["tick"] < 65
        ]
        return sum(verdicts) / len(verdicts)

    assert share("EY") > share("AY")


def test_pave_obeys_officers() -> None:
    runs = [run_of("fire_escape_officers", "pave", seed) for seed in SEEDS]
    responses = [response for run in runs for response in run.responses]
    assert len(responses) >= 10
    assert sum(responses) / len(responses) > 0.9
    assert any(held for run in runs for held in run.held_off_road)
    for run in runs:
        for held, actions in zip(run.held_off_road, run.actions, strict=True):
            assert all(actions[agent] == Action.WAIT for agent in held)
    complied = [
        record["justification"]
        for run in runs
        for record in run.records
        if record["type"] == "verdict" and record["decision"] == "comply" and record["gate_open"]
    ]
    assert complied and all("officer" in text.lower() for text in complied)


def test_bystanders_and_the_time_before_the_fire_are_without_violations() -> None:
    for scenario in ("fire_escape", "fire_escape_officers"):
        for agent, tick in run_of(scenario, "pave").broken:
            assert agent in ATTENDEES and tick >= 50


def test_pave_writes_down_what_it_decides() -> None:
    records = run_of("fire_escape_officers", "pave").records
    kinds = {(record["type"], record.get("kind")) for record in records}
    assert kinds == {
        ("assessment", None),
        ("verdict", None),
        ("memory", "warm-up"),
        ("memory", "justification"),
        ("memory", "outcome"),
    }
    keys: dict[str, set[str]] = {}
    for record in records:
        assert keys.setdefault(record["type"], set(record)) == set(record)
    verdicts = [record for record in records if record["type"] == "verdict"]
    assert len(verdicts) == sum(record["type"] == "assessment" for record in records)
    assert any(record["reused"] for record in verdicts)
    assert any(record["ahead"] for record in verdicts)
    places: dict[str, list[str]] = {agent: [] for agent in ATTENDEES}
    for record in records:
        if record.get("kind") == "warm-up" and record["agent"] in places:
            places[record["agent"]].append(record["text"])
    town = voville_env.parallel_env("fire_escape").world.town
    for texts in places.values():
        known = " ".join(texts)
        assert all(crossing.name in known for crossing in town.intersections)
        assert all(street.name in known for street in town.streets if street.direction is not None)


@pytest.mark.parametrize("guard", ["memory", "off"])
def test_the_oscillation_guard_can_be_switched_off(guard: str) -> None:
    run = play("fire_escape", pave(oscillation_guard=guard), 1)
    assert not any(record.get("reused") for record in run.records)


def test_vanilla_rates_a_fire_low_and_acts_on_importance_alone() -> None:
    scores = set()
    fled = False
    for seed in SEEDS:
        run = run_of("fire_escape", "vanilla", seed)
        assert {record["type"] for record in run.records} == {"importance", "memory", "reaction"}
        for record in run.records:
            if record["type"] != "importance":
                continue
            assert record["rescaled"] == 10 * record["score"]
            if "fire" in record["event_id"]:
                scores.add(record["score"])
                assert record["severity"] > 0
        fled = fled or run.violations(UNRELATED) > 0
    assert scores == {2, 3, 4}
    assert fled


def test_random_only_does_what_is_possible() -> None:
    env = voville_env.parallel_env("jaywalk")
    observations, infos = env.reset(seed=3, options={"window": [1, 0, 5]})
    policy = RandomPolicy()
    policy.reset(env.briefing())
    while env.agents:
        actions = policy.act(observations, infos)
        for agent, action in actions.items():
            assert observations[agent]["action_mask"][action]
        observations, _, _, _, infos = env.step(actions)
    other = RandomPolicy()
    env.reset(seed=4)
    other.reset(env.briefing())
    assert play("jaywalk", RandomPolicy(), 3).actions != play("jaywalk", RandomPolicy(), 4).actions


def test_the_oracle_needs_its_labels() -> None:
    env = voville_env.parallel_env("jaywalk")
    observations, infos = env.reset(seed=1)
    policy = OraclePolicy()
    policy.reset(env.briefing())
    assert policy.privileged
    with pytest.raises(LifecycleError, match="oracle"):
        policy.act(observations, infos)


class Slow(Surrogate):
    """The surrogate, but every operation that it is asked for lets others go first."""

    concurrent = True

    async def assess_risk(self, request: RiskRequest) -> Outcome[Score]:
        await asyncio.sleep(0)
        return await super().assess_risk(request)


def test_a_backbone_that_waits_can_be_called_either_way() -> None:
    window = [1, 48, 60]
    fast = play("fire_escape", pave(), 1, window=window)
    slow = play("fire_escape", pave(Slow()), 1, window=window, asynchronous=True)
    assert slow.actions == fast.actions
    assert slow.records == fast.records
    for again in range(2):  # a second run in one process, on the same loop of its own
        assert play("fire_escape", pave(Slow()), 1, window=window).records == fast.records, again
    with pytest.raises(LifecycleError, match="act_async"):
        run_now(asyncio.sleep(0))


@pytest.mark.parametrize(
    ("row", "name"), [(glance.Own, "self"), (glance.Officer, "authority"), (glance.Leg, "routes")]
)
def test_glances_follow_the_field_table(row: Any, name: str) -> None:
    columns = tuple(column.name for column in fields.FIELD[name].columns)
    assert row._fields[: len(columns)] == columns
    flags = (glance.PERSON, glance.BURNING, glance.TERRAIN, glance.CENTRE)
    assert flags == (fields.OCCUPIED, fields.BURNING, fields.TERRAIN_MASK, fields.WINDOW // 2)
