"""Figures that set policies side by side: failure modes, importance, the paper's table, sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from voville_env.benchmarks.analysis import expectations, failure_modes, importance
from voville_env.benchmarks.analysis.run import Run, run_of
from voville_env.benchmarks.statistics import Difference
from voville_env.benchmarks.tables import paper_tables
from voville_env.errors import InvalidValueError, invalid
from voville_env.metrics import BY_KEY
from voville_env.viewer.style import (
    GREY,
    OKABE_ITO,
    Look,
    bars,
    canvas,
    drawing,
    legend_above,
    looks,
    need,
    offset,
    rate_axis,
    reach,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INTERVALS_AT = (10, 20, 30)
_FIRST, _SECOND = OKABE_ITO[0], OKABE_ITO[1]


class SweepPoint(NamedTuple):
    """One value of a swept parameter: a metric's mean over seeds and its 95% interval."""

    value: str | float
    metric: str
    mean: float
    low: float | None
    high: float | None


def failure_modes_figure(source: Path | str | Run) -> Figure:
    """The three failure modes side by side, policy by policy.

    Args:
        source: A run folder, or a run that was read.

    Returns:
        The figure.

    Raises:
        InvalidValueError: If the run has neither fires nor jaywalkers.
        MissingExtraError: If matplotlib is not installed.
    """
    run = run_of(source)
    rates = [
        mode
        for mode in failure_modes.modes(run)
        if mode.cell.scoreable and mode.measure.metric != "pre_fire_violations"
    ]
    spreads = [spread for spread in failure_modes.spreads(run) if spread.cell.scoreable]
    need([*rates, *spreads], "a fire or jaywalkers")
    seen = looks(run.policies())
    days = sorted({spread.day for spread in spreads})
    with drawing():
        heights = [2.2 + 0.36 * len(run.policies()), *([4.2] if days else [])]
        figure = canvas(10, sum(heights))
        halves = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, mode in zip(
            halves[0].subplots(1, 2), (failure_modes.OBEYS, failure_modes.CONVENIENCE), strict=True
        ):
            _dots(axes, [one for one in rates if one.measure.mode == mode], run.policies())
            axes.set_title(mode)
        if days:
            panels = halves[1].subplots(1, len(days), squeeze=False)[0]
            for axes, day in zip(panels, days, strict=True):
                _conversion(axes, [one for one in spreads if one.day == day], seen)
                axes.set_title(f"{failure_modes.CONTAGION}: day {day}")
            halves[1].supxlabel(failure_modes.COINCIDE, fontsize=8)
    return figure


def _dots(axes: Axes, found: Sequence[failure_modes.Mode], policies: Sequence[str]) -> None:
    """One line a policy, one mark a measure and scenario."""
    series = list(dict.fromkeys((one.cell.scenario, one.measure.head) for one in found))
    for number, (scenario, head) in enumerate(series):
        kept = [one for one in found if (one.cell.scenario, one.measure.head) == (scenario, head)]
        look = looks([str(key) for key in series])[str((scenario, head))]
        places = [policies.index(one.cell.policy) + offset(number, len(series)) for one in kept]
        lengths = [reach(one.found) for one in kept]
        seeds = max(one.found.n for one in kept)
        axes.errorbar(
            [one.found.mean for one in kept],
            places,
            xerr=([a for a, _ in lengths], [b for _, b in lengths]),
            fmt=look.marker,
            color=look.color,
            capsize=2,
            label=f"{head}, {scenario} (n = {seeds} seeds)",
        )
    axes.set_yticks(range(len(policies)), policies)
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.set_xlim(-0.04, 1.04)
    axes.set_xlabel("rate (mean over seeds, 95% interval)")
    if series:
        legend_above(axes)
    else:
        axes.text(0.5, 0.5, "nothing to measure", transform=axes.transAxes, ha="center")


def _conversion(
    axes: Axes, found: Sequence[failure_modes.Spread], seen: Mapping[str, Look]
) -> None:
    """Steps a policy, with intervals at some ticks, one beside the other."""
    several = len({one.cell.scenario for one in found}) > 1
    for number, spread in enumerate(found):
        look = seen[spread.cell.policy]
        means = [share.mean if share else math.nan for share in spread.shares]
        name = f"{spread.cell.scenario}, " if several else ""
        axes.step(
            *(range(len(means)), means),
            where="post",
            color=look.color,
            linestyle=look.line,
            label=f"{name}{spread.cell.policy} (n = {spread.people})",
        )
        aside = 6 * offset(number, len(found))
        places = [tick + aside for tick in _INTERVALS_AT]
        marks = look._replace(line="none")
        bars(axes, places, [spread.shares[tick] for tick in _INTERVALS_AT], marks, "")
    rate_axis(axes, "commuters who crossed")
    axes.set_xlim(0, failure_modes.LONGEST + 2)
    axes.set_xlabel("ticks since the first jaywalk seen that day (intervals at 10, 20, 30)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def importance_figure(source: Path | str | Run) -> Figure:
    """How important a fire is held to be, against its severity, on the same events.

    Args:
        source: A run folder, or a run that was read.

    Returns:
        The figure.

    Raises:
        InvalidValueError: If no fire was rated that PAVE saw too.
        MissingExtraError: If matplotlib is not installed.
    """
    found = importance.comparisons(run_of(source))
    need(found, "fires rated for importance")
    with drawing():
        figure = canvas(5.2 * len(found), 4.4)
        row = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
        for axes, comparison in zip(row, found, strict=True):
            _scales(axes, comparison)
        row[0].set_ylabel("share of events")
    return figure


def _scales(axes: Axes, found: importance.Comparison) -> None:
    paper = paper_tables()["table_2"]["rows"]
    shown = (
        (
            "importance × 10",
            [event.importance for event in found.events],
            _SECOND,
            "//",
            paper[0],
        ),
        (
            "severity of pave's cue",
            [event.severity for event in found.events],
            _FIRST,
            "",
            paper[1],
        ),
    )
    number = len(found.events)
    for label, values, color, hatch, printed in shown:
        axes.hist(
            values,
            bins=range(0, 101, 10),
            weights=[1 / number] * number,
            color=color,
            alpha=0.55,
            hatch=hatch,
            edgecolor="white",
            label=f"{label}: mean {sum(values) / number:.1f}",
        )
        axes.axvline(printed["mean"], color=color, linestyle="--" if hatch else ":")
        axes.plot([], [], color=color, linestyle="--" if hatch else ":", label=_printed(printed))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 1)
    axes.set_xlabel("points of 100")
    axes.set_title(f"{found.cell.scenario}, {found.cell.policy} (n = {number} events)")
    legend_above(axes)


