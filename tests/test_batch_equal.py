"""A batch, single environments and several threads do the same, byte for byte."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from voville_env.core import layout
from voville_env.scenario import load_world
from voville_env.sim import TownSim

SEEDS = np.array([3, 2**40 + 1, 2**63 + 5, 7], np.uint64)
WINDOWS = [
    ("fire_escape", (1, 48, 60)),
    ("fire_escape_control", (1, 48, 54)),
    ("fire_escape_officers", (1, 50, 66)),
    ("fire_escape_officers_control", (1, 50, 56)),
    ("jaywalk", (2, 108, 120)),
    ("jaywalk_control", (1, 28, 36)),
]
_THREADS = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from test_batch_equal import SEEDS, WINDOWS, digests
for name, window in WINDOWS:
    assert digests(name, window, SEEDS, threads=2) == digests(name, window, SEEDS), name
print("equal")
"""


def actions_of(seed: int, steps: int, agents: int) -> Any:
    """Random acts of one environment, which depend on its seed alone."""
    return np.random.default_rng(int(seed)).integers(0, 10, (steps, agents), np.int8)


def digests(name: str, window: tuple[int, int, int], seeds: Any, threads: int = 1) -> list[str]:
    """One digest for each environment: of state, observations, outcomes and events of all steps."""
    sim = TownSim(load_world(name), len(seeds), window=window, threads=threads)
    steps = (window[2] - window[1]) * 4
    acts = np.stack([actions_of(seed, steps, sim.n_agents) for seed in seeds], axis=1)
    found = [hashlib.sha256() for _ in seeds]
    sim.reset(seeds)
    for step in range(steps + 2):  # the last one shows a reset after the end
        for b, digest in enumerate(found):
            for records in (sim.state, sim.observations, sim.outcomes):
                digest.update(layout.plain(records)[b].tobytes())
            digest.update(sim.drain(b).tobytes())
        if step < steps:
            sim.actions[:] = acts[step]
            sim.step()
        elif step == steps:
            assert sim.state["over"].all()
            sim.reset(seeds)
    return [digest.hexdigest() for digest in found]


@pytest.mark.parametrize(("name", "window"), WINDOWS)
def test_a_batch_is_its_environments_one_by_one(name: str, window: tuple[int, int, int]) -> None:
    together = digests(name, window, SEEDS)
    alone = [digests(name, window, SEEDS[b : b + 1])[0] for b in range(len(SEEDS))]
    assert together == alone
    assert len(set(together)) == len(SEEDS)  # seeds and actions matter


@pytest.mark.slow
def test_two_threads_are_one() -> None:
    # In a process of its own, whose threads cannot disturb the other tests.
    command = [sys.executable, "-c", _THREADS, json.dumps(sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "equal", done.stderr
