"""How one person's tick is written down: the decision records of the event log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pave_policy.acting.script import Script
from pave_policy.backbone import Score
from pave_policy.emulation import route_for
from pave_policy.glance import Glance
from pave_policy.mind import Mind, Question
from pave_policy.outcome import Failure, Outcome
from pave_policy.perception import Heard
from pave_policy.records import Assessment, PeerShare, Plan, Verdict
from voville_env.core.codes import rule_bits, rules_in
from voville_env.observation import Observation

Record = dict[str, Any]
UNREADABLE = "unreadable"
"""Stands for why the planner carries out some of an action list: its words were not understood."""


def record(type_: str, agent: str, when: tuple[int, int], **fields: object) -> Record:
    """A decision record.

    Args:
        type_: Its type.
        agent: Whose it is.
        when: Day and tick.
        **fields: The rest.

    Returns:
        A JSON-ready record.
    """
    return {"type": type_, "agent": agent, "day": when[0], "tick": when[1], **fields}


@dataclass(frozen=True)
class Task:
    """One person's tick, and how it is written down.

    Attributes:
        agent: Who.
        mind: Their state.
        glance: What they see.
        observation: The same in full.
        passed: Whether the officer in sight has let them pass.
        heard: What is told of people in view, by their offset.
    """

    agent: str
    mind: Mind
    glance: Glance
    observation: Observation
    passed: bool
    heard: Heard

    def threshold_record(self, outcome: Outcome[Score]) -> Record:
        """The record of an elicited threshold.

        Args:
            outcome: What was answered.

        Returns:
            A JSON-ready record; the published threshold where there is no usable answer.
        """
        return self._record(
            "threshold",
            value=self.mind.persona.legitimacy_threshold,
            reason=None if outcome.value is None else outcome.value.reason,
            fallback=None if outcome.failure is None else outcome.failure.value,
        )

    def assessment_record(
        self,
        question: Question,
        assessment: Assessment,
        failure: Failure | None,
        share: PeerShare = PeerShare.COMPLIANCE,
    ) -> Record:
        """The record of an assessment.

        Args:
            question: What it is about.
            assessment: The five scalars.
            failure: Why the structured context stands in for the perceived one, if it does.
            share: Whose share of the people observed was asked for.

        Returns:
            A JSON-ready record; `p_emp_violation` is the share in the direction of the paper's D.3.
        """
        shows_violation = share is PeerShare.VIOLATION
        return self._record(
            "assessment",
            **_asked(question),
            **assessment.model_dump(),
            p_emp_violation=assessment.p_emp if shows_violation else 100 - assessment.p_emp,
            fallback=None if failure is None else failure.value,
        )

    def verdict_record(
        self,
        question: Question,
        verdict: Verdict,
        plan: Plan | None = None,
        failure: Failure | None = None,
        script: Script | None = None,
    ) -> Record:
        """The record of a verdict and its plan.

        Args:
            question: What it is about.
            verdict: The verdict.
            plan: How it is carried out; None where the previous verdict and its plan are reused.
            failure: Why a plain action list stands in, if it does.
            script: The action list as it was read, where it is what is carried out.

        Returns:
            A JSON-ready record; with action lists carried out it says what they break beyond the
            verdict.
        """
        stands_in = None if failure is None else failure.value
        beyond: Record = {}
        if self.mind.acts_on_words:
            bits = 0 if script is None else script.breaks
            targeted = rule_bits(verdict.rules) if verdict.violates else 0
            beyond = {"plan_beyond": [rule.name for rule in rules_in(bits & ~targeted)]}
            if plan is not None and script is not None and script.is_unreadable:
                stands_in = stands_in or UNREADABLE
        actions = () if plan is None else plan.actions
        said = verdict.model_dump(mode="json", exclude={"rules"})
        return self._record(
            "verdict",
            **_asked(question),
            **said,
            reused=plan is None,
            route=route_for(verdict, scoped=self.mind.scoped).name.lower(),
            style=None if plan is None else plan.style.value,
            actions=[f"{action.text} ({action.seconds}s)." for action in actions],
            plan_fallback=stands_in,
            **beyond,
        )

    def memory_record(self, kind: str, text: str, failure: Failure | None) -> Record:
        """The record of a memory entry.

        Args:
            kind: `justification` or `outcome`.
            text: What is kept.
            failure: Why plain words stand in, if they do.

        Returns:
            A JSON-ready record.
        """
        fallback = None if failure is None else failure.value
        return self._record("memory", kind=kind, text=text, fallback=fallback)

    def _record(self, type_: str, **fields: object) -> Record:
        return record(type_, self.agent, (self.glance.own.day, self.glance.own.tick), **fields)


def _asked(question: Question) -> Record:
    return {
        "rule_set": question.rule_set.value,
        "rules": [rule.name for rule in question.rules],
        "ahead": question.ahead,
    }
