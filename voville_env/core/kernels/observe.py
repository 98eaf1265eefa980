"""Writes what one person perceives into its observation record, each field once."""

import numpy as np

from voville_env.core import fields
from voville_env.core.codes import WIDTH, CueType, Instruction
from voville_env.core.compile import kernel, small
from voville_env.core.kernels.movement import reachable_item
from voville_env.core.kernels.opportunities import route_bits
from voville_env.core.kernels.schedule import day_of
from voville_env.core.kernels.scripts import nearest_officer
from voville_env.core.kernels.signals import wait_at
from voville_env.core.kernels.space import distance, perceived_severity, same_context, visible
from voville_env.core.layout import FAR, HAZARDS, ITEMS, NO_SIGNAL, PAD, PADDED, UNREACHABLE

PEERS = fields.PEER_ROWS
CUES = fields.CUE_ROWS
WINDOW = fields.WINDOW
_FIRE = int(CueType.FIRE)
_LATE = int(CueType.TIME_PRESSURE)
_TALK = int(CueType.CONVERSATION)
_REDIRECT = int(Instruction.REDIRECT)
_TALK_RADIUS = 3


@small
def write_self(town, config, state, agent, row):
    """Fills the `self` row."""
    goal = town.destination_tile[agent.goal]
    row[0] = agent.tile % WIDTH
    row[1] = agent.tile // WIDTH
    row[2] = day_of(config, state.tick)
    row[3] = state.tick % config.ticks_per_day
    row[4] = state.step - state.tick * config.steps_per_tick
    row[5] = goal % WIDTH
    row[6] = goal // WIDTH
    row[7] = agent.late
    row[8] = agent.at_goal
    row[9] = agent.blocked
    row[10] = agent.carrying
    row[11] = agent.escaping


@kernel
def write_routes(town, config, state, agent, rows):
    """Fills the six `routes` rows: three ways to the goal, three to the safe zone."""
    within = state.step - state.tick * config.steps_per_tick
    for k in range(6):
        goal = agent.goal if k < 3 else config.safe_destination
        route = town.routes[goal, k % 3, agent.tile]
        row = rows[k]
        if route.distance == UNREACHABLE:
            row[0] = -1
            row[1] = row[2] = row[3] = 0
            continue
        row[0] = route.distance
        row[1] = 0
        if route.next < 4:
            verb = town.verb[agent.tile, route.next]
            row[1] = route.next + (1 if verb == 1 else 5)
        row[2] = route_bits(config, state, route)
        row[3] = 0
        if route.signal != NO_SIGNAL:
            ahead = (within + route.signal_steps - 1) // config.steps_per_tick
            row[3] = wait_at(state, route.signal, state.tick + ahead)


@kernel
def write_authority(town, config, state, agent, row):
    """Fills the `authority` row."""
    o = nearest_officer(config, state, agent.tile, config.authority_radius, 1, town)
    row[0] = 1 if o >= 0 else 0
    row[1] = -1
    row[2] = row[3] = 0
    if o >= 0:
        post = state.agents[config.n_agents + config.n_confederates + o].tile
        row[1] = distance(agent.tile, post)
        row[2] = post % WIDTH - agent.tile % WIDTH
        row[3] = post // WIDTH - agent.tile // WIDTH
    row[4] = agent.instruction
    row[5] = agent.officer
    row[6] = -1
    row[7] = 0
    if agent.instruction != 0:
        if agent.instruction == _REDIRECT:
            row[6] = config.officer_direction[agent.officer]
        row[7] = max(0, agent.instruction_until - state.tick)


@small
def write_peer(config, state, agent, i, other, row):
    """Fills one `peer_behaviors` row with what was last seen of a peer."""
    row[0] = other.tile % WIDTH - agent.tile % WIDTH
    row[1] = other.tile // WIDTH - agent.tile // WIDTH
    age = state.tick - other.behaviour_tick
    if age <= config.peer_memory and other.seen_by >> i & 1:
        row[2] = other.behaviour
        row[3] = other.behaviour_rule
        row[4] = other.behaviour_followed
        row[5] = age
    else:
        row[2] = 1
        row[3] = row[4] = -1
        row[5] = 0


