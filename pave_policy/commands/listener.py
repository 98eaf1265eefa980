"""A backbone that notes what a model would be asked, for both kinds of agent."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

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
from pave_policy.generative.requests import (
    DayPlanRequest,
    DecompositionRequest,
    FocalRequest,
    GenerativeBackbone,
    ImportanceRequest,
    Insight,
    InsightRequest,
    PlanEntry,
    Reaction,
    ReactionRequest,
)
from pave_policy.outcome import Outcome
from pave_policy.records import OutcomeNote, TimedAction
from pave_policy.site import Site
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


class BothAgents(Backbone, GenerativeBackbone, Protocol):
    """Answers PAVE and the generative agent."""

    def at(self, site: Site, asked: Counter[str]) -> Self:
        """The backbone for one place in a run."""
        ...


class Listener:
    """A backbone that answers as another does and notes the prompt of every request."""

    def __init__(self, inner: BothAgents, wording: Wording) -> None:
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

    def at(self, site: Site, asked: Counter[str]) -> Self:
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

    def _note(self, request: object) -> BothAgents:
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

    async def rate_importance(self, request: ImportanceRequest) -> Outcome[int]:
        """Notes and passes on."""
        return await self._note(request).rate_importance(request)

    async def plan_day(self, request: DayPlanRequest) -> Outcome[tuple[PlanEntry, ...]]:
        """Notes and passes on."""
        return await self._note(request).plan_day(request)

    async def decompose_plan(self, request: DecompositionRequest) -> Outcome[tuple[PlanEntry, ...]]:
        """Notes and passes on."""
        return await self._note(request).decompose_plan(request)

    async def ask_focal_points(self, request: FocalRequest) -> Outcome[tuple[str, ...]]:
        """Notes and passes on."""
        return await self._note(request).ask_focal_points(request)

    async def draw_insights(self, request: InsightRequest) -> Outcome[tuple[Insight, ...]]:
        """Notes and passes on."""
        return await self._note(request).draw_insights(request)

    async def react(self, request: ReactionRequest) -> Outcome[Reaction]:
        """Notes and passes on."""
        return await self._note(request).react(request)

    async def embed(self, texts: tuple[str, ...]) -> NDArray[np.float32]:
        """Passes on; there is no prompt to it."""
        return await self._inner.embed(texts)
