"""What keeps verdicts from swinging to and fro, and what it never touches."""

from __future__ import annotations

import dataclasses
import typing
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from pave_policy.backbone import (
    Escape,
    LegitimacyRequest,
    LegitimacyScore,
    Opinion,
    VerdictRequest,
)
from pave_policy.conditions import pave
from pave_policy.outcome import Outcome
from pave_policy.pave import PavePolicy
from pave_policy.surrogate import Surrogate
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.core.codes import Decision
from voville_env.observation import Cue, Observation
from voville_env.parallel import VovilleEnv
from voville_env.policy import Briefing

WHO, WAITS = "CC", 32
"""Somebody on the way to work in `jaywalk`, and a tick at which the light is red for them."""


class Wavering(Surrogate):
    """Says violate and comply in turn on the same input, unless reminded of what it said before."""

    def __init__(self, legitimacy: int = 100) -> None:
        super().__init__()
        self.legitimacy = legitimacy
        self.asked: list[VerdictRequest] = []

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        return Outcome(LegitimacyScore(self.legitimacy, "", "", ""))

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        self.asked.append(request)
        if request.prior_justifications:
            decision = Decision(request.prior_justifications[-1].split()[-1])
        else:
            decision = (Decision.COMPLY, Decision.VIOLATE)[len(self.asked) % 2]
        return Outcome(Opinion(decision, f"I {decision.value}", 50))


class Reminded(Wavering):
    """Says violate whatever it is told, and above all when reminded."""

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        self.asked.append(request)
        return Outcome(Opinion(Decision.VIOLATE, "As before, I violate", 100))


@cache
def red_light() -> tuple[Briefing, Observation]:
    """A briefing, and what one person sees before their red light."""
    env = VovilleEnv("jaywalk", window=(1, 28, 40))
    observations, infos = env.reset(seed=0)
    briefing = env.briefing()
    policy = pave()
    policy.reset(briefing)
    while observations[WHO]["self"].tolist()[3:5] != [WAITS, 0]:
        observations, *_, infos = env.step(policy.act(observations, infos))
    return briefing, {name: rows.copy() for name, rows in observations[WHO].items()}


def verdicts_on_the_same(
    backbone: Surrogate, guard: str, ticks: int = 6
) -> list[Mapping[str, Any]]:
    """The verdicts of somebody for whom nothing changes but the clock."""
    briefing, seen = red_light()
    policy = pave(backbone, oscillation_guard=guard)
    policy.reset(briefing)
    found: list[Mapping[str, Any]] = []
    for tick in range(WAITS, WAITS + ticks):
        now = {name: rows.copy() for name, rows in seen.items()}
        now["self"][3] = tick
        policy.act({WHO: now}, {})
        found += [record for record in policy.records() if record["type"] == "verdict"]
    assert len(found) == ticks
    return found


def decisions(records: list[Mapping[str, Any]]) -> list[str]:
    return [record["decision"] for record in records]


def test_without_a_guard_the_verdict_swings() -> None:
    backbone = Wavering()
    records = verdicts_on_the_same(backbone, "off")
    assert decisions(records) == ["violate", "comply"] * 3
    assert len(backbone.asked) == 6
    assert not any(request.prior_justifications for request in backbone.asked)
    assert not any(record["reused"] for record in records)


def test_memory_asks_every_time_and_keeps_to_what_was_said() -> None:
    backbone = Wavering()
    records = verdicts_on_the_same(backbone, "memory")
    assert decisions(records) == ["violate"] * 6
    assert not any(record["reused"] for record in records)
    shown = [len(request.prior_justifications) for request in backbone.asked]
    assert shown == [0, 1, 2, 3, 3, 3]


def test_hysteresis_asks_once() -> None:
    backbone = Wavering()
    records = verdicts_on_the_same(backbone, "hysteresis")
    assert decisions(records) == ["violate"] * 6
    assert len(backbone.asked) == 1
    assert [record["reused"] for record in records] == [False] + [True] * 5
    assert pave(Wavering()).options.oscillation_guard.value == "hysteresis"


@pytest.mark.parametrize("guard", ["hysteresis", "memory", "off"])
def test_no_reminder_gets_round_the_gate(guard: str) -> None:
    backbone = Reminded(legitimacy=1)
    records = verdicts_on_the_same(backbone, guard)
    assert decisions(records) == ["comply"] * 6
    assert all(record["gate_leak"] and not record["gate_open"] for record in records)
    reminded = any(request.prior_justifications for request in backbone.asked)
    assert reminded is (guard == "memory")
    assert decisions(verdicts_on_the_same(Reminded(), guard)) == ["violate"] * 6


def types_in(hint: Any) -> set[Any]:
    """Every type that a value of a type can hold, taken apart."""
    if parts := typing.get_args(hint):
        return set[Any]().union(*(types_in(part) for part in parts))
    if not dataclasses.is_dataclass(hint):
        return {hint}
    inner = typing.get_type_hints(hint).values()
    return {hint}.union(*(types_in(part) for part in inner))


def test_a_request_for_legitimacy_has_no_room_for_memory() -> None:
    hints = typing.get_type_hints(LegitimacyRequest)
    assert set(hints) == {"cues", "persona", "rules", "escape", "errand"}
    open_ended = {str, bytes, dict, Mapping, Any, object}
    for name, hint in hints.items():
        if name != "persona":
            assert not types_in(hint) & open_ended, name
    assert not types_in(Escape) & open_ended
    assert types_in(hints["cues"]) == {Cue, Ellipsis}
    assert types_in(VerdictRequest) & open_ended  # reasons given before are strings, and go here


class Listener(Surrogate):
    """Keeps every request for legitimacy, and counts what reminded verdicts of earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[LegitimacyRequest] = []
        self.reminders: Counter[str] = Counter()

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        self.heard.append(request)
        return await super().assess_legitimacy(request)

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        self.reminders.update(request.prior_justifications)
        return await super().generate_verdict(request)


def test_in_a_played_episode_legitimacy_never_hears_what_is_remembered() -> None:
    backbone = Listener()
    policy = pave(backbone, oscillation_guard="memory")
    assert isinstance(policy, PavePolicy)
    env = VovilleEnv("fire_escape", window=(1, 46, 66))
    records = list(EpisodePlayer(env, policy, "pave", seed=0).records())
    kept = {record["text"] for record in records if record["type"] == "memory"}
    kinds = {record["kind"] for record in records if record["type"] == "memory"}
    assert kinds == {"warm-up", "justification", "outcome"}
    assert backbone.reminders and set(backbone.reminders) <= kept
    assert len(backbone.heard) > 50
    for request in backbone.heard:
        said = repr(request)
        assert not any(text in said for text in kept)
