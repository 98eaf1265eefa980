"""Closed-form answers to the operations of the generative agent.

They follow the published behaviour of the baseline and are no evidence about language models. Each
is a pure function of its request, and of the episode's seed where it draws a number.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pave_policy.draws import draw
from pave_policy.generative.day_plan import schedule_plan, split
from pave_policy.generative.perceiving import ORDER_TEXT
from pave_policy.generative.requests import (
    DayPlanRequest,
    DecompositionRequest,
    EventKind,
    FocalRequest,
    ImportanceRequest,
    Insight,
    InsightRequest,
    PlanEntry,
    Reaction,
    ReactionRequest,
    Response,
)
from pave_policy.generative.settings import Calibration
from pave_policy.memory import embedding
from pave_policy.outcome import Outcome
from pave_policy.site import Site
from voville_env.core.codes import Instruction

_QUESTIONS = 3
_CITED = 3


class GenerativeSurrogate:
    """What the surrogate answers to the generative agent.

    Attributes:
        calibration: The numbers that it uses.
        site: Where it is asked.
    """

    calibration = Calibration()
    site = Site()

    def calibrated(self, **changes: object) -> Self:
        """The same with some numbers changed.

        Args:
            **changes: Fields of `Calibration` by name.

        Returns:
            A copy.

        Raises:
            InvalidValueError: If a value is not allowed.
        """
        other = copy(self)
        other.calibration = replace(self.calibration, **changes)  # type: ignore[arg-type]
        return other

    async def rate_importance(self, request: ImportanceRequest) -> Outcome[int]:
        """A number drawn once from the seed, the person and the event.

        Args:
            request: The person and the event.

        Returns:
            Its importance.
        """
        c, event = self.calibration, request.event
        ranges = {
            EventKind.FIRE: c.fire,
            EventKind.OTHERS_CROSS: c.others_cross,
            EventKind.ORDER: c.order,
        }
        key = (self.site.seed, request.persona.id, event.key)
        return Outcome(draw(key, *ranges.get(event.kind, c.ordinary)))

    async def plan_day(self, request: DayPlanRequest) -> Outcome[tuple[PlanEntry, ...]]:
        """The schedule.

        Args:
            request: The person and the day.

        Returns:
            One entry an errand.
        """
        return Outcome(schedule_plan(request.persona, request.day, request.minutes))

    async def decompose_plan(self, request: DecompositionRequest) -> Outcome[tuple[PlanEntry, ...]]:
        """Parts of one length.

        Args:
            request: What to decompose.

        Returns:
            The parts.
        """
        return Outcome(split(request.entry))

    async def ask_focal_points(self, request: FocalRequest) -> Outcome[tuple[str, ...]]:
        """What each of the latest different memories means.

        Args:
            request: The latest memories, oldest first.

        Returns:
            Up to three questions.
        """
        latest = list(dict.fromkeys(reversed(request.statements)))[:_QUESTIONS]
        return Outcome(tuple(f"What does it mean that I noted: {text}" for text in latest))

    async def draw_insights(self, request: InsightRequest) -> Outcome[tuple[Insight, ...]]:
        """The foremost memory stands out, together with those next to it.

        Args:
            request: The question, and what retrieval found for it.

        Returns:
            One insight; none without statements.
        """
        if not request.statements:
            return Outcome(())
        cited = tuple(range(min(_CITED, len(request.statements))))
        lesson = f"{request.persona.name} bears in mind: "
        text = lesson + request.statements[0].removeprefix(lesson)
        return Outcome((Insight(text, cited),))

    async def react(self, request: ReactionRequest) -> Outcome[Reaction]:
        """Acts on importance alone: an order, then a fire, then the crowd.

        Args:
            request: What is noticed and how important it is.

        Returns:
            What to do.
        """
        c, fire = self.calibration, _most(request, EventKind.FIRE)
        flees = fire >= c.flee_at
        doing = max(c.routine, fire if flees else 0)
        hold = _most(request, EventKind.ORDER, ORDER_TEXT[Instruction.HOLD])
        crossing = _most(request, EventKind.OTHERS_CROSS)
        crossing -= c.officer_discount if request.officer_in_sight else 0
        if hold > doing:
            reaction = Reaction(Response.WAIT, f"The order matters more, {hold} against {doing}.")
        elif flees:
            reaction = Reaction(Response.FLEE, f"The fire matters enough at {fire}.")
        elif request.late and request.can_follow and crossing >= c.imitate_at:
            reaction = Reaction(Response.FOLLOW, f"What others do matters enough at {crossing}.")
        else:
            reaction = Reaction(Response.CONTINUE, "Nothing matters enough to change the plan.")
        return Outcome(reaction)

    async def embed(self, texts: tuple[str, ...]) -> NDArray[np.float32]:
        """Hashed words.

        Args:
            texts: The texts.

        Returns:
            One vector of length 1 for each.
        """
        return embedding.embed(texts)


def _most(request: ReactionRequest, kind: EventKind, text: str | None = None) -> int:
    """The highest importance among events of a kind, of one wording if given; 0 without any."""
    return max(
        (
            importance
            for event, importance in zip(request.events, request.importance, strict=True)
            if event.kind is kind and text in (None, event.text)
        ),
        default=0,
    )
