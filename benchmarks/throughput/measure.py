"""Measures everything that `voville throughput` prints."""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from voville_env.benchmarks.throughput import cases, limits, peers, shares, startup, targets
from voville_env.benchmarks.throughput.timing import Case, interleave
from voville_env.errors import InvalidValueError, MissingExtraError


@dataclass(frozen=True)
class Settings:
    """What is measured.

    Attributes:
        batches: Batch sizes of the core and of the vector environment.
        seconds: Seconds spent on each row.
        threads: Threads; above 1, batches of `cases.SHARED` and more are timed with one and with so
            many.
        parts: Whether the shares of a step, the copy limit and the start-up are measured.
        cold: Whether start-up is also timed with nothing compiled, which takes half a minute.
        peers: Whether other environments are timed too.
        pythons: Further interpreters in which peers are looked for.
        learner: Whether a learner's loop is timed too.
    """

    batches: tuple[int, ...] = cases.BATCHES
    seconds: float = 2.0
    threads: int = 1
    parts: bool = True
    cold: bool = True
    peers: bool = False
    pythons: tuple[str, ...] = ()
    learner: bool = False


def measure(
    settings: Settings, report: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Measures this machine.

    Args:
        settings: What is measured.
        report: Is told what runs now.

    Returns:
        `machine`, `rows`, and where asked for `kernels`, `switched_off`, `copy_limit`, `start_up`,
        `peers` (`rows`, `ratios`, `missing`) and `learner`, all plain values.

    Raises:
        InvalidValueError: If a number is out of range.
    """
    _check(settings)
    told: dict[str, Any] = {"machine": _machine(), "rows": _rows(settings, report)}
    if settings.parts:
        seconds = settings.seconds
        told["kernels"] = shares.kernel_shares(seconds=seconds, report=report)
        told["switched_off"] = shares.switched_off(seconds=seconds, report=report)
        agents = cases.agents()
        told["copy_limit"] = [limits.copy_limit(batch, agents) for batch in settings.batches]
        report("start of a process" + (", nothing compiled" if settings.cold else ""))
        told["start_up"] = startup.start_up(cold=settings.cold)
    if settings.peers or settings.threads > 1:
        told["peers"] = _peers(settings, report)
    if settings.learner:
        told["learner"] = _learner(settings, report)
    return told


def _check(settings: Settings) -> None:
    least = min(settings.batches, default=0)
    if least < 1 or settings.threads < 1:
        raise InvalidValueError(
            f"batch {least}, threads {settings.threads}; allowed: at least 1 each"
        )
    if not (settings.seconds > 0 and math.isfinite(settings.seconds)):
        raise InvalidValueError(f"seconds is {settings.seconds!r}; allowed: above 0")


def _machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
    }


def _rows(settings: Settings, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """One group a batch size, so that memory is held for one size at a time."""
    told: list[dict[str, Any]] = []

    def take(group: Sequence[Case]) -> None:
        told.extend(row.as_dict() for row in interleave(group, settings.seconds, report=report))

    for batch in settings.batches:
        report(f"batched core and VovilleVectorEnv, batch {batch}")
        counts = {1, settings.threads if batch >= cases.SHARED else 1}
        take(
            [
                make(batch, threads)
                for threads in sorted(counts)
                for make in (cases.core, cases.vector, cases.vector_views)
            ]
        )
    take([cases.dict_api(), cases.dict_api(copy=False), cases.flat_dict_api()])
    return told


def _peers(settings: Settings, report: Callable[[str], None]) -> dict[str, Any]:
    """Everything that targets compare, round by round in turn."""
    report("starting the peers")
    chosen = peers.PEERS if settings.peers else ()
    with peers.workers(settings.pythons, chosen) as (found, missing):
        ours = {
            targets.CORE: cases.core(256),
            targets.DICT: cases.dict_api(),
            targets.FLAT: cases.flat_dict_api(),
        }
        if settings.threads > 1:
            ours[targets.TWO_THREADS] = cases.core(256, 2)
        both = ours | found
        timed = interleave(list(both.values()), settings.seconds, report=report)
        rows = dict(zip(both, timed, strict=True))
    missing |= {key: row.failure for key, row in rows.items() if row.failure}
    rows = {key: row for key, row in rows.items() if not row.failure}
    return {
        "rows": [row.as_dict() for row in rows.values()],
        "ratios": targets.compare(rows),
        "missing": missing,
    }


def _learner(settings: Settings, report: Callable[[str], None]) -> dict[str, Any]:
    """A learner on the town, and with peers the same learner on pursuit right after it."""
    from voville_env.benchmarks.learner import measure_learner

    report("a learner's loop")
    try:
        told = dict(measure_learner(settings.seconds * 10))
    except MissingExtraError as error:
        return {"missing": str(error)}
    if settings.peers:
        report("a learner's loop on pursuit")
        with peers.workers(settings.pythons, (peers.LEARNER,)) as (found, missing):
            for case in found.values():
                row = interleave([case], settings.seconds * 10, rounds=2)[0]
                if row.failure:
                    missing[case.what] = row.failure
                    continue
                rate = statistics.median(row.rates)
                told |= {"pursuit": round(rate), "pursuit_is": case.note}
                told["times_pursuit"] = round(told["town"] / rate, 1)
            told |= {f"missing {name}": reason for name, reason in missing.items()}
    return told
