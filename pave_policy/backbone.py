"""What a backbone is: the operations that the four modules ask of a model, closed-form or chat.

Each operation takes one request, which holds all that the paper lets it see and nothing more, and
returns an `Outcome`: a value, or the reason why there is none. Operations are coroutines, so that
those of a chat model can wait side by side; a backbone that never waits is driven by `run_now`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pave_policy.outcome import Outcome
from pave_policy.records import (
    Assessment,
    GateMode,
    OutcomeNote,
    PeerShare,
    TimedAction,
    Verdict,
)
from pave_policy.site import Site
from voville_env.core.codes import Decision, Direction, Instruction, Rule
from voville_env.errors import LifecycleError
from voville_env.observation import Context, Cue, Peer
from voville_env.policy import PersonaCard

T = TypeVar("T")


@dataclass(frozen=True)
class Score:
    """A scalar from 1 to 100 and its one-sentence reason."""

    value: int
    reason: str


@dataclass(frozen=True)
class PeerScore:
    """The share of the people observed that was asked for, 1 to 100, and the counts behind it."""

    value: int
    n_observed: int
    n_complying: int


@dataclass(frozen=True)
class LegitimacyScore:
    """Legitimacy from 1 to 100, and a sentence on each of its three criteria."""

    value: int
    necessity: str
    proportionality: str
    alternatives: str


@dataclass(frozen=True)
class Opinion:
    """What the model says before the gate is enforced."""

    decision: Decision
    justification: str
    confidence: int


@dataclass(frozen=True)
class Escape:
    """What the planner knows of the ways to a goal (requirement C-34).

    Attributes:
        lawful_steps: Steps of the lawful way; None where there is none.
        lawful_wait_steps: Steps spent at its next red signal.
        shortest_steps: Steps of the shortest way that may break the traffic rules.
        meets_rules: Whether a rule in question lies on that shortest way.
    """

    lawful_steps: int | None
    lawful_wait_steps: int
    shortest_steps: int | None
    meets_rules: bool

    @property
    def lawful_is_as_quick(self) -> bool:
        """Whether the lawful way, waits included, takes no longer than the shortest."""
        if self.lawful_steps is None or self.shortest_steps is None:
            return False
        return self.lawful_steps + self.lawful_wait_steps <= self.shortest_steps


@dataclass(frozen=True)
class ThresholdRequest:
    """ElicitThreshold: the person alone."""

    persona: PersonaCard


@dataclass(frozen=True)
class PerceptionRequest:
    """PerceiveContext: what reaches the person, in the environment's structure, and the person."""

    context: Context
    persona: PersonaCard


@dataclass(frozen=True)
class RiskRequest:
    """AssessRisk: the context, the person, and whether the officer near let them pass before."""

    context: Context
    persona: PersonaCard
    rules: tuple[Rule, ...]
    passage_granted: bool


@dataclass(frozen=True)
class EmpiricalRequest:
    """AssessEmpirical: the people in view and the rules, without any persona; whose share it is."""

    peers: tuple[Peer, ...]
    rules: tuple[Rule, ...]
    p_emp_share: PeerShare = PeerShare.COMPLIANCE


@dataclass(frozen=True)
class NormativeRequest:
    """AssessNormative: the context and the person with their personal rules."""

    context: Context
    persona: PersonaCard
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class BenefitRequest:
    """AssessBenefit: the cues and the person."""

    cues: tuple[Cue, ...]
    persona: PersonaCard
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class LegitimacyRequest:
    """AssessLegitimacy: the current cues and the ways there are; neither peers nor memory.

    Attributes:
        cues: The current cues.
        persona: The person.
        rules: The rules in question.
        escape: The ways to safety; None where the context names none.
        errand: The ways to the scheduled goal; None where the context names none.
    """

    cues: tuple[Cue, ...]
    persona: PersonaCard
    rules: tuple[Rule, ...]
    escape: Escape | None
    errand: Escape | None = None


