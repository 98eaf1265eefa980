"""Figures of trained agents, from CSV files: learning curves and the penalty study."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voville_env.benchmarks.statistics import Summary, summarise
from voville_env.errors import InvalidValueError
from voville_env.viewer.style import (
    OKABE_ITO,
    canvas,
    drawing,
    image,
    legend_above,
    need,
    rate_axis,
    reach,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, float | None]
SANCTION = "sanction"


def read_rows(path: Path | str, columns: Sequence[str]) -> list[dict[str, float | None]]:
    """Reads a table of numbers.

    Args:
        path: A CSV file with a header.
        columns: Columns that it must have.

    Returns:
        Its rows; None where a cell is empty.

    Raises:
        InvalidValueError: If there is no such file, or it is no such table.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(f"it has no column {missing[0]!r}")
            return [
                {key: float(text) if text else None for key, text in row.items()} for row in reader
            ]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise InvalidValueError(f"{str(path)!r} is no table of a training: {error}") from error


def save_figure(figure: Figure, stem: Path) -> None:
    """Writes a figure as PNG and as SVG.

    Args:
        figure: The figure.
        stem: The path without its ending.
    """
    for kind in ("png", "svg"):
        stem.with_name(f"{stem.name}.{kind}").write_bytes(image(figure, kind))


def penalty_figure(path: Path | str) -> Figure:
    """The penalty study: task score against unwarranted violations, and what sanctions reach.

    Args:
        path: The table of `voville train penalty-sweep`.

    Returns:
        The figure; each training is one number, its mean over held-out seeds, and intervals are
        over trainings.

    Raises:
        InvalidValueError: If the table is none, or empty.
        MissingExtraError: If matplotlib is not installed.
    """
    rows = read_rows(
        path, (SANCTION, "train_seed", "task_score", "unwarranted", "vr_near", "vr_far")
    )
    need(rows, "trainings")
    weights = sorted({row[SANCTION] or 0.0 for row in rows}, reverse=True)
    with drawing():
        figure = canvas(10, 4.2)
        left, right = figure.subplots(1, 2)
        _trade(left, rows, weights)
        _reach(right, rows, weights)
    return figure


def _trade(axes: Axes, rows: Sequence[Row], weights: Sequence[float]) -> None:
    """One mark a weight: how far people get, against what they break on the way."""
    for number, weight in enumerate(weights):
        x = _mean(rows, weight, "unwarranted")
        y = _mean(rows, weight, "task_score", limits=(0.0, 1.0))
        if x is None or y is None:
            continue
        across, up = reach(x), reach(y)
        axes.errorbar(
            [x.mean],
            [y.mean],
            xerr=[[across[0]], [across[1]]],
            yerr=[[up[0]], [up[1]]],
            marker="osD^vPX*"[number % 8],
            color=OKABE_ITO[number % len(OKABE_ITO)],
            linestyle="none",
            capsize=2,
            label=f"{weight:g}",
        )
    axes.set_xlabel("unwarranted violations of traffic rules (ticks an episode)")
    rate_axis(axes, "task score")
    axes.set_xlim(left=0)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(title="weight of a sanction", loc="best")


def _reach(axes: Axes, rows: Sequence[Row], weights: Sequence[float]) -> None:
    """Violation rates near and far from officers, by the weight of a sanction."""
    places: dict[str, Any] = {
        "vr_near": ("within 3 tiles of an officer, where sanctions fall", "o", "-"),
        "vr_far": ("beyond 12 tiles, or none", "s", "--"),
    }
    for number, (key, (label, marker, line)) in enumerate(places.items()):
        found = [(k, _mean(rows, w, key, limits=(0.0, 1.0))) for k, w in enumerate(weights)]
        kept = [(k, one) for k, one in found if one is not None]
        axes.errorbar(
            [k for k, _ in kept],
            [one.mean for _, one in kept],
            yerr=list(zip(*(reach(one) for _, one in kept), strict=True)) if kept else None,
            marker=marker,
            linestyle=line,
            color=OKABE_ITO[number],
            capsize=2,
            label=label,
        )
    axes.set_xticks(range(len(weights)), [f"{weight:g}" for weight in weights])
    axes.set_xlabel("weight of a sanction")
    rate_axis(axes, "violation rate of who flees, traffic rules")
    legend_above(axes)


def _mean(
    rows: Sequence[Row], weight: float, key: str, limits: tuple[float, float] | None = None
) -> Summary | None:
    """Over trainings of a weight, each of which is its mean over held-out seeds."""
    of_training: dict[float | None, list[float]] = {}
    for row in rows:
        value = row[key]
        if (row[SANCTION] or 0.0) == weight and value is not None:
            of_training.setdefault(row["train_seed"], []).append(value)
    means = [math.fsum(values) / len(values) for values in of_training.values()]
    return summarise(means, limits=limits)
