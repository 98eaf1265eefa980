"""Parameter sharing in Stable-Baselines3: slots, ends, masks, and one iteration of each learner."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize, is_vecenv_wrapped
from stable_baselines3.common.vec_env.vec_transpose import VecTransposeImage

from voville_env.benchmarks.learner import constant_slots, measure_learner
from voville_env.core.codes import RewardTerm
from voville_env.core.fields import FIELDS
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.flat import FLAT_SIZE, flatten
from voville_env.vector import VovilleVectorEnv
from voville_env.wrappers.sb3 import SharedPolicyVecEnv

pytestmark = pytest.mark.learning
TERMS = [term.name.lower() for term in RewardTerm]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def towns(count: int = 2, **settings: Any) -> VovilleVectorEnv:
    settings = {"window": (1, 48, 51), "autoreset": "same_step"} | settings
    return VovilleVectorEnv("fire_escape", count, **settings)


def direct(slots: SharedPolicyVecEnv) -> np.ndarray[Any, Any]:
    """Everybody's shortest way, which gets somebody there early."""
    seen = slots.env.sim.observations["routes"]
    return np.asarray(seen[:, :, 2, 1]).reshape(-1).astype(int)


def same(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    return one.dtype == two.dtype and np.array_equal(one, two)


@pytest.mark.parametrize("flat", [True, False])
def test_slots_are_the_agents_of_the_towns(flat: bool) -> None:
    slots = SharedPolicyVecEnv(towns(), flat=flat)
    twin = towns()
    assert slots.num_envs == 20 and slots.get_attr("agent", [0, 13]) == ["CC", twin.agents[3]]
    slots.seed(3)
    seen = slots.reset()
    native, _ = twin.reset(seed=3)
    rng = np.random.default_rng(0)
    returns = np.zeros(20)
    for step in range(30):
        expected = (
            flatten(native).reshape(20, -1)
            if flat
            else {key: array.reshape(20, *array.shape[2:]) for key, array in native.items()}
        )
        assert same(seen, expected)
        row = {key: array[0] for key, array in seen.items()} if not flat else seen[0]
        assert slots.observation_space.contains(row)
        actions = rng.integers(0, 10, 20)
        seen, rewards, dones, infos = slots.step(actions)
        native, expected_rewards, terminated, truncated, report = twin.step(actions.reshape(2, 10))
        assert rewards.dtype == np.float32 and dones.dtype == np.bool_
        assert np.array_equal(rewards, expected_rewards.reshape(-1))
        assert np.array_equal(dones, (terminated | truncated).reshape(-1))
        returns += rewards
        for slot, info in enumerate(infos):
            if not dones[slot]:
                assert info == {}
                continue
            last = {key: array[slot // 10, slot % 10] for key, array in report["final_obs"].items()}
            assert same(info["terminal_observation"], flatten(last) if flat else last)
            assert info["TimeLimit.truncated"] is True
            episode = info["episode"]
            assert episode["l"] == 12 and episode["r"] == pytest.approx(returns[slot], abs=1e-5)
            weights = np.asarray(twin.sim.config["reward"][0])
            weighted = sum(w * episode[name] for w, name in zip(weights, TERMS, strict=True))
            assert episode["r"] == pytest.approx(weighted, abs=1e-3)
            returns[slot] = 0
        assert dones.all() == (step % 12 == 11)
    assert len({id(info) for info in infos}) == 20


def test_a_seed_gives_the_same_runs_and_no_seed_other_ones() -> None:
    slots = SharedPolicyVecEnv(towns(window=(1, 28, 31)))
    assert slots.seed(8) == [8] * 20
    slots.reset()
    first = slots.env.episode_seeds
    slots.reset()
    second = slots.env.episode_seeds
    assert not set(first.tolist()) & set(second.tolist())
    slots.seed(8)
    slots.reset()
    assert np.array_equal(slots.env.episode_seeds, first)


def test_agents_that_arrive_early_are_padded_until_their_town_starts_again() -> None:
    slots = SharedPolicyVecEnv(towns(1, window=(1, 48, 200), terminal_goal=True))
    slots.seed(1)
    slots.reset()
    padded = np.zeros(10, bool)
    lengths = []
    for _ in range(700):
        masks = slots.action_masks()
        assert (masks[padded].sum(axis=1) == 1).all() and masks[padded, 0].all()
        actions = np.where(padded, 0, direct(slots))
        before = padded.copy()
        _, rewards, dones, infos = slots.step(actions)
        assert (rewards[before] == 0).all() and dones[before].all()
        assert [info.get("padding", False) for info in infos] == before.tolist()
        for slot, info in enumerate(infos):
            if before[slot]:
                assert info == {"padding": True}
            elif dones[slot]:
                cut = info["TimeLimit.truncated"]
                assert slots.env.restarted[0] if cut else info["terminal_observation"][10] == 1
                lengths.append(info["episode"]["l"])
        padded |= dones
        if slots.env.restarted[0]:
            break
    else:
        pytest.fail("the town never ended")
    assert len(lengths) == 10 and len(set(lengths)) > 2
    assert before.sum() > 2
    _, _, dones, infos = slots.step(direct(slots))
    assert not dones.any() and infos == [{}] * 10


def test_vectors_last_as_long_as_the_towns_promise() -> None:
    for copy, steps in ((True, 4), (False, 1)):
        slots = SharedPolicyVecEnv(towns(copy=copy))
        seen = slots.reset()
        kept = seen.copy()
        for _ in range(steps):
            slots.step(direct(slots))
            assert np.array_equal(seen, kept), copy


def test_masks_are_found_and_obeyed() -> None:
    slots = SharedPolicyVecEnv(towns(copy=False))
    assert is_masking_supported(slots)
    slots.reset()
    sampled = []
    step_async = slots.step_async

    def watched(actions: Any) -> None:
        masks = get_action_masks(slots)
        assert masks.shape == (20, 10) and not masks.all()
        sampled.append(masks[np.arange(20), np.asarray(actions)].all())
        step_async(actions)

    slots.step_async = watched  # type: ignore[method-assign]
    model = MaskablePPO("MlpPolicy", slots, n_steps=16, batch_size=160, n_epochs=1, device="cpu")
    model.learn(2 * 16 * 20)
    assert len(sampled) == 32 and all(sampled)
    assert model.ep_info_buffer is not None and len(model.ep_info_buffer) == 40


def test_ppo_sees_vectors_as_they_are() -> None:
    slots = SharedPolicyVecEnv(towns(copy=False))
    model = PPO("MlpPolicy", slots, n_steps=12, batch_size=120, n_epochs=1, seed=0, device="cpu")
    before = model.policy.state_dict()["mlp_extractor.policy_net.0.weight"].clone()
    model.learn(240)
    after = model.policy.state_dict()["mlp_extractor.policy_net.0.weight"]
    assert not torch.equal(before, after)
    seen = slots.reset()
    tensor, _ = model.policy.obs_to_tensor(seen)
    assert torch.equal(model.policy.extract_features(tensor), torch.as_tensor(seen))


def test_ppo_takes_no_field_for_an_image() -> None:
    slots = SharedPolicyVecEnv(towns(), flat=False)
    model = PPO("MultiInputPolicy", slots, n_steps=12, batch_size=120, n_epochs=1, device="cpu")
    model.learn(240)
    assert model.env is not None and not is_vecenv_wrapped(model.env, VecTransposeImage)
    seen = slots.reset()
    tensor, _ = model.policy.obs_to_tensor(seen)
    features = model.policy.extract_features(tensor).numpy()
    flat = [seen[key].reshape(20, -1) for key in sorted(field.name for field in FIELDS)]
    assert np.array_equal(features, np.concatenate(flat, axis=1).astype(np.float32))


def test_monitor_and_normalisation_work_on_top() -> None:
    slots = VecNormalize(
        VecMonitor(SharedPolicyVecEnv(towns(), flat=False)), norm_obs_keys=["self"]
    )
    slots.reset()
    for _ in range(12):
        seen, _, dones, infos = slots.step(np.zeros(20, int))
    assert dones.all() and {info["episode"]["l"] for info in infos} == {12}
    assert np.abs(seen["self"]).max() <= 10
    monitor: Any = VecMonitor  # the library's annotation asks for a Gymnasium wrapper
    assert slots.env_is_wrapped(monitor) == [False] * 20


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"autoreset of env is 'next_step'.*'same_step'"):
        SharedPolicyVecEnv(towns(autoreset="next_step"))
    with pytest.raises(InvalidValueError, match="copy of env is False"):
        SharedPolicyVecEnv(towns(copy=False), flat=False)
    with pytest.raises(InvalidValueError, match="env is 'jaywalk'"):
        SharedPolicyVecEnv("jaywalk")  # type: ignore[arg-type]
    slots = SharedPolicyVecEnv(towns())
    with pytest.raises(LifecycleError, match="step_wait"):
        slots.step_wait()
    with pytest.raises(LifecycleError, match="'autoreset' cannot be set"):
        slots.set_attr("autoreset", "disabled")
    with pytest.raises(AttributeError):
        slots.get_attr("nonsense")
    slots.reset()
    with pytest.raises(InvalidValueError, match="action"):
        slots.step(np.full(20, 10))
    slots.step(np.zeros(20, int))


def test_the_learner_is_timed_against_slots_that_cost_nothing() -> None:
    free = constant_slots(40)
    assert free.reset().shape == (40, FLAT_SIZE) and free.observation_space.contains(
        free.reset()[0]
    )
    told = measure_learner(0.1)
    assert told["town"] > 0 and told["constant"] > 0 and told["rollouts"] >= 1
    assert 0 < told["share"] < 2
    with pytest.raises(InvalidValueError, match="seconds is 0"):
        measure_learner(0)


@pytest.mark.parametrize("name", ["sb3_ppo", "sb3_maskable"])
def test_the_example_runs(repository: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(repository / "docs" / "examples" / f"{name}.py"))
    model = example["main"](steps=640, towns=2)
    assert model.num_timesteps == 640 and "CC" in capsys.readouterr().out + "CC" * (
        name == "sb3_ppo"
    )
