"""The conditions of the benchmark, each one line over the settings of PAVE."""

from __future__ import annotations

from dataclasses import fields, replace
from inspect import Parameter, Signature
from typing import Any

from pave_policy.backbone import Backbone
from pave_policy.calibration import SurrogateSettings
from pave_policy.pave import PavePolicy
from pave_policy.records import GateMode
from pave_policy.settings import PaveSettings
from pave_policy.surrogate import Surrogate
from voville_env.errors import InvalidValueError, invalid

SHARED_THRESHOLD = 60
"""The median of the published thresholds (Table 4)."""
_DEFINING = frozenset({"gate", "sees_officers", "scoped"})
_OF_SURROGATE = ("risk_model", "risk_veto", "p_emp_estimator", "slip_rate")


class Condition:
    """PAVE with something changed: calling it makes the policy."""

    def __init__(self, name: str, settings: PaveSettings | None = None) -> None:
        """Takes what defines the condition.

        Args:
            name: Shown in tables.
            settings: What differs; the other values are the defaults of the options.
        """
        self.name = name
        self.settings = settings or PaveSettings()
        self.__signature__ = _signature(self.settings)

    def __call__(self, backbone: Backbone | None = None, **options: Any) -> PavePolicy:
        """Makes the policy.

        Args:
            backbone: Who answers the operations; the surrogate unless given.
            **options: Fields of `PaveSettings` that define no condition, and the choices of the
                surrogate: `risk_model`, `risk_veto`, `p_emp_estimator` and `slip_rate`.

        Returns:
            The policy.

        Raises:
            InvalidValueError: If an option is not known, or its value not allowed, or it is one of
                the surrogate's while something else answers.
        """
        allowed = list(self.__signature__.parameters)[1:]
        for key in options:
            if key not in allowed:
                raise invalid(f"option of {self.name}", key, allowed)
        chosen = {key: options.pop(key) for key in _OF_SURROGATE if key in options}
        settings = replace(self.settings, **options)
        return PavePolicy(settings, _adjusted(backbone, chosen), self.name)


def _signature(settings: PaveSettings) -> Signature:
    """The options with their defaults, for whoever asks what a condition takes."""
    constants = SurrogateSettings()
    names = [field.name for field in fields(settings) if field.name not in _DEFINING]
    defaults = {name: getattr(settings, name) for name in names}
    defaults |= {name: getattr(constants, name) for name in _OF_SURROGATE}
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()
    ]
    return Signature(
        [Parameter("backbone", Parameter.POSITIONAL_OR_KEYWORD, default=None), *options]
    )


def _adjusted(backbone: Backbone | None, chosen: dict[str, Any]) -> Backbone | None:
    """The backbone with the surrogate's options, which no other one has."""
    if not chosen:
        return backbone
    if backbone is None:
        return Surrogate().adjusted(**chosen)
    if isinstance(backbone, Surrogate):
        return backbone.adjusted(**chosen)
    raise InvalidValueError(
        f"{', '.join(chosen)} belongs to the surrogate, and {backbone.name!r} answers; "
        "allowed: leave it out, or answer with the surrogate"
    )


pave = Condition("pave")
"""PAVE as described: the gate is kept by code, after the model has spoken."""
pave_prompt_gate = Condition("pave-prompt-gate", PaveSettings(gate=GateMode.PROMPT))
"""The gate is told to the model and left to it, as in the paper's own text (C-42)."""
pave_no_gate = Condition("pave-no-gate", PaveSettings(gate=GateMode.OFF))
"""Without the gate: legitimacy is assessed and shown, but never decides (BAS-02)."""
pave_fixed_threshold = Condition("pave-fixed-threshold", PaveSettings(threshold=SHARED_THRESHOLD))
"""One threshold for everybody (BAS-06)."""
pave_no_authority = Condition("pave-no-authority", PaveSettings(sees_officers=False))
"""Nobody perceives officers, their orders or their sanctions (BAS-06)."""
pave_no_scope = Condition("pave-no-scope", PaveSettings(scoped=False))
"""A verdict to violate frees from every rule, not from those alone that it targets."""
