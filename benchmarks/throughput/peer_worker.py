"""Steps one other environment on request; run as a script by `peers`, in any Python that has it.

It imports nothing of Voville, so that peers which need other versions of NumPy can have an
environment of their own. Protocol, one line of JSON each: it answers the start with what it runs,
or with `missing`; then each line read, a number of seconds, with what was done in that time.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

_TABLE = 64


class Peer(NamedTuple):
    """A peer that is ready to be stepped.

    Attributes:
        advance: Steps it once or a few times, and returns how many agent-steps that was.
        note: What it is: version, size, bytes of an observation.
        buffers: Arrays that foreign code writes into, and that must therefore live on.
    """

    advance: Callable[[], int]
    note: str
    buffers: tuple[Any, ...] = ()


def _version(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


def _ocean(name: str, folder: str, batch: int, width: int, settings: Mapping[str, float]) -> Peer:
    """A C environment of PufferLib's Ocean, stepped through its compiled binding alone."""
    sys.path.insert(0, os.path.join(folder, name))
    binding: Any = __import__("binding")
    agents = 10
    rng = np.random.default_rng(0)
    moves = rng.integers(0, 4, (_TABLE, batch * agents), np.int32)
    observations = np.zeros((batch * agents, width), np.int8)
    actions = np.zeros(batch * agents, np.int32)
    rewards = np.zeros(batch * agents, np.float32)
    ends = np.zeros((2, batch * agents), np.bool_)
    towns = []
    for b in range(batch):
        own = slice(b * agents, (b + 1) * agents)
        arrays = (observations[own], actions[own], rewards[own], ends[0, own], ends[1, own])
        towns.append(binding.env_init(*arrays, b, **settings))
    together = binding.vectorize(*towns)
    binding.vec_reset(together, 0)
    count = 0

    def advance() -> int:
        nonlocal count
        actions[:] = moves[count % _TABLE]
        binding.vec_step(together)
        count += 1
        return batch * agents

    note = f"PufferLib 3.0.0, C, 64x64, 10 agents, {width} B"
    return Peer(advance, note, (observations, actions, rewards, ends))


def ocean_snake(batch: int, folder: str) -> Peer:
    """Many snakes on one grid; 11x11 tiles seen by each."""
    settings = {"width": 64, "height": 64, "num_snakes": 10, "num_food": 128, "vision": 5}
    settings |= {"leave_corpse_on_death": 1, "max_snake_length": 1024, "cell_size": 20}
    rewards = {"reward_food": 0.1, "reward_corpse": 0.1, "reward_death": -1.0}
    return _ocean("snake", folder, batch, 121, settings | rewards)


def ocean_trash_pickup(batch: int, folder: str) -> Peer:
    """Agents that carry rubbish to bins; 11x11 tiles, one-hot, seen by each."""
    settings = {"grid_size": 64, "num_agents": 10, "num_trash": 128, "num_bins": 8}
    more = {"max_steps": 400, "agent_sight_range": 5}
    return _ocean("trash_pickup", folder, batch, 605, settings | more)


def overcooked(batch: int, folder: str) -> Peer:
    """JaxMARL overcooked, 25 steps in one compiled scan over a batch, on one thread."""
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jaxmarl

    env = jaxmarl.make("overcooked")
    agents, length = len(env.agents), 25

    def one(state: Any, key: Any) -> Any:
        keys = jax.random.split(key, agents + 1)
        actions = {
            name: env.action_space(name).sample(keys[i]) for i, name in enumerate(env.agents)
        }
        seen, state, reward, done, _ = env.step(keys[-1], state, actions)
        return state, (seen, reward, done)

    def many(states: Any, key: Any) -> Any:
        def body(states: Any, key: Any) -> Any:
            states, (seen, reward, _) = jax.vmap(one)(states, jax.random.split(key, batch))
            total = sum(jax.numpy.sum(value) for value in seen.values())
            return states, (total, reward)

        return jax.lax.scan(body, states, jax.random.split(key, length))

    run = jax.jit(many)
    key = jax.random.PRNGKey(0)
    _, states = jax.vmap(env.reset)(jax.random.split(key, batch))

    def advance() -> int:
        nonlocal states, key
        key, now = jax.random.split(key)
        states, told = run(states, now)
        jax.block_until_ready(told)
        return batch * agents * length

    advance()
    return Peer(advance, f"{_version('jaxmarl')}, {_version('jax')} on one CPU thread, 2 agents")


