"""The environments that a training plays in, and what is counted of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pave_policy.commands.training.config import TrainConfig, Window, world_of
from pave_policy.commands.training.tally import Tally
from pave_policy.rl.settled import only_waiting, settled
from voville_env.scenario.suites import suite_of
from voville_env.vector import VovilleVectorEnv

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv


class TalliedVectorEnv(VovilleVectorEnv):
    """A batch of environments for a learner: counts, scaled rewards, settled people wait.

    Attributes:
        tally: The counts, of unscaled rewards.
        reward_scale: What the rewards that it returns are multiplied by.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Makes the environments.

        Args:
            *args: As for `VovilleVectorEnv`.
            **options: Likewise.
        """
        super().__init__(*args, **options)
        self.tally = Tally()
        self.reward_scale = np.float32(1)
        self._settled = np.zeros((self.num_envs, len(self.agents)), np.bool_)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Resets all environments.

        Args:
            **options: As for `VovilleVectorEnv`.

        Returns:
            Observations and infos.
        """
        observations, infos = super().reset(**options)
        self.tally.begin(observations["self"])
        self._settled = settled(observations)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments.

        Args:
            actions: `(B, N)` actions.

        Returns:
            Observations, rewards, terminations, truncations and infos.
        """
        observations, rewards, terminations, truncations, infos = super().step(actions)
        over = infos["_final_obs"]
        terms = infos["reward_terms"]
        if over.any():
            last = infos["final_info"]["reward_terms"]
            terms = np.where(over[:, None, None], last, terms)
        self.tally.note(observations["self"], rewards, terms, over)
        self._settled = settled(observations)
        return observations, rewards * self.reward_scale, terminations, truncations, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions a learner may choose.

        Returns:
            `(B, N, 10)`: those that are physically possible, and for settled people WAIT alone.
        """
        return only_waiting(self._settled, super().action_masks())


def make_env(config: TrainConfig) -> tuple[VecEnv, list[TalliedVectorEnv]]:
    """Makes what a training plays in.

    Args:
        config: The configuration.

    Returns:
        One slot a person of every environment, and the batches that they belong to, one a window.
    """
    from voville_env.wrappers.sb3 import SharedPolicyVecEnv
    from voville_env.wrappers.sb3_chain import ChainedVecEnv

    seeds = suite_of(world_of(config)).train
    batches = [
        TalliedVectorEnv(
            config.rewarded,
            num_envs=size,
            autoreset="same_step",
            copy=False,
            threads=config.threads,
            window=window,
            seed_pool=seeds,
        )
        for window, size in _shares(config)
    ]
    for batch in batches:
        batch.reward_scale = np.float32(config.learning.reward_scale)
    parts = [SharedPolicyVecEnv(batch) for batch in batches]
    return (parts[0] if len(parts) == 1 else ChainedVecEnv(parts)), batches


def _shares(config: TrainConfig) -> list[tuple[Window, int]]:
    """How many environments each window gets."""
    count = len(config.windows)
    return [
        (window, config.envs // count + (k < config.envs % count))
        for k, window in enumerate(config.windows)
    ]
