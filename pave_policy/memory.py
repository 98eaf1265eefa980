"""What a person keeps in mind: the road network walked beforehand, reasons given, outcomes seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from voville_env.town.model import Town

KEPT_REASONS = 3
"""Earlier justifications shown for the same situation (requirement C-44)."""


def warm_up(town: Town) -> tuple[str, ...]:
    """What a walk along the road network leaves in memory (paper section 4, MEM-01).

    Args:
        town: The town.

    Returns:
        One entry for each intersection, each crosswalk and each one-way street.
    """
    entries = []
    for crossing in town.intersections:
        entries.append(f"There is a signalised intersection {crossing.name}.")
        for box in crossing.crosswalks:
            entries.append(f"There is a crosswalk of {crossing.name} at ({box.x}, {box.y}).")
    for street in town.streets:
        if street.direction is not None:
            entries.append(f"{street.name} is one-way, legal direction {street.direction.name}.")
    return tuple(entries)


@dataclass
class Memory:
    """One person's memory of an episode.

    Attributes:
        roads: The road network.
        outcomes: Verdicts paired with their observed outcomes (paper section 3.4).
    """

    roads: tuple[str, ...]
    outcomes: list[str] = field(default_factory=list)
    _reasons: dict[Hashable, deque[str]] = field(default_factory=dict)

    def keep_reason(self, situation: Hashable, text: str) -> None:
        """Logs a justification, for later steps to refer back to (paper section 3.3).

        Args:
            situation: What it was given in.
            text: The justification.
        """
        self._reasons.setdefault(situation, deque(maxlen=KEPT_REASONS)).append(text)

    def reasons(self, situation: Hashable) -> tuple[str, ...]:
        """Earlier justifications in the same situation.

        Args:
            situation: The situation.

        Returns:
            The last few, oldest first.
        """
        return tuple(self._reasons.get(situation, ()))
