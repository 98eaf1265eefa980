"""How people walk: along a planned way, round each other, and off the road."""

from __future__ import annotations

from dataclasses import dataclass

from voville_env.actions import direction_of
from voville_env.core.codes import (
    CARRIAGEWAY,
    DX,
    DY,
    Action,
    Direction,
    Route,
    Rule,
    Terrain,
    rule_bits,
)
from voville_env.navigation import Navigator
from voville_env.policy import Briefing

from pave_policy.glance import BURNING, PERSON, TERRAIN, Glance, Leg

PATIENCE = 3
"""Steps that a walker is held up by a person before stepping aside (ours)."""
_KEPT_TOWNS = 4
_FIRM_GROUND = (Terrain.PAVEMENT, Terrain.PARK, Terrain.FLOOR)
_RED = 1 << Rule.RED_LIGHT
_PRIVATE = 1 << Rule.PRIVATE_BUILDING
_SPACE = 1 << Rule.PERSONAL_SPACE


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
    """The streets of a briefing's town; the last few towns are kept, as their tables take long to make.

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


@dataclass
class Walker:
    """One person on foot.

    Attributes:
        agent: Who walks.
        streets: The town's streets.
        held: Consecutive steps held up by a person.
        strayed: Whether the person is on the carriageway by a way that is not the lawful one.
    """

    agent: str
    streets: Streets
    held: int = 0
    strayed: bool = False

    def note_ground(self, glance: Glance) -> None:
        """Forgets having strayed once off the carriageway; to be called at every step.

        Args:
            glance: What the person sees.
        """
        if self.strayed and glance.terrain() not in CARRIAGEWAY:
            self.strayed = False

    def breaks(self, glance: Glance, leg: Leg, route: Route) -> int:
        """The rules that the next step of a way would break now, a push apart.

        Args:
            glance: What the person sees.
            leg: The way.
            route: Which rules it keeps; a lawful way breaks at most the red light.

        Returns:
            One bit a rule.
        """
        direction = direction_of(leg.next_action)
        if direction is None:
            return 0
        x, y = glance.own.x, glance.own.y
        bits = self.streets.step_bits(x, y, direction)
        if not leg.rules & _RED:  # the first signal of the way shows walk, or there is none near
            bits &= ~_RED
        if route is Route.LAWFUL:
            return bits & _RED
        if bits & _PRIVATE and self.streets.is_owner(
            self.agent, x + DX[direction], y + DY[direction]
        ):
            bits &= ~_PRIVATE
        return bits

    def follow(self, glance: Glance, leg: Leg, route: Route, may_break: int = 0) -> int:
        """One step along a way, breaking no other rules than those given.

        Args:
            glance: What the person sees.
            leg: The way.
            route: Which rules it keeps.
            may_break: One bit a rule.

        Returns:
            The action; WAIT at the end of the way, before a rule, and behind a person.
        """
        direction = direction_of(leg.next_action)
        if leg.distance <= 0 or direction is None:
            return Action.WAIT
        if self.breaks(glance, leg, route) & ~may_break:
            self.held = 0
            return Action.WAIT
        ahead = glance.tile(DX[direction], DY[direction])
        if ahead & PERSON and not may_break & _SPACE:
            return self._give_way(glance, direction)
        self.held = 0
        if route is not Route.LAWFUL and ahead & TERRAIN in CARRIAGEWAY:
            self.strayed = True
        return leg.next_action

    def _give_way(self, glance: Glance, heading: Direction) -> int:
        """Waits behind a person; after a while steps aside, to the right first."""
        self.held += 1
        if self.held < PATIENCE or (glance.own.escaping and glance.own.at_goal):
            return Action.WAIT
        if glance.terrain() in _FIRM_GROUND:
            for turn in (1, 3):
                aside = Direction((heading + turn) % 4)
                if self._is_free(glance, aside):
                    self.held = 0
                    return Action.MOVE_N + aside
        return Action.WAIT

    def _is_free(self, glance: Glance, direction: Direction) -> bool:
        code = glance.tile(DX[direction], DY[direction])
        return (
            bool(glance.mask[Action.MOVE_N + direction])
            and code & TERRAIN in _FIRM_GROUND
            and not code & (PERSON | BURNING)
            and self.streets.step_bits(glance.own.x, glance.own.y, direction) == 0
        )

    def leave_road(self, glance: Glance) -> int:
        """One step off the carriageway: along a crosswalk as the lawful way goes, else to the kerb.

        Args:
            glance: What the person sees.

        Returns:
            The action.
        """
        lawful = glance.leg(Route.LAWFUL)
        if glance.terrain() is Terrain.CROSSWALK and lawful.distance > 0:
            return self.follow(glance, lawful, Route.LAWFUL)
        action = self.streets.navigator.kerb_action(glance.own.x, glance.own.y)
        direction = direction_of(action)
        if direction is None:
            return Action.WAIT
        if glance.tile(DX[direction], DY[direction]) & PERSON:
            return Action.WAIT
        return action
