"""Map files: the shipped town, reading and writing, and the error for every fault."""

from __future__ import annotations

import dataclasses
import importlib.resources
import importlib.util
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from voville_env.core.codes import Direction, Rule, Terrain
from voville_env.errors import InvalidValueError, MapError, MissingExtraError
from voville_env.town import Box, Building, Item, Place, Street, Town, load_town, save_town
from voville_env.town.tileset import tile_pixel, tileset_text

FIRE = (32, 29)
FIRE_REACH = 18
AGENTS = {"CC", "KQ", "EY", "OH", "NR", "MF", "AY", "AM", "TP", "LC"}
FLIPS = (0x80000000, 0x40000000, 0x20000000, 0x10000000)
TILES = re.compile(r'(<data encoding="csv">)(.*?)(</data>)', re.DOTALL)
TILESET = '<tileset firstgid="1" source="town.tsx" />'

Change = Callable[[str], str]


def map_path() -> Path:
    return Path(str(importlib.resources.files("voville_env.scenarios") / "maps" / "voville.tmx"))


@pytest.fixture(scope="module")
def town() -> Town:
    return load_town(map_path())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the tileset and its picture, but without a map."""
    for name in ("town.tsx", "tiles.png"):
        shutil.copy(map_path().with_name(name), tmp_path / name)
    return tmp_path


@pytest.fixture(scope="module")
def source() -> str:
    return map_path().read_text(encoding="utf-8")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def swap(old: str, new: str) -> Change:
    """Replaces the first occurrence of a text, which must be there."""

    def change(text: str) -> str:
        assert old in text, old
        return text.replace(old, new, 1)

    return change


def in_object(name: str, old: str, new: str) -> Change:
    """Replaces a text within the object of a name."""

    def change(text: str) -> str:
        start = text.index(f' name="{name}"')
        start = text.rindex("<object ", 0, start)
        end = text.index("</object>", start)
        return text[:start] + swap(old, new)(text[start:end]) + text[end:]

    return change


def both(first: Change, second: Change) -> Change:
    return lambda text: second(first(text))


def without(pattern: str) -> Change:
    """Removes what matches a pattern, which must be there once."""

    def change(text: str) -> str:
        result, count = re.subn(pattern, "", text, flags=re.DOTALL)
        assert count == 1, pattern
        return result

    return change


def gids_of(text: str) -> list[int]:
    match = TILES.search(text)
    assert match
    return [int(gid) for gid in match[2].split(",")]


def with_gids(text: str, gids: list[int]) -> str:
    return TILES.sub(lambda match: match[1] + ",".join(map(str, gids)) + match[3], text)


def paint(*tiles: tuple[int, int, int]) -> Change:
    """Sets the gids of tiles, given as x, y and gid."""

    def change(text: str) -> str:
        gids = gids_of(text)
        for x, y, gid in tiles:
            assert gids[64 * y + x] != gid
            gids[64 * y + x] = gid
        return with_gids(text, gids)

    return change


def gid(terrain: Terrain) -> int:
    return int(terrain) + 1


def layer_pattern(name: str) -> str:
    return rf'<objectgroup [^>]*name="{name}".*?</objectgroup>'


FAULTS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "json": (lambda text: '{"height": 64}', ("is not a TMX file",)),
    "html": (lambda text: "<html></html>", ("is not a TMX file", "'html'", "'map'")),
    "empty file": (lambda text: "", ("is not a TMX file",)),
    "cut short": (lambda text: text[: len(text) // 2], ("is not a TMX file",)),
    "map attribute": (swap(' renderorder="right-down"', ""), ("'renderorder' is missing",)),
    "size": (swap('" width="64"', '" width="63"'), ("63×64", "allowed: 64×64")),
    "infinite": (swap('infinite="0"', 'infinite="1"'), ("infinite", "allowed: a fixed size")),
    "orientation": (
        swap('"orthogonal"', '"isometric"'),
        ("orientation is 'isometric'", "allowed: orthogonal"),
    ),
    "encoding": (
        swap('encoding="csv"', 'encoding="base65"'),
        ("layer 'terrain'", "'base65'", "allowed: csv, base64", "did you mean 'base64'?"),
    ),
    "compression": (
        swap('encoding="csv"', 'encoding="base64" compression="zlip"'),
        ("layer 'terrain'", "'zlip'", "allowed: gzip, zlib, zstd", "did you mean 'zlib'?"),
    ),
    "compression of csv": (
        swap('encoding="csv"', 'encoding="csv" compression="gzip"'),
        ("layer 'terrain'", "compression is 'gzip'", "allowed: none"),
    ),
    "undeclared encoding": (swap(' encoding="csv"', ""), ("layer 'terrain'", "no tiles as XML")),
    "not base64": (swap('encoding="csv"', 'encoding="base64"'), ("is not a valid Tiled map",)),
    "no tiles": (without(r"<data.*</data>"), ("layer 'terrain'", "holds no tiles")),
    "tile lost": (
        lambda text: with_gids(text, gids_of(text)[:-1]),
        ("layer 'terrain'", "4095 tiles", "64 rows of 64"),
    ),
    "tile added": (
        lambda text: with_gids(text, [*gids_of(text), 1]),
        ("layer 'terrain'", "4097 tiles", "64 rows of 64"),
    ),
    "layer width": (
        swap('name="terrain" width="64"', 'name="terrain" width="32"'),
        ("layer 'terrain'", "4096 tiles in 128 rows", "64 rows of 64"),
    ),
    "chunks": (
        swap("</data>", '<chunk x="0" y="0" width="16" height="16">1</chunk></data>'),
        ("layer 'terrain'", "chunks"),
    ),
    "missing tile layer": (without(r"<layer .*</layer>"), ("layer 'terrain' is missing",)),
    "missing object layer": (
        without(layer_pattern("places")),
        ("layer 'places' is missing", "needed: terrain, streets"),
    ),
    "unknown layer": (
        swap('name="places"', 'name="place"'),
        ("unknown layer", "'place'", "did you mean 'places'?"),
    ),
    "layer in a group": (
        lambda text: re.sub(f"({layer_pattern('items')})", r"<group>\1</group>", text, flags=re.S),
        ("unknown layer", "''"),
    ),
    "layer twice": (swap('name="places"', 'name="streets"'), ("layer 'streets'", "two")),
    "layer of a wrong kind": (
        lambda text: re.sub(layer_pattern("items"), '<imagelayer name="items"/>', text, flags=re.S),
        ("layer 'items'", "'imagelayer'", "allowed: objectgroup"),
    ),
    "layer offset": (swap('name="places"', 'name="places" offsetx="16"'), ("'places'", "offset")),
    "map without name": (swap('name="name" value', 'name="nam" value'), ("'nam'", "'name'?")),
    "map without properties": (
        without(r'<properties>\s*<property name="name".*?</properties>'),
        ("the map", "property 'name' is missing"),
    ),
    "unknown property": (
        in_object("Elm Street", 'name="rules"', 'name="rulez"'),
        ("layer 'streets': object 'Elm Street'", "'rulez'", "did you mean 'rules'?"),
    ),
    "missing property": (
        in_object("bicycle", '<property name="owner" value="" />', ""),
        ("layer 'items': object 'bicycle'", "property 'owner' is missing", "needed: kind, owner"),
    ),
    "property without value": (
        in_object("bicycle", '<property name="owner" value="" />', '<property name="owner" />'),
        ("layer 'items': object 'bicycle'", "property 'owner' is None"),
    ),
    "property twice": (
        in_object("bicycle", 'name="owner"', 'name="kind"'),
        ("object 'bicycle'", "property 'kind'", "twice"),
    ),
    "untyped number": (
        in_object("main_oak", 'name="zone" type="int"', 'name="zone"'),
        ("'intersections': object 'main_oak'", "'zone' is '12'; allowed: a property of type int"),
    ),
    "untyped bool": (
        in_object("Oak Court", ' type="bool"', ""),
        (
            "'buildings': object 'Oak Court'",
            "'private' is 'true'; allowed: a property of type bool",
        ),
    ),
    "number as text": (
        in_object("bicycle", 'name="kind" value="bicycle"', 'name="kind" type="int" value="3"'),
        ("object 'bicycle'", "'kind' is 3; allowed: a property of type string"),
    ),
    "fraction": (
        in_object("main_oak", 'type="int" value="12"', 'type="int" value="11.6"'),
        ("object 'main_oak'", "property 'zone' is '11.6'; allowed: type int"),
    ),
    "not a bool": (
        in_object("Oak Court", 'value="true"', 'value="yes"'),
        ("object 'Oak Court'", "property 'private' is 'yes'; allowed: type bool"),
    ),
    "property type": (
        in_object("Oak Court", 'type="bool"', 'type="boolean"'),
        ("object 'Oak Court'", "'boolean'", "did you mean 'bool'?"),
    ),
    "negative ticks": (
        in_object("main_oak", 'name="red" type="int" value="10', 'name="red" type="int" value="-1'),
        ("object 'main_oak'", "property 'red' is -1", "allowed: 0 to"),
    ),
    "no cycle": (
        both(
            in_object(
                "main_oak", 'name="red" type="int" value="10', 'name="red" type="int" value="0'
            ),
            in_object("main_oak", 'type="int" value="10', 'type="int" value="0'),
        ),
        ("object 'main_oak'", "both 0"),
    ),
    "unknown rule": (
        in_object("Elm Street", "CROSSWALK_ONLY", "CROSWALK_ONLY"),
        ("layer 'streets': object 'Elm Street'", "'CROSWALK_ONLY'", "'CROSSWALK_ONLY'?"),
    ),
    "rule twice": (
        in_object("Elm Street", "CROSSWALK_ONLY", "CORDON, CORDON"),
        ("object 'Elm Street'", "'CORDON, CORDON'", "each once"),
    ),
    "empty rule": (in_object("Elm Street", "ONLY", "ONLY,"), ("object 'Elm Street'", "commas")),
    "unknown direction": (
        in_object("Elm Street", '"both"', '"bothe"'),
        ("object 'Elm Street'", "'bothe'", "allowed: N, E, S, W, both", "did you mean 'both'?"),
    ),
    "empty tile": (paint((5, 9, 0)), ("layer 'terrain'", "tile (5, 9)", "gid 0")),
    "tile of no tileset": (paint((5, 9, 12)), ("'terrain'", "tile (5, 9)", "gid 12", "PAVEMENT")),
    "negative tile": (paint((5, 9, -1)), ("layer 'terrain'", "tile (5, 9)", "gid -1")),
    "huge tile": (paint((5, 9, 2**32 + 2)), ("layer 'terrain'", "tile (5, 9)")),
    "missing tileset": (
        swap("town.tsx", "nowhere.tsx"),
        ("tileset 'nowhere.tsx'", "no such file", "'town.tsx'?"),
    ),
    "tileset that is none": (swap("town.tsx", "tiles.png"), ("tiles.png", "is not a TSX file")),
    "two tilesets of one gid": (
        swap(TILESET, TILESET + TILESET),
        ("tilesets", "only 1 of 2"),
    ),
    "off the grid": (
        in_object("Elm Street", 'x="16"', 'x="17"'),
        ("object 'Elm Street'", "off the tile grid", "x=17", "multiples of 16×16"),
    ),
    "no area": (in_object("park", 'width="368"', 'width="0"'), ("object 'park'", "width=0")),
    "outside the map": (
        in_object("Elm Street", 'x="16"', 'x="48"'),
        ("object 'Elm Street'", "outside the map", "x 3 to 64", "allowed: x 0 to 63"),
    ),
    "left of the map": (in_object("park", 'x="320"', 'x="-16"'), ("object 'park'", "outside")),
    "item of two tiles": (
        in_object("bicycle", 'width="16"', 'width="32"'),
        ("object 'bicycle'", "2×1 tiles", "allowed: one"),
    ),
    "rotated": (
        in_object("park", 'x="320"', 'rotation="90" x="320"'),
        ("object 'park'", "rotated by 90", "allowed: 0"),
    ),
    "ellipse": (
        in_object("park", "</properties>", "</properties><ellipse/>"),
        ("object 'park'", "'ellipse'", "allowed: rectangle"),
    ),
    "unheard-of shape": (
        in_object("park", "</properties>", "</properties><capsule/>"),
        ("object 'park'", "'capsule'", "allowed: rectangle"),
    ),
    "point as a place": (
        in_object("park", "</properties>", "</properties><point/>"),
        ("object 'park'", "'point'", "allowed: rectangle"),
    ),
    "template": (
        in_object("park", 'x="320"', 'template="park.tx" x="320"'),
        ("object 'park'", "template"),
    ),
    "name twice": (
        swap('name="Elm Street"', 'name="Birch Lane"'),
        ("layer 'streets': object 'Birch Lane'", "twice"),
    ),
    "no name": (swap('name="Elm Street"', 'name=" "'), ("'streets': object number 5", "' '")),
    "overlapping buildings": (
        in_object("Home KQ", 'y="288"', 'y="384"'),
        ("object 'Home KQ'", "overlaps building 'Home CC' at tile (14, 24)"),
    ),
    "wall in a building": (
        paint((30, 25, gid(Terrain.WALL))),
        ("'buildings': object 'Hobbs Café'", "tile (30, 25) is WALL", "FLOOR, DOOR, OBSTACLE"),
    ),
    "private floor in a public building": (
        paint((30, 25, gid(Terrain.PRIVATE_FLOOR))),
        ("object 'Hobbs Café'", "tile (30, 25) is PRIVATE_FLOOR", "in a public building"),
    ),
    "public door in a private building": (
        paint((14, 25, gid(Terrain.DOOR))),
        ("object 'Home CC'", "tile (14, 25) is DOOR", "PRIVATE_FLOOR, PRIVATE_DOOR, OBSTACLE"),
    ),
    "floor outside": (
        paint((40, 20, gid(Terrain.FLOOR))),
        ("'terrain'", "tile (40, 20)", "FLOOR outside of any building"),
    ),
    "door outside": (
        paint((40, 20, gid(Terrain.PRIVATE_DOOR))),
        ("'terrain'", "tile (40, 20)", "PRIVATE_DOOR outside of any building"),
    ),
    "no door": (
        paint((31, 29, gid(Terrain.FLOOR))),
        ("object 'Hobbs Café'", "has no door", "DOOR"),
    ),
    "crosswalk on a road": (
        paint((31, 32, gid(Terrain.ROAD))),
        ("'crosswalks'", "'cafe_crossing'", "tile (31, 32) is ROAD", "allowed: CROSSWALK"),
    ),
    "crosswalk of nothing": (
        in_object("main_oak 2", 'value="main_oak"', 'value="main_oka"'),
        ("'crosswalks': object 'main_oak 2'", "'main_oka'", "did you mean 'main_oak'?"),
    ),
    "crosswalk of two": (
        in_object("main_oak 1", 'x="688"', 'x="496"'),
        ("'main_oak'", "tile (31, 31)", "'cafe_crossing'"),
    ),
    "intersection without crosswalk": (
        in_object("cafe_crossing 1", 'value="cafe_crossing"', 'value="main_oak"'),
        ("'intersections': object 'cafe_crossing'", "has no crosswalk"),
    ),
    "street without carriageway": (
        both(
            in_object("Birch Lane", 'x="880"', 'x="592"'),
            in_object("Birch Lane", 'height="496"', 'height="160"'),
        ),
        ("object 'Birch Lane'", "no carriageway", "ROAD, CROSSWALK"),
    ),
    "road without street": (
        in_object("Birch Lane", 'height="496"', 'height="320"'),
        ("tile (55, 34)", "ROAD outside of any street"),
    ),
    "place in a wall": (
        in_object("clinic", 'x="288"', 'x="0"'),
        ("'places': object 'clinic'", "impassable"),
    ),
    "item in a wall": (
        in_object("bicycle", 'x="480"', 'x="0"'),
        ("'items': object 'bicycle'", "(0, 30)", "WALL"),
    ),
    "open top": (
        paint((20, 0, gid(Terrain.PARK))),
        ("'terrain'", "tile (20, 0) is PARK on the border"),
    ),
    "open border": (
        paint((63, 20, gid(Terrain.PAVEMENT))),
        ("'terrain'", "tile (63, 20) is PAVEMENT on the border", "allowed: WALL, OBSTACLE"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name: str, source: str, folder: Path) -> None:
    change, says = FAULTS[name]
    path = write(folder / "broken.tmx", change(source))
    with pytest.raises(MapError) as caught:
        load_town(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: "), message
    message = message.replace(str(folder), "")  # which has the name of the test in it
    assert "\n" not in message
    for part in says:
        assert part in message, message


def test_a_missing_file_is_named(folder: Path) -> None:
    shutil.copy(map_path(), folder)
    with pytest.raises(
        MapError, match=r"vovile\.tmx: there is no such file; did you mean 'voville"
    ):
        load_town(folder / "vovile.tmx")
    with pytest.raises(MapError, match="cannot be read"):
        load_town(folder)


def test_other_text_encodings_are_refused(source: str, folder: Path) -> None:
    path = folder / "latin.tmx"
    path.write_bytes(source.encode("latin-1"))
    with pytest.raises(MapError, match="UTF-8"):
        load_town(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (swap('value="PAVEMENT"', 'value="PAVMENT"'), "tile 1.*'PAVMENT'.*mean 'PAVEMENT'"),
        (
            swap('name="terrain" value="PARK"', 'name="kind" value="PARK"'),
            r"tile \(20, 44\).*gid 5",
        ),
        (
            swap('columns="11"', 'objectalignment="top"'),
            "alignment is 'top'; allowed: unspecified, bottomleft",
        ),
        (swap("<tileset", "<tiles"), "is not a TSX file"),
    ],
)
def test_a_fault_of_the_tileset_is_named(change: Change, says: str, folder: Path) -> None:
    shutil.copy(map_path(), folder)
    tileset = folder / "town.tsx"
    write(tileset, change(tileset.read_text(encoding="utf-8")))
    with pytest.raises(MapError, match=says):
        load_town(folder / "voville.tmx")


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_tiles_under_another_name_are_refused(
    town: Town, folder: Path, compression: Any
) -> None:
    path = folder / "town.tmx"
    save_town(town, path, encoding="base64", compression=compression)
    text = path.read_text(encoding="utf-8")
    for other in ("", f' compression="{"zlib" if compression == "gzip" else "gzip"}"'):
        write(path, swap(f' compression="{compression}"', other)(text))
        with pytest.raises(MapError, match=r"town\.tmx: "):
            load_town(path)


def test_zstd_without_its_package_is_refused(
    town: Town, source: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "zstd" else find_spec(name, *rest),
    )
    path = write(
        folder / "town.tmx",
        swap('encoding="csv"', 'encoding="base64" compression="zstd"')(source),
    )
    with pytest.raises(MapError, match=r"zstd.*pytiled-parser\[zstd\].*allowed without it: gzip"):
        load_town(path)
    with pytest.raises(MissingExtraError, match=r"pytiled-parser\[zstd\]"):
        save_town(town, folder / "new.tmx", encoding="base64", compression="zstd")
    assert not (folder / "new.tmx").exists()


def same(one: Town, other: Town) -> bool:
    return one.digest() == other.digest() and one.name == other.name


ENCODINGS = [
    ("csv", None),
    ("xml", None),
    ("base64", None),
    ("base64", "gzip"),
    ("base64", "zlib"),
    ("base64", "zstd"),
]


@pytest.mark.parametrize(("encoding", "compression"), ENCODINGS)
def test_round_trip(
    town: Town,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoding: Any,
    compression: Any,
) -> None:
    if compression == "zstd":
        pytest.importorskip("zstd")
    path = tmp_path / "maps" / "town.tmx"
    path.parent.mkdir()
    save_town(town, path, encoding=encoding, compression=compression)
    assert same(load_town(path), town)
    monkeypatch.chdir(tmp_path)
    assert same(load_town("maps/town.tmx"), town)
    saved = path.read_bytes()
    save_town(load_town(path), path, encoding=encoding, compression=compression)
    assert path.read_bytes() == saved


def test_a_changed_town_has_another_digest(town: Town, source: str, folder: Path) -> None:
    path = write(folder / "town.tmx", paint((30, 46, gid(Terrain.PAVEMENT)))(source))
    assert not same(load_town(path), town)
    path = write(folder / "town.tmx", swap('value="W"', 'value="E"')(source))
    assert load_town(path).streets[0].direction is Direction.E


def test_flipped_and_rotated_tiles_mean_the_same(town: Town, source: str, folder: Path) -> None:
    draw = random.Random(1)
    gids = [gid | sum(flag for flag in FLIPS if draw.random() < 0.5) for gid in gids_of(source)]
    assert max(gids) >= FLIPS[0]
    assert same(load_town(write(folder / "town.tmx", with_gids(source, gids))), town)


def test_tile_objects_are_the_rectangles_they_cover(town: Town, source: str, folder: Path) -> None:
    bicycle = 'x="480" y="480" width="16" height="16"'
    for flags in (0, FLIPS[0], FLIPS[2]):
        item = f'gid="{flags | 4}" x="480" y="496" width="16" height="16"'
        path = write(folder / "town.tmx", in_object("bicycle", bicycle, item)(source))
        assert same(load_town(path), town)


def test_centres_may_be_tiles_and_items_points(town: Town, source: str, folder: Path) -> None:
    point = in_object("bicycle", ' width="16" height="16"', "")
    tile = in_object("main_oak", 'x="712" y="504"', 'x="704" y="496" width="16" height="16"')
    text = both(point, tile)(source)
    text = in_object("bicycle", "</properties>", "</properties><point/>")(text)
    text = in_object("main_oak", "<point />", "")(text)
    assert same(load_town(write(folder / "town.tmx", text)), town)


def test_other_tilesets_and_numbers_mean_the_same(town: Town, source: str, folder: Path) -> None:
    tile = '<tile id="{}"><properties><property name="terrain" value="{}"/></properties></tile>'
    embedded = (
        '<tileset firstgid="1" name="other" tilewidth="16" tileheight="16"'
        ' tilecount="30" columns="5">'
        f"{tile.format(20, 'ROAD')}{tile.format(7, 'WALL')}</tileset>"
    )
    ours = '<tileset firstgid="101" source="town.tsx"/>'
    gids = [gid + 100 for gid in gids_of(source)]
    for old, new in ((gid(Terrain.ROAD), 21), (gid(Terrain.WALL), 8)):
        gids[gids.index(old + 100)] = new
    for tilesets in (embedded + ours, ours + embedded):
        text = with_gids(swap(TILESET, tilesets)(source), gids)
        assert same(load_town(write(folder / "town.tmx", text)), town)


def test_a_tileset_in_another_folder_is_found(
    town: Town, source: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tilesets").mkdir()
    (folder / "town.tsx").rename(folder / "tilesets" / "town.tsx")
    text = swap('"town.tsx"', '"../tilesets/town.tsx"')(source)
    path = write(folder / "maps" / "town.tmx", text)
    monkeypatch.chdir("/")
    assert same(load_town(path), town)
    monkeypatch.chdir(folder / "tilesets")
    assert same(load_town("../maps/town.tmx"), town)


def renamed(town: Town) -> Town:
    """The town with names beyond ASCII, and with every kind of character that XML escapes."""
    places = (dataclasses.replace(town.places[0], name="Parc 日本 🚲"), *town.places[1:])
    streets = (dataclasses.replace(town.streets[0], name='Rue "d\'Été" <&>'), *town.streets[1:])
    buildings = (dataclasses.replace(town.buildings[0], owners=("é", "日 🚲")), *town.buildings[1:])
    return dataclasses.replace(
        town, name="Vôville", places=places, streets=streets, buildings=buildings
    )


def test_names_survive_any_locale(town: Town, tmp_path: Path) -> None:
    names = renamed(town)
    path = tmp_path / "été 日" / "ville 🚲.tmx"
    path.parent.mkdir()
    code = """
