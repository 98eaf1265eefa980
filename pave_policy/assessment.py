"""Assessment, the second PAVE module: five scalars, each asked for on its own (section 3.2)."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from pave_policy.backbone import (
    Backbone,
    BenefitRequest,
    EmpiricalRequest,
    Escape,
    LegitimacyRequest,
    LegitimacyScore,
    NormativeRequest,
    PeerScore,
    RiskRequest,
    Score,
    run_all,
)
from pave_policy.outcome import Outcome
from pave_policy.records import Assessment, PeerShare
from voville_env.core.codes import Rule
from voville_env.observation import Context
from voville_env.policy import PersonaCard

SCALARS = ("AssessRisk", "AssessEmpirical", "AssessNormative", "AssessBenefit", "AssessLegitimacy")


@dataclass(frozen=True)
class Case:
    """What an assessment and its verdict are about.

    Attributes:
        context: The perceived context.
        persona: The person.
        rules: The set of rules in question.
        steps_per_tick: Steps in a tick.
        ahead: Whether the rules are the first ones ahead rather than at stake in this tick.
        passage_granted: Whether the officer in sight has let the person pass.
        p_emp_share: Whose share of the people observed is asked for and weighed.
        route_aware: Whether the legitimacy assessment knows what the ways cost.
        orders_bind: Whether an order in force alone decides for complying.
    """

    context: Context
    persona: PersonaCard
    rules: tuple[Rule, ...]
    steps_per_tick: int = 4
    ahead: bool = False
    passage_granted: bool = False
    p_emp_share: PeerShare = PeerShare.COMPLIANCE
    route_aware: bool = True
    orders_bind: bool = False


def escape_of(case: Case, goal: str = "safe") -> Escape | None:
    """What the planner knows of the ways to a goal.

    Args:
        case: The case.
        goal: `safe` for the safe zone, `goal` for the scheduled one.

    Returns:
        The facts, or None where the context names no ways, or none are to be known.
    """
    if not case.route_aware:
        return None
    ways = case.context.ways
    lawful, shortest = ways.get(f"{goal}_lawful"), ways.get(f"{goal}_scoped")
    if lawful is None or shortest is None:
        return None
    return Escape(
        lawful_steps=lawful.distance,
        lawful_wait_steps=lawful.wait * case.steps_per_tick,
        shortest_steps=shortest.distance,
        meets_rules=case.ahead or any(rule in shortest.rules for rule in case.rules),
    )


async def assess(backbone: Backbone, case: Case) -> Outcome[Assessment]:
    """Makes the assessment of one case.

    Args:
        backbone: Who assesses.
        case: What is assessed.

    Returns:
        The five scalars, or the first failure among them.

    Raises:
        CallFailedError: If one of the calls itself failed.
    """
    context, persona, rules = case.context, case.persona, case.rules
    cues = context.situational_cues
    works: list[Coroutine[Any, Any, Outcome[Any]]] = [
        backbone.assess_risk(RiskRequest(context, persona, rules, case.passage_granted)),
        backbone.assess_empirical(
            EmpiricalRequest(context.peer_behaviors, rules, case.p_emp_share)
        ),
        backbone.assess_normative(NormativeRequest(context, persona, rules)),
        backbone.assess_benefit(BenefitRequest(cues, persona, rules)),
        backbone.assess_legitimacy(
            LegitimacyRequest(cues, persona, rules, escape_of(case), escape_of(case, "goal"))
        ),
    ]
    answers = await run_all(works, side_by_side=backbone.concurrent)
    for name, answer in zip(SCALARS, answers, strict=True):
        answer.conduct(name)
    return _combine(answers)


def _combine(answers: Sequence[Outcome[Any]]) -> Outcome[Assessment]:
    risk, empirical, normative, benefit, legitimacy = (answer.value for answer in answers)
    if not (
        isinstance(risk, Score)
        and isinstance(empirical, PeerScore)
        and isinstance(normative, Score)
        and isinstance(benefit, Score)
        and isinstance(legitimacy, LegitimacyScore)
    ):
        first = next(item for item in answers if item.value is None)
        return Outcome(failure=first.failure, detail=first.detail)
    reasons = {
        "risk": risk.reason,
        "p_norm": normative.reason,
        "benefit": benefit.reason,
        "necessity": legitimacy.necessity,
        "proportionality": legitimacy.proportionality,
        "alternatives": legitimacy.alternatives,
    }
    return Outcome(
        Assessment(
            risk=risk.value,
            p_emp=empirical.value,
            n_observed=empirical.n_observed,
            n_complying=empirical.n_complying,
            p_norm=normative.value,
            benefit=benefit.value,
            legitimacy=legitimacy.value,
            reasons=reasons,
        )
    )
