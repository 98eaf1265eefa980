"""Verdict, the third PAVE module: comply or violate, behind the legitimacy gate (section 3.3).

The gate is kept here, after the model has spoken, so that no output of a model can get round it. A
model that says violate below the threshold is counted before it is overruled. Where orders bind, an
order in force is kept in the same way.
"""

from __future__ import annotations

from pave_policy.assessment import Case
from pave_policy.backbone import Backbone, Opinion, VerdictRequest
from pave_policy.outcome import Failure
from pave_policy.phrases import listed
from pave_policy.records import Assessment, GateMode, Verdict
from voville_env.core.codes import Decision, Instruction

ORDERS = (Instruction.HOLD, Instruction.REDIRECT)
"""Instructions that forbid going on as before."""


def gate_is_open(legitimacy: int, threshold: int, gate: GateMode) -> bool:
    """Whether a decision is free.

    Args:
        legitimacy: The assessed legitimacy.
        threshold: The person's threshold; being equal to it opens the gate.
        gate: Who keeps the gate.

    Returns:
        True where the gate is open or there is none.
    """
    return gate is GateMode.OFF or legitimacy >= threshold


def enforce(opinion: Opinion, case: Case, assessment: Assessment, gate: GateMode) -> Verdict:
    """Turns what the model said into the verdict that is carried out.

    Args:
        opinion: What the model said.
        case: What it was about.
        assessment: The five scalars.
        gate: Who keeps the gate.

    Returns:
        The verdict; comply wherever the gate is kept by code and closed, and under an order that
        binds.
    """
    threshold = case.persona.legitimacy_threshold
    is_open = gate_is_open(assessment.legitimacy, threshold, gate)
    leak = not is_open and opinion.decision is Decision.VIOLATE
    decision, justification = opinion.decision, opinion.justification
    if leak and gate is GateMode.CODE:
        decision = Decision.COMPLY
        justification = (
            f"The legitimacy of {assessment.legitimacy} was insufficient: it is below the "
            f"threshold of {threshold}. The rule is kept whatever else speaks for breaking it."
        )
    order = case.context.instruction
    if case.orders_bind and order in ORDERS and decision is Decision.VIOLATE:
        decision = Decision.COMPLY
        justification = (
            f"The officer's instruction to {order.name.lower()} is in force and binds, whatever "
            f"speaks for breaking {listed(case.rules)}."
        )
    return Verdict(
        rules=case.rules,
        decision=decision,
        justification=justification,
        confidence=opinion.confidence,
        legitimacy=assessment.legitimacy,
        threshold=threshold,
        gate_open=is_open,
        gate_leak=leak,
    )


def comply_without_model(case: Case, failure: Failure, legitimacy: int = 1) -> Verdict:
    """The verdict where the model gave none (requirement LLM-04).

    Args:
        case: What it is about.
        failure: Why there is none.
        legitimacy: The assessed legitimacy, if that much is known.

    Returns:
        Comply, marked as a fallback; the gate counts as closed.
    """
    return Verdict(
        rules=case.rules,
        decision=Decision.COMPLY,
        justification="The model gave no usable answer, so the rule is kept.",
        confidence=0,
        legitimacy=legitimacy,
        threshold=case.persona.legitimacy_threshold,
        gate_open=False,
        fallback=failure.value,
    )


async def give_verdict(
    backbone: Backbone,
    case: Case,
    assessment: Assessment,
    gate: GateMode,
    prior_justifications: tuple[str, ...] = (),
) -> Verdict:
    """Gives the verdict on one case.

    Args:
        backbone: Who decides.
        case: What is decided.
        assessment: The five scalars.
        gate: Who keeps the gate.
        prior_justifications: What was said in the same situation before.

    Returns:
        The verdict after the gate.

    Raises:
        CallFailedError: If the call itself failed.
    """
    outcome = await backbone.generate_verdict(
        VerdictRequest(
            assessment=assessment,
            persona=case.persona,
            rules=case.rules,
            gate=gate,
            threshold=case.persona.legitimacy_threshold,
            officer_in_sight=case.context.authority_present,
            instruction=case.context.instruction,
            direction=case.context.instruction_direction,
            passage_granted=case.passage_granted,
            prior_justifications=prior_justifications,
            p_emp_share=case.p_emp_share,
        )
    )
    outcome.conduct("GenerateVerdict")
    if outcome.value is None:
        failure = outcome.failure or Failure.MALFORMED
        return comply_without_model(case, failure, assessment.legitimacy)
    return enforce(outcome.value, case, assessment, gate)
