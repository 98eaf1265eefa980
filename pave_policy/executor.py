"""The planner that carries out a verdict, step by step (requirement C-74)."""

from __future__ import annotations

from pave_policy.glance import Glance
from pave_policy.mind import Mind
from voville_env.core.codes import Action, Instruction, Route


def steer(mind: Mind, glance: Glance) -> int:
    """One step of a PAVE agent.

    Args:
        mind: The agent.
        glance: What it sees.

    Returns:
        The action.
    """
    walker = mind.walker
    walker.note_ground(glance)
    if mind.takes and glance.mask[Action.TAKE] and not glance.own.carrying:
        return Action.TAKE
    obeys = glance.ordered() and not mind.defies
    if obeys and glance.officer.instruction == Instruction.HOLD:
        return Action.WAIT
    route = Route.LAWFUL if obeys else mind.route
    if route is Route.LAWFUL and walker.strayed:
        return _off_the_road(mind, glance)
    leg = glance.leg(route)
    if route is Route.UNRESTRICTED and walker.breaks(glance, leg) & ~mind.may_break:
        route = Route.SCOPED if glance.own.escaping else Route.LAWFUL
        leg = glance.leg(route)
    return walker.follow(glance, leg, 0 if route is Route.LAWFUL else mind.may_break)


def _off_the_road(mind: Mind, glance: Glance) -> int:
    """What to do on the carriageway once the verdict is to comply.

    Who is sent back goes back, even where the nearest pavement lies the other way, and so does who
    has nothing to flee from, if a lawful way exists. With a closed gate a fleeing person gets off
    the road. Where the gate is open and only an officer stands against going on, they stand still
    until the officer says more.
    """
    walker = mind.walker
    sent_back = glance.officer.instruction == Instruction.REDIRECT and not mind.defies
    lawful = glance.leg(Route.LAWFUL)
    if lawful.distance >= 0 and (sent_back or not glance.own.escaping):
        return walker.follow(glance, lawful)
    awaits = mind.gate_open and glance.officer.present
    return Action.WAIT if awaits else walker.leave_road(glance)
