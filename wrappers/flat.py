"""Flat vectors and masks for every agent: what most learning libraries take."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from voville_env.actions import N_ACTIONS
from voville_env.flat import flat_space, flatten
from voville_env.wrappers.parallel_observation import Native, ParallelObservation


def masked_space() -> spaces.Dict:
    """The observation space of one agent, under the names that masking learners look for.

    Returns:
        A `Dict` of `observation`, the flat vector, and `action_mask`, `(10,)` int8.
    """
    mask = spaces.Box(0, 1, (N_ACTIONS,), np.int8)
    return spaces.Dict({"observation": flat_space(), "action_mask": mask})


class ParallelFlat(ParallelObservation):
    """Gives every agent `{"observation": vector, "action_mask": mask}`; see `docs/flat.md`."""

    def __init__(self, env: ParallelEnv[str, Any, Any]) -> None:
        """Wraps an environment.

        Args:
            env: A town, or an environment with its observations.

        Raises:
            InvalidValueError: If the observations are others.
        """
        super().__init__(env, masked_space)

    def translate(self, agent: str, native: Native) -> dict[str, Any]:
        """One observation.

        Args:
            agent: Agent id.
            native: The town's observation.

        Returns:
            A vector and a mask of its own.
        """
        return {"observation": flatten(native), "action_mask": native["action_mask"].copy()}
