"""The settings of the PAVE policy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pave_policy.records import GateMode
from voville_env.errors import InvalidValueError, invalid


class Perception(StrEnum):
    """Where the context record comes from."""

    STRUCTURE = "structure"
    LLM = "llm"


@dataclass(frozen=True)
class PaveSettings:
    """What can be switched in PAVE; every ablation is one value of this record.

    Attributes:
        gate: Who keeps the legitimacy gate: `code`, `prompt` or `off`.
        oscillation_guard: Whether a verdict is reused in an unchanged situation.
        perception: Whether the context comes from the environment's own structure or is asked of
            the backbone (requirement C-72).
        elicit_threshold: Whether thresholds are asked of the backbone at the start of an episode,
            rather than taken from the personas (requirement C-45).
        peer_text: Whether people read the observer-view sentences about those they see, rather than
            plain words for the environment's codes.
    """

    gate: GateMode = GateMode.CODE
    oscillation_guard: bool = True
    perception: Perception = Perception.STRUCTURE
    elicit_threshold: bool = False
    peer_text: bool = False

    def __post_init__(self) -> None:
        """Checks the values; a gate may be given by its name.

        Raises:
            InvalidValueError: If one is not allowed.
        """
        for name, kind in (("gate", GateMode), ("perception", Perception)):
            value = getattr(self, name)
            if value not in list(kind):
                raise invalid(name, value, [mode.value for mode in kind])
            object.__setattr__(self, name, kind(value))
        for name in ("oscillation_guard", "elicit_threshold", "peer_text"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise InvalidValueError(f"{name} is {value!r}; allowed: True, False")

    def described(self) -> dict[str, Any]:
        """The settings as they identify a policy.

        Returns:
            JSON-ready values; the planner carries out every verdict (requirement C-74).
        """
        return {
            "gate": self.gate.value,
            "oscillation_guard": self.oscillation_guard,
            "perception": self.perception.value,
            "elicit_threshold": self.elicit_threshold,
            "peer_text": self.peer_text,
            "emulation_executor": "planner",
        }
