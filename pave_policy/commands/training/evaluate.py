"""Plays weights on held-out seeds and measures what they do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pave_policy.commands.training.config import Window
from pave_policy.rl.policy import PPOPolicy
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.metrics import BY_KEY, Unit, applies, load_episode
from voville_env.parallel import VovilleEnv
from voville_env.policy import Policy
from voville_env.scenario import load_world
from voville_env.scenario.suites import suite_of


class Measured(NamedTuple):
    """What is measured of an episode: a name, a metric and its unit; its value, or its count."""

    name: str
    key: str
    unit: Unit
    counted: bool = False


MEASURED = (
    Measured("task_score", "task_score", Unit.EVENT),
    Measured("unwarranted", "false_violation_rate", Unit.TICK, counted=True),
    Measured("unwarranted_unrelated", "false_violation_rate_unrelated", Unit.TICK, counted=True),
    Measured("false_violation_rate", "false_violation_rate", Unit.TICK),
    Measured("false_compliance_rate", "false_compliance_rate", Unit.TICK),
    Measured("vr_near", "vr_near", Unit.TICK),
    Measured("vr_far", "vr_far", Unit.TICK),
    Measured("sanctions", "sanctions", Unit.EVENT),
    Measured("harm", "harm", Unit.AGENT),
)
"""What the penalty study writes down; `unwarranted…` are ticks with a violation, of everybody."""


def held_out(scenario: str, seeds: int) -> range:
    """The first evaluation seeds of a scenario.

    Args:
        scenario: Its name.
        seeds: How many.

    Returns:
        Seeds that no training sees.
    """
    return suite_of(load_world(scenario)).evaluation[:seeds]


def evaluate(
    policy: Policy, scenario: str, seeds: Sequence[int], window: Window
) -> list[dict[str, float | None]]:
    """Plays a window once a seed.

    Args:
        policy: The policy.
        scenario: The scenario, which may carry keys.
        seeds: The seeds.
        window: Ticks that are played.

    Returns:
        One row a seed: `seed` and what `MEASURED` names; None where there is nothing to measure.
    """
    env = VovilleEnv(scenario, window=window)
    rows = []
    for seed in seeds:
        episode = load_episode(EpisodePlayer(env, policy, policy.name, seed).records())
        row: dict[str, float | None] = {"seed": seed}
        for name, key, unit, counted in MEASURED:
            if not applies(BY_KEY[key], episode):
                row[name] = None
                continue
            found = BY_KEY[key].function(episode, unit)
            value = found.numerator if counted else found.value
            row[name] = value if value is None else round(value, 6)
        rows.append(row)
    return rows


def evaluate_weights(
    path: Path, scenario: str, seeds: Sequence[int], window: Window
) -> list[dict[str, float | None]]:
    """Plays a weight file on held-out seeds.

    Args:
        path: The file.
        scenario: The scenario, which may carry keys.
        seeds: The seeds.
        window: Ticks that are played.

    Returns:
        As `evaluate`.
    """
    return evaluate(PPOPolicy(path=str(path)), scenario, seeds, window)
