"""The town in MiniGrid's observation format: `image`, `direction` and `mission`.

`ParallelMiniGridView` serves all agents (PettingZoo), `MiniGridView` one (Gymnasium). Everything is
made from the agent's own observation; what the cells mean is in `minigrid_image`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from voville_env.actions import N_ACTIONS, check_action
from voville_env.errors import InvalidValueError, LifecycleError, MissingExtraError, invalid
from voville_env.wrappers.minigrid_image import (
    ORDERS,
    PURPOSES,
    START_HEADING,
    WAYS,
    Turn,
    check_view_size,
    heading_after,
    image_of,
    mission_of,
    mission_text,
    town_action,
    turn_mask,
    turned,
)
from voville_env.wrappers.parallel_observation import Native, ParallelObservation, need_native

ActionSet = Literal["town", "minigrid"]
_ACTION_SETS = ("town", "minigrid")
_NEEDS_EXTRA = 'MiniGrid\'s view needs minigrid: pip install "voville[minigrid]"'


def minigrid_space(view_size: int = 7) -> spaces.Dict:
    """The observation space, as MiniGrid's own environments have it.

    Args:
        view_size: Cells across.

    Returns:
        A `Dict` of `image`, `direction` and `mission`.

    Raises:
        InvalidValueError: If the size is not allowed.
        MissingExtraError: If MiniGrid is not installed.
    """
    size = check_view_size(view_size)
    try:
        from minigrid.core.mission import MissionSpace
    except ImportError as error:
        raise MissingExtraError(_NEEDS_EXTRA) from error
    parts = [list(PURPOSES), list(WAYS), list(WAYS), list(ORDERS)]
    mission: spaces.Space[Any] = MissionSpace(mission_text, ordered_placeholders=parts)
    return spaces.Dict(
        {
            "image": spaces.Box(0, 255, (size, size, 3), np.uint8),
            "direction": spaces.Discrete(4),
            "mission": mission,
        }
    )


class _Eyes:
    """Where one agent looks, and what it then sees."""

    def __init__(self, view_size: int, actions: ActionSet) -> None:
        self.size = view_size
        self.actions = actions
        self.heading = START_HEADING
        self.at: tuple[int, int] | None = None

    def move(self, native: Native, action: int | None) -> None:
        """Turns to where the agent turned or moved."""
        if action is not None and self.actions == "minigrid":
            self.heading = turned(action, self.heading)
        now = (int(native["self"][0]), int(native["self"][1]))
        if self.at is not None:
            self.heading = heading_after(self.heading, self.at, now)
        self.at = now

    def see(self, native: Native) -> dict[str, Any]:
        """The observation in MiniGrid's format."""
        return {
            "image": image_of(native, self.heading, self.size),
            "direction": self.heading,
            "mission": mission_of(native),
        }

    def mask(self, native: Native) -> NDArray[np.int8]:
        """What is physically possible."""
        mask: NDArray[np.int8] = native["action_mask"]
        return mask.copy() if self.actions == "town" else turn_mask(mask, self.heading)

    def town_action(self, agent: str, action: Any) -> Any:
        """What the town is told; the town's own actions are left to it to check."""
        if self.actions == "town":
            return action
        return int(town_action(_checked(agent, action), self.heading))


def _checked(agent: str, action: Any) -> int:
    try:
        number = check_action(agent, action)
    except InvalidValueError:
        number = len(Turn)
    if number >= len(Turn):
        raise InvalidValueError(
            f"action of agent {agent!r} is {action!r} ({type(action).__name__}); allowed: integers "
            f"0 to {len(Turn) - 1} (voville_env.wrappers.minigrid_image.Turn)"
        )
    return number


def _action_space(actions: str) -> spaces.Discrete[Any]:
    if actions not in _ACTION_SETS:
        raise invalid("actions", actions, _ACTION_SETS)
    return spaces.Discrete(N_ACTIONS if actions == "town" else len(Turn))


