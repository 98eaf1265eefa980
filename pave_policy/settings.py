"""The settings of the PAVE policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pave_policy.records import GateMode
from voville_env.errors import InvalidValueError, invalid


@dataclass(frozen=True)
class PaveSettings:
    """What can be switched in PAVE; every ablation is one value of this record.

    Attributes:
        gate: Who keeps the legitimacy gate: `code`, `prompt` or `off`.
        oscillation_guard: Whether a verdict is reused in an unchanged situation.
    """

    gate: GateMode = GateMode.CODE
    oscillation_guard: bool = True

    def __post_init__(self) -> None:
        """Checks the values; a gate may be given by its name.

        Raises:
            InvalidValueError: If one is not allowed.
        """
        if self.gate not in list(GateMode):
            raise invalid("gate", self.gate, [mode.value for mode in GateMode])
        object.__setattr__(self, "gate", GateMode(self.gate))
        if not isinstance(self.oscillation_guard, bool):
            raise InvalidValueError(
                f"oscillation_guard is {self.oscillation_guard!r}; allowed: True, False"
            )

    def described(self) -> dict[str, Any]:
        """The settings as they identify a policy.

        Returns:
            JSON-ready values; the planner carries out every verdict (requirement C-74).
        """
        return {
            "gate": self.gate.value,
            "oscillation_guard": self.oscillation_guard,
            "emulation_executor": "planner",
        }
