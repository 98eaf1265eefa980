"""What MiniGrid's format shows of the town: tables of cells, the image, missions and actions.

Only arrays go in and out, so MiniGrid itself is not needed here. The numbers are those of
`minigrid.core.constants` and `minigrid.core.actions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voville_env.actions import cross, direction_of, move
from voville_env.core.codes import NONE, Action, Direction, Instruction, SignalState, Terrain
from voville_env.core.fields import BURNING, ITEM, OCCUPIED, TERRAIN_MASK, WINDOW, column_index
from voville_env.errors import InvalidValueError

MAX_VIEW = WINDOW
REACH = WINDOW // 2
"""Tiles that the observation shows in every direction; further ahead nothing is seen."""


class Thing(IntEnum):
    """MiniGrid's objects, first channel of the image."""

    UNSEEN = 0
    EMPTY = 1
    WALL = 2
    FLOOR = 3
    DOOR = 4
    KEY = 5
    BALL = 6
    BOX = 7
    GOAL = 8
    LAVA = 9
    AGENT = 10


class Colour(IntEnum):
    """MiniGrid's colours, second channel."""

    RED = 0
    GREEN = 1
    BLUE = 2
    PURPLE = 3
    YELLOW = 4
    GREY = 5


class DoorState(IntEnum):
    """States of MiniGrid's doors, third channel; 0 for everything else."""

    OPEN = 0
    CLOSED = 1
    LOCKED = 2


class Cell(NamedTuple):
    """One cell of the image."""

    thing: Thing
    colour: Colour
    state: DoorState = DoorState.OPEN


# What needs no mark is MiniGrid's empty cell. A door that is not open can be passed in the town:
# it says that a rule stands against it, or may.
TERRAIN_CELLS: dict[Terrain, Cell] = {
    Terrain.WALL: Cell(Thing.WALL, Colour.GREY),
    Terrain.PAVEMENT: Cell(Thing.EMPTY, Colour.RED),
    Terrain.ROAD: Cell(Thing.FLOOR, Colour.GREY),
    Terrain.CROSSWALK: Cell(Thing.DOOR, Colour.YELLOW, DoorState.CLOSED),
    Terrain.PARK: Cell(Thing.FLOOR, Colour.GREEN),
    Terrain.FLOOR: Cell(Thing.FLOOR, Colour.BLUE),
    Terrain.DOOR: Cell(Thing.DOOR, Colour.BLUE),
    Terrain.PRIVATE_FLOOR: Cell(Thing.FLOOR, Colour.PURPLE),
    Terrain.PRIVATE_DOOR: Cell(Thing.DOOR, Colour.PURPLE, DoorState.CLOSED),
    Terrain.CORDON: Cell(Thing.DOOR, Colour.GREY, DoorState.CLOSED),
    Terrain.OBSTACLE: Cell(Thing.BOX, Colour.GREY),
}
SIGNAL_CELLS: dict[SignalState, Cell] = {
    SignalState.WALK: Cell(Thing.DOOR, Colour.GREEN),
    SignalState.DONT_WALK: Cell(Thing.DOOR, Colour.RED, DoorState.LOCKED),
}
"""The crosswalk of the signal that the observation tells about."""
GOAL = Cell(Thing.GOAL, Colour.GREEN)
CARRIABLE = Cell(Thing.KEY, Colour.YELLOW)
FIRE = Cell(Thing.LAVA, Colour.RED)
PERSON = Cell(Thing.BALL, Colour.GREY)
BREAKER = Cell(Thing.BALL, Colour.RED)
OFFICER = Cell(Thing.BALL, Colour.BLUE)


def cell_table() -> str:
    """The table of the documentation.

    Returns:
        Markdown, one row a kind of cell.
    """
    signals = {
        "crosswalk, its signal shows walk": SIGNAL_CELLS[SignalState.WALK],
        "crosswalk, its signal shows don't walk": SIGNAL_CELLS[SignalState.DONT_WALK],
    }
    things = {
        "the scheduled goal, unless one has to escape": GOAL,
        "an item, also one that is carried": CARRIABLE,
        "fire": FIRE,
        "a person": PERSON,
        "a person just seen to break a rule": BREAKER,
        "the nearest officer": OFFICER,
        "further than the observation shows": Cell(Thing.UNSEEN, Colour.RED),
    }
    ground = {terrain.name.lower().replace("_", " "): c for terrain, c in TERRAIN_CELLS.items()}
    ground["crosswalk, signal not known"] = ground.pop("crosswalk")
    lines = ["| what | object | colour | state |", "|---|---|---|---|"]
    for name, cell in {**ground, **signals, **things}.items():
        plain = cell.thing in (Thing.EMPTY, Thing.UNSEEN)
        colour = str(int(cell.colour)) if plain else cell.colour.name.lower()
        state = cell.state.name.lower() if cell.thing is Thing.DOOR else "0"
        lines.append(f"| {name} | {cell.thing.name.lower()} | {colour} | {state} |")
    return "\n".join(lines)


