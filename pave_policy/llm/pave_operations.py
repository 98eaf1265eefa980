"""PAVE's ten operations as prompts to a language model."""

from __future__ import annotations

from functools import partial

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
from pave_policy.llm import wording
from pave_policy.llm.answers import ContextAnswer
from pave_policy.llm.asking import Asking
from pave_policy.outcome import Outcome
from pave_policy.records import OutcomeNote, TimedAction
from voville_env.core.codes import Behaviour, Decision
from voville_env.observation import Context, Peer


class PaveOperations(Asking):
    """Answers PAVE."""

    async def elicit_threshold(self, request: ThresholdRequest) -> Outcome[Score]:
        """Asks for a person's legitimacy threshold (prompt C0).

        Args:
            request: The person.

        Returns:
            The threshold and a reason.
        """
        return await self._ask(request, lambda said: Score(said.threshold, said.reason))

    async def perceive_context(self, request: PerceptionRequest) -> Outcome[Context]:
        """Asks for the context record (prompt C1).

        Args:
            request: What reaches the person, and the person.

        Returns:
            The environment's structure with authority, people, cues and summary as the model put
            them; instruction, signal and ways stay the environment's.
        """
        return await self._ask(request, partial(_perceived, request.context))

    async def assess_risk(self, request: RiskRequest) -> Outcome[Score]:
        """Asks for the perceived risk (prompt C2).

        Args:
            request: The context and the person.

        Returns:
            The risk and a reason.
        """
        return await self._ask(request, lambda said: Score(said.risk, said.reason))

    async def assess_empirical(self, request: EmpiricalRequest) -> Outcome[PeerScore]:
        """Asks for the empirical expectation (prompt C3).

        Args:
            request: The people in view.

        Returns:
            The share that complies, and its counts.
        """
        return await self._ask(
            request, lambda said: PeerScore(said.p_emp, said.n_observed, said.n_complying)
        )

    async def assess_normative(self, request: NormativeRequest) -> Outcome[Score]:
        """Asks for the normative expectation (prompt C4).

        Args:
            request: The context and the person with their rules.

        Returns:
            The expectation and a reason.
        """
        return await self._ask(request, lambda said: Score(said.p_norm, said.reason))

    async def assess_benefit(self, request: BenefitRequest) -> Outcome[Score]:
        """Asks for the benefit (prompt C5).

        Args:
            request: The cues and the person.

        Returns:
            The benefit and a reason.
        """
        return await self._ask(request, lambda said: Score(said.benefit, said.reason))

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        """Asks for legitimacy (prompt C6).

        Args:
            request: The cues, the person and the ways there are.

        Returns:
            Legitimacy and a sentence on each criterion.
        """
        return await self._ask(
            request,
            lambda said: LegitimacyScore(
                said.legitimacy, said.necessity, said.proportionality, said.alternatives
            ),
        )

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        """Asks for the verdict (prompt C7).

        Args:
            request: The assessment and what bears on the decision.

        Returns:
            What the model says, before the gate is enforced.
        """
        return await self._ask(
            request,
            lambda said: Opinion(Decision(said.decision), said.justification, said.confidence),
        )

    async def emulate_action(self, request: ActionRequest) -> Outcome[tuple[TimedAction, ...]]:
        """Asks for the action list (prompt C8).

        Args:
            request: The verdict and its situation.

        Returns:
            The entries.
        """
        return await self._ask(request, lambda said: said)

    async def propagate_outcome(self, request: OutcomeRequest) -> Outcome[OutcomeNote]:
        """Asks for the observer's sentence (prompt C9).

        Args:
            request: The act and what came of it.

        Returns:
            The note.
        """
        return await self._ask(
            request,
            lambda said: OutcomeNote(
                observed_behavior=said.observed_behavior,
                observed_outcome=said.observed_outcome,
                rule_followed=said.rule_followed,
            ),
        )


def _perceived(base: Context, said: ContextAnswer) -> Context:
    """The environment's context with what the model perceived put in its place."""
    cues = tuple(
        wording.SeenCue(
            type=wording.cue_type(cue.type),
            distance_tiles=cue.distance_tiles,
            severity=cue.severity,
            text=cue.type,
        )
        for cue in said.situational_cues
    )
    peers = tuple(
        Peer(dx=0, dy=0, behaviour=Behaviour.NONE, rule=None, followed=None, age=0, text=text)
        for text in said.peer_behaviors
    )
    return base.model_copy(
        update={
            "authority_present": said.authority_present,
            "authority_distance_tiles": said.authority_distance_tiles,
            "peer_behaviors": peers,
            "situational_cues": cues,
            "scene_summary": said.scene_summary,
        }
    )
