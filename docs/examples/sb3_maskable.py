"""MaskablePPO of sb3-contrib: impossible actions are never sampled.

Run with: python docs/examples/sb3_maskable.py [agent-steps]
"""

import sys

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks

from voville_env.vector import VovilleVectorEnv
from voville_env.wrappers.sb3 import SharedPolicyVecEnv


def main(steps: int = 200_000, towns: int = 16) -> MaskablePPO:
    """Trains for a number of agent-steps, then plays one step greedily."""
    env = VovilleVectorEnv(
        "fire_escape", towns, autoreset="same_step", copy=False, window=(1, 45, 100)
    )
    slots = SharedPolicyVecEnv(env)
    model = MaskablePPO(
        "MlpPolicy", slots, n_steps=32, batch_size=640, n_epochs=4, seed=0, device="cpu"
    )
    model.learn(steps)
    seen = slots.reset()
    actions, _ = model.predict(seen, action_masks=get_action_masks(slots), deterministic=True)
    print(dict(zip(slots.agents[:10], actions[:10].tolist(), strict=True)))
    return model


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
