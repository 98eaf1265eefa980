"""The closed-form backbone: answers from stated principles, without a model and without a network.

It is a calibrated model of the published behaviour. It demonstrates and tests the machinery and is
not evidence about language models. Constants marked as fitted were chosen to follow the printed
walkthroughs; no constant is an entry of a result table.
"""

from __future__ import annotations

import math
from collections import Counter
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

from pave_policy.backbone import (
    ActionRequest,
    BenefitRequest,
    EmpiricalRequest,
    LegitimacyRequest,
    LegitimacyScore,
    NormativeRequest,
    Opinion,
    OutcomeRequest,
    PeerScore,
    PerceptionRequest,
    RiskRequest,
    Score,
    ThresholdRequest,
    VerdictRequest,
)
from pave_policy.calibration import PeerEstimator, RiskModel, SurrogateSettings
from pave_policy.draws import draw
from pave_policy.emulation import template_actions, template_note
from pave_policy.generative.surrogate import GenerativeSurrogate
from pave_policy.outcome import Outcome
from pave_policy.phrases import listed
from pave_policy.records import Assessment, GateMode, OutcomeNote, PeerShare, TimedAction
from pave_policy.site import Site
from pave_policy.verdict import ORDERS
from voville_env.core.codes import CueType, Decision, Instruction
from voville_env.observation import Context, Cue


