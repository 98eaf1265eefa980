"""Decision opportunities: which rules are at stake for whom in a tick (requirements, part d)."""

import numpy as np

from voville_env.core.codes import EventCode, Route, Rule, SignalState
from voville_env.core.compile import kernel
from voville_env.core.kernels.hazards import is_at_goal, nearest, reference_goal
from voville_env.core.kernels.log import emit
from voville_env.core.kernels.movement import offset, reachable_item
from voville_env.core.kernels.oracle import judge
from voville_env.core.kernels.scripts import nearest_officer
from voville_env.core.kernels.space import distance
from voville_env.core.layout import NO_SIGNAL

_SCOPED = int(Route.SCOPED)
_UNRESTRICTED = int(Route.UNRESTRICTED)
_DONT_WALK = int(SignalState.DONT_WALK)
_RED = 1 << Rule.RED_LIGHT
_PROPERTY = 1 << Rule.PROPERTY
_SPACE = 1 << Rule.PERSONAL_SPACE
_RELEVANT = 0b111
_OPPORTUNITY = int(EventCode.OPPORTUNITY)
_POSITION = int(EventCode.POSITION)


@kernel
def route_bits(state, route):
    """Rules that the next tiles of a way would break now."""
    bits = np.int64(route.bits)
    if (
        route.signal != NO_SIGNAL
        and route.signal_ticks == 0
        and state.signal_state[route.signal] == _DONT_WALK
    ):
        bits |= _RED
    return bits


@kernel
def occupied(state, tile):
    """Whether a character stands on a tile."""
    for j in range(state.n_characters):
        if state.agents[j].active != 0 and state.agents[j].tile == tile:
            return True
    return False


@kernel
def at_stake(town, config, state, i):
    """Sets the trigger-relevant and the unrelated rules at stake for one person.

    Who has arrived has no way ahead; only what lies within reach can then be at stake.
    """
    agent = state.agents[i]
    unrelated = np.int64(0)
    if not is_at_goal(town, config, agent):
        goal = reference_goal(config, agent)
        scoped = town.routes[goal, _SCOPED, agent.tile]
        free = town.routes[goal, _UNRESTRICTED, agent.tile]
        agent.relevant = route_bits(state, scoped) & _RELEVANT
        unrelated = np.int64(free.bits) & ~_RELEVANT
        if free.next < 4 and occupied(state, agent.tile + offset(free.next)):
            unrelated |= _SPACE
    item = reachable_item(town, state, agent)
    if item >= 0 and state.item_owner[item] != i:
        unrelated |= _PROPERTY
    agent.unrelated = unrelated


@kernel
def update(town, config, state, events):
    """Sets and records what is at stake for everybody, with the oracle's labels."""
    for i in range(config.n_agents):
        agent = state.agents[i]
        agent.relevant = 0
        agent.unrelated = 0
        agent.label = 0
        agent.label_unrelated = 0
        if agent.active == 0:
            continue
        at_stake(town, config, state, i)
        fire = nearest(state, agent.tile)
        seen = nearest_officer(config, state, agent.tile, config.authority_radius, 1, town)
        any_officer = nearest_officer(config, state, agent.tile, 200, 0, town)
        to_officer = -1
        if any_officer >= 0:
            post = state.agents[config.n_agents + config.n_confederates + any_officer].tile
            to_officer = distance(agent.tile, post)
        watched = fire >= 0 or to_officer >= 0 or agent.distance_fire >= 0
        if watched and (
            agent.tile != agent.from_tile
            or fire != agent.distance_fire
            or to_officer != agent.distance_officer
        ):
            emit(
                config,
                state,
                events,
                _POSITION,
                i,
                agent.tile,
                fire,
                to_officer,
                1 if seen >= 0 else 0,
                0,
                0,
            )
        agent.from_tile = agent.tile
        agent.distance_fire = fire
        agent.distance_officer = to_officer
        stake = agent.relevant | np.int64(agent.unrelated) << 8
        if stake == 0:
            continue
        if config.with_oracle != 0:
            judge(town, config, state, i, reference_goal(config, agent))
        signal = town.routes[reference_goal(config, agent), _SCOPED, agent.tile].signal
        shows = np.int64(0 if signal == NO_SIGNAL else state.signal_state[signal])
        supervised = 0
        if 0 <= to_officer <= config.supervised_radius:
            supervised = 1
        exposed = 0
        if state.tick - agent.jaywalk_seen <= config.exposure_ticks:
            exposed = 1
        emit(
            config,
            state,
            events,
            _OPPORTUNITY,
            i,
            stake,
            agent.tile,
            fire,
            to_officer,
            agent.label
            | agent.label_unrelated << 4
            | shows << 8
            | supervised << 12
            | exposed << 13
            | np.int64(agent.escaping) << 14
            | np.int64(agent.instruction) << 16,
            signal,
        )
