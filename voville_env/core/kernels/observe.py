"""Writes what one person perceives into its observation record, each field once."""

import numpy as np

from voville_env.core import fields
from voville_env.core.codes import CueType, Instruction
from voville_env.core.compile import kernel
from voville_env.core.kernels.movement import reachable_item
from voville_env.core.kernels.opportunities import route_bits
from voville_env.core.kernels.scripts import nearest_officer
from voville_env.core.kernels.signals import wait_at
from voville_env.core.kernels.space import (
    column,
    distance,
    line,
    perceived_severity,
    same_context,
    sees,
    visible,
)
from voville_env.core.layout import (
    FAR,
    HAZARDS,
    ITEMS,
    NO_SIGNAL,
    PAD,
    TILE_WORDS,
    UNREACHABLE,
)

PEERS = fields.PEER_ROWS
CUES = fields.CUE_ROWS
WINDOW = fields.WINDOW
_BYTE = np.uint64(255)
_FIRE = int(CueType.FIRE)
_LATE = int(CueType.TIME_PRESSURE)
_TALK = int(CueType.CONVERSATION)
_REDIRECT = int(Instruction.REDIRECT)
_TALK_RADIUS = 3


@kernel
def write_self(town, config, state, agent, row):
    """Fills the `self` row."""
    goal = town.destination_tile[agent.goal]
    row[0] = column(agent.tile)
    row[1] = line(agent.tile)
    row[2] = state.day
    row[3] = state.day_tick
    row[4] = state.step - state.tick * config.steps_per_tick
    row[5] = column(goal)
    row[6] = line(goal)
    row[7] = agent.late
    row[8] = agent.at_goal
    row[9] = agent.blocked
    row[10] = agent.carrying
    row[11] = agent.escaping


@kernel
def write_route(town, config, state, tile, route, rows, k):
    """Fills row k of `routes` with a way from a tile."""
    if route.distance == UNREACHABLE:
        rows[k, 0] = -1
        rows[k, 1] = rows[k, 2] = rows[k, 3] = 0
        return
    action = 0
    if route.next < 4:
        action = route.next + (1 if town.verb[tile, route.next] == 1 else 5)
    wait = 0
    if route.signal != NO_SIGNAL:
        ahead = np.int64(route.signal_ticks)
        if state.step - state.tick * config.steps_per_tick + route.signal_rest >= (
            config.steps_per_tick
        ):
            ahead += 1
        wait = wait_at(state, route.signal, ahead)
    rows[k, 0] = route.distance
    rows[k, 1] = action
    rows[k, 2] = route_bits(state, route)
    rows[k, 3] = wait


@kernel
def write_routes(town, config, state, agent, rows):
    """Fills the six `routes` rows: three ways to the goal, three to the safe zone."""
    tile = agent.tile
    for mode in range(3):
        route = town.routes[agent.goal, mode, tile]
        write_route(town, config, state, tile, route, rows, mode)
        route = town.routes[config.safe_destination, mode, tile]
        write_route(town, config, state, tile, route, rows, 3 + mode)


@kernel
def write_authority(town, config, state, agent, row):
    """Fills the `authority` row."""
    o = nearest_officer(config, state, agent.tile, config.authority_radius, 1, town)
    row[0] = 0
    row[1] = -1
    row[2] = row[3] = 0
    if o >= 0:
        post = state.agents[config.n_agents + config.n_confederates + o].tile
        row[0] = 1
        row[1] = distance(agent.tile, post)
        row[2] = column(post) - column(agent.tile)
        row[3] = line(post) - line(agent.tile)
    row[4] = agent.instruction
    row[5] = agent.officer
    row[6] = -1
    row[7] = 0
    if agent.instruction != 0:
        if agent.instruction == _REDIRECT:
            row[6] = config.officer_direction[agent.officer]
        row[7] = max(0, agent.instruction_until - state.tick)


@kernel
def write_peer(config, state, agent, i, other, rows, k):
    """Fills row k of `peer_behaviors` with what was last seen of a peer."""
    rows[k, 0] = column(other.tile) - column(agent.tile)
    rows[k, 1] = line(other.tile) - line(agent.tile)
    age = state.tick - other.behaviour_tick
    if age <= config.peer_memory and other.seen_by >> i & 1:
        rows[k, 2] = other.behaviour
        rows[k, 3] = other.behaviour_rule
        rows[k, 4] = other.behaviour_followed
        rows[k, 5] = age
    else:
        rows[k, 2] = 1
        rows[k, 3] = rows[k, 4] = -1
        rows[k, 5] = 0


@kernel
def place_of(state, count, key):
    """How many of the keys found are below a key: counted without a branch to guess wrongly."""
    place = 0
    for k in range(count):
        place += 1 if state.ranks[k] < key else 0
    return place


@kernel
def write_peers(town, config, state, agent, i, rows, tiles):
    """Fills the peer rows, nearest first, and marks visible people in the tile window."""
    count = 0
    people = config.n_agents + config.n_confederates
    x = column(agent.tile)
    y = line(agent.tile)
    for j in range(state.n_characters):
        other = state.agents[j]
        dx = column(other.tile) - x
        dy = line(other.tile) - y
        away = abs(dx) + abs(dy)
        if away > config.peer_radius or j == i or other.active == 0:
            continue
        if not sees(town, agent.tile, dx, dy):
            continue
        mark(dx, dy, tiles, fields.OCCUPIED)
        if j < people and same_context(town, agent.tile, other.tile):
            state.ranks[count] = away << 4 | j
            count += 1
    for k in range(count):
        key = state.ranks[k]
        place = place_of(state, count, key)
        if place < PEERS:
            write_peer(config, state, agent, i, state.agents[key & 15], rows, place)
    for k in range(count, PEERS):
        rows[k, 0] = rows[k, 1] = rows[k, 2] = rows[k, 5] = 0
        rows[k, 3] = rows[k, 4] = -1


