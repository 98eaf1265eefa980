"""Checks that need the town: references, reachable goals, posts and paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from voville_env.core import layout
from voville_env.core.codes import IMPASSABLE, WIDTH, Route, Terrain, Verb
from voville_env.core.rules import movement_table
from voville_env.errors import ScenarioError, invalid
from voville_env.navigation import Navigator
from voville_env.scenario.check_variation import check_variation
from voville_env.scenario.schema import Confederate, Position

if TYPE_CHECKING:
    from voville_env.scenario.load import World


def check_world(world: World) -> None:
    """Checks a scenario against its town.

    Args:
        world: The scenario with town and people.

    Raises:
        ScenarioError: At the first thing that does not fit; it names file, key and value.
    """
    _check_counts(world)
    _check_references(world)
    _check_times(world)
    _check_characters(world)
    check_variation(world)
    _check_reachable(world)


def _fail(world: World, message: object) -> ScenarioError:
    return ScenarioError(f"{world.source}: {message}")


def _check_counts(world: World) -> None:
    spec = world.scenario
    total = len(spec.agents) + len(spec.officers) + len(spec.confederates)
    if total > layout.CHARACTERS:
        raise _fail(world, f"{total} characters; the core holds {layout.CHARACTERS}")
    every = [plan.id for plan in spec.agents]
    every += [officer.id for officer in spec.officers]
    every += [confederate.id for confederate in spec.confederates]
    for name in every:
        if every.count(name) > 1:
            raise _fail(world, f"id {name!r} is used twice")
    # A control without confederates may carry the count of the scenario that it belongs to.
    taking_part = len(spec.confederates)
    if taking_part and spec.confederate_count not in (None, taking_part):
        raise _fail(
            world, f"confederate_count is {spec.confederate_count}; allowed: 0 to {taking_part}"
        )


def _check_references(world: World) -> None:
    spec, town = world.scenario, world.town
    places = [place.name for place in town.places]
    crossings = [item.name for item in town.intersections]

    def need(key: str, value: str, allowed: list[str]) -> None:
        if value not in allowed:
            raise _fail(world, invalid(key, value, allowed))

    need("safe_zone", spec.safe_zone, [place.name for place in town.places if place.safe_zone])
    need("refuge", spec.refuge, places)
    need("focal_intersection", spec.focal_intersection, crossings)
    for name in spec.commuter_ids:
        need("commuter_ids", name, [plan.id for plan in spec.agents])
    for index, plan in enumerate(spec.agents):
        need(f"agents.{index}.start", plan.start, places)
        need(f"agents.{index}.home", plan.home, places)
        for row, errand in enumerate(plan.schedule):
            need(f"agents.{index}.schedule.{row}.goal", errand.goal, places)
    for index, officer in enumerate(spec.officers):
        need(f"officers.{index}.intersection", officer.intersection, crossings)


def _check_times(world: World) -> None:
    spec = world.scenario

    def need(key: str, day: int, tick: int, *, end: bool = False) -> None:
        if day > spec.clock.days:
            raise _fail(world, f"{key}: day is {day}; allowed: 1 to {spec.clock.days}")
        last = spec.clock.ticks_per_day - (0 if end else 1)
        if tick > last:
            raise _fail(world, f"{key}: tick is {tick}; allowed: 0 to {last}")

    for index, plan in enumerate(spec.agents):
        moments = [(errand.day, errand.tick) for errand in plan.schedule]
        for row, (day, tick) in enumerate(moments):
            need(f"agents.{index}.schedule.{row}", day, tick)
        if moments != sorted(set(moments)):
            raise _fail(world, f"agents.{index}.schedule is not in the order of its ticks")
    for index, fire in enumerate(spec.fires):
        need(f"fires.{index}.extinguish", fire.day, fire.extinguish, end=True)
    for index, officer in enumerate(spec.officers):
        need(f"officers.{index}.end", officer.day, officer.end, end=True)
    for index, confederate in enumerate(spec.confederates):
        for row, crossing in enumerate(confederate.crossings):
            need(f"confederates.{index}.crossings.{row}", crossing.day, crossing.tick)
    _check_scripts(world)
    day, start, end = spec.focus
    need("focus", day, end, end=True)
    if start >= end:
        raise _fail(world, f"focus is {list(spec.focus)}; allowed: [day, start, end], start < end")


def _check_scripts(world: World) -> None:
    """Duties end after they start, and crossings come one after the other."""
    for index, officer in enumerate(world.scenario.officers):
        if officer.start >= officer.end:
            raise _fail(world, f"officers.{index}: start is {officer.start}; allowed: before end")
    for index, confederate in enumerate(world.scenario.confederates):
        when = [(crossing.day, crossing.tick) for crossing in confederate.crossings]
        if when != sorted(set(when)):
            raise _fail(world, f"confederates.{index}.crossings: not in the order of their ticks")


def _check_characters(world: World) -> None:
    spec, town = world.scenario, world.town
    starts: dict[str, str] = {}
    for key in ("start", "home"):
        starts.clear()
        for plan in spec.agents:
            place = getattr(plan, key)
            if place in starts:
                raise _fail(world, f"{key} of {plan.id} and {starts[place]} is the same: {place!r}")
            starts[place] = plan.id
    _check_goals(world)
    for index, officer in enumerate(spec.officers):
        for shift in range(spec.jitter.officer_tiles + 1):
            x = officer.x + (shift if officer.band == "x" else 0)
            y = officer.y + (shift if officer.band == "y" else 0)
            if not 0 <= x < WIDTH or not 0 <= y < WIDTH or _terrain(world, (x, y)) in IMPASSABLE:
                raise _fail(world, f"officers.{index}: the post ({x}, {y}) is no walkable tile")
    for index, fire in enumerate(spec.fires):
        if _terrain(world, (fire.x, fire.y)) is Terrain.WALL:
            raise _fail(world, f"fires.{index}: ({fire.x}, {fire.y}) is a wall")
    for index, confederate in enumerate(spec.confederates):
        _check_path(world, index, confederate)
    if any(item.owner and item.owner not in world.agent_ids for item in town.items):
        names = [item.name for item in town.items if item.owner not in world.agent_ids]
        raise _fail(world, f"item {names[0]!r} belongs to nobody in this scenario")


def _check_goals(world: World) -> None:
    """A place is for one person: a night or a window may start with everybody at theirs."""
    owner: dict[str, str] = {}
    for plan in world.scenario.agents:
        for place in (plan.start, plan.home, *(errand.goal for errand in plan.schedule)):
            if owner.setdefault(place, plan.id) != plan.id:
                raise _fail(world, f"{plan.id} and {owner[place]} both use the place {place!r}")
    taken = {
        (tile % WIDTH, tile // WIDTH): place
        for place in owner
        for tile in world.town.place(place).box.tiles()
    }
    for index, officer in enumerate(world.scenario.officers):
        if (officer.x, officer.y) in taken:
            where = taken[officer.x, officer.y]
            raise _fail(world, f"officers.{index}: the post lies in the place {where!r}")


def _terrain(world: World, tile: Position) -> Terrain:
    return Terrain(int(world.town.terrain[tile[1], tile[0]]))


def _check_path(world: World, index: int, confederate: Confederate) -> None:
    table = movement_table()
    for (x, y), (u, v) in zip(confederate.path, confederate.path[1:], strict=False):
        if abs(x - u) + abs(y - v) != 1:
            raise _fail(
                world, f"confederates.{index}.path: ({x}, {y}) and ({u}, {v}) are no neighbours"
            )
        if table[_terrain(world, (x, y)), _terrain(world, (u, v))].verb is Verb.NONE:
            raise _fail(world, f"confederates.{index}.path: no step from ({x}, {y}) to ({u}, {v})")


def _check_reachable(world: World) -> None:
    """Every goal must have a lawful way from wherever its person may be before."""
    spec = world.scenario
    navigator = Navigator(world.town, world.agent_ids, spec.clock.steps_per_tick)
    for index, plan in enumerate(spec.agents):
        wanted = [plan.start, plan.home, *(errand.goal for errand in plan.schedule)]
        for group in spec.variation.seats if spec.variation.kind == "wide" else ():
            wanted += group if set(group) & set(wanted) else []
        stops = dict.fromkeys([*wanted, spec.safe_zone, spec.refuge])
        for goal in stops:
            box = world.town.place(goal).box
            if all(_terrain(world, (t % WIDTH, t // WIDTH)) in IMPASSABLE for t in box.tiles()):
                raise _fail(world, f"place {goal!r} has no walkable tile")
            for origin in stops:
                start = navigator.representative(origin)
                if navigator.distance(*start, goal, Route.LAWFUL) is None:
                    raise _fail(
                        world,
                        f"agents.{index}: {plan.id} has no lawful way from {origin!r} to {goal!r}",
                    )
