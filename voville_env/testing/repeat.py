"""Whether the same seed and the same actions give the same run: again, elsewhere, and in a copy."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from voville_env.testing.report import fail, require
from voville_env.testing.trajectory import (
    Actions,
    Env,
    Frame,
    MakeEnv,
    chooser,
    digest_of,
    play,
    play_on,
    trajectory_hash,
)

_COPIES: dict[str, Callable[[Env], Env]] = {
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
}
_CHILD = """
import json, sys
job = json.load(sys.stdin)
sys.path[:] = job["path"]
from voville_env.testing import repeat
print("hash", repeat.run_job(job))
"""


def check_determinism(
    make_env: MakeEnv, *, seed: int = 0, steps: int | None = None, actions: Actions = "random"
) -> str:
    """One seed and one choice of actions give one run: in a second environment and after a reset.

    Global generators are moved on between the runs; nobody's run may depend on them.

    Args:
        make_env: Makes the environment.
        seed: Seed of the run.
        steps: Most steps; None plays to the end.
        actions: How to act.

    Returns:
        The trajectory hash.

    Raises:
        ConformanceError: If the hashes differ.
    """
    env = make_env()
    first = trajectory_hash(env, seed, steps, actions)
    random.seed(1234)
    np.random.seed(1234)  # noqa: NPY002 - the very generator that must not matter
    again = trajectory_hash(env, seed, steps, actions)
    require(again == first, f"a second run with seed {seed} after reset() differs from the first")
    np.random.random(7)  # noqa: NPY002
    fresh = trajectory_hash(make_env(), seed, steps, actions)
    require(fresh == first, f"a second environment with seed {seed} runs differently")
    return first


def run_job(job: Mapping[str, Any]) -> str:
    """The work of a child process.

    Args:
        job: Its order, as `check_processes` writes it.

    Returns:
        The trajectory hash.
    """
    make_env: MakeEnv = pickle.loads(base64.b64decode(job["make_env"]))
    return trajectory_hash(make_env(), job["seed"], job["steps"], job["actions"])


def check_processes(
    make_env: MakeEnv,
    *,
    seed: int = 0,
    steps: int | None = None,
    hash_seeds: Sequence[str] = ("0", "1", "random"),
    environment: Mapping[str, str] | None = None,
) -> str:
    """Separate processes with different `PYTHONHASHSEED` give one run: no set order, no clock.

    Args:
        make_env: Makes the environment; a function of an importable module, or a
            `functools.partial` of one, since it must travel to other processes.
        seed: Seed of the run.
        steps: Most steps; None plays to the end.
        hash_seeds: Values of `PYTHONHASHSEED`, one process each, all at once.
        environment: Further environment variables of the processes.

    Returns:
        The trajectory hash.

    Raises:
        ConformanceError: If the hashes differ or a process fails.
    """
    try:
        made = base64.b64encode(pickle.dumps(make_env)).decode()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        fail(f"make_env cannot travel to another process, use a function of a module: {error}")
    make_env().reset(seed=seed)  # what it compiles is then on disk for all of them
    order = {"make_env": made, "seed": seed, "steps": steps, "actions": "random", "path": sys.path}
    running = []
    for value in hash_seeds:
        variables = os.environ | dict(environment or {}) | {"PYTHONHASHSEED": value}
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
        )
        assert child.stdin is not None
        child.stdin.write(json.dumps(order))
        child.stdin.close()
        child.stdin = None
        running.append((value, child))
    hashes = {value: _result(value, child) for value, child in running}
    require(len(set(hashes.values())) == 1, f"PYTHONHASHSEED changes the run: {hashes}")
    return next(iter(hashes.values()))


def _result(value: str, child: subprocess.Popen[str]) -> str:
    output, errors = child.communicate()
    lines = [line for line in output.splitlines() if line.startswith("hash ")]
    if child.returncode != 0 or not lines:
        fail(f"the process with PYTHONHASHSEED={value} failed: {errors.strip()[-500:]}")
    return lines[-1].removeprefix("hash ")


def check_action_order(make_env: MakeEnv, *, seed: int = 0, steps: int = 200) -> None:
    """The order in which a dict of actions was filled means nothing.

    Args:
        make_env: Makes the environment.
        seed: Seed of the run.
        steps: Most steps.

    Raises:
        ConformanceError: If runs with the same actions in another order differ.
    """
    forward, backward, mixed = make_env(), make_env(), make_env()
    others = ((backward, "reversed"), (mixed, "mixed"))
    for env, _ in others:
        env.reset(seed=seed)
    observations, infos = forward.reset(seed=seed)
    choose = chooser(forward, seed, "random")
    shuffle = np.random.default_rng(seed)
    for step in range(1, steps + 1):
        if not forward.agents:
            return
        actions = choose(observations, infos)
        orders = [
            list(reversed(actions)),
            [list(actions)[k] for k in shuffle.permutation(len(actions))],
        ]
        frame = Frame(*forward.step(actions))
        expected = digest_of(frame)
        for (env, name), order in zip(others, orders, strict=True):
            found = digest_of(Frame(*env.step({agent: actions[agent] for agent in order})))
            require(found == expected, f"step {step} with its actions in {name} order differs")
        observations, infos = frame.observations, frame.infos


def check_copy(
    make_env: MakeEnv, *, seed: int = 0, lead: int = 20, steps: int | None = None
) -> None:
    """`copy.deepcopy` and `pickle` in mid-run give twins that go on alike and on their own.

    Args:
        make_env: Makes the environment.
        seed: Seed of the run.
        lead: Steps before the copies are made.
        steps: Most steps after that; None plays to the end.

    Raises:
        ConformanceError: If a copy cannot be made or goes another way.
    """
    env = make_env()
    frame = list(play(env, seed, lead))[-1]
    require(env.agents, f"the run was over after {lead} steps; choose a smaller lead")
    twins = [(name, _copied(name, way, env)) for name, way in _COPIES.items()]
    # Copies first: were they to share anything with the original, its run would now differ.
    runs = {name: _onward(twin, frame, seed, steps) for name, twin in twins}
    runs["the original after its copies ran"] = _onward(env, frame, seed, steps)
    other = make_env()
    again = list(play(other, seed, lead))[-1]
    expected = _onward(other, again, seed, steps)
    for name, run in runs.items():
        pairs = enumerate(zip(run, expected, strict=False), start=1)
        at = next(
            (k for k, (mine, theirs) in pairs if mine != theirs), min(len(run), len(expected))
        )
        require(run == expected, f"{name}: step {at} after the copy differs from an uncopied run")


def _copied(name: str, way: Callable[[Env], Env], env: Env) -> Env:
    try:
        return way(env)
    except Exception as error:
        fail(f"{name} in mid-run fails: {type(error).__name__}: {error}")


def _onward(env: Env, frame: Frame, seed: int, steps: int | None) -> list[str]:
    """Digests of the frames from here on; an action source of its own, so that runs are alike."""
    choose = chooser(env, seed + 1, "random")
    return [digest_of(item) for item in play_on(env, frame, steps, choose)]
