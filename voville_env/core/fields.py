"""The one description of every observation field.

Spaces, buffers, the typed view, the text narration and the tables in the docs are all made from
`FIELDS`. A value of -1 means "none" in every signed field.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voville_env.core import codes

PEER_ROWS = 8
CUE_ROWS = 4
WINDOW = 11
ROUTE_ROWS = 6
MAX_COORDINATE = 63
MAX_DISTANCE = 2000
MAX_TIME = 32000

OCCUPIED = 0x10
BURNING = 0x20
ITEM = 0x40
TERRAIN_MASK = 0x0F


@dataclass(frozen=True)
class Column:
    """One number of a field.

    Attributes:
        name: Its name, also the attribute of the typed view.
        low: Smallest value.
        high: Largest value.
        unit: Its unit, or the enum its values come from.
        meaning: What it says.
    """

    name: str
    low: int
    high: int
    unit: str
    meaning: str


@dataclass(frozen=True)
class Field:
    """One array of the observation.

    Attributes:
        name: The key in the observation dict.
        dtype: NumPy dtype name.
        rows: Leading length, or 0 where the field is one row.
        columns: The columns, in order.
        meaning: What the field is for.
    """

    name: str
    dtype: str
    rows: int
    columns: tuple[Column, ...]
    meaning: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array for one agent."""
        width = len(self.columns)
        return (self.rows, width) if self.rows else (width,)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The low and high arrays of the field's space.

        Returns:
            Two arrays of `shape` and `dtype`.
        """
        low = np.array([column.low for column in self.columns], dtype=self.dtype)
        high = np.array([column.high for column in self.columns], dtype=self.dtype)
        return (
            np.broadcast_to(low, self.shape).copy(),
            np.broadcast_to(high, self.shape).copy(),
        )


def _flags(names: tuple[str, ...], meaning: str) -> tuple[Column, ...]:
    return tuple(Column(name.lower(), 0, 1, "0/1", meaning) for name in names)


_OFFSET = MAX_COORDINATE

FIELDS: tuple[Field, ...] = (
    Field(
        "self",
        "int16",
        0,
        (
            Column("x", 0, MAX_COORDINATE, "tiles", "own column"),
            Column("y", 0, MAX_COORDINATE, "tiles", "own row, growing southwards"),
            Column("day", 1, 100, "days", "day of the run, from 1"),
            Column("tick", 0, MAX_TIME, "ticks", "tick of the day, from 0"),
            Column(
                "step",
                0,
                100,
                "steps",
                "step within the tick; past the last one at the end",
            ),
            Column("goal_x", 0, MAX_COORDINATE, "tiles", "column of the scheduled goal"),
            Column("goal_y", 0, MAX_COORDINATE, "tiles", "row of the scheduled goal"),
            Column("late", 0, 1, "0/1", "running late for the scheduled goal"),
            Column("at_goal", 0, 1, "0/1", "at the goal that counts now, or in the safe zone"),
            Column("blocked", 0, 1, "0/1", "the last move did not happen"),
            Column("carrying", 0, 1, "0/1", "carries a taken item"),
            Column("escaping", 0, 1, "0/1", "the safe zone is the goal that counts now"),
        ),
        "the person's own situation",
    ),
    Field(
        "routes",
        "int16",
        ROUTE_ROWS,
        (
            Column(
                "distance", codes.NONE, MAX_DISTANCE, "steps", "steps to the end, without waits"
            ),
            Column("next_action", 0, 9, "Action", "first step of the way; 0 at its end"),
            Column(
                "rules", 0, codes.ALL_RULES, "bits", "rules the next four tiles would break now"
            ),
            Column("wait", 0, MAX_TIME, "ticks", "red ticks to wait at the next signal of the way"),
        ),
        "rows: goal lawful, scoped, unrestricted; safe zone lawful, scoped, unrestricted",
    ),
    Field(
        "authority",
        "int16",
        0,
        (
            Column("present", 0, 1, "0/1", "an officer is in sight within the authority radius"),
            Column("distance", codes.NONE, 126, "tiles", "Manhattan distance to the nearest one"),
            Column("dx", -_OFFSET, _OFFSET, "tiles", "officer's column minus own"),
            Column("dy", -_OFFSET, _OFFSET, "tiles", "officer's row minus own"),
            Column("instruction", 0, 3, "Instruction", "the instruction in force for this person"),
            Column("officer", codes.NONE, 31, "index", "which officer gave it"),
            Column("direction", codes.NONE, 3, "Direction", "where a redirect points"),
            Column("ticks_left", 0, MAX_TIME, "ticks", "until the instruction ends"),
        ),
        "officers in sight and their instruction",
    ),
    Field(
        "peer_behaviors",
        "int16",
        PEER_ROWS,
        (
            Column("dx", -_OFFSET, _OFFSET, "tiles", "peer's column minus own"),
            Column("dy", -_OFFSET, _OFFSET, "tiles", "peer's row minus own"),
            Column("behaviour", 0, 11, "Behaviour", "what the peer was seen to do; 0: no peer"),
            Column("rule", codes.NONE, 6, "Rule", "the rule it bears on"),
            Column("followed", codes.NONE, 1, "0/1", "whether that rule was followed"),
            Column("age", 0, 100, "ticks", "ticks since it was seen"),
        ),
        "people in the same local context, nearest first",
    ),
    Field(
        "situational_cues",
        "int16",
        CUE_ROWS,
        (
            Column("type", 0, 3, "CueType", "kind of cue; 0: no cue"),
            Column("distance", codes.NONE, 126, "tiles", "Manhattan distance"),
            Column("severity", 0, 100, "1-100", "severity; 0: no cue"),
            Column("dx", -_OFFSET, _OFFSET, "tiles", "cue's column minus own"),
            Column("dy", -_OFFSET, _OFFSET, "tiles", "cue's row minus own"),
        ),
        "what is happening around, most severe first",
    ),
    Field(
        "signal",
        "uint8",
        0,
        (
            Column("state", 0, 2, "SignalState", "what the nearest signal shows; 0: none near"),
            Column("ticks_to_change", 0, 255, "ticks", "until it changes, at most 255"),
            Column("distance", 0, 255, "tiles", "Manhattan distance to its nearest crosswalk tile"),
        ),
        "the nearest pedestrian signal within 12 tiles",
    ),
    Field(
        "rules",
        "uint8",
        2,
        _flags(codes.RULE_NAMES, "row 0: the rule is in force here; row 1: it is at stake now"),
        "rules in force on this tile, and at stake in this tick",
    ),
    Field(
        "tiles",
        "uint8",
        WINDOW,
        tuple(
            Column(f"x{column - WINDOW // 2:+d}", 0, 255, "tile code", "terrain and what is on it")
            for column in range(WINDOW)
        ),
        "tiles around the person; low four bits Terrain, 16 a visible person, 32 fire, 64 an item",
    ),
    Field(
        "action_mask",
        "int8",
        0,
        tuple(
            Column(action.name.lower(), 0, 1, "0/1", "physically possible")
            for action in codes.Action
        ),
        "actions that are physically possible; a forbidden act is never masked",
    ),
)

FIELD = {field.name: field for field in FIELDS}


def column_index(field: str, column: str) -> int:
    """The position of a column inside its field.

    Args:
        field: Field name.
        column: Column name.

    Returns:
        The index along the last axis.
    """
    return [item.name for item in FIELD[field].columns].index(column)


def markdown_table() -> str:
    """The observation table of the README, made from `FIELDS`.

    Returns:
        A Markdown table, one row a field.
    """
    lines = ["| key | shape, dtype | columns |", "|---|---|---|"]
    for field in FIELDS:
        shape = "×".join(str(size) for size in field.shape)
        names = field.meaning
        if field.name not in {"tiles", "action_mask", "rules"}:
            listed = ", ".join(f"`{column.name}`" for column in field.columns)
            names = f"{field.meaning}: {listed}"
        lines.append(f"| `{field.name}` | {shape} {field.dtype} | {names} |")
    return "\n".join(lines)
