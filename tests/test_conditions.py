"""Each ablation differs from PAVE only where the part that it lacks acts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pave_kit import (
    ABLATIONS,
    SCENES,
    Defiant,
    Moment,
    Record,
    Solo,
    cases,
    judged,
    observed_by_commuter,
    solo,
    start,
    verdicts_of,
)

from pave_policy.assessment import Case
from pave_policy.conditions import (
    Condition,
    pave,
    pave_fixed_threshold,
    pave_no_authority,
    pave_no_gate,
    pave_no_scope,
    pave_prompt_gate,
)
from pave_policy.glance import Officer, look
from pave_policy.memory import Memory
from pave_policy.mind import Mind
from pave_policy.pave import PavePolicy
from pave_policy.perception import NOBODY, without_officers
from pave_policy.records import GateMode, RuleSet, Verdict
from pave_policy.surrogate import Surrogate
from pave_policy.walking import walkers_of
from voville_env.core.codes import (
    ALL_RULES,
    TRIGGER_RELEVANT,
    UNRELATED,
    Action,
    Decision,
    Instruction,
    Route,
    rules_in,
)
from voville_env.observation import to_context
from voville_env.parallel import VovilleEnv


@dataclass
class Played:
    """What two policies made of the same observations, by person, tick and set of rules."""

    ours: dict[Moment, Record] = field(default_factory=dict)
    theirs: dict[Moment, Record] = field(default_factory=dict)
    actions: list[dict[str, tuple[int, int]]] = field(default_factory=list)
    officers: list[dict[str, Officer]] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)

    def pairs(self) -> Iterator[tuple[Record, Record]]:
        assert self.ours and self.ours.keys() == self.theirs.keys()
        return ((self.ours[key], self.theirs[key]) for key in self.ours)


def look_on(scenario: str, other: PavePolicy, main: PavePolicy | None = None) -> Played:
    env = VovilleEnv(scenario, window=SCENES[scenario])
    observations, infos = env.reset(seed=0)
    main = main or pave()
    for policy in (main, other):
        policy.reset(env.briefing())
    found = Played()
    while env.agents:
        actions, theirs = main.act(observations, infos), other.act(observations, infos)
        found.actions.append({agent: (actions[agent], theirs[agent]) for agent in actions})
        found.officers.append({who: look(seen).officer for who, seen in observations.items()})
        found.ticks.append(int(next(iter(observations.values()))["self"][3]))
        found.ours |= verdicts_of(main)
        found.theirs |= verdicts_of(other)
        observations, *_, infos = env.step(actions)
    return found


@cache
def alone(scenario: str, name: str) -> Solo:
    return solo(scenario, (ABLATIONS[name][0] if name in ABLATIONS else pave)())


each_scene = pytest.mark.parametrize("scenario", SCENES)


@each_scene
def test_without_the_gate_nothing_changes_where_it_is_open(scenario: str) -> None:
    closed = 0
    for ours, theirs in look_on(scenario, pave_no_gate()).pairs():
        assert theirs["gate_open"]
        if ours["gate_open"]:
            assert ours == theirs
        else:
            closed += ours["decision"] != theirs["decision"]
    assert closed


@each_scene
def test_the_prompt_keeps_the_gate_as_well_as_code_where_the_model_does(scenario: str) -> None:
    first, second = alone(scenario, "pave"), alone(scenario, "pave-prompt-gate")
    assert first.actions == second.actions
    assert first.records == second.records
    leaks = 0
    pairs = look_on(scenario, pave_prompt_gate(Defiant()), pave(Defiant())).pairs()
    for ours, theirs in pairs:
        assert ours["gate_leak"] is theirs["gate_leak"] is not ours["gate_open"]
        assert theirs["decision"] == "violate"
        assert ours["decision"] == ("comply" if ours["gate_leak"] else "violate")
        leaks += ours["gate_leak"]
    assert leaks


@pytest.mark.parametrize("threshold", [40, 60, 75])
def test_a_shared_threshold_changes_nothing_for_who_has_it(threshold: int) -> None:
    played = look_on("fire_escape", pave(threshold=threshold))
    holders, changed = set(), 0
    for ours, theirs in played.pairs():
        assert theirs["threshold"] == threshold
        if ours["threshold"] == threshold:
            assert ours == theirs
            holders.add(ours["agent"])
        else:
            changed += ours["gate_open"] != theirs["gate_open"]
    assert holders and changed
    for row in played.actions:
        for agent in holders:
            assert row[agent][0] == row[agent][1]


def test_the_shared_threshold_is_the_median_unless_given() -> None:
    assert pave_fixed_threshold().options.threshold == 60
    assert pave_fixed_threshold(threshold=33).options.threshold == 33
    run = solo("fire_escape", pave_fixed_threshold(elicit_threshold=True))
    assert {r["threshold"] for r in run.records if r["type"] == "verdict"} == {60}
    assert not any(record["type"] == "threshold" for record in run.records)


def test_without_officers_in_town_nothing_changes_for_who_would_not_see_them() -> None:
    first, second = alone("fire_escape", "pave"), alone("fire_escape", "pave-no-authority")
    assert first.actions == second.actions
    assert first.records == second.records


def test_officers_go_unseen_only_where_one_is_in_sight() -> None:
    played = look_on("fire_escape_officers", pave_no_authority())
    seen: dict[tuple[str, int], bool] = {}
    met: set[str] = set()
    for tick, row, actions in zip(played.ticks, played.officers, played.actions, strict=True):
        for agent, officer in row.items():
            near = bool(officer.present) or officer.instruction != Instruction.NONE
            seen[agent, tick] = seen.get((agent, tick), False) or near
            met |= {agent} if near else set()
            if agent not in met:
                assert actions[agent][0] == actions[agent][1]
    differ = 0
    for (agent, tick, _), (ours, theirs) in zip(played.ours, played.pairs(), strict=True):
        same = [ours[key] == theirs[key] for key in ("decision", "justification", "confidence")]
        assert all(same) or seen[agent, tick]
        differ += not all(same)
    assert differ


def test_without_authority_people_act_as_if_no_officer_existed() -> None:
    masked = alone("fire_escape_officers", "pave-no-authority")
    assert not any(
        "officer " in r["justification"] for r in masked.records if r["type"] == "verdict"
    )
    told = alone("fire_escape_officers", "pave").records
    assert any("officer's" in r["justification"] for r in told if r["type"] == "verdict")


def test_sanctions_are_noted_only_by_who_perceives_officers() -> None:
    def noted(policy: PavePolicy) -> set[bool]:
        records = solo("fire_escape_officers", policy, sanctioned=True).records
        texts = [record["text"] for record in records if record.get("kind") == "outcome"]
        return {"officer sanctions it" in text for text in texts}

    assert (noted(pave()), noted(pave_no_authority())) == ({True}, {False})


def test_an_order_stops_only_who_perceives_officers() -> None:
    briefing, seen = observed_by_commuter(
        lambda policy, now: policy.act({"CC": now}, {})["CC"] != 0
    )
    row = Officer(1, 3, 3, 0, Instruction.HOLD, 0, -1, 4)
    ordered = {**seen, "authority": np.array(row, dtype=seen["authority"].dtype)}

    def step(made: Condition, now: Mapping[str, Any]) -> int:
        policy = made()
        policy.reset(briefing)
        return policy.act({"CC": now}, {})["CC"]

    assert step(pave, seen) == step(pave_no_authority, ordered) != Action.WAIT
    assert step(pave, ordered) == Action.WAIT


officer_rows = st.builds(
    Officer,
    present=st.integers(0, 1),
    distance=st.integers(-1, 20),
    dx=st.integers(-9, 9),
    dy=st.integers(-9, 9),
    instruction=st.integers(0, 3),
    officer=st.integers(-1, 5),
    direction=st.integers(-1, 3),
    ticks_left=st.integers(0, 9),
)


@given(row=officer_rows)
def test_no_trace_of_an_officer_is_left_in_what_is_perceived(row: Officer) -> None:
    plain = start()[1]
    marked = {**plain, "authority": np.array(row, dtype=plain["authority"].dtype)}
    assert look(plain).officer == NOBODY  # as the environment says that nobody is there
    assert to_context(without_officers(marked)) == to_context(plain)
    assert to_context(without_officers(plain)) == to_context(plain)


def verdict_on(rules: int, *, violates: bool) -> Verdict:
    return Verdict(
        rules=tuple(rules_in(rules)),
        decision=Decision.VIOLATE if violates else Decision.COMPLY,
        justification="",
        confidence=1,
        legitimacy=90,
        threshold=60,
        gate_open=True,
    )


ticks = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(RuleSet), st.tuples(st.integers(1, 127), st.booleans())),
        st.booleans(),
    ),
    max_size=5,
)


@given(ticks=ticks)
def test_without_scope_a_mind_differs_only_while_a_violation_holds(ticks: list[Any]) -> None:
    briefing = start()[0]
    walker, card = walkers_of(briefing)["CC"], briefing.personas["CC"]
    scoped = Mind(card, walker, Memory(()))
    free = Mind(card, walker, Memory(()), scoped=False)
    holds = False
    for said, escaping in ticks:
        verdicts = {}
        for rule_set, (bits, violates) in said.items():
            allowed = TRIGGER_RELEVANT if rule_set is RuleSet.RELEVANT else UNRELATED
            if bits & allowed:
                verdicts[rule_set] = verdict_on(bits & allowed, violates=violates)
        for mind in (scoped, free):
            mind.settle(verdicts, escaping=escaping)
        violates = any(verdict.violates for verdict in verdicts.values())
        holds = violates or (holds and escaping and not verdicts)
        if holds:
            assert (free.route, free.may_break, free.takes) == (Route.UNRESTRICTED, ALL_RULES, True)
        else:
            assert free.takes == scoped.takes
            assert free.route is Route.LAWFUL or free.may_break == scoped.may_break
        if not holds and not escaping:
            assert free.route is scoped.route is Route.LAWFUL
        assert free.defies == scoped.defies


def test_without_scope_only_what_violates_goes_beyond() -> None:
    for scenario in SCENES:
        for ours, theirs in look_on(scenario, pave_no_scope()).pairs():
            if ours["decision"] == "comply":
                assert ours == theirs
            else:
                assert theirs["route"] == "unrestricted"
                changed = {key for key in ours if ours[key] != theirs[key]}
                assert changed <= {"route", "actions"}
    assert alone("jaywalk", "pave-no-scope").actions == alone("jaywalk", "pave").actions
    assert alone("fire_escape", "pave").count(UNRELATED) == 0
    assert alone("fire_escape", "pave-no-scope").count(UNRELATED) > 0


@given(case=cases(), stubborn=st.booleans())
def test_an_open_gate_is_no_gate(case: Case, stubborn: bool) -> None:
    backbone = Defiant() if stubborn else Surrogate()
    with_gate, without = (judged(case, gate, backbone) for gate in (GateMode.CODE, GateMode.OFF))
    if with_gate.gate_open:
        assert with_gate == without
    else:
        assert not with_gate.violates and without.gate_open and not without.gate_leak


@given(case=cases(), stubborn=st.booleans())
def test_a_told_gate_is_the_gate_of_code_unless_the_model_leaks(case: Case, stubborn: bool) -> None:
    backbone = Defiant() if stubborn else Surrogate()
    by_code, told = (judged(case, gate, backbone) for gate in (GateMode.CODE, GateMode.PROMPT))
    if by_code.gate_leak:
        assert told.violates and not by_code.violates
    else:
        assert by_code == told
