"""What everybody knows of a town: its ways, the rules a step can break, and ways round people."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pave_policy.glance import BURNING, CENTRE, PERSON, Glance, Leg
from voville_env.actions import move
from voville_env.core.codes import (
    CARRIAGEWAY,
    DX,
    DY,
    TILES,
    Direction,
    Route,
    Rule,
    Terrain,
    rule_bits,
)
from voville_env.navigation import Navigator
from voville_env.policy import Briefing

Offset = tuple[int, int]


class Step(NamedTuple):
    """One step of a detour: where it starts, and its direction."""

    x: int
    y: int
    direction: Direction


_KEPT_TOWNS = 4
_FIRM_GROUND = (Terrain.PAVEMENT, Terrain.PARK, Terrain.FLOOR, Terrain.DOOR)


class Streets:
    """What everybody knows of a town: its ways, and which rules a step can break."""

    def __init__(self, navigator: Navigator) -> None:
        """Starts with no step looked up.

        Args:
            navigator: The ways of the town.
        """
        self.navigator = navigator
        self.refuge = _refuge(navigator)
        self._bits: dict[tuple[int, int, int], int] = {}
        self._moves: dict[tuple[int, int, int], bool] = {}
        self._steps: dict[tuple[int, int, str, Route], int] = {}

    def step_bits(self, x: int, y: int, direction: Direction) -> int:
        """The rules that a step can break, RED_LIGHT where it enters a signalised crosswalk.

        Args:
            x: Column.
            y: Row.
            direction: Where to.

        Returns:
            One bit a rule.
        """
        key = (x, y, direction)
        if key not in self._bits:
            self._bits[key] = rule_bits(self.navigator.step_rules(x, y, direction))
        return self._bits[key]

    def stays_on_ground(self, x: int, y: int, direction: Direction) -> bool:
        """Whether a step is possible that neither enters nor leaves a road or a private building.

        Args:
            x: Column.
            y: Row.
            direction: Where to.

        Returns:
            True for a step on the same kind of ground.
        """
        key = (x, y, direction)
        if key not in self._moves:
            possible = self.navigator.action(x, y, direction) == move(direction)
            self._moves[key] = possible and self._ground(x, y) is self._ground(
                x + DX[direction], y + DY[direction]
            )
        return self._moves[key]

    def is_open(self, x: int, y: int, direction: Direction, may_break: int) -> bool:
        """Whether one may go round a person by a step, whatever the signals show.

        Args:
            x: Column.
            y: Row.
            direction: Where to.
            may_break: Rules that one may break, one bit each.

        Returns:
            True for a step on the same ground that breaks no other rule.
        """
        return (
            self.stays_on_ground(x, y, direction)
            and self.step_bits(x, y, direction) & ~may_break == 0
        )

    def _ground(self, x: int, y: int) -> Terrain:
        terrain = self.navigator.terrain(x, y)
        if terrain in CARRIAGEWAY:
            return Terrain.ROAD
        return Terrain.PAVEMENT if terrain in _FIRM_GROUND else terrain

    def steps_to(self, x: int, y: int, place: str, route: Route) -> int:
        """Steps from a tile to a destination.

        Args:
            x: Column.
            y: Row.
            place: Destination.
            route: Which rules the way keeps.

        Returns:
            Steps; more than any way has where there is none.
        """
        key = (x, y, place, route)
        if key not in self._steps:
            steps = self.navigator.distance(x, y, place, route)
            self._steps[key] = TILES if steps is None else steps
        return self._steps[key]

    def destination(self, glance: Glance, leg: Leg) -> str | None:
        """Where a way leads.

        Args:
            glance: What the person sees.
            leg: The way.

        Returns:
            The name of its end, or None where it has none.
        """
        if leg.to_refuge:
            return self.refuge
        return self.navigator.place_at(glance.own.goal_x, glance.own.goal_y)

    def first_rules(self, x: int, y: int) -> tuple[Rule, ...]:
        """The rules of the first rule-breaking step on the shortest escape.

        Args:
            x: Column.
            y: Row.

        Returns:
            Rules; empty where the escape breaks none.
        """
        if self.refuge is None:
            return ()
        return self.navigator.first_rules(x, y, self.refuge, Route.SCOPED)

    def is_owner(self, agent: str, x: int, y: int) -> bool:
        """Whether a building belongs to somebody.

        Args:
            agent: Who.
            x: Column of a tile of the building.
            y: Row of that tile.

        Returns:
            True for an owner.
        """
        building = self.navigator.town.building_at(x, y)
        return building is not None and agent in building.owners


def _refuge(navigator: Navigator) -> str | None:
    safe = any(place.safe_zone for place in navigator.town.places)
    return navigator.safe_place() if safe else None


_STREETS: dict[tuple[str, tuple[str, ...], int], Streets] = {}


def streets_of(briefing: Briefing) -> Streets:
    """The streets of a briefing's town; the last few towns are kept, as tables take long to make.

    Args:
        briefing: What a policy was told.

    Returns:
        The streets.
    """
    agents = tuple(briefing.personas)
    key = (briefing.town.digest(), agents, briefing.steps_per_tick)
    if key not in _STREETS:
        while len(_STREETS) >= _KEPT_TOWNS:
            del _STREETS[next(iter(_STREETS))]
        _STREETS[key] = Streets(Navigator(briefing.town, agents, briefing.steps_per_tick))
    return _STREETS[key]


def find_detour(
    streets: Streets, glance: Glance, heading: Direction, leg: Leg, may_break: int
) -> list[Step]:
    """The shortest way round whoever stands ahead, within the window and on the same ground.

    Args:
        streets: The town's streets.
        glance: What the person sees.
        heading: Where they want to go; ways to the right of it come first.
        leg: Their way.
        may_break: Rules they may break, one bit each.

    Returns:
        Steps, the last one first, to a tile nearer to its end; empty where there is no such way.
    """
    own, place = glance.own, streets.destination(glance, leg)
    if place is None:
        return []
    start = streets.steps_to(own.x, own.y, place, leg.route)
    came: dict[Offset, tuple[Offset, Direction]] = {}
    queue = deque([(0, 0)])
    while queue:
        dx, dy = queue.popleft()
        left = streets.steps_to(own.x + dx, own.y + dy, place, leg.route)
        if left < start:
            return _trace(own.x, own.y, came, (dx, dy))
        for turn in (1, 3, 0, 2):
            direction = Direction((heading + turn) % 4)
            end = (dx + DX[direction], dy + DY[direction])
            if end == (0, 0) or end in came or max(abs(end[0]), abs(end[1])) > CENTRE:
                continue
            if glance.tile(*end) & (PERSON | BURNING):
                continue
            if streets.is_open(own.x + dx, own.y + dy, direction, may_break):
                came[end] = ((dx, dy), direction)
                queue.append(end)
    return []


def _trace(x: int, y: int, came: dict[Offset, tuple[Offset, Direction]], end: Offset) -> list[Step]:
    steps = []
    while end in came:
        end, direction = came[end]
        steps.append(Step(x + end[0], y + end[1], direction))
    return steps
