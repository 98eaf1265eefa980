"""PAVE under its conditions: played windows, generated situations, and models to put to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import strategies as st

from pave_policy.assessment import Case, assess
from pave_policy.backbone import (
    Opinion,
    VerdictRequest,
    run_now,
)
from pave_policy.conditions import (
    pave,
    pave_fixed_threshold,
    pave_no_authority,
    pave_no_gate,
    pave_no_scope,
    pave_prompt_gate,
)
from pave_policy.outcome import Outcome
from pave_policy.pave import PavePolicy
from pave_policy.records import GateMode, Verdict
from pave_policy.surrogate import Surrogate
from pave_policy.verdict import give_verdict
from voville_env.core.codes import (
    Behaviour,
    CueType,
    Decision,
    EventCode,
    Instruction,
    Rule,
    rules_in,
)
from voville_env.observation import Context, Cue, Peer
from voville_env.parallel import VovilleEnv
from voville_env.policy import BasePolicy, Briefing, PersonaCard, PersonalRule

Record = Mapping[str, Any]
Moment = tuple[str, int, str]
"""A person, a tick and one of the two sets of rules."""
SCENES = {
    "fire_escape": (1, 48, 70),
    "fire_escape_officers": (1, 48, 72),
    "jaywalk": (1, 28, 58),
}
ABLATIONS = {
    "pave-prompt-gate": (pave_prompt_gate, "gate"),
    "pave-no-gate": (pave_no_gate, "gate"),
    "pave-fixed-threshold": (pave_fixed_threshold, "threshold"),
    "pave-no-authority": (pave_no_authority, "sees_officers"),
    "pave-no-scope": (pave_no_scope, "scoped"),
}


class Defiant(Surrogate):
    """A model that always wants to break the rule."""

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        return Outcome(Opinion(Decision.VIOLATE, "I go.", 100))


def verdicts_of(policy: BasePolicy) -> dict[Moment, Record]:
    return {
        (record["agent"], record["tick"], record["rule_set"]): record
        for record in policy.records()
        if record["type"] == "verdict"
    }


@dataclass
class Solo:
    """What one policy did on its own."""

    actions: list[Mapping[str, int]] = field(default_factory=list)
    broken: dict[Rule, int] = field(default_factory=lambda: dict.fromkeys(Rule, 0))
    records: list[Record] = field(default_factory=list)

    def count(self, rules: int) -> int:
        return sum(self.broken[rule] for rule in rules_in(rules))


def solo(scenario: str, policy: PavePolicy, *, sanctioned: bool = False) -> Solo:
    env = VovilleEnv(scenario, window=SCENES[scenario])
    observations, infos = env.reset(seed=0)
    policy.reset(env.briefing())
    run = Solo()
    while env.agents:
        if sanctioned:
            policy.observe([{"type": "sanction", "agent": agent} for agent in observations])
        actions = policy.act(observations, infos)
        run.actions.append(actions)
        observations, *_, infos = env.step(actions)
        run.records += policy.records()
        for row in env.drain_events().tolist():
            if row[2] == EventCode.OUTCOME:
                for rule in rules_in(row[5] & ~row[6]):
                    run.broken[rule] += 1
    return run


@cache
def start() -> tuple[Briefing, Mapping[str, Any]]:
    env = VovilleEnv("fire_escape", window=(1, 48, 50))
    observations, _ = env.reset(seed=0)
    return env.briefing(), observations["CC"]


def observed_by_commuter(
    is_it: Callable[[PavePolicy, Mapping[str, Any]], bool],
) -> tuple[Briefing, dict[str, Any]]:
    """What somebody on the way to work sees at the first moment that is wanted."""
    env = VovilleEnv("jaywalk", window=SCENES["jaywalk"])
    observations, infos = env.reset(seed=0)
    policy, other = pave(), pave()
    for each in (policy, other):
        each.reset(env.briefing())
    while not is_it(other, observations["CC"]):
        observations, *_, infos = env.step(policy.act(observations, infos))
    return env.briefing(), {name: rows.copy() for name, rows in observations["CC"].items()}


cards = st.builds(
    PersonaCard,
    id=st.just("CC"),
    name=st.just("C"),
    occupation=st.just(""),
    disposition=st.just(""),
    goal=st.just(""),
    group=st.just("attendee"),
    legitimacy_threshold=st.integers(1, 100),
    rules=st.just(tuple(PersonalRule(rule.name, rule.name, 60) for rule in Rule)),
)


cues = st.builds(
    Cue,
    type=st.sampled_from([CueType.FIRE, CueType.TIME_PRESSURE]),
    distance_tiles=st.integers(0, 25),
    severity=st.integers(1, 100),
)


peers = st.builds(
    Peer,
    dx=st.just(1),
    dy=st.just(0),
    behaviour=st.just(Behaviour.CROSSING_ON_RED),
    rule=st.just(Rule.RED_LIGHT),
    followed=st.booleans(),
    age=st.just(0),
    text=st.just(""),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    away = draw(st.none() | st.integers(0, 20))
    scene = Context(
        authority_present=away is not None,
        authority_distance_tiles=away,
        instruction=draw(st.sampled_from(Instruction)),
        situational_cues=tuple(draw(st.lists(cues, max_size=2))),
        peer_behaviors=tuple(draw(st.lists(peers, max_size=4))),
    )
    return Case(scene, draw(cards), (Rule.RED_LIGHT,), passage_granted=draw(st.booleans()))


def judged(case: Case, gate: GateMode, backbone: Surrogate | None = None) -> Verdict:
    backbone = backbone or Surrogate()
    assessment = run_now(assess(backbone, case)).value
    assert assessment is not None
    return run_now(give_verdict(backbone, case, assessment, gate))
