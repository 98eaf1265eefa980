"""Which case is compared with which, and how much faster it is meant to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from voville_env.benchmarks.throughput.timing import Row, ratio


@dataclass(frozen=True)
class Target:
    """A ratio that is aimed at.

    Attributes:
        ours: Key of our row.
        other: Key of the row it is divided by.
        least: The ratio aimed at.
    """

    ours: str
    other: str
    least: float


CORE = "core 256"
TWO_THREADS = "core 256, 2 threads"
DICT = "dict"
FLAT = "flat"
TARGETS = (
    Target(CORE, "ocean-snake", 1.0),
    Target(CORE, "ocean-trash-pickup", 1.5),
    Target(CORE, "jaxmarl-overcooked", 3.0),
    Target(CORE, "envpool-minigrid", 15.0),
    Target(TWO_THREADS, CORE, 1.7),
    Target(DICT, "magent2-battle-12", 2.5),
    Target(FLAT, "magent2-battle-162", 1.3),
    Target(DICT, "pettingzoo-pursuit", 100.0),
)


def compare(rows: Mapping[str, Row]) -> list[dict[str, object]]:
    """Compares what was measured in the same rounds with the targets.

    Args:
        rows: Rows by key; a target that lacks one of its two is left out.

    Returns:
        For each target, `ours`, `other`, `target`, `ratio` with `lowest` and `highest` over the
        rounds, `cpu_ratio`, and whether the target is `met` by the clock.
    """
    told: list[dict[str, object]] = []
    for target in TARGETS:
        if target.ours not in rows or target.other not in rows:
            continue
        found = ratio(rows[target.ours], rows[target.other])
        told.append(
            {
                "ours": target.ours,
                "other": target.other,
                "target": target.least,
                "ratio": found.median,
                "lowest": found.lowest,
                "highest": found.highest,
                "cpu_ratio": found.cpu,
                "met": found.median >= target.least,
            }
        )
    return told
