"""The town in RLlib, by RLlib's own PettingZoo wrapper; its modules find the mask by name."""

from __future__ import annotations

from typing import Any

from pettingzoo import ParallelEnv

from voville_env.errors import MissingExtraError
from voville_env.wrappers.flat import SeededFlat

try:
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
except ImportError as error:
    raise MissingExtraError('RLlibTown needs RLlib: pip install "voville[rllib]"') from error


class RLlibTown(ParallelPettingZooEnv):
    """One town as RLlib's `MultiAgentEnv`.

    Each agent sees `{"observations": vector, "action_mask": mask}`, the names that RLlib's
    `ActionMaskingTorchRLModule` asks for. Agents may leave before the others do: an episode is over
    once nobody is left, also where some have arrived and the rest ran out of time.
    """

    def __init__(self, env: ParallelEnv[str, Any, Any]) -> None:
        """Wraps a town.

        Args:
            env: A town, or an environment with its observations.

        Raises:
            InvalidValueError: If the observations are others.
        """
        flat = SeededFlat(env, vector="observations")
        self.possible_agents = list(flat.possible_agents)
        self.agents = list(flat.possible_agents)
        super().__init__(flat)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts a run.

        Args:
            seed: As `VovilleEnv.reset` takes it; later runs without one follow from it.
            options: As `VovilleEnv.reset` takes them.

        Returns:
            Observations and infos of all agents.
        """
        observations, infos = super().reset(seed=seed, options=options)
        self.agents = list(self.par_env.agents)
        return observations, infos

    def step(
        self, action_dict: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """Moves everybody.

        Args:
            action_dict: One action for every live agent.

        Returns:
            Observations, rewards, terminations and truncations with `__all__`, and infos.
        """
        observations, rewards, terminated, truncated, infos = super().step(action_dict)
        self.agents = list(self.par_env.agents)
        over = not self.agents
        cut = any(value for agent, value in truncated.items() if agent != "__all__")
        terminated["__all__"] = over and not cut
        truncated["__all__"] = over and cut
        return observations, rewards, terminated, truncated, infos
