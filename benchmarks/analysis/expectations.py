"""Which directions of the paper's Table 6 hold in a run, condition by condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from voville_env.benchmarks.aggregate import Cell
from voville_env.benchmarks.analysis.run import Run
from voville_env.benchmarks.analysis.section import Section
from voville_env.benchmarks.layout import Table, interval, number
from voville_env.benchmarks.notes import NOT_SCOREABLE, note_of, shows_surrogate
from voville_env.benchmarks.statistics import (
    HIGHER,
    LOWER,
    NO_SHARED_SEEDS,
    NOT_DISTINGUISHABLE,
    OF_RATES,
    SIGN_FLIP_SEEDS,
    Difference,
    correct,
    paired,
)
from voville_env.benchmarks.tables import REFERENCE, TABLE_6, paper_tables
from voville_env.metrics import BY_KEY

KEY, TITLE = "expectations", "Directions of the paper's Table 6"
HOLDS, DOES_NOT, NOT_RUN = "holds", "does not hold", "not run"
TOO_FEW = f"same in all seeds; at least {SIGN_FLIP_SEEDS} needed"
CALIBRATED = (
    "On the surrogate these directions follow from its calibration (its constants labelled "
    "fitted): they show that the machinery works and are no evidence."
)


class Expectation(NamedTuple):
    """One direction: a condition against PAVE, in one column of the table.

    `printed` is the difference of the printed means, `found` ours on shared seeds; None where one
    of the two was not run or is not scoreable.
    """

    policy: str
    metric: str
    head: str
    scenario: str
    printed: float
    found: Difference | None
    outcome: str

    @property
    def direction(self) -> str:
        """What the paper prints, in a word."""
        return HIGHER if self.printed > 0 else LOWER

    @property
    def too_few(self) -> bool:
        """Whether all seeds differ alike, and are too few to tell."""
        return self.found is not None and self.found.too_few


def expectations(run: Run) -> list[Expectation]:
    """Every direction of Table 6.

    Args:
        run: The run.

    Returns:
        Directions by column and condition; the conditions of one column are a family for Holm's
        correction.
    """
    rows = {row["policy"]: row for row in paper_tables()["table_6"]["rows"]}
    base = rows.pop(REFERENCE)
    found = []
    for key, head, scenario, metric, _ in TABLE_6:
        pairs = [_pair(run, scenario, policy, metric) for policy in rows]
        corrected = iter(correct([item for item in pairs if isinstance(item, Difference)]))
        for policy, item in zip(rows, pairs, strict=True):
            printed = rows[policy][key][0] - base[key][0]
            ours = next(corrected) if isinstance(item, Difference) else None
            outcome = str(item) if ours is None else _outcome(printed, ours)
            found.append(Expectation(policy, metric, head, scenario, printed, ours, outcome))
    return found


def _pair(run: Run, scenario: str, policy: str, metric: str) -> Difference | str:
    """A condition less PAVE, or why there is no difference."""
    first, second = run.cell(scenario, policy), run.cell(scenario, REFERENCE)
    if first is None or second is None:
        return NOT_RUN
    if not (first.scoreable and second.scoreable):
        return NOT_SCOREABLE
    unit = BY_KEY[metric].units[0]
    return paired(first.values(metric, unit), second.values(metric, unit), OF_RATES)


def _outcome(printed: float, ours: Difference) -> str:
    if ours.verdict in (NOT_DISTINGUISHABLE, NO_SHARED_SEEDS):
        return ours.verdict
    return HOLDS if ours.verdict == (HIGHER if printed > 0 else LOWER) else DOES_NOT


def section(run: Run) -> Section:
    """The section of a run.

    Args:
        run: The run.

    Returns:
        The table of directions, and a row for each.
    """
    found = expectations(run)
    if all(item.outcome == NOT_RUN for item in found):
        reason = f"It needs {REFERENCE} and another condition of Table 6 on the same scenario."
        return Section(KEY, TITLE, nothing=reason)
    rows = tuple(
        {
            "scenario": item.scenario,
            "policy": item.policy,
            "against": REFERENCE,
            "metric": item.metric,
            "printed_difference": round(item.printed, 6),
            "seeds": item.found.n if item.found else 0,
            "difference": _rounded(item.found.mean if item.found else None),
            "low": _rounded(item.found.low if item.found else None),
            "high": _rounded(item.found.high if item.found else None),
            "p_holm": _rounded(item.found.p_holm if item.found else None),
            "outcome": item.outcome,
            "reason": TOO_FEW if item.too_few else None,
        }
        for item in found
    )
    return Section(KEY, TITLE, (_table(run, found),), rows)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _table(run: Run, found: Sequence[Expectation]) -> Table:
    shown: list[Cell | None] = [
        run.cell(item.scenario, name) for item in found for name in (item.policy, REFERENCE)
    ]
    cells = [cell for cell in shown if cell is not None]
    note = CALIBRATED if shows_surrogate(cells) else ""
    return Table(
        "Directions of the paper's Table 6 in this run",
        (
            *("condition less pave", "scenario", "printed difference", "seeds", "ours"),
            *("95% interval", "p (Holm)", "direction printed", "in this run"),
        ),
        tuple(_row(item) for item in found),
        note_of(
            cells,
            note,
            "Unit: seed; differences are paired on shared seeds, Holm's correction over the "
            "conditions of a column, at 5%. VR_cafe counts an attendee who stays in the burning "
            "café as 0. Where all seeds differ by the same amount there is no variance, hence no "
            "interval: signs are flipped instead, and p is at least 2^(1−n) before the correction.",
        ),
    )


def _row(item: Expectation) -> tuple[str, ...]:
    name = f"{item.policy}: {BY_KEY[item.metric].title}"
    printed = number(item.printed)
    if item.found is None:
        return (name, item.scenario, printed, "0", "–", "–", "–", item.direction, item.outcome)
    ours = item.found
    outcome = f"{item.outcome}\n({TOO_FEW})" if item.too_few else item.outcome
    return (
        *(name, item.scenario, printed, str(ours.n), number(ours.mean)),
        *(interval(ours.low, ours.high), number(ours.p_holm, 3), item.direction, outcome),
    )