def _code_table() -> NDArray[np.uint8]:
    """The cell of every tile code; people hide fire, and fire hides items."""
    table = np.zeros((256, 3), np.uint8)
    codes = np.arange(256)
    for terrain, cell in TERRAIN_CELLS.items():
        table[codes & TERRAIN_MASK == terrain] = cell
    for flag, cell in ((ITEM, CARRIABLE), (BURNING, FIRE), (OCCUPIED, PERSON)):
        table[codes & flag != 0] = cell
    return table


_CODES = _code_table()
# Tuples of enums are slow to put into arrays.
_BYTES = {
    cell: np.array(cell, np.uint8)
    for cell in (*SIGNAL_CELLS.values(), GOAL, CARRIABLE, BREAKER, OFFICER)
}
_FLAGS = ITEM | BURNING | OCCUPIED
_AWAY = np.abs(np.arange(WINDOW) - REACH)
_MANHATTAN = _AWAY[:, None] + _AWAY[None, :]
_CARRYING = column_index("self", "carrying")
_ESCAPING = column_index("self", "escaping")


def image_of(observation: Mapping[str, Any], heading: int, size: int) -> NDArray[np.uint8]:
    """The image, as MiniGrid's agent sees it.

    Args:
        observation: One agent's observation.
        heading: MiniGrid's direction, 0 to 3: east, south, west, north.
        size: Cells across, odd, 3 to 11.

    Returns:
        `(size, size, 3)` uint8, by column, row and channel; the agent is at `(size // 2,
        size - 1)`, what lies ahead has smaller rows. Its own cell shows what it carries, or else
        the ground.
    """
    cells = _window(observation).transpose(1, 0, 2)
    turned = np.rot90(cells, -(heading + 1))
    half, ahead = size // 2, min(size - 1, REACH)
    image = np.zeros((size, size, 3), np.uint8)
    columns = slice(REACH - half, REACH + half + 1)
    image[:, size - 1 - ahead :] = turned[columns, REACH - ahead : REACH + 1]
    return image


def _window(observation: Mapping[str, Any]) -> NDArray[np.uint8]:
    """The window north up, `(11, 11, 3)` by row, column and channel."""
    tiles = observation["tiles"]
    own = observation["self"].tolist()
    cells: NDArray[np.uint8] = _CODES[tiles]
    shown, _, away = observation["signal"].tolist()
    if shown and away <= REACH:
        at_signal = _at_signal((tiles & TERRAIN_MASK) == Terrain.CROSSWALK, away)
        cells[at_signal & ((tiles & _FLAGS) == 0)] = _BYTES[SIGNAL_CELLS[SignalState(shown)]]
    dx, dy = own[5] - own[0], own[6] - own[1]
    if not own[_ESCAPING] and abs(dx) <= REACH and abs(dy) <= REACH:
        if not tiles[REACH + dy, REACH + dx] & _FLAGS:
            _put(cells, dx, dy, GOAL)
    for dx, dy, behaviour, _, followed, _ in observation["peer_behaviors"].tolist():
        if behaviour and followed == 0:
            _put(cells, dx, dy, BREAKER)
    present, _, dx, dy, *_ = observation["authority"].tolist()
    if present:
        _put(cells, dx, dy, OFFICER)
    if own[_CARRYING]:
        cells[REACH, REACH] = _BYTES[CARRIABLE]
    return cells


def _put(cells: NDArray[np.uint8], dx: int, dy: int, cell: Cell) -> None:
    """Sets a cell by its offset, unless it is the agent's own or beyond the window."""
    if (dx or dy) and abs(dx) <= REACH and abs(dy) <= REACH:
        cells[REACH + dy, REACH + dx] = _BYTES[cell]


def _at_signal(crosswalk: NDArray[np.bool_], away: int) -> NDArray[np.bool_]:
    """The crosswalk whose nearest tile is as far away as the signal's.

    None where two are as near, or where it may lie outside the window: the observation does not
    say which signal it tells about.
    """
    nearest = crosswalk & (_MANHATTAN == away)
    found: NDArray[np.bool_] = np.zeros_like(nearest)
    if away > REACH or not nearest.any():
        return found
    found.flat[int(np.argmax(nearest))] = True
    count = 0
    while int(found.sum()) != count:
        count = int(found.sum())
        grown = found.copy()
        grown[1:] |= found[:-1]
        grown[:-1] |= found[1:]
        grown[:, 1:] |= found[:, :-1]
        grown[:, :-1] |= found[:, 1:]
        found = grown & crosswalk
    return found if found[nearest].all() else np.zeros_like(found)


PURPOSES = ("go to the goal", "escape to the safe zone")
WAYS = ("north", "east", "south", "west", "reached", "closed")
ORDERS = ("nothing", "hold", "pass", "go north", "go east", "go south", "go west")


