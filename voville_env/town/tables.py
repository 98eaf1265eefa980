"""Tables made once per town: everything about a step, a line of sight or a way that is static."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from voville_env.core import layout, rules
from voville_env.core.codes import (
    DX,
    DY,
    HEIGHT,
    TILES,
    WIDTH,
    Direction,
    Rule,
    Terrain,
    Verb,
    rule_bits,
)
from voville_env.core.fields import WINDOW
from voville_env.errors import CapacityError
from voville_env.town.model import Town

_CARRIAGEWAY = (Terrain.ROAD, Terrain.CROSSWALK)
_SEE_THROUGH = tuple(terrain for terrain in Terrain if terrain is not Terrain.WALL)
_DOORS = (Terrain.DOOR, Terrain.PRIVATE_DOOR)


def build_tables(town: Town, agents: Sequence[str] = (), lookahead: int = 4) -> layout.Records:
    """Builds the static tables of a town, or returns those already built for it.

    Args:
        town: The town.
        agents: Ids of the policy agents in order; ownership refers to them.
        lookahead: Tiles looked ahead for rules at stake: one tick of steps.

    Returns:
        A record array of length one with dtype `layout.TOWN`.

    Raises:
        CapacityError: If the town has more places, intersections or buildings than the core holds.
    """
    return _build(_Plan(_plan_digest(town), town), tuple(agents), lookahead)


@dataclass(frozen=True)
class _Plan:
    """What decides the tables of a town: all but the cycles of its signals."""

    digest: str
    town: Town = field(compare=False)


@lru_cache(maxsize=64)
def _plan_digest(town: Town) -> str:
    still = [replace(item, red=0, green=0, green_start=0) for item in town.intersections]
    return replace(town, intersections=tuple(still)).digest()


@lru_cache(maxsize=8)
def _build(plan: _Plan, agents: tuple[str, ...], lookahead: int) -> layout.Records:
    town = plan.town
    _check_capacity(town)
    table = layout.zeros(layout.TOWN, 1)
    record = table[0]
    record.terrain[:] = town.terrain.ravel()
    padded = np.pad(town.terrain, layout.PAD, constant_values=int(Terrain.WALL))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (WINDOW, WINDOW))
    octets = np.zeros((TILES, 8 * record.windows.shape[1]), np.uint8)
    octets[:, : layout.WINDOW_TILES] = windows.reshape(TILES, layout.WINDOW_TILES)
    record.windows[:] = octets.view(np.uint64)
    _fill_buildings(town, record, list(agents))
    _fill_signals(town, record)
    _fill_steps(town, record)
    _fill_kerb(town, record)
    record.visible[:] = visibility(town)
    _fill_routes(town, table, lookahead)
    return table


def _check_capacity(town: Town) -> None:
    for what, count, limit in (
        ("places", len(town.places), layout.DESTINATIONS),
        ("intersections", len(town.intersections), layout.SIGNALS),
        ("buildings", len(town.buildings), layout.BUILDINGS - 1),
    ):
        if count > limit:
            raise CapacityError(f"town {town.name!r} has {count} {what}; the core holds {limit}")


def _fill_buildings(town: Town, record: layout.Records, agents: list[str]) -> None:
    for number, building in enumerate(town.buildings, start=1):
        record.building[building.box.tiles()] = number
        for owner in building.owners:
            if owner in agents:
                record.owners[number] |= 1 << agents.index(owner)
    for place in town.places:
        if place.safe_zone:
            record.safe[place.box.tiles()] = 1


def _fill_signals(town: Town, record: layout.Records) -> None:
    record.n_signals = len(town.intersections)
    record.near_signal[:] = layout.NO_SIGNAL
    record.near_signal_distance[:] = layout.FAR
    ys, xs = np.divmod(np.arange(TILES), WIDTH)
    for k, intersection in enumerate(town.intersections):
        record.signal_zone[k] = intersection.zone
        record.signal_distance[k] = layout.FAR
        for box in intersection.crosswalks:
            for tile in box.tiles():
                away = np.abs(xs - tile % WIDTH) + np.abs(ys - tile // WIDTH)
                record.signal_distance[k] = np.minimum(record.signal_distance[k], away)
                closer = (away <= layout.SIGHT) & (away < record.near_signal_distance)
                record.near_signal[closer] = k
                record.near_signal_distance[closer] = away[closer]


def signal_of_tiles(town: Town) -> NDArray[np.uint8]:
    """The signal that governs each crosswalk tile.

    Args:
        town: The town.

    Returns:
        `(4096,)` uint8, `layout.NO_SIGNAL` where there is none.
    """
    signal = np.full(TILES, layout.NO_SIGNAL, np.uint8)
    for k, intersection in enumerate(town.intersections):
        for box in intersection.crosswalks:
            signal[box.tiles()] = k
    return signal


def _street_rules(town: Town) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    bits = np.zeros(TILES, np.int64)
    arrow = np.full(TILES, -1, np.int64)
    for street in town.streets:
        for tile in street.box.tiles():
            bits[tile] |= rule_bits(street.rules)
            if street.direction is not None:
                arrow[tile] = street.direction
    return bits, arrow


def _fill_steps(town: Town, record: layout.Records) -> None:
    table = rules.movement_table()
    carried, arrow = _street_rules(town)
    signal = signal_of_tiles(town)
    kinds = [Terrain(code) for code in town.terrain.ravel().tolist()]
    building = record.building.tolist()
    # Attributes of a record are slow to find: these are looked up once.
    verbs, bits_of, entries, against = record.verb, record.bits, record.entry, record.wrong_way
    record.in_force[:] = rules.EVERYWHERE | (carried & rules.TRAFFIC)
    entries[:] = layout.NO_SIGNAL
    for tile in range(TILES):
        x, y = tile % WIDTH, tile // WIDTH
        for direction in Direction:
            column, line = x + DX[direction], y + DY[direction]
            if not (0 <= column < WIDTH and 0 <= line < HEIGHT):
                continue
            end = line * WIDTH + column
            step = table[kinds[tile], kinds[end]]
            walls = building[tile] != building[end] and not _joined(kinds[tile], kinds[end])
            if step.verb is Verb.NONE or walls:
                continue
            verbs[tile, direction] = step.verb
            bits = step.bits & (carried[end] | rules.EVERYWHERE)
            if arrow[end] == -1 or arrow[end] != (direction + 2) % 4:
                bits &= ~(1 << Rule.ONE_WAY)
            against[tile, direction] = bits >> Rule.ONE_WAY & 1
            if bits >> Rule.RED_LIGHT & 1:
                entries[tile, direction] = signal[end]
            bits_of[tile, direction] = bits & ~(1 << Rule.RED_LIGHT)


def _joined(first: Terrain, second: Terrain) -> bool:
    """Whether a door joins two tiles of different buildings, one of them outdoors."""
    indoors = (Terrain.FLOOR, Terrain.PRIVATE_FLOOR, *_DOORS)
    return (first in _DOORS and second not in indoors) or (
        second in _DOORS and first not in indoors
    )


def _fill_kerb(town: Town, record: layout.Records) -> None:
    """Breadth-first over the carriageway, from everything walkable beside it."""
    terrain = town.terrain.ravel()
    record.kerb[:] = 4
    on_road = np.isin(terrain, _CARRIAGEWAY)
    queue = deque(
        tile for tile in range(TILES) if terrain[tile] in (Terrain.PAVEMENT, Terrain.PARK)
    )
    while queue:
        tile = queue.popleft()
        for direction in Direction:
            before = tile - DY[direction] * WIDTH - DX[direction]
            if 0 <= before < TILES and on_road[before] and record.kerb[before] == 4:
                if record.verb[before, direction] != Verb.NONE:
                    record.kerb[before] = direction
                    queue.append(before)


def _open_edges(town: Town) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether one can see from a tile to its eastern and to its southern neighbour."""
    clear = np.isin(town.terrain, [int(terrain) for terrain in _SEE_THROUGH])
    building = np.zeros((HEIGHT, WIDTH), np.int64)
    for number, item in enumerate(town.buildings, start=1):
        building.ravel()[item.box.tiles()] = number
    door = np.isin(town.terrain, [int(terrain) for terrain in _DOORS])
    east = np.zeros((HEIGHT, WIDTH), bool)
    south = np.zeros((HEIGHT, WIDTH), bool)
    same = building[:, :-1] == building[:, 1:]
    east[:, :-1] = clear[:, :-1] & clear[:, 1:] & (same | door[:, :-1] | door[:, 1:])
    same = building[:-1] == building[1:]
    south[:-1] = clear[:-1] & clear[1:] & (same | door[:-1] | door[1:])
    return east, south


