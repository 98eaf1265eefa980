"""One agent of the town in Gymnasium, the others played by the policy `lawful`."""

from __future__ import annotations

import gymnasium

import voville_env  # noqa: F401 - registers the ids


def main() -> None:
    """Takes the shortest way out of the fire that waives the traffic rules."""
    env = gymnasium.make("Voville/FireEscape-v1", agent="CC", others="lawful", window=(1, 50, 80))
    observation, info = env.reset(seed=0)
    total, over = 0.0, False
    while not over:
        distance, action = observation["routes"][4 if observation["self"][11] else 1][:2]
        observation, reward, terminated, truncated, info = env.step(action if distance > 0 else 0)
        total += float(reward)
        over = terminated or truncated
    print(f"return {total:.2f}, terms of the last step {info['reward_terms'].tolist()}")


if __name__ == "__main__":
    main()
