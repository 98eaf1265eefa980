"""Several runs in one report, such as the same benchmark on several backbones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table as RichTable

from voville_env.benchmarks.aggregate import Cell, Data
from voville_env.benchmarks.folder import (
    MANIFEST,
    UNKNOWN_SUITE,
    planned_suite,
    read_manifest,
    suite_id_of,
)
from voville_env.benchmarks.html import page
from voville_env.benchmarks.layout import Table
from voville_env.benchmarks.replay import outcome_of
from voville_env.benchmarks.report import REPLICATION, Report, counts_of
from voville_env.benchmarks.runner import report_of, write_files
from voville_env.benchmarks.suite import BACKBONE, CONDITIONS
from voville_env.benchmarks.tables import REFERENCE, TABLE_1, TABLE_6, shows, table_1, table_6
from voville_env.errors import InvalidValueError
from voville_env.policy import accepted
from voville_env.variant import typed

MERGED = "merged"
SCRIPTED = "no backbone"
Key = tuple[str, str, str | None]
"""Scenario, policy and backbone."""
_SAME_PLAN = ("seeds", "days", "quick", "options")


@dataclass(frozen=True)
class Part:
    """One of the runs.

    Attributes:
        backbone: The name of what answered in it.
        run: The run folder.
        report: The run's own report.
    """

    backbone: str
    run: Path
    report: Report


@dataclass(frozen=True)
class MergedReport:
    """The report of several runs.

    Attributes:
        parts: One for each run, in the order given.
    """

    parts: tuple[Part, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of all runs, one for each scenario, policy and backbone."""
        every = (cell for part in self.parts for cell in part.report.cells)
        found: dict[Key, Cell] = {}
        for cell in every:
            found.setdefault(_key(cell), cell)
        return tuple(found.values())

    def blocks(self) -> list[tuple[Cell, ...]]:
        """The cells of each backbone, in the order of the runs.

        Returns:
            For each backbone its cells and those of policies that ask nobody.
        """
        cells = self.cells
        names = dict.fromkeys(part.backbone for part in self.parts)
        asked = [name for name in names if name != SCRIPTED]
        if not asked:
            return [cells]
        return [tuple(cell for cell in cells if cell.backbone in (name, None)) for name in asked]

    def _labels(self) -> list[str]:
        """Names of the runs: their backbones, with the folder where one occurs twice."""
        names = [part.backbone for part in self.parts]
        return [
            f"{part.backbone}, {part.run.name}" if names.count(part.backbone) > 1 else part.backbone
            for part in self.parts
        ]

    def counts(self) -> dict[str, int]:
        """Distinct episodes planned, scored, failed and not run.

        Returns:
            The four numbers; what several runs hold counts once.
        """
        return counts_of(self.cells)

    def summary(self) -> Data:
        """The whole report as data.

        Returns:
            A strict-JSON-ready dict; cells are told apart by scenario, policy and backbone.
        """
        made = [part.report.summary() for part in self.parts]
        named = list(zip(self._labels(), self.parts, made, strict=True))
        complete = all(item["status"] == "complete" for item in made)
        return {
            **{key: made[0][key] for key in ("format", "suite_id", "unit_of_replication", "paper")},
            "status": "complete" if complete else "incomplete",
            "surrogate": next((item["surrogate"] for item in made if item["surrogate"]), None),
            "models": list(dict.fromkeys(name for item in made for name in item["models"])),
            "episodes": self.counts(),
            MERGED: [
                {"run": label, "backbone": part.backbone, "facts": list(part.report.facts)}
                for label, part, _ in named
            ],
            **{
                key: [{"run": label, **row} for label, _, item in named for row in item[key]]
                for key in ("failures", "comparisons", "baselines")
            },
            "cells": [cell.as_json() for cell in self.cells],
        }

    def _paper_tables(self) -> list[Table]:
        return [table_1(*self.blocks()), table_6(*self.blocks())]

    def _own_tables(self) -> list[Table]:
        return [
            replace(table, title=f"{table.title} ({label})")
            for label, part in zip(self._labels(), self.parts, strict=True)
            for table in (*part.report.swept_tables(), *part.report.own_tables())
        ]

    def _preamble(self) -> list[str]:
        counts = self.counts()
        return [
            f"Episodes: {counts['planned']} planned, {counts['scored']} scored, "
            f"{counts['failed']} failed, {counts['not_run']} not run, in {len(self.parts)} runs: "
            f"{'; '.join(self._labels())}.",
            REPLICATION,
        ]

    def _each(self, lines: Callable[[Report], Iterable[str]]) -> list[str]:
        return [
            f"{label}: {line}"
            for label, part in zip(self._labels(), self.parts, strict=True)
            for line in lines(part.report)
        ]

    def _facts(self) -> list[str]:
        return self._each(lambda report: report.facts)

    def flags(self) -> list[str]:
        """What to know before reading the numbers.

        Returns:
            One sentence each, with the run that it is about.
        """
        return self._each(Report.flags)

    def markdown(self) -> str:
        """The report as text.

        Returns:
            Markdown, without times.
        """
        parts = ["# Report of several runs\n", *(f"{text}\n" for text in self._preamble())]
        parts += [*(f"- {flag}" for flag in self.flags()), ""]
        parts += ["## What was run\n", *(f"- {fact}" for fact in self._facts()), ""]
        parts += [table.markdown() for table in (*self._paper_tables(), *self._own_tables())]
        return "\n".join(parts)

    def html(self, notice: str = "") -> str:
        """The report as one self-contained page.

        Args:
            notice: A sentence to put first.

        Returns:
            HTML, without times, scripts or outside requests.
        """
        first = [notice] if notice else []
        paragraphs = [*first, *self._preamble(), *self.flags(), *self._facts()]
        return page(
            "Report of several runs", paragraphs, [*self._paper_tables(), *self._own_tables()]
        )

    def tables(self) -> list[RichTable]:
        """The tables for a terminal.

        Returns:
            Those that stand beside the paper's, where something in them was run.
        """
        wanted = ((TABLE_1, (REFERENCE,)), (TABLE_6, CONDITIONS))
        return [
            table.rich()
            for table, (columns, policies) in zip(self._paper_tables(), wanted, strict=True)
            if any(shows(columns, policies, cells) for cells in self.blocks())
        ]


