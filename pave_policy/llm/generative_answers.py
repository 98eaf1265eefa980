"""What an answer to the generative agent's operations must be."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ValidationInfo, field_validator

from pave_policy.generative.requests import MAX_IMPORTANCE, Response
from pave_policy.llm.kinds import (
    MAX_COUNT,
    Answer,
    Count,
    Entry,
    Text,
    asked_of,
    between,
    entries,
    show,
)

MAX_PARTS = 12
"""Entries of a plan."""
QUESTIONS = 3
"""Focal points: so many, no more and no less."""
MAX_INSIGHTS = 5
"""Entries of a list of insights."""


def _check_reaction(value: object, info: ValidationInfo) -> Response:
    word = value.strip().lower() if isinstance(value, str) else ""
    allowed = [
        each for each in Response if each is not Response.FOLLOW or asked_of(info).can_follow
    ]
    if word not in allowed:
        raise ValueError(f"is {show(value)}; allowed: {', '.join(allowed)}")
    return Response(word)


class ImportanceAnswer(Answer):
    """RateImportance."""

    importance: Annotated[int, BeforeValidator(between(1, MAX_IMPORTANCE))]


class PartAnswer(Answer):
    """One entry of a plan, which lasts until a minute of the day."""

    activity: Entry
    until: Count


Parts = Annotated[tuple[PartAnswer, ...], entries(MAX_PARTS, least=1)]


def _check_parts(parts: tuple[PartAnswer, ...], info: ValidationInfo) -> tuple[PartAnswer, ...]:
    """Each entry has to end after the one before it, and the last one where the whole does."""
    asked = asked_of(info)
    before = asked.start
    for number, part in enumerate(parts, 1):
        if part.until <= before:
            raise ValueError(f"entry {number} ends at {part.until}; allowed: after {before}")
        before = part.until
    if asked.end is not None and before != asked.end:
        raise ValueError(f"ends at {before}; allowed: {asked.end}")
    return parts


class DayPlanAnswer(Answer):
    """PlanDay."""

    plan: Parts

    _check = field_validator("plan")(_check_parts)


class DecompositionAnswer(Answer):
    """DecomposePlan."""

    parts: Parts

    _check = field_validator("parts")(_check_parts)


class FocalAnswer(Answer):
    """AskFocalPoints."""

    questions: Annotated[tuple[Entry, ...], entries(QUESTIONS, least=QUESTIONS)]


class InsightAnswer(Answer):
    """One insight and the numbers of its statements, counted from 1."""

    insight: Entry
    evidence: Annotated[tuple[Count, ...], entries(MAX_PARTS, least=1)]

    @field_validator("evidence")
    @classmethod
    def _exists(cls, numbers: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        shown = asked_of(info).statements
        for number in numbers:
            if number < 1 or (shown is not None and number > shown):
                last = MAX_COUNT if shown is None else shown
                raise ValueError(f"names {number}; allowed: 1 to {last}")
            if numbers.count(number) > 1:
                raise ValueError(f"names {number} more than once")
        return numbers


class InsightsAnswer(Answer):
    """DrawInsights."""

    insights: Annotated[tuple[InsightAnswer, ...], entries(MAX_INSIGHTS, least=1)]


class ReactionAnswer(Answer):
    """React."""

    reaction: Annotated[Response, BeforeValidator(_check_reaction)]
    reason: Text
