"""What an answer must be: a typed model for each operation, with the keys that its prompt asks for.

A value is taken as it stands or not at all: nothing is clamped, rounded or completed.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, field_validator, model_validator

from pave_policy.records import MAX_OUTCOME_WORDS
from voville_env.core.codes import Decision

MAX_TEXT = 2000
"""Characters of a text."""
MAX_ENTRY = 300
"""Characters of a text that is an entry of a list."""
MAX_PEERS = 20
"""Entries of a list of texts."""
MAX_CUES = 8
"""Entries of a list of cues."""
MAX_COUNT = 10_000
"""The greatest distance or number of people; beyond what any town holds."""

_PLAIN_INTEGER = re.compile("0|[1-9][0-9]{0,8}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def can_be_encoded(text: str) -> bool:
    """Whether a text can be written as UTF-8.

    Args:
        text: Any string.

    Returns:
        False where half of a surrogate pair stands alone in it.
    """
    return _SURROGATE.search(text) is None


def fold(key: str) -> str:
    """The spelling under which keys are compared.

    Args:
        key: A key of a reply.

    Returns:
        The key in lower case, with underscores for spaces and hyphens.
    """
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def _show(value: object) -> str:
    """A value in a message: short, on one line and free of what cannot be encoded."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return reprlib.repr(value)


def _as_whole(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if _PLAIN_INTEGER.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _between(low: int, high: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        number = _as_whole(value)
        if number is None or not low <= number <= high:
            raise ValueError(f"is {_show(value)}; allowed: a whole number from {low} to {high}")
        return number

    return check


def _text(max_chars: int) -> BeforeValidator:
    def check(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"is {_show(value)}; allowed: a text")
        if not value.strip():
            raise ValueError("is an empty text")
        if len(value) > max_chars:
            raise ValueError(f"has {len(value)} characters; allowed: up to {max_chars}")
        if not can_be_encoded(value):
            raise ValueError("holds a character that cannot be written as UTF-8")
        return value

    return BeforeValidator(check)


def _entries(limit: int) -> BeforeValidator:
    def check(value: object) -> object:
        if not isinstance(value, list | tuple):
            raise ValueError(f"is {_show(value)}; allowed: a list")
        if len(value) > limit:
            raise ValueError(f"has {len(value)} entries; allowed: up to {limit}")
        return value

    return BeforeValidator(check)


def _check_flag(value: object) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if word is True or word == "true":
        return True
    if word is False or word == "false":
        return False
    raise ValueError(f"is {_show(value)}; allowed: true or false")


def _check_decision(value: object) -> Decision:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in tuple(Decision):
        raise ValueError(f"is {_show(value)}; allowed: comply or violate")
    return Decision(word)


_check_count = _between(0, MAX_COUNT)


def _check_distance(value: object) -> int | None:
    """The distance to an authority: "inf" and null say that there is none."""
    if value is None or value == "inf":
        return None
    try:
        return _check_count(value)
    except ValueError as error:
        raise ValueError(f'{error}, or "inf"') from None


Score = Annotated[int, BeforeValidator(_between(1, 100))]
Percentage = Annotated[int, BeforeValidator(_between(0, 100))]
Count = Annotated[int, BeforeValidator(_check_count)]
Distance = Annotated[int | None, BeforeValidator(_check_distance)]
Flag = Annotated[bool, BeforeValidator(_check_flag)]
Text = Annotated[str, _text(MAX_TEXT)]
Entry = Annotated[str, _text(MAX_ENTRY)]


class Answer(BaseModel):
    """An object that a model answers with: its keys are matched by `fold`, others are ignored."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def shares_a_key(cls, data: Mapping[str, Any]) -> bool:
        """Whether an object has one of the keys of this answer.

        Args:
            data: A JSON object.

        Returns:
            True if it has one at least.
        """
        return any(fold(key) in cls.model_fields for key in data)

    @model_validator(mode="before")
    @classmethod
    def _match_keys(cls, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            raise ValueError(f"is {_show(data)}; allowed: an object")
        found: dict[str, Any] = {}
        for key, value in data.items():
            name = fold(key)
            if name in found:
                raise ValueError(f"has {name} in more than one spelling")
            if name in cls.model_fields:
                found[name] = value
        return found


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
    peer_behaviors: Annotated[tuple[Entry, ...], _entries(MAX_PEERS)]
    situational_cues: Annotated[tuple[CueAnswer, ...], _entries(MAX_CUES)]
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
    }
)
"""The answer of every operation but `emulate_action`, which answers with a numbered list."""
