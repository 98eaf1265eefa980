"""Assessment, the second PAVE module: five scalars, each asked for on its own (section 3.2)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

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
)
from pave_policy.outcome import Outcome
from pave_policy.records import Assessment
from voville_env.core.codes import Rule
from voville_env.observation import Context
from voville_env.policy import PersonaCard

Answers = tuple[
    Outcome[Score], Outcome[PeerScore], Outcome[Score], Outcome[Score], Outcome[LegitimacyScore]
]


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
    """

    context: Context
    persona: PersonaCard
    rules: tuple[Rule, ...]
    steps_per_tick: int = 4
    ahead: bool = False
    passage_granted: bool = False


def escape_of(case: Case) -> Escape | None:
    """What the planner knows of the ways to safety.

    Args:
        case: The case.

    Returns:
        The facts, or None where the context names no ways.
    """
    ways = case.context.ways
    if not ways:
        return None
    lawful, shortest = ways["safe_lawful"], ways["safe_scoped"]
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
    """
    context, persona, rules = case.context, case.persona, case.rules
    cues = context.situational_cues
    risk = backbone.assess_risk(RiskRequest(context, persona, rules, case.passage_granted))
    empirical = backbone.assess_empirical(EmpiricalRequest(context.peer_behaviors, rules))
    normative = backbone.assess_normative(NormativeRequest(context, persona, rules))
    benefit = backbone.assess_benefit(BenefitRequest(cues, persona, rules))
    legitimacy = backbone.assess_legitimacy(
        LegitimacyRequest(cues, persona, rules, escape_of(case))
    )
    if backbone.concurrent:
        return _combine(await asyncio.gather(risk, empirical, normative, benefit, legitimacy))
    return _combine((await risk, await empirical, await normative, await benefit, await legitimacy))


def _combine(answers: Answers) -> Outcome[Assessment]:
    risk, empirical, normative, benefit, legitimacy = (answer.value for answer in answers)
    if not (
        isinstance(risk, Score)
        and isinstance(empirical, PeerScore)
        and isinstance(normative, Score)
        and isinstance(benefit, Score)
        and isinstance(legitimacy, LegitimacyScore)
    ):
        return Outcome(failure=next(item.failure for item in answers if item.value is None))
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
