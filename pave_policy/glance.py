"""What is read from the arrays at every step; the full context is made only for a verdict."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from voville_env.core.codes import CueType, Instruction, Route, Terrain
from voville_env.observation import Observation

TERRAIN = 0x0F
"""Bits of a tile code that hold the terrain."""
PERSON = 0x10
"""Bit of a tile code that marks a visible person."""
BURNING = 0x20
"""Bit of a tile code that marks a perceived fire."""
CENTRE = 5
"""Row and column of one's own tile in the window of tiles."""
_SAFE_ROWS = 3


class Own(NamedTuple):
    """The `self` row of an observation, column by column."""

    x: int
    y: int
    day: int
    tick: int
    step: int
    goal_x: int
    goal_y: int
    late: int
    at_goal: int
    blocked: int
    carrying: int
    escaping: int


class Leg(NamedTuple):
    """One row of `routes`: what is ahead on a way, which rules it keeps and where it leads."""

    distance: int
    next_action: int
    rules: int
    wait: int
    route: Route
    to_refuge: bool


class Officer(NamedTuple):
    """The `authority` row."""

    present: int
    distance: int
    dx: int
    dy: int
    instruction: int
    officer: int
    direction: int
    ticks_left: int


class Glance(NamedTuple):
    """One person's observation, as far as every step needs it."""

    own: Own
    legs: list[list[int]]
    officer: Officer
    cues: NDArray[Any]
    tiles: NDArray[Any]
    mask: NDArray[Any]

    def leg(self, route: Route) -> Leg:
        """A way to the goal that counts now: the safe zone while escaping, else the scheduled one.

        Args:
            route: Which rules the way keeps.

        Returns:
            What is ahead on it.
        """
        if self.own.escaping:
            return _leg(self.legs[_SAFE_ROWS + route], route, to_refuge=True)
        return self.scheduled_leg(route)

    def scheduled_leg(self, route: Route) -> Leg:
        """A way to the scheduled goal, whatever burns.

        Args:
            route: Which rules the way keeps.

        Returns:
            What is ahead on it.
        """
        return _leg(self.legs[route], route, to_refuge=False)

    def tile(self, dx: int, dy: int) -> int:
        """The code of a tile nearby.

        Args:
            dx: Columns from one's own tile, -5 to 5.
            dy: Rows from one's own tile, -5 to 5.

        Returns:
            Terrain and flags.
        """
        return int(self.tiles[CENTRE + dy, CENTRE + dx])

    def terrain(self) -> Terrain:
        """The terrain under one's feet.

        Returns:
            The terrain.
        """
        return Terrain(self.tile(0, 0) & TERRAIN)

    def is_safe(self) -> bool:
        """Whether the person has fled and is in the safe zone.

        Returns:
            True there.
        """
        return bool(self.own.escaping and self.own.at_goal)

    def perceives_fire(self) -> bool:
        """Whether a fire is among the cues.

        Returns:
            True within its reach.
        """
        return bool((self.cues[:, 0] == CueType.FIRE).any())

    def ordered(self) -> bool:
        """Whether an order to hold or to turn back is in force.

        Returns:
            True under such an order.
        """
        return self.officer.instruction in (Instruction.HOLD, Instruction.REDIRECT)


def _leg(row: list[int], route: Route, *, to_refuge: bool) -> Leg:
    distance, next_action, rules, wait = row
    return Leg(distance, next_action, rules, wait, route, to_refuge)


def look(observation: Observation) -> Glance:
    """Reads an observation.

    Args:
        observation: One agent's observation.

    Returns:
        The glance.
    """
    return Glance(
        Own(*observation["self"].tolist()),
        observation["routes"].tolist(),
        Officer(*observation["authority"].tolist()),
        observation["situational_cues"],
        observation["tiles"],
        observation["action_mask"],
    )


def bits_at_stake(observation: Observation) -> int:
    """The rules at stake in this tick.

    Args:
        observation: One agent's observation.

    Returns:
        One bit a rule.
    """
    bits = 0
    for rule, flag in enumerate(observation["rules"][1].tolist()):
        bits |= flag << rule
    return bits
