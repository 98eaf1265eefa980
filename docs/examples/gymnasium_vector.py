"""Sixteen towns as one Gymnasium `VectorEnv`, with episode statistics."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import voville_env  # noqa: F401 - registers the ids


def main() -> None:
    """Plays random possible actions in all of them."""
    towns = gymnasium.make_vec("Voville/Jaywalk-v1", num_envs=16, window=(1, 28, 40))
    env = RecordEpisodeStatistics(towns)
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    while env.episode_count < 16:
        masks = towns.action_masks()
        actions = np.where(masks, generator.random(masks.shape), -1.0).argmax(axis=1)
        env.step(actions)
    print(f"mean return {np.mean(env.return_queue):.2f} over {len(env.return_queue)} episodes")


if __name__ == "__main__":
    main()