def visibility(town: Town) -> NDArray[np.uint64]:
    """Line of sight from every tile to every tile within 20 tiles; symmetric.

    Args:
        town: The town.

    Returns:
        `(4096, 41)` uint64: bit `dx + 20` of row `dy + 20`.
    """
    east, south = _open_edges(town)
    sight = layout.SIGHT
    table = np.zeros((HEIGHT, WIDTH, layout.SIGHT_ROWS), np.uint64)
    for dy in range(sight + 1):
        for dx in range(-sight, sight + 1):
            if (dy == 0 and dx < 0) or abs(dx) + dy > sight:
                continue
            seen = _line_open(east, south, dx, dy)
            forward = np.uint64(1) << np.uint64(dx + sight)
            table[..., dy + sight] |= np.where(seen, forward, np.uint64(0))
            back = np.zeros_like(seen)
            _shifted(back, dx, dy)[...] = _source(seen, dx, dy)
            backward = np.uint64(1) << np.uint64(sight - dx)
            table[..., sight - dy] |= np.where(back, backward, np.uint64(0))
    return table.reshape(TILES, layout.SIGHT_ROWS)


def _source(array: NDArray[np.bool_], dx: int, dy: int) -> NDArray[np.bool_]:
    """The part of an array whose tiles stay on the map when shifted by (dx, dy)."""
    return array[: HEIGHT - dy, max(0, -dx) : WIDTH - max(0, dx)]


