"""The three failure modes that the paper names, for each policy (MET-09)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from voville_env.benchmarks.aggregate import Cell
from voville_env.benchmarks.analysis.evidence import Exposure
from voville_env.benchmarks.analysis.run import Played, Run, name_of, over_seeds
from voville_env.benchmarks.analysis.section import Row, Section, estimate, estimate_columns
from voville_env.benchmarks.layout import Table, interval
from voville_env.benchmarks.notes import NOT_SCOREABLE, not_scoreable, note_of
from voville_env.benchmarks.statistics import Summary
from voville_env.metrics import BY_KEY

KEY, TITLE = "failure_modes", "The three failure modes"
OBEYS, CONVENIENCE, CONTAGION = (
    "keeps the rule in a real emergency",
    "breaks the rule for convenience",
    "follows others until it is the norm",
)
COINCIDE = "Lines of the figure at the same value, as at 0, lie on each other."
LONGEST = 30
"""Ticks since the first jaywalk seen at which the curve of conversion ends."""
_SHOWN = 10


class Measure(NamedTuple):
    """One number of a failure mode: a metric, or 1 less it."""

    mode: str
    head: str
    metric: str
    less: bool = False


MEASURES = (
    Measure(OBEYS, "1 − VR_cafe, exposed", "vr_cafe_exposed", less=True),
    Measure(CONVENIENCE, "CR_D1", "cr_d1"),
    Measure(CONVENIENCE, "CR_D2", "cr_d2"),
    Measure(CONVENIENCE, "violations before the fire", "pre_fire_violations"),
    Measure(CONTAGION, "CR_D1, commuters", "cr_d1_agent"),
    Measure(CONTAGION, "CR_D2, commuters", "cr_d2_agent"),
    Measure(CONTAGION, "Day-2 rate", "day2_rate"),
    Measure(CONTAGION, "non-observer conversion", "non_observer_conversion"),
)


class Mode(NamedTuple):
    """One measure of one condition."""

    measure: Measure
    cell: Cell
    found: Summary


class Spread(NamedTuple):
    """Conversion of exposed commuters on one day: the share by each tick since the first sight."""

    cell: Cell
    day: int
    people: int
    shares: tuple[Summary | None, ...]


def modes(run: Run) -> list[Mode]:
    """Every measure that has a value.

    Args:
        run: The run.

    Returns:
        Measures in their order, then scenarios and policies; controls are left out.
    """
    found = []
    for measure in MEASURES:
        metric = BY_KEY[measure.metric]
        for cell in run.cells:
            value = None if cell.is_control else cell.summary(metric, metric.units[0])
            if value is not None and _belongs(measure, run, cell):
                found.append(Mode(measure, cell, _one_less(value) if measure.less else value))
    return found


def _belongs(measure: Measure, run: Run, cell: Cell) -> bool:
    """Contagion needs somebody to catch it from; who obeys an officer does not fail in a fire."""
    played = next(one for one in run.episodes if one.scenario == cell.scenario)
    if measure.mode == OBEYS:
        return not played.officers
    return measure.mode != CONTAGION or played.peers


def _one_less(found: Summary) -> Summary:
    low = None if found.high is None else 1 - found.high
    high = None if found.low is None else 1 - found.low
    return replace(found, mean=1 - found.mean, low=low, high=high)


def spreads(run: Run) -> list[Spread]:
    """How conversion grows from the first jaywalk that a commuter sees on a day.

    Args:
        run: The run.

    Returns:
        One by scenario, policy and day.
    """
    found = []
    for cell, episodes in run.conditions(lambda played: played.peers and not played.is_control):
        days = sorted({item.day for played in episodes for item in played.exposures})
        found += [_spread(cell, day, episodes) for day in days]
    return found


def _spread(cell: Cell, day: int, episodes: Iterable[Played]) -> Spread:
    on_day = [[item for item in played.exposures if item.day == day] for played in episodes]
    by_seed = [group for group in on_day if group]
    people = sum(map(len, by_seed))
    shares = (
        over_seeds((_converted(group, tick) for group in by_seed), people)
        for tick in range(LONGEST + 1)
    )
    return Spread(cell, day, people, tuple(shares))


def _converted(group: Sequence[Exposure], tick: int) -> float:
    done = sum(item.converted is not None and item.converted <= tick for item in group)
    return done / len(group)


def section(run: Run) -> Section:
    """The section of a run.

    Args:
        run: The run.

    Returns:
        A table for each mode, and a row for each measure and each tick of a curve.
    """
    found, curves = modes(run), spreads(run)
    if not found and not curves:
        return Section(KEY, TITLE, nothing="No scenario of this run has a fire or jaywalkers.")
    tables = [
        _table(mode, [item for item in found if item.measure.mode == mode], curves)
        for mode in (OBEYS, CONVENIENCE, CONTAGION)
        if any(item.measure.mode == mode for item in found)
    ]
    return Section(KEY, TITLE, tuple(tables), (*map(_row_of, found), *_curve_rows(curves)))


def _row_of(item: Mode) -> Row:
    return {
        "mode": item.measure.mode,
        "measure": item.measure.head,
        "scenario": item.cell.scenario,
        "policy": item.cell.policy,
        "day": None,
        "tick": None,
        **estimate_columns(item.found if item.cell.scoreable else None),
    }


def _curve_rows(curves: Iterable[Spread]) -> Iterable[Row]:
    for curve in curves:
        for tick, share in enumerate(curve.shares):
            yield {
                "mode": CONTAGION,
                "measure": "converted since the first jaywalk seen",
                "scenario": curve.cell.scenario,
                "policy": curve.cell.policy,
                "day": curve.day,
                "tick": tick,
                **estimate_columns(share if curve.cell.scoreable else None),
            }


def _table(mode: str, found: Sequence[Mode], curves: Sequence[Spread]) -> Table:
    measures = [one for one in MEASURES if one.mode == mode]
    cells: dict[str, Cell] = {name_of(item.cell): item.cell for item in found}
    shown = [one for one in curves if mode == CONTAGION]
    days = sorted({one.day for one in shown})
    heads = [f"{one.head} ({BY_KEY[one.metric].units[0]})" for one in measures]
    heads += [f"converted in {_SHOWN} ticks, day {day}" for day in days]
    rows = [
        (
            name,
            str(len(cell.scored)),
            *(_text(found, measure, cell) for measure in measures),
            *(_curve_text(shown, cell, day) for day in days),
        )
        for name, cell in cells.items()
    ]
    return Table(
        f"Failure mode: {mode}",
        ("scenario, policy", "seeds", *heads),
        tuple(rows),
        note_of(cells.values(), _NOTES[mode]),
    )


_STATED = "Mean over seeds and 95% interval. = no variance over seeds. – nothing to measure."
_NOTES = {
    OBEYS: "1 less the share of opportunities taken, attendees in the fire window; scenarios with "
    "officers are left out, as there keeping a rule may be obeying an order. "
    f"{_STATED}",
    CONVENIENCE: "Rates of commuters at the red light who have just seen somebody cross; the "
    f"violations before the fire are a count, of anybody and any rule. {_STATED}",
    CONTAGION: "Converted: commuters who break R1 or R3 within so many ticks after the first "
    f"jaywalk that they see on a day ÷ commuters who see one. {COINCIDE} {_STATED}",
}


def _text(found: Sequence[Mode], measure: Measure, cell: Cell) -> str:
    item = next((one for one in found if one.measure is measure and one.cell is cell), None)
    if item is None:
        return "–"
    if cell.scoreable:
        return estimate(item.found)
    metric = BY_KEY[measure.metric]
    bounds = cell.bounds(metric, metric.units[0])
    if measure.less and bounds is not None:
        return f"{NOT_SCOREABLE}\n{interval(1 - bounds[1], 1 - bounds[0])}"
    return not_scoreable(cell, metric, metric.units[0])


def _curve_text(curves: Sequence[Spread], cell: Cell, day: int) -> str:
    curve = next((one for one in curves if one.cell is cell and one.day == day), None)
    if curve is None:
        return "–"
    text = estimate(curve.shares[_SHOWN]) if cell.scoreable else NOT_SCOREABLE
    return f"{text}\nof {curve.people}"
