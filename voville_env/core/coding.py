"""Whole numbers as floats: one table a kind of number, which is all that a flat vector needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.core import codes, fields

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Coding:
    """How one number becomes one or more floats.

    Attributes:
        text: What the table of the docs says.
        low: The number that the first row of the table stands for; smaller ones are read as it.
        table: (values, width) float32; the last row also stands for all larger numbers.
    """

    text: str
    low: int
    table: Floats

    @property
    def width(self) -> int:
        """Floats made of one number."""
        return int(self.table.shape[1])


@dataclass(frozen=True, eq=False)
class Part:
    """Columns of an observation field that are coded alike.

    Attributes:
        columns: Names of neighbouring columns.
        coding: How each of their numbers becomes floats.
        minus: Another column of the same row that is subtracted first, or None.
    """

    columns: tuple[str, ...]
    coding: Coding
    minus: str | None = None

    @property
    def width(self) -> int:
        """Floats made of one row."""
        return len(self.columns) * self.coding.width


@dataclass(frozen=True, eq=False)
class Block:
    """One field of the observation: its parts, repeated for each row.

    Attributes:
        field: Field of the observation.
        rows: Rows told; None where the field is one row.
        parts: The parts, in order.
    """

    field: str
    rows: range | None
    parts: tuple[Part, ...]

    @property
    def stride(self) -> int:
        """Floats of one row."""
        return sum(part.width for part in self.parts)

    @property
    def width(self) -> int:
        """Floats of all rows."""
        return self.stride * (1 if self.rows is None else len(self.rows))


def _frozen(table: NDArray[Any]) -> Floats:
    made = np.ascontiguousarray(table, dtype=np.float32)
    made.flags.writeable = False
    return made


def scaled(low: int, high: int) -> Coding:
    """A number divided by its largest size.

    Args:
        low: Smallest number.
        high: Largest number.

    Returns:
        One float in [-1, 1].
    """
    values = np.arange(low, high + 1, dtype=np.float64) / max(abs(low), abs(high))
    return Coding(f"divided by {max(abs(low), abs(high))}", low, _frozen(values[:, None]))


def _logarithm(values: NDArray[Any], top: int) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = np.sign(values) * np.log1p(np.abs(values)) / np.log1p(top)
    return scaled


def log(low: int, high: int) -> Coding:
    """A signed number on a logarithmic scale: small ones far apart, large ones close together.

    Args:
        low: Smallest number.
        high: Largest number.

    Returns:
        One float in [-1, 1]; 0 stays 0.
    """
    top = max(abs(low), abs(high))
    text = f"log(1 + v) / log({1 + top})" if low >= 0 else f"±log(1 + abs(v)) / log({1 + top})"
    return Coding(text, low, _frozen(_logarithm(np.arange(low, high + 1), top)[:, None]))


def distance(high: int, none: int) -> Coding:
    """A distance that may be missing.

    Args:
        high: Largest number.
        none: The number that says that there is none.

    Returns:
        Two floats: whether there is one, and its logarithm as in `log`; both 0 for `none`.
    """
    values = np.arange(min(none, 0), high + 1)
    there = values != none
    table = np.stack([there, np.where(there, _logarithm(values, high), 0.0)], axis=1)
    text = f"0, 0 for {none}; else 1, log(1 + v) / log({1 + high})"
    return Coding(text, int(values[0]), _frozen(table))


def number(high: int) -> Coding:
    """An index that may be missing.

    Args:
        high: Largest index.

    Returns:
        Two floats: whether there is one, and which; both 0 for -1.
    """
    values = np.arange(codes.NONE, high + 1)
    there = values != codes.NONE
    table = np.stack([there, np.where(there, values / high, 0.0)], axis=1)
    return Coding(f"0, 0 for -1; else 1, v / {high}", codes.NONE, _frozen(table))


def one_hot(low: int, high: int, none: int | None = None) -> Coding:
    """A code.

    Args:
        low: Smallest code.
        high: Largest code.
        none: The code that becomes zeros; every code has a float of its own unless given.

    Returns:
        One float a code.
    """
    values = np.arange(low, high + 1)
    hot = values[values != none] if none is not None else values
    text = f"one-hot of {hot[0]} to {hot[-1]}" + ("" if none is None else f"; zeros for {none}")
    return Coding(text, low, _frozen(values[:, None] == hot[None, :]))


def bits(count: int) -> Coding:
    """A bit mask.

    Args:
        count: Number of bits.

    Returns:
        One float a bit, the lowest first.
    """
    values = np.arange(1 << count)
    return Coding(f"{count} bits", 0, _frozen(values[:, None] >> np.arange(count) & 1))


def followed() -> Coding:
    """Whether a rule was followed.

    Returns:
        One float.
    """
    return Coding("1 yes, -1 no, 0 none", codes.NONE, _frozen(np.array([[0], [-1], [1]])))


def tile() -> Coding:
    """What is on a tile.

    Returns:
        Two floats: nobody can step there now; it is carriageway.
    """
    values = np.arange(256)
    terrain = values & fields.TERRAIN_MASK
    barred = np.isin(terrain, codes.IMPASSABLE) | (values & (fields.OCCUPIED | fields.BURNING) > 0)
    table = np.stack([barred, np.isin(terrain, codes.CARRIAGEWAY)], axis=1)
    text = "1 if a wall, an obstacle, a person or a fire; 1 if a road or crosswalk"
    return Coding(text, 0, _frozen(table))


def flag() -> Coding:
    """A number that is 0 or 1.

    Returns:
        One float.
    """
    return Coding("as it is", 0, _frozen(np.array([[0], [1]])))