@kernel
def write_peers(town, config, state, agent, i, rows, tiles):
    """Fills the peer rows, nearest first, and marks visible people in the tile window."""
    order = np.int64(0)  # peers as 4-bit indices, nearest lowest
    count = 0
    for j in range(state.n_characters):
        other = state.agents[j]
        if j == i or other.active == 0:
            continue
        away = distance(agent.tile, other.tile)
        if away > config.peer_radius or not visible(town, agent.tile, other.tile):
            continue
        mark(agent.tile, other.tile, tiles, fields.OCCUPIED)
        if j >= config.n_agents + config.n_confederates:
            continue
        if not same_context(town, agent.tile, other.tile):
            continue
        at = 0
        while at < count:
            ranked = state.agents[(order >> (4 * at)) & 15]
            if away < distance(agent.tile, ranked.tile):
                break
            at += 1
        low = order & ((np.int64(1) << (4 * at)) - 1)
        order = low | (np.int64(j) << (4 * at)) | ((order - low) << 4)
        count = min(count + 1, PEERS)
        if count == PEERS:
            order &= (np.int64(1) << (4 * PEERS)) - 1
    for k in range(PEERS):
        if k < count:
            write_peer(config, state, agent, i, state.agents[(order >> (4 * k)) & 15], rows[k])
        else:
            row = rows[k]
            row[0] = row[1] = row[2] = row[5] = 0
            row[3] = row[4] = -1


@kernel
def insert_cue(rows, count, kind, away, severity, dx, dy):
    """Inserts a cue by falling severity; returns the new count."""
    at = min(count, CUES - 1)
    if count == CUES and rows[at][2] >= severity:
        return count
    while at > 0 and rows[at - 1][2] < severity:
        for k in range(5):
            rows[at][k] = rows[at - 1][k]
        at -= 1
    rows[at][0] = kind
    rows[at][1] = away
    rows[at][2] = severity
    rows[at][3] = dx
    rows[at][4] = dy
    return np.int64(min(count + 1, CUES))


@small
def in_conversation(town, config, state, agent, i):
    """Whether somebody stands close by in the same building while nobody has to flee."""
    radius = min(_TALK_RADIUS, config.cue_radius)
    if agent.escaping != 0 or town.building[agent.tile] == 0 or agent.at_goal == 0:
        return False
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
    count = np.int64(0)
    x = np.int64(agent.tile % WIDTH)
    y = np.int64(agent.tile // WIDTH)
    for k in range(HAZARDS):
        strength = perceived_severity(config, state, agent.tile, k)
        if strength >= 1:
            at = np.int64(state.fire_tile[k])
            away = distance(agent.tile, at)
            count = insert_cue(
                rows, count, _FIRE, away, np.int64(strength), at % WIDTH - x, at // WIDTH - y
            )
            mark(agent.tile, at, tiles, fields.BURNING)
    if agent.late != 0:
        count = insert_cue(rows, count, _LATE, 0, np.int64(config.late_severity), 0, 0)
    if in_conversation(town, config, state, agent, i):
        count = insert_cue(rows, count, _TALK, 0, np.int64(config.conversation_severity), 0, 0)
    for k in range(count, CUES):
        row = rows[k]
        row[0] = row[2] = row[3] = row[4] = 0
        row[1] = -1


@small
def mark(centre, tile, tiles, flag):
    """Sets a flag on a tile of the window, if it lies inside."""
    column = tile % WIDTH - centre % WIDTH + PAD
    line = tile // WIDTH - centre // WIDTH + PAD
    if 0 <= column < WINDOW and 0 <= line < WINDOW:
        tiles[line, column] |= flag


@kernel
def write_tiles(town, state, agent, tiles):
    """Copies the terrain around a person and marks items in sight."""
    corner = (agent.tile // WIDTH) * PADDED + agent.tile % WIDTH
    for line in range(WINDOW):
        start = corner + line * PADDED
        for column in range(WINDOW):
            tiles[line, column] = town.window[start + column]
    for k in range(ITEMS):
        if state.item_tile[k] >= 0 and visible(town, agent.tile, state.item_tile[k]):
            mark(agent.tile, state.item_tile[k], tiles, fields.ITEM)


@small
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


@small
def write_rules(town, agent, rows):
    """Fills the two `rules` rows."""
    here = town.in_force[agent.tile]
    stake = agent.relevant | agent.unrelated
    for k in range(7):
        rows[0, k] = here >> k & 1
        rows[1, k] = stake >> k & 1


@small
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
    write_tiles(town, state, agent, record.tiles)
    write_peers(town, config, state, agent, i, record.peer_behaviors, record.tiles)
    write_cues(town, config, state, agent, i, record.situational_cues, record.tiles)
    write_signal(town, config, state, agent, record.signal)
    write_rules(town, agent, record.rules)
    write_mask(town, state, agent, record.action_mask)
