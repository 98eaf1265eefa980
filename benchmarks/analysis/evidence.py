"""What the analyses keep of one episode: small records, so that a whole run fits in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from voville_env.events import Event
from voville_env.metrics.episode import JAYWALK, Episode, When
from voville_env.metrics.recovery import origin_anchor, radius_anchor
from voville_env.metrics.values import TREL, window_rows


class Anchor(StrEnum):
    """Where the clock of a recovery starts (C-50)."""

    RADIUS = "12 tiles"
    ORIGIN = "café"


_ANCHORS: dict[Anchor, Callable[[Episode, int], int]] = {
    Anchor.RADIUS: radius_anchor,
    Anchor.ORIGIN: origin_anchor,
}


class Said(NamedTuple):
    """A verdict that a policy says it gave, with the threshold that it met.

    `leak` marks that the model said violate below the threshold, whatever the gate made of it;
    `fallback` that no model gave the verdict.
    """

    agent: str
    legitimacy: int
    threshold: int
    violates: bool
    leak: bool
    fallback: bool


class Chance(NamedTuple):
    """A tick in which an attendee has one of R1 to R3 at stake, and the nearest officer's tiles."""

    agent: int
    day: int
    tick: int
    distance: int | None
    broken: bool


class Recovery(NamedTuple):
    """When an attendee who broke R1 to R3 in the fire window was done with it.

    `ticks` counts from the anchor to the last violation of the day; `censored` says that the day
    ended before it was over; `broken` holds the ticks since the anchor with a violation.
    """

    anchor: Anchor
    ticks: int
    censored: bool
    broken: frozenset[int]


class Exposure(NamedTuple):
    """A commuter's day from the first jaywalk seen: ticks to the first of their own, if any."""

    day: int
    converted: int | None


class Rating(NamedTuple):
    """How important a policy says that a fire is, from 0 to 100, and the severity of its cue."""

    agent: str
    when: When
    rescaled: float
    severity: float


Track = tuple[tuple[When, int | None], ...]
"""A person's distance to the fire, noted when it changes."""


def said(records: Iterable[Event]) -> tuple[Said, ...]:
    """The verdicts that name a threshold.

    Args:
        records: Records of one log.

    Returns:
        One a verdict, in the order of the log.
    """
    return tuple(
        Said(
            agent=record["agent"],
            legitimacy=record["legitimacy"],
            threshold=record["threshold"],
            violates=record["decision"] == "violate",
            leak=record["gate_leak"],
            fallback=record.get("fallback") is not None,
        )
        for record in records
        if record["type"] == "verdict" and record.get("threshold") is not None
    )


def ratings(records: Iterable[Event]) -> tuple[Rating, ...]:
    """The fires that a policy rated; a rating that no model gave is left out.

    Args:
        records: Records of one log.

    Returns:
        One an event.
    """
    return tuple(
        Rating(
            record["agent"],
            (record["day"], record["tick"]),
            float(record["rescaled"]),
            float(record["severity"]),
        )
        for record in records
        if record["type"] == "importance"
        and record.get("severity")
        and record.get("fallback") is None
        and "fire" in record["description"].lower()
    )


def chances(episode: Episode) -> tuple[Chance, ...]:
    """Every tick with R1 to R3 at stake for an attendee, in the fire window or not.

    Args:
        episode: The episode.

    Returns:
        One a person and tick.
    """
    return tuple(
        Chance(row.agent, row.day, row.tick, row.dist_officer, bool(row.violated & TREL))
        for row in episode.rows
        if row.agent in episode.attendees and row.stake & TREL
    )


def recoveries(episode: Episode) -> tuple[Recovery, ...]:
    """How long the attendees who broke R1 to R3 in the fire window went on, by both anchors.

    Args:
        episode: The episode.

    Returns:
        Two a person.
    """
    broken: dict[int, list[int]] = {
        row.agent: [] for row in window_rows(episode) if row.violated & TREL
    }
    for row in episode.rows:
        if row.agent in broken and row.day == episode.fire_day and row.violated & TREL:
            broken[row.agent].append(row.tick)
    found = []
    for anchor, start_of in _ANCHORS.items():
        for agent, ticks in sorted(broken.items()):
            start, end = start_of(episode, agent), max(ticks) + 1
            since = frozenset(tick - start for tick in ticks if tick >= start)
            censored = end >= episode.end_of_fire_day
            found.append(Recovery(anchor, max(0, end - start), censored, since))
    return tuple(found)


def exposures(episode: Episode) -> tuple[Exposure, ...]:
    """The days on which a commuter saw somebody jaywalk.

    Args:
        episode: The episode.

    Returns:
        One a commuter and day; a sight counts from the next tick.
    """
    crossings: dict[tuple[int, int], list[int]] = {}
    for row in episode.rows:
        if row.violated & JAYWALK:
            crossings.setdefault((row.agent, row.day), []).append(row.tick)
    found = []
    for agent in sorted(episode.commuters):
        seen: dict[int, int] = {}
        for day, tick in episode.observers[agent]:
            seen.setdefault(day, tick)
        for day, first in seen.items():
            after = [tick - first for tick in crossings.get((agent, day), []) if tick > first]
            found.append(Exposure(day, min(after, default=None)))
    return tuple(found)


def tracks(episode: Episode) -> dict[str, Track]:
    """How far everybody is from the fire.

    Args:
        episode: The episode.

    Returns:
        One track a person, by id.
    """
    return {
        agent: tuple((state.when, state.dist_fire) for state in states)
        for agent, states in zip(episode.agents, episode.states, strict=True)
    }


def distance_at(track: Track, when: When) -> int | None:
    """A person's distance to the fire at a time.

    Args:
        track: Where they are.
        when: Day and tick.

    Returns:
        Tiles; None where it is not known.
    """
    found = bisect_right(track, when, key=lambda entry: entry[0])
    return track[found - 1][1] if found else None
