"""Distances, line of sight and the severity of a hazard."""

import numpy as np

from voville_env.core.compile import kernel
from voville_env.core.layout import HAZARDS, SIGHT


# The town is 64 tiles wide: bits and shifts are several times quicker than a signed division.
@kernel
def column(tile):
    """The x of a tile."""
    return tile & 63


@kernel
def line(tile):
    """The y of a tile."""
    return tile >> 6


@kernel
def distance(a, b):
    """Manhattan distance between two tiles."""
    return abs(column(a) - column(b)) + abs(line(a) - line(b))


@kernel
def sees(town, tile, dx, dy):
    """Whether one can see from a tile to the one at an offset, up to the sight radius."""
    if dx < -SIGHT or dx > SIGHT or dy < -SIGHT or dy > SIGHT:
        return False
    return (town.visible[tile, dy + SIGHT] >> np.uint64(dx + SIGHT)) & np.uint64(1) != np.uint64(0)


@kernel
def visible(town, a, b):
    """Whether one can see tile b from tile a, up to the sight radius."""
    return sees(town, a, column(b) - column(a), line(b) - line(a))


@kernel
def same_context(town, a, b):
    """Whether two tiles share a local context: the same building, or both outdoors."""
    return town.building[a] == town.building[b]


@kernel
def severity(config, state, tile, tick):
    """Severity of the worst hazard at a tile and tick, 0 if there is none."""
    worst = 0
    for k in range(HAZARDS):
        if state.fire_severity[k] > 0 and state.fire_from[k] <= tick < state.fire_until[k]:
            away = distance(tile, state.fire_tile[k])
            worst = max(worst, state.fire_severity[k] - config.severity_lost[away])
    return worst


@kernel
def perceived_severity(config, state, tile, k):
    """Severity of burning hazard k as a cue at a tile, 0 if it is not perceived."""
    if state.fire_burning[k] == 0 or state.tick < state.fire_from[k] + config.perception_delay:
        return 0
    away = distance(tile, state.fire_tile[k])
    if config.hazard_radius > 0 and away > config.hazard_radius:
        return 0
    return max(0, state.fire_severity[k] - config.severity_lost[away])
