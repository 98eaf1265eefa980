"""The typed records that travel between the four PAVE modules, one per arrow, all frozen."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, field_validator

from voville_env.core.codes import Decision, Route, Rule

MAX_OUTCOME_WORDS = 19
"""An observer's sentence stays under twenty words."""


class GateMode(StrEnum):
    """Who keeps the legitimacy gate: code after the model has spoken, the prompt alone, nobody."""

    CODE = "code"
    PROMPT = "prompt"
    OFF = "off"


class PeerShare(StrEnum):
    """Whose share of the people observed the empirical expectation is (requirement C-39)."""

    COMPLIANCE = "compliance"
    VIOLATION = "violation"


class RuleSet(StrEnum):
    """The two sets of rules that a tick's verdicts are about."""

    RELEVANT = "trigger_relevant"
    UNRELATED = "unrelated"


class Style(StrEnum):
    """How an act is carried out."""

    RUN = "run"
    WALK = "walk"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Assessment(_Record):
    """The five scalars of the assessment (paper section 3.2).

    Attributes:
        risk: Perceived risk of being detected and sanctioned.
        p_emp: Share of the observed people who keep the rule, or who break it where that is asked
            for; 50 without observations.
        n_observed: People whose conduct bears on the rules.
        n_complying: Those of them who keep the rule.
        p_norm: How strongly others are believed to think that one ought to keep the rule.
        benefit: Perceived utility of breaking the rule.
        legitimacy: Whether the situation warrants breaking it.
        reasons: A sentence for each scalar but p_emp, and for each criterion of legitimacy.
    """

    risk: int = Field(ge=1, le=100)
    p_emp: int = Field(ge=1, le=100)
    n_observed: int = Field(ge=0)
    n_complying: int = Field(ge=0)
    p_norm: int = Field(ge=1, le=100)
    benefit: int = Field(ge=1, le=100)
    legitimacy: int = Field(ge=1, le=100)
    reasons: Mapping[str, str] = Field(default_factory=dict)


class Verdict(_Record):
    """A verdict as it is carried out, with what the gate had to do with it (paper section 3.3).

    Attributes:
        rules: The rules that the verdict is about.
        decision: Comply or violate, after the gate.
        justification: Two or three sentences.
        confidence: 0 to 100.
        legitimacy: The legitimacy that met the gate.
        threshold: The person's legitimacy threshold.
        gate_open: Whether the decision was free: legitimacy at or above the threshold, or no gate.
        gate_leak: Whether the model said violate below the threshold.
        fallback: Why the verdict does not come from the model; None where it does.
    """

    rules: tuple[Rule, ...]
    decision: Decision
    justification: str
    confidence: int = Field(ge=0, le=100)
    legitimacy: int = Field(ge=1, le=100)
    threshold: int = Field(ge=1, le=100)
    gate_open: bool
    gate_leak: bool = False
    fallback: str | None = None

    @property
    def violates(self) -> bool:
        """Whether the decision is to break the rules."""
        return self.decision is Decision.VIOLATE

    @property
    def said(self) -> Decision:
        """What the model said, before the gate."""
        return Decision.VIOLATE if self.gate_leak else self.decision


class TimedAction(_Record):
    """One entry of an action list: words, and seconds in steps of five (paper figure C8)."""

    text: str
    seconds: int = Field(ge=5, multiple_of=5)


class Plan(_Record):
    """What a verdict means for the next tick.

    Attributes:
        route: Which rules the way keeps.
        may_break: The rules it may break: those that the verdict targets, nothing else.
        style: Run or walk.
        actions: The surface form; the planner carries out the route.
    """

    route: Route
    may_break: tuple[Rule, ...]
    style: Style
    actions: tuple[TimedAction, ...]


class OutcomeNote(_Record):
    """An act as an observer sees it (paper figure C9); it holds no inner reasons.

    Attributes:
        observed_behavior: One sentence of under twenty words.
        observed_outcome: A short clause on what followed.
        rule_followed: Whether the rule was kept.
    """

    observed_behavior: str
    observed_outcome: str
    rule_followed: bool

    @field_validator("observed_behavior")
    @classmethod
    def _is_short(cls, text: str) -> str:
        if len(text.split()) > MAX_OUTCOME_WORDS:
            raise ValueError(f"has {len(text.split())} words; allowed: up to {MAX_OUTCOME_WORDS}")
        return text
