"""Observations as flat vectors of float32, for learners that take nothing else.

Every position comes from one observation column by a table: one-hot, bits or a scaled number. All
values lie in [-1, 1]. The action mask is no part of the vector and travels beside it.
`layout_table()` lists the positions, and `LEFT_OUT` what a vector does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from voville_env.core import codes, coding, fields
from voville_env.core.coding import Block, Coding, Floats, Part
from voville_env.core.flattening import Flattener, bytes_of_records, fits, make_flattener
from voville_env.core.layout import plain
from voville_env.errors import InvalidValueError

FLAT_VERSION = 1
"""Grows with every change of the layout; saved weights carry it."""
PEER_ROWS = 4
"""Nearest peers told."""
REACH = 2
"""Tiles of the window told in each direction."""
LEFT_OUT = (
    "the action mask, which travels beside the vector",
    "the peers in rows 5 to 8 of `peer_behaviors`, and the column `rule` of all peers",
    "the tiles more than two columns or rows away, and what kind of terrain the others are",
    "items on the ground",
)


def _parts(name: str, chosen: Mapping[str, Any]) -> tuple[Part, ...]:
    """One part a column; `chosen` maps a column to a function of its smallest and largest value."""
    parts = []
    for column, make in chosen.items():
        found = fields.FIELD[name].columns[fields.column_index(name, column)]
        parts.append(Part((column,), make(found.low, found.high)))
    return tuple(parts)


def _far(_: int, high: int) -> Coding:
    return coding.distance(high, codes.NONE)


def _kinds(low: int, high: int) -> Coding:
    return coding.one_hot(low, high, none=min(low, 0))


def _self_parts() -> tuple[Part, ...]:
    away = coding.log(-fields.MAX_COORDINATE, fields.MAX_COORDINATE)
    spread = {
        "x": coding.scaled,
        "y": coding.scaled,
        "day": coding.log,
        "tick": coding.log,
        "step": coding.log,
    }
    flags = ("late", "at_goal", "blocked", "carrying", "escaping")
    return (
        *_parts("self", {**spread, "goal_x": coding.scaled, "goal_y": coding.scaled}),
        Part(("goal_x",), away, minus="x"),
        Part(("goal_y",), away, minus="y"),
        Part(flags, coding.flag()),
    )


def _window() -> range:
    middle = fields.WINDOW // 2
    return range(middle - REACH, middle + REACH + 1)


@cache
def blocks() -> tuple[Block, ...]:
    """The layout, block by block in the order of the vector.

    Returns:
        The blocks.
    """
    offset = {"dx": coding.log, "dy": coding.log}
    near = tuple(fields.FIELD["tiles"].columns[k].name for k in _window())
    return (
        Block("self", None, _self_parts()),
        Block(
            "routes",
            range(fields.ROUTE_ROWS),
            _parts(
                "routes",
                {
                    "distance": _far,
                    "next_action": coding.one_hot,
                    "rules": lambda *_: coding.bits(len(codes.Rule)),
                    "wait": coding.log,
                },
            ),
        ),
        Block(
            "authority",
            None,
            _parts(
                "authority",
                {
                    "present": lambda *_: coding.flag(),
                    "distance": _far,
                    **offset,
                    "instruction": _kinds,
                    "officer": lambda _, high: coding.number(high),
                    "direction": _kinds,
                    "ticks_left": coding.log,
                },
            ),
        ),
        Block(
            "peer_behaviors",
            range(PEER_ROWS),
            _parts(
                "peer_behaviors",
                {
                    **offset,
                    "behaviour": _kinds,
                    "followed": lambda *_: coding.followed(),
                    "age": coding.log,
                },
            ),
        ),
        Block(
            "situational_cues",
            range(fields.CUE_ROWS),
            _parts(
                "situational_cues",
                {"type": _kinds, "distance": _far, "severity": coding.scaled, **offset},
            ),
        ),
        Block(
            "signal",
            None,
            _parts(
                "signal",
                {
                    "state": _kinds,
                    "ticks_to_change": coding.log,
                    "distance": lambda _, high: coding.distance(high, none=high),
                },
            ),
        ),
        Block(
            "rules",
            range(2),
            (Part(tuple(c.name for c in fields.FIELD["rules"].columns), coding.flag()),),
        ),
        Block("tiles", _window(), (Part(near, coding.tile()),)),
    )


def _size() -> int:
    return sum(block.width for block in blocks())


FLAT_SIZE = _size()
"""Floats of a vector."""


@dataclass(frozen=True, eq=False)
class _Step:
    """One table look-up of `flatten`: where its numbers are, and where its floats go."""

    field: str
    numbers: tuple[Any, ...]
    minus: tuple[Any, ...] | None
    low: int
    table: Floats
    items: NDArray[Any]  # the table with each row as one item
    place: slice
    shape: tuple[int, int]
    within: slice


def _as_items(table: Floats) -> NDArray[Any]:
    width = table.shape[1]
    return table[:, 0] if width == 1 else table.view(f"V{width * table.itemsize}")[:, 0]


def _slice(chosen: range) -> slice:
    return slice(chosen.start, chosen.stop)


@cache
def _plan() -> tuple[_Step, ...]:
    steps = []
    start = 0
    for block in blocks():
        rows = () if block.rows is None else (_slice(block.rows),)
        within = 0
        for part in block.parts:
            first = fields.column_index(block.field, part.columns[0])
            numbers = (..., *rows, slice(first, first + len(part.columns)))
            minus = None
            if part.minus is not None:
                taken = fields.column_index(block.field, part.minus)
                minus = (..., *rows, slice(taken, taken + 1))
            steps.append(
                _Step(
                    block.field,
                    numbers,
                    minus,
                    part.coding.low,
                    part.coding.table,
                    _as_items(part.coding.table),
                    slice(start, start + block.width),
                    (1 if block.rows is None else len(block.rows), block.stride),
                    slice(within, within + part.width),
                )
            )
            within += part.width
        start += block.width
    return tuple(steps)


def flat_space() -> spaces.Box:
    """The space of the vectors.

    Returns:
        A float32 `Box` of shape `(FLAT_SIZE,)` with the exact bounds of each position.
    """
    low = np.zeros(FLAT_SIZE, np.float32)
    high = np.zeros(FLAT_SIZE, np.float32)
    for step in _plan():
        for bound, edge in ((low, step.table.min(axis=0)), (high, step.table.max(axis=0))):
            rows = bound[step.place].reshape(step.shape)[:, step.within]
            rows[:] = np.tile(edge, rows.shape[1] // len(edge))
    return spaces.Box(low, high, dtype=np.float32)


def flatten(
    observation: Mapping[str, NDArray[Any]] | NDArray[Any], out: Floats | None = None
) -> Floats:
    """Turns observations into vectors.

    Args:
        observation: Field name to array with any leading axes, which all fields share: one agent's
            observation or the `(B, N, ...)` arrays of a batch. Or records of dtype
            `core.layout.OBSERVATION`. The action mask may be missing.
        out: Where to write, `(..., FLAT_SIZE)` float32; a new array unless given.

    Returns:
        `(..., FLAT_SIZE)` float32, which is `out` where that is given.

    Raises:
        InvalidValueError: If a field is missing or has another shape, or `out` does not fit.
    """
    compiled = _compiled()
    if compiled is not None and out is None and isinstance(observation, np.ndarray):
        octets = bytes_of_records(observation)
        if octets is not None:
            made = np.empty((*observation.shape, FLAT_SIZE), np.float32)
            compiled.write_bytes(octets, made.reshape(-1, FLAT_SIZE))
            return made
    seen = _fields_of(observation)
    leading = seen["self"].shape[:-1]
    made = np.empty((*leading, FLAT_SIZE), np.float32) if out is None else _fitting(out, leading)
    if made.size == 0:
        return made
    if compiled is not None and fits(seen):
        whole = made if made.flags.c_contiguous else np.empty(made.shape, np.float32)
        compiled.write(seen, whole.reshape(-1, FLAT_SIZE))
        if whole is not made:
            made[...] = whole
    elif made.strides[-1] != made.itemsize:
        made[...] = _looked_up(seen, np.empty(made.shape, np.float32))
    else:
        _looked_up(seen, made)
    return made


@cache
def _compiled() -> Flattener | None:
    return make_flattener(blocks())


def _looked_up(seen: Mapping[str, NDArray[Any]], made: Floats) -> Floats:
    """What the kernel computes, with NumPy: for other integers, and where nothing is compiled."""
    leading = made.shape[:-1]
    for step in _plan():
        numbers = seen[step.field][step.numbers].astype(np.intp)
        if step.minus is not None:
            numbers -= seen[step.field][step.minus]
        if step.low:
            numbers -= step.low
        rows = made[..., step.place].reshape(*leading, *step.shape)[..., step.within]
        # The floats of one number are one item, which is quicker to copy than each by itself.
        items = rows.view(step.items.dtype)
        items[...] = step.items.take(numbers, mode="clip").reshape(items.shape)
    return made


@cache
def _used() -> tuple[fields.Field, ...]:
    return tuple(fields.FIELD[block.field] for block in blocks())


def _fields_of(observation: Mapping[str, NDArray[Any]] | NDArray[Any]) -> dict[str, NDArray[Any]]:
    if isinstance(observation, Mapping):
        names: Any = observation.keys()
    else:
        names = getattr(getattr(observation, "dtype", None), "names", None) or ()
        if isinstance(observation, np.recarray):
            observation = plain(observation)  # whose fields are views of one array
    seen = {}
    leading = None
    for field in _used():
        if field.name not in names:
            raise InvalidValueError(
                f"the observation lacks field {field.name!r}; it has: {', '.join(names) or None}"
            )
        array = np.asarray(observation[field.name])
        head = array.shape[: array.ndim - len(field.shape)]
        leading = head if leading is None else leading
        if (
            array.shape[len(head) :] != field.shape
            or head != leading
            or array.dtype.kind not in "iu"
        ):
            raise InvalidValueError(
                f"observation[{field.name!r}] is {array.dtype} of shape {array.shape}; "
                f"allowed: integers of shape {(*(leading or ()), *field.shape)}"
            )
        seen[field.name] = array
    return seen


def _fitting(out: Any, leading: tuple[int, ...]) -> Floats:
    shape = (*leading, FLAT_SIZE)
    if not isinstance(out, np.ndarray) or out.dtype != np.float32 or out.shape != shape:
        found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else repr(out)
        raise InvalidValueError(f"out is {found}; allowed: float32 of shape {shape}")
    return out


def layout_table() -> str:
    """The positions of the vector as a table.

    Returns:
        Markdown, one row a column; `r` counts the rows of a field from 0.
    """
    lines = ["| positions | field | column | coding |", "|---|---|---|---|"]
    start = 0
    for block in blocks():
        within = start
        for part in block.parts:
            last = within + part.width - 1
            places = f"{within}" if last == within else f"{within}–{last}"
            if block.rows is not None:
                places += f" + {block.stride}r"
            named = ", ".join(f"`{column}`" for column in part.columns)
            named += f" − `{part.minus}`" if part.minus else ""
            rows = "" if block.rows is None else f", r = 0–{len(block.rows) - 1}"
            lines.append(f"| {places} | `{block.field}`{rows} | {named} | {part.coding.text} |")
            within += part.width
        start += block.width
    return "\n".join(lines)
