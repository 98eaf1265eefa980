"""What a swept parameter does to the metrics: a table, CSV rows and a figure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from voville_env.benchmarks.aggregate import Cell, Data
from voville_env.benchmarks.analysis.section import Row, csv_text, estimate_columns
from voville_env.benchmarks.folder import write_bytes, write_text
from voville_env.benchmarks.layout import Table, interval, number
from voville_env.benchmarks.notes import NOT_SCOREABLE, note_of
from voville_env.benchmarks.statistics import OF_RATES, Difference, Summary, correct, paired
from voville_env.benchmarks.suite import Sweep, slug
from voville_env.metrics import BY_KEY, Kind, Metric
from voville_env.variant import Scalar, write_value

_DIFFERENCE = ("difference", "95% interval of it", "p (Holm)", "test", "it is")


@dataclass(frozen=True)
class Point:
    """One metric at one value of the parameter.

    Attributes:
        parameter: What was swept.
        scenario: The scenario without the parameter.
        policy: The policy without the parameter.
        value: The value; None where it has no one value.
        label: The value in words.
        is_named: Whether the value is a word, or means one, rather than a quantity.
        is_default: Whether it is the default.
        cell: The episodes.
        metric: The metric, in its first unit.
        summary: Over seeds; None where there is nothing to measure or nothing scoreable.
        difference: From the default on shared seeds; None for the default itself.
    """

    parameter: str
    scenario: str
    policy: str
    value: Scalar | None
    label: str
    is_named: bool
    is_default: bool
    cell: Cell
    metric: Metric
    summary: Summary | None
    difference: Difference | None

    def as_row(self) -> Row:
        """The point as a CSV row.

        Returns:
            Its columns.
        """
        found = self.difference
        return {
            "parameter": self.parameter,
            "value": self.value,
            "default": str(self.is_default).lower(),
            "scenario": self.scenario,
            "policy": self.policy,
            "backbone": self.cell.backbone,
            "metric": self.metric.key,
            "unit": self.metric.units[0].value,
            "scoreable": str(self.cell.scoreable).lower(),
            **estimate_columns(self.summary),
            "difference_seeds": found.n if found else None,
            "difference": _rounded(found.mean if found else None),
            "difference_low": _rounded(found.low if found else None),
            "difference_high": _rounded(found.high if found else None),
            "p": _rounded(found.p if found else None),
            "p_holm": _rounded(found.p_holm if found else None),
            "verdict": found.verdict if found else None,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def sensitivity(cells: Sequence[Cell], sweep: Sweep) -> list[Point]:
    """Reads off every metric that the parameter is expected to move, value by value.

    Args:
        cells: All cells of the run.
        sweep: What was swept.

    Returns:
        Points by scenario, policy, metric and value; metrics without any value are left out.
    """
    groups: dict[tuple[str, str], list[tuple[Scalar | None, Cell]]] = {}
    for cell in cells:
        plain, value = sweep.of(cell.scenario, cell.policy)
        named = (cell.scenario, plain.name) if sweep.kind == "policy" else (plain.name, cell.policy)
        groups.setdefault(named, []).append((value, cell))
    return [
        point
        for (scenario, policy), group in groups.items()
        for key in sweep.metrics
        for point in _points(scenario, policy, group, BY_KEY[key], sweep)
    ]


def _points(
    scenario: str,
    policy: str,
    group: Sequence[tuple[Scalar | None, Cell]],
    metric: Metric,
    sweep: Sweep,
) -> list[Point]:
    """One metric of one group; empty where nothing of it was measured."""
    unit = metric.units[0]
    if not any(cell.values(metric.key, unit) for _, cell in group):
        return []
    default = sweep.defaults.get(policy if sweep.kind == "policy" else scenario)
    base = next((cell for value, cell in group if value == default), None)
    compared = [
        cell for _, cell in group if base and cell is not base and cell.scoreable and base.scoreable
    ]
    mine = base.values(metric.key, unit) if base else {}
    limits = OF_RATES if metric.kind is Kind.RATE else None
    found = correct([paired(cell.values(metric.key, unit), mine, limits) for cell in compared])
    differences = dict(zip(map(id, compared), found, strict=True))
    return [
        Point(
            parameter=sweep.parameter,
            scenario=scenario,
            policy=policy,
            value=value,
            label=_label(value, sweep, is_default=cell is base),
            is_named=_is_named(value, sweep),
            is_default=cell is base,
            cell=cell,
            metric=metric,
            summary=cell.summary(metric, unit) if cell.tells(metric) else None,
            difference=differences.get(id(cell)),
        )
        for value, cell in sorted(group, key=lambda item: _place(item[0], sweep))
    ]


def _is_named(value: Scalar | None, sweep: Sweep) -> bool:
    return value is None or isinstance(value, str | bool) or write_value(value) in sweep.words


def _place(value: Scalar | None, sweep: Sweep) -> tuple[float, int]:
    """Where a value stands: what is no quantity first, words as given, numbers by size."""
    if value is None:
        return (float("-inf"), -1)
    size = float("-inf") if _is_named(value, sweep) else float(value)
    return (size, [write_value(item) for item in sweep.values].index(write_value(value)))


def _label(value: Scalar | None, sweep: Sweep, *, is_default: bool) -> str:
    """A value in words: what it means first, then how it is typed and whether it is the default."""
    notes = ["default"] if is_default else []
    if value is None:
        shown = sweep.unset or "not set"
    else:
        typed = write_value(value)
        shown = sweep.words.get(typed, typed)
        notes = [typed, *notes] if typed in sweep.words else notes
    return f"{shown} ({', '.join(notes)})" if notes else shown


def sensitivity_tables(points: Sequence[Point], sweep: Sweep) -> list[Table]:
    """A table for each scenario and policy.

    Args:
        points: What was found.
        sweep: What was swept.

    Returns:
        The tables; one that says so where there is nothing to show.
    """
    title = f"Sensitivity to {sweep.parameter}"
    if not points:
        return [Table(title, ("metric (unit)",), (), "Nothing was scored that it should move.")]
    columns = ("metric (unit)", sweep.parameter, "n seeds", "mean", "95% interval", *_DIFFERENCE)
    return [
        Table(
            f"{title}: {scenario}, {policy}",
            columns,
            tuple(map(_row, group)),
            note_of(
                [point.cell for point in group],
                "Differences are from the default value, on shared seeds; the intervals are not "
                "corrected. Holm's correction over the values of one metric. = no variance over "
                "seeds. – nothing to measure.",
            ),
        )
        for (scenario, policy), group in _grouped(points).items()
    ]


def _grouped(points: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.scenario, point.policy), []).append(point)
    return groups


def _row(point: Point) -> tuple[str, ...]:
    found, less = point.summary, point.difference
    first = (f"{point.metric.title} ({point.metric.units[0]})", point.label)
    if not point.cell.tells(point.metric):
        return (*first, "0", NOT_SCOREABLE, *("–",) * (1 + len(_DIFFERENCE)))
    shown = (
        ("0", "–", "–")
        if found is None
        else (
            str(found.n),
            number(found.mean) + (" =" if found.no_variance else ""),
            interval(found.low, found.high),
        )
    )
    if less is None:
        return (*first, *shown, *("–",) * len(_DIFFERENCE))
    return (
        *first,
        *shown,
        number(less.mean),
        interval(less.low, less.high),
        number(less.p_holm, 3),
        less.method,
        less.verdict,
    )


def sensitivity_json(points: Sequence[Point]) -> list[Data]:
    """The points as data.

    Args:
        points: What was found.

    Returns:
        One JSON-ready dict each, with the columns of the CSV.
    """
    return [dict(point.as_row()) for point in points]


def write_sensitivity(folder: Path, points: Sequence[Point]) -> None:
    """Writes `sensitivity.csv`, and a figure a scenario and policy where matplotlib is installed.

    Args:
        folder: The run folder.
        points: What was found, at least one.
    """
    from voville_env.viewer.style import has_matplotlib

    write_text(folder / "sensitivity.csv", csv_text([point.as_row() for point in points]))
    if has_matplotlib():
        for (scenario, policy), group in _grouped(points).items():
            _draw(folder / f"sensitivity-{slug(scenario)}--{slug(policy)}", group)


def _draw(stem: Path, group: Sequence[Point]) -> None:
    """Draws the metrics of one scenario and policy, as PNG and SVG."""
    from voville_env.viewer.figures import SweepPoint, line_of_sweep
    from voville_env.viewer.style import drawing, image

    measured = [(point, point.summary) for point in group if point.summary is not None]
    if not measured:
        return
    named = any(point.is_named for point, _ in measured)
    drawn = [
        SweepPoint(
            _category(point) if named else _quantity(point),
            *(point.metric.key, found.mean, found.low, found.high),
        )
        for point, found in measured
    ]
    figure = line_of_sweep(drawn, group[0].parameter)
    metrics = dict.fromkeys(point.metric for point, _ in measured)
    ticks = {_quantity(point): _category(point) for point, _ in measured if not named}
    with drawing():
        figure.suptitle(_title(group[0], {found.n for _, found in measured}))
        for axes, metric in zip(figure.axes, metrics, strict=True):
            axes.set_ylabel(f"{metric.kind} ({metric.units[0]})")
            if named:
                axes.lines[0].set_linestyle("none")
            else:
                axes.set_xticks(list(ticks), list(ticks.values()))
    for kind in ("png", "svg"):
        write_bytes(stem.with_name(f"{stem.name}.{kind}"), image(figure, kind))


def _category(point: Point) -> str:
    return point.label.replace(" (", "\n(")


def _quantity(point: Point) -> float:
    """A number as it was given, so that whole ones are shown as such."""
    return cast("float", point.value)


def _title(point: Point, seeds: Collection[int]) -> str:
    answers = f" on {point.cell.backbone}" if point.cell.backbone else ""
    count = " to ".join(str(n) for n in sorted({min(seeds), max(seeds)}))
    return f"{point.scenario}, {point.policy}{answers}: mean over seeds (n = {count}), 95% interval"
