"""Recovery: how long people go on breaking traffic rules once the fire is behind them (C-50)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from scipy import stats

from voville_env.benchmarks.aggregate import Cell
from voville_env.benchmarks.analysis.evidence import Anchor, Recovery
from voville_env.benchmarks.analysis.run import Played, Run, name_of, over_seeds
from voville_env.benchmarks.analysis.section import Section, estimate, estimate_columns
from voville_env.benchmarks.layout import Table
from voville_env.benchmarks.notes import NOT_SCOREABLE, note_of
from voville_env.benchmarks.statistics import Summary, summarise

KEY, TITLE = "recovery", "Recovery: breaking rules after the fire is left behind"
SHOWN = (0, 5, 10, 20)
"""Ticks since the anchor that the table names."""
LEFT = {Anchor.RADIUS: "12 tiles around the fire", Anchor.ORIGIN: "the café"}
"""What is left behind, in words."""
MOST = 60
"""Ticks since the anchor at which the curves end."""


class Moment(NamedTuple):
    """One tick since the anchor.

    `unrecovered` is the share of violators with a violation at or after this tick (Kaplan-Meier),
    `breaking` the share that breaks a rule in it; `at_risk` and `censored` count people: those
    not yet recovered or censored before it, and those censored in it.
    """

    tick: int
    at_risk: int
    censored: int
    unrecovered: Summary | None
    breaking: Summary | None


class Curve(NamedTuple):
    """The recovery of one condition by one anchor."""

    cell: Cell
    anchor: Anchor
    people: int
    censored: int
    mean: Summary | None
    moments: tuple[Moment, ...]


def curves(run: Run) -> list[Curve]:
    """The curves of every scenario with a fire.

    Args:
        run: The run.

    Returns:
        Curves by anchor, scenario and policy; none where nobody violated.
    """
    found = []
    for anchor in Anchor:
        seen = [
            (cell, by_seed)
            for cell, episodes in run.conditions(lambda played: bool(played.windows))
            if (by_seed := _by_seed(episodes, anchor))
        ]
        longest = [item.ticks for _, by_seed in seen for group in by_seed for item in group]
        end = min(MOST, max(longest, default=0) + 1)
        found += [_curve(cell, anchor, by_seed, end) for cell, by_seed in seen]
    return found


def _by_seed(episodes: Iterable[Played], anchor: Anchor) -> list[list[Recovery]]:
    """The recoveries of each seed in which somebody violated."""
    kept = ([item for item in one.recoveries if item.anchor is anchor] for one in episodes)
    return [group for group in kept if group]


def _curve(cell: Cell, anchor: Anchor, by_seed: Sequence[Sequence[Recovery]], end: int) -> Curve:
    everybody = [item for group in by_seed for item in group]
    means = [sum(item.ticks for item in group) / len(group) for group in by_seed]
    shares = [survival(group, range(end + 1)) for group in by_seed]
    return Curve(
        cell=cell,
        anchor=anchor,
        people=len(everybody),
        censored=sum(item.censored for item in everybody),
        mean=summarise(means, limits=(0, math.inf)),
        moments=tuple(
            _moment(tick, [share[tick] for share in shares], by_seed) for tick in range(end + 1)
        ),
    )


def _moment(
    tick: int, unrecovered: Sequence[float], by_seed: Sequence[Sequence[Recovery]]
) -> Moment:
    everybody = [item for group in by_seed for item in group]
    breaking = [sum(tick in item.broken for item in group) / len(group) for group in by_seed]
    return Moment(
        tick=tick,
        at_risk=sum(item.ticks >= tick for item in everybody),
        censored=sum(item.censored and item.ticks == tick for item in everybody),
        unrecovered=over_seeds(unrecovered, len(everybody)),
        breaking=over_seeds(breaking, len(everybody)),
    )


def survival(group: Sequence[Recovery], ticks: Sequence[int]) -> list[float]:
    """Kaplan and Meier's estimate of the share that has not recovered.

    Args:
        group: People who violated.
        ticks: Ticks since the anchor.

    Returns:
        For each of them the share whose last violation is later than that many ticks; who is
        censored counts as at risk until then, not as recovered.
    """
    sample: Any = stats.CensoredData(
        uncensored=[item.ticks for item in group if not item.censored],
        right=[item.ticks for item in group if item.censored],
    )
    return [float(share) for share in stats.ecdf(sample).sf.evaluate(list(ticks))]


def section(run: Run) -> Section:
    """The section of a run.

    Args:
        run: The run.

    Returns:
        A table with both anchors, and a row for each tick of each curve.
    """
    found = curves(run)
    if not found:
        reason = "Nobody broke R1 to R3 in a fire window of this run."
        return Section(KEY, TITLE, nothing=reason)
    rows = tuple(
        {
            "anchor": curve.anchor.value,
            "scenario": curve.cell.scenario,
            "policy": curve.cell.policy,
            "tick": moment.tick,
            "people": curve.people,
            "at_risk": moment.at_risk,
            "censored": moment.censored,
            **_prefixed("unrecovered", moment.unrecovered),
            **_prefixed("breaking", moment.breaking),
        }
        for curve in found
        if curve.cell.scoreable
        for moment in curve.moments
    )
    return Section(KEY, TITLE, tuple(_table(found, anchor) for anchor in Anchor), rows)


def _prefixed(name: str, found: Summary | None) -> dict[str, str | int | float | None]:
    return {f"{name}_{key}": value for key, value in estimate_columns(found).items()}


def _table(found: Sequence[Curve], anchor: Anchor) -> Table:
    shown = [curve for curve in found if curve.anchor is anchor]
    start = f"leaving {LEFT[anchor]}"
    heads = (f"not recovered after {tick} ticks" for tick in SHOWN)
    return Table(
        f"Recovery since {start}",
        ("scenario, policy", "violators", "censored", "T_rec, ticks", *heads),
        tuple(_row(curve) for curve in shown),
        note_of(
            [curve.cell for curve in shown],
            f"Unit: attendee who broke R1 to R3 in the fire window; the clock starts at {start} "
            "for good. Kaplan and Meier's share in each seed, then over seeds, with the 95% "
            "interval. = no variance over seeds. Censored: still breaking rules in the day's last "
            "tick; T_rec counts them with the ticks seen.",
        ),
    )


def _row(curve: Curve) -> tuple[str, ...]:
    first = (name_of(curve.cell), str(curve.people), str(curve.censored))
    if not curve.cell.scoreable:
        return (*first, *(NOT_SCOREABLE,) * (1 + len(SHOWN)))
    return (*first, estimate(curve.mean), *(_after(curve, tick) for tick in SHOWN))


def _after(curve: Curve, tick: int) -> str:
    """The share at a tick; past its end a curve stays as it is."""
    moment = next((one for one in curve.moments if one.tick == tick), curve.moments[-1])
    return estimate(moment.unrecovered)
