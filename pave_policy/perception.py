"""Perception, the first PAVE module: from an observation to the context record (section 3.1)."""

from __future__ import annotations

from pave_policy.backbone import Backbone, PerceptionRequest
from pave_policy.outcome import Failure
from voville_env.observation import Context, Observation, to_context
from voville_env.policy import PersonaCard


async def perceive(
    backbone: Backbone, observation: Observation, persona: PersonaCard
) -> tuple[Context, Failure | None]:
    """Perceives the context of one person.

    Args:
        backbone: Who perceives.
        observation: What reaches the person.
        persona: The person, who decides what is salient.

    Returns:
        The context, and why the environment's own structure stands in for it, if it does.
    """
    outcome = await backbone.perceive_context(PerceptionRequest(observation, persona))
    if outcome.value is None:
        return to_context(observation), outcome.failure
    return outcome.value, None
