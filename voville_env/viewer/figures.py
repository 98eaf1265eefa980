"""Figures of a finished run, each from its folder alone; they need the extra `figures`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from voville_env.benchmarks.analysis import gate, recovery, suppression
from voville_env.benchmarks.analysis.run import Run, run_of
from voville_env.viewer.comparisons import (
    SweepPoint,
    expectations_figure,
    failure_modes_figure,
    importance_figure,
    line_of_sweep,
)
from voville_env.viewer.style import (
    GREY,
    OKABE_ITO,
    Look,
    band,
    bars,
    canvas,
    drawing,
    legend_once,
    looks,
    need,
    rate_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "SweepPoint",
    "expectations_figure",
    "failure_modes_figure",
    "gate_figure",
    "importance_figure",
    "line_of_sweep",
    "recovery_figure",
    "suppression_figure",
]

_ACROSS = 3
_MANY = 16
"""Verdicts from which on a mark grows no more."""
_COMPLIES, _VIOLATES, _OTHER = OKABE_ITO[0], OKABE_ITO[1], OKABE_ITO[2]


def gate_figure(source: Path | str | Run) -> Figure:
    """Verdicts against legitimacy: each person's, and everybody's around the threshold.

    Args:
        source: A run folder, or a run that was read.

    Returns:
        The figure.

    Raises:
        InvalidValueError: If no policy of the run gives verdicts.
        MissingExtraError: If matplotlib is not installed.
    """
    run = run_of(source)
    found = [point for point in gate.points(run) if point.group.scoreable]
    binned = gate.steps(run)
    groups = list(dict.fromkeys(point.group for point in found))
    need(groups, "verdicts")
    with drawing():
        figure = canvas(10, 3.1 * len(groups) + 0.7)
        grid = figure.subplots(len(groups), 2, squeeze=False, sharex="col", width_ratios=(3, 2))
        for (left, right), group in zip(grid, groups, strict=True):
            _people(left, [point for point in found if point.group == group])
            _step(right, [step for step in binned if step.group == group])
            left.tick_params(labelbottom=True)
            right.tick_params(labelbottom=True)
        grid[-1][0].set_xlabel("legitimacy (1 to 100)")
        grid[-1][1].set_xlabel("legitimacy less threshold (points)")
        figure.supxlabel(gate.RISK_DECIDES, fontsize=8)
        legend_once(figure, 4)
    return figure


def _people(axes: Axes, found: Sequence[gate.Point]) -> None:
    """One line a person: what was decided at each legitimacy, and where the threshold is."""
    lines = sorted({(point.threshold, point.agent) for point in found})
    rows = {person: row for row, person in enumerate(lines)}
    kinds: tuple[tuple[str, str, str, Callable[[float], bool]], ...] = (
        ("always complies", "o", "none", lambda share: share == 0),
        ("sometimes complies, sometimes violates", "D", _OTHER, lambda share: 0 < share < 1),
        ("always violates", "s", _VIOLATES, lambda share: share == 1),
    )
    for label, marker, face, holds in kinds:
        kept = [point for point in found if holds(point.share.mean)]
        axes.scatter(
            [point.legitimacy for point in kept],
            [rows[point.threshold, point.agent] for point in kept],
            s=[_area(point.verdicts) for point in kept],
            marker=marker,
            facecolor=face,
            edgecolor=_COMPLIES if face == "none" else face,
            label=label,
        )
    thresholds = [threshold for threshold, _ in lines]
    axes.scatter(
        thresholds, list(rows.values()), s=220, marker="|", color="black", label="threshold"
    )
    leaks = [point for point in found if point.leaks]
    axes.scatter(
        [point.legitimacy for point in leaks],
        [rows[point.threshold, point.agent] for point in leaks],
        s=40,
        marker="x",
        color="black",
        label="leak: said violate below it",
    )
    for verdicts, words in ((1, "1 verdict"), (_MANY, f"{_MANY} verdicts or more")):
        axes.scatter([], [], s=_area(verdicts), marker="o", color=GREY, label=words)
    axes.set_yticks(list(rows.values()), [f"{agent} {number}" for number, agent in lines])
    axes.set_xlim(0, 101)
    number = sum(point.verdicts for point in found)
    axes.set_title(f"{found[0].group.name}: {number} verdicts of {len(lines)} people")
    axes.set_ylabel("person, threshold")


def _area(verdicts: int) -> float:
    return 12 + 6 * min(verdicts, _MANY)


def _step(axes: Axes, found: Sequence[gate.Step]) -> None:
    centres = [step.start + (gate.STEP - 1) / 2 for step in found]
    shares = [step.share for step in found]
    axes.axvline(-0.5, color="black", linewidth=1)
    bars(axes, centres, shares, Look(_VIOLATES, "s", "-"), "")
    for centre, step in zip(centres, found, strict=True):
        if step.leaks:
            axes.plot(centre, step.share.mean, "x", color="black", markersize=8)
    seeds = max(share.n for share in shares)
    rate_axis(axes, "share of verdicts to violate")
    axes.set_title(f"all people, bins of {gate.STEP} points, {seeds} seeds")


def suppression_figure(source: Path | str | Run) -> Figure:
    """The violation rate against the distance to the nearest officer, with the control.

    Args:
        source: A run folder, or a run that was read.

    Returns:
        The figure.

    Raises:
        InvalidValueError: If no scenario of the run has both a fire and officers.
        MissingExtraError: If matplotlib is not installed.
    """
    run = run_of(source)
    found = [rate for rate in suppression.rates(run) if rate.cell.scoreable]
    shown = list(
        dict.fromkeys(
            (rate.scenario, rate.policy) for rate in found if rate.kind is suppression.Kind.OFFICERS
        )
    )
    need(shown, "scenario with both a fire and officers")
    seen = looks(run.policies())
    rows = -(-len(shown) // _ACROSS)
    bands = [b for b in suppression.FINE if any(r.band == b and r.share for r in found)]
    with drawing():
        figure = canvas(11, 2.7 * rows + 0.4)
        grid = list(figure.subplots(rows, _ACROSS, squeeze=False, sharey=True).flat)
        for number, (scenario, policy) in enumerate(shown):
            axes = grid[number]
            own = [r for r in found if (r.scenario, r.policy) == (scenario, policy)]
            beside = [r for r in found if r.policy == policy and r not in own]
            _distances(axes, own, beside, seen[policy], bands)
            ticks = sum(rate.ticks for rate in own if not rate.fine)
            axes.set_title(f"{scenario}, {policy}\n(n = {ticks} ticks)", fontsize=9)
            lowest = (number // _ACROSS + 2) * _ACROSS > len(shown)
            axes.tick_params(axis="x", rotation=60, labelbottom=lowest)
        for axes in grid[len(shown) :]:
            axes.set_axis_off()
        figure.supylabel("R1 to R3 broken ÷ at stake (ticks)", fontsize=9)
        figure.supxlabel("tiles to the nearest officer (grey: near 0–3, middle 4–12)", fontsize=9)
    return figure


def _distances(
    axes: Axes,
    found: Sequence[suppression.Rate],
    beside: Sequence[suppression.Rate],
    look: Look,
    bands: Sequence[suppression.Band],
) -> None:
    """A line over the narrow bands, and what it is to be held against: no officers, and no fire."""
    near, middle = (
        sum(band.low < beyond.low for band in bands) - 0.5 for beyond in suppression.BANDS[1:]
    )
    axes.axvspan(-0.5, near, color="0.86", zorder=0)
    axes.axvspan(near, middle, color="0.94", zorder=0)
    axes.axvline(len(bands) - 0.5, color=GREY, linewidth=0.8)
    fine = [rate for rate in found if rate.band in bands and rate.fine]
    bars(axes, [bands.index(rate.band) for rate in fine], [rate.share for rate in fine], look, "")
    kinds = (suppression.Kind.NO_OFFICERS, suppression.Kind.CONTROL)
    for place, kind in enumerate(kinds, len(bands)):
        whole = [r.share for r in beside if r.kind is kind and r.band is suppression.BANDS[-1]]
        bars(axes, [place] * len(whole[:1]), whole[:1], look, "")
    last = suppression.FINE[-1]
    labels = [f"≥ {one.low}" if one == last else f"{one.low}–{one.high}" for one in bands]
    labels += ["no officers", "no fire"]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.set_ylim(-0.04, 1.04)


def recovery_figure(source: Path | str | Run) -> Figure:
    """Who goes on breaking traffic rules after leaving the fire behind, by both anchors.

    Args:
        source: A run folder, or a run that was read.

    Returns:
        The figure.

    Raises:
        InvalidValueError: If nobody broke a traffic rule in a fire window.
        MissingExtraError: If matplotlib is not installed.
    """
    run = run_of(source)
    found = [curve for curve in recovery.curves(run) if curve.cell.scoreable]
    need(found, "violations in a fire window")
    policies = list(dict.fromkeys(curve.cell.policy for curve in found))
    places = list(dict.fromkeys((curve.cell.scenario, curve.anchor) for curve in found))
    places.sort(key=lambda place: place[0])
    with drawing():
        figure = canvas(max(6.4, 3.3 * len(places)), 1.7 * len(policies) + 1.0)
        grid = figure.subplots(len(policies), len(places), squeeze=False, sharex="col", sharey=True)
        for curve in found:
            row = policies.index(curve.cell.policy)
            axes = grid[row][places.index((curve.cell.scenario, curve.anchor))]
            _recovery(axes, curve)
        for row, policy in zip(grid, policies, strict=True):
            row[0].set_ylabel(f"{policy}\nshare", fontsize=8)
        for column, (scenario, anchor) in enumerate(places):
            grid[0][column].set_title(scenario, fontsize=9)
            label = f"ticks since leaving\n{recovery.LEFT[anchor]} for good"
            grid[-1][column].set_xlabel(label)
        legend_once(figure, 3)
    return figure


def _recovery(axes: Axes, curve: recovery.Curve) -> None:
    """Who has not recovered yet, as steps, and who breaks a rule in each tick, as marks."""
    from matplotlib.ticker import MaxNLocator

    ticks = [moment.tick for moment in curve.moments]
    calm, acute = Look(_COMPLIES, "", "-"), Look(_VIOLATES, "s", "none")
    band(axes, ticks, [moment.unrecovered for moment in curve.moments], calm)
    axes.plot([], [], color=_COMPLIES, label="not yet recovered")
    broken = [moment.breaking for moment in curve.moments]
    some = [one if one is not None and one.mean > 0 else None for one in broken]
    bars(axes, ticks, some, acute, "breaks R1 to R3 in this tick (interval where anybody does)")
    nobody = [t for t, one in zip(ticks, broken, strict=True) if one is not None and one.mean == 0]
    axes.plot(nobody, [0] * len(nobody), "s", color=_VIOLATES, markersize=1.5)
    ends = [one for one in curve.moments if one.censored and one.unrecovered is not None]
    if ends:
        axes.plot(
            [one.tick for one in ends],
            [one.unrecovered.mean for one in ends if one.unrecovered],
            "|",
            color="black",
            markersize=12,
            label="censored",
        )
    axes.text(
        *(0.98, 0.94, f"n = {curve.people}, {curve.censored} censored"),
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=7,
    )
    axes.set_xlim(-0.6, ticks[-1] + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_ylim(-0.04, 1.04)
