"""The town: what it is, and how it is read from and written to Tiled maps."""

from voville_env.town.model import Box, Building, Intersection, Item, Place, Street, Town
from voville_env.town.tmx import load_town
from voville_env.town.tmx_write import save_town

__all__ = [
    "Box",
    "Building",
    "Intersection",
    "Item",
    "Place",
    "Street",
    "Town",
    "load_town",
    "save_town",
]