def _key(cell: Cell) -> Key:
    return cell.scenario, cell.policy, cell.backbone


def report_runs(runs: Sequence[Path], out: Path) -> tuple[dict[str, Any], MergedReport]:
    """Scores several runs again from their logs, and writes one report of them.

    Args:
        runs: Run folders, in the order of the report.
        out: Where the report is written: a new folder, or one that holds such a report.

    Returns:
        The summary and the report.

    Raises:
        InvalidValueError: If the runs cannot stand in one table: their scenarios, seeds, options or
            versions differ, or two of them hold the same policy on the same backbone.
    """
    if not runs:
        raise InvalidValueError("no run is given; allowed: run folders")
    for run in runs[1:]:
        _check_comparable(runs[0], run)
    _check_given_once(runs)
    _check_folder(out)
    report = MergedReport(tuple(map(_part, runs)))
    _check_distinct(report.parts)
    quick = planned_suite(runs[0]).quick
    summary = {"no_score": quick, **report.summary()}
    out.mkdir(parents=True, exist_ok=True)
    notice = "**Quick smoke runs: these numbers are no score.**\n\n" if quick else ""
    write_files(out, summary, report, notice)
    return summary, report


def _check_comparable(first: Path, other: Path) -> None:
    """Refuses runs that were not planned and played alike, and says what differs."""
    _check_suites(first, other)
    here, there = read_manifest(first), read_manifest(other)
    mine, theirs = planned_suite(first).described(), planned_suite(other).described()
    same: dict[str, tuple[Any, Any]] = {name: (mine[name], theirs[name]) for name in _SAME_PLAN}
    same["days"] = (mine["days"] or "all", theirs["days"] or "all")
    same["sweep"] = (here.get("sweep"), there.get("sweep"))
    for part, what in (("versions", "version"), ("scenario_hashes", "hash of scenario")):
        for name in sorted({*here[part], *there[part]}):
            pair = here[part].get(name), there[part].get(name)
            if part == "versions" or None not in pair:
                same[f"{what} {name}"] = pair
    for name, (before, now) in same.items():
        if before != now:
            raise InvalidValueError(
                f"{first} and {other} cannot be reported together: {name}: "
                f"the first has {_said(before)}, the second {_said(now)}"
            )


