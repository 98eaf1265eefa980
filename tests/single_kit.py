"""One person of a town as a Gymnasium environment; everybody else waits."""

from __future__ import annotations

from typing import Any

import gymnasium

import voville_env
from voville_env.parallel import VovilleEnv


class Alone(gymnasium.Env[Any, Any]):
    """The least that a Gymnasium form of the town must be."""

    def __init__(self, agent: str = "CC", **settings: Any) -> None:
        self.town: VovilleEnv = voville_env.parallel_env(**settings)
        self.agent = agent
        self.observation_space = self.town.observation_space(agent)
        self.action_space = self.town.action_space(agent)
        self.colour = "grey"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        observations, infos = self.town.reset(seed=seed, options=options)
        return observations[self.agent], infos[self.agent]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        chosen = dict.fromkeys(self.town.agents, 0) | {self.agent: action}
        frame = self.town.step(chosen)
        seen, reward, done, cut, info = (part[self.agent] for part in frame)
        return seen, reward, done, cut, info