class ParallelMiniGridView(ParallelObservation):
    """All agents of a town see it as MiniGrid's agents see theirs.

    The action mask is in `infos[agent]["action_mask"]`.
    """

    def __init__(
        self,
        env: ParallelEnv[str, Any, Any],
        *,
        view_size: int = 7,
        actions: ActionSet = "town",
    ) -> None:
        """Wraps a town.

        Args:
            env: A town, or an environment with its observations.
            view_size: Cells across: 3, 5, 7, 9 or 11. Further ahead than 5 nothing is seen.
            actions: `"town"` for the town's ten actions, `"minigrid"` for MiniGrid's seven.

        Raises:
            InvalidValueError: If an argument is not allowed.
            MissingExtraError: If MiniGrid is not installed.
        """
        _action_space(actions)
        check_view_size(view_size)
        super().__init__(env, lambda: minigrid_space(view_size))
        self._actions: ActionSet = actions
        self._size = view_size
        self._action_spaces = {agent: _action_space(actions) for agent in env.possible_agents}
        self._eyes: dict[str, _Eyes] = {}

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The action space of an agent, the same object each time.

        Args:
            agent: Agent id.

        Returns:
            `Discrete(10)` or `Discrete(7)`.

        Raises:
            InvalidValueError: If there is no such agent.
        """
        if agent not in self._action_spaces:
            raise invalid("agent", agent, self._action_spaces)
        return self._action_spaces[agent]

    def begin(self, agents: Collection[str]) -> None:
        """Everybody looks north.

        Args:
            agents: Who takes part.
        """
        self._eyes = {agent: _Eyes(self._size, self._actions) for agent in agents}

    def act(self, actions: Any) -> Any:
        """The town's actions for those that were given.

        Args:
            actions: One an agent.

        Returns:
            One an agent; what is not an agent's is left to the town to refuse.
        """
        if not isinstance(actions, dict):
            return actions
        return {
            agent: self._eyes[agent].town_action(agent, action) if agent in self._eyes else action
            for agent, action in actions.items()
        }

    def note(self, agent: str, native: Native, action: int | None) -> None:
        """Turns the agent to where it turned or moved.

        Args:
            agent: Agent id.
            native: The town's observation.
            action: What it did.
        """
        self._eyes[agent].move(native, action)

    def translate(self, agent: str, native: Native) -> dict[str, Any]:
        """What the agent sees.

        Args:
            agent: Agent id.
            native: The town's observation.

        Returns:
            `image`, `direction` and `mission`.
        """
        return self._eyes[agent].see(native)

    def inform(self, agent: str, native: Native, info: dict[str, Any]) -> dict[str, Any]:
        """Adds the mask.

        Args:
            agent: Agent id.
            native: The town's observation.
            info: The town's info.

        Returns:
            The info.
        """
        return {**info, "action_mask": self._eyes[agent].mask(native)}


class MiniGridView(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One person of a town as a MiniGrid agent; for a Gymnasium environment with its observation.

    MiniGrid's wrappers look for `agent_pos`, `agent_dir`, `gen_obs_grid` and `get_frame` on
    `unwrapped`, so that is the view itself; the environment below is `view.env.unwrapped`.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        view_size: int = 7,
        actions: ActionSet = "town",
    ) -> None:
        """Wraps an environment.

        Args:
            env: A Gymnasium environment with the town's observation and actions.
            view_size: Cells across: 3, 5, 7, 9 or 11. Further ahead than 5 nothing is seen.
            actions: `"town"` for the town's ten actions, `"minigrid"` for MiniGrid's seven.

        Raises:
            InvalidValueError: If an argument is not allowed.
            MissingExtraError: If MiniGrid is not installed.
        """
        need_native(env.observation_space, "env")
        super().__init__(env)
        self.action_space = _action_space(actions)
        self.observation_space = minigrid_space(view_size)
        self.agent_view_size = view_size
        self._actions: ActionSet = actions
        self._eyes = _Eyes(view_size, actions)
        self._native: Native | None = None

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        """The view itself, where MiniGrid's wrappers expect what they need."""
        return self

    @property
    def _np_random(self) -> Any:  # type: ignore[override] # Gymnasium's own is one, too
        """The generator of the environment below, which Gymnasium's checks ask `unwrapped` for."""
        return getattr(self.env.unwrapped, "_np_random")  # noqa: B009 - it has no public name

    @property
    def agent_pos(self) -> tuple[int, int]:
        """Column and row on the map of the town."""
        own = self._seen()["self"]
        return int(own[0]), int(own[1])

    @property
    def agent_dir(self) -> int:
        """MiniGrid's direction: 0 to 3 for east, south, west, north."""
        return self._eyes.heading

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts a run, as the wrapped environment does; the person looks north.

        Args:
            seed: Its seed.
            options: Its options.

        Returns:
            Observation and info.
        """
        native, info = self.env.reset(seed=seed, options=options)
        self._eyes = _Eyes(self.agent_view_size, self._actions)
        return self._told(native, info, None)

    def step(self, action: Any) -> tuple[dict[str, Any], Any, bool, bool, dict[str, Any]]:
        """Takes one step.

        Args:
            action: A member of the action space.

        Returns:
            Observation, reward, terminated, truncated and info.
        """
        told = self._eyes.town_action("env", action)
        native, reward, terminated, truncated, info = self.env.step(told)
        seen, informed = self._told(native, info, int(action))
        return seen, reward, terminated, truncated, informed

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are physically possible now.

        Returns:
            `(10,)` or `(7,)` bool.

        Raises:
            LifecycleError: Before the first reset.
        """
        return self._eyes.mask(self._seen()).astype(np.bool_)

    def gen_obs_grid(self, agent_view_size: int | None = None) -> tuple[Any, NDArray[np.bool_]]:
        """The view as MiniGrid's grid, for its wrappers.

        Args:
            agent_view_size: Cells across; those of the view unless given.

        Returns:
            A `minigrid.core.grid.Grid`, and which of its cells are seen.
        """
        from minigrid.core.grid import Grid

        size = check_view_size(agent_view_size or self.agent_view_size)
        grid, seen = Grid.decode(image_of(self._seen(), self._eyes.heading, size))
        return grid, seen

    def get_frame(
        self, highlight: bool = True, tile_size: int = 32, agent_pov: bool = True
    ) -> NDArray[np.uint8]:
        """A picture of what the person sees, for MiniGrid's `RGBImgPartialObsWrapper`.

        Args:
            highlight: Whether seen cells are lit.
            tile_size: Pixels a cell.
            agent_pov: True; the whole town is nobody's observation.

        Returns:
            `(height, width, 3)` uint8.

        Raises:
            InvalidValueError: If `agent_pov` is False.
        """
        if not agent_pov:
            raise InvalidValueError("agent_pov is False; allowed: True, since nobody sees it all")
        grid, seen = self.gen_obs_grid()
        size = self.agent_view_size
        here = (size // 2, size - 1)
        lit = seen if highlight else None
        picture: NDArray[np.uint8] = grid.render(tile_size, here, agent_dir=3, highlight_mask=lit)
        return picture

    def _told(
        self, native: Native, info: dict[str, Any], action: int | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self._native = {key: np.array(value) for key, value in native.items()}
        self._eyes.move(native, action)
        return self._eyes.see(native), {**info, "action_mask": self._eyes.mask(native)}

    def _seen(self) -> Native:
        if self._native is None:
            raise LifecycleError("the view is empty before the first reset()")
        return self._native
