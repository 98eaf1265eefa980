"""What a request says in a prompt: its fields as plain words and JSON-ready data.

Nothing here counts down or names a tile, so that an unchanged situation gives an unchanged prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pave_policy.backbone import ActionRequest, Escape, OutcomeRequest
from pave_policy.records import Assessment, PeerShare, TimedAction, Verdict
from voville_env.core.codes import CueType, Direction, Instruction, Rule, SignalState
from voville_env.observation import CUE_TEXT, RULE_TEXT, Context, Cue, compass
from voville_env.policy import PersonaCard

SECONDS_PER_STEP = 2.5
WAIT_BAND = 50
"""Seconds to which a red wait is rounded up: a countdown would make every tick a new situation."""

_COMPASS = {
    Direction.N: "north",
    Direction.E: "east",
    Direction.S: "south",
    Direction.W: "west",
}


class SeenCue(Cue):
    """A cue as a model put it; its type may be none that the environment knows."""

    text: str


def description(persona: PersonaCard) -> str:
    """A person in a few lines.

    Args:
        persona: The person.

    Returns:
        Occupation, disposition and goal.
    """
    return (
        f"Occupation: {persona.occupation}\nDisposition: {persona.disposition}\n"
        f"Goal: {persona.goal}"
    )


def rules_in_words(rules: Sequence[Rule]) -> str:
    """Rules in question.

    Args:
        rules: The rules.

    Returns:
        Their contents, parted by semicolons.
    """
    return "; ".join(RULE_TEXT[rule] for rule in rules)


def share(of: PeerShare) -> str | None:
    """Whose share of the people observed is in question, where it is not that of who complies.

    Args:
        of: Whose.

    Returns:
        A phrase; None for those who comply.
    """
    return "those who break a rule" if of is PeerShare.VIOLATION else None


def personal_rules(persona: PersonaCard) -> str:
    """A personal rule database.

    Args:
        persona: The person.

    Returns:
        One line for each entry that the scenario uses.
    """
    lines = []
    for entry in persona.rules:
        if entry.active:
            kind = "what one ought to do" if entry.injunctive else "what people do"
            held = "" if entry.valid else ", no longer held valid"
            lines.append(f"- {entry.content} (says {kind}; utility {entry.utility}{held})")
    return "\n".join(lines) or "- none"


def cue_data(cues: Sequence[Cue]) -> list[dict[str, Any]]:
    """Cues with the keys of the paper's figure C1.

    Args:
        cues: The cues.

    Returns:
        One dict each.
    """
    return [
        {
            "type": cue.text if isinstance(cue, SeenCue) else CUE_TEXT[cue.type],
            "distance_tiles": cue.distance_tiles,
            "severity": cue.severity,
        }
        for cue in cues
    ]


def cue_type(text: str) -> CueType:
    """The environment's code for a cue named by a model.

    Args:
        text: Its type in words.

    Returns:
        The code; NONE where the words are no type of cue.
    """
    words = " ".join(text.lower().replace("_", " ").replace("-", " ").split())
    return next((kind for kind, name in CUE_TEXT.items() if name == words), CueType.NONE)


def context_data(context: Context) -> dict[str, Any]:
    """A context with the exact keys of the paper's figure C1.

    Args:
        context: The context.

    Returns:
        A JSON-ready dict.
    """
    away = context.authority_distance_tiles
    return {
        "authority_present": context.authority_present,
        "authority_distance_tiles": "inf" if away is None else away,
        "peer_behaviors": [peer.text for peer in context.peer_behaviors],
        "situational_cues": cue_data(context.situational_cues),
        "scene_summary": context.scene_summary,
    }


def observed(context: Context) -> str:
    """The raw observation in words, for a model that perceives.

    Args:
        context: The environment's own structure.

    Returns:
        Several lines, without the context record's own keys.
    """
    lines = [
        f"A {CUE_TEXT[cue.type]} of severity {cue.severity}, {cue.distance_tiles} tiles away "
        f"({compass(cue.dx, cue.dy)})."
        for cue in context.situational_cues
    ] or ["No cue stands out."]
    if context.authority_present:
        lines.append(f"An officer is in sight at {context.authority_distance_tiles} tiles.")
    else:
        lines.append("No officer is in sight.")
    order = instruction(context.instruction, context.instruction_direction, granted=False)
    lines += [order] if order else []
    lines += [peer.text for peer in context.peer_behaviors] or ["Nobody else is around."]
    if context.signal is not SignalState.NONE:
        lines.append(f"The nearest pedestrian signal shows {context.signal.name.lower()}.")
    if context.late:
        lines.append("The appointment has already begun.")
    return "\n".join(lines)


def instruction(kind: Instruction, direction: Direction | None, *, granted: bool) -> str | None:
    """An officer's order in force.

    Args:
        kind: Which order.
        direction: Where a redirect points.
        granted: Whether the officer in sight let the person pass before.

    Returns:
        A sentence; None without an order or a permission.
    """
    if kind is Instruction.HOLD:
        return "An officer orders you to stop and hold back."
    if kind is Instruction.REDIRECT:
        where = "" if direction is None else f", towards the {_COMPASS[direction]}"
        return f"An officer orders you to turn back and go the legal direction{where}."
    if kind is Instruction.PASS or granted:
        return "The officer in sight has waved you on: going on is allowed by them."
    return None


def routes(escape: Escape | None, errand: Escape | None, *, flees: bool) -> str | None:
    """What the planner knows of the ways.

    Args:
        escape: The ways to safety.
        errand: The ways to the scheduled goal.
        flees: Whether there is something to flee from.

    Returns:
        Two or three sentences; None where nothing is known.
    """
    facts = escape if flees else errand
    if facts is None:
        return None
    goal = "safety" if flees else "the destination"
    if facts.lawful_steps is None:
        first = f"No way that keeps every rule leads to {goal}."
    else:
        wait = _banded(facts.lawful_wait_steps * SECONDS_PER_STEP)
        waiting = f", and up to {wait} seconds at a red light" if wait else ", without a red light"
        walking = math.ceil(facts.lawful_steps * SECONDS_PER_STEP)
        first = f"Keeping every rule, {goal} is {walking} seconds of walking away{waiting}."
    if facts.shortest_steps is None:
        return first
    breaking = math.ceil(facts.shortest_steps * SECONDS_PER_STEP)
    second = f"The shortest way that breaks traffic rules takes {breaking} seconds."
    third = "lies" if facts.meets_rules else "does not lie"
    return f"{first} {second} What is in question {third} on that shortest way."


def _banded(seconds: float) -> int:
    return math.ceil(seconds / WAIT_BAND) * WAIT_BAND


def assessment_data(assessment: Assessment) -> dict[str, Any]:
    """The assessment tuple.

    Args:
        assessment: The five scalars.

    Returns:
        The scalars and the counts behind the empirical one, without reasons.
    """
    return {
        name: getattr(assessment, name)
        for name in (
            *("risk", "p_emp", "n_observed", "n_complying", "p_norm", "benefit", "legitimacy"),
        )
    }


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """A verdict as it is carried out.

    Args:
        verdict: The verdict.

    Returns:
        Decision, rules and justification.
    """
    return {
        "decision": verdict.decision.value,
        "rules": [RULE_TEXT[rule] for rule in verdict.rules],
        "justification": verdict.justification,
    }


FREEDOM = "whoever breaks these rules breaks any other that stands in the way as well"
"""What is told where a violation is not kept to the rules that it targets."""


def plan_in_words(request: ActionRequest) -> str:
    """What the planner is about to do.

    Args:
        request: The verdict and its situation.

    Returns:
        A sentence.
    """
    goal = "the safe zone" if request.context.escaping else "the scheduled destination"
    if request.verdict.violates and not request.scoped:
        return f"Go to {goal} by the shortest way, whatever rules it breaks."
    if request.verdict.violates:
        return f"Go to {goal} by the shortest way that breaks no rule but those in question."
    return f"Go to {goal} by the way that keeps every rule, waiting where it must."


def actions_in_words(actions: Sequence[TimedAction]) -> list[str]:
    """An action list.

    Args:
        actions: Its entries.

    Returns:
        One string each.
    """
    return [f"{action.text} ({action.seconds}s)" for action in actions]


def feedback(request: OutcomeRequest) -> str:
    """What the environment made of an act.

    Args:
        request: The act.

    Returns:
        A sentence or two.
    """
    moved = "The person moved on." if request.moved else "The person stayed where they were."
    officer = "An officer sanctioned it." if request.sanctioned else "No officer reacted."
    return f"{moved} {officer}"
