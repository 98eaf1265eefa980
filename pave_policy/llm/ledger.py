"""What a run's model calls came to, as data for a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from pave_policy.llm.operations import EMBED, OPERATIONS
from pave_policy.llm.store import CallStore, OperationUse

_ORDER = (*OPERATIONS, EMBED)


def ledger(store: CallStore) -> dict[str, Any]:
    """The calls of a store's own run, by operation.

    Args:
        store: The store.

    Returns:
        `operations`, in the order of the prompts and vectors last, and their `total`.
    """
    uses = sorted(store.by_operation(), key=lambda use: _ORDER.index(use.operation))
    outcomes: Counter[str] = Counter()
    for use in uses:
        outcomes.update(use.outcomes)
    total = {
        "operation": "all",
        **asdict(store.spent()),
        "outcomes": dict(outcomes),
        "latency_mean": None,
        "latency_median": None,
        "latency_p95": None,
    }
    return {"operations": [_row(use) for use in uses], "total": total}


def _row(use: OperationUse) -> dict[str, Any]:
    return {
        "operation": use.operation,
        **asdict(use.spent),
        "outcomes": dict(use.outcomes),
        "latency_mean": use.latency_mean,
        "latency_median": use.latency_median,
        "latency_p95": use.latency_p95,
    }
