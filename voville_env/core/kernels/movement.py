"""Simultaneous moves: wishes from the old state, one outcome whatever the order of the agents."""

import numpy as np

from voville_env.core.codes import Action, Instruction, Rule, SignalState, Verb
from voville_env.core.compile import kernel
from voville_env.core.kernels.random import MOVE, TAKE, draw
from voville_env.core.kernels.scripts import advance_confederate, confederate_intent
from voville_env.core.kernels.space import distance, visible
from voville_env.core.layout import ITEMS, NO_SIGNAL

STAY = 0
GO = 1
STOPPED = 2

_MOVE = int(Verb.MOVE)
_CROSS = int(Verb.CROSS)
_TAKE = int(Action.TAKE)
_DONT_WALK = int(SignalState.DONT_WALK)
_RED = 1 << Rule.RED_LIGHT
_PRIVATE = 1 << Rule.PRIVATE_BUILDING
_PROPERTY = 1 << Rule.PROPERTY
_SPACE = 1 << Rule.PERSONAL_SPACE
_PASS = int(Instruction.PASS)
_HOLD = int(Instruction.HOLD)
_REDIRECT = int(Instruction.REDIRECT)
_RELEVANT = 0b111


@kernel
def offset(direction):
    """Tile number change of a step north, east, south or west."""
    if direction == 0:
        return -64
    if direction == 1:
        return 1
    return 64 if direction == 2 else -1


@kernel
def reachable_item(town, state, agent):
    """Index of an item within one tile and not behind a wall, -1 if none or the hands are full."""
    if agent.carrying == 0:
        for k in range(ITEMS):
            tile = state.item_tile[k]
            if tile >= 0 and distance(agent.tile, tile) <= 1 and visible(town, agent.tile, tile):
                return k
    return -1


@kernel
def step_bits(town, state, i, tile, direction):
    """Rules that person i would break now by one step."""
    bits = np.int64(town.bits[tile, direction])
    signal = town.entry[tile, direction]
    if signal != NO_SIGNAL and state.signal_state[signal] == _DONT_WALK:
        bits |= _RED
    if bits & _PRIVATE:
        building = town.building[tile + offset(direction)]
        if (town.owners[building] >> i) & 1:
            bits &= ~_PRIVATE
    return bits


@kernel
def wish(town, config, state, actions):
    """Turns actions into wanted tiles; an impossible step counts as a blocked one."""
    for i in range(config.n_agents):
        agent = state.agents[i]
        agent.intent = agent.tile
        agent.blocked = 0
        agent.violated_step = 0
        action = actions[i]
        if agent.active != 0 and 1 <= action < _TAKE:
            direction = (action - 1) & 3
            verb = _MOVE if action <= 4 else _CROSS
            if town.verb[agent.tile, direction] == verb:
                agent.intent = agent.tile + offset(direction)
            else:
                agent.blocked = 1
    for c in range(config.n_confederates):
        agent = state.agents[config.n_agents + c]
        agent.blocked = 0
        agent.violated_step = 0
        confederate_intent(config, state, c)


@kernel
def settle_conflicts(config, state):
    """Decides who goes: one per tile by a seeded draw, no swaps; notes pushes."""
    n = state.n_characters
    for i in range(n):
        agent = state.agents[i]
        agent.fate = GO if agent.active != 0 and agent.intent != agent.tile else STAY
    for i in range(n):
        agent = state.agents[i]
        if agent.fate == STAY:
            continue
        for j in range(n):
            other = state.agents[j]
            if j == i or other.active == 0:
                continue
            if other.tile == agent.intent:
                if other.intent == other.tile:
                    agent.fate = STOPPED
                    agent.violated_step |= _SPACE
                elif other.intent == agent.tile:
                    agent.fate = STOPPED
            elif other.fate != STAY and other.intent == agent.intent:
                lot = draw(state.seed, MOVE, state.step, i)
                if draw(state.seed, MOVE, state.step, j) > lot:
                    agent.fate = STOPPED


