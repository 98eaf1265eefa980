"""The memory stream: everything that one person remembers, in the order in which it came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class EntryKind(StrEnum):
    """Where an entry comes from."""

    ROAD = "road"
    OBSERVATION = "observation"
    PLAN = "plan"
    REFLECTION = "reflection"
    JUSTIFICATION = "justification"
    OUTCOME = "outcome"


@dataclass
class Entry:
    """One memory.

    Attributes:
        number: Its place in the stream, from 0.
        kind: Where it comes from.
        text: What is remembered.
        created: When, in ticks counted over days.
        accessed: When it was last retrieved, in the same ticks.
        importance: 1 to 10.
        vector: Its embedding of length 1; None until it is first needed.
        evidence: Numbers of the entries that it was concluded from.
    """

    number: int
    kind: EntryKind
    text: str
    created: int
    accessed: int
    importance: int
    vector: Vector | None = None
    evidence: tuple[int, ...] = ()


class MemoryStream:
    """The entries of one person in an episode; none is ever dropped."""

    def __init__(self) -> None:
        """Starts empty."""
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """The entries, oldest first."""
        return iter(self._entries)

    def __getitem__(self, number: int) -> Entry:
        """The entry of a number."""
        return self._entries[number]

    def add(
        self,
        kind: EntryKind,
        text: str,
        now: int,
        importance: int = 1,
        evidence: tuple[int, ...] = (),
    ) -> Entry:
        """Adds an entry.

        Args:
            kind: Where it comes from.
            text: What is remembered.
            now: The current tick, counted over days.
            importance: 1 to 10.
            evidence: Numbers of the entries that it was concluded from.

        Returns:
            The entry.
        """
        number = len(self._entries)
        entry = Entry(number, kind, text, now, now, importance, evidence=evidence)
        self._entries.append(entry)
        return entry

    def of(self, kind: EntryKind) -> tuple[Entry, ...]:
        """The entries of one kind.

        Args:
            kind: Where they come from.

        Returns:
            Those entries, oldest first.
        """
        return tuple(entry for entry in self._entries if entry.kind is kind)
