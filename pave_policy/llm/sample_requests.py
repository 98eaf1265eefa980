"""One plausible request of each operation, made without playing an episode: to try out a model.

A fire burns three tiles away, an officer looks on, one person crosses on red and another waits. Two
numbers below 125 never give the same prompt, so that each of them is a call.
"""

from __future__ import annotations

from dataclasses import replace

from pave_policy.backbone import (
    ActionRequest,
    BenefitRequest,
    EmpiricalRequest,
    Escape,
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
    Event,
    EventKind,
    FocalRequest,
    ImportanceRequest,
    InsightRequest,
    PlanEntry,
    ReactionRequest,
)
from pave_policy.records import Assessment, GateMode, TimedAction, Verdict
from voville_env.core.codes import (
    Behaviour,
    CueType,
    Decision,
    Instruction,
    Rule,
    SignalState,
)
from voville_env.observation import BEHAVIOUR_TEXT, Context, Cue, Peer, compass, summarise
from voville_env.policy import PersonaCard, PersonalRule

_FIRST_NAMES = (
    *("Abena", "Bruno", "Chiara", "Dmitri", "Elif"),
    *("Farid", "Greta", "Hiro", "Imani", "Jonas"),
)
_LAST_NAMES = (
    *("Adeyemi", "Bergmann", "Castillo", "Dubois", "Eriksen"),
    *("Fontana", "Gupta", "Hallam", "Ivanova", "Jensen"),
)
_TRADES = (
    *("baker", "bus driver", "carpenter", "dentist", "gardener"),
    *("librarian", "nurse", "pharmacist", "tailor", "teacher"),
)
_DISPOSITIONS = ("patient and mindful of rules", "quick to act and rather bold", "even-tempered")
_RULES = (Rule.RED_LIGHT, Rule.CROSSWALK_ONLY)
_THRESHOLD = 60
_FIRE = Event(EventKind.FIRE, "A fire burns three tiles to the south", key="fire", severity=90)
_CROSSING = Event(EventKind.OTHERS_CROSS, "A person crosses on red", key="crossing")
_MEMORIES = (
    "The café terrace was crowded at noon",
    "An officer stood at the crossing by the park",
    "A neighbour waved from across the street",
    "The pedestrian signal by the office takes long to change",
)
_DAY = 160
_DAY_PLAN = (
    PlanEntry("sit on the café terrace", 0, 90),
    PlanEntry("walk home by way of the park", 90, 30),
    PlanEntry("cook and rest at home", 120, 40),
)


def sample_requests(number: int = 0) -> tuple[object, ...]:
    """One request of each operation, all about the same situation.

    Args:
        number: Which situation, from 0.

    Returns:
        One request of each operation, in the order of `OPERATIONS`.
    """
    persona, context = _persona(number), _context(number)
    cues, verdict = context.situational_cues, _verdict(persona)
    escape = Escape(lawful_steps=21, lawful_wait_steps=16, shortest_steps=9, meets_rules=True)
    actions = (
        TimedAction(text="Look both ways for cars", seconds=5),
        TimedAction(text="Run across the street to the park", seconds=10),
    )
    return (
        ThresholdRequest(persona),
        PerceptionRequest(context, persona),
        RiskRequest(context, persona, _RULES, passage_granted=False),
        EmpiricalRequest(context.peer_behaviors, _RULES),
        NormativeRequest(context, persona, _RULES),
        BenefitRequest(cues, persona, _RULES),
        LegitimacyRequest(cues, persona, _RULES, escape),
        _verdict_request(persona),
        ActionRequest(verdict, context, persona),
        OutcomeRequest(verdict, actions, moved=True, sanctioned=False),
        *_generative_requests(persona),
    )