def _check_suites(first: Path, other: Path) -> None:
    """Refuses runs of different suites, and runs of a known one with those that name none."""
    mine, theirs = suite_id_of(first), suite_id_of(other)
    if mine == theirs:
        return
    hint = "; play the older run again to compare it" if UNKNOWN_SUITE in (mine, theirs) else ""
    raise InvalidValueError(
        f"{first} and {other} cannot be reported together: the first is of {mine}, the second of "
        f"{theirs}, and results are comparable within one suite alone{hint}"
    )


def _said(value: Any) -> str:
    """A part of a plan as somebody would write it."""
    if isinstance(value, dict) and "parameter" in value:
        over = ", ".join(map(_said, value["values"]))
        return f"{value['parameter']} over {over} in {', '.join(value['defaults'])}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_said(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))
    return "none" if value is None else typed(value).strip("'")


def _check_given_once(runs: Sequence[Path]) -> None:
    """Refuses a run that is given twice, be it as a copy."""
    seen: dict[str, int] = {}
    for number, run in enumerate(runs):
        for mark in _marks(run):
            other = seen.setdefault(mark, number)
            if other != number:
                raise InvalidValueError(
                    f"{runs[other]} and {run} are the same run, given twice; leave one of them out"
                )


def _marks(run: Path) -> list[str]:
    """What a run is known by: its folder, the name of its calls, and all that was played in it."""
    content = hashlib.sha256((run / MANIFEST).read_bytes())
    logs = sorted((run / "episodes").glob("*.jsonl"))
    for log in logs:
        content.update(log.name.encode() + hashlib.sha256(log.read_bytes()).digest())
    calls = run / ".run-id"
    named = [f"calls {calls.read_text('utf-8').strip()}"] if calls.exists() else []
    return [f"folder {run.resolve()}", f"content {content.hexdigest()}", *named]


def _check_folder(out: Path) -> None:
    if (out / MANIFEST).exists():
        raise InvalidValueError(f"{out} is a run folder; allowed: a folder of its own for a report")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        kept = json.loads((out / "summary.json").read_text("utf-8"))
    except (OSError, ValueError):
        kept = None
    if not isinstance(kept, dict) or MERGED not in kept:
        raise InvalidValueError(f"{out} holds something else; allowed: a new folder")


def _part(run: Path) -> Part:
    """Reads a run; where an asking policy has no score, the run still says who would answer."""
    suite = planned_suite(run)
    report = report_of(suite, run, outcome_of(suite, run))
    answered = read_manifest(run).get("answered_by", {}).get("name")
    found = [cell.backbone for cell in report.cells if cell.backbone is not None]
    name = str(answered or next(iter(found), SCRIPTED))
    for cell in report.cells:
        if name != SCRIPTED and not cell.facts and BACKBONE in accepted(cell.policy):
            cell.facts = {BACKBONE: name}
    return Part(name, run, report)


def _check_distinct(parts: Sequence[Part]) -> None:
    """One policy on one backbone may come from one run alone, unless the runs agree on it."""
    seen: dict[Key, tuple[Path, Cell]] = {}
    for part in parts:
        for cell in part.report.cells:
            run, other = seen.setdefault(_key(cell), (part.run, cell))
            if other.scored != cell.scored:
                who = f" on {cell.backbone}" if cell.backbone else ""
                raise InvalidValueError(
                    f"{run} and {part.run} both hold {cell.scenario}, {cell.policy}{who}, and not "
                    f"with the same results ({len(other.scored)} and {len(cell.scored)} seeds "
                    "scored); report them apart"
                )
