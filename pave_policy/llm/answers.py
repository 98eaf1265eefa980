"""What an answer must be: a typed model for each operation, with the keys that its prompt asks for.

A value is taken as it stands or not at all: nothing is clamped, rounded or completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import BeforeValidator, field_validator, model_validator

from pave_policy.llm.generative_answers import (
    DayPlanAnswer,
    DecompositionAnswer,
    FocalAnswer,
    ImportanceAnswer,
    InsightsAnswer,
    ReactionAnswer,
)
from pave_policy.llm.kinds import (
    Answer,
    Count,
    Entry,
    Flag,
    Percentage,
    Score,
    Text,
    check_count,
    entries,
    show,
)
from pave_policy.records import MAX_OUTCOME_WORDS
from voville_env.core.codes import Decision

__all__ = ["ANSWERS", "Answer", "ContextAnswer", "CueAnswer"]

MAX_PEERS = 20
"""Entries of a list of texts."""
MAX_CUES = 8
"""Entries of a list of cues."""


def _check_decision(value: object) -> Decision:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in tuple(Decision):
        raise ValueError(f"is {show(value)}; allowed: comply or violate")
    return Decision(word)


def _check_distance(value: object) -> int | None:
    """The distance to an authority: "inf" and null say that there is none."""
    if value is None or value == "inf":
        return None
    try:
        return check_count(value)
    except ValueError as error:
        raise ValueError(f'{error}, or "inf"') from None


Distance = Annotated[int | None, BeforeValidator(_check_distance)]


class ThresholdAnswer(Answer):
    """ElicitThreshold."""

    threshold: Score
    reason: Text


class CueAnswer(Answer):
    """One situational cue of PerceiveContext."""

    type: Entry
    distance_tiles: Count
    severity: Score


class ContextAnswer(Answer):
    """PerceiveContext; the distance is None where no authority is present."""

    authority_present: Flag
    authority_distance_tiles: Distance
    peer_behaviors: Annotated[tuple[Entry, ...], entries(MAX_PEERS)]
    situational_cues: Annotated[tuple[CueAnswer, ...], entries(MAX_CUES)]
    scene_summary: Text

    @model_validator(mode="after")
    def _authority_agrees(self) -> ContextAnswer:
        if self.authority_present != (self.authority_distance_tiles is not None):
            raise ValueError(
                "authority_present and authority_distance_tiles contradict each other; allowed: "
                'true with a distance, false with "inf"'
            )
        return self


class RiskAnswer(Answer):
    """AssessRisk."""

    risk: Score
    reason: Text


class EmpiricalAnswer(Answer):
    """AssessEmpirical."""

    p_emp: Score
    n_observed: Count
    n_complying: Count

    @model_validator(mode="after")
    def _part_of_the_whole(self) -> EmpiricalAnswer:
        if self.n_complying > self.n_observed:
            raise ValueError(
                f"n_complying is {self.n_complying}; allowed: up to n_observed, {self.n_observed}"
            )
        return self


class NormativeAnswer(Answer):
    """AssessNormative."""

    p_norm: Score
    reason: Text


class BenefitAnswer(Answer):
    """AssessBenefit."""

    benefit: Score
    reason: Text


class LegitimacyAnswer(Answer):
    """AssessLegitimacy."""

    legitimacy: Score
    necessity: Text
    proportionality: Text
    alternatives: Text


class VerdictAnswer(Answer):
    """GenerateVerdict."""

    decision: Annotated[Decision, BeforeValidator(_check_decision)]
    justification: Text
    confidence: Percentage


class OutcomeAnswer(Answer):
    """PropagateOutcome."""

    observed_behavior: Text
    observed_outcome: Text
    rule_followed: Flag

    @field_validator("observed_behavior")
    @classmethod
    def _is_short(cls, text: str) -> str:
        words = len(text.split())
        if words > MAX_OUTCOME_WORDS:
            raise ValueError(f"has {words} words; allowed: up to {MAX_OUTCOME_WORDS}")
        return text


ANSWERS: Mapping[str, type[Answer]] = MappingProxyType(
    {
        "elicit_threshold": ThresholdAnswer,
        "perceive_context": ContextAnswer,
        "assess_risk": RiskAnswer,
        "assess_empirical": EmpiricalAnswer,
        "assess_normative": NormativeAnswer,
        "assess_benefit": BenefitAnswer,
        "assess_legitimacy": LegitimacyAnswer,
        "generate_verdict": VerdictAnswer,
        "propagate_outcome": OutcomeAnswer,
        "rate_importance": ImportanceAnswer,
        "plan_day": DayPlanAnswer,
        "decompose_plan": DecompositionAnswer,
        "ask_focal_points": FocalAnswer,
        "draw_insights": InsightsAnswer,
        "react": ReactionAnswer,
    }
)
"""The answer of every operation but `emulate_action`, which answers with a numbered list."""
