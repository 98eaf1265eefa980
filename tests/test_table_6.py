"""On the surrogate, by calibration, the conditions fail in the directions of Table 6."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from pave_kit import cases

from pave_policy.assessment import Case, assess
from pave_policy.backbone import run_now
from pave_policy.conditions import pave
from pave_policy.records import GateMode
from pave_policy.site import Site
from pave_policy.surrogate import Surrogate
from pave_policy.verdict import give_verdict
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.benchmarks.tables import TABLE_6, paper_tables
from voville_env.core.codes import Decision
from voville_env.errors import InvalidValueError
from voville_env.metrics import BY_KEY, load_episode, measure
from voville_env.parallel import VovilleEnv
from voville_env.policy import load_policy

SEEDS = range(5)
SLIPS = "slip_rate=10"


@cache
def measured(scenario: str, policy: str, seed: int) -> Mapping[str, Any]:
    env = VovilleEnv(scenario, days=1)
    player = EpisodePlayer(env, load_policy(policy), policy, seed)
    return measure(load_episode(player.records()))


def rate(scenario: str, key: str, policy: str) -> float:
    unit = BY_KEY[key].units[0]
    values = [measured(scenario, policy, seed)[key][unit]["value"] for seed in SEEDS]
    return float(mean(value for value in values if value is not None))


def direction(key: str, policy: str, reference: str) -> tuple[float, float]:
    """A condition's difference from PAVE: ours, and the paper's."""
    column, _, scenario, metric, _ = next(item for item in TABLE_6 if item[0] == key)
    rows = {row["policy"]: row for row in paper_tables()["table_6"]["rows"]}
    printed = rows[policy.partition("@")[0]][column][0] - rows["pave"][column][0]
    return rate(scenario, metric, policy) - rate(scenario, metric, reference), printed


@pytest.mark.parametrize("key", ["vr_cafe", "urv", "ocr", "vr_near", "cr_d1"])
def test_vanilla_fails_in_the_papers_directions(key: str) -> None:
    ours, printed = direction(key, "vanilla", "pave")
    assert ours * printed > 0 and abs(ours) > 0.05


@pytest.mark.parametrize("key", ["vr_cafe", "urv", "cr_d1"])
def test_without_the_gate_it_fails_in_the_papers_directions(key: str) -> None:
    ours, printed = direction(key, "pave-no-gate", "pave")
    assert ours * printed > 0 and abs(ours) > 0.05


@pytest.mark.parametrize("key", ["ocr", "vr_near"])
def test_near_officers_the_gate_counts_only_for_a_model_that_slips(key: str) -> None:
    ours, _ = direction(key, "pave-no-gate", "pave")
    assert ours == 0, "perceived risk alone keeps the surrogate from breaking a rule there"
    ours, printed = direction(key, f"pave-no-gate@{SLIPS}", f"pave@{SLIPS}")
    assert ours * printed > 0


def test_slips_get_past_a_gate_that_is_only_told_and_never_past_one_in_code() -> None:
    told, kept = (f"{name}@{SLIPS}" for name in ("pave-prompt-gate", "pave"))
    assert rate("fire_escape_officers", "urv", kept) == rate("jaywalk", "cr_d1", kept) == 0
    assert rate("fire_escape_officers", "urv", told) > 0
    assert rate("fire_escape_officers", "gate_leak", kept) == pytest.approx(0.1, abs=0.03)
    assert rate("fire_escape_officers", "gate_leak", "pave") == 0


def opinions(case: Case, surrogate: Surrogate, seed: int) -> list[Decision]:
    """What is said of one case without a gate, in each of a hundred ticks."""
    assessment = run_now(assess(Surrogate(), case)).value
    assert assessment is not None
    found = []
    for tick in range(100):
        here = surrogate.at(Site(seed=seed, agent="CC", day=1, tick=tick), Counter())
        found.append(run_now(give_verdict(here, case, assessment, GateMode.OFF)).decision)
    return found


@given(case=cases())
def test_a_slip_is_the_opposite_in_a_share_of_the_ticks(case: Case) -> None:
    (always,) = set(opinions(case, Surrogate(), 0))
    slipping = Surrogate().adjusted(slip_rate=20)
    said = opinions(case, slipping, 0)
    assert 8 <= sum(decision is not always for decision in said) <= 32
    assert said == opinions(case, slipping, 0) != opinions(case, slipping, 1)


@pytest.mark.parametrize("rate", [-1, 51, 2.5, True, "10"])
def test_a_slip_rate_is_a_percentage_up_to_half(rate: object) -> None:
    with pytest.raises(InvalidValueError, match="slip_rate"):
        pave(slip_rate=rate)
