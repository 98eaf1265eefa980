"""Parameter sharing in Stable-Baselines3: every agent of every town is one slot of its `VecEnv`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from voville_env.core.codes import RewardTerm
from voville_env.errors import InvalidValueError, LifecycleError, MissingExtraError
from voville_env.flat import FLAT_SIZE, flat_space, flatten
from voville_env.vector import VovilleVectorEnv

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise MissingExtraError(
        'SharedPolicyVecEnv needs stable-baselines3: pip install "voville[rl]"'
    ) from error

Indices = None | int | Iterable[int]
_TERMS = tuple(term.name.lower() for term in RewardTerm)


class SharedPolicyVecEnv(VecEnv):
    """One policy for all: `B` towns of `N` agents as `B * N` slots.

    Agent `n` of town `b` is slot `b * N + n`.

    Where a slot is done, `infos[slot]` holds `terminal_observation`, `TimeLimit.truncated` and
    `episode`: return `r`, length `l`, seconds `t`, and the sum of each unweighted reward term.

    With `terminal_goal=True` an agent can be done before its town. Its slot is padded until the
    town starts again: reward 0, done True, only WAIT possible, `infos[slot]["padding"]` True. A
    `VecMonitor` would count each such step as an episode; `episode` above does not.

    Attributes:
        env: The towns.
        agents: `(B * N,)` agent ids, slot by slot.
    """

    def __init__(self, env: VovilleVectorEnv, *, flat: bool = True) -> None:
        """Wraps a batch of towns.

        Args:
            env: Made with `autoreset="same_step"`, which is what Stable-Baselines3 expects. With
                `flat=True` it may have `copy=False`: vectors are then overwritten by the step after
                the next, which is quicker and enough for this library's own learners.
            flat: Observations are vectors for `MlpPolicy` (`voville_env.flat`), else the town's
                own fields for `MultiInputPolicy`: whole numbers as they are, which a learner has to
                normalise itself.

        Raises:
            InvalidValueError: If the environment has another autoreset mode, or overwrites the
                observations that Stable-Baselines3 keeps.
        """
        if not isinstance(env, VovilleVectorEnv):
            raise InvalidValueError(f"env is {env!r}; allowed: a VovilleVectorEnv")
        if env.autoreset != "same_step":
            raise InvalidValueError(f"autoreset of env is {env.autoreset!r}; allowed: 'same_step'")
        if not isinstance(flat, bool):
            raise InvalidValueError(f"flat is {flat!r}; allowed: True, False")
        if not flat and not env.copy:
            raise InvalidValueError("copy of env is False; allowed: True where flat is False")
        self.env = env
        self.flat = flat
        self.agents = tuple(env.agents) * env.num_envs
        slots = len(self.agents)
        self._actions: NDArray[Any] | None = None
        shape = (env.num_envs, len(env.agents), FLAT_SIZE)
        self._vectors = [] if env.copy else [np.zeros(shape, np.float32) for _ in range(2)]
        self._live = np.ones(slots, np.bool_)
        self._returns = np.zeros(slots)
        self._lengths = np.zeros(slots, np.int64)
        self._terms = np.zeros((slots, len(_TERMS)))
        self._base: int | None = None
        self._began = time.perf_counter()
        space: spaces.Space[Any] = flat_space() if flat else env.single_observation_space
        super().__init__(slots, space, env.single_action_space)

    def _shown(self, observations: dict[str, NDArray[Any]]) -> Any:
        if self.flat:
            self._vectors.reverse()  # a learner still holds the vectors of the step before
            return self._translated(observations, self._vectors[0] if self._vectors else None)
        return self._translated(observations)

    def _translated(
        self, observations: dict[str, NDArray[Any]], out: NDArray[np.float32] | None = None
    ) -> Any:
        if self.flat:
            return flatten(observations, out).reshape(self.num_envs, -1)
        return {
            key: array.reshape(self.num_envs, *array.shape[2:])
            for key, array in observations.items()
        }

    def reset(self) -> Any:
        """Starts all towns.

        Returns:
            Observations, `(B * N, ...)`.
        """
        observations, infos = self.env.reset(seed=self._base)
        self._reset_seeds()
        self._reset_options()
        self._live = infos["live"].reshape(-1).copy()
        self._returns[:] = 0
        self._lengths[:] = 0
        self._terms[:] = 0
        return self._shown(observations)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Sets the base of all seeds from the next reset on.

        Args:
            seed: As `VovilleVectorEnv.reset` takes it; None goes on as before.

        Returns:
            The base, once a slot: all slots follow from it.
        """
        self._base = seed
        return [seed] * self.num_envs

    def _reset_seeds(self) -> None:
        self._base = None

    def step_async(self, actions: NDArray[Any]) -> None:
        """Takes the actions of the next step.

        Args:
            actions: `(B * N,)` integers.
        """
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Moves everybody.

        Returns:
            Observations; rewards; whether each slot is done; infos, a fresh dict a slot.

        Raises:
            LifecycleError: If no actions were given.
        """
        if self._actions is None:
            raise LifecycleError("step_wait() without step_async()")
        actions, self._actions = self._actions, None
        live = self._live
        shape = (self.env.num_envs, len(self.env.agents))
        observations, rewards, terminated, truncated, report = self.env.step(actions.reshape(shape))
        shown = self._shown(observations)
        reward = np.where(live, rewards.reshape(-1), np.float32(0))
        ended = (terminated | truncated).reshape(-1)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._count(live, reward, report)
        if ended.any():
            cut = (truncated & ~terminated).reshape(-1)
            self._tell_ends(infos, ended, cut, self._last_seen(shown, report))
        for slot in (~live).nonzero()[0].tolist():
            infos[slot]["padding"] = True
        self._live = report["live"].reshape(-1).copy()
        return shown, reward, ended | ~live, infos

    def _count(
        self, live: NDArray[np.bool_], reward: NDArray[np.float32], report: dict[str, Any]
    ) -> None:
        terms = report["reward_terms"]
        over = report["_final_obs"]
        if over.any():
            terms = np.where(over[:, None, None], report["final_info"]["reward_terms"], terms)
        self._returns += reward
        self._lengths += live
        self._terms += terms.reshape(self.num_envs, -1) * live[:, None]

    def _last_seen(self, shown: Any, report: dict[str, Any]) -> Any:
        """What each slot saw last in its episode: before the reset, where its town was reset."""
        over = report["_final_obs"]
        if not over.any():
            return shown
        final = self._translated(report["final_obs"])
        rows = np.repeat(over, len(self.env.agents))
        if self.flat:
            return np.where(rows[:, None], final, shown)
        return {
            key: np.where(rows.reshape(-1, *[1] * (array.ndim - 1)), final[key], array)
            for key, array in shown.items()
        }

    def _tell_ends(
        self,
        infos: list[dict[str, Any]],
        ended: NDArray[np.bool_],
        cut: NDArray[np.bool_],
        seen: Any,
    ) -> None:
        passed = round(time.perf_counter() - self._began, 6)
        for slot in ended.nonzero()[0].tolist():
            last = _row(seen, slot)
            sums = zip(_TERMS, self._terms[slot].tolist(), strict=True)
            episode = {"r": float(self._returns[slot]), "l": int(self._lengths[slot]), "t": passed}
            infos[slot] = {
                "terminal_observation": last,
                "TimeLimit.truncated": bool(cut[slot]),
                "episode": {**episode, **dict(sums)},
            }
        self._returns[ended] = 0
        self._lengths[ended] = 0
        self._terms[ended] = 0

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are possible now.

        Returns:
            `(B * N, 10)` bool; only WAIT in a padded slot.
        """
        return self.env.action_masks().reshape(self.num_envs, -1)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method for some slots, as maskable learners do for `action_masks`.

        Args:
            method_name: `action_masks`, or a method of the towns: it is called once for all.
            *method_args: Its arguments.
            indices: Which slots; all unless given.
            **method_kwargs: Its arguments.

        Returns:
            One result a slot: its own mask, or the same result for all.
        """
        slots = list(self._get_indices(indices))
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[slot] for slot in slots]
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [result] * len(slots)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Reads an attribute of the towns.

        Args:
            attr_name: Its name; `agent` is the agent id of the slot.
            indices: Which slots; all unless given.

        Returns:
            One value a slot.
        """
        slots = list(self._get_indices(indices))
        if attr_name == "agent":
            return [self.agents[slot] for slot in slots]
        if attr_name == "render_mode":
            return [None] * len(slots)
        return [getattr(self.env, attr_name)] * len(slots)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Refuses: slots share their towns, whose settings are arguments of `VovilleVectorEnv`.

        Args:
            attr_name: Its name.
            value: Its value.
            indices: Which slots.

        Raises:
            LifecycleError: Always.
        """
        raise LifecycleError(f"{attr_name!r} cannot be set on slots that share their towns")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """Whether slots are wrapped in a Gymnasium wrapper, which they never are.

        Args:
            wrapper_class: The wrapper.
            indices: Which slots; all unless given.

        Returns:
            False for each.
        """
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        """Nothing: the towns of a batch are not drawn.

        Returns:
            None for each slot.
        """
        return [None] * self.num_envs

    def close(self) -> None:
        """Closes the towns."""
        self.env.close()


def _row(seen: Any, slot: int) -> Any:
    if isinstance(seen, dict):
        return {key: array[slot].copy() for key, array in seen.items()}
    return seen[slot].copy()