import locale, sys
from voville_env.town import load_town, save_town
assert locale.getpreferredencoding(False).upper() not in ("UTF-8", "UTF8")
for path in sys.argv[1:]:
    town = load_town(path)
    save_town(town, path)
    print(town.digest(), ascii(town.name))
"""
    save_town(names, path)
    xml = path.with_name("xml.tmx")
    save_town(names, xml, encoding="xml")
    saved = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", code, path, xml],
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines() == [f"{names.digest()} {names.name!a}"] * 2
    assert path.read_bytes() == xml.read_bytes() == saved


def test_a_byte_order_mark_is_tolerated(town: Town, folder: Path) -> None:
    mark = b"\xef\xbb\xbf"
    for name in ("town.tsx", "voville.tmx"):
        data = map_path().with_name(name).read_bytes()
        (folder / name).write_bytes(mark + data)
    assert same(load_town(folder / "voville.tmx"), town)


def test_windows_line_ends_are_tolerated(town: Town, source: str, folder: Path) -> None:
    assert same(load_town(write(folder / "town.tmx", source.replace("\n", "\r\n"))), town)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoding": "base65"}, "'base65'.*mean 'base64'"),
        ({"encoding": "csv", "compression": "gzip"}, "compression with encoding 'csv' is 'gzip'"),
        ({"encoding": "base64", "compression": "zlip"}, "'zlip'.*mean 'zlib'"),
    ],
)
def test_unknown_options_are_refused(
    town: Town, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidValueError, match=says):
        save_town(town, tmp_path / "town.tmx", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "bell\x07"}, "the name of the town"),
        ({"places": (Place("park", Box(20, 60, 1, 5)),)}, "'park': lies outside the map"),
        ({"places": (Place("park", Box(0, 0)),)}, "'park': all its tiles are impassable"),
        ({"items": (Item("bicycle", "bi\ncycle", 30, 30),)}, "the kind of 'bicycle'"),
        ({"streets": (Street("Elm", Box(1, 1), None, ()),)}, "'Elm': has no carriageway"),
        ({"terrain": np.ones((64, 64), np.uint8)}, r"tile \(0, 0\) is PAVEMENT on the border"),
    ],
)
def test_a_faulty_town_is_not_written(
    town: Town, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(MapError, match=says):
        save_town(dataclasses.replace(town, **change), tmp_path / "town.tmx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("owner", ["C,C", " CC", ""])
def test_owners_that_a_list_cannot_hold_are_refused(town: Town, tmp_path: Path, owner: str) -> None:
    first = dataclasses.replace(town.buildings[0], owners=(owner,))
    with pytest.raises(MapError, match=r"owner.*without commas"):
        save_town(
            dataclasses.replace(town, buildings=(first, *town.buildings[1:])),
            tmp_path / "town.tmx",
        )


def test_a_tileset_that_is_there_is_kept_or_refused(town: Town, folder: Path) -> None:
    tileset = folder / "town.tsx"
    ours = tileset.read_text(encoding="utf-8")
    write(tileset, ours + "<!-- edited -->")
    save_town(town, folder / "town.tmx")
    assert tileset.read_text(encoding="utf-8").endswith("<!-- edited -->")
    write(tileset, swap('"ROAD"', '"PARK"')(ours))
    with pytest.raises(MapError, match="tile 2: property 'terrain' is 'PARK'; allowed: ROAD"):
        save_town(town, folder / "town.tmx")


def test_importing_the_town_is_light(tmp_path: Path) -> None:
    code = "import sys, voville_env.town; sys.exit('pytiled_parser' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == 0


def test_the_map_is_one_that_tiled_opens(source: str) -> None:
    root = ElementTree.fromstring(source)
    given = {key: root.get(key) for key in ("orientation", "renderorder", "tilewidth", "infinite")}
    assert list(given.values()) == ["orthogonal", "right-down", "16", "0"]
    layers = [int(item.attrib["id"]) for tag in ("layer", "objectgroup") for item in root.iter(tag)]
    objects = [int(item.attrib["id"]) for item in root.iter("object")]
    assert len(set(layers)) == len(layers) and int(root.attrib["nextlayerid"]) > max(layers)
    assert len(set(objects)) == len(objects) and int(root.attrib["nextobjectid"]) > max(objects)


def test_the_tileset_is_the_generated_one() -> None:
    written = map_path().with_name("town.tsx").read_text(encoding="utf-8")
    assert written.splitlines() == tileset_text().decode().splitlines()


def test_the_picture_shows_each_terrain() -> None:
    data = map_path().with_name("tiles.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, position = {}, 8
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        assert struct.unpack_from(">I", data, position + 8 + length) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        position += length + 12
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    assert (width, height) == (16 * len(Terrain), 16)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    pixels = rows[:, 1:].reshape(height, width, 3)
    tiles = [pixels[:, 16 * k : 16 * k + 16] for k in range(len(Terrain))]
    for terrain, tile in zip(Terrain, tiles, strict=True):
        for y, x in np.ndindex(16, 16):
            assert tuple(tile[y, x]) == tile_pixel(terrain, x, y)
    assert len({tile.tobytes() for tile in tiles}) == len(Terrain)


def at(town: Town, x: int, y: int) -> Terrain:
    return Terrain(int(town.terrain[y, x]))


def street(town: Town, name: str) -> Street:
    (found,) = [item for item in town.streets if item.name == name]
    return found


def building(town: Town, name: str) -> Building:
    (found,) = [item for item in town.buildings if item.name == name]
    return found


def distance(x: int, y: int) -> int:
    return abs(x - FIRE[0]) + abs(y - FIRE[1])


def distances(box: Box) -> list[int]:
    return [distance(tile % 64, tile // 64) for tile in box.tiles()]


def test_the_grid_has_64_by_64_tiles(town: Town) -> None:
    assert town.terrain.shape == (64, 64)
    assert town.terrain.dtype == np.uint8
    assert set(np.unique(town.terrain)) == set(Terrain)


def test_the_cafe_has_6_by_8_tiles_near_the_centre(town: Town) -> None:
    box = building(town, "Hobbs Café").box
    assert (box.width, box.height) == (6, 8)
    assert not building(town, "Hobbs Café").private
    middle = (box.x + box.width / 2, box.y + box.height / 2)
    assert max(abs(middle[0] - 32), abs(middle[1] - 32)) <= 8


def test_main_street_is_one_way_westbound_at_the_cafe_exit(town: Town) -> None:
    main = street(town, "Main Street N")
    assert main.direction is Direction.W
    assert {Rule.RED_LIGHT, Rule.ONE_WAY, Rule.CROSSWALK_ONLY} == set(main.rules)
    assert main.box.width > main.box.height
    assert at(town, 31, 29) is Terrain.DOOR
    assert at(town, 31, 30) is Terrain.PAVEMENT
    assert town.street_at(31, 31) == main


def test_oak_avenue_is_two_way_and_has_crosswalks(town: Town) -> None:
    oak = street(town, "Oak Avenue")
    assert oak.direction is None
    assert oak.box.height > oak.box.width
    assert Rule.ONE_WAY not in oak.rules
    terrains = {at(town, tile % 64, tile // 64) for tile in oak.box.tiles()}
    assert {Terrain.ROAD, Terrain.CROSSWALK} <= terrains


def test_elm_street_has_no_signals(town: Town) -> None:
    elm = street(town, "Elm Street")
    assert Rule.RED_LIGHT not in elm.rules
    signalised = {
        tile for item in town.intersections for box in item.crosswalks for tile in box.tiles()
    }
    assert signalised
    assert not signalised & set(elm.box.tiles())


def test_the_park_is_a_safe_zone_two_blocks_south(town: Town) -> None:
    park = town.place("park")
    assert park.safe_zone
    assert [place.name for place in town.places if place.safe_zone] == ["park"]
    for name in ("Main Street N", "Garden Street"):
        box = street(town, name).box
        assert FIRE[1] < box.y < box.y + box.height <= park.box.y
    assert set(np.unique(town.terrain.ravel()[park.box.tiles()])) <= {
        Terrain.PARK,
        Terrain.OBSTACLE,
    }


def test_rules_differ_from_street_to_street(town: Town) -> None:
    assert all(item.name for item in town.streets)
    assert len({item.rules for item in town.streets}) > 2


def test_intersections_are_signalised_with_a_zone_of_12(town: Town) -> None:
    assert len(town.intersections) == 5
    for item in town.intersections:
        assert (item.zone, item.red, item.green) == (12, 10, 10)
        assert item.crosswalks
    starts = {item.name: item.green_start for item in town.intersections}
    assert (starts["cafe_crossing"], starts["oak_garden"], starts["main_pine"]) == (1, 18, 17)


def test_ten_homes_of_which_none_is_reached_by_the_fire(town: Town) -> None:
    owned = {item.owners[0]: item for item in town.buildings if item.private and item.owners}
    assert set(owned) == AGENTS
    for name, home in owned.items():
        assert home.owners == (name,)
        assert set(town.place(f"home_{name}").box.tiles()) <= set(home.box.tiles())
    for name in ("TP", "LC"):
        assert min(distances(owned[name].box)) > FIRE_REACH
    assert owned["TP"].box.x < 8
    assert owned["LC"].box.x > 55


def test_there_is_something_for_the_other_rules(town: Town) -> None:
    assert (town.terrain == Terrain.CORDON).any()
    assert sum(item.private for item in town.buildings) > len(AGENTS)
    assert [(item.name, item.kind, item.owner) for item in town.items] == [
        ("bicycle", "bicycle", "")
    ]


@pytest.mark.parametrize(
    ("x", "y", "tiles", "terrain"),
    [
        (31, 30, 2, Terrain.PAVEMENT),
        (31, 31, 3, Terrain.CROSSWALK),
        (38, 31, 8, Terrain.ROAD),
        (42, 31, 12, Terrain.ROAD),
        (43, 33, 15, Terrain.PAVEMENT),
        (46, 33, 18, Terrain.PAVEMENT),
    ],
)
def test_distances_of_the_walkthrough(
    town: Town, x: int, y: int, tiles: int, terrain: Terrain
) -> None:
    assert distance(x, y) == tiles
    assert at(town, x, y) is terrain


def test_the_seat_is_near_the_fire_and_safety_beyond_it(town: Town) -> None:
    assert distances(town.place("cafe_seat_CC").box) == [4]
    assert min(distances(town.place("park").box)) > FIRE_REACH
