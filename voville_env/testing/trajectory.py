"""Playing an environment, and hashing all that it says.

Actions come from generators of their own, one for each agent, so that a run depends on the seed and
the observations alone: not on the order of agents, nor on the state of any global generator.
"""

from __future__ import annotations

import copy
import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from voville_env.testing.report import fail

Env: TypeAlias = ParallelEnv[Any, Any, Any]
MakeEnv: TypeAlias = Callable[[], Env]
Chooser: TypeAlias = Callable[[Mapping[Any, Any], Mapping[Any, Any]], dict[Any, Any]]
Actions: TypeAlias = Literal["random", "first"] | Chooser
"""`random` and `first` pick among the possible actions; a function picks as it likes."""


class Frame(NamedTuple):
    """What one call of `reset` or `step` returned; after a reset the middle three are empty."""

    observations: dict[Any, Any]
    rewards: dict[Any, Any]
    terminations: dict[Any, Any]
    truncations: dict[Any, Any]
    infos: dict[Any, Any]


def mask_of(observation: Any, info: Any) -> Any:
    """The action mask of an agent, where it has one.

    Args:
        observation: Its observation.
        info: Its info dict.

    Returns:
        The value of the key `action_mask`, or None.
    """
    for holder in (observation, info):
        if isinstance(holder, Mapping) and "action_mask" in holder:
            return holder["action_mask"]
    return None


class ActionSource:
    """Chooses an action for every live agent: `random` or `first`, masked actions never."""

    def __init__(self, env: Env, seed: int, kind: Literal["random", "first"] = "random") -> None:
        """Makes a generator for each agent.

        Args:
            env: Whose action spaces count; it is not touched otherwise.
            seed: Seed of the actions, not of the environment.
            kind: How to choose.
        """
        self._env = env
        self._kind = kind
        self._spaces: dict[Any, Any] = {}
        self._generators: dict[Any, np.random.Generator] = {}
        for agent in env.possible_agents:
            key = [int(seed), zlib.crc32(str(agent).encode())]
            self._generators[agent] = np.random.default_rng(key)
            # A copy: sampling from the environment's own space would advance its generator.
            self._spaces[agent] = copy.deepcopy(env.action_space(agent))
            self._spaces[agent].seed(zlib.crc32(repr(key).encode()))

    def __call__(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> dict[Any, Any]:
        """Chooses.

        Args:
            observations: One an agent.
            infos: One an agent.

        Returns:
            One action for each live agent.
        """
        return {
            agent: self._one(agent, mask_of(observations[agent], infos.get(agent)))
            for agent in self._env.agents
        }

    def _one(self, agent: Any, mask: Any) -> Any:
        space = self._spaces[agent]
        if not isinstance(space, spaces.Discrete):
            return space.sample() if mask is None else space.sample(mask)
        options = range(space.n) if mask is None else np.flatnonzero(mask).tolist()
        if not options:
            fail(f"agent {agent!r} has no possible action: its mask is all zero")
        chosen = 0
        if self._kind == "random":
            chosen = int(self._generators[agent].integers(len(options)))
        return int(space.start) + int(options[chosen])


def chooser(env: Env, seed: int, actions: Actions) -> Chooser:
    """The function that picks actions.

    Args:
        env: The environment to be played.
        seed: Seed of random actions.
        actions: `random`, `first` or a function of observations and infos.

    Returns:
        The function.
    """
    return actions if callable(actions) else ActionSource(env, seed, actions)


def play(
    env: Env, seed: Any, steps: int | None = None, actions: Actions = "random"
) -> Iterator[Frame]:
    """Resets and steps an environment.

    Args:
        env: The environment.
        seed: Seed of the reset, and of the actions.
        steps: Most steps; None plays to the end.
        actions: How to act.

    Yields:
        What the reset and each step returned.
    """
    observations, infos = env.reset(seed=seed)
    frame = Frame(observations, {}, {}, {}, infos)
    yield frame
    yield from play_on(env, frame, steps, chooser(env, seed or 0, actions))


def play_on(env: Env, frame: Frame, steps: int | None, choose: Chooser) -> Iterator[Frame]:
    """Steps an environment from where it is.

    Args:
        env: The environment.
        frame: What it last returned.
        steps: Most steps; None plays to the end.
        choose: Picks the actions.

    Yields:
        What each step returned.
    """
    taken = 0
    while env.agents and (steps is None or taken < steps):
        frame = Frame(*env.step(choose(frame.observations, frame.infos)))
        taken += 1
        yield frame


def digest_of(value: Any) -> str:
    """Hash of nested dicts, sequences, arrays and plain values; the order of dict keys is no part.

    Args:
        value: What an environment returned.

    Returns:
        64 hex digits.

    Raises:
        ConformanceError: If something has no bytes of its own, such as an object without a value.
    """
    parts: list[bytes] = []
    _collect(parts, value)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _collect(parts: list[bytes], value: Any) -> None:
    """Appends bytes that no other value has: a head with type and size, then the content."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            fail("an array of objects in an observation or info cannot be compared or hashed")
        parts += (_head(value.dtype, value.shape), value.tobytes())
    elif isinstance(value, dict):
        parts.append(b"d%d" % len(value))
        for key in sorted(value, key=repr):
            parts.append(repr(key).encode())
            _collect(parts, value[key])
    elif value is None or isinstance(value, (bool, int, float, str, bytes)):
        parts.append(f"{type(value).__name__}{value!r};".encode())
    elif isinstance(value, np.generic):
        parts += (_head(value.dtype, ()), value.tobytes())
    elif isinstance(value, (list, tuple)):
        parts.append(b"l%d" % len(value))
        for item in value:
            _collect(parts, item)
    else:
        fail(f"a {type(value).__name__} in an observation or info cannot be compared or hashed")


@cache
def _head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return f"a{dtype.str}{shape}".encode()


def trajectory_hash(
    env: Env, seed: int | None = 0, steps: int | None = None, actions: Actions = "random"
) -> str:
    """Hash over all observations, rewards, flags and infos of a run.

    Args:
        env: The environment; it is reset.
        seed: Seed of the reset, and of the actions.
        steps: Most steps; None plays to the end.
        actions: How to act.

    Returns:
        64 hex digits.
    """
    digest = hashlib.sha256()
    for frame in play(env, seed, steps, actions):
        digest.update(digest_of(frame).encode())
    return digest.hexdigest()
