"""What the town costs a learner: PPO over it, and the same PPO over slots that cost nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from voville_env.errors import InvalidValueError, MissingExtraError

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

SLOTS = 640
BATCH = 4096
EPOCHS = 4
_SCENARIO = "fire_escape"


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    kept = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(kept)


def measure_learner(seconds: float = 20.0) -> dict[str, Any]:
    """Times Stable-Baselines3's PPO on the town and on slots that return constants.

    Both loops run in turn, a rollout and its update at a time, so that a busy machine slows both
    alike. PPO is the library's own with `MlpPolicy`, 640 slots, about 4,096 steps a rollout in one
    minibatch, and 4 epochs, on the CPU with one thread of torch: several compete with the town.

    Args:
        seconds: For how long, both loops together; at least one rollout of each is timed.

    Returns:
        `town` and `constant`, agent-steps a second; `share`, what the learner keeps of its speed on
        constants; `town_us`, microseconds an agent-step that the town takes; `rollouts` timed.

    Raises:
        InvalidValueError: If `seconds` is not positive.
        MissingExtraError: If Stable-Baselines3 is not installed.
    """
    if not seconds > 0:
        raise InvalidValueError(f"seconds is {seconds!r}; allowed: more than 0")
    town = _town()
    loops = {"town": _Loop(town), "constant": _Loop(constant_slots(SLOTS))}
    spent: dict[str, list[float]] = {name: [] for name in loops}
    with _one_thread():
        start = time.perf_counter()
        while not spent["constant"] or time.perf_counter() - start < seconds:
            for name, loop in loops.items():
                spent[name].append(loop.run())
    middle = {name: float(np.median(times)) for name, times in spent.items()}
    steps = SLOTS * max(BATCH // SLOTS, 1)
    return {
        "town": round(steps / middle["town"]),
        "constant": round(steps / middle["constant"]),
        "share": round(middle["constant"] / middle["town"], 3),
        "town_us": round((middle["town"] - middle["constant"]) / steps * 1e6, 2),
        "rollouts": len(spent["town"]),
    }


class _Loop:
    """One PPO, run a rollout and its update at a time."""

    def __init__(self, slots: VecEnv) -> None:
        from stable_baselines3 import PPO

        steps = max(BATCH // slots.num_envs, 1)
        self._steps = steps * slots.num_envs
        self._learner = PPO(
            "MlpPolicy",
            slots,
            n_steps=steps,
            batch_size=self._steps,
            n_epochs=EPOCHS,
            seed=0,
            device="cpu",
        )
        self._learner.learn(self._steps)

    def run(self) -> float:
        """Seconds of one more rollout and its update."""
        start = time.perf_counter()
        self._learner.learn(self._steps, reset_num_timesteps=False)
        return time.perf_counter() - start


def _town() -> VecEnv:
    from voville_env.vector import VovilleVectorEnv
    from voville_env.wrappers.sb3 import SharedPolicyVecEnv

    one = VovilleVectorEnv(_SCENARIO)
    count = SLOTS // len(one.agents)
    return SharedPolicyVecEnv(
        VovilleVectorEnv(one.world, count, autoreset="same_step", copy=False, window=(1, 40, 140))
    )


def constant_slots(slots: int) -> VecEnv:
    """Slots of the town's spaces that always return the same arrays.

    Args:
        slots: How many.

    Returns:
        The slots.

    Raises:
        MissingExtraError: If Stable-Baselines3 is not installed.
    """
    try:
        from stable_baselines3.common.vec_env import VecEnv
    except ImportError as error:
        raise MissingExtraError(
            'the learner needs stable-baselines3: pip install "voville[rl]"'
        ) from error
    from gymnasium import spaces

    from voville_env.actions import N_ACTIONS
    from voville_env.flat import FLAT_SIZE, flat_space

    class Constant(VecEnv):
        def __init__(self) -> None:
            super().__init__(slots, flat_space(), spaces.Discrete(N_ACTIONS))
            self._seen = np.full((slots, FLAT_SIZE), 0.5, np.float32)
            self._rewards = np.zeros(slots, np.float32)
            self._dones = np.zeros(slots, np.bool_)
            self._infos: list[dict[str, Any]] = [{} for _ in range(slots)]

        def reset(self) -> Any:
            return self._seen

        def step_async(self, actions: Any) -> None:
            pass

        def step_wait(self) -> Any:
            return self._seen, self._rewards, self._dones, self._infos

        def close(self) -> None:
            pass

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * slots

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            pass

        def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> list[Any]:
            return [None] * slots

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * slots

    return Constant()
