"""The town in words: every observation is the text of `voville_env.observation.narrate`.

`TextObservation` serves all agents (PettingZoo), `SingleTextObservation` one (Gymnasium).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from voville_env.core.codes import NONE, Action, Direction, Instruction
from voville_env.core.fields import FIELDS
from voville_env.errors import InvalidValueError, LifecycleError, invalid
from voville_env.observation import BEHAVIOUR_TEXT, CUE_TEXT, RULE_TEXT, build_space, narrate
from voville_env.wrappers.parallel_observation import Native, ParallelObservation, need_native

CHARSET = frozenset(map(chr, range(32, 127))) | {"\n"}
"""Printable ASCII and the line feed."""
Mask = Literal["info", "observation"]
_MASKS = ("info", "observation")
MAX_HISTORY = 100


def _longest(texts: Mapping[Any, str]) -> int:
    return int(max(texts, key=lambda code: len(texts[code])))


def longest_observation() -> Native:
    """An observation whose narration no other one of the space exceeds.

    Returns:
        Everything is there, all numbers have most digits and all names are the longest. What is
        told as a flag is off, since "False" is the longer word, and what may be missing next to an
        order or an officer is, since "None" is longer than a number of at most three digits.
    """
    observation: Native = {field.name: field.bounds()[1] for field in FIELDS}
    observation["self"][7:] = 0
    observation["routes"][:, 1] = Action.CROSS_N
    observation["authority"][1] = observation["authority"][5] = NONE
    observation["authority"][4] = _longest({order: order.name for order in Instruction})
    observation["authority"][6] = Direction.N
    observation["peer_behaviors"][:, 2] = _longest(BEHAVIOUR_TEXT)
    observation["peer_behaviors"][:, 3] = _longest(RULE_TEXT)
    observation["situational_cues"][:, 0] = _longest(CUE_TEXT)
    observation["tiles"][...] = 0
    return observation


@cache
def max_length(history: int = 0) -> int:
    """Most characters of an observation.

    Args:
        history: Earlier observations that are told again.

    Returns:
        Characters, reached by `longest_observation()`.
    """
    now = len(narrate(longest_observation()))
    if not history:
        return now
    widest = max(Action, key=lambda action: len(action.name))
    heads = sum(len(_head(age, int(widest))) + len("\n\n") for age in range(1, history + 1))
    return now * (history + 1) + heads + len(_NOW)


_NOW = "Now:\n"


def _head(age: int, action: int | None) -> str:
    then = "" if action is None else f", before you chose {Action(action).name}"
    return f"{age} {'step' if age == 1 else 'steps'} ago{then}:\n"


class _Story:
    """The last observations of one agent in words, the present one last."""

    def __init__(self, history: int) -> None:
        self._past: deque[tuple[str, int | None]] = deque(maxlen=history)
        self._now = ""

    def add(self, text: str, action: int | None) -> None:
        """Notes a new observation, and the action that led to it."""
        if self._now:
            self._past.append((self._now, action))
        self._now = text

    def told(self) -> str:
        """The whole text."""
        if not self._past.maxlen:
            return self._now
        ages = range(len(self._past), 0, -1)
        parts = [
            f"{_head(age, action)}{text}"
            for age, (text, action) in zip(ages, self._past, strict=True)
        ]
        return "\n\n".join([*parts, f"{_NOW}{self._now}"])


def _check(mask: Any, history: Any) -> None:
    if mask not in _MASKS:
        raise invalid("mask", mask, _MASKS)
    whole = isinstance(history, int) and not isinstance(history, bool)
    if not whole or not 0 <= history <= MAX_HISTORY:
        raise InvalidValueError(f"history is {history!r}; allowed: 0 to {MAX_HISTORY} observations")


def text_space(mask: Mask = "info", history: int = 0) -> spaces.Space[Any]:
    """The space of text observations.

    Args:
        mask: Where the action mask is.
        history: Earlier observations that are told again.

    Returns:
        `Text`, or a `Dict` of `text` and `action_mask`.

    Raises:
        InvalidValueError: If an argument is not allowed.
    """
    _check(mask, history)
    text = spaces.Text(max_length=max_length(history), charset=CHARSET)
    if mask == "info":
        return text
    return spaces.Dict({"text": text, "action_mask": build_space()["action_mask"]})


class TextObservation(ParallelObservation):
    """All agents of a town read their observations.

    The action mask is in `infos[agent]["action_mask"]`, or with `mask="observation"` beside the
    text in a `Dict`. With `history=k` the last `k` observations come first, each with the action
    that was chosen then.
    """

    def __init__(
        self, env: ParallelEnv[str, Any, Any], *, mask: Mask = "info", history: int = 0
    ) -> None:
        """Wraps a town.

        Args:
            env: A town, or an environment with its observations.
            mask: `"info"` or `"observation"`.
            history: Earlier observations that are told again, 0 to 100.

        Raises:
            InvalidValueError: If an argument is not allowed.
        """
        _check(mask, history)
        super().__init__(env, lambda: text_space(mask, history))
        self._mask = mask
        self._history = history
        self._stories: dict[str, _Story] = {}

    def begin(self, agents: Collection[str]) -> None:
        """Forgets the last run.

        Args:
            agents: Who takes part.
        """
        self._stories = {agent: _Story(self._history) for agent in agents}

    def note(self, agent: str, native: Native, action: int | None) -> None:
        """Adds a new observation to the agent's story.

        Args:
            agent: Agent id.
            native: The town's observation.
            action: What led to it.
        """
        self._stories[agent].add(narrate(native), action)

    def translate(self, agent: str, native: Native) -> Any:
        """The text, with the mask where it is asked for.

        Args:
            agent: Agent id.
            native: The town's observation.

        Returns:
            A member of the agent's space.
        """
        return _shown(self._stories[agent].told(), native, self._mask)

    def inform(self, agent: str, native: Native, info: dict[str, Any]) -> dict[str, Any]:
        """Adds the mask, unless it is part of the observation.

        Args:
            agent: Agent id.
            native: The town's observation.
            info: The town's info.

        Returns:
            The info.
        """
        return _masked(native, info, self._mask)


def _shown(text: str, native: Native, mask: Mask) -> Any:
    if mask == "info":
        return text
    return {"text": text, "action_mask": native["action_mask"].copy()}


def _masked(native: Native, info: dict[str, Any], mask: Mask) -> dict[str, Any]:
    if mask == "observation":
        return info
    return {**info, "action_mask": native["action_mask"].copy()}


class SingleTextObservation(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One person of a town, read as text; for a Gymnasium environment with the town's observation.

    `action_masks()` gives the mask of the present moment.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, mask: Mask = "info", history: int = 0
    ) -> None:
        """Wraps an environment.

        Args:
            env: A Gymnasium environment with the town's observation.
            mask: `"info"` or `"observation"`.
            history: Earlier observations that are told again, 0 to 100.

        Raises:
            InvalidValueError: If an argument is not allowed.
        """
        _check(mask, history)
        need_native(env.observation_space, "env")
        super().__init__(env)
        self.observation_space = text_space(mask, history)
        self._mask = mask
        self._history = history
        self._story = _Story(history)
        self._possible: NDArray[np.bool_] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts a run, as the wrapped environment does.

        Args:
            seed: Its seed.
            options: Its options.

        Returns:
            Observation and info.
        """
        native, info = self.env.reset(seed=seed, options=options)
        self._story = _Story(self._history)
        return self._told(native, None), _masked(native, info, self._mask)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes one step.

        Args:
            action: One of the wrapped environment.

        Returns:
            Observation, reward, terminated, truncated and info.
        """
        native, reward, terminated, truncated, info = self.env.step(action)
        told = self._told(native, int(action))
        return told, reward, terminated, truncated, _masked(native, info, self._mask)

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are physically possible now.

        Returns:
            `(10,)` bool.

        Raises:
            LifecycleError: Before the first reset.
        """
        if self._possible is None:
            raise LifecycleError("action_masks() before the first reset()")
        return self._possible.copy()

    def _told(self, native: Native, action: int | None) -> Any:
        self._story.add(narrate(native), action)
        self._possible = np.asarray(native["action_mask"], np.bool_).copy()
        return _shown(self._story.told(), native, self._mask)
