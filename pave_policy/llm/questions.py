"""Which operation each request belongs to, and the variables of its template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pave_policy.backbone import (
    ActionRequest,
    BenefitRequest,
    EmpiricalRequest,
    LegitimacyRequest,
    NormativeRequest,
    OutcomeRequest,
    PerceptionRequest,
    RiskRequest,
    ThresholdRequest,
    VerdictRequest,
)
from pave_policy.generative.requests import (
    DayPlanRequest,
    DecompositionRequest,
    FocalRequest,
    ImportanceRequest,
    InsightRequest,
    ReactionRequest,
)
from pave_policy.llm import generative_questions as generative
from pave_policy.llm import wording
from pave_policy.records import GateMode
from voville_env.core.codes import CueType
from voville_env.policy import PersonaCard

Values = dict[str, Any]


def _person(persona: PersonaCard) -> Values:
    return {"agent_name": persona.name, "agent_description": wording.description(persona)}


def _threshold(request: ThresholdRequest) -> Values:
    return _person(request.persona)


def _perception(request: PerceptionRequest) -> Values:
    return {**_person(request.persona), "observation": wording.observed(request.context)}


def _risk(request: RiskRequest) -> Values:
    context = request.context
    order = wording.instruction(
        context.instruction, context.instruction_direction, granted=request.passage_granted
    )
    return {
        **_person(request.persona),
        "context": wording.context_data(context),
        "relevant_rules": wording.rules_in_words(request.rules),
        "officer_instruction": order,
    }


def _empirical(request: EmpiricalRequest) -> Values:
    return {
        "peer_behaviors": [peer.text for peer in request.peers],
        "relevant_rules": wording.rules_in_words(request.rules),
        "p_emp_share": wording.share(request.p_emp_share),
    }


def _normative(request: NormativeRequest) -> Values:
    return {
        **_person(request.persona),
        "context": wording.context_data(request.context),
        "personal_rules": wording.personal_rules(request.persona),
        "relevant_rules": wording.rules_in_words(request.rules),
    }


def _benefit(request: BenefitRequest) -> Values:
    return {
        **_person(request.persona),
        "situational_cues": wording.cue_data(request.cues),
        "relevant_rules": wording.rules_in_words(request.rules),
    }


def _legitimacy(request: LegitimacyRequest) -> Values:
    flees = any(cue.type is CueType.FIRE for cue in request.cues)
    return {
        **_person(request.persona),
        "situational_cues": wording.cue_data(request.cues),
        "personal_rules": wording.personal_rules(request.persona),
        "relevant_rules": wording.rules_in_words(request.rules),
        "route_alternatives": wording.routes(request.escape, request.errand, flees=flees),
    }


def _verdict(request: VerdictRequest) -> Values:
    order = wording.instruction(
        request.instruction, request.direction, granted=request.passage_granted
    )
    return {
        **_person(request.persona),
        "assessment": wording.assessment_data(request.assessment),
        "relevant_rules": wording.rules_in_words(request.rules),
        "threshold": None if request.gate is GateMode.OFF else request.threshold,
        "officer_instruction": order,
        "prior_justifications": list(request.prior_justifications) or None,
        "p_emp_share": wording.share(request.p_emp_share),
    }


def _action(request: ActionRequest) -> Values:
    return {
        **_person(request.persona),
        "verdict": wording.verdict_data(request.verdict),
        "current_plan": wording.plan_in_words(request),
        "freedom": None if request.scoped else wording.FREEDOM,
        "relevant_rules": wording.rules_in_words(request.verdict.rules),
    }


def _outcome(request: OutcomeRequest) -> Values:
    return {
        "verdict": wording.verdict_data(request.verdict),
        "executed_actions": wording.actions_in_words(request.actions),
        "environment_feedback": wording.feedback(request),
    }


_QUESTIONS: Mapping[type, tuple[str, Callable[[Any], Values]]] = {
    ThresholdRequest: ("elicit_threshold", _threshold),
    PerceptionRequest: ("perceive_context", _perception),
    RiskRequest: ("assess_risk", _risk),
    EmpiricalRequest: ("assess_empirical", _empirical),
    NormativeRequest: ("assess_normative", _normative),
    BenefitRequest: ("assess_benefit", _benefit),
    LegitimacyRequest: ("assess_legitimacy", _legitimacy),
    VerdictRequest: ("generate_verdict", _verdict),
    ActionRequest: ("emulate_action", _action),
    OutcomeRequest: ("propagate_outcome", _outcome),
    ImportanceRequest: ("rate_importance", generative.importance),
    DayPlanRequest: ("plan_day", generative.day_plan),
    DecompositionRequest: ("decompose_plan", generative.decomposition),
    FocalRequest: ("ask_focal_points", generative.focal_points),
    InsightRequest: ("draw_insights", generative.insights),
    ReactionRequest: ("react", generative.reaction),
}


def question_of(request: object) -> tuple[str, Values]:
    """The operation and template variables of a request.

    Args:
        request: A request record of `pave_policy.backbone` or `pave_policy.generative.requests`.

    Returns:
        The operation's name, and a value for each variable.
    """
    operation, values = _QUESTIONS[type(request)]
    return operation, values(request)