@kernel
def settle_chains(state):
    """Stops everybody whose tile is not vacated, until nothing changes; cycles go round."""
    n = state.n_characters
    changed = False  # who stays stops others above; only who was stopped can stop one more
    for i in range(n):
        if state.agents[i].fate == STOPPED:
            changed = True
    while changed:
        changed = False
        for i in range(n):
            agent = state.agents[i]
            if agent.fate != GO:
                continue
            for j in range(n):
                other = state.agents[j]
                if other.active != 0 and other.fate != GO and other.tile == agent.intent:
                    agent.fate = STOPPED
                    changed = True
                    break


@kernel
def direction_of(start, end):
    """Direction of a step between neighbouring tiles."""
    if end == start - 64:
        return 0
    if end == start + 1:
        return 1
    return 2 if end == start + 64 else 3


@kernel
def carry_out(town, config, state):
    """Moves everybody who goes, and notes the rules broken by it."""
    for i in range(state.n_characters):
        agent = state.agents[i]
        if agent.fate == STAY:
            continue
        if agent.fate == STOPPED:
            agent.blocked = 1
        else:
            direction = direction_of(agent.tile, agent.intent)
            agent.violated_step |= step_bits(town, state, i, agent.tile, direction)
            signal = town.entry[agent.tile, direction]
            if signal != NO_SIGNAL and state.signal_state[signal] != _DONT_WALK:
                agent.crossed_tick = 1
            note_response(town, config, agent, direction)
            agent.from_tile = agent.tile
            agent.tile = agent.intent
            agent.moved_tick = 1
            if i >= config.n_agents:
                advance_confederate(config, state, i - config.n_agents)


@kernel
def note_response(town, config, agent, direction):
    """Notes whether a step goes against the instruction under judgement."""
    if agent.pending == _REDIRECT and town.wrong_way[agent.tile, direction] != 0:
        agent.pending_ok = 0
    elif agent.pending == _HOLD:
        signal = config.officer_signal[agent.pending_officer]
        if (
            town.signal_distance[signal, agent.intent] < agent.pending_distance
            or town.entry[agent.tile, direction] != NO_SIGNAL
        ):
            agent.pending_ok = 0


@kernel
def take(town, config, state, actions):
    """Gives each wanted item to one taker, by a seeded draw."""
    for k in range(ITEMS):
        if state.item_tile[k] < 0:
            continue
        winner = -1
        best = np.uint64(0)
        for i in range(config.n_agents):
            agent = state.agents[i]
            if agent.active == 0 or actions[i] != _TAKE:
                continue
            if reachable_item(town, state, agent) != k:
                continue
            lot = draw(state.seed, TAKE, state.step, i)
            if winner < 0 or lot > best:
                winner = i
                best = lot
        if winner >= 0:
            agent = state.agents[winner]
            state.item_tile[k] = -1
            agent.carrying = 1
            if state.item_owner[k] != winner:
                agent.violated_step |= _PROPERTY


@kernel
def mark_failed_takes(config, state, actions, carried):
    """A take that got nothing counts as blocked."""
    for i in range(config.n_agents):
        agent = state.agents[i]
        if actions[i] == _TAKE and agent.active != 0 and (agent.carrying == 0 or carried >> i & 1):
            agent.blocked = 1


@kernel
def move(town, config, state, actions):
    """One simultaneous step of everybody on the map."""
    carried = np.int64(0)
    for i in range(config.n_agents):
        carried |= np.int64(state.agents[i].carrying) << i
    wish(town, config, state, actions)
    take(town, config, state, actions)
    settle_conflicts(config, state)
    settle_chains(state)
    carry_out(town, config, state)
    mark_failed_takes(config, state, actions, carried)
    for i in range(state.n_characters):
        agent = state.agents[i]
        agent.violated |= agent.violated_step
        agent.blocked_tick |= agent.blocked
        if agent.instruction == _PASS:
            agent.authorised |= agent.violated_step & _RELEVANT
