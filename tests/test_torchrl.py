"""The town in TorchRL: specs, rollouts with masks, agents that leave early, and one step of PPO."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torchrl")

import torch
from tensordict.nn import TensorDictModule

from voville_env.errors import InvalidValueError
from voville_env.flat import FLAT_SIZE, flatten
from voville_env.parallel import VovilleEnv
from voville_env.wrappers.torchrl import ACTION, GROUP, MASK, VECTOR, torchrl_town

pytestmark = pytest.mark.learning


def town(**settings: Any) -> VovilleEnv:
    return VovilleEnv("fire_escape", **{"window": (1, 48, 51)} | settings)


def test_a_rollout_is_what_the_town_shows_and_obeys_the_masks() -> None:
    torch.manual_seed(0)
    inner = town()
    env = torchrl_town(inner, seed=5)
    played = env.rollout(100)
    assert played.shape == (12,) and played["next", "done"].sum() == 1
    assert played[VECTOR].shape == (12, 10, FLAT_SIZE) and played[VECTOR].dtype == torch.float32
    assert played[MASK].shape == (12, 10, 10) and not played[MASK].all()
    assert played[MASK].gather(-1, played[ACTION][..., None]).all()
    twin = town()
    native, _ = twin.reset(seed=inner.seed)
    for step in played:
        batch = {key: np.stack([one[key] for one in native.values()]) for key in native["CC"]}
        assert np.array_equal(step[VECTOR].numpy(), flatten(batch))
        assert np.array_equal(step[MASK].numpy(), batch["action_mask"].astype(bool))
        actions = dict(zip(native, step[ACTION].tolist(), strict=True))
        native, rewards, *_ = twin.step(actions)
        told = step["next", GROUP, "reward"].flatten().tolist()
        assert told == pytest.approx(list(rewards.values()))
    assert step["next", GROUP, "truncated"].all() and not step["next", GROUP, "terminated"].any()


def test_agents_may_leave_before_the_others() -> None:
    torch.manual_seed(0)
    env = torchrl_town(town(window=(1, 48, 200), terminal_goal=True), seed=1, early_leavers=True)

    def direct(vector: torch.Tensor, mask: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        # The next action of the shortest way is told one-hot: see docs/flat.md.
        action = vector[..., 16 + 40 : 26 + 40].argmax(-1)
        possible = mask.gather(-1, action[..., None])[..., 0]
        return torch.where(possible & present, action, 0)

    policy = TensorDictModule(direct, [VECTOR, MASK, (GROUP, "mask")], [ACTION])
    played = env.rollout(700, policy)
    taking_part = played[GROUP, "mask"].sum(-1)
    assert taking_part[0] == 10 and 0 < taking_part[-1] < 8
    assert (taking_part.diff() <= 0).all() and played["next", "done"].sum() == 1
    with pytest.raises(InvalidValueError, match="env is 3"):
        torchrl_town(3)  # type: ignore[arg-type]


def test_the_example_learns_once(repository: Path) -> None:
    example = runpy.run_path(str(repository / "docs" / "examples" / "torchrl_rollout.py"))
    played, loss = example["main"](steps=8)
    assert played.shape == (8,) and np.isfinite(loss)
    assert played[MASK].gather(-1, played[ACTION][..., None]).all()
