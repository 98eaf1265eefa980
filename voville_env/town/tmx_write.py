"""Writes a town as a TMX (Tiled) map, with its tileset beside it."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import numpy as np

from voville_env.core.codes import HEIGHT, WIDTH, Terrain
from voville_env.errors import MapError, MissingExtraError, invalid
from voville_env.town.map_checks import check_town
from voville_env.town.model import Box, TileArray, Town
from voville_env.town.tileset import (
    IMAGE_NAME,
    TILE_SIZE,
    TILED_VERSION,
    TILESET_NAME,
    add_properties,
    document,
    tileset_image,
    tileset_text,
)
from voville_env.town.tmx import TWO_WAY

Encoding = Literal["csv", "base64", "xml"]
Compression = Literal["gzip", "zlib", "zstd"]
Object = tuple[str, Box, dict[str, str | int | bool]]

_FIRST_GID = 1
_ENCODINGS = ("csv", "base64", "xml")
_COMPRESSIONS = ("gzip", "zlib", "zstd")
_COLOURS = {
    "streets": "#3a7bd5",
    "intersections": "#d62728",
    "crosswalks": "#ff7f0e",
    "buildings": "#8c564b",
    "places": "#2ca02c",
    "items": "#e377c2",
}
"""What Tiled draws the objects of a layer in."""


def save_town(
    town: Town,
    path: str | os.PathLike[str],
    *,
    encoding: Encoding = "csv",
    compression: Compression | None = None,
) -> None:
    """Writes a town as a map file.

    Writes `town.tsx` and `tiles.png` beside it too, unless there is a `town.tsx` already.

    Args:
        town: The town.
        path: The TMX file to write.
        encoding: How the tiles are written.
        compression: How they are compressed; with base64 only.

    Raises:
        InvalidValueError: If there is no such encoding or compression.
        MapError: If the town has a fault, or something that a map file cannot hold; nothing is
            written then.
        MissingExtraError: If the compression is zstd and its package is not installed.
    """
    target = Path(path)
    data = _data(town.terrain, encoding, compression)
    check_town(town, os.fspath(path))
    for name, text in _texts(town):
        if not all(char.isprintable() for char in text):
            raise MapError(f"{path}: {name} {text!r}: allowed: printable characters")
    _check_lists(town, target)
    tileset = target.with_name(TILESET_NAME)
    if tileset.exists():
        _check_tileset(tileset)
    else:
        tileset.write_bytes(tileset_text())
        target.with_name(IMAGE_NAME).write_bytes(tileset_image())
    target.write_bytes(document(_map(town, data)))


def _data(terrain: TileArray, encoding: str, compression: str | None) -> ElementTree.Element:
    """The `data` element of the tile layer."""
    if encoding not in _ENCODINGS:
        raise invalid("encoding", encoding, _ENCODINGS)
    allowed = _COMPRESSIONS if encoding == "base64" else ()
    if compression not in (None, *allowed):
        raise invalid(f"compression with encoding {encoding!r}", compression, [None, *allowed])
    gids = terrain.astype("<u4") + np.uint32(_FIRST_GID)
    data = ElementTree.Element("data")
    if encoding == "xml":
        for gid in gids.ravel():
            ElementTree.SubElement(data, "tile", gid=str(gid))
        return data
    data.set("encoding", encoding)
    if compression is not None:
        data.set("compression", compression)
    if encoding == "csv":
        data.text = "\n" + ",\n".join(",".join(map(str, row)) for row in gids) + "\n"
    else:
        packed = _compressed(gids.astype("<u4").tobytes(), compression)
        data.text = f"\n   {base64.b64encode(packed).decode()}\n  "
    return data


def _compressed(data: bytes, compression: str | None) -> bytes:
    if compression == "gzip":
        return gzip.compress(data, mtime=0)
    if compression == "zlib":
        return zlib.compress(data)
    if compression == "zstd":
        if importlib.util.find_spec("zstd") is None:
            raise MissingExtraError(
                "compression 'zstd' needs `pip install pytiled-parser[zstd]`; "
                "allowed without it: gzip, zlib"
            )
        module = importlib.import_module("zstd")
        return bytes(module.compress(data))
    return data


def _texts(town: Town) -> Iterator[tuple[str, str]]:
    """Every text of a town, with what it is."""
    yield "the name of the town", town.name
    for group in (town.streets, town.intersections, town.buildings, town.places, town.items):
        for thing in group:
            yield "the name", thing.name
    for building in town.buildings:
        for owner in building.owners:
            yield f"an owner of {building.name!r}", owner
    for item in town.items:
        yield f"the kind of {item.name!r}", item.kind
        yield f"the owner of {item.name!r}", item.owner


def _check_lists(town: Town, path: Path) -> None:
    for building in town.buildings:
        for owner in building.owners:
            if "," in owner or owner != owner.strip() or not owner:
                raise MapError(
                    f"{path}: layer 'buildings': object {building.name!r}: owner {owner!r}; "
                    "allowed: a name without commas and outer spaces"
                )


def _check_tileset(path: Path) -> None:
    """Makes sure that a tileset that is there already numbers the terrains as ours does."""
    root = ElementTree.fromstring(path.read_bytes().decode("utf-8-sig"))
    for terrain in Terrain:
        tile = f"./tile[@id='{int(terrain)}']/properties/property[@name='terrain']"
        found = root.find(tile)
        value = None if found is None else found.get("value")
        if value != terrain.name:
            raise MapError(
                f"{path}: tile {int(terrain)}: property 'terrain' is {value!r}; "
                f"allowed: {terrain.name}, to save a town beside it"
            )


def _map(town: Town, data: ElementTree.Element) -> ElementTree.Element:
    layers = _objects(town)
    count = sum(len(objects) for objects in layers.values())
    size = {"width": str(WIDTH), "height": str(HEIGHT)}
    shape = {"orientation": "orthogonal", "renderorder": "right-down"} | size
    tile = {"tilewidth": str(TILE_SIZE), "tileheight": str(TILE_SIZE), "infinite": "0"}
    following = {"nextlayerid": str(len(layers) + 2), "nextobjectid": str(count + 1)}
    root = ElementTree.Element("map", TILED_VERSION | shape | tile | following)
    add_properties(root, {"name": town.name})
    ElementTree.SubElement(root, "tileset", firstgid=str(_FIRST_GID), source=TILESET_NAME)
    ElementTree.SubElement(root, "layer", {"id": "1", "name": "terrain"} | size).append(data)
    number = 1
    for index, (name, objects) in enumerate(layers.items(), start=2):
        attributes = {"id": str(index), "name": name, "color": _COLOURS[name], "draworder": "index"}
        layer = ElementTree.SubElement(root, "objectgroup", attributes)
        for item in objects:
            _add_object(layer, number, item)
            number += 1
    return root


def _add_object(layer: ElementTree.Element, number: int, item: Object) -> None:
    name, box, values = item
    point = layer.get("name") == "intersections"
    middle = TILE_SIZE // 2 if point else 0
    place = {"x": str(box.x * TILE_SIZE + middle), "y": str(box.y * TILE_SIZE + middle)}
    size = {"width": str(box.width * TILE_SIZE), "height": str(box.height * TILE_SIZE)}
    attributes = {"id": str(number), "name": name} | place | ({} if point else size)
    element = ElementTree.SubElement(layer, "object", attributes)
    add_properties(element, values)
    if point:
        ElementTree.SubElement(element, "point")


def _objects(town: Town) -> dict[str, list[Object]]:
    """The objects of each layer."""
    return {
        "streets": [
            (
                street.name,
                street.box,
                {
                    "direction": TWO_WAY if street.direction is None else street.direction.name,
                    "rules": _comma_list(rule.name for rule in street.rules),
                },
            )
            for street in town.streets
        ],
        "intersections": [
            (
                at.name,
                Box(at.x, at.y),
                {"zone": at.zone, "red": at.red, "green": at.green, "green_start": at.green_start},
            )
            for at in town.intersections
        ],
        "crosswalks": [
            (f"{at.name} {number}", box, {"intersection": at.name})
            for at in town.intersections
            for number, box in enumerate(at.crosswalks, start=1)
        ],
        "buildings": [
            (at.name, at.box, {"private": at.private, "owners": _comma_list(at.owners)})
            for at in town.buildings
        ],
        "places": [(at.name, at.box, {"safe_zone": at.safe_zone}) for at in town.places],
        "items": [
            (at.name, Box(at.x, at.y), {"kind": at.kind, "owner": at.owner}) for at in town.items
        ],
    }


def _comma_list(names: Iterable[str]) -> str:
    return ", ".join(names)
