"""The table of a policy's model calls: what was asked, what came back, what stood in for it."""

from __future__ import annotations

from collections.abc import Sequence

from voville_env.benchmarks.aggregate import Cell
from voville_env.benchmarks.layout import Table, number
from voville_env.benchmarks.notes import answered_by
from voville_env.metrics.calls import TOKENS, Counts, add_up, sum_of
from voville_env.metrics.episode import Answer

COLUMNS = (
    *("operation", "asked", *Answer),
    *("asked again", "malformed rate", "fallback rate", "fallback taken"),
    *("prompt tokens", "completion tokens"),
)
NOTE = (
    "Sums over the scored episodes of all scenarios. Asked is valid and all that follows up to "
    "filtered; a call that was asked again counts once, by its second answer and with the tokens "
    "of both. – the server did not count."
)


def call_tables(cells: Sequence[Cell]) -> list[Table]:
    """How often each policy asked a language model, and what became of it.

    Args:
        cells: All cells.

    Returns:
        One table for each policy that made calls.
    """
    policies = dict.fromkeys(cell.policy for cell in cells if cell.calls)
    return [
        _table(policy, [c for c in cells if c.calls and c.policy == policy]) for policy in policies
    ]


def _table(policy: str, cells: Sequence[Cell]) -> Table:
    found = add_up(calls for cell in cells for calls in cell.calls.values())
    rows = [_row(operation, counts) for operation, counts in found.items()]
    rows.append(_row("all", sum_of(list(found.values()))))
    return Table(
        f"Model calls by operation: {policy}",
        COLUMNS,
        tuple(rows),
        " ".join(filter(None, (answered_by(cells), NOTE))),
    )


def _row(name: str, counts: Counts) -> tuple[str, ...]:
    taken = ", ".join(f"{times} {fallback}" for fallback, times in counts["fallbacks"].items())
    return (
        name,
        *(str(counts[key]) for key in ("asked", *Answer, "retried")),
        number(counts[Answer.MALFORMED] / counts["asked"], 3),
        number(sum(counts["fallbacks"].values()) / counts["asked"], 3),
        taken or "0",
        *("–" if counts[key] is None else str(counts[key]) for key in TOKENS),
    )
