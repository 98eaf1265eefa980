"""What a town is: tiles, streets, intersections, buildings, places and items."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voville_env.core.codes import HEIGHT, WIDTH, Direction, Rule, Terrain
from voville_env.errors import invalid

NO_SIGNAL = 255
TileArray = NDArray[np.uint8]


@dataclass(frozen=True)
class Box:
    """A rectangle of tiles.

    Attributes:
        x: Leftmost column.
        y: Topmost row.
        width: Columns.
        height: Rows.
    """

    x: int
    y: int
    width: int = 1
    height: int = 1

    def tiles(self) -> list[int]:
        """Tile numbers (`y * 64 + x`) of the rectangle, row by row.

        Returns:
            `width * height` numbers.
        """
        return [
            row * WIDTH + column
            for row in range(self.y, self.y + self.height)
            for column in range(self.x, self.x + self.width)
        ]


@dataclass(frozen=True)
class Street:
    """A named street: its carriageway, direction and the traffic rules that hold on it.

    Attributes:
        name: Its name.
        box: The rectangle of its carriageway; sidewalks are not part of it.
        direction: Legal direction of a one-way street, or None.
        rules: The traffic rules that the street carries.
    """

    name: str
    box: Box
    direction: Direction | None
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Intersection:
    """A signalised intersection: one pedestrian signal for all of its crosswalks.

    Attributes:
        name: Its name.
        x: Column of its centre.
        y: Row of its centre.
        zone: Radius of the effective zone, in tiles (Manhattan).
        red: Ticks of don't-walk in a cycle.
        green: Ticks of walk in a cycle.
        green_start: A tick at which walk begins.
        crosswalks: The rectangles of its crosswalks.
    """

    name: str
    x: int
    y: int
    zone: int
    red: int
    green: int
    green_start: int
    crosswalks: tuple[Box, ...]


@dataclass(frozen=True)
class Building:
    """A building, closed by walls except at its doors.

    Attributes:
        name: Its name.
        box: Its footprint.
        private: Whether entering it breaks a rule for those who do not own it.
        owners: Ids of the agents who own it.
    """

    name: str
    box: Box
    private: bool
    owners: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """A named destination.

    Attributes:
        name: Its name.
        box: Its tiles; being on any of them is being there.
        safe_zone: Whether people are safe from hazards there.
    """

    name: str
    box: Box
    safe_zone: bool = False


@dataclass(frozen=True)
class Item:
    """A thing that can be taken.

    Attributes:
        name: Its name.
        kind: What it is, such as `bicycle`.
        x: Column.
        y: Row.
        owner: Id of the agent who owns it, empty for somebody else's.
    """

    name: str
    kind: str
    x: int
    y: int
    owner: str = ""


@dataclass(frozen=True, eq=False)
class Town:
    """A town: public knowledge, given to every policy.

    Attributes:
        name: Its name.
        terrain: `(64, 64)` uint8 of `Terrain`, indexed `[y, x]`.
        streets: Its streets.
        intersections: Its signalised intersections; the index is the signal number.
        buildings: Its buildings; the index plus one is the building number.
        places: Its destinations; the index is the destination number.
        items: What can be taken.
    """

    name: str
    terrain: TileArray
    streets: tuple[Street, ...]
    intersections: tuple[Intersection, ...]
    buildings: tuple[Building, ...]
    places: tuple[Place, ...]
    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        """Freezes the tile array: on immutable bytes, so that nobody can make it writable again."""
        frozen = np.frombuffer(self.terrain.tobytes(), np.uint8).reshape(self.terrain.shape)
        object.__setattr__(self, "terrain", frozen)

    def place(self, name: str) -> Place:
        """Finds a destination by name.

        Args:
            name: Its name.

        Returns:
            The place.

        Raises:
            InvalidValueError: If there is no such place.
        """
        for place in self.places:
            if place.name == name:
                return place
        raise invalid("place", name, [place.name for place in self.places])

    def place_index(self, name: str) -> int:
        """The destination number of a place.

        Args:
            name: Its name.

        Returns:
            Its index in `places`.
        """
        return self.places.index(self.place(name))

    def intersection_index(self, name: str) -> int:
        """The signal number of an intersection.

        Args:
            name: Its name.

        Returns:
            Its index in `intersections`.

        Raises:
            InvalidValueError: If there is no such intersection.
        """
        for index, intersection in enumerate(self.intersections):
            if intersection.name == name:
                return index
        raise invalid("intersection", name, [item.name for item in self.intersections])

    def building_at(self, x: int, y: int) -> Building | None:
        """The building that covers a tile.

        Args:
            x: Column.
            y: Row.

        Returns:
            The building, or None outdoors.
        """
        for building in self.buildings:
            if y * WIDTH + x in building.box.tiles():
                return building
        return None

    def street_at(self, x: int, y: int) -> Street | None:
        """The street whose carriageway covers a tile; the first listed where two meet.

        Args:
            x: Column.
            y: Row.

        Returns:
            The street, or None.
        """
        if Terrain(int(self.terrain[y, x])) not in (
            Terrain.ROAD,
            Terrain.CROSSWALK,
            Terrain.CORDON,
        ):
            return None
        for street in self.streets:
            box = street.box
            if box.x <= x < box.x + box.width and box.y <= y < box.y + box.height:
                return street
        return None

    def zone_at(self, x: int, y: int) -> str:
        """A name for where a tile lies: a building, a place that is a safe zone, a street, a zone.

        Args:
            x: Column.
            y: Row.

        Returns:
            The name of the building, safe zone, intersection zone or street; `street` elsewhere.
        """
        if building := self.building_at(x, y):
            return building.name
        for place in self.places:
            if place.safe_zone and y * WIDTH + x in place.box.tiles():
                return place.name
        near = min(
            ((abs(item.x - x) + abs(item.y - y), item) for item in self.intersections),
            key=lambda pair: pair[0],
            default=None,
        )
        if near is not None and near[0] <= near[1].zone:
            return near[1].name
        street = self.street_at(x, y)
        return street.name if street else "street"

    def digest(self) -> str:
        """Hash of everything that makes the town.

        Returns:
            Sixteen hex digits.
        """
        text = repr(
            (self.streets, self.intersections, self.buildings, self.places, self.items)
        ).encode()
        return hashlib.sha256(self.terrain.tobytes() + text).hexdigest()[:16]


def empty_terrain() -> TileArray:
    """A tile array full of walls.

    Returns:
        `(64, 64)` uint8.
    """
    return np.full((HEIGHT, WIDTH), Terrain.WALL, np.uint8)
