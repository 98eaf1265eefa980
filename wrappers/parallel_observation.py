"""What wrappers share that give every agent of a town another observation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils.wrappers.base_parallel import BaseParallelWrapper

from voville_env.core.fields import FIELD
from voville_env.errors import InvalidValueError, invalid

Native = dict[str, Any]
"""An observation of the town: field name to array."""
Frame = tuple[
    dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]


def need_native(space: Any, what: str) -> None:
    """Requires the town's own observations.

    Args:
        space: An observation space.
        what: Whose it is, for the message.

    Raises:
        InvalidValueError: If it is another one.
    """
    if isinstance(space, spaces.Dict) and set(FIELD) <= set(space.spaces):
        return
    raise InvalidValueError(
        f"observation space of {what} is {str(space)[:80]}; allowed: a Dict with the town's fields "
        f"{', '.join(FIELD)} (wrap the town itself, and other wrappers around this one)"
    )


class ParallelObservation(BaseParallelWrapper[str, Any, Any]):
    """Translates observations one agent at a time; a subclass says how.

    Seeds, options, rewards, flags, attributes, rendering and closing are those of the wrapped
    environment.
    """

    def __init__(
        self, env: ParallelEnv[str, Any, Any], make_space: Callable[[], spaces.Space[Any]]
    ) -> None:
        """Makes the spaces.

        Args:
            env: A town, or an environment with its observations.
            make_space: Makes the space of one agent.

        Raises:
            InvalidValueError: If the observations are others.
        """
        if not isinstance(env, ParallelEnv):
            raise InvalidValueError(f"env is {env!r}; allowed: a PettingZoo ParallelEnv")
        for agent in env.possible_agents:
            need_native(env.observation_space(agent), f"agent {agent!r}")
        super().__init__(env)
        self._spaces = {agent: make_space() for agent in env.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent, the same object each time.

        Args:
            agent: Agent id.

        Returns:
            The space.

        Raises:
            InvalidValueError: If there is no such agent.
        """
        if agent not in self._spaces:
            raise invalid("agent", agent, self._spaces)
        return self._spaces[agent]

    def begin(self, agents: Collection[str]) -> None:
        """Forgets what was kept of the last run; called after each reset.

        Args:
            agents: Who takes part.
        """

    def translate(self, agent: str, native: Native) -> Any:
        """One observation; must not change what is kept.

        Args:
            agent: Agent id.
            native: The town's observation.

        Returns:
            A member of the agent's space.
        """
        raise NotImplementedError

    def note(self, agent: str, native: Native, action: int | None) -> None:
        """Keeps what later observations need; called before each `translate` of a new moment.

        Args:
            agent: Agent id.
            native: The town's new observation.
            action: What the agent just did; None after a reset or a stretch of waiting.
        """

    def act(self, actions: Any) -> Any:
        """The wrapped environment's actions for those that were given; nothing may change yet.

        Args:
            actions: One an agent.

        Returns:
            One an agent.
        """
        return actions

    def inform(self, agent: str, native: Native, info: dict[str, Any]) -> dict[str, Any]:
        """The info that goes with an observation.

        Args:
            agent: Agent id.
            native: The town's observation.
            info: The town's info.

        Returns:
            The info to hand out.
        """
        return info

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Starts a run, as the wrapped environment does.

        Args:
            seed: Its seed.
            options: Its options.

        Returns:
            Observations and infos of all agents.
        """
        native, infos = self.env.reset(seed=seed, options=options)
        self.begin(native.keys())
        return self._told(native, {}), self._informed(native, infos)

    def step(self, actions: dict[str, Any]) -> Frame:
        """Moves everybody at once.

        Args:
            actions: One action for every live agent.

        Returns:
            Observations, rewards, terminations, truncations and infos of those who acted.
        """
        native, rewards, terminations, truncations, infos = self.env.step(self.act(actions))
        told = self._told(native, actions)
        return told, rewards, terminations, truncations, self._informed(native, infos)

    def observe(self, agent: str) -> Any:
        """The current observation of one agent.

        Args:
            agent: Agent id.

        Returns:
            A member of its space.
        """
        inner: Any = self.env
        return self.translate(agent, inner.observe(agent))

    def advance_idle(self, until: int) -> tuple[dict[str, Any], int]:
        """Lets everybody wait, as `VovilleEnv.advance_idle` does.

        Args:
            until: Absolute tick.

        Returns:
            Observations, and how many steps were taken.
        """
        inner: Any = self.env
        native, steps = inner.advance_idle(until)
        return self._told(native, {}), steps

    def _told(self, native: dict[str, Native], actions: dict[str, Any]) -> dict[str, Any]:
        told = {}
        for agent, observation in native.items():
            action = actions.get(agent)
            self.note(agent, observation, None if action is None else int(action))
            told[agent] = self.translate(agent, observation)
        return told

    def _informed(
        self, native: dict[str, Native], infos: dict[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        return {agent: self.inform(agent, native[agent], info) for agent, info in infos.items()}
