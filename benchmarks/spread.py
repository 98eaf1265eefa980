"""Reading many logs: on all cores where there are enough of them to pay for the processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Note = Callable[[], None]
LEAST = 40
"""Logs from which on several processes read them."""


def over_logs(read: Callable[[Path], T], logs: Sequence[Path], note: Note | None = None) -> list[T]:
    """Reads logs.

    Args:
        read: Reads one; a function of a module.
        logs: Their paths.
        note: Called after each of them.

    Returns:
        What was read, in the order of the paths.

    Raises:
        LogError: If one of them cannot be understood.
    """
    workers = min(os.cpu_count() or 1, 8)
    if workers == 1 or len(logs) < LEAST:
        return [_noted(read(path), note) for path in logs]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        return [_noted(found, note) for found in pool.map(read, logs, chunksize=4)]


def _noted(found: T, note: Note | None) -> T:
    if note is not None:
        note()
    return found
