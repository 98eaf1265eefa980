"""What the seed varies in a scenario, beyond the jitter that the core draws itself.

`vary` says what a varied world is; `varied_fields` writes the same into the configurations of a
batch, for many seeds at once. Draws are pure functions of the seed, on streams of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.core import layout
from voville_env.core.codes import WIDTH
from voville_env.core.mixing import FIRST, GAMMA, SECOND, mix
from voville_env.scenario.compile import compile_config
from voville_env.scenario.load import World
from voville_env.scenario.schema import AgentPlan, Scenario
from voville_env.town.model import Town

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
# The core's own streams are 1 to 4.
_SHIFT, _ERRAND, _CROSSING, _FOCAL, _SIGNAL, _LATE, _FIRE, _SEAT, _POST = range(101, 110)


def _words(seeds: Words, stream: int, rows: int, columns: int = 1) -> Words:
    """`(B, rows, columns)` words, each a function of its seed, stream, row and column alone."""
    row = np.arange(rows, dtype=np.uint64)[:, None] * FIRST
    column = np.arange(columns, dtype=np.uint64) * SECOND
    word = mix(seeds[:, None, None] ^ np.array([stream], np.uint64) * GAMMA)
    return mix(mix(word ^ row) ^ column)


def _within(words: Words, limits: tuple[int, int]) -> Ints:
    """Whole numbers from the lowest to the highest, of the shape of the words."""
    low, high = limits
    return low + (words % np.uint64(high - low + 1)).astype(np.int64)


@dataclass(frozen=True)
class Draws:
    """What is drawn for `B` seeds.

    Attributes:
        shift: `(B,)` ticks by which everything happens later.
        errand: `(B, N, days)` ticks by which a person's day begins later than that.
        late: `(B, N, days)` bool, whether the lateness of the day's first errand is turned round.
        crossing: `(B, CROSSINGS)` ticks by which a crossing comes later than the shift.
        signal: `(B, intersections)` ticks by which walk begins later than on the map.
        fire: `(B, fires)` index into the fire tiles.
        seats: For each list of seats `(B, places)`: whose place takes over which, by index.
        post: `(B, officers)` index into an officer's posts.
    """

    shift: Ints
    errand: Ints
    late: NDArray[np.bool_]
    crossing: Ints
    signal: Ints
    fire: Ints
    seats: tuple[Ints, ...]
    post: Ints


def draw(spec: Scenario, town: Town, seeds: Words) -> Draws:
    """Draws what varies.

    Args:
        spec: The scenario.
        town: Its town.
        seeds: `(B,)` uint64.

    Returns:
        The draws.
    """
    ranges, days, people = spec.variation, spec.clock.days, len(spec.agents)
    shift = _within(_words(seeds, _SHIFT, 1), ranges.shift_ticks)[:, 0, 0]
    names = [item.name for item in town.intersections]
    signal = _within(_words(seeds, _SIGNAL, len(names)), ranges.signal_ticks)[:, :, 0]
    focal = _within(_words(seeds, _FOCAL, 1), ranges.focal_ticks)[:, 0, 0]
    signal[:, names.index(spec.focal_intersection)] = shift + focal
    tiles = _words(seeds, _FIRE, len(ranges.fire_tiles))[:, :, 0]
    hundredth = _within(_words(seeds, _LATE, people, days), (0, 99))
    posts = _words(seeds, _POST, len(spec.officers))[:, :, 0]
    choices = [len(ranges.posts.get(officer.id, ())) or 1 for officer in spec.officers]
    return Draws(
        shift=shift,
        errand=_within(_words(seeds, _ERRAND, people, days), ranges.errand_ticks),
        late=hundredth < ranges.late_percent,
        crossing=_within(_words(seeds, _CROSSING, layout.CROSSINGS), ranges.crossing_ticks)[
            :, :, 0
        ],
        signal=signal,
        fire=np.argsort(tiles, axis=1, kind="stable")[:, : len(spec.fires)],
        seats=tuple(
            np.argsort(_words(seeds, _SEAT + 100 * k, len(group))[:, :, 0], axis=1, kind="stable")
            for k, group in enumerate(ranges.seats, 1)
        ),
        post=(posts % np.array(choices, np.uint64)).astype(np.int64),
    )


def vary(world: World, seed: int) -> World:
    """The world that a seed plays in: what people are told of, and logs record.

    Args:
        world: The scenario with its town.
        seed: The episode's seed.

    Returns:
        The world itself where nothing but jitter varies, and else one that varies no further; it
        keeps the scenario's name.
    """
    return world if world.scenario.variation.kind == "paper" else _vary(world, int(seed))


def widely(spec: Scenario) -> Scenario:
    """The scenario with all that it says can vary.

    Args:
        spec: The scenario.

    Returns:
        The same of kind `wide`.
    """
    ranges = spec.variation.model_copy(update={"kind": "wide"})
    focus = spec.focus if ranges.focus is None else ranges.focus
    return spec.model_copy(update={"variation": ranges, "focus": focus})


@lru_cache(maxsize=64)
def _vary(world: World, seed: int) -> World:
    spec, town = world.scenario, world.town
    drawn = draw(spec, town, np.array([seed], np.uint64))
    moved = {
        name: group[int(new)]
        for group, dealt in zip(spec.variation.seats, drawn.seats, strict=True)
        for name, new in zip(group, dealt[0], strict=True)
    }
    changes = {
        "agents": [_varied_plan(plan, i, drawn, moved) for i, plan in enumerate(spec.agents)],
        **_varied_hazards(spec, drawn),
        **_varied_scripts(spec, drawn),
        "variation": type(spec.variation)(),
    }
    intersections = tuple(
        replace(item, green_start=(item.green_start + int(later)) % (item.red + item.green))
        for item, later in zip(town.intersections, drawn.signal[0], strict=True)
    )
    return replace(
        world,
        scenario=spec.model_copy(update=changes),
        town=replace(town, intersections=intersections),
    )


def _varied_plan(plan: AgentPlan, i: int, drawn: Draws, moved: dict[str, str]) -> AgentPlan:
    schedule, days = [], set()
    for errand in plan.schedule:
        turned = errand.day not in days and bool(drawn.late[0, i, errand.day - 1])
        days.add(errand.day)
        later = drawn.shift[0] + drawn.errand[0, i, errand.day - 1]
        changes = {
            "tick": errand.tick + int(later),
            "goal": moved.get(errand.goal, errand.goal),
            "late": errand.late != turned,
        }
        schedule.append(errand.model_copy(update=changes))
    start = moved.get(plan.start, plan.start)
    return plan.model_copy(update={"start": start, "schedule": schedule})


def _varied_hazards(spec: Scenario, drawn: Draws) -> dict[str, Any]:
    shift, tiles = int(drawn.shift[0]), spec.variation.fire_tiles
    fires = []
    for k, fire in enumerate(spec.fires):
        x, y = tiles[int(drawn.fire[0, k])] if tiles else (fire.x, fire.y)
        times = {"ignite": fire.ignite + shift, "extinguish": fire.extinguish + shift}
        fires.append(fire.model_copy(update={"x": x, "y": y, **times}))
    return {"fires": fires}


def _varied_scripts(spec: Scenario, drawn: Draws) -> dict[str, Any]:
    shift = int(drawn.shift[0])
    officers, confederates = [], []
    for o, officer in enumerate(spec.officers):
        posts = spec.variation.posts.get(officer.id)
        x, y = posts[int(drawn.post[0, o])] if posts else (officer.x, officer.y)
        times = {"start": officer.start + shift, "end": officer.end + shift}
        officers.append(officer.model_copy(update={"x": x, "y": y, **times}))
    for confederate in spec.confederates:
        crossings = [
            crossing.model_copy(update={"tick": crossing.tick + shift + int(later)})
            for crossing, later in zip(confederate.crossings, drawn.crossing[0], strict=False)
        ]
        confederates.append(confederate.model_copy(update={"crossings": crossings}))
    return {"officers": officers, "confederates": confederates}


class Varier:
    """Writes for many seeds at once what `vary` and `compile_config` make of each."""

    def __init__(self, world: World) -> None:
        """Prepares a scenario.

        Args:
            world: The scenario with its town.
        """
        self._world = world
        self._plain = compile_config(world)[0]

    def fields(self, seeds: Words) -> dict[str, Ints]:
        """What differs in the configurations.

        Args:
            seeds: `(B,)` uint64.

        Returns:
            Values by field of `layout.CONFIG`, each with `B` rows.
        """
        drawn = draw(self._world.scenario, self._world.town, seeds)
        return {**self._people(drawn), **self._hazards(drawn), **self._scripts(drawn)}

    def _people(self, drawn: Draws) -> dict[str, Ints]:
        spec, town, plain = self._world.scenario, self._world.town, self._plain
        batch, people = len(drawn.shift), len(spec.agents)
        new = np.tile(np.arange(len(town.places)), (batch, 1))
        for group, dealt in zip(spec.variation.seats, drawn.seats, strict=True):
            numbers = np.array([town.place_index(name) for name in group])
            new[:, numbers] = numbers[dealt]
        day = plain.schedule_day
        due = (day > 0)[None]
        who, which = np.arange(layout.CHARACTERS)[:, None], np.maximum(day, 1) - 1
        first = due.copy()
        first[0, :, 1:] &= day[:, 1:] != day[:, :-1]
        errand = np.zeros((batch, layout.CHARACTERS, spec.clock.days), np.int64)
        late = np.zeros(errand.shape, np.bool_)
        errand[:, :people], late[:, :people] = drawn.errand, drawn.late
        ticks = plain.schedule_tick + drawn.shift[:, None, None] + errand[:, who, which]
        start = new[:, plain.start]
        start[:, people:] = plain.start[people:]
        return {
            "start": start,
            "schedule_tick": np.where(due, ticks, plain.schedule_tick),
            "schedule_goal": np.where(due, new[:, plain.schedule_goal], plain.schedule_goal),
            "schedule_late": plain.schedule_late ^ (first & late[:, who, which]),
        }

    def _hazards(self, drawn: Draws) -> dict[str, Ints]:
        spec, plain = self._world.scenario, self._plain
        signals = slice(0, len(self._world.town.intersections))
        cycle = (plain.signal_red + plain.signal_green)[signals]
        begins = np.tile(plain.signal_start.astype(np.int64), (len(drawn.shift), 1))
        begins[:, signals] = (begins[:, signals] + drawn.signal) % cycle
        found = {"signal_start": begins}
        fires = slice(0, len(spec.fires))
        if spec.variation.fire_tiles:
            numbers = np.array([y * WIDTH + x for x, y in spec.variation.fire_tiles])
            found["fire_tile"] = np.tile(plain.fire_tile, (len(begins), 1))
            found["fire_tile"][:, fires] = numbers[drawn.fire]
        for key in ("fire_from", "fire_until"):
            found[key] = np.tile(plain[key], (len(begins), 1))
            found[key][:, fires] += drawn.shift[:, None]
        return found

    def _scripts(self, drawn: Draws) -> dict[str, Ints]:
        spec, plain = self._world.scenario, self._plain
        shift = drawn.shift[:, None]
        found = {
            key: np.tile(plain[key], (len(shift), 1))
            for key in ("officer_tile", "officer_from", "officer_until")
        }
        for o, officer in enumerate(spec.officers):
            if posts := spec.variation.posts.get(officer.id):
                numbers = np.array([y * WIDTH + x for x, y in posts])
                found["officer_tile"][:, o] = numbers[drawn.post[:, o]]
        for key in ("officer_from", "officer_until"):
            found[key][:, : len(spec.officers)] += shift
        later = plain.crossing_tick + (shift + drawn.crossing)[:, None]
        found["crossing_tick"] = np.where(plain.crossing_tick < 0, -1, later)
        return found
