"""The ways to step Voville that are timed: batched core, vector environment, dict API.

All on `fire_escape_officers`, ticks 50 to 150 of day 1, with random actions: where the town is
busiest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from voville_env.benchmarks.throughput.timing import Case, stepping
from voville_env.parallel import VovilleEnv
from voville_env.scenario import load_world
from voville_env.sim import TownSim
from voville_env.wrappers.flat import ParallelFlat

BATCHES = (1, 16, 256, 4096)
SHARED = 16
"""Smallest batch that is also timed on several threads: a smaller one has nothing to share."""
SCENARIO = "fire_escape_officers"
WINDOW = (1, 50, 150)
_TABLE = 64
"""Steps of random actions drawn beforehand."""


def core(
    batch: int, threads: int = 1, *, without: tuple[str, ...] = (), what: str = "batched core"
) -> Case:
    """The batched core, all of it on unless said.

    Args:
        batch: Number of environments.
        threads: Threads a step may use.
        without: Parts switched off, of `events`, `observation` and `oracle`.
        what: Its name in the tables.

    Returns:
        The case.
    """
    sim = TownSim(load_world(SCENARIO), batch, window=WINDOW, threads=threads)
    for part in without:
        sim.config[f"with_{part}"] = 0
    seeds = np.arange(batch, dtype=np.uint64)
    moves = random_actions(batch, sim.n_agents)
    sim.reset(seeds)
    steps = batch * sim.n_agents
    count = 0

    def advance() -> int:
        nonlocal count
        if sim.state[0].over:
            sim.reset(seeds)
        sim.actions[:] = moves[count % _TABLE]
        sim.step()
        sim.state["event_count"] = 0
        count += 1
        return steps

    return stepping(what, batch, advance, threads=threads)


def random_actions(batch: int, agents: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    """Random actions for `_TABLE` steps.

    Args:
        batch: Number of environments.
        agents: Agents in each.

    Returns:
        `(_TABLE, B, N)` int8.
    """
    return np.random.default_rng(0).integers(0, 10, (_TABLE, batch, agents), np.int8)


def vector(batch: int, threads: int = 1, *, copy: bool = True) -> Case:
    """The vector environment, as a learner steps it: no events, no oracle label.

    Args:
        batch: Number of environments.
        threads: Threads a step may use.
        copy: Whether it returns copies.

    Returns:
        The case.
    """
    from voville_env.vector import VovilleVectorEnv

    env = VovilleVectorEnv(SCENARIO, batch, window=WINDOW, threads=threads, copy=copy)
    agents = len(env.agents)
    moves = random_actions(batch, agents)
    env.reset(seed=0)
    count = 0

    def advance() -> int:
        nonlocal count
        env.step(moves[count % _TABLE])
        count += 1
        return batch * agents

    name = "VovilleVectorEnv" if copy else "VovilleVectorEnv, copy=False"
    return stepping(name, batch, advance, threads=threads)


def vector_views(batch: int, threads: int = 1) -> Case:
    """The vector environment that returns views of its buffers.

    Args:
        batch: Number of environments.
        threads: Threads a step may use.

    Returns:
        The case.
    """
    return vector(batch, threads, copy=False)


def agents() -> int:
    """Agents of the scenario that is timed.

    Returns:
        `N`.
    """
    return len(load_world(SCENARIO).agent_ids)


def dict_api(*, copy: bool = True) -> Case:
    """One environment through the dict API of PettingZoo.

    Args:
        copy: Whether observations are copies.

    Returns:
        The case.
    """
    advance = _dict_steps(VovilleEnv(SCENARIO, window=WINDOW, copy=copy))
    name = "dict API" if copy else "dict API, copy=False"
    return stepping(name, 1, advance)


def flat_dict_api() -> Case:
    """One environment that gives each agent a fresh flat vector and its mask.

    Returns:
        The case.
    """
    town = VovilleEnv(SCENARIO, window=WINDOW, copy=False)
    return stepping("dict API, flat vectors", 1, _dict_steps(town, ParallelFlat(town)))


def _dict_steps(town: VovilleEnv, seen: ParallelFlat | None = None) -> Callable[[], int]:
    env = seen or town
    names = env.possible_agents
    table = random_actions(1, len(names))[:, 0].tolist()
    moves = [dict(zip(names, row, strict=True)) for row in table]
    env.reset(seed=0)
    count = 0

    def advance() -> int:
        nonlocal count
        if not env.agents:
            env.reset(seed=0)
        env.step(moves[count % _TABLE])
        town.sim.state["event_count"] = 0
        count += 1
        return len(names)

    return advance
