"""The settings of the PAVE policy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from pave_policy.records import GateMode, PeerShare
from voville_env.errors import InvalidValueError, invalid


class Perception(StrEnum):
    """Where the context record comes from."""

    STRUCTURE = "structure"
    LLM = "llm"


class Executor(StrEnum):
    """What carries out a verdict: the planner, or the model's own action list."""

    PLANNER = "planner"
    LLM = "llm"


class Guard(StrEnum):
    """What keeps verdicts from swinging to and fro (requirement C-44).

    With `hysteresis` a verdict is reused in an unchanged situation; with `memory` it is asked for
    every time. Both show earlier justifications to whoever decides; `off` does neither.
    """

    HYSTERESIS = "hysteresis"
    MEMORY = "memory"
    OFF = "off"


class GateScope(StrEnum):
    """Where the gate is evaluated: at every opportunity, or near a signalised intersection."""

    OPPORTUNITY = "opportunity"
    ZONE = "zone"


class AuthorityMode(StrEnum):
    """How an order acts: through the perceived risk, or by forcing to comply."""

    RISK = "risk"
    HARD = "hard"


class LegitimacyInputs(StrEnum):
    """What the legitimacy assessment knows of ways: nothing, as in the paper's slots, or costs."""

    PAPER = "paper"
    ROUTE_AWARE = "route_aware"


_KINDS: dict[str, type[StrEnum]] = {
    "gate": GateMode,
    "perception": Perception,
    "oscillation_guard": Guard,
    "emulation_executor": Executor,
    "p_emp_semantics": PeerShare,
    "gate_scope": GateScope,
    "authority_mode": AuthorityMode,
    "legitimacy_inputs": LegitimacyInputs,
}


@dataclass(frozen=True)
class PaveSettings:
    """What can be switched in PAVE; every ablation is one value of this record.

    Attributes:
        gate: Who keeps the legitimacy gate: `code`, `prompt` or `off`.
        threshold: One legitimacy threshold for everybody; None for each person's own.
        sees_officers: Whether people perceive officers, their orders and their sanctions.
        scoped: Whether a violation is kept to the rules that the verdict targets.
        oscillation_guard: `hysteresis`, `memory` or `off`.
        perception: Whether the context comes from the environment's own structure or is asked of
            the backbone (requirement C-72).
        elicit_threshold: Whether thresholds are asked of the backbone at the start of an episode,
            rather than taken from the personas (requirement C-45); nobody is asked under a shared
            threshold.
        peer_text: Whether people read the observer-view sentences about those they see, rather than
            plain words for the environment's codes.
        emulation_executor: What carries out a verdict: `planner` or `llm` (requirement C-74).
        p_emp_semantics: Which share of the people observed is asked for and weighed: that of
            `compliance` or of `violation` (requirement C-39).
        gate_scope: `opportunity` or `zone` (requirement C-12).
        authority_mode: `risk` or `hard` (requirement C-18).
        legitimacy_inputs: `paper` or `route_aware` (requirement C-34).
    """

    gate: GateMode = GateMode.CODE
    threshold: int | None = None
    sees_officers: bool = True
    scoped: bool = True
    oscillation_guard: Guard = Guard.HYSTERESIS
    perception: Perception = Perception.STRUCTURE
    elicit_threshold: bool = False
    peer_text: bool = False
    emulation_executor: Executor = Executor.PLANNER
    p_emp_semantics: PeerShare = PeerShare.COMPLIANCE
    gate_scope: GateScope = GateScope.OPPORTUNITY
    authority_mode: AuthorityMode = AuthorityMode.RISK
    legitimacy_inputs: LegitimacyInputs = LegitimacyInputs.ROUTE_AWARE

    def __post_init__(self) -> None:
        """Checks the values; a member of a closed set may be given by its name.

        Raises:
            InvalidValueError: If one is not allowed.
        """
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in list(kind):
                raise invalid(name, value, [mode.value for mode in kind])
            object.__setattr__(self, name, kind(value))
        for name in ("sees_officers", "scoped", "elicit_threshold", "peer_text"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise InvalidValueError(f"{name} is {value!r}; allowed: true, false")
        given = self.threshold
        if given is not None and (type(given) is not int or not 1 <= given <= 100):
            typed = str(given).lower() if isinstance(given, bool) else repr(given)
            raise InvalidValueError(
                f"threshold is {typed}; allowed: whole numbers from 1 to 100; without one "
                "each person has their own"
            )

    def described(self) -> dict[str, Any]:
        """The settings as they identify a policy.

        Returns:
            JSON-ready values.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.value if isinstance(value, StrEnum) else value
            for name, value in values.items()
        }
