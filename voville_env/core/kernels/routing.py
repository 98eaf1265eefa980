"""Shortest ways to every destination, for three sets of kept rules."""

import numpy as np

from voville_env.core.codes import TILES, Rule
from voville_env.core.compile import kernel
from voville_env.core.kernels.movement import offset
from voville_env.core.layout import NO_SIGNAL, UNREACHABLE

_PRIVATE = 1 << Rule.PRIVATE_BUILDING
_CORDON = 1 << Rule.CORDON


@kernel
def ones(bits):
    """Number of bits set."""
    count = 0
    while bits:
        count += bits & 1
        bits >>= 1
    return count


@kernel
def broken_by(town, tile, direction, home):
    """Static rules broken by a step, for somebody who owns building `home`."""
    bits = np.int64(town.bits[tile, direction])
    if bits & _PRIVATE and town.building[tile + offset(direction)] == home:
        bits &= ~_PRIVATE
    return bits


@kernel
def allowed(town, tile, direction, home, mode):
    """Whether a way of this mode may use a step."""
    if town.verb[tile, direction] == 0:
        return False
    if mode == 2:
        return True
    bits = broken_by(town, tile, direction, home)
    if mode == 1:
        return bits & (_PRIVATE | _CORDON) == 0
    return bits == 0


@kernel
def spread(town, routes, order, home, mode, count):
    """Breadth-first distances from the goal tiles at the head of `order`."""
    head = 0
    while head < count:
        tile = order[head]
        head += 1
        for direction in range(4):
            before = tile - offset(direction)
            if before < 0 or before >= TILES or routes[before].distance != UNREACHABLE:
                continue
            if allowed(town, before, direction, home, mode):
                routes[before].distance = routes[tile].distance + 1
                order[count] = before
                count += 1
    return count


@kernel
def choose(town, routes, costs, tile, home, mode, lookahead):
    """Picks the first step: fewest rules broken, then the order north, east, south, west (C-79)."""
    route = routes[tile]
    best = 1 << 20
    for direction in range(4):
        if not allowed(town, tile, direction, home, mode):
            continue
        after = routes[tile + offset(direction)]
        if after.distance + 1 != route.distance:
            continue
        cost = costs[tile + offset(direction)] + ones(broken_by(town, tile, direction, home))
        if town.entry[tile, direction] != NO_SIGNAL:
            cost += 1
        if cost < best:
            best = cost
            route.next = direction
    costs[tile] = min(best, 255)
    route.signal = town.entry[tile, route.next]
    route.signal_ticks = route.signal_rest = 0
    if route.signal == NO_SIGNAL:
        after = routes[tile + offset(route.next)]
        route.signal = after.signal
        route.signal_ticks = after.signal_ticks
        route.signal_rest = after.signal_rest + 1
        if route.signal_rest == lookahead:
            route.signal_ticks += 1
            route.signal_rest = 0


@kernel
def fill_routes(town, routes, goal, home, mode, lookahead):
    """Fills one table of ways: `routes` for every tile, to the tiles marked in `goal`."""
    order = np.empty(TILES, np.int64)
    costs = np.zeros(TILES, np.int64)
    count = 0
    for tile in range(TILES):
        route = routes[tile]
        route.distance = UNREACHABLE
        route.next = 4
        route.bits = 0
        route.signal = NO_SIGNAL
        route.signal_ticks = 0
        route.signal_rest = 0
        if goal[tile] != 0:
            route.distance = 0
            order[count] = tile
            count += 1
    count = spread(town, routes, order, home, mode, count)
    for k in range(count):
        if routes[order[k]].distance > 0:
            choose(town, routes, costs, order[k], home, mode, lookahead)
    for k in range(count):
        tile = order[k]
        here = tile
        bits = 0
        for _ in range(lookahead):
            direction = routes[here].next
            if direction > 3:
                break
            bits |= broken_by(town, here, direction, home)
            here += offset(direction)
        routes[tile].bits = bits


@kernel(entry=True)
def fill_all(town, goals, homes, lookahead):
    """Fills the ways to all destinations in all three modes."""
    for k in range(goals.shape[0]):
        for mode in range(3):
            fill_routes(town[0], town[0].routes[k, mode], goals[k], homes[k], mode, lookahead)