def mission_text(purpose: str, lawful: str, short: str, order: str) -> str:
    """The mission sentence: small letters, blanks and commas, at most 96 of them.

    Args:
        purpose: One of `PURPOSES`.
        lawful: One of `WAYS`: where the way that keeps all rules begins.
        short: One of `WAYS`: where the way that waives all rules begins.
        order: One of `ORDERS`.

    Returns:
        The sentence.
    """
    return f"{purpose}, lawful way {lawful}, short way {short}, officer says {order}"


def mission_of(observation: Mapping[str, Any]) -> str:
    """The mission of an agent, which is what the image cannot show.

    Args:
        observation: One agent's observation.

    Returns:
        One of the sentences of `mission_text`; compass directions, whatever the heading.
    """
    escaping = bool(observation["self"][_ESCAPING])
    first = 3 if escaping else 0
    routes = observation["routes"].tolist()
    order, _, towards = observation["authority"].tolist()[4:7]
    said = Instruction(order).name.lower() if order else "nothing"
    if order == Instruction.REDIRECT:
        said = ORDERS[3 + towards] if towards != NONE else "nothing"
    ways = (_way(routes[first]), _way(routes[first + 2]))
    return mission_text(PURPOSES[escaping], *ways, said)


def _way(row: list[int]) -> str:
    distance, action = row[:2]
    direction = direction_of(action)
    if distance == NONE:
        return "closed"
    return "reached" if direction is None else WAYS[direction]


@cache
def vocabulary() -> dict[str, int]:
    """All words of missions, as MiniGrid's `DictObservationSpaceWrapper` takes them.

    Returns:
        Word to number, from 0; the comma is a word.
    """
    texts = [mission_text(*parts) for parts in product(PURPOSES, WAYS, WAYS, ORDERS)]
    words = {word for text in texts for word in text.replace(",", " , ").split()}
    return {word: number for number, word in enumerate(sorted(words))}


START_HEADING = 3
"""Everybody looks north at first, until the first move."""


class Turn(IntEnum):
    """MiniGrid's seven actions, and what they are here."""

    LEFT = 0  # turns, and waits a step
    RIGHT = 1  # turns, and waits a step
    FORWARD = 2  # MOVE ahead
    PICKUP = 3  # TAKE
    DROP = 4  # never possible: waits
    TOGGLE = 5  # CROSS ahead
    DONE = 6  # WAIT


def towards(heading: int) -> Direction:
    """The compass direction of a heading.

    Args:
        heading: MiniGrid's direction.

    Returns:
        The town's.
    """
    return Direction((heading + 1) % 4)


def town_action(turn: int, heading: int) -> Action:
    """The town's action for one of MiniGrid's.

    Args:
        turn: A `Turn`.
        heading: MiniGrid's direction.

    Returns:
        What the town is told.
    """
    if turn == Turn.FORWARD:
        return move(towards(heading))
    if turn == Turn.TOGGLE:
        return cross(towards(heading))
    return Action.TAKE if turn == Turn.PICKUP else Action.WAIT


def turned(turn: int, heading: int) -> int:
    """The heading after one of MiniGrid's actions, before any move.

    Args:
        turn: A `Turn`.
        heading: MiniGrid's direction.

    Returns:
        The new one.
    """
    return (heading + {Turn.LEFT: 3, Turn.RIGHT: 1}.get(Turn(turn), 0)) % 4


def turn_mask(mask: NDArray[np.int8], heading: int) -> NDArray[np.int8]:
    """Which of MiniGrid's actions are physically possible.

    Args:
        mask: `(10,)`, the town's.
        heading: MiniGrid's direction.

    Returns:
        `(7,)` int8.
    """
    ahead = towards(heading)
    values = (1, 1, mask[move(ahead)], mask[Action.TAKE], 0, mask[cross(ahead)], 1)
    return np.array(values, np.int8)


def heading_after(heading: int, before: tuple[int, int], after: tuple[int, int]) -> int:
    """The heading once somebody may have moved.

    Args:
        heading: MiniGrid's direction so far.
        before: `(x, y)` then.
        after: `(x, y)` now.

    Returns:
        The direction of the step; unchanged without one, and where somebody is set down elsewhere.
    """
    step = (after[0] - before[0], after[1] - before[1])
    steps = {(1, 0): 0, (0, 1): 1, (-1, 0): 2, (0, -1): 3}
    return steps.get(step, heading)


def check_view_size(size: Any) -> int:
    """Checks a view size.

    Args:
        size: Cells across.

    Returns:
        The same.

    Raises:
        InvalidValueError: If it is not odd or not from 3 to 11.
    """
    whole = isinstance(size, int) and not isinstance(size, bool)
    if not whole or size % 2 == 0 or not 3 <= size <= MAX_VIEW:
        raise InvalidValueError(f"view_size is {size!r}; allowed: 3, 5, 7, 9, 11")
    return int(size)
