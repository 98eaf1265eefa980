"""No output of a backbone gets round the legitimacy gate, and every attempt is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pave_policy.assessment import Case, assess
from pave_policy.backbone import (
    LegitimacyRequest,
    LegitimacyScore,
    Opinion,
    RiskRequest,
    Score,
    VerdictRequest,
    run_now,
)
from pave_policy.outcome import Failure, Outcome
from pave_policy.records import Assessment, GateMode, Verdict
from pave_policy.settings import PaveSettings
from pave_policy.surrogate import Surrogate
from pave_policy.verdict import comply_without_model, gate_is_open, give_verdict
from voville_env.core.codes import Decision, Rule
from voville_env.errors import CallFailedError, InvalidValueError
from voville_env.observation import Context
from voville_env.policy import PersonaCard

SCALE = st.integers(1, 100)


class AlwaysViolate(Surrogate):
    """A model that always wants to break the rule."""

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        return Outcome(Opinion(Decision.VIOLATE, "I break the red light.", 100))


class Mute(Surrogate):
    """A model whose verdicts, or whose risk scalars, are unusable."""

    def __init__(self, *, risk: bool, failure: Failure | None = None) -> None:
        super().__init__()
        self.risk = risk
        self.failure = failure

    async def assess_risk(self, request: RiskRequest) -> Outcome[Score]:
        if self.risk:
            return Outcome(failure=self.failure or Failure.REFUSED)
        return await super().assess_risk(request)

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        return Outcome(LegitimacyScore(100, "", "", ""))

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        return Outcome(failure=self.failure or Failure.MALFORMED)


def case_with(threshold: int) -> Case:
    card = PersonaCard("CC", "", "", "", "", "attendee", threshold, ())
    scene = Context(authority_present=False, authority_distance_tiles=None)
    return Case(scene, card, (Rule.RED_LIGHT,))


def assessment_with(legitimacy: int) -> Assessment:
    return Assessment(
        risk=1,
        p_emp=1,
        n_observed=0,
        n_complying=0,
        p_norm=1,
        benefit=100,
        legitimacy=legitimacy,
    )


def verdict_of(
    legitimacy: int, threshold: int, gate: GateMode, backbone: Surrogate | None = None
) -> Verdict:
    return run_now(
        give_verdict(
            backbone or AlwaysViolate(), case_with(threshold), assessment_with(legitimacy), gate
        )
    )


def keeps_the_gate(legitimacy: int, threshold: int, gate: GateMode) -> bool:
    """The property under test: a violation needs a legitimacy at or above the threshold."""
    verdict = verdict_of(legitimacy, threshold, gate)
    return verdict.violates == (legitimacy >= threshold)


@given(legitimacy=SCALE, threshold=SCALE)
def test_a_model_that_always_violates_cannot_open_the_gate(legitimacy: int, threshold: int) -> None:
    assert keeps_the_gate(legitimacy, threshold, GateMode.CODE)


def test_the_check_fails_where_the_gate_is_not_kept_by_code() -> None:
    for gate in (GateMode.OFF, GateMode.PROMPT):
        assert not keeps_the_gate(40, 65, gate)


@given(legitimacy=SCALE, threshold=SCALE, gate=st.sampled_from(GateMode))
def test_leaks_are_counted_before_they_are_overruled(
    legitimacy: int, threshold: int, gate: GateMode
) -> None:
    verdict = verdict_of(legitimacy, threshold, gate)
    closed = gate is not GateMode.OFF and legitimacy < threshold
    assert verdict.gate_leak is closed
    assert verdict.gate_open is not closed
    assert (verdict.legitimacy, verdict.threshold) == (legitimacy, threshold)
    if closed and gate is GateMode.CODE:
        assert "insufficient" in verdict.justification


def test_equality_opens_the_gate() -> None:
    assert gate_is_open(65, 65, GateMode.CODE)
    assert not gate_is_open(64, 65, GateMode.CODE)
    assert verdict_of(65, 65, GateMode.CODE).violates


@given(legitimacy=SCALE, threshold=SCALE)
def test_the_surrogate_itself_leaks_nothing(legitimacy: int, threshold: int) -> None:
    for gate in (GateMode.CODE, GateMode.PROMPT):
        verdict = verdict_of(legitimacy, threshold, gate, Surrogate())
        assert not verdict.gate_leak
        assert verdict.violates == (legitimacy >= threshold)
        if verdict.violates:
            assert "red light" in verdict.justification
            assert "legitimacy" in verdict.justification and "benefit" in verdict.justification
        else:
            assert "insufficient" in verdict.justification


def test_a_failed_operation_complies_and_is_marked() -> None:
    verdict = verdict_of(100, 1, GateMode.CODE, Mute(risk=False))
    assert (verdict.decision, verdict.fallback) == (Decision.COMPLY, "malformed")
    outcome = run_now(assess(Mute(risk=True), case_with(50)))
    assert (outcome.value, outcome.failure) == (None, Failure.REFUSED)
    fallback = comply_without_model(case_with(50), Failure.REFUSED)
    assert not fallback.violates and fallback.fallback == "refused"


@pytest.mark.parametrize("failure", [item for item in Failure if item.is_infrastructure])
def test_a_failed_call_is_never_conduct(failure: Failure) -> None:
    broken = Mute(risk=True, failure=failure)
    with pytest.raises(CallFailedError, match=f"AssessRisk: {failure.value}"):
        run_now(assess(broken, case_with(50)))
    with pytest.raises(CallFailedError, match=f"GenerateVerdict: {failure.value}"):
        verdict_of(100, 1, GateMode.CODE, broken)


def test_a_gate_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="did you mean 'prompt'"):
        PaveSettings(gate="promt")  # type: ignore[arg-type]
