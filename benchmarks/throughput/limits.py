"""The bound that memory sets: steps a second of a program that only copied observations."""

from __future__ import annotations

import statistics
import time

import numpy as np

from voville_env.core.layout import OBSERVATION, Records, zeros


def copy_limit(batch: int, agents: int, *, repeats: int = 51) -> dict[str, float]:
    """Copies the observations of a batch with NumPy.

    Args:
        batch: Number of environments.
        agents: Agents in each.
        repeats: Copies timed; the median counts.

    Returns:
        `batch`, `bytes_per_agent`, `seconds` a copy, and the `agent_steps_per_second` at which a
        program that only copied would end.
    """
    source: Records = zeros(OBSERVATION, batch, agents)
    plain = source.view(np.uint8)
    target = np.empty_like(plain)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        np.copyto(target, plain)
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    return {
        "batch": batch,
        "bytes_per_agent": OBSERVATION.itemsize,
        "seconds": seconds,
        "agent_steps_per_second": batch * agents / seconds,
    }
