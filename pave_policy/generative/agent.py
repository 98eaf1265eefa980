"""One generative agent: what it remembers, plans and does about what goes on around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pave_policy.generative.day_plan import DayPlan
from pave_policy.generative.perceiving import Percept
from pave_policy.generative.requests import Event, EventKind, Reaction, Response
from pave_policy.glance import Glance
from pave_policy.memory.stream import EntryKind, MemoryStream
from pave_policy.walking import Walker
from voville_env.core.codes import CARRIAGEWAY
from voville_env.policy import PersonaCard

PLANNED = Reaction(Response.CONTINUE, "Nothing stands in the way of the plan.")


@dataclass(frozen=True)
class Moment:
    """What a tick brings.

    Attributes:
        new: Events that were never noticed before and have to be rated.
        at_hand: What a reaction has to be about; None where the last reaction still holds.
    """

    new: tuple[Event, ...]
    at_hand: tuple[Event, ...] | None


@dataclass
class Person:
    """One person's state.

    Attributes:
        persona: The person.
        walker: The person on foot.
        stream: What they remember.
        plan: The plan of the day; None before the first.
        reaction: The last reaction, which holds until the next.
        importance: Importance of every event noticed so far, by its key.
        since_reflection: Summed importance of what was noticed since the last reflection.
        asked: How often each request was made of a model in this episode.
        log: Decision records that nobody has collected yet.
    """

    persona: PersonaCard
    walker: Walker
    stream: MemoryStream = field(default_factory=MemoryStream)
    plan: DayPlan | None = None
    reaction: Reaction = PLANNED
    importance: dict[str, int] = field(default_factory=dict)
    since_reflection: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    log: list[dict[str, Any]] = field(default_factory=list)
    _lasting: dict[str, Event] = field(default_factory=dict)
    _unsettled: bool = False

    def take_in(self, percepts: Sequence[Percept], glance: Glance, now: int) -> Moment:
        """Compares what goes on with what went on before; ordinary events are kept at once.

        Args:
            percepts: What goes on.
            glance: Where and when.
            now: The current tick, counted over days.

        Returns:
            What has to be rated and reacted to.
        """
        fresh = [percept for percept in percepts if percept.event.key not in self.importance]
        for percept in fresh:
            if percept.ordinary:
                self.keep(percept.event, 1, now)
        new = tuple(percept.event for percept in fresh if not percept.ordinary)
        before = self._lasting
        self._lasting = {
            key: event for key, event in before.items() if self._goes_on(event, glance)
        } | {percept.event.key: percept.event for percept in percepts if percept.lasts}
        self._unsettled |= bool(new) or self._lasting.keys() != before.keys()
        if not self._unsettled or self._is_crossing(glance):
            return Moment(new, None)
        self._unsettled = False
        passing = tuple(event for event in new if event.key not in self._lasting)
        return Moment(new, (*self._lasting.values(), *passing))

    def keep(self, event: Event, importance: int, now: int) -> None:
        """Keeps an observation.

        Args:
            event: What was noticed.
            importance: 1 to 10.
            now: The current tick, counted over days.
        """
        self.importance[event.key] = importance
        self.since_reflection += importance
        self.stream.add(EntryKind.OBSERVATION, event.text, now, importance)

    def _goes_on(self, event: Event, glance: Glance) -> bool:
        """Whether an event counts although it is out of sight."""
        if event.kind is EventKind.FIRE:
            return bool(glance.own.escaping)
        return event.kind is EventKind.OTHERS_CROSS and self._is_crossing(glance)

    def _is_crossing(self, glance: Glance) -> bool:
        """Whether they are on the road after others; nobody stops there to think again."""
        return (
            self.reaction.response is Response.FOLLOW
            and not glance.own.escaping
            and glance.terrain() in CARRIAGEWAY
            and any(event.kind is EventKind.OTHERS_CROSS for event in self._lasting.values())
        )