def _printed(row: Mapping[str, object]) -> str:
    return f"the paper's mean, {row['name']}: {row['mean']}"


def expectations_figure(source: Path | str | Run) -> Figure:
    """The paper's differences from PAVE in Table 6 beside those of a run.

    Args:
        source: A run folder, or a run that was read.

    Returns:
        The figure.

    Raises:
        InvalidValueError: If no condition of Table 6 can be set against PAVE.
        MissingExtraError: If matplotlib is not installed.
    """
    every = expectations.expectations(run_of(source))
    found = [item for item in every if item.found and item.found.mean is not None]
    need(found, "two conditions of Table 6")
    with drawing():
        figure = canvas(8, 0.36 * len(found) + 1.6)
        axes = figure.subplots()
        axes.axvline(0, color=GREY, linewidth=1)
        places = range(len(found))
        axes.plot([item.printed for item in found], places, "k|", markersize=14, label="the paper")
        _ours(axes, [item.found for item in found if item.found])
        names = [f"{BY_KEY[item.metric].title}: {item.policy}" for item in found]
        axes.set_yticks(places, names)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlim(-1.05, 1.05)
        axes.set_xlabel("difference from pave (rate)")
        figure.legend(loc="outside upper center", ncols=2)
    return figure


def _ours(axes: Axes, found: Sequence[Difference]) -> None:
    """Differences of a run, one a line: those with an interval full, the others hollow."""
    rows = [(row, ours, ours.mean) for row, ours in enumerate(found) if ours.mean is not None]
    name = f"this run (n = {max(ours.n for ours in found)} seeds"
    kinds = (
        (_SECOND, f"{name}, 95% interval)"),
        ("white", f"{name}), no interval: {expectations.TOO_FEW} to tell"),
    )
    for face, label in kinds:
        kept = [item for item in rows if (item[1].low is None) is (face == "white")]
        if not kept:
            continue
        axes.errorbar(
            [mean for _, _, mean in kept],
            [row for row, _, _ in kept],
            xerr=(
                [0.0 if ours.low is None else mean - ours.low for _, ours, mean in kept],
                [0.0 if ours.high is None else ours.high - mean for _, ours, mean in kept],
            ),
            fmt="o",
            color=_SECOND,
            markerfacecolor=face,
            capsize=2,
            label=label,
        )


def line_of_sweep(points: Sequence[SweepPoint], parameter: str = "value") -> Figure:
    """A swept parameter against metrics, one panel a metric.

    Args:
        points: One a value and metric, in the order of the values.
        parameter: What was swept, with its unit.

    Returns:
        The figure.

    Raises:
        InvalidValueError: If there are no points, or one names no metric or lies outside its own
            interval.
        MissingExtraError: If matplotlib is not installed.
    """
    points = [_checked(SweepPoint(*point)) for point in points]
    need(points, "points")
    values = list(dict.fromkeys(point.value for point in points))
    metrics = list(dict.fromkeys(point.metric for point in points))
    numeric = not any(isinstance(value, str | bool) for value in values)
    with drawing():
        figure = canvas(9, 2.9 * ((len(metrics) + 1) // 2))
        for number, metric in enumerate(metrics, 1):
            axes = figure.add_subplot((len(metrics) + 1) // 2, 2, number)
            kept = [point for point in points if point.metric == metric]
            places = [p.value if numeric else values.index(p.value) for p in kept]
            means = [point.mean for point in kept]
            low = [p.mean - (p.mean if p.low is None else p.low) for p in kept]
            high = [(p.mean if p.high is None else p.high) - p.mean for p in kept]
            axes.errorbar(places, means, yerr=(low, high), fmt="o-", color=_FIRST, capsize=2)
            axes.set_xticks(
                values if numeric else range(len(values)), [str(value) for value in values]
            )
            axes.set_title(BY_KEY[metric].title)
            axes.set_xlabel(parameter)
    return figure


def _checked(point: SweepPoint) -> SweepPoint:
    if point.metric not in BY_KEY:
        raise invalid("metric", point.metric, BY_KEY)
    low = point.mean if point.low is None else point.low
    high = point.mean if point.high is None else point.high
    if not low <= point.mean <= high:
        raise InvalidValueError(
            f"{point.metric} at {point.value!r} has the mean {point.mean} and the interval "
            f"{point.low} to {point.high}; allowed: an interval around the mean"
        )
    return point