@kernel
def insert_cue(rows, count, kind, away, severity, dx, dy):
    """Inserts a cue by falling severity; returns the new count."""
    at = min(count, CUES - 1)
    if count == CUES and rows[at, 2] >= severity:
        return count
    while at > 0 and rows[at - 1, 2] < severity:
        for k in range(5):
            rows[at, k] = rows[at - 1, k]
        at -= 1
    rows[at, 0] = kind
    rows[at, 1] = away
    rows[at, 2] = severity
    rows[at, 3] = dx
    rows[at, 4] = dy
    return min(count + 1, CUES)


@kernel
def in_conversation(town, config, state, agent, i):
    """Whether somebody stands close by in the same building while nobody has to flee."""
    if agent.escaping != 0 or town.building[agent.tile] == 0 or agent.at_goal == 0:
        return False
    radius = min(_TALK_RADIUS, config.cue_radius)
    for j in range(config.n_agents):
        other = state.agents[j]
        if (
            j != i
            and other.active != 0
            and distance(agent.tile, other.tile) <= radius
            and same_context(town, agent.tile, other.tile)
        ):
            return True
    return False


@kernel
def write_cues(town, config, state, agent, i, rows, tiles):
    """Fills the cue rows, most severe first, and marks perceived fires in the tile window."""
    count = 0
    for k in range(HAZARDS):
        strength = perceived_severity(config, state, agent.tile, k)
        if strength >= 1:
            at = state.fire_tile[k]
            dx = column(at) - column(agent.tile)
            dy = line(at) - line(agent.tile)
            count = insert_cue(rows, count, _FIRE, abs(dx) + abs(dy), strength, dx, dy)
            mark(dx, dy, tiles, fields.BURNING)
    if agent.late != 0:
        count = insert_cue(rows, count, _LATE, 0, config.late_severity, 0, 0)
    if in_conversation(town, config, state, agent, i):
        count = insert_cue(rows, count, _TALK, 0, config.conversation_severity, 0, 0)
    for k in range(count, CUES):
        rows[k, 0] = rows[k, 2] = rows[k, 3] = rows[k, 4] = 0
        rows[k, 1] = -1


@kernel
def mark(dx, dy, tiles, flag):
    """Sets a flag on the tile of the window at an offset, if it lies inside."""
    if abs(dx) <= PAD and abs(dy) <= PAD:
        tiles[dy + PAD, dx + PAD] |= flag


@kernel
def write_tiles(town, state, agent, words, tiles):
    """Copies the terrain around a person, eight tiles at a time, and marks items in sight."""
    for k in range(TILE_WORDS):
        words[k] = town.windows[agent.tile, k]
    tiles[WINDOW - 1, WINDOW - 1] = town.windows[agent.tile, TILE_WORDS] & _BYTE
    for k in range(ITEMS):
        item = state.item_tile[k]
        if item >= 0 and visible(town, agent.tile, item):
            dx = column(item) - column(agent.tile)
            mark(dx, line(item) - line(agent.tile), tiles, fields.ITEM)


@kernel
def write_signal(town, config, state, agent, row):
    """Fills the `signal` row with the nearest signal within the cue radius."""
    k = town.near_signal[agent.tile]
    row[0] = 0
    row[1] = 0
    row[2] = FAR
    if k != NO_SIGNAL and town.near_signal_distance[agent.tile] <= config.cue_radius:
        row[0] = state.signal_state[k]
        row[1] = min(state.signal_change[k], 255)
        row[2] = town.near_signal_distance[agent.tile]


@kernel
def write_rules(town, agent, rows):
    """Fills the two `rules` rows."""
    here = np.int64(town.in_force[agent.tile])
    stake = np.int64(agent.relevant | agent.unrelated)
    for k in range(7):
        rows[0, k] = here >> k & 1
        rows[1, k] = stake >> k & 1


@kernel
def write_mask(town, state, agent, mask):
    """Fills the mask of physically possible actions."""
    mask[0] = 1
    for direction in range(4):
        verb = town.verb[agent.tile, direction]
        mask[1 + direction] = 1 if verb == 1 else 0
        mask[5 + direction] = 1 if verb == 2 else 0
    mask[9] = 1 if reachable_item(town, state, agent) >= 0 else 0


@kernel
def observe(town, config, state, i, record):
    """Writes the whole observation of one person."""
    agent = state.agents[i]
    write_self(town, config, state, agent, record.self)
    write_routes(town, config, state, agent, record.routes)
    write_authority(town, config, state, agent, record.authority)
    write_tiles(town, state, agent, record.tile_words, record.tiles)
    write_peers(town, config, state, agent, i, record.peer_behaviors, record.tiles)
    write_cues(town, config, state, agent, i, record.situational_cues, record.tiles)
    write_signal(town, config, state, agent, record.signal)
    write_rules(town, agent, record.rules)
    write_mask(town, state, agent, record.action_mask)
