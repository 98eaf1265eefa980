"""What the tiles and objects of a map must fulfil to make a town."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from voville_env.core.codes import CARRIAGEWAY, HEIGHT, IMPASSABLE, TILES, WIDTH, Terrain
from voville_env.errors import MapError
from voville_env.town.model import Box, Building, Town

PUBLIC_TILES = (Terrain.FLOOR, Terrain.DOOR, Terrain.OBSTACLE)
PRIVATE_TILES = (Terrain.PRIVATE_FLOOR, Terrain.PRIVATE_DOOR, Terrain.OBSTACLE)
_DOORS = (Terrain.DOOR, Terrain.PRIVATE_DOOR)
_INDOORS = (Terrain.FLOOR, Terrain.PRIVATE_FLOOR, *_DOORS)


def check_town(town: Town, source: str) -> None:
    """Checks that the parts of a town fit together.

    Whether people can reach their goals is not checked here.

    Args:
        town: The town.
        source: The map file, for messages.

    Raises:
        MapError: If something does not fit; says what and where.
    """
    check = _Check(town, source)
    check.names()
    check.inside()
    check.border()
    check.streets()
    check.intersections()
    check.buildings()
    check.destinations()


class _Check:
    """The checks of one town, each a method."""

    def __init__(self, town: Town, source: str) -> None:
        self.town = town
        self.source = source

    def names(self) -> None:
        layers: dict[str, list[str]] = {
            "streets": [street.name for street in self.town.streets],
            "intersections": [intersection.name for intersection in self.town.intersections],
            "buildings": [building.name for building in self.town.buildings],
            "places": [place.name for place in self.town.places],
            "items": [item.name for item in self.town.items],
        }
        for layer, names in layers.items():
            for number, name in enumerate(names):
                if not name.strip():
                    where = f"layer {layer!r}: object number {number + 1}"
                    raise self.error(where, f"its name is {name!r}; allowed: any other name")
                if name in names[:number]:
                    raise self.error(_where(layer, name), "the name is there twice; allowed: once")

    def inside(self) -> None:
        for where, box in self._boxes():
            if (
                min(box.x, box.y) < 0
                or min(box.width, box.height) < 1
                or box.x + box.width > WIDTH
                or box.y + box.height > HEIGHT
            ):
                raise self.error(
                    where,
                    f"lies outside the map: {_extent(box)}; "
                    f"allowed: x 0 to {WIDTH - 1}, y 0 to {HEIGHT - 1}",
                )

    def border(self) -> None:
        for tile in range(TILES):
            y, x = divmod(tile, WIDTH)
            if (x in (0, WIDTH - 1) or y in (0, HEIGHT - 1)) and self.at(tile) not in IMPASSABLE:
                raise self.tile_error("layer 'terrain'", tile, IMPASSABLE, "on the border")

    def streets(self) -> None:
        covered: set[int] = set()
        for street in self.town.streets:
            covered.update(street.box.tiles())
            if not any(self.at(tile) in CARRIAGEWAY for tile in street.box.tiles()):
                raise self.error(
                    _where("streets", street.name),
                    f"has no carriageway in {_extent(street.box)}; needed: {_names(CARRIAGEWAY)}",
                )
        for tile in range(TILES):
            if self.at(tile) is Terrain.ROAD and tile not in covered:
                raise self.error(
                    f"layer 'terrain': tile {_xy(tile)}", "is ROAD outside of any street"
                )

    def intersections(self) -> None:
        owner: dict[int, str] = {}
        for intersection in self.town.intersections:
            name = intersection.name
            if not intersection.crosswalks:
                problem = "has no crosswalk; needed: one or more in layer 'crosswalks'"
                raise self.error(_where("intersections", name), problem)
            for box in intersection.crosswalks:
                where = _crosswalk(name, box)
                for tile in box.tiles():
                    if self.at(tile) is not Terrain.CROSSWALK:
                        raise self.tile_error(where, tile, [Terrain.CROSSWALK])
                    if owner.setdefault(tile, name) != name:
                        problem = f"tile {_xy(tile)} belongs to intersection {owner[tile]!r} too"
                        raise self.error(where, problem)

    def buildings(self) -> None:
        building_of: dict[int, Building] = {}
        for building in self.town.buildings:
            where = _where("buildings", building.name)
            kinds = PRIVATE_TILES if building.private else PUBLIC_TILES
            for tile in building.box.tiles():
                other = building_of.setdefault(tile, building)
                if other is not building:
                    problem = f"overlaps building {other.name!r} at tile {_xy(tile)}"
                    raise self.error(where, problem)
                if self.at(tile) not in kinds:
                    what = f"in a {'private' if building.private else 'public'} building"
                    raise self.tile_error(where, tile, kinds, what)
            if not any(self.at(tile) in _DOORS for tile in building.box.tiles()):
                raise self.error(where, f"has no door; needed: a tile of {kinds[1].name}")
        for tile in range(TILES):
            if self.at(tile) in _INDOORS and tile not in building_of:
                problem = f"is {self.at(tile).name} outside of any building"
                raise self.error(f"layer 'terrain': tile {_xy(tile)}", problem)

    def destinations(self) -> None:
        for place in self.town.places:
            if all(self.at(tile) in IMPASSABLE for tile in place.box.tiles()):
                problem = f"all its tiles are impassable: {_extent(place.box)}"
                raise self.error(_where("places", place.name), problem)
        for item in self.town.items:
            terrain = self.at(item.y * WIDTH + item.x)
            if terrain in IMPASSABLE:
                problem = f"its tile ({item.x}, {item.y}) is impassable: {terrain.name}"
                raise self.error(_where("items", item.name), problem)

    def at(self, tile: int) -> Terrain:
        return Terrain(self.town.terrain.item(tile))

    def error(self, where: str, problem: str) -> MapError:
        return MapError(f"{self.source}: {where}: {problem}")

    def tile_error(
        self, where: str, tile: int, allowed: Iterable[Terrain], what: str = ""
    ) -> MapError:
        found = f"{self.at(tile).name} {what}".rstrip()
        return self.error(where, f"tile {_xy(tile)} is {found}; allowed: {_names(allowed)}")

    def _boxes(self) -> Iterator[tuple[str, Box]]:
        town = self.town
        for street in town.streets:
            yield _where("streets", street.name), street.box
        for intersection in town.intersections:
            yield _where("intersections", intersection.name), Box(intersection.x, intersection.y)
            for box in intersection.crosswalks:
                yield _crosswalk(intersection.name, box), box
        for building in town.buildings:
            yield _where("buildings", building.name), building.box
        for place in town.places:
            yield _where("places", place.name), place.box
        for item in town.items:
            yield _where("items", item.name), Box(item.x, item.y)


def _where(layer: str, name: str) -> str:
    return f"layer {layer!r}: object {name!r}"


def _crosswalk(intersection: str, box: Box) -> str:
    return f"layer 'crosswalks': a crosswalk of {intersection!r} at ({box.x}, {box.y})"


def _extent(box: Box) -> str:
    return f"x {box.x} to {box.x + box.width - 1}, y {box.y} to {box.y + box.height - 1}"


def _xy(tile: int) -> str:
    return f"({tile % WIDTH}, {tile // WIDTH})"


def _names(terrains: Iterable[Terrain]) -> str:
    return ", ".join(terrain.name for terrain in terrains)
