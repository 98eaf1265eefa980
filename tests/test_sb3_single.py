"""The Gymnasium environment under Stable-Baselines3's own vector environments, with masks."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

import torch
from gymnasium.wrappers import TimeLimit
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from voville_env.flat import flat_space
from voville_env.parallel import VovilleEnv

pytestmark = pytest.mark.learning
LIMIT = 8


def one() -> gymnasium.Env[Any, Any]:
    """One agent that is cut after eight steps; the run would go on for twelve."""
    # The prefix imports the package, which registers the id: a spawned process has not done so.
    made = gymnasium.make("voville_env:Voville/FireEscape-v1", flat=True, window=(1, 48, 51))
    limited: gymnasium.Env[Any, Any] = Monitor(TimeLimit(made, LIMIT))
    return limited


def dummy() -> VecEnv:
    return DummyVecEnv([one] * 2)


def forked() -> VecEnv:
    return SubprocVecEnv([one] * 2, start_method="fork")


def spawned() -> VecEnv:
    return SubprocVecEnv([one] * 2, start_method="spawn")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("make", [dummy, forked, spawned])
def test_masks_are_found_and_obeyed_through_wrappers_and_processes(make: Any) -> None:
    torch.set_num_threads(1)
    town = VovilleEnv("fire_escape", window=(1, 48, 51))  # kernels have run before the fork
    town.reset(seed=1)
    town.step(dict.fromkeys(town.agents, 0))
    envs = make()
    try:
        assert is_masking_supported(envs) and envs.observation_space == flat_space()
        envs.seed(3)
        envs.reset()
        obeyed = []
        step_async = envs.step_async

        def watched(actions: Any) -> None:
            masks = get_action_masks(envs)
            assert masks.shape == (2, 10) and not masks.all()
            obeyed.append(masks[np.arange(2), np.asarray(actions)].all())
            step_async(actions)

        envs.step_async = watched
        model = MaskablePPO("MlpPolicy", envs, n_steps=16, batch_size=32, n_epochs=1, device="cpu")
        model.learn(64)
        assert len(obeyed) == 32 and all(obeyed)
        assert model.ep_info_buffer is not None and len(model.ep_info_buffer) == 8
        assert {episode["l"] for episode in model.ep_info_buffer} == {LIMIT}
    finally:
        envs.close()
    town.step(dict.fromkeys(town.agents, 0))
