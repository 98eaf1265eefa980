"""What a run's model calls cost: from the store, with times, and so apart from the report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from voville_env.benchmarks.folder import write_text
from voville_env.benchmarks.layout import Table, number

OUTCOMES = (
    *("valid", "malformed", "truncated", "refused", "filtered"),
    *("timeout", "unavailable", "rejected", "over_budget"),
)


def write_usage(folder: Path, usage: Mapping[str, Any]) -> None:
    """Writes `usage.json` and `usage.md`.

    Args:
        folder: The run folder.
        usage: What the backbone says of its calls.
    """
    before = read_usage(folder) or {"notes": []}
    usage = {**usage, "notes": list(dict.fromkeys([*before["notes"], *usage["notes"]]))}
    text = json.dumps(usage, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / "usage.json", text)
    write_text(folder / "usage.md", "# Model calls\n\n" + usage_table(usage).markdown())


def read_usage(folder: Path) -> dict[str, Any] | None:
    """What a run's model calls cost.

    Args:
        folder: The run folder.

    Returns:
        The content of its `usage.json`; None where no model was called.
    """
    path = folder / "usage.json"
    try:
        return dict(json.loads(path.read_text("utf-8"))) if path.exists() else None
    except (ValueError, TypeError):
        return None  # it tells what was spent; nothing depends on it


def usage_table(usage: Mapping[str, Any]) -> Table:
    """Model calls by operation: outcomes, tokens, cost and latency.

    Args:
        usage: What the backbone says of its calls.

    Returns:
        The table.
    """
    shown = [name for name in OUTCOMES if any(row["outcomes"].get(name) for row in _rows(usage))]
    rows = []
    for row in _rows(usage):
        rows.append(
            (
                row["operation"],
                str(row["exchanges"]),
                *(str(row["outcomes"].get(name, 0)) for name in shown),
                str(row["calls"]),
                str(row["prompt_tokens"]),
                str(row["completion_tokens"]),
                number(row["cost"] if usage["priced"] else None, 4),
                *(number(row[name]) for name in ("latency_median", "latency_p95")),
            )
        )
    columns = ("asked", *shown, "requests", "tokens in", "tokens out", "USD", "median s", "p95 s")
    note = (
        "Calls of this run alone: an answer found in the store costs nothing and is not counted. "
        "asked is the sum of the outcomes, and a question asked again with a reminder is another; "
        "requests count every attempt. "
    )
    note += " ".join(f"{item[0].upper()}{item[1:]}." for item in usage["notes"])
    if not usage["priced"]:
        note += " No price is known for this model: see price_in and price_out."
    return Table(
        f"Model calls: {usage['model']}", ("operation", *columns), tuple(rows), note.strip()
    )


def _rows(usage: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*usage["operations"], usage["total"]]
