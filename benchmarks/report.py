"""The report of a benchmark: what was measured, and all that is needed to doubt it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table as RichTable

from voville_env.benchmarks.aggregate import (
    FALLBACK_LIMIT,
    Cell,
    Comparison,
    Data,
    against_controls,
    compare,
    gather,
)
from voville_env.benchmarks.calls import call_tables
from voville_env.benchmarks.html import page
from voville_env.benchmarks.layout import Table, number
from voville_env.benchmarks.notes import SURROGATE, answered_by, models, note_of, shows_surrogate
from voville_env.benchmarks.sensitivity import (
    Point,
    sensitivity,
    sensitivity_json,
    sensitivity_tables,
)
from voville_env.benchmarks.statistics import SIGN_FLIP_SEEDS
from voville_env.benchmarks.suite import CONDITIONS, Sweep
from voville_env.benchmarks.tables import (
    REFERENCE,
    TABLE_1,
    TABLE_6,
    detail_table,
    difference_table,
    error_table,
    paper_tables,
    scenario_table,
    shows,
    table_1,
    table_6,
)
from voville_env.metrics import METRICS, Metric, metrics_of

__all__ = ["SURROGATE", "Report", "build_report", "metrics_of"]

FORMAT = 1
REPLICATION = (
    "Unit of replication: the seed. A rate is taken for each agent, then over agents, then over "
    "seeds; error rates are pooled over the agents of a seed. n, mean, sd, standard error (SE) and "
    "95% interval (t over seeds) are separate. Where all seeds agree (marked =), a rate has "
    "Wilson's interval over the pooled cases, which takes them as independent; other numbers have "
    "none then."
)
POLICIES_ABREAST = 5
"""Most policies side by side in a terminal."""
COMPARED = (
    *("vr_cafe_exposed", "urv", "t_rec_origin", "ocr", "vr_near", "cr_d1", "cr_d2"),
    *("false_violation_rate", "false_compliance_rate", "harm"),
)
HEADLINE = (
    *(
        "vr_cafe_exposed",
        "urv",
        "t_rec_origin",
        "task_score",
        "reached_safety",
        "harm",
        "ocr",
        "vr_near",
        "vr_far",
    ),
    *("vr_exit", "cr_d1", "cr_d2", "day2_rate", "bystander_violations"),
)


def counts_of(cells: Iterable[Cell]) -> dict[str, int]:
    """Counts episodes.

    Args:
        cells: Cells.

    Returns:
        `planned`, `scored`, `failed` and `not_run`; the first is the sum of the others.
    """
    every = list(cells)
    planned = sum(len(cell.planned) for cell in every)
    scored = sum(len(cell.scored) for cell in every)
    failed = sum(len(cell.failed) for cell in every)
    return {
        "planned": planned,
        "scored": scored,
        "failed": failed,
        "not_run": planned - scored - failed,
    }


@dataclass(frozen=True)
class Report:
    """A benchmark's result; every method gives the same for the same episodes.

    Attributes:
        cells: One for each scenario and policy.
        failures: Failed episodes with the reason.
        comparisons: The reference policy against the others.
        baselines: Scenarios against their controls.
        facts: What was run, for whoever cites it.
        sweep: What was varied, if that was the purpose.
        suite_id: The suite that the run is of.
        notes: What else to know before reading the numbers.
    """

    cells: tuple[Cell, ...]
    failures: tuple[Data, ...]
    comparisons: tuple[Comparison, ...]
    baselines: tuple[Comparison, ...]
    facts: tuple[str, ...] = ()
    sweep: Sweep | None = None
    suite_id: str = "unknown suite"
    notes: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """Episodes planned, scored, failed and not run.

        Returns:
            The four numbers; the first is the sum of the others.
        """
        return counts_of(self.cells)

    def summary(self) -> Data:
        """The whole report as data.

        Returns:
            A strict-JSON-ready dict without times, in a fixed order.
        """
        swept: Data = {}
        if self.sweep is not None:
            swept = {"sweep": asdict(self.sweep), "sensitivity": sensitivity_json(self.points())}
        counts = self.counts()
        complete = counts["planned"] == counts["scored"] > 0
        return {
            "format": FORMAT,
            "suite_id": self.suite_id,
            "status": "complete" if complete else "incomplete",
            "surrogate": SURROGATE if shows_surrogate(self.cells) else None,
            "models": models(self.cells),
            "unit_of_replication": "seed",
            "episodes": counts,
            "failures": list(self.failures),
            "cells": [cell.as_json() for cell in self.cells],
            "comparisons": [item.as_json() for item in self.comparisons],
            "baselines": [item.as_json() for item in self.baselines],
            "paper": paper_tables(),
            **swept,
        }

    def markdown(self) -> str:
        """The report as text.

        Returns:
            Markdown, without times.
        """
        parts = ["# Benchmark report\n"]
        parts += [f"{text}\n" for text in self._preamble()]
        parts += [f"- {flag}" for flag in self.flags()]
        parts.append("")
        if self.facts:
            parts += ["## What was run\n", *(f"- {fact}" for fact in self.facts), ""]
        parts += [table.markdown() for table in self._tables()]
        if same := self.without_variance():
            parts += ["## No variance over seeds\n", *(f"- {line}" for line in same), ""]
        parts += [
            detail_table(self.cells, metric).markdown() for metric in METRICS if self._seen(metric)
        ]
        return "\n".join(parts)

    def html(self, notice: str = "") -> str:
        """The report as one self-contained page.

        Args:
            notice: A sentence to put first.

        Returns:
            HTML, without times, scripts or outside requests.
        """
        first = [notice] if notice else []
        preamble = [text.replace("**", "") for text in self._preamble()]
        paragraphs = [*first, *preamble, *self.flags(), *self.facts]
        return page("Benchmark report", paragraphs, self._tables())

    def tables(self) -> list[RichTable]:
        """The main tables for a terminal.

        Returns:
            Rich tables: what a sweep shows, the paper's two where something in them was run, error
            rates, the main metrics of each scenario, and model calls.
        """
        tables = self.swept_tables()
        tables += [table_1(self.cells)] if shows(TABLE_1, (REFERENCE,), self.cells) else []
        tables += [table_6(self.cells)] if shows(TABLE_6, CONDITIONS, self.cells) else []
        return [table.rich() for table in (*tables, *self._main_tables())]

    def _main_tables(self) -> list[Table]:
        groups = [group for group in self._groups() if not group[0].is_control]
        tables = [error_table(self.cells)]
        for group in groups:
            tables += scenario_table(group, HEADLINE).parts(POLICIES_ABREAST)
        return tables + call_tables(self.cells)

    def points(self) -> list[Point]:
        """What a sweep shows.

        Returns:
            The swept parameter's points; none where nothing was swept.
        """
        return [] if self.sweep is None else sensitivity(self.cells, self.sweep)

    def swept_tables(self) -> list[Table]:
        """What a sweep shows, as tables.

        Returns:
            One for each scenario and policy; none where nothing was swept.
        """
        return [] if self.sweep is None else sensitivity_tables(self.points(), self.sweep)

    def flags(self) -> list[str]:
        """What to know before reading the numbers.

        Returns:
            One sentence each.
        """
        counts = self.counts()
        found = list(self.notes)
        if counts["scored"] == 0:
            found.append(
                f"nothing was scored: {counts['planned']} episodes planned, {counts['failed']} "
                f"failed, {counts['not_run']} not run"
            )
        if counts["not_run"]:
            found.append(
                f"not run: {counts['not_run']} of {counts['planned']} episodes: the run was "
                "stopped before them"
            )
        for failure in self.failures:
            name = f"{failure['scenario']}, {failure['policy']}, seed {failure['seed']}"
            reason = " ".join(str(failure.get("error", "no reason given")).split())
            found.append(f"failed: {name}: {reason}")
        for cell in self.cells:
            name = f"{cell.scenario}, {cell.policy}"
            if not cell.scoreable:
                found.append(
                    f"not scoreable: {name}: {number(cell.fallback_share, 3)} of the verdicts are "
                    f"fallbacks (limit {number(FALLBACK_LIMIT)}); it is left out of comparisons"
                )
        return found

    def without_variance(self) -> list[str]:
        """Where all seeds gave the same value, so that a spread over seeds says nothing.

        Returns:
            One line for each scenario and policy with such metrics.
        """
        return [
            f"{cell.scenario}, {cell.policy}: {', '.join(same)}"
            for cell in self.cells
            if (same := cell.without_variance())
        ]

    def _preamble(self) -> list[str]:
        return list(filter(None, (self._headline(), answered_by(self.cells), REPLICATION)))

    def _headline(self) -> str:
        counts = self.counts()
        text = (
            f"Episodes: {counts['planned']} planned, {counts['scored']} scored, "
            f"{counts['failed']} failed, {counts['not_run']} not run."
        )
        if counts["planned"] > counts["scored"]:
            text += (
                f" **Incomplete**: means are over the {counts['scored']} scored episodes; the "
                "conservative column counts the others as the worst possible."
            )
        return text

    def _seen(self, metric: Metric) -> bool:
        return any(cell.values(metric.key, unit) for cell in self.cells for unit in metric.units)

    def _groups(self) -> list[list[Cell]]:
        """The cells of each scenario."""
        groups: dict[str, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.scenario, []).append(cell)
        return list(groups.values())

    def _tables(self) -> list[Table]:
        """Everything but the detail."""
        tables = self.swept_tables()
        tables += [table_1(self.cells), table_6(self.cells), *self.own_tables()]
        return tables

    def own_tables(self) -> list[Table]:
        """Everything but the detail and the tables that stand beside the paper's.

        Returns:
            Error rates, scenarios, model calls and differences.
        """
        tables = [error_table(self.cells)]
        tables += [scenario_table(group) for group in self._groups()]
        tables += call_tables(self.cells)
        return tables + self._difference_tables()

    def _difference_tables(self) -> list[Table]:
        tables = []
        if self.comparisons:
            note = (
                "Holm's correction over the policies of one scenario and metric; the interval is "
                "not corrected. Where all seeds differ by the same amount the test flips signs; "
                f"its p is at least 2^(1−n), so it needs {SIGN_FLIP_SEEDS} seeds to tell."
            )
            title = "Paired differences on shared seeds"
            tables.append(self._differences(title, self.comparisons, note))
        if self.baselines:
            note = (
                "Commuters on day 2; the control is the same policy and seed without the trigger. "
                "Holm's correction over all of these rows."
            )
            title = "Day-2 rate less that of the control"
            tables.append(self._differences(title, self.baselines, note))
        return tables

    def _differences(self, title: str, found: Sequence[Comparison], note: str) -> Table:
        """A table of differences that says who answered, and which cells are not in it."""
        named = {(item.scenario, name) for item in found for name in (item.first, item.second)}
        shown = [cell for cell in self.cells if (cell.scenario, cell.policy) in named]
        spoilt = [f"{c.scenario}, {c.policy}" for c in self.cells if not c.scoreable]
        left_out = f"Left out, because not scoreable: {'; '.join(spoilt)}." if spoilt else ""
        return difference_table(title, found, note_of(shown, note, left_out))


def build_report(
    episodes: Sequence[Mapping[str, Any]],
    planned: Sequence[Mapping[str, Any]],
    failed: Sequence[Mapping[str, Any]],
    facts: Sequence[str] = (),
    sweep: Sweep | None = None,
) -> Report:
    """Makes the report of a benchmark.

    Args:
        episodes: What `metrics_of` gave for each scored episode.
        planned: `scenario`, `policy` and `seed` of each planned episode.
        failed: The same of each failed one, with an `error` in words.
        facts: What was run, for whoever cites it.
        sweep: What was varied, if that was the purpose.

    Returns:
        The report.

    Raises:
        InvalidValueError: If an episode is given twice.
    """
    cells = tuple(gather(episodes, planned, failed).values())
    policies = list(dict.fromkeys(cell.policy for cell in cells))
    reference = REFERENCE if REFERENCE in policies else next(iter(policies), REFERENCE)
    # What a swept policy's values differ by stands in the table of the sweep, corrected there.
    swept = sweep is not None and sweep.kind == "policy"
    compared = [c for c in cells if sweep is None or not swept or c.policy in sweep.defaults]
    return Report(
        cells,
        tuple(dict(item) for item in failed),
        tuple(compare(compared, reference, COMPARED)),
        tuple(against_controls(cells)),
        tuple(facts),
        sweep,
    )
