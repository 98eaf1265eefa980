"""The task score: success weighted by path length, from hand-written logs and from played ones."""

from __future__ import annotations

from typing import Any

import pytest
from log_builder import LogBuilder

from voville_env.benchmarks.play import EpisodePlayer
from voville_env.events import LogError
from voville_env.metrics import BY_KEY, MetricValue, Unit, load_episode
from voville_env.parallel import VovilleEnv
from voville_env.policy import load_policy


def score(log: LogBuilder) -> MetricValue:
    return BY_KEY["task_score"].function(load_episode(log.records()), Unit.EVENT)


def goal(log: LogBuilder, tick: int, steps: int | None, **fields: Any) -> None:
    base: dict[str, Any] = {"goal": "clinic", "late": False, "escaping": False, "steps": steps}
    log.add("goal_change", "CC", tick, **(base | fields))


def arrival(log: LogBuilder, tick: int, **fields: Any) -> None:
    base: dict[str, Any] = {"goal": "clinic", "safe": False, "at": [0, 0]}
    log.add("arrival", "CC", tick, **(base | fields))


@pytest.mark.parametrize(("arrived", "expected"), [(12, 1.0), (14, 3 / 5), (10, 1.0), (None, 0.0)])
def test_a_goal_counts_the_shortest_way_over_the_way_taken(
    arrived: int | None, expected: float
) -> None:
    log = LogBuilder()
    goal(log, 10, 12)  # three ticks of four steps, the first one included
    if arrived is not None:
        arrival(log, arrived)
    found = score(log)
    assert found.value == pytest.approx(expected)
    assert found.extra["reached"] == (arrived is not None)


def test_goals_that_nobody_could_reach_are_left_out() -> None:
    log = LogBuilder()
    goal(log, 5, 0)
    goal(log, 10, None)
    goal(log, 20, 9)
    goal(log, 22, 8)  # withdrew one that takes three ticks
    goal(log, 24, 9)  # withdrew one that takes two
    found = score(log)
    assert (found.denominator, found.value, found.extra["left_out"]) == (2, 0, 3)


def test_an_errand_that_falls_due_in_flight_changes_nothing() -> None:
    log = LogBuilder()
    goal(log, 50, 16, escaping=True)
    goal(log, 52, 40, escaping=True)
    arrival(log, 57, safe=True)
    goal(log, 150, 8)
    arrival(log, 152)
    found = score(log)
    assert found.denominator == 2
    assert found.value == pytest.approx((4 / 8 + 2 / 3) / 2)


def test_the_night_and_other_arrivals_end_nothing_and_reach_nothing() -> None:
    log = LogBuilder()
    goal(log, 990, 20)
    arrival(log, 5, day=2)
    goal(log, 10, 20, day=2)
    arrival(log, 12, day=2, safe=True)
    assert (score(log).value, score(log).denominator) == (0, 2)


def test_without_goals_and_in_old_logs_there_is_no_score() -> None:
    log = LogBuilder()
    assert score(log).value is None
    log.add("goal_change", "CC", 5, goal="clinic", late=False, escaping=False)
    assert score(log).value is None
    goal(log, 10, -1)
    with pytest.raises(LogError, match="steps"):
        score(log)


@pytest.mark.parametrize("window", [(1, 28, 60), (1, 30, 60)])
def test_a_played_log_says_how_far_each_goal_was(window: tuple[int, int, int]) -> None:
    """Also where the goal comes with the first tick that is played."""
    found = {}
    for policy in ("lawful", "random"):
        env = VovilleEnv("jaywalk", window=window)
        player = EpisodePlayer(env, load_policy(policy), policy, 0)
        records = list(player.records())
        found[policy] = [
            (record["agent"], record["tick"], record["steps"])
            for record in records
            if record["type"] == "goal_change"
        ]
        last = load_episode(records)
        assert BY_KEY["task_score"].function(last, Unit.EVENT).denominator == 2
    assert found["lawful"] == [("CC", 30, 25), ("KQ", 48, 33)]
    begins_with_the_goal = window[1] == 30
    assert (found["random"][0] == ("CC", 30, 25)) is begins_with_the_goal