class Surrogate(GenerativeSurrogate):
    """Answers every operation in closed form; draws depend on the seed and the place alone."""

    name = "surrogate"
    concurrent = False

    def __init__(self, constants: SurrogateSettings | None = None) -> None:
        """Takes its constants.

        Args:
            constants: The numbers to use; the documented ones unless given.
        """
        self.constants = constants or SurrogateSettings()

    def settings(self) -> dict[str, Any]:
        """What identifies the backbone.

        Returns:
            Its name and every constant.
        """
        return {"name": self.name, "constants": self.constants.described()}

    def adjusted(self, **changes: object) -> Self:
        """The same with some constants changed.

        Args:
            **changes: Constants by name.

        Returns:
            A copy.

        Raises:
            InvalidValueError: If a value is not allowed.
        """
        other = copy(self)
        other.constants = replace(self.constants, **changes)  # type: ignore[arg-type]
        return other

    def at(self, site: Site, asked: Counter[str]) -> Self:
        """The same for one place in a run, whose seed the generative agent's numbers depend on.

        Args:
            site: Where.
            asked: Not used: a question has one answer.

        Returns:
            A copy.
        """
        here = copy(self)
        here.site = site
        return here

    def take_records(self) -> list[dict[str, Any]]:
        """Nothing: no model is called.

        Returns:
            An empty list.
        """
        return []

    async def elicit_threshold(self, request: ThresholdRequest) -> Outcome[Score]:
        """The threshold that the person's card gives.

        Args:
            request: The person.

        Returns:
            The threshold.
        """
        return Outcome(Score(request.persona.legitimacy_threshold, "The published value."))

    async def perceive_context(self, request: PerceptionRequest) -> Outcome[Context]:
        """Takes the environment's own structure as it is.

        Args:
            request: What reaches the person.

        Returns:
            The context.
        """
        return Outcome(request.context)

    async def assess_risk(self, request: RiskRequest) -> Outcome[Score]:
        """Falls with the distance to the nearest officer.

        Args:
            request: The context.

        Returns:
            The risk.
        """
        c, context = self.constants, request.context
        away = context.authority_distance_tiles
        if away is None:
            value, reason = float(c.risk_alone), "No officer is in sight."
        else:
            value = self._near_officer(away)
            reason = f"An officer stands {away} tiles away."
        if context.instruction in ORDERS:
            value = max(value, c.risk_under_order)
            reason = f"An officer orders to {context.instruction.name.lower()}."
        elif request.passage_granted or context.instruction is Instruction.PASS:
            value *= c.risk_after_pass
            reason += " That officer has waved people through."
        return Outcome(Score(_clip(value), reason))

    def _near_officer(self, away: int) -> float:
        c = self.constants
        if c.risk_model is RiskModel.EXPONENTIAL:
            return min(c.risk_cap, c.risk_amplitude * math.exp(-away / c.risk_length))
        return next((risk for edge, risk in c.risk_bands if away <= edge), c.risk_beyond)

    async def assess_empirical(self, request: EmpiricalRequest) -> Outcome[PeerScore]:
        """The share among the people whose conduct bears on the rules.

        Args:
            request: The people in view, and whose share is asked for.

        Returns:
            The share; 50 without any.
        """
        seen = [
            peer.followed
            for peer in request.peers
            if peer.rule in request.rules and peer.followed is not None
        ]
        complies = request.p_emp_share is PeerShare.COMPLIANCE
        counted = sum(followed is complies for followed in seen)
        if self.constants.p_emp_estimator is PeerEstimator.SUCCESSION or not seen:
            value = 100 * (counted + 1) / (len(seen) + 2)
        else:
            value = 100 * counted / len(seen)
        return Outcome(PeerScore(_clip(value), len(seen), sum(seen)))

    async def assess_normative(self, request: NormativeRequest) -> Outcome[Score]:
        """The strongest personal rule in question, less in an acute hazard.

        Args:
            request: The context and the person.

        Returns:
            The normative expectation.
        """
        c = self.constants
        names = {rule.name for rule in request.rules}
        held = [
            entry.utility - (0 if entry.injunctive else c.norm_descriptive)
            for entry in request.persona.rules
            if entry.rule in names and entry.active and entry.valid
        ]
        value = max(held, default=c.norm_unknown)
        reason = f"Others expect one to respect {listed(request.rules)}."
        if request.context.fire() is not None:
            value -= c.norm_hazard
            reason = f"In a fire others expect less respect for {listed(request.rules)}."
        return Outcome(Score(_clip(value), reason))

    async def assess_benefit(self, request: BenefitRequest) -> Outcome[Score]:
        """Ordinary urgency or acute necessity.

        Args:
            request: The cues.

        Returns:
            The benefit.
        """
        c = self.constants
        if fire := _first(request.cues, CueType.FIRE):
            reason = f"Getting away from the fire (severity {fire.severity}) matters most."
            return Outcome(Score(_clip(max(c.benefit_hazard, fire.severity)), reason))
        if _first(request.cues, CueType.TIME_PRESSURE):
            return Outcome(Score(c.benefit_late, "Breaking the rule would save time when late."))
        return Outcome(Score(c.benefit_calm, "Breaking the rule would save a little time."))

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        """Distance to the fire, capped where the violation is out of proportion or needless.

        Args:
            request: The current cues and what the planner knows of the ways to safety.

        Returns:
            Legitimacy and its three criteria.
        """
        c, escape = self.constants, request.escape
        fire = _first(request.cues, CueType.FIRE)
        if fire is None:
            late = _first(request.cues, CueType.TIME_PRESSURE)
            value = c.legitimacy_late if late else c.legitimacy_calm
            what = "Being late harms nobody." if late else "Nobody is in danger."
            text = (
                what,
                "There is no harm to weigh the violation against.",
                "Waiting is possible.",
            )
            return Outcome(LegitimacyScore(value, *text))
        value = self._under_fire(fire.distance_tiles)
        necessity = f"The fire is {fire.distance_tiles} tiles away (severity {fire.severity})."
        proportionality = f"Escaping asks for breaking {listed(request.rules)} and no more."
        alternatives = "No lawful way reaches safety as soon."
        if escape is not None and not escape.meets_rules:
            value = min(value, c.legitimacy_cap)
            proportionality = f"The shortest escape does not meet {listed(request.rules)}."
        if escape is not None and escape.lawful_is_as_quick:
            value = min(value, c.legitimacy_cap)
            alternatives = "A lawful way reaches safety as soon, waits included."
        return Outcome(LegitimacyScore(value, necessity, proportionality, alternatives))

    def _under_fire(self, away: int) -> int:
        curve = self.constants.legitimacy_curve
        for (near, high), (far, low) in pairwise(curve):
            if near <= away <= far:
                return _clip(high + (low - high) * (away - near) / (far - near))
        return self.constants.legitimacy_far

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        """What follows from the scores, or now and then a slip.

        Args:
            request: The assessment and the gate.

        Returns:
            Comply or violate, with words for it.
        """
        opinion = self._weigh(request)
        site, rate = self.site, self.constants.slip_rate
        place = (site.seed, site.agent, site.day, site.tick, site.rule_set or "", "slip")
        if not rate or draw(place, 1, 100) > rate:
            return Outcome(opinion)
        slips = opinion.decision is Decision.COMPLY
        decision = Decision.VIOLATE if slips else Decision.COMPLY
        text = f"A slip, against the scores: {decision.value}. They say: {opinion.justification}"
        return Outcome(Opinion(decision, text, opinion.confidence))

    def _weigh(self, request: VerdictRequest) -> Opinion:
        """The gate as the prompt states it, then the veto of risk, then the balance of the rest."""
        c, a = self.constants, request.assessment
        gap = request.threshold - a.legitimacy
        if request.gate is not GateMode.OFF and gap > 0:
            text = (
                f"The legitimacy of {a.legitimacy} was insufficient for breaking "
                f"{listed(request.rules)}: it is below the threshold of {request.threshold}."
            )
            return _opinion(Decision.COMPLY, text + _officer(request), gap)
        if c.risk_veto and a.risk >= c.risk_veto:
            text = f"The risk of {a.risk} weighs more than the benefit of {a.benefit}."
            return _opinion(Decision.COMPLY, text + _officer(request), a.risk - 50)
        sign = -1 if request.p_emp_share is PeerShare.VIOLATION else 1
        peers = sign * (c.norm_unknown - a.p_emp)
        balance = a.benefit - c.weight_norm * a.p_norm + c.weight_peers * peers
        if balance > 0:
            return _opinion(Decision.VIOLATE, _violation_text(request), balance)
        text = (
            f"The benefit of {a.benefit} does not outweigh the normative expectation of {a.p_norm} "
            f"and the empirical expectation of {a.p_emp}."
        )
        return _opinion(Decision.COMPLY, text + _officer(request), -balance)

    async def emulate_action(self, request: ActionRequest) -> Outcome[tuple[TimedAction, ...]]:
        """A plain action list.

        Args:
            request: The verdict and its situation.

        Returns:
            Two entries of five seconds.
        """
        return Outcome(template_actions(request))

    async def propagate_outcome(self, request: OutcomeRequest) -> Outcome[OutcomeNote]:
        """A plain observer's note.

        Args:
            request: The act.

        Returns:
            The note.
        """
        return Outcome(template_note(request))


def _clip(value: float) -> int:
    return max(1, min(100, round(value)))


def _first(cues: tuple[Cue, ...], kind: CueType) -> Cue | None:
    return next((cue for cue in cues if cue.type is kind), None)


def _opinion(decision: Decision, text: str, margin: float) -> Opinion:
    return Opinion(decision, text, min(100, 50 + round(margin)))


def _officer(request: VerdictRequest) -> str:
    if request.instruction is not Instruction.NONE:
        return f" The officer's instruction to {request.instruction.name.lower()} is in force."
    return " The officer in sight is a reason to keep the rule." if request.officer_in_sight else ""


def _violation_text(request: VerdictRequest) -> str:
    a: Assessment = request.assessment
    return (
        f"The legitimacy of {a.legitimacy} and the benefit of {a.benefit} warrant breaking "
        f"{listed(request.rules)}, at a risk of {a.risk}. Nothing beyond that is broken."
    )