@dataclass(frozen=True)
class VerdictRequest:
    """GenerateVerdict: the assessment, the gate, and any live instruction (requirement C-18)."""

    assessment: Assessment
    persona: PersonaCard
    rules: tuple[Rule, ...]
    gate: GateMode
    threshold: int
    officer_in_sight: bool
    instruction: Instruction
    direction: Direction | None = None
    passage_granted: bool = False
    prior_justifications: tuple[str, ...] = ()
    p_emp_share: PeerShare = PeerShare.COMPLIANCE


@dataclass(frozen=True)
class ActionRequest:
    """EmulateAction: the verdict, where it is carried out, the person, and whether it is scoped."""

    verdict: Verdict
    context: Context
    persona: PersonaCard
    scoped: bool = True


@dataclass(frozen=True)
class OutcomeRequest:
    """PropagateOutcome: the verdict, what was done about it, and the authority's reaction."""

    verdict: Verdict
    actions: tuple[TimedAction, ...]
    moved: bool
    sanctioned: bool


class Backbone(Protocol):
    """Answers the ten operations: one at the start of an episode, nine for a decision.

    Attributes:
        name: Shown in records.
        concurrent: Whether operations wait for something, so that it pays to run them side by side.
    """

    name: str
    concurrent: bool

    def settings(self) -> dict[str, Any]:
        """What identifies the backbone, JSON-ready."""
        ...

    def at(self, site: Site, asked: Counter[str]) -> Backbone:
        """The backbone for one place in a run; `asked` counts a person's requests in an episode."""
        ...

    def take_records(self) -> list[dict[str, Any]]:
        """Log records of what was asked here since the last call, in a fixed order."""
        ...

    async def elicit_threshold(self, request: ThresholdRequest) -> Outcome[Score]:
        """A person's legitimacy threshold."""
        ...

    async def perceive_context(self, request: PerceptionRequest) -> Outcome[Context]:
        """Turns what reaches a person into the context record."""
        ...

    async def assess_risk(self, request: RiskRequest) -> Outcome[Score]:
        """Perceived risk of a sanction."""
        ...

    async def assess_empirical(self, request: EmpiricalRequest) -> Outcome[PeerScore]:
        """Share of the observed people who keep the rule, or who break it."""
        ...

    async def assess_normative(self, request: NormativeRequest) -> Outcome[Score]:
        """Second-order belief that one ought to keep the rule."""
        ...

    async def assess_benefit(self, request: BenefitRequest) -> Outcome[Score]:
        """Utility of breaking the rule."""
        ...

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        """Necessity, proportionality and absence of alternatives."""
        ...

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        """Comply or violate, with a justification."""
        ...

    async def emulate_action(self, request: ActionRequest) -> Outcome[tuple[TimedAction, ...]]:
        """A verdict as a list of concrete actions."""
        ...

    async def propagate_outcome(self, request: OutcomeRequest) -> Outcome[OutcomeNote]:
        """An act as others see it."""
        ...


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits, without an event loop.

    Args:
        work: Such as a decision on a backbone whose `concurrent` is False.

    Returns:
        Its result.

    Raises:
        LifecycleError: If it waits for something.
    """
    try:
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    work.close()
    raise LifecycleError("this backbone waits for a model: await act_async() instead of act()")


async def run_all(works: Iterable[Coroutine[Any, Any, T]], *, side_by_side: bool) -> list[T]:
    """Runs coroutines and collects their results in order.

    Side by side, all of them come to their end before the first exception, in order, is raised: a
    call under way is paid for, and its answer is kept.

    Args:
        works: What to run.
        side_by_side: Together on the running event loop, or one after the other.

    Returns:
        One result each.
    """
    waiting = list(works)
    if side_by_side and len(waiting) > 1:
        results = await asyncio.gather(*waiting, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]
    try:
        return [await work for work in waiting]
    finally:
        for work in waiting:
            work.close()
