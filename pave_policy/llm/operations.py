"""The operations that a model is asked for, and what stands in where it gives no usable answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PAVE_OPERATIONS: tuple[str, ...] = (
    "elicit_threshold",
    "perceive_context",
    "assess_risk",
    "assess_empirical",
    "assess_normative",
    "assess_benefit",
    "assess_legitimacy",
    "generate_verdict",
    "emulate_action",
    "propagate_outcome",
)
"""PAVE's ten, in the order of the paper's figures C0 to C9."""

GENERATIVE_OPERATIONS: tuple[str, ...] = (
    "rate_importance",
    "plan_day",
    "decompose_plan",
    "ask_focal_points",
    "draw_insights",
    "react",
)
"""The generative agent's six."""

OPERATIONS: tuple[str, ...] = (*PAVE_OPERATIONS, *GENERATIVE_OPERATIONS)
"""All that have a prompt."""

EMBED = "embed"
"""What the store and the ledger call a request for a vector, which has no prompt."""

FALLBACKS: Mapping[str, str] = MappingProxyType(
    {
        "elicit_threshold": "table",
        "perceive_context": "structure",
        "assess_risk": "comply",
        "assess_empirical": "comply",
        "assess_normative": "comply",
        "assess_benefit": "comply",
        "assess_legitimacy": "comply",
        "generate_verdict": "comply",
        "emulate_action": "plan",
        "propagate_outcome": "template",
        "rate_importance": "ordinary",
        "plan_day": "schedule",
        "decompose_plan": "entry",
        "ask_focal_points": "none",
        "draw_insights": "none",
        "react": "continue",
    }
)
"""What stands in where a model gave no usable answer (requirement C-70)."""


def agent_of(operation: str) -> str:
    """Which agent asks for an operation.

    Args:
        operation: One of `OPERATIONS`.

    Returns:
        ``"PAVE"`` or ``"generative"``.
    """
    return "PAVE" if operation in PAVE_OPERATIONS else "generative"
