"""Perception, the first PAVE module: from an observation to the context record (section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pave_policy.backbone import Backbone, PerceptionRequest
from pave_policy.glance import Officer
from pave_policy.outcome import Failure
from voville_env.core.codes import NONE, Instruction
from voville_env.observation import Context, Observation, to_context
from voville_env.policy import PersonaCard

NOBODY = Officer(
    present=0,
    distance=NONE,
    dx=0,
    dy=0,
    instruction=Instruction.NONE,
    officer=NONE,
    direction=NONE,
    ticks_left=0,
)
"""The `authority` row of who perceives no officer."""
Heard = Mapping[tuple[int, int], str]
"""What is told of the people nearby, by their offset in tiles."""


def without_officers(observation: Observation) -> Observation:
    """An observation as if no officer were in sight and nothing ordered.

    Args:
        observation: What reaches the person.

    Returns:
        The same with an empty `authority` row.
    """
    row = np.array(NOBODY, dtype=observation["authority"].dtype)
    return {**observation, "authority": row}


async def perceive(
    backbone: Backbone | None,
    observation: Observation,
    persona: PersonaCard,
    heard: Heard | None = None,
) -> tuple[Context, Failure | None]:
    """Perceives the context of one person.

    Args:
        backbone: Who perceives; None takes the environment's own structure as it is.
        observation: What reaches the person.
        persona: The person, who decides what is salient.
        heard: Observer-view sentences of people in view, which replace the plain ones.

    Returns:
        The context, and why the environment's own structure stands in for it, if it does.

    Raises:
        CallFailedError: If the call itself failed.
    """
    context = with_words(to_context(observation), heard or {})
    if backbone is None:
        return context, None
    outcome = await backbone.perceive_context(PerceptionRequest(context, persona))
    outcome.conduct("PerceiveContext")
    if outcome.value is None:
        return context, outcome.failure
    return outcome.value, None


def with_words(context: Context, heard: Heard) -> Context:
    """Puts what is told of people in view in place of the plain words for what they do.

    Args:
        context: The context.
        heard: Sentences by offset in tiles.

    Returns:
        The context with those sentences; the codes stay as they are.
    """
    if not any((peer.dx, peer.dy) in heard for peer in context.peer_behaviors):
        return context
    peers = tuple(
        peer.model_copy(update={"text": heard.get((peer.dx, peer.dy), peer.text)})
        for peer in context.peer_behaviors
    )
    return context.model_copy(update={"peer_behaviors": peers})
