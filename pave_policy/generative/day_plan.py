"""A day's plan as data: broad strokes, and the parts of each as far as they are worked out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pave_policy.generative.places import place_in_words
from pave_policy.generative.requests import PlanEntry
from pave_policy.generative.settings import GenerativeSettings
from voville_env.policy import PersonaCard

TICK_SECONDS = 10
_PARTS = 3
_ERRAND = re.compile(r"day (\d+), tick (\d+): (.+)")


def minutes_of(ticks: int) -> int:
    """The whole minutes of a number of ticks.

    Args:
        ticks: Ticks of ten seconds.

    Returns:
        Minutes, rounded down.
    """
    return ticks * TICK_SECONDS // 60


def appointments(schedule: Sequence[str], day: int) -> list[tuple[int, str]]:
    """A day's lines of a schedule.

    Args:
        schedule: Lines such as "day 1, tick 12: clinic".
        day: From 1.

    Returns:
        The minute of the day and the place in words, for each.
    """
    found = (_ERRAND.fullmatch(line) for line in schedule)
    return [
        (minutes_of(int(tick)), place_in_words(place))
        for number, tick, place in (errand.groups() for errand in found if errand)
        if int(number) == day
    ]


def schedule_plan(persona: PersonaCard, day: int, minutes: int) -> tuple[PlanEntry, ...]:
    """A day as the schedule has it: what stands in for a plan, and what the closed form plans.

    Args:
        persona: The person.
        day: From 1.
        minutes: Length of the day in minutes.

    Returns:
        The stretch before the first errand, then one entry an errand; they fill the day.
    """
    first = persona.goal if day == 1 else "spend the day as usual"
    starts: dict[int, str] = {0: first}
    for minute, place in appointments(persona.schedule, day):
        starts[min(minute, minutes - 1)] = f"be at {place}"
    ends = [*sorted(starts)[1:], minutes]
    return tuple(
        PlanEntry(starts[start], start, end - start)
        for start, end in zip(sorted(starts), ends, strict=True)
    )


def split(entry: PlanEntry) -> tuple[PlanEntry, ...]:
    """An entry in parts of one length, as the closed form decomposes it: it parts the time alone.

    Args:
        entry: The entry.

    Returns:
        Three parts, or one a minute where it is shorter; they fill it, with its own activity.
    """
    count = min(_PARTS, entry.minutes)
    length = entry.minutes // count
    starts = [entry.start + k * length for k in range(count)]
    ends = [*starts[1:], entry.start + entry.minutes]
    return tuple(
        PlanEntry(entry.activity, start, end - start)
        for start, end in zip(starts, ends, strict=True)
    )


def fills(entries: Sequence[PlanEntry], start: int, minutes: int) -> bool:
    """Whether entries follow each other without gaps and fill a stretch of time.

    Args:
        entries: The entries.
        start: Where the stretch begins, in minutes of the day.
        minutes: Its length.

    Returns:
        True if they do.
    """
    at = start
    for entry in entries:
        if entry.start != at or entry.minutes < 1:
            return False
        at += entry.minutes
    return at == start + minutes


@dataclass
class DayPlan:
    """One day's plan, as far as it has been worked out.

    Attributes:
        day: Which day.
        minutes: Its length.
        entries: The day in broad strokes.
        parts: The parts of each entry that was decomposed, at whatever depth.
    """

    day: int
    minutes: int
    entries: tuple[PlanEntry, ...]
    parts: dict[PlanEntry, tuple[PlanEntry, ...]] = field(default_factory=dict)

    def path(self, tick: int) -> list[PlanEntry]:
        """What is under way at a tick.

        Args:
            tick: Of the day.

        Returns:
            The entry of the day, the part of it, and so on down to the shortest known step.
        """
        minute = min(minutes_of(tick), self.minutes - 1)
        found: list[PlanEntry] = []
        level = self.entries
        while level:
            entry = next(item for item in reversed(level) if item.start <= minute)
            found.append(entry)
            level = self.parts.get(entry, ())
            if len(level) == 1:  # said in other words, not decomposed: two such may name each other
                return [*found, *level] if level != (entry,) else found
        return found

    def undecomposed(self, tick: int, settings: GenerativeSettings) -> PlanEntry | None:
        """What has to be decomposed before the step under way is known.

        Args:
            tick: Of the day.
            settings: How long a step may be and how deep decomposition goes.

        Returns:
            The entry; None where the step is short enough already.
        """
        path = self.path(tick)
        entry = path[-1]
        known = entry in self.parts or entry.minutes <= settings.longest_step
        return None if known or len(path) > settings.deepest else entry


def told(entries: Sequence[PlanEntry]) -> str:
    """Entries in words.

    Args:
        entries: The entries.

    Returns:
        Such as "0:00 to 0:40 attend the event; 0:40 to 2:46 be at home".
    """
    return "; ".join(
        f"{_clock(entry.start)} to {_clock(entry.start + entry.minutes)} {entry.activity}"
        for entry in entries
    )


def _clock(minute: int) -> str:
    return f"{minute // 60}:{minute % 60:02}"
