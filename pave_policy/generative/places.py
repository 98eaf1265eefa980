"""Places in words: their names on the map carry underscores and the ids of those they belong to."""

from __future__ import annotations

import re

from voville_env.town.model import Town

Places = dict[tuple[int, int], str]
"""Places in words by tile."""
_OWNER = re.compile(r"_[A-Z]+$")


def place_in_words(name: str) -> str:
    """A place as somebody says it for whom it is meant.

    Args:
        name: Its name on the map, such as `cafe_seat_AY` or `home_TP`.

    Returns:
        Such as "the cafe seat"; "home" for a home.
    """
    words = _OWNER.sub("", name).replace("_", " ")
    return words if words == "home" else f"the {words}"


def name_places(town: Town) -> Places:
    """The places of a town by their tiles.

    Args:
        town: The town.

    Returns:
        Words by column and row.
    """
    return {
        (x, y): place_in_words(place.name)
        for place in reversed(town.places)
        for x in range(place.box.x, place.box.x + place.box.width)
        for y in range(place.box.y, place.box.y + place.box.height)
    }