def closed_gate_request(number: int = 0) -> VerdictRequest:
    """A verdict for which everything but legitimacy speaks for breaking the rules.

    Args:
        number: As for `sample_requests`.

    Returns:
        A request that leaves the gate to the model: below the threshold it is to say comply.
    """
    request = _verdict_request(_persona(number))
    tempting = request.assessment.model_copy(
        update={"risk": 8, "p_emp": 10, "n_complying": 0, "p_norm": 15, "legitimacy": 25}
    )
    return replace(request, assessment=tempting, gate=GateMode.PROMPT, officer_in_sight=False)


def _generative_requests(persona: PersonaCard) -> tuple[object, ...]:
    return (
        ImportanceRequest(persona, _FIRE),
        DayPlanRequest(persona, day=2, minutes=_DAY, memories=_MEMORIES),
        DecompositionRequest(persona, _DAY_PLAN[1], _DAY_PLAN),
        FocalRequest(persona, _MEMORIES),
        InsightRequest(persona, "How do people treat the signal by the park?", _MEMORIES),
        ReactionRequest(
            persona,
            doing="sit on the café terrace",
            events=(_FIRE, _CROSSING),
            importance=(3, 5),
            memories=_MEMORIES[:2],
            can_follow=True,
            officer_in_sight=True,
        ),
    )


def _persona(number: int) -> PersonaCard:
    first, last = _FIRST_NAMES[number % 10], _LAST_NAMES[number // 10 % 10]
    return PersonaCard(
        id="P1",
        name=f"{first} {last}",
        occupation=_TRADES[number // 100 % 10],
        disposition=_DISPOSITIONS[number % len(_DISPOSITIONS)],
        goal="To get home before dark",
        group="attendee",
        legitimacy_threshold=_THRESHOLD,
        rules=(
            PersonalRule("RED_LIGHT", "One waits at a red light.", utility=80),
            PersonalRule(
                "CROSSWALK_ONLY", "People cross at crosswalks.", utility=55, injunctive=False
            ),
        ),
        schedule=("day 1, tick 0: cafe_seat", "day 2, tick 540: home"),
    )


def _context(number: int) -> Context:
    peers = (
        _peer(1 + number % 5, 1 + number // 5 % 5, Behaviour.CROSSING_ON_RED, followed=False),
        _peer(-1 - number // 25 % 5, 2, Behaviour.WAITING, followed=True),
    )
    cues = (Cue(type=CueType.FIRE, distance_tiles=3, severity=90, dx=-1, dy=2),)
    return Context(
        authority_present=True,
        authority_distance_tiles=9,
        authority_offset=(5, -4),
        peer_behaviors=peers,
        situational_cues=cues,
        scene_summary=summarise(cues, authority=True, peers=len(peers)),
        escaping=True,
        signal=SignalState.DONT_WALK,
        signal_ticks=4,
        signal_distance=1,
        rules_at_stake=_RULES,
    )


def _peer(dx: int, dy: int, behaviour: Behaviour, *, followed: bool) -> Peer:
    text = f"A person {compass(dx, dy)} {BEHAVIOUR_TEXT[behaviour]}"
    return Peer(
        dx=dx,
        dy=dy,
        behaviour=behaviour,
        rule=Rule.RED_LIGHT,
        followed=followed,
        age=0,
        text=text,
    )


def _verdict_request(persona: PersonaCard) -> VerdictRequest:
    assessment = Assessment(
        risk=38, p_emp=50, n_observed=2, n_complying=1, p_norm=52, benefit=90, legitimacy=84
    )
    return VerdictRequest(
        assessment=assessment,
        persona=persona,
        rules=_RULES,
        gate=GateMode.CODE,
        threshold=persona.legitimacy_threshold,
        officer_in_sight=True,
        instruction=Instruction.NONE,
    )


def _verdict(persona: PersonaCard) -> Verdict:
    return Verdict(
        rules=_RULES,
        decision=Decision.VIOLATE,
        justification=(
            f"The fire is too close for {persona.name}, a {persona.occupation}, to wait at the "
            "light. The legitimacy of 84 and the benefit of 90 outweigh the risk of 38."
        ),
        confidence=80,
        legitimacy=84,
        threshold=persona.legitimacy_threshold,
        gate_open=True,
    )
