"""What a model would be asked in an episode that is played without one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pave_policy.commands.listener import Asked, Listener, Wording
from voville_env.benchmarks.episodes import Job, player_of
from voville_env.benchmarks.suite import Suite, make_policy

__all__ = ["Asked", "Place", "find", "listen"]


@dataclass(frozen=True)
class Place:
    """Which request is wanted; None leaves it open.

    Attributes:
        operation: Which operation.
        agent: Of whom it is asked.
        day: Day, from 1.
        tick: Tick of the day; of day 1 where no day is named.
        rule_set: Which of the two sets of rules it is about.
    """

    operation: str
    agent: str | None = None
    day: int | None = None
    tick: int | None = None
    rule_set: str | None = None

    @property
    def span(self) -> tuple[tuple[int, float], tuple[float, float]]:
        """The first and the last day and tick that will do."""
        last_tick = math.inf if self.tick is None else self.tick
        open_end = self.day is None and self.tick is None
        last_day = math.inf if open_end else self.day or 1
        return (self.day or 1, self.tick or 0), (last_day, last_tick)

    def takes(self, asked: Asked) -> bool:
        """Whether a prompt is one of those wanted, but for the time.

        Args:
            asked: The prompt.

        Returns:
            True where operation, person and rules agree.
        """
        return (
            asked.operation == self.operation
            and self.agent in (None, asked.site.agent)
            and self.rule_set in (None, asked.site.rule_set)
        )

    def __str__(self) -> str:
        about = "" if self.rule_set is None else f" about the {self.rule_set} rules"
        when = "" if self.day is None and self.tick is None else f" on day {self.day or 1}"
        when += "" if self.tick is None else f" at tick {self.tick}"
        return f"{self.operation} is not asked of {self.agent or 'anybody'}{about}{when}"


def listen(suite: Suite, wording: Wording) -> Iterator[Asked]:
    """Plays the first episode of a suite with the surrogate and tells what would be asked.

    It is played no further than its prompts are taken.

    Args:
        suite: The plan.
        wording: How a request is worded for a model.

    Yields:
        Prompts in the order in which they are asked, those of a tick person by person.
    """
    from pave_policy.surrogate import Surrogate

    listener = Listener(Surrogate(), wording)
    key = suite.episodes()[0]
    policy = make_policy(suite, key.policy, listener)
    for _ in player_of(Job(key, "", suite), policy).records():
        yield from listener.take()


def find(place: Place, stream: Iterable[Asked]) -> tuple[list[Asked], list[Asked]]:
    """Looks for a request among those of an episode, and no further than it must.

    Args:
        place: Which one is wanted.
        stream: What is asked, in order.

    Returns:
        The prompts of the first place that will do, one for each set of rules in question. Without
        any, the last one before and the first one after, as far as there are.
    """
    first, last = place.span
    found: list[Asked] = []
    before: list[Asked] = []
    for asked in stream:
        if not place.takes(asked):
            continue
        if asked.when < first:
            before = [asked]
        elif asked.when > last:
            return found, [*before, asked]
        elif found and (asked.when, asked.site.agent) != (found[0].when, found[0].site.agent):
            return found, before
        else:
            found.append(asked)
    return found, before
