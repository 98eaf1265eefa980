"""Emulation, the fourth PAVE module: from a verdict to a way, an action list and what others see.

The planner carries out the route; the action list is its surface form (requirement C-74). A
violation is scoped: the plan may break the rules that the verdict targets, no other (section 3.4).
"""

from __future__ import annotations

from pave_policy.backbone import ActionRequest, Backbone, OutcomeRequest
from pave_policy.outcome import Failure
from pave_policy.phrases import BREAKING, SEEN_BREAKING, listed
from pave_policy.records import OutcomeNote, Plan, Style, TimedAction, Verdict
from voville_env.core.codes import TRIGGER_RELEVANT, CueType, Route, Rule, rule_bits
from voville_env.observation import Context
from voville_env.policy import PersonaCard


def route_for(verdict: Verdict, *, scoped: bool = True) -> Route:
    """Which rules the way of a verdict keeps.

    Args:
        verdict: The verdict.
        scoped: Whether a violation is kept to the rules that the verdict targets.

    Returns:
        Lawful when complying; otherwise the way that waives the traffic rules, or all rules where
        the verdict targets any other or nothing keeps it to those it targets.
    """
    if not verdict.violates:
        return Route.LAWFUL
    beyond_traffic = rule_bits(verdict.rules) & ~TRIGGER_RELEVANT
    return Route.UNRESTRICTED if beyond_traffic or not scoped else Route.SCOPED


def style_for(context: Context) -> Style:
    """How an act is carried out: people run from a hazard and walk otherwise.

    Args:
        context: The perceived context.

    Returns:
        The style.
    """
    flees = any(cue.type is CueType.FIRE for cue in context.situational_cues)
    return Style.RUN if flees else Style.WALK


def template_actions(request: ActionRequest) -> tuple[TimedAction, ...]:
    """A plain action list for one tick: two entries of five seconds.

    Args:
        request: The verdict and its situation.

    Returns:
        The entries.
    """
    verdict, context = request.verdict, request.context
    pace = "run" if style_for(context) is Style.RUN else "walk"
    target = "the safe zone" if context.escaping else "the destination"
    if verdict.violates:
        first = f"Look around, then {' and '.join(BREAKING[rule] for rule in verdict.rules)}"
        bound = "breaking nothing else" if request.scoped else "whatever else it breaks"
        second = f"{pace.capitalize()} on towards {target}, {bound}"
    else:
        first = f"Keep to {listed(verdict.rules)}"
        second = f"{pace.capitalize()} along the lawful way towards {target}, waiting where it must"
    return (TimedAction(text=first, seconds=5), TimedAction(text=second, seconds=5))


def template_note(request: OutcomeRequest) -> OutcomeNote:
    """A plain observer's note.

    Args:
        request: The act.

    Returns:
        The note.
    """
    verdict = request.verdict
    broke = verdict.violates and request.moved
    if broke:
        behavior = f"A person {' and '.join(SEEN_BREAKING[rule] for rule in verdict.rules[:2])}."
    elif request.moved:
        behavior = f"A person walks on and keeps to {listed(verdict.rules[:2])}."
    else:
        behavior = f"A person stays where they are and keeps to {listed(verdict.rules[:2])}."
    outcome = "an officer sanctions it" if request.sanctioned else "no officer reacts"
    return OutcomeNote(
        observed_behavior=behavior, observed_outcome=outcome, rule_followed=not broke
    )


async def emulate(
    backbone: Backbone,
    verdict: Verdict,
    context: Context,
    persona: PersonaCard,
    *,
    scoped: bool = True,
) -> tuple[Plan, Failure | None]:
    """Turns a verdict into a plan for the tick.

    Args:
        backbone: Who words the action list; a plain list stands in where that fails.
        verdict: The verdict.
        context: The perceived context.
        persona: The person.
        scoped: Whether a violation is kept to the rules that the verdict targets.

    Returns:
        The plan, and why a plain list stands in, if it does.

    Raises:
        CallFailedError: If the call itself failed.
    """
    request = ActionRequest(verdict, context, persona, scoped)
    outcome = await backbone.emulate_action(request)
    outcome.conduct("EmulateAction")
    actions = outcome.value
    targeted = verdict.rules if scoped else tuple(Rule)
    may_break: tuple[Rule, ...] = targeted if verdict.violates else ()
    plan = Plan(
        route=route_for(verdict, scoped=scoped),
        may_break=may_break,
        style=style_for(context),
        actions=template_actions(request) if actions is None else actions,
    )
    return plan, outcome.failure


async def propagate(
    backbone: Backbone, request: OutcomeRequest
) -> tuple[OutcomeNote, Failure | None]:
    """Words an act as others see it.

    Args:
        backbone: Who words it; a plain note stands in where that fails.
        request: The act.

    Returns:
        The note, and why a plain one stands in, if it does.

    Raises:
        CallFailedError: If the call itself failed.
    """
    outcome = await backbone.propagate_outcome(request)
    outcome.conduct("PropagateOutcome")
    note = template_note(request) if outcome.value is None else outcome.value
    return note, outcome.failure
