"""Perceiving: from an observation to the events that go on around a person.

The senses are PAVE's (BAS-08): whatever its context names, in the same reach, is an event here, and
there is no limit to how many are noticed at once.
"""

from __future__ import annotations

from typing import NamedTuple

from pave_policy.generative.places import Places
from pave_policy.generative.requests import Event, EventKind
from pave_policy.glance import Glance
from voville_env.core.codes import Behaviour, CueType, Instruction, Route, Rule
from voville_env.observation import BEHAVIOUR_TEXT, CUE_TEXT, Observation

ORDER_TEXT = {
    Instruction.HOLD: "An officer tells people to hold.",
    Instruction.REDIRECT: "An officer tells people to go another way.",
}
"""An officer's orders in words."""
CONDUCT_TEXT = BEHAVIOUR_TEXT | {Behaviour.WAITING: "is waiting"}
"""What people do in words; nothing here tells anybody of rules."""
_RED = 1 << Rule.RED_LIGHT
_CROSSING_RULES = (Rule.RED_LIGHT, Rule.CROSSWALK_ONLY)


class Percept(NamedTuple):
    """An event that goes on, and what noticing it leads to.

    Attributes:
        event: The event.
        ordinary: Whether it is a part of any day: rated 1 without a question, and no reason to ask
            for a reaction.
        lasts: Whether a reaction depends on it as long as it goes on, so that its end asks for a
            new one.
    """

    event: Event
    ordinary: bool = False
    lasts: bool = False


def perceive(observation: Observation, glance: Glance, places: Places) -> list[Percept]:
    """What goes on around a person.

    Args:
        observation: What reaches them.
        glance: The same at a glance.
        places: Places in words by tile.

    Returns:
        The events in a fixed order, each at most once.
    """
    percepts = [
        *_cues(observation, glance),
        *_crossing(observation, glance),
        *_officer(glance),
        *_peers(observation, glance),
        *_errand(glance, places),
    ]
    return list({percept.event.key: percept for percept in percepts}.values())


def _cues(observation: Observation, glance: Glance) -> list[Percept]:
    own, percepts = glance.own, []
    for kind, away, severity, dx, dy in observation["situational_cues"].tolist():
        if kind == CueType.FIRE:
            key = f"fire on day {own.day} at ({own.x + dx}, {own.y + dy})"
            tiles = "tile" if away == 1 else "tiles"
            text = f"There is a {CUE_TEXT[CueType.FIRE]} {away} {tiles} away."
            event = Event(EventKind.FIRE, text, key, severity)
            percepts.append(Percept(event, lasts=True))
        elif kind == CueType.CONVERSATION:
            key, text = f"conversation on day {own.day}", "People nearby are talking."
            percepts.append(Percept(Event(EventKind.CONVERSATION, text, key, severity)))
        elif kind == CueType.TIME_PRESSURE:
            key, text = f"late on day {own.day}", "Time is running short."
            event = Event(EventKind.ROUTINE, text, key, severity)
            percepts.append(Percept(event, ordinary=True, lasts=True))
    return percepts


def _crossing(observation: Observation, glance: Glance) -> list[Percept]:
    """More people crossing than waiting, at a red light on one's own way."""
    if not glance.scheduled_leg(Route.LAWFUL).rules & _RED:
        return []
    balance = sum(
        1 if row[4] == 0 else -1
        for row in observation["peer_behaviors"].tolist()
        if row[3] in _CROSSING_RULES and row[4] >= 0
    )
    if balance <= 0:
        return []
    turns_green = glance.own.tick + int(observation["signal"][1])
    key = f"others cross on red on day {glance.own.day} before tick {turns_green}"
    text = "Others cross against the red light."
    return [Percept(Event(EventKind.OTHERS_CROSS, text, key), lasts=True)]


def _officer(glance: Glance) -> list[Percept]:
    officer, day, percepts = glance.officer, glance.own.day, []
    if officer.present:
        event = Event(EventKind.OFFICER, "An officer is in sight.", f"officer on day {day}")
        percepts.append(Percept(event, lasts=True))
    if officer.instruction == Instruction.PASS:
        key = f"officer {officer.officer} waves people on, on day {day}"
        event = Event(EventKind.OFFICER, "An officer waves people on.", key)
        percepts.append(Percept(event, lasts=True))
    elif officer.instruction != Instruction.NONE:
        ends = glance.own.tick + officer.ticks_left
        key = f"order of officer {officer.officer} until tick {ends} of day {day}"
        event = Event(EventKind.ORDER, ORDER_TEXT[Instruction(officer.instruction)], key)
        percepts.append(Percept(event, lasts=True))
    return percepts


def _peers(observation: Observation, glance: Glance) -> list[Percept]:
    """What people do, once a day for each kind of conduct; to break a rule is not ordinary."""
    percepts = []
    for _, _, behaviour, _, followed, _ in observation["peer_behaviors"].tolist():
        if behaviour == Behaviour.NONE:
            break
        words = CONDUCT_TEXT[Behaviour(behaviour)]
        key = f"somebody {words} on day {glance.own.day}"
        event = Event(EventKind.PEER, f"Somebody nearby {words}.", key)
        percepts.append(Percept(event, ordinary=followed != 0))
    return percepts


def _errand(glance: Glance, places: Places) -> list[Percept]:
    """How far one's own errand is: on the way, there, or out of danger."""
    own = glance.own
    if own.escaping:
        if not own.at_goal:
            return []
        text = "Out of danger."
    else:
        place = places.get((own.goal_x, own.goal_y), "where the schedule says")
        way = "On the way home." if place == "home" else f"On the way to {place}."
        text = f"At {place}, as planned." if own.at_goal else way
    return [Percept(Event(EventKind.ROUTINE, text, f"{text} Day {own.day}."), ordinary=True)]
