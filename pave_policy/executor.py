"""Carrying out a verdict, step by step (requirement C-74).

The planner follows the way of the verdict. Where a model's action list is what is carried out, its
words change the way for as long as they last: they are followed even where they break more than the
verdict targets, so that the environment sees it. A gate in code holds against words too: they break
only rules for which it was found open.
"""

from __future__ import annotations

from typing import NamedTuple

from pave_policy.acting.reading import Manner
from pave_policy.acting.script import deed_now
from pave_policy.glance import Glance
from pave_policy.mind import Mind
from voville_env.core.codes import (
    CARRIAGEWAY,
    TRIGGER_RELEVANT,
    Action,
    Instruction,
    Route,
    Rule,
)


class Course(NamedTuple):
    """How somebody goes on: by which way, what they may break, and whether they heed orders."""

    route: Route
    may_break: int
    takes: bool
    defies: bool


def steer(mind: Mind, glance: Glance) -> int:
    """One step of a PAVE agent.

    Args:
        mind: The agent.
        glance: What it sees.

    Returns:
        The action.
    """
    mind.walker.note_ground(glance)
    course = Course(mind.route, mind.may_break, mind.takes, mind.defies)
    deed = deed_now(mind.scripts, glance.own)
    if deed is None or deed.manner is Manner.GO:
        return _go_on(mind, glance, course)
    if deed.manner is Manner.STAND:
        return Action.WAIT
    if deed.manner is Manner.BACK:
        on_road = glance.terrain() in CARRIAGEWAY
        return mind.walker.leave_road(glance) if on_road else Action.WAIT
    if deed.manner is Manner.LAWFUL:
        return _go_on(mind, glance, Course(Route.LAWFUL, 0, takes=False, defies=False))
    breaks = deed.breaks & mind.opened if mind.gate_in_code else deed.breaks
    if mind.orders_bind and glance.ordered():
        breaks = 0
    return _go_on(mind, glance, _breaking(breaks, course) if breaks else course)


def _breaking(breaks: int, course: Course) -> Course:
    """The course that words ask for which name rules to break."""
    beyond_traffic = breaks & ~TRIGGER_RELEVANT
    return Course(
        max(course.route, Route.UNRESTRICTED if beyond_traffic else Route.SCOPED),
        course.may_break | breaks,
        takes=course.takes or bool(breaks >> Rule.PROPERTY & 1),
        defies=True,
    )


def _go_on(mind: Mind, glance: Glance, course: Course) -> int:
    walker = mind.walker
    if course.takes and glance.mask[Action.TAKE] and not glance.own.carrying:
        return Action.TAKE
    obeys = glance.ordered() and not course.defies
    if obeys and glance.officer.instruction == Instruction.HOLD:
        return Action.WAIT
    route = Route.LAWFUL if obeys else course.route
    if route is Route.LAWFUL and walker.strayed:
        return _off_the_road(mind, glance, defies=course.defies)
    leg = glance.leg(route)
    if route is Route.UNRESTRICTED and walker.breaks(glance, leg) & ~course.may_break:
        route = Route.SCOPED if glance.own.escaping else Route.LAWFUL
        leg = glance.leg(route)
    return walker.follow(glance, leg, 0 if route is Route.LAWFUL else course.may_break)


def _off_the_road(mind: Mind, glance: Glance, *, defies: bool) -> int:
    """What to do on the carriageway once the verdict is to comply.

    Who is sent back goes back, even where the nearest pavement lies the other way, and so does who
    has nothing to flee from, if a lawful way exists. With a closed gate a fleeing person gets off
    the road. Where the gate is open and only an officer stands against going on, they stand still
    until the officer says more.
    """
    walker = mind.walker
    sent_back = glance.officer.instruction == Instruction.REDIRECT and not defies
    lawful = glance.leg(Route.LAWFUL)
    if lawful.distance >= 0 and (sent_back or not glance.own.escaping):
        return walker.follow(glance, lawful)
    awaits = mind.gate_open and glance.officer.present
    return Action.WAIT if awaits else walker.leave_road(glance)
