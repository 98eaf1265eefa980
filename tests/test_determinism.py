"""One seed, one run: in other processes, in a batch, on threads, in any order of agents."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from voville_env import testing
from voville_env.parallel import VovilleEnv
from voville_env.scenario import load_world
from voville_env.sim import TownSim
from voville_env.testing.trajectory import Frame


def actions_of(sim: TownSim, generator: np.random.Generator) -> Any:
    """Random possible actions for every environment of a batch."""
    masks = sim.observations["action_mask"]
    lots = generator.random(masks.shape)
    return np.where(masks, lots, -1.0).argmax(axis=-1).astype(np.int8)


def test_the_whole_horizon_is_the_same_in_every_process() -> None:
    env = partial(VovilleEnv, "fire_escape_officers")
    found = testing.check_processes(env, seed=2**32 - 1)
    frames = list(testing.play(env(), 2**32 - 1, 40))
    assert len({testing.digest_of(frame) for frame in frames}) == 41
    assert found != testing.trajectory_hash(env(), 2**32 - 1, 40)


def test_hashes_notice_everything() -> None:
    env = VovilleEnv("fire_escape", window=(1, 50, 52))
    frames = [Frame(*(dict(part) for part in frame)) for frame in testing.play(env, 0)]
    whole = [testing.digest_of(frame) for frame in frames]
    assert len(set(whole)) == len(whole) == 9
    last = frames[-1]
    for field in range(5):
        part = dict(last[field])
        part["LC"] = {**part["LC"], "new": 1} if isinstance(part["LC"], dict) else 7
        changed = last._replace(**{Frame._fields[field]: part})
        assert testing.digest_of(changed) != whole[-1], Frame._fields[field]
    for key, value in last.observations["LC"].items():
        spoilt = value.copy()
        spoilt.flat[-1] ^= 1
        seen = {**last.observations, "LC": {**last.observations["LC"], key: spoilt}}
        assert testing.digest_of(last._replace(observations=seen)) != whole[-1], key
    upside_down = last._replace(rewards=dict(reversed(last.rewards.items())))
    assert testing.digest_of(upside_down) == whole[-1]
    with pytest.raises(testing.ConformanceError, match="set"):
        testing.digest_of({"a": {1, 2}})


def test_the_order_of_agents_does_not_matter_for_a_thousand_steps() -> None:
    testing.check_action_order(
        partial(VovilleEnv, "fire_escape_officers", window=(1, 40, 300)), seed=5, steps=1000
    )


def test_other_generators_do_not_matter() -> None:
    testing.check_determinism(partial(VovilleEnv, "jaywalk", window=(1, 28, 80)), seed=3)


@pytest.mark.parametrize("name", ["fire_escape_officers", "jaywalk"])
def test_a_batch_is_its_environments(name: str) -> None:
    world = load_world(name)
    day, start, end = world.scenario.focus
    seeds = np.array([0, 1, 2**64 - 1], np.uint64)
    batch = TownSim(world, 3, window=(day, start, end))
    singles = [TownSim(world, window=(day, start, end)) for _ in seeds]
    batch.reset(seeds)
    for single, seed in zip(singles, seeds, strict=True):
        single.reset(np.array([seed]))
    generator = np.random.default_rng(0)
    events = 0
    for _ in range(4 * (end - start) + 3):
        batch.actions[:] = actions_of(batch, generator)
        batch.step()
        for b, single in enumerate(singles):
            single.actions[:] = batch.actions[b]
            single.step()
            for part in ("state", "observations", "outcomes"):
                mine, theirs = getattr(batch, part)[b], getattr(single, part)[0]
                for field in theirs.dtype.names:
                    assert mine[field].tobytes() == theirs[field].tobytes(), (part, field)
            drained = single.drain()
            events += len(drained)
            assert batch.drain(b).tolist() == drained.tolist()
    assert events > 100 and all(batch.state["over"])
    # The seeds did make a difference.
    assert batch.state[0].tobytes() != batch.state[1].tobytes()


def test_a_step_after_the_end_changes_nothing() -> None:
    sim = TownSim(load_world("fire_escape"), window=(1, 50, 51))
    sim.reset(np.array([0], np.uint64))
    for _ in range(4):
        sim.step()
    kept = sim.state.tobytes()
    sim.actions[:] = 3
    sim.step()
    assert sim.state.tobytes() == kept and not sim.outcomes["reward"].any()


_THREADS = """
import json, sys
import numpy as np
sys.path[:] = json.loads(sys.argv[1])
from test_determinism import thread_digests
print(thread_digests(1) == thread_digests(2), thread_digests(2)[-1])
"""


def thread_digests(threads: int) -> list[str]:
    """Digests of a batch of sixteen towns, stepped on so many threads."""
    world = load_world("fire_escape_officers")
    sim = TownSim(world, 16, window=(1, 50, 62), threads=threads)
    sim.reset(np.arange(16, dtype=np.uint64))
    generator = np.random.default_rng(0)
    digests = []
    for _ in range(48):
        sim.actions[:] = actions_of(sim, generator)
        sim.step()
        parts = (sim.state, sim.observations, sim.outcomes)
        digests.append(testing.digest_of([part.tobytes() for part in parts]))
    return digests


@pytest.mark.slow
def test_two_threads_give_the_same_bytes() -> None:
    # In a process of its own, whose threads cannot disturb the other tests.
    command = [sys.executable, "-c", _THREADS, json.dumps(sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "True", done.stdout


@pytest.mark.parametrize(
    ("name", "window", "until", "longest"),
    [
        ("fire_escape_officers", None, 1150, 4 * 102),  # over the night
        ("jaywalk", (1, 21, 60), 60, 4 * 9),
        ("fire_escape_officers", (1, 140, 160), 160, 4),  # the fire goes out
    ],
)
def test_idling_is_stepping(name: str, window: Any, until: int, longest: int) -> None:
    idle, step = (VovilleEnv(name, window=window) for _ in range(2))
    idle.reset(seed=4)
    step.reset(seed=4)
    jumps = []
    while idle.agents and int(idle.sim.state[0].tick) < until:
        seen, steps = idle.advance_idle(until)
        jumps.append(steps)
        for _ in range(steps):
            expected, *_ = step.step(dict.fromkeys(step.agents, 0))
        assert idle.sim.state.tobytes() == step.sim.state.tobytes()
        assert idle.drain_events().tolist() == step.drain_events().tolist()
        assert testing.digest_of(seen) == testing.digest_of(expected)
        assert idle.agents == step.agents
    assert sum(jumps) >= 4 * 20 and max(jumps) == longest


def test_idling_stops_at_its_tick_and_where_somebody_has_to_decide() -> None:
    env = VovilleEnv("fire_escape")
    env.reset(seed=0)
    people = env.sim.state[0].agents
    _, steps = env.advance_idle(2)
    assert (steps, int(env.sim.state[0].tick)) == (8, 2)
    # From now on OH wants to be in the café, and idling goes tick by tick.
    assert env.advance_idle(50)[1] == 4
    env.reset(seed=0, options={"window": [1, 45, 60]})
    for k in range(len(env.possible_agents)):
        # Everybody is settled, where they are.
        tile = env.sim.town[0].destination_tile[people[k].goal]
        people[k].tile = people[k].from_tile = tile
    env.step(dict.fromkeys(env.agents, 0))
    _, steps = env.advance_idle(60)
    assert int(env.sim.state[0].tick) == 50 and steps == 19
    assert env.sim.state[0].fire_burning[0] == 1