def _shifted(array: NDArray[np.bool_], dx: int, dy: int) -> NDArray[np.bool_]:
    """The part of an array that such a shift leads to."""
    return array[dy:, max(0, dx) : WIDTH - max(0, -dx)]


def _line_open(
    east: NDArray[np.bool_], south: NDArray[np.bool_], dx: int, dy: int
) -> NDArray[np.bool_]:
    """Whether the straight line by (dx, dy) is open, for every start tile at once.

    A diagonal step is open if one of the two ways round its corner is.
    """
    length = max(abs(dx), dy)
    seen = np.ones((HEIGHT, WIDTH), bool)
    x = y = 0
    for k in range(1, length + 1):
        column = _rounded(dx * k, length)
        line = _rounded(dy * k, length)
        sx, sy = column - x, line - y
        across = _edge(east, x, y, sx)
        down = _edge(south, x, y, sy, vertical=True)
        if sx and sy:
            first = across & _edge(south, column, y, sy, vertical=True)
            second = down & _edge(east, x, line, sx)
            seen &= first | second
        else:
            seen &= across if sx else down
        x, y = column, line
    return seen


def _rounded(numerator: int, denominator: int) -> int:
    """Rounds half away from zero."""
    sign = -1 if numerator < 0 else 1
    return sign * ((2 * abs(numerator) + denominator) // (2 * denominator))


def _edge(
    edges: NDArray[np.bool_], x: int, y: int, step: int, *, vertical: bool = False
) -> NDArray[np.bool_]:
    """The edge left at offset (x, y) by a unit step, for every start tile; closed off the map."""
    if step < 0:
        x, y = (x, y - 1) if vertical else (x - 1, y)
    result = np.zeros((HEIGHT, WIDTH), bool)
    rows = slice(max(0, -y), HEIGHT - max(0, y))
    columns = slice(max(0, -x), WIDTH - max(0, x))
    result[rows, columns] = edges[max(0, y) : HEIGHT - max(0, -y), max(0, x) : WIDTH - max(0, -x)]
    return result


def _fill_routes(town: Town, table: layout.Records, lookahead: int) -> None:
    from voville_env.core.compile import call
    from voville_env.core.kernels.routing import fill_all  # compiles: only when a town is built

    record = table[0]
    record.n_destinations = len(town.places)
    goals = np.zeros((len(town.places), TILES), np.uint8)
    homes = np.zeros(len(town.places), np.int64)
    for k, place in enumerate(town.places):
        tiles = [tile for tile in place.box.tiles() if record.verb[tile].any()]
        goals[k, tiles] = 1
        record.destination_tile[k] = tiles[len(tiles) // 2]
        homes[k] = record.building[tiles[0]]
    call(fill_all, table, goals, homes, lookahead)
