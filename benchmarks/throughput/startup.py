"""Seconds from the start of a process to its first observation, with and without compiled code."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

_FIRST_OBSERVATION = """
import time
import voville_env
voville_env.parallel_env(scenario="fire_escape").reset(seed=0)
print(time.time(), time.process_time())
"""


def start_up(*, repeats: int = 3, cold: bool = True) -> dict[str, float]:
    """Starts processes that make an environment and read its first observation.

    Args:
        repeats: Warm starts; the median counts.
        cold: Whether a first start with an empty folder for compiled code is timed; otherwise that
            start happens where the code is kept anyway, and only the warm ones are told.

    Returns:
        `warm` and `warm_cpu`, and with `cold` also `cold` and `cold_cpu`, in seconds.

    Raises:
        RuntimeError: If such a process fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if cold:
            environment["NUMBA_CACHE_DIR"] = folder
        first = _start(environment)
        warm = [_start(environment) for _ in range(repeats)]
    told = {
        "warm": statistics.median(wall for wall, _ in warm),
        "warm_cpu": statistics.median(cpu for _, cpu in warm),
    }
    if cold:
        told |= {"cold": first[0], "cold_cpu": first[1]}
    return told


def _start(environment: dict[str, str]) -> tuple[float, float]:
    start = time.time()
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_OBSERVATION],
        env=environment,
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"a process that makes an environment failed:\n{done.stderr[-2000:]}")
    end, cpu = map(float, done.stdout.split())
    return end - start, cpu
