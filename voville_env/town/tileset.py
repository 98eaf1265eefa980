"""The tileset that our maps are painted with: one tile for each terrain, and its picture."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from xml.etree import ElementTree

from voville_env.core.codes import Terrain

TILE_SIZE = 16
"""Side of a tile in pixels."""

TILESET_NAME = "town.tsx"
IMAGE_NAME = "tiles.png"
TILED_VERSION = {"version": "1.10", "tiledversion": "1.10.2"}

Colour = tuple[int, int, int]
Pattern = Callable[[int, int], bool]

_WHITE: Colour = (238, 238, 230)
_ASPHALT: Colour = (84, 86, 92)


def _boards(x: int, y: int) -> bool:
    return y % 4 == 3 or (x + 5 * (y // 4)) % 16 == 0


def _door(x: int, y: int) -> bool:
    return x in (0, 1, 14, 15) or y < 2 or (x, y) in ((11, 8), (11, 9), (12, 8), (12, 9))


_TILES: dict[Terrain, tuple[Colour, Colour, Pattern]] = {
    Terrain.WALL: (
        (74, 58, 54),
        (52, 40, 38),
        lambda x, y: y % 4 == 3 or (x + 4 * (y // 4)) % 8 == 7,
    ),
    Terrain.PAVEMENT: ((198, 196, 188), (176, 174, 166), lambda x, y: x % 8 == 7 or y % 8 == 7),
    Terrain.ROAD: (_ASPHALT, (98, 100, 106), lambda x, y: (7 * x + 13 * y) % 29 == 0),
    Terrain.CROSSWALK: (_ASPHALT, _WHITE, lambda x, y: x % 4 < 2),
    Terrain.PARK: ((112, 168, 92), (86, 140, 70), lambda x, y: (5 * x + 3 * y) % 13 == 0),
    Terrain.FLOOR: ((222, 190, 142), (200, 166, 118), _boards),
    Terrain.DOOR: ((168, 108, 52), (104, 62, 28), _door),
    Terrain.PRIVATE_FLOOR: ((190, 170, 214), (166, 144, 194), _boards),
    Terrain.PRIVATE_DOOR: ((128, 88, 168), (78, 48, 110), _door),
    Terrain.CORDON: ((240, 196, 40), (40, 40, 40), lambda x, y: (x + y) % 8 < 4),
    Terrain.OBSTACLE: (
        (124, 120, 112),
        (58, 84, 60),
        lambda x, y: (2 * x - 15) ** 2 + (2 * y - 15) ** 2 < 13**2,
    ),
}
"""Ground colour, mark colour and where the marks are, of each terrain."""


def tile_pixel(terrain: Terrain, x: int, y: int) -> Colour:
    """The colour of one pixel of a tile.

    Args:
        terrain: The tile.
        x: Column in the tile, 0 to 15.
        y: Row in the tile, 0 to 15.

    Returns:
        Red, green and blue.
    """
    ground, mark, marked = _TILES[terrain]
    return mark if marked(x, y) else ground


def tileset_image() -> bytes:
    """Draws the picture of the tileset.

    Returns:
        A PNG file, the terrains side by side in the order of their codes.
    """
    rows = b""
    for y in range(TILE_SIZE):
        pixels = [tile_pixel(terrain, x, y) for terrain in Terrain for x in range(TILE_SIZE)]
        rows += b"\0" + bytes(value for pixel in pixels for value in pixel)
    header = struct.pack(">IIBBBBB", TILE_SIZE * len(Terrain), TILE_SIZE, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + chunks + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def tileset_text() -> bytes:
    """Writes the tileset: which tile has which terrain.

    Returns:
        A TSX file in UTF-8, tile `k` being `Terrain(k)`.
    """
    size = {"tilewidth": str(TILE_SIZE), "tileheight": str(TILE_SIZE)}
    count = {"tilecount": str(len(Terrain)), "columns": str(len(Terrain))}
    root = ElementTree.Element("tileset", TILED_VERSION | {"name": "town"} | size | count)
    extent = {"width": str(TILE_SIZE * len(Terrain)), "height": str(TILE_SIZE)}
    ElementTree.SubElement(root, "image", {"source": IMAGE_NAME} | extent)
    for terrain in Terrain:
        tile = ElementTree.SubElement(root, "tile", id=str(int(terrain)))
        add_properties(tile, {"terrain": terrain.name})
    return document(root)


def add_properties(parent: ElementTree.Element, values: dict[str, str | int | bool]) -> None:
    """Adds custom properties to an element, typed as their values are.

    Args:
        parent: The element.
        values: The value of each property.
    """
    properties = ElementTree.SubElement(parent, "properties")
    for name, value in values.items():
        element = ElementTree.SubElement(properties, "property", name=name)
        if isinstance(value, bool):
            element.set("type", "bool")
        elif isinstance(value, int):
            element.set("type", "int")
        element.set("value", str(value).lower() if isinstance(value, bool) else str(value))


def document(root: ElementTree.Element) -> bytes:
    """An XML document in UTF-8, laid out as Tiled does.

    Args:
        root: Its root.

    Returns:
        The bytes of the file.
    """
    ElementTree.indent(root, " ")
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()
