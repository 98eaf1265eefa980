"""What comes to mind: recency, importance and relevance, each scaled to 0 to 1, then weighted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pave_policy.memory.stream import Entry

_DECIMALS = 6


@dataclass(frozen=True)
class Weights:
    """How much each of the three terms counts, and how fast recency fades.

    Attributes:
        recency: Weight of how lately an entry was last retrieved.
        importance: Weight of its importance.
        relevance: Weight of its likeness to what is asked.
        decay: Factor of recency for each tick.
    """

    recency: float
    importance: float
    relevance: float
    decay: float


def score(
    entries: Sequence[Entry], queries: NDArray[np.float32], now: int, weights: Weights
) -> NDArray[np.float64]:
    """How much each entry comes to mind.

    Args:
        entries: Entries that have their vectors.
        queries: What is asked, one vector of length 1 a row; an entry is as relevant as it is to
            the query that it is most like.
        now: The current tick, counted over days.
        weights: The weights.

    Returns:
        One score an entry, rounded so that the last digits of a machine decide nothing.
    """
    vectors = np.array([entry.vector for entry in entries], dtype=np.float64)
    ages = np.array([now - entry.accessed for entry in entries], dtype=np.float64)
    importance = np.array([entry.importance for entry in entries], dtype=np.float64)
    likeness = (vectors @ queries.astype(np.float64).T).max(axis=1)
    total = (
        weights.recency * scale(weights.decay**ages)
        + weights.importance * scale(importance)
        + weights.relevance * scale(likeness.round(_DECIMALS))
    )
    return total.round(_DECIMALS)


def scale(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Brings values to the range from 0 to 1.

    Args:
        values: Any numbers.

    Returns:
        0 for the smallest, 1 for the largest; all 0 where they are equal.
    """
    low, high = values.min(), values.max()
    if high == low:
        return np.zeros_like(values)
    scaled: NDArray[np.float64] = (values - low) / (high - low)
    return scaled


def retrieve(
    entries: Sequence[Entry],
    queries: NDArray[np.float32],
    now: int,
    weights: Weights,
    count: int,
) -> list[Entry]:
    """The entries that come to mind most, which counts as having used them.

    Only what scores above the average does: a list is not filled up with memories that have nothing
    to do with what is asked.

    Args:
        entries: Entries that have their vectors.
        queries: What is asked, one vector a row.
        now: The current tick, counted over days.
        weights: The weights.
        count: How many at most.

    Returns:
        Those above the average, the highest scores first, of equal ones the newest first.
    """
    if not entries:
        return []
    scores = score(entries, queries, now, weights)
    numbers = np.array([entry.number for entry in entries])
    average = scores.mean().round(_DECIMALS)
    found = [entries[k] for k in np.lexsort((-numbers, -scores))[:count] if scores[k] > average]
    for entry in found:
        entry.accessed = now
    return found
