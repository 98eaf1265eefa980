"""What a PAVE person keeps: roads walked beforehand, reasons given, outcomes seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from pave_policy.memory.stream import EntryKind, MemoryStream

KEPT_REASONS = 3
"""Earlier justifications shown for the same situation (requirement C-44)."""


class Memory:
    """One person's memory of an episode: a stream, which nights do not empty.

    Attributes:
        stream: Everything remembered.
        outcomes: Verdicts paired with their observed outcomes (paper section 3.4).
        now: The current tick, counted over days; new entries are created at it.
    """

    def __init__(self, roads: tuple[str, ...]) -> None:
        """Starts with the road network.

        Args:
            roads: What the walk beforehand left in memory.
        """
        self.stream = MemoryStream()
        self.now = 0
        self.outcomes = Outcomes(self)
        self._reasons: dict[Hashable, deque[str]] = {}
        for text in roads:
            self.stream.add(EntryKind.ROAD, text, now=0)

    @property
    def roads(self) -> tuple[str, ...]:
        """The road network."""
        return tuple(entry.text for entry in self.stream.of(EntryKind.ROAD))

    def keep_reason(self, situation: Hashable, text: str) -> None:
        """Logs a justification, for later steps to refer back to (paper section 3.3).

        Args:
            situation: What it was given in.
            text: The justification.
        """
        self.stream.add(EntryKind.JUSTIFICATION, text, self.now)
        self._reasons.setdefault(situation, deque(maxlen=KEPT_REASONS)).append(text)

    def reasons(self, situation: Hashable) -> tuple[str, ...]:
        """Earlier justifications in the same situation.

        Args:
            situation: The situation.

        Returns:
            The last few, oldest first.
        """
        return tuple(self._reasons.get(situation, ()))


class Outcomes:
    """The outcomes in a memory, oldest first."""

    def __init__(self, memory: Memory) -> None:
        """Takes the memory that it shows.

        Args:
            memory: The memory.
        """
        self._memory = memory

    def __len__(self) -> int:
        """How many outcomes there are."""
        return len(self._memory.stream.of(EntryKind.OUTCOME))

    def __getitem__(self, number: int) -> str:
        """The outcome of a number."""
        return self._memory.stream.of(EntryKind.OUTCOME)[number].text

    def append(self, text: str) -> None:
        """Adds an outcome.

        Args:
            text: A verdict and what came of it.
        """
        self._memory.stream.add(EntryKind.OUTCOME, text, self._memory.now)
