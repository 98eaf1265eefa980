"""Reaction: whether what is noticed changes what a person does, and one step of doing it."""

from __future__ import annotations

from pave_policy.generative.agent import PLANNED, Person
from pave_policy.generative.requests import (
    Event,
    Reaction,
    ReactionRequest,
    Response,
)
from pave_policy.generative.turn import Turn, record, value_of
from pave_policy.glance import Glance
from pave_policy.memory.stream import EntryKind
from pave_policy.outcome import Outcome
from pave_policy.walking import Walker
from voville_env.core.codes import ALL_RULES, TRIGGER_RELEVANT, Action, Behaviour, Route
from voville_env.observation import Observation

_LOGGED = 80
"""Characters of a memory in the record of a reaction."""
_UNANSWERED = Reaction(Response.CONTINUE, "No usable answer, so the plan goes on.")


async def react(
    turn: Turn, doing: str, events: tuple[Event, ...], observation: Observation
) -> None:
    """Asks what to do about what is at hand; the plan goes on where nothing is, or no answer.

    Args:
        turn: The person's tick.
        doing: The step of the plan that is under way.
        events: What is at hand.
        observation: What reaches the person.

    Raises:
        CallFailedError: If the call itself failed.
    """
    person, failure, memories = turn.person, None, tuple[str, ...]()
    reaction = PLANNED
    if events:
        found = await turn.recall(tuple(event.text for event in events), before=turn.now)
        memories = tuple(entry.text for entry in found)
        outcome = await _ask(turn, doing, events, memories, observation)
        reaction, failure = outcome.value or _UNANSWERED, outcome.failure
    person.log.append(
        record(
            "reaction",
            turn.site,
            response=reaction.response.value,
            reason=reaction.reason,
            doing=doing,
            events=[event.key for event in events],
            memories=[_cut(text) for text in memories],
            fallback=value_of(failure),
        )
    )
    changed = reaction.response is not person.reaction.response
    person.reaction = reaction
    if changed and failure is None:
        text = f"Decided to {reaction.response.value}: {reaction.reason}"
        person.stream.add(EntryKind.PLAN, text, turn.now, turn.settings.plan_importance)


def _cut(text: str) -> str:
    return text if len(text) <= _LOGGED else f"{text[: _LOGGED - 1]}…"


async def _ask(
    turn: Turn,
    doing: str,
    events: tuple[Event, ...],
    memories: tuple[str, ...],
    observation: Observation,
) -> Outcome[Reaction]:
    person = turn.person
    request = ReactionRequest(
        persona=person.persona,
        doing=doing,
        events=events,
        importance=tuple(person.importance[event.key] for event in events),
        memories=memories,
        can_follow=bool((observation["peer_behaviors"][:, 2] != Behaviour.NONE).any()),
        officer_in_sight=bool(turn.glance.officer.present),
        late=bool(turn.glance.own.late),
    )

    def is_possible(reaction: Reaction) -> bool:
        return reaction.response is not Response.FOLLOW or request.can_follow

    outcome, records = await turn.ask("React", lambda desk: desk.react(request), is_possible)
    person.log += records
    return outcome


def step(person: Person, glance: Glance) -> int:
    """One step of what a person does.

    Args:
        person: The person.
        glance: What they see.

    Returns:
        The action.
    """
    walker, response = person.walker, person.reaction.response
    if response is Response.WAIT:
        return Action.WAIT
    if response is Response.FLEE and glance.own.escaping:
        return _flee(walker, glance)
    if response is Response.FOLLOW:
        return walker.follow(glance, glance.leg(Route.SCOPED), TRIGGER_RELEVANT)
    return walker.follow(glance, glance.scheduled_leg(Route.LAWFUL))


def _flee(walker: Walker, glance: Glance) -> int:
    """One step of a flight without scruples: any bicycle in reach, any way, through anybody."""
    if glance.mask[Action.TAKE] and not glance.own.carrying:
        return Action.TAKE
    return walker.follow(glance, glance.leg(Route.UNRESTRICTED), ALL_RULES)
