"""Reads a TMX (Tiled) file into plain records, and refuses whatever would be lost on the way.

`pytiled_parser` does the reading. It passes over some things in silence (an unknown compression, a
layer within a group, a property without a value), so the raw XML is looked at first and counted
against what it gives. The names of layers and properties are the table `PROPERTIES`.
"""

from __future__ import annotations

import importlib.util
import math
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytiled_parser
from pytiled_parser.common_types import Size
from pytiled_parser.tiled_map import TilesetDict
from pytiled_parser.tiled_object import Point, Tile, TiledObject

from voville_env.core.codes import HEIGHT, WIDTH, Terrain
from voville_env.errors import MapError, invalid, nearest
from voville_env.town.model import Box, TileArray

PROPERTIES: dict[str, dict[str, type]] = {
    "streets": {"direction": str, "rules": str},
    "intersections": {"zone": int, "red": int, "green": int, "green_start": int},
    "crosswalks": {"intersection": str},
    "buildings": {"private": bool, "owners": str},
    "places": {"safe_zone": bool},
    "items": {"kind": str, "owner": str},
}
"""The object layers, and the custom properties that each of their objects has."""

LAYERS = ("terrain", *PROPERTIES)
MAP_PROPERTIES: dict[str, type] = {"name": str}
POINT_LAYERS = ("intersections", "items")

_TYPE_NAMES = {str: "string", int: "int", bool: "bool"}
_LITERALS = {"bool": "true|false", "int": r"-?\d{1,9}", "string": "(?s:.*)"}
_LAYER_TAGS = ("layer", "objectgroup", "imagelayer", "group")
_ENCODINGS = ("csv", "base64")
_COMPRESSIONS = ("gzip", "zlib", "zstd")
_ALIGNMENTS = ("unspecified", "bottomleft")
_GID_BITS = 32
_GID_WITHOUT_FLIPS = 0x0FFFFFFF


@dataclass(frozen=True)
class Entry:
    """One object of a map.

    Attributes:
        where: The file, layer and object, for messages.
        name: Its name.
        box: Its tiles.
        values: Its custom properties, all present and of the right type.
    """

    where: str
    name: str
    box: Box
    values: dict[str, object]

    def text(self, key: str) -> str:
        """The value of a string property."""
        return str(self.values[key])

    def flag(self, key: str) -> bool:
        """The value of a bool property."""
        return self.values[key] is True

    def number(self, key: str, most: int) -> int:
        """The value of an int property that lies in `0..most`."""
        value = self.values[key]
        if not isinstance(value, int) or not 0 <= value <= most:
            raise MapError(f"{self.where}: property {key!r} is {value!r}; allowed: 0 to {most}")
        return value

    def listed(self, key: str) -> tuple[str, ...]:
        """The parts of a string property that is a comma list; an empty string has none."""
        text = self.text(key)
        parts = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
        if "" in parts or len(set(parts)) != len(parts):
            raise MapError(
                f"{self.where}: property {key!r} is {text!r}; "
                "allowed: names between commas, each once"
            )
        return parts


@dataclass(frozen=True)
class MapFile:
    """What a map file says.

    Attributes:
        name: The name of the town.
        terrain: `(64, 64)` uint8 of `Terrain`, indexed `[y, x]`.
        entries: The objects of each object layer, in the order of the file.
    """

    name: str
    terrain: TileArray
    entries: dict[str, list[Entry]]


def read_map(path: Path) -> MapFile:
    """Reads a map file.

    Args:
        path: The TMX file.

    Returns:
        Its tiles and objects; whether they make a town is not checked.

    Raises:
        MapError: If the file is missing, is not such a map or uses what is not supported.
    """
    root = _read_xml(path, "map", "TMX")
    _check_header(path, root)
    _check_layers(path, root)
    _check_data(path, root)
    _check_objects(path, root)
    _check_values(f"{path}: the map", root)
    _check_tilesets(path, root)
    tiled = _parse(path, root)
    layers = {layer.name: layer for layer in tiled.layers}
    terrain = layers.pop("terrain")
    assert isinstance(terrain, pytiled_parser.TileLayer)
    entries = {}
    for name, layer in layers.items():
        assert isinstance(layer, pytiled_parser.ObjectLayer)
        objects = root.findall(f"./objectgroup[@name='{name}']/object")
        _check_count(path, f"layer {name!r}", len(layer.tiled_objects), len(objects))
        entries[name] = [_entry(path, name, item, tiled.tile_size) for item in layer.tiled_objects]
    values = _typed(f"{path}: the map", dict(tiled.properties or {}), MAP_PROPERTIES)
    return MapFile(str(values["name"]), _terrain(path, terrain.data or [], tiled.tilesets), entries)


