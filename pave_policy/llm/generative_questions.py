"""The variables of the generative agent's prompts, and what each says of its answer."""

from __future__ import annotations

from typing import Any

from pave_policy.generative.day_plan import appointments
from pave_policy.generative.requests import (
    DayPlanRequest,
    DecompositionRequest,
    FocalRequest,
    ImportanceRequest,
    InsightRequest,
    PlanEntry,
    ReactionRequest,
    Response,
)
from pave_policy.llm.kinds import ANYTHING, Asked
from pave_policy.llm.prompts import MAX_STATEMENTS
from pave_policy.llm.wording import description
from voville_env.policy import PersonaCard

Values = dict[str, Any]
_REACTIONS = {
    Response.CONTINUE: "go on with the step that is under way",
    Response.WAIT: "stand still for the time being",
    Response.FLEE: "drop the plan and make for safety the quickest way",
    Response.FOLLOW: "do as the people around do",
}


def _person(persona: PersonaCard) -> Values:
    return {"agent_name": persona.name, "agent_description": description(persona)}


def importance(request: ImportanceRequest) -> Values:
    """The variables of RateImportance.

    Args:
        request: The event.

    Returns:
        A value for each; of the event its words alone.
    """
    return {**_person(request.persona), "event": request.event.text}


def day_plan(request: DayPlanRequest) -> Values:
    """The variables of PlanDay.

    Args:
        request: The day.

    Returns:
        A value for each.
    """
    return {
        **_person(request.persona),
        "day": {"number": request.day, "ends at minute": request.minutes},
        "schedule": [
            f"from minute {minute}: {place}"
            for minute, place in appointments(request.persona.schedule, request.day)
        ],
        "memories": list(request.memories) or None,
    }


def decomposition(request: DecompositionRequest) -> Values:
    """The variables of DecomposePlan.

    Args:
        request: The part, and the day that it belongs to.

    Returns:
        A value for each.
    """
    return {
        **_person(request.persona),
        "part": _entry(request.entry),
        "day_plan": [_entry(entry) for entry in request.day_plan],
    }


def _entry(entry: PlanEntry) -> Values:
    return {"activity": entry.activity, "from": entry.start, "until": entry.start + entry.minutes}


def focal_points(request: FocalRequest) -> Values:
    """The variables of AskFocalPoints.

    Args:
        request: The statements.

    Returns:
        A value for each.
    """
    return {**_person(request.persona), "statements": list(request.statements)}


def insights(request: InsightRequest) -> Values:
    """The variables of DrawInsights.

    Args:
        request: The question and its statements.

    Returns:
        A value for each; statements are numbered from 1.
    """
    return {
        **_person(request.persona),
        "question": request.question,
        "statements": [
            {"number": number, "statement": text}
            for number, text in enumerate(request.statements, 1)
        ],
    }


def reaction(request: ReactionRequest) -> Values:
    """The variables of React.

    Args:
        request: What is noticed, and what the person is doing.

    Returns:
        A value for each; to follow others is listed only where there are others to follow.
    """
    return {
        **_person(request.persona),
        "doing": request.doing,
        "events": [
            {"event": event.text, "importance": score}
            for event, score in zip(request.events, request.importance, strict=True)
        ],
        "situation": {
            "an officer is in sight": request.officer_in_sight,
            "the person is running late": request.late,
        },
        "reactions": {
            each.value: words
            for each, words in _REACTIONS.items()
            if each is not Response.FOLLOW or request.can_follow
        },
        "memories": list(request.memories) or None,
    }


def asked_in(request: object) -> Asked:
    """What a prompt says of its answer.

    Args:
        request: Any request.

    Returns:
        Where a plan begins and ends, how many statements are shown, what reactions are listed.
    """
    match request:
        case DayPlanRequest():
            return Asked(end=request.minutes)
        case DecompositionRequest():
            start = request.entry.start
            return Asked(start=start, end=start + request.entry.minutes)
        case InsightRequest():
            return Asked(statements=min(len(request.statements), MAX_STATEMENTS))
        case ReactionRequest():
            return Asked(can_follow=request.can_follow)
        case _:
            return ANYTHING
