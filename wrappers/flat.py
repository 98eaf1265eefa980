"""Flat vectors and masks for every agent: what most learning libraries take."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from voville_env.actions import N_ACTIONS
from voville_env.errors import InvalidValueError
from voville_env.flat import flat_space, flatten
from voville_env.parallel import VovilleEnv
from voville_env.wrappers.parallel_observation import Native, ParallelObservation


def masked_space(vector: str = "observation") -> spaces.Dict:
    """The observation space of one agent, under the names that masking learners look for.

    Args:
        vector: The key of the vector.

    Returns:
        A `Dict` of the flat vector and `action_mask`, `(10,)` int8.
    """
    mask = spaces.Box(0, 1, (N_ACTIONS,), np.int8)
    return spaces.Dict({vector: flat_space(), "action_mask": mask})


class ParallelFlat(ParallelObservation):
    """Gives every agent `{"observation": vector, "action_mask": mask}`; see `docs/flat.md`."""

    def __init__(self, env: ParallelEnv[str, Any, Any], *, vector: str = "observation") -> None:
        """Wraps an environment.

        Args:
            env: A town, or an environment with its observations.
            vector: The key of the vector, for libraries that look for another one.

        Raises:
            InvalidValueError: If the observations are others, or `vector` is the key of the mask.
        """
        if vector == "action_mask":
            raise InvalidValueError(f"vector is {vector!r}; allowed: any key but 'action_mask'")
        super().__init__(env, lambda: masked_space(vector))
        self._vector = vector

    def translate(self, agent: str, native: Native) -> dict[str, Any]:
        """One observation.

        Args:
            agent: Agent id.
            native: The town's observation.

        Returns:
            A vector and a mask of its own.
        """
        return {self._vector: flatten(native), "action_mask": native["action_mask"].copy()}

    def _told(self, native: dict[str, Native], actions: dict[str, Any]) -> dict[str, Any]:
        """All of a town's vectors in one pass, which takes little longer than one agent's."""
        if type(self.env) is not VovilleEnv or len(native) < len(self._spaces):
            return super()._told(native, actions)
        records = self.env.records
        rows = zip(native, flatten(records), records["action_mask"].copy(), strict=True)
        return {agent: {self._vector: told, "action_mask": mask} for agent, told, mask in rows}


class SeededFlat(ParallelFlat):
    """As `ParallelFlat`, for libraries that give a seed once: later runs follow from it."""

    _base: int | None = None
    _runs = 0

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Starts a run.

        Args:
            seed: Its seed, from which those of the later runs are hashed; None goes on from the
                last one given, and without any leaves the seed to chance.
            options: Those of the town.

        Returns:
            Observations and infos of all agents.
        """
        if seed is not None:
            self._base, self._runs = seed, 0
            return super().reset(seed=seed, options=options)
        if self._base is None:
            return super().reset(options=options)
        self._runs += 1
        words = np.random.SeedSequence([self._base, self._runs]).generate_state(1, np.uint64)
        return super().reset(seed=int(words[0]), options=options)
