"""Escape and recovery: when people left, arrived and went back to keeping the rules (D1, D3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from voville_env.metrics.conduct import ZONE, origin_zone
from voville_env.metrics.episode import Episode, State
from voville_env.metrics.values import (
    TREL,
    MetricValue,
    Unit,
    mean,
    nothing,
    share,
    window_rows,
)

Inside = Callable[[State], bool]
Anchor = Callable[[Episode, int], int]
ACUTE = 70
"""Severity above which the paper speaks of the fire in the café (F1.1)."""


def _stays(episode: Episode, agent: int) -> Iterator[tuple[State, int, int]]:
    """Positions of one person in the fire window, each with its first tick and the one after."""
    states = [s for s in episode.states[agent] if s.when[0] == episode.fire_day]
    for number, state in enumerate(states):
        last = number + 1 == len(states)
        until = episode.extinction if last else states[number + 1].when[1]
        start = max(state.when[1], episode.ignition)
        end = min(until, episode.extinction, episode.end_of_fire_day)
        if start < end:
            yield state, start, end


def left_for_good(episode: Episode, agent: int, inside: Inside) -> int:
    """First tick from which a person stays out of somewhere, at the latest when the fire is out.

    Args:
        episode: An episode with a fire.
        agent: Who.
        inside: Whether a position is in there.

    Returns:
        A tick of the fire day; the ignition for who is never inside.
    """
    ends = [end for state, _, end in _stays(episode, agent) if inside(state)]
    return max(ends, default=episode.ignition)


def radius_anchor(episode: Episode, agent: int) -> int:
    """First tick from which the fire stays more than 12 tiles away (C-50).

    Args:
        episode: An episode with a fire.
        agent: Who.

    Returns:
        A tick of the fire day.
    """
    return left_for_good(
        episode, agent, lambda state: state.dist_fire is not None and state.dist_fire <= ZONE
    )


def origin_anchor(episode: Episode, agent: int) -> int:
    """First tick out of the café for good (C-50), the one to hold against the paper's 4.2.

    Args:
        episode: An episode with a fire.
        agent: Who.

    Returns:
        A tick of the fire day.
    """
    origin = origin_zone(episode)
    return left_for_good(episode, agent, lambda state: state.zone == origin)


def severity_anchor(episode: Episode, agent: int) -> int:
    """First tick from which the severity of the fire stays at 70 or below (C-27, C-50).

    Args:
        episode: An episode with a fire.
        agent: Who.

    Returns:
        A tick of the fire day.
    """
    hot = max(fire.tiles_at(ACUTE + 1) for fire in episode.fires)
    return left_for_good(
        episode, agent, lambda state: state.dist_fire is not None and state.dist_fire <= hot
    )


def extinguish_anchor(episode: Episode, agent: int) -> int:
    """The tick at which the fire is out, the same for everybody (C-50).

    Args:
        episode: An episode with a fire.
        agent: Who; all have the same.

    Returns:
        A tick of the fire day.
    """
    return min(episode.extinction, episode.end_of_fire_day)


def t_rec(episode: Episode, unit: Unit, *, anchor: Anchor) -> MetricValue:
    """T_rec (MET-01, C-50): ticks from an anchor to the last violation of R1 to R3 on that day.

    Who still violates in the day's last tick is censored: counted in `censored`, and in the mean
    with the ticks seen, which is the least that the true value can be.

    Args:
        episode: The episode.
        unit: Agent.
        anchor: Where the clock starts.

    Returns:
        Mean over the attendees who violated in the window, floored at 0 each.
    """
    who = {row.agent for row in window_rows(episode) if row.violated & TREL}
    if not who:
        return nothing("nobody violated", censored=0)
    last = {agent: -1 for agent in who}
    for row in episode.rows:
        if row.agent in who and row.day == episode.fire_day and row.violated & TREL:
            last[row.agent] = row.tick
    ticks = [max(0, last[agent] + 1 - anchor(episode, agent)) for agent in sorted(who)]
    censored = sum(1 for tick in last.values() if tick + 1 >= episode.end_of_fire_day)
    return _mean_of(ticks, censored)


def _mean_of(ticks: list[int], censored: int) -> MetricValue:
    size = len(ticks)
    return MetricValue(mean(ticks), sum(ticks), size, size, None, {"censored": censored})


def departure(episode: Episode, unit: Unit) -> MetricValue:
    """Departure time (D3): ticks from ignition until an attendee has left the café for good.

    Args:
        episode: The episode.
        unit: Agent.

    Returns:
        Mean over the attendees who were in the café; who stayed counts with the whole window, and
        in `censored`.
    """
    origin, start = origin_zone(episode), (episode.fire_day, episode.ignition)
    ticks = []
    for agent in sorted(episode.attendees):
        state = episode.state_at(agent, start)
        if state is not None and state.zone == origin:
            ticks.append(origin_anchor(episode, agent) - episode.ignition)
    if not ticks:
        return nothing("nobody was there", censored=0)
    whole = min(episode.extinction, episode.end_of_fire_day) - episode.ignition
    censored = sum(1 for tick in ticks if tick >= whole)
    return _mean_of(ticks, censored)


def _safe_ticks(episode: Episode) -> dict[int, int]:
    """First safe arrival of each attendee in the window, in ticks from ignition."""
    found: dict[int, int] = {}
    for at in episode.arrivals:
        if at.safe and at.agent in episode.attendees and episode.in_window(at.day, at.tick):
            found.setdefault(at.agent, at.tick - episode.ignition)
    return found


def reached_safety(episode: Episode, unit: Unit) -> MetricValue:
    """Attendees who reached the safe zone while the fire burned ÷ attendees.

    Args:
        episode: The episode.
        unit: Agent.

    Returns:
        The share.
    """
    return share(len(_safe_ticks(episode)), len(episode.attendees), "no attendees")


def arrival(episode: Episode, unit: Unit) -> MetricValue:
    """Arrival time (D3): ticks from ignition to the safe zone.

    Args:
        episode: The episode.
        unit: Agent.

    Returns:
        Mean over the attendees who arrived; `censored` counts the others.
    """
    found = _safe_ticks(episode)
    missing = len(episode.attendees) - len(found)
    if not found:
        return nothing("nobody arrived", censored=missing)
    ticks = [found[agent] for agent in sorted(found)]
    return _mean_of(ticks, missing)


def fire_distance(episode: Episode, unit: Unit) -> MetricValue:
    """Hazard proximity (D3): mean distance of attendees to the fire while it burned, in tiles.

    Args:
        episode: The episode.
        unit: Agent.

    Returns:
        Mean over agents of the mean over ticks; `least` is the smallest distance of anybody.
    """
    means: list[float] = []
    least: list[int] = []
    for agent in sorted(episode.attendees):
        total = ticks = 0
        for state, start, end in _stays(episode, agent):
            if state.dist_fire is not None:
                total += state.dist_fire * (end - start)
                ticks += end - start
                least.append(state.dist_fire)
        if ticks:
            means.append(total / ticks)
    if not means:
        return nothing("no positions", least=None)
    size = len(means)
    return MetricValue(mean(means), sum(means), size, size, None, {"least": min(least)})


def harm(episode: Episode, unit: Unit) -> MetricValue:
    """Harm of an attendee: severity / 100 where they are, summed over the ticks of the run.

    Args:
        episode: The episode.
        unit: Agent.

    Returns:
        Mean over attendees.
    """
    harms = [episode.harm[agent] for agent in sorted(episode.attendees)]
    if not harms:
        return nothing("no attendees")
    return MetricValue(mean(harms), sum(harms), len(harms), len(harms))
