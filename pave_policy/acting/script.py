"""An action list step by step: two steps of a tick of four for every five seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pave_policy.acting.reading import Deed, Manner, read_deed
from pave_policy.glance import Own
from pave_policy.records import RuleSet, TimedAction

TICK_SECONDS = 10


@dataclass(frozen=True)
class Script:
    """An action list that is being carried out.

    Attributes:
        day: When it begins.
        tick: Of that day.
        steps_per_tick: Steps in a tick.
        deeds: One a step; None where the words were not understood.
    """

    day: int
    tick: int
    steps_per_tick: int
    deeds: tuple[Deed | None, ...]

    @property
    def is_unreadable(self) -> bool:
        """Whether some of its words were not understood."""
        return None in self.deeds

    @property
    def breaks(self) -> int:
        """Every rule that the words say is broken, one bit each."""
        bits = 0
        for deed in self.deeds:
            bits |= 0 if deed is None else deed.breaks
        return bits

    def is_over(self, own: Own) -> bool:
        """Whether its time has passed.

        Args:
            own: The person's own row, which holds the time.

        Returns:
            True after its last step, and on another day.
        """
        step = (own.tick - self.tick) * self.steps_per_tick + own.step
        return own.day != self.day or step >= len(self.deeds)

    def deed_at(self, own: Own) -> Deed | None:
        """What the words say for a step.

        Args:
            own: The person's own row, which holds the time.

        Returns:
            The deed; None where the list is over or was not understood.
        """
        step = (own.tick - self.tick) * self.steps_per_tick + own.step
        return self.deeds[step] if own.day == self.day and 0 <= step < len(self.deeds) else None


def script_of(actions: Sequence[TimedAction], when: tuple[int, int], steps_per_tick: int) -> Script:
    """Reads an action list.

    Args:
        actions: Its entries.
        when: Day and tick at which it begins.
        steps_per_tick: Steps in a tick of ten seconds.

    Returns:
        The script.
    """
    deeds: list[Deed | None] = []
    seconds = 0
    for action in actions:
        seconds += action.seconds
        until = max(len(deeds) + 1, seconds * steps_per_tick // TICK_SECONDS)
        deeds += [read_deed(action.text)] * (until - len(deeds))
    return Script(*when, steps_per_tick, tuple(deeds))


def deed_now(scripts: Mapping[RuleSet, Script], own: Own) -> Deed | None:
    """What the lists in force say for a step.

    The list about the traffic rules says how somebody goes. The other one adds what it breaks; that
    it keeps its own rules says nothing about the way.

    Args:
        scripts: The lists by the set of rules that they are about.
        own: The person's own row.

    Returns:
        The deed; None for the way of the verdict.
    """
    said = {rule_set: script.deed_at(own) for rule_set, script in scripts.items()}
    way, other = said.get(RuleSet.RELEVANT), said.get(RuleSet.UNRELATED)
    if other is not None and other.manner is Manner.BREAK:
        return Deed(Manner.BREAK, other.breaks | (0 if way is None else way.breaks))
    if way is None and other is not None and other.manner is not Manner.LAWFUL:
        return other
    return way
