"""Several Stable-Baselines3 `VecEnv`s played as one, such as batches of different windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import (
    VecEnvIndices,
    VecEnvObs,
    VecEnvStepReturn,
)

from voville_env.errors import InvalidValueError


class ChainedVecEnv(VecEnv):
    """The slots of several vector environments, one after the other, stepped in turn.

    Their observations must be arrays of one space. Each is seeded apart: the k-th of K from the
    seed `K * seed + k`.
    """

    def __init__(self, parts: Sequence[VecEnv]) -> None:
        """Takes the parts.

        Args:
            parts: At least one, all with the same spaces.

        Raises:
            InvalidValueError: If there is none, or their spaces differ.
        """
        if not parts:
            raise InvalidValueError("parts is empty; allowed: at least one VecEnv")
        self.parts = list(parts)
        first = self.parts[0]
        for part in self.parts[1:]:
            mine = (first.observation_space, first.action_space)
            if (part.observation_space, part.action_space) != mine:
                raise InvalidValueError(
                    f"parts have spaces {mine} and "
                    f"{(part.observation_space, part.action_space)}; allowed: the same"
                )
        sizes = [part.num_envs for part in self.parts]
        self._starts = np.cumsum([0, *sizes]).tolist()
        super().__init__(sum(sizes), first.observation_space, first.action_space)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seeds the next reset of every part.

        Args:
            seed: The seed; None for a fresh one.

        Returns:
            What the parts returned, joined.
        """
        count = len(self.parts)
        found: list[int | None] = []
        for k, part in enumerate(self.parts):
            found += part.seed(None if seed is None else (count * seed + k) % 2**32)
        return found

    def reset(self) -> VecEnvObs:
        """Resets every part.

        Returns:
            Observations of all slots.
        """
        return self._joined([part.reset() for part in self.parts])

    def step_async(self, actions: np.ndarray) -> None:
        """Hands each part its actions.

        Args:
            actions: One a slot.
        """
        for k, part in enumerate(self.parts):
            part.step_async(actions[self._starts[k] : self._starts[k + 1]])

    def step_wait(self) -> VecEnvStepReturn:
        """Steps every part.

        Returns:
            Observations, rewards, dones and infos of all slots.
        """
        observations, rewards, dones, infos = zip(
            *(part.step_wait() for part in self.parts), strict=True
        )
        listed = [info for part in infos for info in part]
        return self._joined(observations), np.concatenate(rewards), np.concatenate(dones), listed

    def close(self) -> None:
        """Closes every part."""
        for part in self.parts:
            part.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Asks the parts for an attribute.

        Args:
            attr_name: Its name.
            indices: Slots; all unless given.

        Returns:
            One value a slot.
        """
        return self._ask("get_attr", attr_name, indices=indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of the parts.

        Args:
            attr_name: Its name.
            value: Its value.
            indices: Slots; all unless given.
        """
        for part, within in self._chosen(indices):
            part.set_attr(attr_name, value, indices=within)

    def env_method(
        self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any
    ) -> list[Any]:
        """Calls a method of the parts.

        Args:
            method_name: Its name.
            *args: Its arguments.
            indices: Slots; all unless given.
            **kwargs: Its keywords.

        Returns:
            One result a slot.
        """
        return self._ask("env_method", method_name, *args, indices=indices, **kwargs)

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        """Whether slots are wrapped.

        Args:
            wrapper_class: In what.
            indices: Slots; all unless given.

        Returns:
            One flag a slot.
        """
        return self._ask("env_is_wrapped", wrapper_class, indices=indices)

    def _ask(self, what: str, *args: Any, indices: VecEnvIndices, **kwargs: Any) -> list[Any]:
        found: list[Any] = []
        for part, within in self._chosen(indices):
            found += getattr(part, what)(*args, indices=within, **kwargs)
        return found

    def _chosen(self, indices: VecEnvIndices) -> Iterable[tuple[VecEnv, list[int] | None]]:
        """The parts that slots lie in, with their places there, in the order of the slots."""
        if indices is None:
            yield from ((part, None) for part in self.parts)
            return
        for slot in self._get_indices(indices):
            k = int(np.searchsorted(self._starts, slot, side="right")) - 1
            yield self.parts[k], [slot - self._starts[k]]

    @staticmethod
    def _joined(observations: Sequence[Any]) -> np.ndarray:
        return np.concatenate(observations)
