"""The closed-form backbone: answers from stated principles, without a model and without a network.

It is a calibrated model of the published behaviour. It demonstrates and tests the machinery and is
not evidence about language models. Constants marked as fitted were chosen to follow the printed
walkthroughs; no constant is an entry of a result table.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Annotated, Any

from pave_policy.backbone import (
    ActionRequest,
    Backbone,
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
from pave_policy.constants import Source
from pave_policy.emulation import template_actions, template_note
from pave_policy.outcome import Outcome
from pave_policy.phrases import listed
from pave_policy.records import Assessment, GateMode, OutcomeNote, TimedAction
from pave_policy.site import Site
from voville_env.core.codes import CueType, Decision, Instruction
from voville_env.observation import Context, Cue

ORDERS = (Instruction.HOLD, Instruction.REDIRECT)
"""Instructions that forbid going on as before."""
Curve = tuple[tuple[int, int], ...]
_D2_CURVE = "ours: exponential through the distances and risks of D.2"
_BALANCE = "ours: directions from C.3; no printed value constrains it"


@dataclass(frozen=True)
class SurrogateSettings:
    """Every number that the surrogate uses, with its source; `fitted` marks those fitted.

    Attributes:
        risk_amplitude: Risk at distance 0 before the cap.
        risk_length: Tiles over which risk falls by a factor of e.
        risk_cap: Largest risk from distance alone.
        risk_alone: Risk with no officer in sight.
        risk_after_pass: Factor once the officer in sight has let the person pass.
        risk_under_order: Least risk while an order to hold or to turn back is in force.
        risk_veto: Risk from which on an open gate still leads to complying.
        legitimacy_curve: `(tiles, legitimacy)` by distance to a fire, straight lines in between.
        legitimacy_far: Legitimacy under a fire farther away than the curve reaches.
        legitimacy_late: Legitimacy under time pressure.
        legitimacy_calm: Legitimacy otherwise.
        legitimacy_cap: Most that it can be where a violation is needless or out of proportion.
        norm_descriptive: Taken off for a rule that only says what people do.
        norm_hazard: Taken off while a hazard is perceived.
        norm_unknown: Normative expectation for a rule that the person does not hold.
        benefit_calm: Benefit in routine conditions.
        benefit_late: Benefit under time pressure.
        benefit_hazard: Least benefit under a hazard; its severity where that is more.
        weight_norm: Weight of the normative expectation against the benefit.
        weight_peers: Weight of the peers' conduct against the benefit.
    """

    risk_amplitude: Annotated[float, Source(_D2_CURVE)] = 106.0
    risk_length: Annotated[float, Source(_D2_CURVE)] = 10.7
    risk_cap: Annotated[int, Source("C.2: upper end of the nearest band")] = 95
    risk_alone: Annotated[int, Source("C.2: in the band without authority, 5 to 15")] = 13
    risk_after_pass: Annotated[float, Source("ours: D.2 after the officer waves on")] = 2 / 3
    risk_under_order: Annotated[int, Source("D.2: risk under the order to hold")] = 88
    risk_veto: Annotated[int, Source("ours: D.2 complies at 73 and does not at 60")] = 65
    legitimacy_curve: Annotated[Curve, Source("C.2 at the fire, then D.1", fitted=True)] = (
        (0, 92),
        (2, 91),
        (3, 90),
        (8, 81),
        (12, 68),
        (15, 42),
        (18, 24),
    )
    legitimacy_far: Annotated[int, Source("C.2: example of a distant fire", fitted=True)] = 18
    legitimacy_late: Annotated[int, Source("D.3 and C.2: rows under haste", fitted=True)] = 13
    legitimacy_calm: Annotated[int, Source("D.1 and C.5: rows without a threat", fitted=True)] = 8
    legitimacy_cap: Annotated[int, Source("C.2: upper end of the convenience band")] = 30
    norm_descriptive: Annotated[int, Source("ours: C.2 puts injunctive entries higher")] = 15
    norm_hazard: Annotated[int, Source("ours: others make allowances in a hazard")] = 20
    norm_unknown: Annotated[int, Source("ours: no entry, no information")] = 50
    benefit_calm: Annotated[int, Source("C.2: in the routine band, 5 to 20")] = 12
    benefit_late: Annotated[int, Source("ours: above routine, below a hazard")] = 40
    benefit_hazard: Annotated[int, Source("ours: necessity outweighs a personal rule")] = 60
    weight_norm: Annotated[float, Source(_BALANCE)] = 0.5
    weight_peers: Annotated[float, Source(_BALANCE)] = 0.5


class Surrogate:
    """Answers every operation in closed form; deterministic."""

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
        constants = asdict(self.constants)
        constants["legitimacy_curve"] = [list(point) for point in self.constants.legitimacy_curve]
        return {"name": self.name, "constants": constants}

    def at(self, site: Site, asked: Counter[str]) -> Backbone:
        """The same everywhere.

        Args:
            site: Not used.
            asked: Not used.

        Returns:
            Itself.
        """
        return self

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
        """Falls exponentially with the distance to the nearest officer.

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
            value = min(c.risk_cap, c.risk_amplitude * math.exp(-away / c.risk_length))
            reason = f"An officer stands {away} tiles away."
        if context.instruction in ORDERS:
            value = max(value, c.risk_under_order)
            reason = f"An officer orders to {context.instruction.name.lower()}."
        elif request.passage_granted or context.instruction is Instruction.PASS:
            value *= c.risk_after_pass
            reason += " That officer has waved people through."
        return Outcome(Score(_clip(value), reason))

    async def assess_empirical(self, request: EmpiricalRequest) -> Outcome[PeerScore]:
        """Rule of succession over the people whose conduct bears on the rules.

        Args:
            request: The people in view.

        Returns:
            The share that complies; 50 without any.
        """
        seen = [
            peer.followed
            for peer in request.peers
            if peer.rule in request.rules and peer.followed is not None
        ]
        value = _clip(100 * (sum(seen) + 1) / (len(seen) + 2))
        return Outcome(PeerScore(value, len(seen), sum(seen)))

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
        """The gate as the prompt states it, then the veto of risk, then the balance of the rest.

        Args:
            request: The assessment and the gate.

        Returns:
            Comply or violate, with words for it.
        """
        c, a = self.constants, request.assessment
        gap = request.threshold - a.legitimacy
        if request.gate is not GateMode.OFF and gap > 0:
            text = (
                f"The legitimacy of {a.legitimacy} was insufficient for breaking "
                f"{listed(request.rules)}: it is below the threshold of {request.threshold}."
            )
            return _opinion(Decision.COMPLY, text + _officer(request), gap)
        if a.risk >= c.risk_veto:
            text = f"The risk of {a.risk} weighs more than the benefit of {a.benefit}."
            return _opinion(Decision.COMPLY, text + _officer(request), a.risk - 50)
        balance = a.benefit - c.weight_norm * a.p_norm + c.weight_peers * (c.norm_unknown - a.p_emp)
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
        return Outcome(template_actions(request.verdict, request.context))

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


def _opinion(decision: Decision, text: str, margin: float) -> Outcome[Opinion]:
    return Outcome(Opinion(decision, text, min(100, 50 + round(margin))))


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
