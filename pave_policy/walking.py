"""How people walk: along a planned way, round each other, and off the road."""

from __future__ import annotations

from dataclasses import dataclass, field

from pave_policy.draws import draw
from pave_policy.glance import BURNING, PERSON, TERRAIN, Glance, Leg
from pave_policy.streets import Step, Streets, find_detour, streets_of
from voville_env.actions import direction_of, move
from voville_env.core.codes import CARRIAGEWAY, DX, DY, Action, Direction, Route, Rule, Terrain
from voville_env.policy import Briefing

PATIENCE = 3
"""Steps that a walker is held up by a person before looking for a way round (ours)."""
RETREAT = {Direction.N: 48, Direction.W: 48, Direction.E: 96, Direction.S: 96}
"""Steps that a walker is held up before stepping back (ours).

That is longer than a red light lasts, and longer for one side of a narrow place than for the other,
so that of two people who meet there one gives way.
"""
_RED = 1 << Rule.RED_LIGHT
_PRIVATE = 1 << Rule.PRIVATE_BUILDING
_SPACE = 1 << Rule.PERSONAL_SPACE


@dataclass
class Walker:
    """One person on foot.

    Attributes:
        agent: Who walks.
        streets: The town's streets.
        number: Which of the people, from 0.
        held: Consecutive steps held up by a person.
        rest: Steps to stand still, so that a person can pass.
        detour: Steps of a way round a person, last one first.
        pushed: Whether the last step went on without regard for people ahead.
        strayed: Whether the person is on the carriageway by a way that is not the lawful one.
    """

    agent: str
    streets: Streets
    number: int = 0
    held: int = 0
    rest: int = 0
    pushed: bool = False
    strayed: bool = False
    detour: list[Step] = field(default_factory=list)

    def note_ground(self, glance: Glance) -> None:
        """Forgets having strayed once off the carriageway; to be called at every step.

        Args:
            glance: What the person sees.
        """
        if self.strayed and glance.terrain() not in CARRIAGEWAY:
            self.strayed = False

    def breaks(self, glance: Glance, leg: Leg) -> int:
        """The rules that the next step of a way would break now, a push apart.

        Args:
            glance: What the person sees.
            leg: The way; a lawful one breaks at most the red light.

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
        if leg.route is Route.LAWFUL:
            return bits & _RED
        if bits & _PRIVATE and self.streets.is_owner(
            self.agent, x + DX[direction], y + DY[direction]
        ):
            bits &= ~_PRIVATE
        return bits

    def follow(self, glance: Glance, leg: Leg, may_break: int = 0) -> int:
        """One step along a way, breaking no other rules than those given.

        Args:
            glance: What the person sees.
            leg: The way.
            may_break: One bit a rule.

        Returns:
            The action; WAIT at the end of the way, before a rule, and behind a person.
        """
        direction = direction_of(leg.next_action)
        if leg.distance <= 0 or direction is None:
            return Action.WAIT
        if (under_way := self._go_on_round(glance, may_break)) is not None:
            return under_way
        if self.breaks(glance, leg) & ~may_break:
            self.held = 0
            return Action.WAIT
        ahead = glance.tile(DX[direction], DY[direction])
        pushes = bool(may_break & _SPACE)
        came_on = self.pushed and not glance.own.blocked
        self.held = 0 if came_on or not ahead & PERSON else self.held + 1
        self.pushed = False
        if (around := self._start_round(glance, direction, leg, may_break)) is not None:
            return around
        if ahead & PERSON and (not pushes or glance.is_safe()):
            return Action.WAIT
        if leg.route is not Route.LAWFUL and ahead & TERRAIN in CARRIAGEWAY:
            self.strayed = True
        self.pushed = pushes
        return leg.next_action

    def _go_on_round(self, glance: Glance, may_break: int) -> int | None:
        """The next step of a detour or a rest that has begun."""
        if self.rest:
            self.rest -= 1
            return Action.WAIT
        if self.detour:
            x, y, direction = self.detour.pop()
            on_it = (x, y) == (glance.own.x, glance.own.y)
            if on_it and self._is_free(glance, direction, may_break):
                return move(direction)
            self.detour.clear()
        return None

    def _start_round(
        self, glance: Glance, heading: Direction, leg: Leg, may_break: int
    ) -> int | None:
        """The first step of a detour, for one who has been held up for long enough."""
        if self.held < PATIENCE or glance.is_safe():
            return None
        if self._is_ready(glance):
            self.detour = find_detour(self.streets, glance, heading, leg, may_break)
            if self.detour:
                self.held = 0
                return move(self.detour.pop().direction)
        return self._retreat(glance, heading, may_break) if self.held >= RETREAT[heading] else None

    def _is_ready(self, glance: Glance) -> bool:
        """A repeatable coin, so that people who meet do not all step aside at once."""
        own = glance.own
        return draw((self.number, own.tick, own.step), 0, 1) == 1

    def _retreat(self, glance: Glance, heading: Direction, may_break: int) -> int | None:
        """A step aside or back, and a rest there, so that the other one can come on."""
        for turn in (1, 3, 2):
            direction = Direction((heading + turn) % 4)
            if self._is_free(glance, direction, may_break):
                self.rest = 1 if turn == 2 else 3
                return move(direction)
        return None

    def _is_free(self, glance: Glance, direction: Direction, may_break: int) -> bool:
        code = glance.tile(DX[direction], DY[direction])
        return not code & (PERSON | BURNING) and self.streets.is_open(
            glance.own.x, glance.own.y, direction, may_break
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
            return self.follow(glance, lawful)
        action = self.streets.navigator.kerb_action(glance.own.x, glance.own.y)
        direction = direction_of(action)
        if direction is None:
            return Action.WAIT
        if not glance.tile(DX[direction], DY[direction]) & PERSON:
            self.held = 0
            return action
        self.held += 1
        if self.held >= PATIENCE:
            for turn in (1, 3):
                aside = Direction((direction + turn) % 4)
                if self._is_free(glance, aside, 0):
                    return move(aside)
        return Action.WAIT


def walkers_of(briefing: Briefing) -> dict[str, Walker]:
    """The people of a briefing, on foot.

    Args:
        briefing: What a policy was told.

    Returns:
        One walker an agent.
    """
    streets = streets_of(briefing)
    numbers = {agent: number for number, agent in enumerate(sorted(briefing.personas))}
    return {agent: Walker(agent, streets, numbers[agent]) for agent in briefing.personas}
