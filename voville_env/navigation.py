"""Ways through the town: tabled shortest ways, and planned ways with waits (MEM-02, MEM-03)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voville_env.actions import cross, move
from voville_env.core.codes import (
    DX,
    DY,
    TRIGGER_RELEVANT,
    WIDTH,
    Action,
    Direction,
    Route,
    Rule,
    Terrain,
    Verb,
    rule_bits,
    rules_in,
)
from voville_env.core.layout import NO_SIGNAL, UNREACHABLE
from voville_env.errors import InvalidValueError
from voville_env.town.model import Town
from voville_env.town.tables import build_tables

Tile = tuple[int, int]
WAIVED = {
    Route.LAWFUL: (),
    Route.SCOPED: tuple(rules_in(TRIGGER_RELEVANT)),
    Route.UNRESTRICTED: tuple(Rule),
}
_END = 4


@dataclass(frozen=True)
class SignalPlan:
    """The cycle of a signal as a planner knows it: ticks of red, of green, a tick green begins."""

    red: int
    green: int
    green_start: int

    def wait(self, tick: int) -> int:
        """Red ticks left on arrival.

        Args:
            tick: Tick of arrival.

        Returns:
            0 while it shows walk.
        """
        phase = (tick - self.green_start) % (self.red + self.green)
        return 0 if phase < self.green else self.red + self.green - phase


@dataclass(frozen=True)
class Plan:
    """A planned way.

    Attributes:
        tiles: `(x, y)` from the start to the end, both included.
        steps: Steps walked.
        wait_steps: Steps spent waiting at red signals.
        rules: Rules it breaks, in order of first use.
    """

    tiles: tuple[Tile, ...]
    steps: int
    wait_steps: int
    rules: tuple[Rule, ...]

    @property
    def cost(self) -> int:
        """Steps walked and waited."""
        return self.steps + self.wait_steps


class Navigator:
    """Answers questions about ways on the public town."""

    def __init__(self, town: Town, agents: Sequence[str] = (), lookahead: int = 4) -> None:
        """Builds the tables of a town.

        Args:
            town: The town.
            agents: Agent ids in order; ownership of homes refers to them.
            lookahead: Steps per tick.
        """
        self.town = town
        self.agents = tuple(agents)
        self.lookahead = lookahead
        self._table: Any = build_tables(town, agents, lookahead)[0]
        self._places = {
            int(self._table.destination_tile[k]): place.name for k, place in enumerate(town.places)
        }
        self.signals = {
            k: SignalPlan(item.red, item.green, item.green_start)
            for k, item in enumerate(town.intersections)
        }

    def place_at(self, x: int, y: int) -> str | None:
        """The destination whose representative tile is at a position.

        Args:
            x: Column.
            y: Row.

        Returns:
            Its name, or None.
        """
        return self._places.get(y * WIDTH + x)

    def representative(self, place: str) -> Tile:
        """The tile that stands for a destination: where people start, and what `goal` shows.

        Args:
            place: Destination.

        Returns:
            `(x, y)`.
        """
        tile = int(self._table.destination_tile[self.town.place_index(place)])
        return tile % WIDTH, tile // WIDTH

    def safe_place(self) -> str:
        """The name of the safe zone.

        Returns:
            The first place marked safe.

        Raises:
            InvalidValueError: If the town has none.
        """
        for place in self.town.places:
            if place.safe_zone:
                return place.name
        raise InvalidValueError(f"town {self.town.name!r} has no place marked as a safe zone")

    def terrain(self, x: int, y: int) -> Terrain:
        """The terrain of a tile.

        Args:
            x: Column.
            y: Row.

        Returns:
            The terrain.
        """
        return Terrain(int(self.town.terrain[y, x]))

    def on_carriageway(self, x: int, y: int) -> bool:
        """Whether a tile is road or crosswalk.

        Args:
            x: Column.
            y: Row.

        Returns:
            True on the carriageway.
        """
        return self.terrain(x, y) in (Terrain.ROAD, Terrain.CROSSWALK)

    def distance(self, x: int, y: int, place: str, route: Route) -> int | None:
        """Steps to a destination, without waits.

        Args:
            x: Column.
            y: Row.
            place: Destination.
            route: Which rules the way keeps.

        Returns:
            Steps, or None where there is no way.
        """
        entry = self._entry(y * WIDTH + x, place, route)
        return None if entry.distance == UNREACHABLE else int(entry.distance)

    def way(self, x: int, y: int, place: str, route: Route) -> list[Tile]:
        """The tabled shortest way; ties: fewest rules, then north, east, south, west (C-79).

        Args:
            x: Column.
            y: Row.
            place: Destination.
            route: Which rules the way keeps.

        Returns:
            Tiles from the start to the end; only the start where there is no way.
        """
        return [(tile % WIDTH, tile // WIDTH) for tile, _ in self._walk(x, y, place, route)]

    def first_rules(self, x: int, y: int, place: str, route: Route) -> tuple[Rule, ...]:
        """The rules of the first rule-breaking step on a way.

        Args:
            x: Column.
            y: Row.
            place: Destination.
            route: Which rules the way keeps.

        Returns:
            Rules; a signalised crosswalk counts as RED_LIGHT. Empty if the way breaks none.
        """
        for tile, direction in self._walk(x, y, place, route):
            if direction == _END:
                break
            bits = int(self._table.bits[tile, direction])
            if self._table.entry[tile, direction] != NO_SIGNAL:
                bits |= 1 << Rule.RED_LIGHT
            if bits:
                return tuple(rules_in(bits))
        return ()

    def kerb_action(self, x: int, y: int) -> Action:
        """One step towards the nearest pavement.

        Args:
            x: Column.
            y: Row.

        Returns:
            The step, or WAIT off the carriageway.
        """
        direction = int(self._table.kerb[y * WIDTH + x])
        return Action.WAIT if direction == _END else move(direction)

    def action(self, x: int, y: int, direction: Direction) -> Action | None:
        """The action of a step.

        Args:
            x: Column.
            y: Row.
            direction: Where to.

        Returns:
            MOVE or CROSS, or None where the step is impossible.
        """
        verb = Verb(int(self._table.verb[y * WIDTH + x, direction]))
        if verb is Verb.NONE:
            return None
        return move(direction) if verb is Verb.MOVE else cross(direction)

    def step_rules(self, x: int, y: int, direction: Direction) -> tuple[Rule, ...]:
        """The rules a step can break, RED_LIGHT where it enters a signalised crosswalk.

        Args:
            x: Column.
            y: Row.
            direction: Where to.

        Returns:
            Rules.
        """
        tile = y * WIDTH + x
        bits = int(self._table.bits[tile, direction])
        if self._table.entry[tile, direction] != NO_SIGNAL:
            bits |= 1 << Rule.RED_LIGHT
        return tuple(rules_in(bits))

    def sees(self, a: Tile, b: Tile) -> bool:
        """Whether there is a line of sight between two tiles, up to 20 tiles.

        Args:
            a: `(x, y)`.
            b: `(x, y)`.

        Returns:
            True if they see each other.
        """
        dx, dy = b[0] - a[0], b[1] - a[1]
        if max(abs(dx), abs(dy)) > 20:
            return False
        return bool(int(self._table.visible[a[1] * WIDTH + a[0], dy + 20]) >> (dx + 20) & 1)

    def plan(
        self,
        start: Tile,
        place: str,
        *,
        waived: Iterable[Rule] = (),
        step: int = 0,
        agent: str | None = None,
        signals: Mapping[int, SignalPlan] | None = None,
    ) -> Plan | None:
        """The quickest way in time, waits at red included, that breaks only waived rules.

        Args:
            start: `(x, y)`.
            place: Destination.
            waived: Rules it may break; an empty set gives the lawful way.
            step: Step of departure, counted from the start of the day.
            agent: Whose property counts as one's own.
            signals: Signal cycles by number; the town's own unless given.

        Returns:
            The plan, or None where no such way exists.
        """
        allowed = rule_bits(tuple(waived))
        goals = set(self.town.place(place).box.tiles())
        cycles = dict(signals or self.signals)
        origin = start[1] * WIDTH + start[0]
        best = {origin: step}
        parent: dict[int, tuple[int, int]] = {}
        queue = [(step, origin)]
        while queue:
            now, tile = heapq.heappop(queue)
            if now > best[tile]:
                continue
            if tile in goals:
                return self._trace(origin, tile, parent, now - step, agent)
            for direction in Direction:
                arrival = self._arrival(tile, direction, now, allowed, agent, cycles)
                if arrival is None:
                    continue
                end = tile + DY[direction] * WIDTH + DX[direction]
                if arrival < best.get(end, 1 << 30):
                    best[end] = arrival
                    parent[end] = (tile, direction)
                    heapq.heappush(queue, (arrival, end))
        return None

    def _arrival(
        self,
        tile: int,
        direction: Direction,
        now: int,
        allowed: int,
        agent: str | None,
        cycles: Mapping[int, SignalPlan],
    ) -> int | None:
        if self._table.verb[tile, direction] == 0:
            return None
        if self._bits(tile, direction, agent) & ~allowed:
            return None
        signal = int(self._table.entry[tile, direction])
        if signal != NO_SIGNAL and not allowed >> Rule.RED_LIGHT & 1:
            tick = now // self.lookahead
            if wait := cycles[signal].wait(tick):
                now = (tick + wait) * self.lookahead
        return now + 1

    def _bits(self, tile: int, direction: int, agent: str | None) -> int:
        bits = int(self._table.bits[tile, direction])
        if bits >> Rule.PRIVATE_BUILDING & 1:
            end = tile + DY[direction] * WIDTH + DX[direction]
            building = self.town.buildings[int(self._table.building[end]) - 1]
            if agent in building.owners:
                bits &= ~(1 << Rule.PRIVATE_BUILDING)
        return bits

    def _trace(
        self,
        origin: int,
        end: int,
        parent: Mapping[int, tuple[int, int]],
        cost: int,
        agent: str | None,
    ) -> Plan:
        tiles = [end]
        broken: list[Rule] = []
        while tiles[-1] != origin:
            tile, direction = parent[tiles[-1]]
            broken = rules_in(self._bits(tile, direction, agent)) + broken
            tiles.append(tile)
        steps = len(tiles) - 1
        return Plan(
            tuple((tile % WIDTH, tile // WIDTH) for tile in reversed(tiles)),
            steps,
            cost - steps,
            tuple(dict.fromkeys(broken)),
        )

    def _entry(self, tile: int, place: str, route: Route) -> Any:
        return self._table.routes[self.town.place_index(place), route, tile]

    def _walk(self, x: int, y: int, place: str, route: Route) -> list[tuple[int, int]]:
        tile = y * WIDTH + x
        walked = []
        while True:
            entry = self._entry(tile, place, route)
            direction = int(entry.next) if entry.distance != UNREACHABLE else _END
            walked.append((tile, direction))
            if direction == _END:
                return walked
            tile += DY[direction] * WIDTH + DX[direction]
