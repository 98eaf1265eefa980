"""The conditions of the benchmark, each one line over the settings of PAVE."""

from __future__ import annotations

from pave_policy.backbone import Backbone
from pave_policy.pave import PavePolicy
from pave_policy.records import GateMode
from pave_policy.settings import PaveSettings


def pave(backbone: Backbone | None = None, *, oscillation_guard: bool = True) -> PavePolicy:
    """PAVE as described.

    Args:
        backbone: Who answers the operations; the surrogate unless given.
        oscillation_guard: Whether a verdict is reused in an unchanged situation.

    Returns:
        The policy.
    """
    return PavePolicy(PaveSettings(GateMode.CODE, oscillation_guard), backbone, "pave")


def pave_no_gate(backbone: Backbone | None = None, *, oscillation_guard: bool = True) -> PavePolicy:
    """PAVE without its gate: legitimacy is assessed and shown, but never decides (BAS-02).

    Args:
        backbone: Who answers the operations; the surrogate unless given.
        oscillation_guard: Whether a verdict is reused in an unchanged situation.

    Returns:
        The policy.
    """
    return PavePolicy(PaveSettings(GateMode.OFF, oscillation_guard), backbone, "pave-no-gate")
