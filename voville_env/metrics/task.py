"""How well people get where they want to go: success weighted by path length."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from voville_env.metrics.episode import Arrival, Episode, Goal
from voville_env.metrics.values import MetricValue, Unit, mean, nothing


def task_score(episode: Episode, unit: Unit) -> MetricValue:
    """Task score: success weighted by path length (SPL, Anderson et al. 2018), mean over goals.

    A goal that is never reached counts 0, another one the shortest way ÷ the way taken, in ticks.
    The shortest way waives every rule. A goal is left out where the person stands on it already,
    where no way leads to it, and where it is withdrawn before the shortest way could end.

    Args:
        episode: The episode.
        unit: Event: a goal that was given.

    Returns:
        Mean over goals; `reached` counts those reached, `left_out` those that count for nobody.
    """
    steps_per_tick = int(episode.header["clock"]["steps_per_tick"])
    scores: list[float] = []
    left_out = 0
    for goal, end in _spans(episode):
        shortest = 0 if goal.steps is None else -(-goal.steps // steps_per_tick)
        if shortest == 0 or end - _absolute(episode, goal) < shortest:
            left_out += 1
            continue
        taken = _ticks_taken(episode, goal, end)
        scores.append(0.0 if taken is None else shortest / max(shortest, taken))
    if not scores:
        return nothing("no goal was given", reached=0, left_out=left_out)
    reached = sum(score > 0 for score in scores)
    size = len(scores)
    extra = {"reached": reached, "left_out": left_out}
    return MetricValue(mean(scores), sum(scores), size, size, None, extra)


def _absolute(episode: Episode, at: Goal | Arrival) -> int:
    return (at.day - 1) * episode.ticks_per_day + at.tick


def _spans(episode: Episode) -> list[tuple[Goal, int]]:
    """Each goal that came to count, and the absolute tick from which on it counts no more.

    Errands that fall due while a person flees wait; the safe zone goes on being their goal. The
    night ends every goal, since everybody wakes at the day's start.
    """
    found: list[tuple[Goal, int]] = []
    of_agent: dict[int, list[Goal]] = defaultdict(list)
    for goal in episode.goals:
        known = of_agent[goal.agent]
        fleeing = bool(known) and known[-1].escaping and known[-1].day == goal.day
        if not (fleeing and goal.escaping):
            known.append(goal)
    for goals in of_agent.values():
        ends = [_absolute(episode, after) for _, after in pairwise(goals)]
        for goal, end in zip(goals, [*ends, episode.ticks], strict=True):
            found.append((goal, min(end, goal.day * episode.ticks_per_day)))
    return found


def _ticks_taken(episode: Episode, goal: Goal, end: int) -> int | None:
    """Ticks from a goal to its first arrival, the tick of arrival included; None without one."""
    start = _absolute(episode, goal)
    for at in episode.arrivals:
        if at.agent == goal.agent and at.safe == goal.escaping:
            when = _absolute(episode, at)
            if start <= when < end:
                return when - start + 1
    return None
