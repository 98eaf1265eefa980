"""Reads a town from a TMX (Tiled) map; the page beside the shipped maps describes the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from voville_env.core.codes import HEIGHT, RULE_NAMES, WIDTH, Direction, Rule
from voville_env.errors import MapError, invalid
from voville_env.town.map_checks import check_town
from voville_env.town.model import Box, Building, Intersection, Item, Place, Street, Town

if TYPE_CHECKING:
    from voville_env.town.tiled_file import Entry

TWO_WAY = "both"
"""The `direction` of a street that is not one-way."""

_MOST_TICKS = 9999


def load_town(path: str | os.PathLike[str]) -> Town:
    """Reads a town from a map file.

    Objects keep the order of the file, from which signals, buildings and destinations are numbered.

    Args:
        path: A TMX file; its tilesets are found relative to it.

    Returns:
        The town, with all checks passed except that goals can be reached.

    Raises:
        MapError: If the file cannot be read or does not make a town.
    """
    from voville_env.town.tiled_file import read_map  # brings pytiled_parser

    file = read_map(Path(path))
    entries = file.entries
    town = Town(
        name=file.name,
        terrain=file.terrain,
        streets=tuple(map(_street, entries["streets"])),
        intersections=_intersections(entries["intersections"], entries["crosswalks"]),
        buildings=tuple(map(_building, entries["buildings"])),
        places=tuple(Place(e.name, e.box, e.flag("safe_zone")) for e in entries["places"]),
        items=tuple(map(_item, entries["items"])),
    )
    check_town(town, os.fspath(path))
    return town


def _street(entry: Entry) -> Street:
    direction, rules = entry.text("direction"), entry.listed("rules")
    if direction not in (*Direction.__members__, TWO_WAY):
        allowed = [*Direction.__members__, TWO_WAY]
        raise MapError(f"{entry.where}: {invalid('direction', direction, allowed)}")
    for rule in rules:
        if rule not in RULE_NAMES:
            raise MapError(f"{entry.where}: {invalid('a rule', rule, RULE_NAMES)}")
    return Street(
        entry.name,
        entry.box,
        None if direction == TWO_WAY else Direction[direction],
        tuple(Rule[rule] for rule in rules),
    )


def _intersections(centres: list[Entry], crosswalks: list[Entry]) -> tuple[Intersection, ...]:
    boxes: dict[str, list[Box]] = {entry.name: [] for entry in centres}
    for entry in crosswalks:
        name = entry.text("intersection")
        if name not in boxes:
            raise MapError(f"{entry.where}: {invalid('intersection', name, boxes)}")
        boxes[name].append(entry.box)
    return tuple(_intersection(entry, tuple(boxes[entry.name])) for entry in centres)


def _intersection(entry: Entry, crosswalks: tuple[Box, ...]) -> Intersection:
    red, green = entry.number("red", _MOST_TICKS), entry.number("green", _MOST_TICKS)
    if red + green == 0:
        raise MapError(f"{entry.where}: properties 'red' and 'green' are both 0")
    return Intersection(
        name=entry.name,
        x=entry.box.x,
        y=entry.box.y,
        zone=entry.number("zone", WIDTH + HEIGHT),
        red=red,
        green=green,
        green_start=entry.number("green_start", _MOST_TICKS),
        crosswalks=crosswalks,
    )


def _building(entry: Entry) -> Building:
    return Building(entry.name, entry.box, entry.flag("private"), entry.listed("owners"))


def _item(entry: Entry) -> Item:
    box = entry.box
    return Item(entry.name, entry.text("kind"), box.x, box.y, entry.text("owner"))
