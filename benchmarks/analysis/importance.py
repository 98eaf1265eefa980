"""Importance against severity on the same fire events (MET-03, the paper's Table 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from voville_env.benchmarks.aggregate import Cell
from voville_env.benchmarks.analysis.evidence import Rating, distance_at
from voville_env.benchmarks.analysis.run import Played, Run
from voville_env.benchmarks.analysis.section import Section
from voville_env.benchmarks.layout import Table, interval, number
from voville_env.benchmarks.notes import note_of
from voville_env.benchmarks.statistics import Summary, summarise
from voville_env.benchmarks.tables import REFERENCE, paper_tables
from voville_env.metrics.values import deviation, mean

KEY, TITLE = "importance", "Importance against severity on the same fire events"
_MOST = 100.0
_RANGE = 20


class Event(NamedTuple):
    """One fire as one person noticed it: importance and severity from 0 to 100, and tiles to it."""

    scenario: str
    policy: str
    seed: int
    agent: str
    day: int
    tick: int
    importance: float
    severity: float
    distance: int


class Scale(NamedTuple):
    """One of the two numbers over all events: mean and sd over events, fullest range."""

    mean: float
    sd: float | None
    modal: tuple[int, int]


class Comparison(NamedTuple):
    """The two numbers of one condition; the gap's interval is over seeds.

    `unshared` counts the fires rated where PAVE's person was elsewhere in that tick.
    """

    cell: Cell
    events: tuple[Event, ...]
    unshared: int
    importance: Scale
    severity: Scale
    gap: Summary | None


def comparisons(run: Run) -> list[Comparison]:
    """Every condition that rates fires, on the events that it shares with PAVE.

    An event is the same where the same person, in the same tick of the same scenario and seed, is
    as far from the fire under both policies: the environment then cues both alike.

    Args:
        run: The run.

    Returns:
        One by scenario and policy, where there are shared events.
    """
    reference = {
        (played.scenario, played.seed): played
        for played in run.episodes
        if played.policy == REFERENCE
    }
    found = []
    for cell, episodes in run.conditions(lambda played: bool(played.ratings)):
        events, unshared = [], 0
        for played in episodes:
            other = reference.get((played.scenario, played.seed))
            same = [
                _event(played, rating, distance)
                for rating in played.ratings
                if (distance := _shared_distance(rating, played, other)) is not None
            ]
            unshared += len(played.ratings) - len(same)
            events += same
        if events:
            found.append(_comparison(cell, events, unshared))
    return found


def _shared_distance(rating: Rating, played: Played, other: Played | None) -> int | None:
    """How far the person is from the fire, where that is as far as in the other episode."""
    if other is None or rating.agent not in other.tracks:
        return None
    here = distance_at(played.tracks[rating.agent], rating.when)
    return here if here == distance_at(other.tracks[rating.agent], rating.when) else None


def _event(played: Played, rating: Rating, distance: int) -> Event:
    return Event(
        *(played.scenario, played.policy, played.seed, rating.agent, *rating.when),
        importance=rating.rescaled,
        severity=rating.severity,
        distance=distance,
    )


def _comparison(cell: Cell, events: Sequence[Event], unshared: int) -> Comparison:
    gaps: dict[int, list[float]] = {}
    for event in events:
        gaps.setdefault(event.seed, []).append(event.severity - event.importance)
    return Comparison(
        cell=cell,
        events=tuple(events),
        unshared=unshared,
        importance=_scale([event.importance for event in events]),
        severity=_scale([event.severity for event in events]),
        gap=summarise([mean(values) for values in gaps.values()], limits=(-_MOST, _MOST)),
    )


def _scale(values: Sequence[float]) -> Scale:
    return Scale(mean(values), deviation(values), modal_range(values))


def modal_range(values: Sequence[float]) -> tuple[int, int]:
    """The fullest of the five ranges of twenty points, as the paper gives it.

    Args:
        values: Numbers from 0 to 100.

    Returns:
        Its ends, the lower one included (100 lies in the last range); the lowest of several.
    """
    last = int(_MOST) - _RANGE
    starts = Counter(min(last, int(value) // _RANGE * _RANGE) for value in values)
    start = min(starts, key=lambda one: (-starts[one], one))
    return start, start + _RANGE


def section(run: Run) -> Section:
    """The section of a run.

    Args:
        run: The run.

    Returns:
        The paper's Table 2 beside ours, and a row for each event.
    """
    found = comparisons(run)
    if not found:
        reason = (
            f"No fire was rated for importance that {REFERENCE} saw too: it needs {REFERENCE} and "
            "vanilla on the same scenario and seeds."
        )
        return Section(KEY, TITLE, nothing=reason)
    rows = tuple(event._asdict() for comparison in found for event in comparison.events)
    return Section(KEY, TITLE, (_table(found),), rows)


def _table(found: Sequence[Comparison]) -> Table:
    rows: list[tuple[str, ...]] = []
    for paper in paper_tables()["table_2"]["rows"]:
        low, high = paper["modal_range"]
        values = (number(paper["mean"], 1), number(paper["sd"], 1), f"{low}–{high}")
        rows.append((f"paper, {paper['name']}", "–", *values, "–"))
    printed = number(paper_tables()["table_2"]["gap"], 0)
    rows.append(("paper, gap", "–", printed, "–", "–", "–"))
    for one in found:
        name, n = f"{one.cell.scenario}, {one.cell.policy}", str(len(one.events))
        rows.append((f"ours, {name}: importance × 10", n, *_texts(one.importance), "–"))
        rows.append((f"– severity, {REFERENCE}", n, *_texts(one.severity), "–"))
        gap = one.gap
        between = interval(gap.low, gap.high) if gap else "–"
        rows.append(("– gap", n, number(gap.mean if gap else None, 1), "–", "–", between))
    unshared = sum(one.unshared for one in found)
    return Table(
        "Table 2 of the paper beside ours",
        ("number", "events", "mean", "sd", "modal range", "95% interval"),
        tuple(rows),
        note_of(
            [one.cell for one in found],
            "Unit: one person noticing one fire, both numbers from 0 to 100; mean and sd over "
            "events, the gap and its 95% interval over seeds. The modal range is the fullest of "
            "five ranges of twenty. An event is the same where the person is as far from the fire "
            f"in that tick under both policies; {unshared} rated without such a match are left "
            f"out. {_reach(found)}The paper gives neither n nor intervals.",
        ),
    )


def _reach(found: Sequence[Comparison]) -> str:
    """Why severity stays below the paper's range, where it does."""
    events = [event for one in found for event in one.events]
    severities = [event.severity for event in events]
    low, high = paper_tables()["table_2"]["rows"][1]["modal_range"]
    if max(severities) >= low:
        return ""
    tiles = [event.distance for event in events]
    return (
        f"Severity is that of the cue which {REFERENCE} is given too. It cannot reach the paper's "
        f"{low}–{high} here: it falls with the distance (by the paper's formula 95 − 5·distance), "
        f"and people are {min(tiles)} to {max(tiles)} tiles from the fire when they notice it, "
        f"which leaves {min(severities):g} to {max(severities):g}. "
    )


def _texts(scale: Scale) -> tuple[str, str, str]:
    low, high = scale.modal
    return number(scale.mean, 1), number(scale.sd, 1), f"{low}–{high}"
