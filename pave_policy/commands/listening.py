"""What a model would be asked in an episode that is played without one."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pave_policy.backbone import (
    ActionRequest,
    Backbone,
    BenefitRequest,
    EmpiricalRequest,
    LegitimacyRequest,
    LegitimacyScore,
    NormativeRequest,
    Opinion,
    OutcomeRequest,
    PeerScore,
    PerceptionRequest,
    RiskRequest,
    Score,
    ThresholdRequest,
    VerdictRequest,
)
from pave_policy.outcome import Outcome
from pave_policy.records import OutcomeNote, TimedAction
from pave_policy.site import Site
from voville_env.benchmarks.episodes import Job, player_of
from voville_env.benchmarks.suite import Suite, make_policy
from voville_env.observation import Context

Wording = Callable[[object], tuple[str, str]]
"""The operation and the prompt of a request."""


@dataclass(frozen=True)
class Asked:
    """A prompt, and where in the episode it belongs.

    Attributes:
        site: Where.
        operation: Which operation.
        text: The prompt.
    """

    site: Site
    operation: str
    text: str

    @property
    def when(self) -> tuple[int, int]:
        """Day and tick."""
        return self.site.day, self.site.tick


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


class Listener:
    """A backbone that answers as another does and notes the prompt of every request."""

    def __init__(self, inner: Backbone, wording: Wording) -> None:
        """Takes its parts.

        Args:
            inner: Who answers.
            wording: How a request is worded for a model.
        """
        self.name = inner.name
        self.concurrent = inner.concurrent
        self._inner = inner
        self._wording = wording
        self._site = Site()
        self._heard: list[Asked] = []

    def take(self) -> list[Asked]:
        """What was asked since the last call, wherever it was.

        Returns:
            Prompts in the order in which they were asked.
        """
        taken = self._heard[:]
        self._heard.clear()
        return taken

    def settings(self) -> dict[str, Any]:
        """What identifies the backbone that answers.

        Returns:
            Its settings.
        """
        return self._inner.settings()

    def at(self, site: Site, asked: Counter[str]) -> Backbone:
        """The backbone for one place in a run.

        Args:
            site: Where.
            asked: How often the person asked each request in this episode.

        Returns:
            The same backbone; what it hears is taken here.
        """
        here = copy.copy(self)
        here._site, here._inner = site, self._inner.at(site, asked)
        return here

    def take_records(self) -> list[dict[str, Any]]:
        """Log records of the backbone that answers.

        Returns:
            Its records.
        """
        return self._inner.take_records()

    def _note(self, request: object) -> Backbone:
        operation, text = self._wording(request)
        self._heard.append(Asked(self._site, operation, text))
        return self._inner

    async def elicit_threshold(self, request: ThresholdRequest) -> Outcome[Score]:
        """Notes and passes on."""
        return await self._note(request).elicit_threshold(request)

    async def perceive_context(self, request: PerceptionRequest) -> Outcome[Context]:
        """Notes and passes on."""
        return await self._note(request).perceive_context(request)

    async def assess_risk(self, request: RiskRequest) -> Outcome[Score]:
        """Notes and passes on."""
        return await self._note(request).assess_risk(request)

    async def assess_empirical(self, request: EmpiricalRequest) -> Outcome[PeerScore]:
        """Notes and passes on."""
        return await self._note(request).assess_empirical(request)

    async def assess_normative(self, request: NormativeRequest) -> Outcome[Score]:
        """Notes and passes on."""
        return await self._note(request).assess_normative(request)

    async def assess_benefit(self, request: BenefitRequest) -> Outcome[Score]:
        """Notes and passes on."""
        return await self._note(request).assess_benefit(request)

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        """Notes and passes on."""
        return await self._note(request).assess_legitimacy(request)

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        """Notes and passes on."""
        return await self._note(request).generate_verdict(request)

    async def emulate_action(self, request: ActionRequest) -> Outcome[tuple[TimedAction, ...]]:
        """Notes and passes on."""
        return await self._note(request).emulate_action(request)

    async def propagate_outcome(self, request: OutcomeRequest) -> Outcome[OutcomeNote]:
        """Notes and passes on."""
        return await self._note(request).propagate_outcome(request)


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
