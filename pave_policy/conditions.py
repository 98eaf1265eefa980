"""The conditions of the benchmark, each one line over the settings of PAVE."""

from __future__ import annotations

from functools import partial

from pave_policy.backbone import Backbone
from pave_policy.pave import PavePolicy
from pave_policy.records import GateMode
from pave_policy.settings import PaveSettings, Perception


def condition(
    name: str,
    gate: GateMode,
    backbone: Backbone | None = None,
    *,
    oscillation_guard: bool = True,
    perception: Perception = Perception.STRUCTURE,
    elicit_threshold: bool = False,
    peer_text: bool = False,
) -> PavePolicy:
    """PAVE under one condition.

    Args:
        name: Shown in tables.
        gate: Who keeps the legitimacy gate.
        backbone: Who answers the operations; the surrogate unless given.
        oscillation_guard: Whether a verdict is reused in an unchanged situation.
        perception: `structure` or `llm`.
        elicit_threshold: Whether thresholds are asked of the backbone.
        peer_text: Whether people read observer-view sentences about those they see.

    Returns:
        The policy.

    Raises:
        InvalidValueError: If a setting is not allowed.
    """
    settings = PaveSettings(gate, oscillation_guard, perception, elicit_threshold, peer_text)
    return PavePolicy(settings, backbone, name)


pave = partial(condition, "pave", GateMode.CODE)
"""PAVE as described: the gate is kept by code, after the model has spoken."""
pave_prompt_gate = partial(condition, "pave-prompt-gate", GateMode.PROMPT)
"""The gate is told to the model and left to it, as in the paper's own text (C-42)."""
pave_no_gate = partial(condition, "pave-no-gate", GateMode.OFF)
"""Without the gate: legitimacy is assessed and shown, but never decides (BAS-02)."""
