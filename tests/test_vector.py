"""`VovilleVectorEnv`: batch ≡ single, autoreset, buffers, seeds, lifecycle, copies and edges."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import voville_env
from voville_env.core import fields, layout
from voville_env.core.codes import RewardTerm
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.testing import digest_of
from voville_env.vector import VovilleVectorEnv
from voville_env.vector.seeds import episode_seeds

SHORT = (1, 50, 53)
STEPS = 12
FIELDS = tuple(field.name for field in fields.FIELDS)


def sampled(env: VovilleVectorEnv, generator: np.random.Generator) -> Any:
    """Random possible actions."""
    masks = env.action_masks()
    return np.where(masks, generator.random(masks.shape), -1.0).argmax(axis=-1)


def same(left: Any, right: Any) -> bool:
    return digest_of(left) == digest_of(right)


def run(env: VovilleVectorEnv, steps: int, seed: int = 0) -> list[str]:
    """Digests of all that a run returns."""
    generator = np.random.default_rng(seed)
    return [digest_of(list(env.step(sampled(env, generator)))) for _ in range(steps)]


@pytest.mark.parametrize("name", ["jaywalk", "jaywalk@variation.kind=wide"])
def test_each_environment_is_the_single_one(name: str) -> None:
    seeds = [0, 7, 2**64 - 1]
    env = VovilleVectorEnv(name, 3, window=(1, 28, 60), terminal_goal=True)
    singles = [
        voville_env.parallel_env(name, window=(1, 28, 60), terminal_goal=True) for _ in seeds
    ]
    observations, infos = env.reset(seed=seeds)
    for b, single in enumerate(singles):
        seen, told = single.reset(seed=seeds[b])
        for n, agent in enumerate(env.agents):
            assert same({k: v[b, n] for k, v in observations.items()}, seen[agent])
            assert same(infos["reward_terms"][b, n], told[agent]["reward_terms"])
    assert env.episode_seeds.tolist() == seeds
    generator = np.random.default_rng(0)
    left_early = 0
    for _ in range(4 * 32):
        live, actions = env.live, sampled(env, generator)
        ways = observations["routes"][:, :6, 2]  # six people make for their goals
        actions[:, :6] = np.where(ways[..., 0] > 0, ways[..., 1], 0)
        if not live.all(axis=None):
            left_early += 1
            actions[~live] = 99
        observations, rewards, ends, cuts, infos = env.step(actions)
        assert not env.sim.actions[~live].any()
        for b, single in enumerate(singles):
            row = {agent: actions[b, n] for n, agent in enumerate(env.agents) if live[b, n]}
            assert set(row) == set(single.agents)
            seen, gained, ended, cut, told = single.step(row)
            for n, agent in enumerate(env.agents):
                if agent not in row:
                    assert not (rewards[b, n] or ends[b, n] or cuts[b, n])
                    assert not infos["reward_terms"][b, n].any()
                    continue
                assert same({k: v[b, n] for k, v in observations.items()}, seen[agent])
                assert (rewards[b, n], ends[b, n], cuts[b, n]) == (
                    gained[agent],
                    ended[agent],
                    cut[agent],
                )
                assert same(infos["reward_terms"][b, n], told[agent]["reward_terms"])
            staying = [agent for n, agent in enumerate(env.agents) if infos["live"][b, n]]
            assert staying == single.agents
    assert left_early > 20 and not infos["live"].any()


def test_shapes_and_types_are_those_of_the_spaces() -> None:
    env = VovilleVectorEnv("fire_escape", 2, window=SHORT, autoreset="same_step")
    observations, infos = env.reset(seed=0)
    everything: list[Any] = [(observations, infos)]
    for _ in range(STEPS + 2):
        step = env.step(np.zeros((2, 10), np.int8))
        for array, dtype in zip(step[1:4], (np.float32, np.bool_, np.bool_), strict=True):
            assert array.shape == (2, 10) and array.dtype == dtype
        everything += [(step[0], step[4]), (step[4]["final_obs"], step[4])]
    for seen, told in everything:
        assert set(seen) == set(env.single_observation_space) == set(FIELDS)
        for key, box in env.single_observation_space.spaces.items():
            assert (seen[key].shape, seen[key].dtype) == ((2, 10, *(box.shape or ())), box.dtype)
        assert set(told) == {
            *("reward_terms", "_reward_terms", "live", "_live"),
            *("final_obs", "_final_obs", "final_info", "_final_info"),
        }
        assert (told["reward_terms"].shape, told["reward_terms"].dtype) == ((2, 10, 5), np.float32)
        assert told["_reward_terms"].all() and told["_reward_terms"].shape == (2,)
    assert env.single_action_space.n == 10 and env.action_masks().dtype == np.bool_


def test_next_step_plays_each_episode_once_and_ignores_the_action_after_the_end() -> None:
    env = VovilleVectorEnv("fire_escape", 2, window=SHORT)
    env.reset(seed=5)
    played = [env.episode_seeds.tolist()]
    for t in range(1, 3 * (STEPS + 1)):
        observations, rewards, ends, cuts, infos = env.step(np.full((2, 10), 9))
        at = t % (STEPS + 1)
        assert not ends.any()
        assert cuts.all() == cuts.any() == (at == STEPS)
        assert infos["live"].all() == infos["live"].any() == (at != STEPS)
        assert env.restarted.all() == env.restarted.any() == (at == 0)
        if at == 0:
            assert not rewards.any() and not infos["reward_terms"].any()
            played.append(env.episode_seeds.tolist())
            single = voville_env.parallel_env("fire_escape", window=SHORT)
            seen, _ = single.reset(seed=played[-1][1])
            assert same({k: v[1, 2] for k, v in observations.items()}, seen[env.agents[2]])
    index = np.arange(2)
    expected = [
        episode_seeds(np.full(2, 5, np.uint64), index, np.full(2, episode)).tolist()
        for episode in range(3)
    ]
    assert played == expected


def test_same_step_returns_the_next_episode_and_keeps_the_end() -> None:
    env = VovilleVectorEnv("fire_escape", 2, window=SHORT, autoreset="same_step")
    other = VovilleVectorEnv("fire_escape", 2, window=SHORT, autoreset="disabled")
    env.reset(seed=5)
    other.reset(seed=5)
    generator = np.random.default_rng(1)
    for t in range(1, STEPS + 1):
        actions = sampled(env, generator)
        observations, rewards, _, cuts, infos = env.step(actions)
        last, gained, _, cut, told = other.step(actions)
        assert infos["live"].all() and same(rewards, gained) and same(cuts, cut)
        assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [t == STEPS] * 2
        if t < STEPS:
            assert same(observations, last)
    assert same(infos["final_obs"], last)
    assert same(infos["final_info"]["reward_terms"], told["reward_terms"])
    assert infos["final_info"]["_reward_terms"].all() and not infos["reward_terms"].any()
    assert told["reward_terms"].any()
    fresh, _ = VovilleVectorEnv("fire_escape", 2, window=SHORT).reset(seed=env.episode_seeds)
    assert same(observations, fresh)


def test_disabled_waits_for_a_reset_of_those_that_ended() -> None:
    env = VovilleVectorEnv("fire_escape", 3, window=SHORT, autoreset="disabled")
    env.reset(seed=[1, 2, 3])
    for _ in range(5):
        env.step(np.zeros((3, 10), int))
    first = np.array([True, False, False])
    env.reset(seed=9, options={"reset_mask": first})
    for _ in range(7):
        _, _, _, cuts, _ = env.step(np.zeros((3, 10), int))
    assert cuts.all(axis=1).tolist() == cuts.any(axis=1).tolist() == [False, True, True]
    before = env.sim.state.tobytes()
    with pytest.raises(LifecycleError, match=r"environments \[1, 2\] have ended"):
        env.step(np.zeros((3, 10), int))
    assert env.sim.state.tobytes() == before
    observations, _ = env.reset(seed=[0, 4, 5], options={"reset_mask": ~first})
    assert env.episode_seeds.tolist()[1:] == [4, 5]
    assert observations["self"][:, 0, 3].tolist() == [51, 50, 50]
    env.step(np.zeros((3, 10), int))


def test_reset_masks_are_checked() -> None:
    env = VovilleVectorEnv("fire_escape", 2, window=SHORT)
    with pytest.raises(LifecycleError, match="reset all first"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.reset(seed=0)
    before = env.sim.state.tobytes()
    for mask in ([True, False], np.ones(3, bool), np.ones(2), np.zeros(2, bool)):
        with pytest.raises(InvalidValueError, match="reset_mask"):
            env.reset(seed=1, options={"reset_mask": mask})
    with pytest.raises(InvalidValueError, match="window is for all"):
        env.reset(options={"reset_mask": np.ones(2, bool), "window": None})
    with pytest.raises(InvalidValueError, match="did you mean 'window'"):
        env.reset(options={"windw": None})
    with pytest.raises(InvalidValueError, match="options"):
        env.reset(options=3)  # type: ignore[arg-type]  # what is refused
    assert env.sim.state.tobytes() == before


def test_a_window_given_to_reset_holds_until_the_next_full_reset() -> None:
    env = VovilleVectorEnv("fire_escape", 1, window=SHORT, autoreset="same_step", days=1)
    for window, tick in (([1, 60, 61], 60), ((1, 70, 71), 70)):
        observations, _ = env.reset(seed=0, options={"window": window})
        for _ in range(9):
            assert observations["self"][0, 0, 3] == tick
            observations, *_ = env.step(np.zeros((1, 10), int))
    assert env.reset()[0]["self"][0, 0, 3] == 50
    assert env.reset(options={"window": None})[0]["self"][0, 0, 3] == 0
    with pytest.raises(InvalidValueError, match="only 1 days"):
        env.reset(options={"window": (2, 0, 5)})


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
@pytest.mark.parametrize("keep", [True, False])
def test_what_was_returned_is_never_overwritten(autoreset: Any, keep: bool) -> None:
    env = VovilleVectorEnv("fire_escape", 2, window=(1, 50, 52), autoreset=autoreset, copy=keep)
    twin = VovilleVectorEnv("fire_escape", 2, window=(1, 50, 52), autoreset=autoreset)
    kept: list[Any] = [list(env.reset(seed=3))]
    copies: list[Any] = []
    twin.reset(seed=3)
    copies.append(copy.deepcopy(kept[-1]))
    generator = np.random.default_rng(2)
    for _ in range(3 * 8 + 2):
        actions = sampled(env, generator)
        step: list[Any] = list(env.step(actions))
        expected = list(twin.step(actions))
        assert same(step, expected)
        final = {key: step[4][key] for key in step[4] if "final" in key}
        kept.append(step if keep else [final])
        copies.append(copy.deepcopy(kept[-1]))
    if not keep:
        kept, copies = kept[1:], copies[1:]
        assert step[0]["self"].base is not None and env.step(actions)[1] is step[1]
    assert same(kept, copies)


def test_writing_into_what_was_returned_does_not_reach_the_environment() -> None:
    env, twin = (
        VovilleVectorEnv("fire_escape", 2, window=(1, 50, 52), autoreset="same_step")
        for _ in range(2)
    )
    mine: Any = env.reset(seed=0)
    theirs: Any = twin.reset(seed=0)
    generator = np.random.default_rng(0)
    for _ in range(20):
        for array in (*mine[0].values(), mine[-1]["live"], mine[-1]["reward_terms"]):
            array[...] = 1
        env.restarted[...] = False
        env.live[...] = False
        actions = sampled(twin, generator)
        mine, theirs = env.step(actions), twin.step(actions)
        assert same(list(mine), list(theirs))
        for array in mine[1:4]:
            array[...] = 1


def _mapping(env: VovilleVectorEnv, *flags: str) -> dict[str, Any]:
    shape = (env.num_envs, len(env.agents))
    buffers: dict[str, Any] = {
        key: np.zeros((*shape, *(box.shape or ())), box.dtype)
        for key, box in env.single_observation_space.spaces.items()
    }
    kinds = {"rewards": np.float32, "terminations": np.bool_, "truncations": np.bool_}
    return buffers | {name: np.zeros(shape, kinds[name]) for name in flags}


@pytest.mark.parametrize("kind", ["records", "mapping"])
def test_buffers_of_the_caller_are_written_into(kind: str) -> None:
    plain = VovilleVectorEnv("jaywalk", 2, window=(1, 28, 30), autoreset="same_step")
    buffers: Any = _mapping(plain, "rewards", "truncations")
    if kind == "records":
        buffers = np.zeros((2, 10), layout.OBSERVATION)
    env = VovilleVectorEnv("jaywalk", 2, window=(1, 28, 30), autoreset="same_step", buffers=buffers)
    assert same(list(env.reset(seed=1)), list(plain.reset(seed=1)))
    generator = np.random.default_rng(0)
    for _ in range(11):
        actions = sampled(plain, generator)
        mine, theirs = env.step(actions), plain.step(actions)
        assert same(list(mine), list(theirs))
        for key in FIELDS:
            assert np.shares_memory(mine[0][key], buffers[key])
            assert same(np.array(buffers[key]), theirs[0][key])
        if kind == "mapping":
            assert mine[1] is buffers["rewards"] and mine[3] is buffers["truncations"]


def test_buffers_that_do_not_fit_are_refused_by_name() -> None:
    env = VovilleVectorEnv("fire_escape", 2, window=SHORT)
    good = _mapping(env)
    frozen = good["self"].copy()
    frozen.flags.writeable = False
    wrong = [
        ({**good, "self": good["self"].astype(np.int32)}, "'self' has dtype int32"),
        ({**good, "tiles": good["tiles"][:1]}, r"'tiles' has that dtype, shape \(1, 10, 11, 11\)"),
        ({**good, "routes": np.asfortranarray(good["routes"])}, "C-contiguous False"),
        ({**good, "self": frozen}, "writable False"),
        ({**good, "self": [1]}, "'self' is a list"),
        ({**good, "reward": np.zeros((2, 10), np.float32)}, "did you mean 'rewards'"),
        ({**good, "rewards": np.zeros((2, 10))}, "'rewards' has dtype float64"),
        ({key: good[key] for key in FIELDS[1:]}, "lack self"),
        ({**good, "peer_behaviors": good["peer_behaviors"], "rewards": 3}, "'rewards' is a int"),
        (np.zeros((3, 10), layout.OBSERVATION), r"shape \(3, 10\)"),
        (np.zeros((2, 10), layout.STATE), "allowed: dtype core.layout.OBSERVATION"),
        (np.zeros((4, 10), layout.OBSERVATION)[::2], "C-contiguous False"),
        (7, "buffers is a int"),
    ]
    shared = np.zeros((2, 10), np.bool_)
    wrong.append(({**good, "terminations": shared, "truncations": shared}, "share memory"))
    for buffers, message in wrong:
        with pytest.raises(InvalidValueError, match=message):
            VovilleVectorEnv("fire_escape", 2, window=SHORT, buffers=buffers)


def test_actions_that_do_not_fit_are_refused_and_change_nothing() -> None:
    env = VovilleVectorEnv("fire_escape", 2, window=SHORT)
    env.reset(seed=0)
    before = digest_of([env.sim.state.tobytes(), env.sim.observations.tobytes()])
    whole = np.zeros((2, 10), int)
    bad: list[Any] = [
        *(whole.astype(float), whole.astype(bool), whole.astype(object), whole.astype("U1")),
        *(whole[0], whole[:1], whole[..., None], np.int64(0), None, 3, "wait"),
        [[0] * 10, [0] * 9],
        [[0] * 10, [0] * 9 + [True]],
        [[0] * 10, [0] * 9 + [1.0]],
        [[0] * 10, [0] * 9 + [None]],
        [[0] * 10, [0] * 9 + [2**70]],
    ]
    for value in (-1, 10, 127, -(2**63), 2**63 - 1):
        spoilt = whole.copy()
        spoilt[1, 4] = value
        bad.append(spoilt)
    bad += [bad[-5].astype(np.int8), np.full((2, 10), 255, np.uint8)]
    bad.append(np.full((2, 10), np.nan))
    for actions in bad:
        with pytest.raises(InvalidValueError, match="action"):
            env.step(actions)
    assert digest_of([env.sim.state.tobytes(), env.sim.observations.tobytes()]) == before
    with pytest.raises(InvalidValueError, match=r"agent 'KQ' in environment 1 is -1"):
        env.step(bad[-7 - 1])
    good: list[Any] = [
        whole.tolist(),
        whole.astype(">i4"),
        whole.astype(np.uint8),
        np.zeros((10, 2), int).T,
    ]
    for actions in good:
        env.step(actions)


def test_settings_that_do_not_fit_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"num_envs": 0}, "num_envs"),
        ({"num_envs": True}, "num_envs"),
        ({"num_envs": 2.0}, "num_envs"),
        ({"threads": 0}, "threads"),
        ({"autoreset": "nextstep"}, "did you mean 'next_step'"),
        ({"copy": 1}, "copy"),
        ({"events": None}, "events"),
        ({"scenario": 3}, "scenario"),
        ({"ends_with": "CCC"}, "did you mean 'CC'"),
        ({"seed_pool": []}, "seed_pool"),
        ({"seed_pool": "12"}, "seed_pool"),
        ({"seed_pool": [1, None]}, "seed_pool"),
        ({"seed_pool": range(-1, 5)}, "seed is -1"),
        ({"window": (2, 0, 5), "days": 1}, "only 1 days"),
    ]
    for settings, message in wrong:
        with pytest.raises(InvalidValueError, match=message):
            VovilleVectorEnv(**settings)


def test_calls_at_the_wrong_moment() -> None:
    env = VovilleVectorEnv("fire_escape", 1, window=SHORT)
    calls: Any = (env.action_masks, env.state, env.render, lambda: env.step([[0] * 10]))
    for call in calls:
        with pytest.raises(LifecycleError, match="call reset"):
            call()
    env.reset(seed=0)
    assert env.state().shape[0] == 1
    assert env.render() == env.render(0) and env.render().startswith("fire_escape: day 1, tick 50")
    env.close()
    env.close()
    for call in calls:
        with pytest.raises(LifecycleError, match="call reset"):
            call()
    env.reset()
    env.step([[0] * 10])
    with pytest.raises(LifecycleError, match="events=True"):
        env.drain()
    with pytest.raises(LifecycleError, match="oracle=True"):
        env.oracle_labels()


def test_no_seed_is_played_twice_over_base_seeds_and_episodes() -> None:
    env = VovilleVectorEnv("fire_escape", 4, window=(1, 0, 1), autoreset="same_step")
    played = []
    for base in range(10):
        env.reset(seed=base)
        played += env.episode_seeds.tolist()
        seeds = env._seeds
        for _ in range(49):
            seeds.advance(np.ones(4, np.bool_))
            played += env.episode_seeds.tolist()
    assert len(played) == len(set(played)) == 10 * 4 * 50
    # What the environment itself plays are these seeds.
    env.reset(seed=0)
    walked = env.episode_seeds.tolist()
    for _ in range(8):
        env.step(np.zeros((4, 10), int))
        if env.restarted.all():
            walked += env.episode_seeds.tolist()
    assert walked == played[:12]
    assert env.sim.state["seed"].tolist() == played[8:12]


def test_seeds_are_the_same_wherever_they_are_computed() -> None:
    frozen = [12534471714451444654, 996962035158151719]
    found = episode_seeds(np.array([0, 2**64 - 1], np.uint64), np.array([0, 3]), np.array([0, 49]))
    assert found.tolist() == frozen


@pytest.mark.parametrize("pool", [range(100, 107), [3, 1, 4, 15], np.array([5, 9])])
def test_a_pool_is_all_that_is_played(pool: Any) -> None:
    played = set()
    env = VovilleVectorEnv(
        "fire_escape", 4, window=(1, 0, 1), autoreset="same_step", seed_pool=pool
    )
    for base in range(3):
        env.reset(seed=base)
        for _ in range(16):
            played |= set(env.episode_seeds.tolist())
            env.step(np.zeros((4, 10), int))
    assert played == {int(seed) for seed in pool}


def test_seeds_go_on_without_a_seed_and_are_checked() -> None:
    env, other = (VovilleVectorEnv("fire_escape", 2, window=SHORT) for _ in range(2))
    env.reset(seed=4)
    other.reset(seed=np.int64(4))  # type: ignore[arg-type]  # NumPy's integers are fine
    first = env.episode_seeds
    env.reset()
    other.reset(seed=None)
    assert env.episode_seeds.tolist() == other.episode_seeds.tolist()
    assert not set(env.episode_seeds) & set(first)
    third = VovilleVectorEnv("fire_escape", 2, window=SHORT)
    third.reset()
    other = VovilleVectorEnv("fire_escape", 2, window=SHORT)
    other.reset()
    assert not set(third.episode_seeds) & set(other.episode_seeds)
    before = env.sim.state.tobytes()
    for seed in (-1, 1.0, "5", True, 2**64, [1], [1, -1], np.array([1.0, 2.0]), [[1, 2], [3, 4]]):
        with pytest.raises(InvalidValueError, match="seed"):
            env.reset(seed=seed)  # type: ignore[arg-type]  # what is refused
    assert env.sim.state.tobytes() == before


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_events_and_oracle_change_nothing_else(autoreset: Any) -> None:
    settings: dict[str, Any] = {"window": (1, 28, 34), "autoreset": autoreset}
    quiet = VovilleVectorEnv("jaywalk", 2, **settings)
    loud = VovilleVectorEnv("jaywalk", 2, events=True, oracle=True, **settings)
    assert same(list(quiet.reset(seed=2)), list(loud.reset(seed=2)))
    generator = np.random.default_rng(0)
    single = voville_env.parallel_env("jaywalk", window=(1, 28, 34))
    single.reset(seed=int(loud.episode_seeds[1]))
    drained: list[Any] = []
    for t in range(40):
        actions = sampled(quiet, generator)
        if single.agents:
            single.step(dict(zip(single.agents, actions[1], strict=True)))
        assert same(list(quiet.step(actions)), list(loud.step(actions)))
        assert loud.oracle_labels().shape == (2, 10, 2)
        if t % 3 == 0:
            drained += loud.drain(1).tolist()
    drained += loud.drain(1).tolist()
    expected = single.drain_events().tolist()
    assert len(expected) > 20 and drained[: len(expected)] == expected
    assert drained[len(expected)][0] == 28 and len(drained) > len(expected)
    assert not quiet.sim.state["event_count"].any()


def test_an_environment_can_end_with_one_of_its_agents() -> None:
    settings: dict[str, Any] = {"window": (1, 28, 70), "terminal_goal": True}
    env = VovilleVectorEnv("jaywalk", 1, ends_with="CC", autoreset="disabled", **settings)
    whole = VovilleVectorEnv("jaywalk", 1, autoreset="disabled", **settings)
    env.reset(seed=0)
    whole.reset(seed=0)
    n = env.agents.index("CC")
    while env.live.any():
        ways = env.sim.observations["routes"][..., 2, :]
        actions = np.where(ways[..., 0] > 0, ways[..., 1], 0)
        _, _, ends, _, infos = env.step(actions)
        _, _, _, _, told = whole.step(actions)
    assert ends[0, n] and told["live"].any() and not infos["live"].any()
    assert told["reward_terms"][0, n, RewardTerm.ARRIVAL] == 1


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
@pytest.mark.parametrize("kind", ["paper", "wide"])
def test_a_copy_in_mid_episode_goes_on_alike(way: str, autoreset: Any, kind: str) -> None:
    name = f"fire_escape_officers@variation.kind={kind}"
    env = VovilleVectorEnv(name, 2, window=SHORT, autoreset=autoreset)
    env.reset(seed=1)
    for steps in (5, STEPS - 5):  # in mid-episode, and at its very end
        run(env, steps)
        twin = copy.deepcopy(env) if way == "deepcopy" else pickle.loads(pickle.dumps(env))
        assert run(twin, 20) == run(copy.deepcopy(env), 20)
        assert twin.episode_seeds.tolist() != env.episode_seeds.tolist()


@pytest.mark.parametrize("kind", ["records", "mapping"])
def test_a_copy_has_buffers_of_its_own(kind: str) -> None:
    buffers: Any = np.zeros((2, 10), layout.OBSERVATION)
    if kind == "mapping":
        buffers = _mapping(VovilleVectorEnv("fire_escape", 2), "rewards")
    env = VovilleVectorEnv("fire_escape", 2, window=SHORT, buffers=buffers)
    env.reset(seed=1)
    twin = copy.deepcopy(env)
    seen, *_ = twin.step(np.zeros((2, 10), int))
    assert not np.shares_memory(seen["self"], buffers["self"])
    assert run(pickle.loads(pickle.dumps(env)), 3) == run(env, 3)


_THREADS = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from test_vector import VovilleVectorEnv, run
found = []
for threads in (1, 2):
    env = VovilleVectorEnv("fire_escape_officers", 5, window=(1, 50, 54), threads=threads,
                           autoreset="same_step")
    env.reset(seed=0)
    found.append(run(env, 40))
print(found[0] == found[1], len(set(found[0])))
"""


@pytest.mark.slow
def test_two_threads_give_the_same_results() -> None:
    # In a process of its own, whose threads cannot disturb the other tests.
    command = [sys.executable, "-c", _THREADS, json.dumps(sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "40"], done.stdout