def minigrid(batch: int, folder: str) -> Peer:
    """EnvPool's MiniGrid, one agent an environment."""
    import envpool

    env = envpool.make_gymnasium("MiniGrid-Empty-16x16-v0", num_envs=batch, num_threads=1)
    env.reset()
    moves = np.random.default_rng(0).integers(0, env.action_space.n, (_TABLE, batch))
    count = 0

    def advance() -> int:
        nonlocal count
        env.step(moves[count % _TABLE])
        count += 1
        return batch

    return Peer(advance, f"{_version('envpool')}, C++, MiniGrid-Empty-16x16-v0, one thread")


def _dicts(env: Any, note: str) -> Peer:
    """A PettingZoo environment stepped through its dicts, with random actions."""
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    size = int(env.action_space(env.possible_agents[0]).n)
    table = rng.integers(0, size, (_TABLE, len(env.possible_agents))).tolist()
    moves = [dict(zip(env.possible_agents, row, strict=True)) for row in table]
    count = 0

    def advance() -> int:
        nonlocal count
        if len(env.agents) < len(env.possible_agents):
            env.reset(seed=0)
        env.step(moves[count % _TABLE])
        count += 1
        return len(moves[0])

    return Peer(advance, note)


def _battle(size: int) -> Peer:
    from magent2.environments import battle_v4

    env = battle_v4.parallel_env(map_size=size)
    env.reset(seed=0)
    agents = len(env.possible_agents)
    return _dicts(env, f"{_version('magent2')}, C++, dict API, {agents} agents")


def battle_12(batch: int, folder: str) -> Peer:
    """MAgent2 battle with 12 agents."""
    return _battle(16)


def battle_162(batch: int, folder: str) -> Peer:
    """MAgent2 battle with 162 agents."""
    return _battle(45)


def pursuit(batch: int, folder: str) -> Peer:
    """PettingZoo pursuit with its 8 agents."""
    name = "pursuit_v5"
    if importlib.util.find_spec(f"pettingzoo.sisl.{name}") is None:
        name = "pursuit_v4"
    module = importlib.import_module(f"pettingzoo.sisl.{name}")
    return _dicts(module.parallel_env(), f"{_version('pettingzoo')}, {name}, dict API, 8 agents")


def pursuit_learner(batch: int, folder: str) -> Peer:
    """PPO of Stable-Baselines3 on pursuit through SuperSuit: one rollout and its update a call."""
    import supersuit
    from pettingzoo.sisl import pursuit_v5
    from stable_baselines3 import PPO

    slots = supersuit.concat_vec_envs_v1(
        supersuit.pettingzoo_env_to_vec_env_v1(
            supersuit.black_death_v3(pursuit_v5.parallel_env(max_cycles=500))
        ),
        batch,
        base_class="stable_baselines3",
    )
    length = max(4096 // slots.num_envs, 1)
    steps = length * slots.num_envs
    # Without a seed: SuperSuit's slots have no method for it.
    learner = PPO("MlpPolicy", slots, n_steps=length, batch_size=steps, n_epochs=4, device="cpu")

    def advance() -> int:
        learner.learn(steps, reset_num_timesteps=False)
        return int(steps)

    note = f"{_version('stable-baselines3')}, {_version('supersuit')}, pursuit, {slots.num_envs}"
    return Peer(advance, f"{note} slots, one minibatch of {steps}, 4 epochs")


PEERS: dict[str, Callable[[int, str], Peer]] = {
    "ocean-snake": ocean_snake,
    "ocean-trash-pickup": ocean_trash_pickup,
    "jaxmarl-overcooked": overcooked,
    "envpool-minigrid": minigrid,
    "magent2-battle-12": battle_12,
    "magent2-battle-162": battle_162,
    "pettingzoo-pursuit": pursuit,
    "supersuit-pursuit-learner": pursuit_learner,
}


def _run(advance: Callable[[], int], seconds: float) -> dict[str, float]:
    done = calls = 0
    cpu = time.process_time()
    start = time.perf_counter()
    wall = 0.0
    while wall < seconds:
        done += advance()
        calls += 1
        wall = time.perf_counter() - start
    told = {"agent_steps": done, "calls": calls, "wall": wall}
    return told | {"cpu": time.process_time() - cpu}


def main(name: str, batch: int, folder: str) -> None:
    """Makes one peer and steps it on request until its input ends.

    Args:
        name: A key of `PEERS`.
        batch: Environments; ignored by those that have no batch.
        folder: Where the bindings of Ocean lie.
    """
    # Some libraries greet on standard output, which belongs to the protocol.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)

        def answer(told: object) -> None:
            answers.write(json.dumps(told) + "\n")
            answers.flush()

        try:
            peer = PEERS[name](batch, folder)
        except Exception as error:  # whatever a foreign library raises is told
            answer({"missing": f"{type(error).__name__}: {error}"[:300]})
            return
        answer({"note": peer.note})
        with contextlib.suppress(KeyboardInterrupt):
            for line in sys.stdin:
                answer(_run(peer.advance, float(line)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
