"""PPO of Stable-Baselines3, one policy for all agents of a batch of towns.

Run with: python docs/examples/sb3_ppo.py [agent-steps]
"""

import sys

from stable_baselines3 import PPO

from voville_env.vector import VovilleVectorEnv
from voville_env.wrappers.sb3 import SharedPolicyVecEnv


def main(steps: int = 200_000, towns: int = 16) -> PPO:
    """Trains for a number of agent-steps."""
    env = VovilleVectorEnv(
        "fire_escape", towns, autoreset="same_step", copy=False, window=(1, 45, 100)
    )
    slots = SharedPolicyVecEnv(env)
    model = PPO("MlpPolicy", slots, n_steps=32, batch_size=640, n_epochs=4, seed=0, device="cpu")
    model.learn(steps)
    for episode in list(model.ep_info_buffer or [])[-3:]:
        print({key: round(value, 2) for key, value in episode.items()})
    return model


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
