"""A moment of a town for the checks that need to look or reach inside it.

Only `VovilleEnv` and environments wrapped around it have such an inside; `unwrapped` leads there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from voville_env.core.codes import TILES, WIDTH
from voville_env.core.layout import SIGHT
from voville_env.parallel import VovilleEnv
from voville_env.testing.report import fail
from voville_env.testing.trajectory import Env


def town_of(env: Env) -> VovilleEnv:
    """The town inside an environment.

    Args:
        env: A `VovilleEnv`, or an environment wrapped around one.

    Returns:
        The town.

    Raises:
        ConformanceError: If there is none.
    """
    inner = env.unwrapped
    if not isinstance(inner, VovilleEnv):
        fail(f"{type(env).__name__} has no VovilleEnv inside: this check is only for towns")
    return inner


def distance(a: int, b: int) -> int:
    """Manhattan distance of two tiles.

    Args:
        a: Tile number, `y * 64 + x`.
        b: Tile number.

    Returns:
        Tiles.
    """
    return abs(a % WIDTH - b % WIDTH) + abs(a // WIDTH - b // WIDTH)


class Scene:
    """One moment, seen from one person, whose inside may be changed."""

    def __init__(self, env: Env, agent: str) -> None:
        """Opens a moment.

        Args:
            env: The environment; a copy, if the scene is to be changed.
            agent: Who looks.
        """
        inner = town_of(env)
        self.config: Any = inner.sim.config[0]
        self.state: Any = inner.sim.state[0]
        self.town: Any = inner.sim.town[0]
        self.observer = inner.possible_agents.index(agent)
        self.people: Any = self.state.agents[: int(self.state.n_characters)]

    @property
    def me(self) -> Any:
        """The record of the person who looks."""
        return self.people[self.observer]

    @property
    def officers(self) -> range:
        """Character numbers of the officers."""
        count = int(self.config.n_officers)
        return range(len(self.people) - count, len(self.people))

    def sees(self, tile: int) -> bool:
        """Whether the person has a line of sight to a tile.

        Args:
            tile: Tile number.

        Returns:
            True within 20 tiles and without a wall between.
        """
        here = int(self.me.tile)
        dx, dy = tile % WIDTH - here % WIDTH, tile // WIDTH - here // WIDTH
        if max(abs(dx), abs(dy)) > SIGHT:
            return False
        return bool(int(self.town.visible[here, dy + SIGHT]) >> (dx + SIGHT) & 1)

    def others(self, *, seen: bool) -> list[int]:
        """Other people and confederates on the map who are in sight, or out of sight.

        Args:
            seen: Which of them.

        Returns:
            Character numbers.
        """
        return [
            k
            for k in range(len(self.people) - int(self.config.n_officers))
            if k != self.observer
            and self.people[k].active
            and self.sees(int(self.people[k].tile)) is seen
        ]

    def apart(self, tile: int) -> bool:
        """Whether a tile is away from everybody in sight, so that they take no note of it.

        Args:
            tile: Tile number.

        Returns:
            True at two tiles or more from all of them.
        """
        seen = self.others(seen=True)
        return all(distance(tile, int(self.people[k].tile)) > 1 for k in seen)

    def nearest(self, *, seen: bool, above: int = 0, within: int = 2 * WIDTH) -> int | None:
        """The nearest free tile in sight or out of sight, apart from everybody in sight.

        Args:
            seen: Which of them.
            above: Tiles it must at least be away.
            within: Tiles it may be away.

        Returns:
            Its number, or None.
        """
        here = int(self.me.tile)
        tiles = np.arange(TILES)
        away = abs(tiles % WIDTH - here % WIDTH) + abs(tiles // WIDTH - here // WIDTH)
        free = self.town.verb.any(axis=1) & (away >= above) & (away <= within)
        free[self.people["tile"][self.people["active"] != 0]] = False
        free[self.state.item_tile[self.state.item_tile >= 0]] = False
        for tile in tiles[np.argsort(away, kind="stable")]:
            if free[tile] and self.sees(int(tile)) is seen and self.apart(int(tile)):
                return int(tile)
        return None
