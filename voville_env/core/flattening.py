"""What the compiled kernel of flat vectors needs: the plan of all numbers, and records as bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.core import fields
from voville_env.core.coding import Block, Floats, Part
from voville_env.core.layout import OBSERVATION

_SIZE = OBSERVATION.itemsize
_FIELDS: dict[str, tuple[np.dtype[Any], int]] = {
    name: (OBSERVATION.fields[name][0], OBSERVATION.fields[name][1])  # type: ignore[index]
    for name in OBSERVATION.names or ()
}


@dataclass(frozen=True, eq=False)
class Flattener:
    """The compiled way from records to vectors.

    Attributes:
        kernel: `core.kernels.flatten.flatten_rows`.
        plan: (numbers, columns) uint32, by the columns of the kernel.
        lows: (numbers,) int64: what the first row of each table stands for.
        tables: All tables, one after another, and some zeros that may be read beyond the end.
        names: Fields that are read.
    """

    kernel: Any
    plan: NDArray[np.uint32]
    lows: NDArray[np.int64]
    tables: Floats
    names: tuple[str, ...]

    def write(self, seen: Mapping[str, NDArray[Any]], out: Floats) -> None:
        """Writes vectors.

        Args:
            seen: Field name to array `(..., *shape)` of the dtype that records have.
            out: `(n, floats)` float32, C-contiguous; `n` observations in the order of `seen`.
        """
        self.write_bytes(as_bytes(seen, self.names), out)

    def write_bytes(self, octets: NDArray[np.uint8], out: Floats) -> None:
        """Writes vectors.

        Args:
            octets: `(n, bytes of a record)`, C-contiguous.
            out: `(n, floats)` float32, C-contiguous.
        """
        from voville_env.core.compile import call

        octets.flags.writeable = False  # the kernel is compiled for arrays that are only read
        call(self.kernel, octets, octets.view(np.int16), self.plan, self.lows, self.tables, out)


def make_flattener(blocks: Sequence[Block]) -> Flattener | None:
    """Makes the plan of a layout.

    Args:
        blocks: The layout.

    Returns:
        The compiled way, or None where the JIT is switched off: plain Python would be slower than
        NumPy.
    """
    from voville_env.core.kernels import flatten

    if not hasattr(flatten.flatten_rows, "py_func"):
        return None
    return planned(blocks, flatten.flatten_rows)


def planned(blocks: Sequence[Block], kernel: Any) -> Flattener:
    """Makes the plan of a layout for a given kernel.

    Args:
        blocks: The layout.
        kernel: The kernel, compiled or not.

    Returns:
        The way from records to vectors.
    """
    from voville_env.core.kernels import flatten

    starts: dict[bytes, int] = {}
    tables: list[Floats] = []
    plan, lows, end = [], [], 0
    for kind, source, minus, part in _numbers(blocks):
        table = part.coding.table
        key = table.tobytes() + bytes([part.coding.width])
        if key not in starts:
            starts[key] = sum(kept.size for kept in tables)
            tables.append(table.reshape(-1))
        plan.append((kind, source, minus, len(table) - 1, starts[key], part.coding.width))
        lows.append(part.coding.low)
        end += part.coding.width
    _check_room(plan, end)
    tables.append(np.zeros(flatten.WIDE, np.float32))
    made = np.array(plan, np.uint32), np.array(lows, np.int64), np.concatenate(tables)
    for array in made:
        array.flags.writeable = False
    return Flattener(kernel, *made, tuple(block.field for block in blocks))


def _check_room(plan: Sequence[tuple[int, ...]], end: int) -> None:
    """Checks that what the kernel copies too much stays in the vector it belongs to."""
    from voville_env.core.kernels import flatten

    place = 0
    for *_, width in plan:
        if width > flatten.WIDE or (width > 2 and place + flatten.WIDE > end):
            raise AssertionError(f"{width} floats at {place} of {end} are too wide for the kernel")
        place += width


def _numbers(blocks: Sequence[Block]) -> Iterator[tuple[int, int, int, Part]]:
    """Kind, position and subtracted position of every number, in the order of the vector."""
    from voville_env.core.kernels import flatten

    for block in blocks:
        dtype, offset = _FIELDS[block.field]
        size = dtype.base.itemsize
        for row in block.rows or (0,):
            first = offset // size + row * dtype.shape[-1]
            for part in block.parts:
                minus, kind = 0, flatten.OCTET if size == 1 else flatten.WORD
                if part.minus is not None:
                    kind = flatten.DIFFERENCE
                    minus = first + fields.column_index(block.field, part.minus)
                for column in part.columns:
                    source = first + fields.column_index(block.field, column)
                    yield kind, source, minus, part


def fits(seen: Mapping[str, NDArray[Any]]) -> bool:
    """Whether all numbers have the dtypes of a record.

    Args:
        seen: Field name to array.

    Returns:
        True if `Flattener.write` may be called.
    """
    return all(array.dtype == _FIELDS[name][0].base for name, array in seen.items())


def bytes_of_records(records: NDArray[Any]) -> NDArray[np.uint8] | None:
    """The bytes of observation records, without a copy.

    Args:
        records: Any array.

    Returns:
        `(n, bytes of a record)`, or None where these are other records, not one after another, or
        none at all.
    """
    if records.dtype != OBSERVATION or records.size == 0 or not records.flags.c_contiguous:
        return None
    return records.view(np.ndarray).reshape(-1).view(np.uint8).reshape(-1, _SIZE)


def as_bytes(seen: Mapping[str, NDArray[Any]], names: Sequence[str]) -> NDArray[np.uint8]:
    """Observations as the bytes of records.

    Args:
        seen: Field name to array, all of one leading shape and of the dtypes of a record.
        names: Fields that are read.

    Returns:
        (n, bytes of a record) uint8, C-contiguous: a view where the fields lie in records one
        after another, else a copy. Only the bytes of the named fields mean anything.
    """
    first = seen[names[0]]
    leading = first.shape[: first.ndim - len(_FIELDS[names[0]][0].shape)]
    found = _in_place(seen, names, leading)
    if found is not None:
        return found
    records = np.empty(leading, OBSERVATION)
    for name in names:
        records[name] = seen[name]
    return records.reshape(-1).view(np.uint8).reshape(-1, _SIZE)


def _in_place(
    seen: Mapping[str, NDArray[Any]], names: Sequence[str], leading: tuple[int, ...]
) -> NDArray[np.uint8] | None:
    """The records that all fields are views of, if there are such."""
    owner = seen[names[0]].base
    if not isinstance(owner, np.ndarray) or not owner.flags.c_contiguous:
        return None
    strides = _strides(leading)
    begin = None
    for name in names:
        dtype, offset = _FIELDS[name]
        array = seen[name]
        if array.base is not owner or array.strides != strides + _inner(dtype):
            return None
        at = array.ctypes.data - offset
        begin = at if begin is None else begin
        if at != begin:
            return None
    count = math.prod(leading)
    start = (begin or 0) - owner.ctypes.data
    if start < 0 or start + count * _SIZE > owner.nbytes:
        return None
    return np.ndarray((count, _SIZE), np.uint8, owner, start)


@cache
def _inner(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Strides of the values of one field."""
    return np.empty(dtype.shape, dtype.base).strides


def _strides(leading: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of records of this shape that follow one another."""
    return tuple(_SIZE * math.prod(leading[axis + 1 :]) for axis in range(len(leading)))
