"""Records an episode, reads it, scores its log and plays it again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import voville_env
from voville_env.metrics import metrics_of
from voville_env.wrappers.recorder import EpisodeRecorder
from voville_env.wrappers.recording import load_episode, replay


def main() -> None:
    """Plays with random actions into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        town = voville_env.parallel_env("fire_escape", window=(1, 48, 60))
        env = EpisodeRecorder(town, folder, observations=True)
        observations, _ = env.reset(seed=0)
        while env.agents:
            actions = {
                agent: env.action_space(agent).sample(observations[agent]["action_mask"])
                for agent in env.agents
            }
            observations, _, _, _, _ = env.step(actions)
        path: Path = env.files[0]
        episode = load_episode(path)
        print(path.name, episode.steps, "steps of", len(episode.agents), "agents")
        print("return:", round(float(episode.rewards.sum()), 3))
        print("metrics:", len(metrics_of(path.with_suffix(".jsonl"))["metrics"]))
        print("the same run:", bool(replay(path)))


if __name__ == "__main__":
    main()