def _read_xml(path: Path, tag: str, kind: str) -> ElementTree.Element:
    try:
        root = ElementTree.fromstring(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        near = [other.name for other in path.parent.glob(f"*.{kind.lower()}")]
        raise MapError(f"{path}: there is no such file{nearest(path.name, near)}") from None
    except OSError as error:
        raise MapError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MapError(f"{path}: is not a {kind} file in UTF-8: {error.reason}") from error
    except ElementTree.ParseError as error:
        raise MapError(f"{path}: is not a {kind} file: {error}") from error
    if root.tag != tag:
        raise MapError(f"{path}: is not a {kind} file: its root is {root.tag!r}, not {tag!r}")
    return root


def _check_header(path: Path, root: ElementTree.Element) -> None:
    if root.get("infinite", "0") != "0":
        raise MapError(f"{path}: the map is infinite; allowed: a fixed size of {WIDTH}×{HEIGHT}")
    size = (root.get("width"), root.get("height"))
    if size != (str(WIDTH), str(HEIGHT)):
        given = "×".join(str(length) for length in size)
        raise MapError(f"{path}: the map has {given} tiles; allowed: {WIDTH}×{HEIGHT}")
    if root.get("orientation") != "orthogonal":
        raise MapError(f"{path}: {invalid('orientation', root.get('orientation'), ['orthogonal'])}")


def _check_layers(path: Path, root: ElementTree.Element) -> None:
    seen: set[str] = set()
    for element in root:
        if element.tag not in _LAYER_TAGS:
            continue
        name = element.get("name", "")
        if name not in LAYERS:
            raise MapError(f"{path}: {invalid('unknown layer: its name', name, LAYERS)}")
        if name in seen:
            raise MapError(f"{path}: layer {name!r}: there are two; allowed: one")
        seen.add(name)
        kind = "layer" if name == "terrain" else "objectgroup"
        if element.tag != kind:
            raise MapError(f"{path}: layer {name!r}: {invalid('its kind', element.tag, [kind])}")
        if any(element.get(key, "0") != "0" for key in ("offsetx", "offsety")):
            raise MapError(f"{path}: layer {name!r}: has an offset; allowed: none")
    for name in LAYERS:
        if name not in seen:
            raise MapError(f"{path}: layer {name!r} is missing; needed: {', '.join(LAYERS)}")


def _check_data(path: Path, root: ElementTree.Element) -> None:
    where = f"{path}: layer 'terrain'"
    data = root.find("./layer/data")
    if data is None:
        raise MapError(f"{where}: holds no tiles; allowed: {WIDTH * HEIGHT}")
    encoding, compression = data.get("encoding"), data.get("compression")
    if encoding not in (None, *_ENCODINGS):
        raise MapError(f"{where}: {invalid('encoding', encoding, _ENCODINGS)}")
    if compression and (encoding != "base64" or compression not in _COMPRESSIONS):
        allowed = _COMPRESSIONS if encoding == "base64" else ["none"]
        raise MapError(f"{where}: {invalid('compression', compression, allowed)}")
    if compression == "zstd" and importlib.util.find_spec("zstd") is None:
        raise MapError(
            f"{where}: compression is 'zstd', which needs `pip install pytiled-parser[zstd]`; "
            "allowed without it: gzip, zlib"
        )
    if data.find("chunk") is not None:
        raise MapError(f"{where}: its tiles are in chunks; allowed: a map that is not infinite")
    if not (data.findall("./tile") if encoding is None else (data.text or "").strip()):
        raise MapError(f"{where}: holds no tiles as {encoding or 'XML'}; allowed: {WIDTH * HEIGHT}")


def _check_objects(path: Path, root: ElementTree.Element) -> None:
    for layer in root.findall("./objectgroup"):
        name = layer.get("name", "")
        for item in layer.findall("./object"):
            where = _where(path, name, item.get("name", ""), item.get("id"))
            _check_values(where, item)
            if item.get("template"):
                raise MapError(f"{where}: is made from a template; allowed: detached from it")
            shapes = ["rectangle", *(["point"] if name in POINT_LAYERS else [])]
            shape = next((child.tag for child in item if child.tag != "properties"), "rectangle")
            if shape not in shapes:
                raise MapError(f"{where}: {invalid('shape', shape, shapes)}")


def _check_values(where: str, owner: ElementTree.Element) -> None:
    """Refuses property values that would be rounded, read as false, or dropped."""
    seen: set[str] = set()
    for item in owner.findall("./properties/property"):
        name, kind = item.get("name", ""), item.get("type", "string")
        value = item.get("value", item.text)
        if kind not in _LITERALS:
            problem = invalid(f"the type of property {name!r}", kind, _LITERALS)
            raise MapError(f"{where}: {problem}")
        if value is None or not re.fullmatch(_LITERALS[kind], value):
            raise MapError(f"{where}: property {name!r} is {value!r}; allowed: type {kind}")
        if name in seen:
            raise MapError(f"{where}: property {name!r} is there twice; allowed: once")
        seen.add(name)


def _check_tilesets(path: Path, root: ElementTree.Element) -> None:
    for element in root.findall("./tileset"):
        tileset = _tileset(path, element)
        where = f"{path}: tileset {element.get('source') or element.get('name')!r}"
        for tile in tileset.findall("./tile"):
            _check_values(f"{where}: tile {tile.get('id')}", tile)
        alignment = tileset.get("objectalignment", "unspecified")
        if alignment not in _ALIGNMENTS:
            raise MapError(f"{where}: {invalid('object alignment', alignment, _ALIGNMENTS)}")


def _tileset(path: Path, element: ElementTree.Element) -> ElementTree.Element:
    """A tileset of a map, read from its own file where it has one."""
    source = element.get("source")
    if source is None:
        return element
    try:
        return _read_xml(path.parent / source, "tileset", "TSX")
    except MapError as error:
        raise MapError(f"{path}: tileset {source!r}: {error}") from error


def _parse(path: Path, root: ElementTree.Element) -> pytiled_parser.TiledMap:
    try:
        with tempfile.TemporaryDirectory() as folder:
            tiled = pytiled_parser.parse_map(_readable(path, root, Path(folder)), "utf-8-sig")
    except KeyError as error:
        raise MapError(f"{path}: is not a whole Tiled map: {error} is missing") from error
    except Exception as error:  # whatever a broken file does to the parser
        raise MapError(f"{path}: is not a valid Tiled map: {error}") from error
    layers = [element for element in root if element.tag in _LAYER_TAGS]
    _check_count(path, "layers", len(tiled.layers), len(layers))
    _check_count(path, "tilesets", len(tiled.tilesets), len(root.findall("./tileset")))
    return tiled


def _readable(path: Path, root: ElementTree.Element, folder: Path) -> Path:
    """The file itself, or a copy in CSV, with its tilesets inside, of one with tiles in XML.

    `pytiled_parser` does not read such tiles.
    """
    data = root.find("./layer/data")
    if data is None or data.get("encoding") is not None:
        return path
    gids = [tile.get("gid", "0") for tile in data.findall("./tile")]
    data.clear()
    data.set("encoding", "csv")
    data.text = ",".join(gids)
    for tileset in root.findall("./tileset[@source]"):
        external = _tileset(path, tileset)
        del tileset.attrib["source"]
        tileset.attrib.update(external.attrib | tileset.attrib)
        tileset.extend(external)
    copy = folder / "map.tmx"
    ElementTree.ElementTree(root).write(copy, "utf-8")
    return copy


def _check_count(path: Path, what: str, got: int, written: int) -> None:
    if got != written:
        raise MapError(f"{path}: {what}: only {got} of {written} could be read")


def _terrain(path: Path, rows: list[list[int]], tilesets: TilesetDict) -> TileArray:
    where = f"{path}: layer 'terrain'"
    if [len(row) for row in rows] != [WIDTH] * HEIGHT:
        count = sum(len(row) for row in rows)
        raise MapError(
            f"{where}: holds {count} tiles in {len(rows)} rows; allowed: {HEIGHT} rows of {WIDTH}"
        )
    meaning = _meanings(path, tilesets)
    terrain = np.empty((HEIGHT, WIDTH), np.uint8)
    for y, row in enumerate(rows):
        for x, gid in enumerate(row):
            found = None if gid >> _GID_BITS else meaning(gid & _GID_WITHOUT_FLIPS)
            if found is None:
                what = f"gid {gid} without property 'terrain'" if gid else "empty (gid 0)"
                allowed = ", ".join(item.name for item in Terrain)
                raise MapError(f"{where}: tile ({x}, {y}) is {what}; allowed: {allowed}")
            terrain[y, x] = found
    return terrain


def _meanings(path: Path, tilesets: TilesetDict) -> Callable[[int], Terrain | None]:
    """What a global tile number means: the tileset's own property, whatever the number."""
    known: dict[tuple[int, int], Terrain] = {}
    for first, tileset in tilesets.items():
        for local, tile in (tileset.tiles or {}).items():
            value = (tile.properties or {}).get("terrain")
            if value is None:
                continue
            if value not in Terrain.__members__:
                name = f"property 'terrain' of tile {local}"
                problem = invalid(name, value, Terrain.__members__)
                raise MapError(f"{path}: tileset {tileset.name!r}: {problem}")
            known[first, local] = Terrain[str(value)]

    def meaning(gid: int) -> Terrain | None:
        first = max((first for first in tilesets if first <= gid), default=0)
        return known.get((first, gid - first))

    return meaning


def _where(path: Path, layer: str, name: str, number: object) -> str:
    return f"{path}: layer {layer!r}: object {repr(name) if name else f'number {number}'}"


def _entry(path: Path, layer: str, item: TiledObject, tile: Size) -> Entry:
    where = _where(path, layer, item.name, item.id)
    box = _box(where, item, tile)
    if layer in POINT_LAYERS and (box.width, box.height) != (1, 1):
        raise MapError(f"{where}: covers {box.width}×{box.height} tiles; allowed: one")
    values = _typed(where, dict(item.properties), PROPERTIES[layer])
    return Entry(where, item.name, box, values)


def _box(where: str, item: TiledObject, tile: Size) -> Box:
    """The tiles of an object; a point stands for the tile it lies in."""
    x, y = item.coordinates
    width, height = item.size
    if item.rotation:
        raise MapError(f"{where}: is rotated by {item.rotation:g} degrees; allowed: 0")
    if isinstance(item, Point) and math.isfinite(x) and math.isfinite(y):
        return Box(int(x // tile.width), int(y // tile.height))
    if isinstance(item, Tile):
        y -= height  # Tiled anchors tile objects at their lower left corner
    sides = (x / tile.width, y / tile.height, width / tile.width, height / tile.height)
    if not all(side.is_integer() for side in sides) or width <= 0 or height <= 0:
        raise MapError(
            f"{where}: is off the tile grid: x={x:g} y={y:g} width={width:g} height={height:g} "
            f"pixels; allowed: multiples of {tile.width:g}×{tile.height:g}, at least one tile"
        )
    return Box(*(int(side) for side in sides))


def _typed(where: str, values: dict[str, object], wanted: dict[str, type]) -> dict[str, object]:
    """Checks that the properties of an object are the wanted ones, with the wanted types."""
    for key, value in values.items():
        if key not in wanted:
            raise MapError(f"{where}: {invalid('unknown property: its name', key, wanted)}")
        if type(value) is not wanted[key]:
            raise MapError(
                f"{where}: property {key!r} is {value!r}; "
                f"allowed: a property of type {_TYPE_NAMES[wanted[key]]}"
            )
    _check_present(where, values, wanted)
    return values


def _check_present(where: str, values: Iterable[str], wanted: Iterable[str]) -> None:
    for key in wanted:
        if key not in values:
            raise MapError(f"{where}: property {key!r} is missing; needed: {', '.join(wanted)}")
