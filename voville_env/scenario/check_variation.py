"""Checks of what a scenario varies: whatever is drawn must be a scenario that could be written."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from voville_env.core.codes import IMPASSABLE, WIDTH, Terrain
from voville_env.errors import ScenarioError, invalid
from voville_env.scenario.schema import Position

if TYPE_CHECKING:
    from voville_env.scenario.load import World


def check_variation(world: World) -> None:
    """Checks the ranges of a scenario that uses them against its times, people and town.

    Args:
        world: The scenario with town and people.

    Raises:
        ScenarioError: At the first thing that does not fit; it names file, key and value.
    """
    if world.scenario.variation.kind == "paper":
        return
    _check_fire_tiles(world)
    _check_seats(world)
    _check_posts(world)
    _check_times(world)
    _check_order(world)


def _fail(world: World, key: str, message: object) -> ScenarioError:
    return ScenarioError(f"{world.source}: variation.{key}{message}")


def _check_fire_tiles(world: World) -> None:
    spec, tiles = world.scenario, world.scenario.variation.fire_tiles
    safe = world.town.place(spec.safe_zone).box.tiles()
    for index, (x, y) in enumerate(tiles):
        found = f".{index} is [{x}, {y}]"
        if _terrain(world, (x, y)) is Terrain.WALL:
            raise _fail(world, "fire_tiles", f"{found}, a wall; allowed: any other tile")
        if y * WIDTH + x in safe:
            raise _fail(world, "fire_tiles", f"{found}, in {spec.safe_zone!r}; allowed: outside it")
    if len(set(tiles)) < len(tiles) or 0 < len(tiles) < len(spec.fires):
        raise _fail(
            world,
            "fire_tiles",
            f" is {[list(tile) for tile in tiles]}; allowed: different tiles, one or more for "
            f"each of {len(spec.fires)} fires",
        )


def _check_seats(world: World) -> None:
    spec = world.scenario
    homes = {plan.home: plan.id for plan in spec.agents}
    allowed = [place.name for place in world.town.places if place.name not in homes]
    seen: set[str] = set()
    for k, group in enumerate(spec.variation.seats):
        for j, name in enumerate(group):
            if name in homes:
                raise _fail(
                    world,
                    f"seats.{k}.{j}",
                    f" is {name!r}, the home of {homes[name]}; allowed: {', '.join(allowed)}",
                )
            if name not in allowed:
                raise _fail(world, "", invalid(f"seats.{k}.{j}", name, allowed))
            if name in seen:
                raise _fail(world, f"seats.{k}.{j}", f" is {name!r}, which is listed twice")
            seen.add(name)


def _check_posts(world: World) -> None:
    spec = world.scenario
    officers = {officer.id: officer for officer in spec.officers}
    for name, posts in spec.variation.posts.items():
        if not officers:  # a control without officers may carry the posts of its scenario
            return
        if name not in officers:
            raise _fail(world, "", invalid("officer of posts", name, officers))
        if not posts:
            raise _fail(world, f"posts.{name}", " is empty; allowed: one tile or more")
        for index, (x, y) in enumerate(posts):
            _check_post(world, officers[name], f"posts.{name}.{index}", (x, y))


def _check_post(world: World, officer: Any, key: str, post: Position) -> None:
    """An officer must be able to stand there, jitter included, and serve the same intersection."""
    spec, town = world.scenario, world.town
    crossing = town.intersections[town.intersection_index(officer.intersection)]
    for shift in range(spec.jitter.officer_tiles + 1):
        x = post[0] + (shift if officer.band == "x" else 0)
        y = post[1] + (shift if officer.band == "y" else 0)
        inside = 0 <= x < WIDTH and 0 <= y < WIDTH
        if not inside or _terrain(world, (x, y)) in IMPASSABLE:
            raise _fail(world, key, f" is {list(post)}: ({x}, {y}) is no walkable tile")
        if abs(x - crossing.x) + abs(y - crossing.y) > crossing.zone:
            raise _fail(
                world,
                key,
                f" is {list(post)}: ({x}, {y}) is beyond the zone of {crossing.name!r}; "
                f"allowed: within {crossing.zone} tiles of ({crossing.x}, {crossing.y})",
            )


def _check_times(world: World) -> None:
    """Every moment stays on its day, whatever is drawn."""
    spec = world.scenario
    ranges, last = spec.variation, spec.clock.ticks_per_day
    extra = {"errands": ranges.errand_ticks, "crossings": ranges.crossing_ticks}
    moments = [("fires", 0, fire.ignite, fire.extinguish - 1) for fire in spec.fires]
    moments += [("officers", 0, item.start, item.end - 1) for item in spec.officers]
    moments += [("errands", 1, e.tick, e.tick) for plan in spec.agents for e in plan.schedule]
    moments += [
        ("crossings", 1, item.tick, item.tick) for c in spec.confederates for item in c.crossings
    ]
    for what, own, start, end in moments:
        low, high = extra[what] if own else (0, 0)
        first, final = start + ranges.shift_ticks[0] + low, end + ranges.shift_ticks[1] + high
        if first < 0 or final >= last:
            raise _fail(
                world,
                "shift_ticks",
                f" is {list(ranges.shift_ticks)}: {what} of tick {start} would come at ticks "
                f"{first} to {final}; allowed: 0 to {last - 1}",
            )


def _check_order(world: World) -> None:
    """Crossings keep their order, whatever is drawn."""
    spec = world.scenario
    low, high = spec.variation.crossing_ticks
    for confederate in spec.confederates:
        ticks = [spec.absolute(item.day, item.tick) for item in confederate.crossings]
        for before, after in pairwise(ticks):
            if after - before <= high - low:
                raise _fail(
                    world,
                    "crossing_ticks",
                    f" is {[low, high]}: crossings of {confederate.id} {after - before} ticks "
                    f"apart could change places; allowed: less than {after - before} wide",
                )


def _terrain(world: World, tile: Position) -> Terrain:
    return Terrain(int(world.town.terrain[tile[1], tile[0]]))
