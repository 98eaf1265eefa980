"""Agent-steps per second of the batched core and of the dict API.

Measured on `fire_escape_officers`, ticks 50 to 150 of day 1, with random actions, full
observations, events and oracle on: where the town is busiest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from voville_env.errors import InvalidValueError
from voville_env.parallel import VovilleEnv
from voville_env.scenario import load_world
from voville_env.sim import TownSim

BATCHES = (1, 16, 256, 4096)
SCENARIO = "fire_escape_officers"
WINDOW = (1, 50, 150)
_REPEATS = 5
_TABLE = 64


def measure(
    batches: tuple[int, ...], *, seconds: float = 2.0, threads: int = 1
) -> list[dict[str, Any]]:
    """Measures the batched core at some batch sizes, and one environment through the dict API.

    Args:
        batches: Batch sizes.
        seconds: Seconds spent on each row.
        threads: Threads of the batched core.

    Returns:
        One dict a row: `what`, `batch`, `threads`, `agent_steps_per_second`, `microseconds`.

    Raises:
        InvalidValueError: If a number is out of range.
    """
    if min(batches) < 1 or seconds <= 0 or threads < 1:
        raise InvalidValueError(
            f"batch {min(batches)}, seconds {seconds}, threads {threads}; allowed: above 0 each"
        )
    rows = [_row("batched core", size, threads, *_core(size, seconds, threads)) for size in batches]
    rows.append(_row("dict API", 1, 1, *_dict_api(seconds, copy=True)))
    rows.append(_row("dict API, copy=False", 1, 1, *_dict_api(seconds, copy=False)))
    return rows


def _row(what: str, batch: int, threads: int, agents: int, duration: float) -> dict[str, Any]:
    return {
        "what": what,
        "batch": batch,
        "threads": threads,
        "agent_steps_per_second": agents * batch / duration,
        "microseconds": duration * 1e6,
    }


def _seconds_a_call(call: Callable[[], object], seconds: float) -> float:
    """Median over repeats of the mean time of a call."""
    for _ in range(3):
        call()
    times = []
    for _ in range(_REPEATS):
        count = 0
        start = time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds / _REPEATS:
            call()
            count += 1
        times.append(passed / max(count, 1))
    return statistics.median(times)


def _core(batch: int, seconds: float, threads: int) -> tuple[int, float]:
    sim = TownSim(load_world(SCENARIO), batch, window=WINDOW, threads=threads)
    seeds = np.arange(batch, dtype=np.uint64)
    moves = np.random.default_rng(0).integers(0, 10, (_TABLE, batch, sim.n_agents), np.int8)
    sim.reset(seeds)
    count = 0

    def step() -> None:
        nonlocal count
        if sim.state[0].over:
            sim.reset(seeds)
        sim.actions[:] = moves[count % _TABLE]
        sim.step()
        sim.state["event_count"] = 0
        count += 1

    return sim.n_agents, _seconds_a_call(step, seconds)


def _dict_api(seconds: float, *, copy: bool) -> tuple[int, float]:
    env = VovilleEnv(SCENARIO, window=WINDOW, copy=copy)
    names = env.possible_agents
    table = np.random.default_rng(0).integers(0, 10, (_TABLE, len(names))).tolist()
    moves = [dict(zip(names, row, strict=True)) for row in table]
    env.reset(seed=0)
    count = 0

    def step() -> None:
        nonlocal count
        if not env.agents:
            env.reset(seed=0)
        env.step(moves[count % _TABLE])
        env.sim.state["event_count"] = 0
        count += 1

    return len(names), _seconds_a_call(step, seconds)
