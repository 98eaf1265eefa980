"""One section of an analysis, and its rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from voville_env.benchmarks.layout import Table, interval, number
from voville_env.benchmarks.statistics import Summary

Value = str | int | float | None
Row = Mapping[str, Value]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Section:
    """What one analysis found.

    Attributes:
        key: Stem of its files.
        title: Its heading.
        tables: What it shows; empty where there is nothing to show.
        rows: The numbers behind its figure; the first one names the columns.
        nothing: Why there is nothing to show, in one sentence.
    """

    key: str
    title: str
    tables: tuple[Table, ...] = ()
    rows: tuple[Row, ...] = ()
    nothing: str = ""


def csv_text(rows: Sequence[Row]) -> str:
    """Rows as CSV (RFC 4180) that no spreadsheet runs as a formula.

    Args:
        rows: At least one row; all have the keys of the first.

    Returns:
        The text; a text that would be a formula begins with an apostrophe.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    columns = list(rows[0])
    writer.writerow(columns)
    writer.writerows([_inert(row[column]) for column in columns] for row in rows)
    return out.getvalue()


def _inert(value: Value) -> Value:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def estimate(found: Summary | None, *, lines: bool = True) -> str:
    """A mean over seeds with its interval, as a table shows it.

    Args:
        found: The summary.
        lines: Whether the interval stands on a line of its own.

    Returns:
        The text; = marks a value without variance over seeds, – that there is none.
    """
    if found is None:
        return "–"
    shown = number(found.mean) + (" =" if found.no_variance else "")
    between = "\n" if lines else " "
    return shown if found.low is None else f"{shown}{between}{interval(found.low, found.high)}"


def estimate_columns(found: Summary | None) -> dict[str, Value]:
    """A mean over seeds with its interval, as CSV columns.

    Args:
        found: The summary.

    Returns:
        `seeds`, `mean`, `low`, `high` and `interval` (the method), rounded to six decimals.
    """
    if found is None:
        return {"seeds": 0, "mean": None, "low": None, "high": None, "interval": None}
    return {
        "seeds": found.n,
        "mean": round(found.mean, 6),
        "low": None if found.low is None else round(found.low, 6),
        "high": None if found.high is None else round(found.high, 6),
        "interval": found.method,
    }
