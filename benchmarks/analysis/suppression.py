"""Officers: how the violation rate falls towards one, beside the same fire without officers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from voville_env.benchmarks.aggregate import Cell
from voville_env.benchmarks.analysis.evidence import Chance
from voville_env.benchmarks.analysis.run import Played, Run, name_of, over_seeds
from voville_env.benchmarks.analysis.section import Section, estimate, estimate_columns
from voville_env.benchmarks.layout import Table, interval, number
from voville_env.benchmarks.notes import NOT_SCOREABLE, note_of
from voville_env.benchmarks.statistics import OF_RATES, Summary, paired
from voville_env.metrics.conduct import NEAR, ZONE
from voville_env.metrics.values import Case, mean_rate

KEY, TITLE = "suppression", "Officers: violation rate against distance"


class Band(NamedTuple):
    """Distances to the nearest officer, both ends included; without an end it takes in nobody."""

    low: int
    high: int | None

    @property
    def label(self) -> str:
        """The band in words."""
        if self.high is None:
            return f"{self.low} tiles and beyond"
        return f"{self.low}–{self.high} tiles"

    def holds(self, distance: int | None) -> bool:
        """Whether a distance lies in the band.

        Args:
            distance: Tiles; None while no officer is on duty.

        Returns:
            True where it does.
        """
        if distance is None:
            return self.high is None
        return self.low <= distance and (self.high is None or distance <= self.high)


BANDS = (Band(0, NEAR), Band(NEAR + 1, ZONE), Band(ZONE + 1, None))
"""The bands of VR_near, VR_mid and VR_far."""
FINE = tuple(
    Band(*ends)
    for ends in ((0, 1), (2, 3), (4, 6), (7, 9), (10, 12), (13, 16), (17, 21), (22, 30), (31, 127))
)
"""Narrower bands for the curve; ticks without an officer are in none."""


class Kind(StrEnum):
    """What a condition is there for."""

    OFFICERS = "fire and officers"
    NO_OFFICERS = "fire, no officers"
    CONTROL = "officers, nothing burns"


class Rate(NamedTuple):
    """The violation rate of one condition in one band."""

    scenario: str
    policy: str
    kind: Kind
    band: Band
    fine: bool
    ticks: int
    by_seed: dict[int, float]
    share: Summary | None
    cell: Cell


def rates(run: Run) -> list[Rate]:
    """The rates where there are officers and a fire, and of what they are to be held against.

    Args:
        run: The run.

    Returns:
        Rates by scenario and policy, coarse bands before fine ones; empty where no scenario of
        the run has both.
    """
    tested = {played.control for played in run.episodes if played.officers and played.windows}
    found: list[Rate] = []
    for cell, episodes in run.conditions(lambda played: bool(tested)):
        first = episodes[0]
        if first.windows:
            kind = Kind.OFFICERS if first.officers else Kind.NO_OFFICERS
            found += _condition(cell, episodes, kind)
        elif first.scenario in tested:
            found += _condition(cell, episodes, Kind.CONTROL)
    return found


def _condition(cell: Cell, episodes: Iterable[Played], kind: Kind) -> list[Rate]:
    """The bands of one condition, while its fire burns; over the whole run where nothing does."""
    chosen = {
        played.seed: [c for c in played.chances if kind is Kind.CONTROL or _in_window(c, played)]
        for played in episodes
    }
    found = []
    for band, fine in [*((band, False) for band in BANDS), *((band, True) for band in FINE)]:
        inside = {
            seed: [c for c in all_ if band.holds(c.distance)] for seed, all_ in chosen.items()
        }
        by_seed = {
            seed: value for seed, cases in inside.items() if (value := _rate(cases)) is not None
        }
        ticks = sum(map(len, inside.values()))
        share = over_seeds(by_seed.values(), ticks)
        found.append(
            Rate(cell.scenario, cell.policy, kind, band, fine, ticks, by_seed, share, cell)
        )
    return found


def _in_window(chance: Chance, played: Played) -> bool:
    return any(
        day == chance.day and start <= chance.tick < end for day, start, end in played.windows
    )


def _rate(cases: Iterable[Chance]) -> float | None:
    return mean_rate([Case(case.agent, case.broken) for case in cases], "").value


def section(run: Run) -> Section:
    """The section of a run.

    Args:
        run: The run.

    Returns:
        A table of the three bands, and a row for each band, the fine ones too.
    """
    found = rates(run)
    if not any(rate.ticks for rate in found):
        reason = "No scenario of this run has both a fire and officers."
        return Section(KEY, TITLE, nothing=reason)
    rows = tuple(
        {
            "scenario": rate.scenario,
            "policy": rate.policy,
            "condition": rate.kind.value,
            "bands": "fine" if rate.fine else "metric",
            "tiles_from": rate.band.low,
            "tiles_to": rate.band.high,
            "ticks": rate.ticks,
            **estimate_columns(rate.share if rate.cell.scoreable else None),
        }
        for rate in found
    )
    return Section(KEY, TITLE, (_table(found),), rows)


def _table(found: Sequence[Rate]) -> Table:
    conditions: dict[tuple[str, str], list[Rate]] = {}
    for rate in found:
        if not rate.fine:
            conditions.setdefault((rate.scenario, rate.policy), []).append(rate)
    heads = [text for band in BANDS for text in (band.label, "ticks")]
    return Table(
        "Violation rate by distance to the nearest officer",
        ("scenario, policy", *heads, "beyond less near"),
        tuple(_row(group) for group in conditions.values()),
        note_of(
            [group[0].cell for group in conditions.values()],
            "Unit: tick with R1 to R3 at stake, attendees, while the fire burns (in a control: "
            "over the whole run). Mean over agents, then over seeds, with the 95% interval; the "
            "last column is the difference on shared seeds. = no variance over seeds. – nothing "
            "to measure. Ticks without an officer on duty count as beyond.",
        ),
    )


def _row(group: Sequence[Rate]) -> tuple[str, ...]:
    cell = group[0].cell
    name = f"{name_of(cell)} ({group[0].kind})"
    if not cell.scoreable:
        texts = [text for rate in group for text in (NOT_SCOREABLE, str(rate.ticks))]
        return (name, *texts, NOT_SCOREABLE)
    difference = paired(group[-1].by_seed, group[0].by_seed, OF_RATES)
    fall = number(difference.mean)
    if difference.low is not None:
        fall += f"\n{interval(difference.low, difference.high)}"
    texts = [text for rate in group for text in (estimate(rate.share), str(rate.ticks))]
    return (name, *texts, fall)
