"""Scripted characters: confederates on their path and officers on their post."""

from voville_env.core.codes import WIDTH, EventCode, Instruction
from voville_env.core.compile import kernel
from voville_env.core.kernels.conduct import judge_response
from voville_env.core.kernels.log import emit
from voville_env.core.kernels.random import CROSSING, OFFICER_POST, between
from voville_env.core.kernels.space import distance, visible
from voville_env.core.layout import CROSSINGS, PHASES

_NONE = int(Instruction.NONE)
_HOLD = int(Instruction.HOLD)
_PASS = int(Instruction.PASS)
_REDIRECT = int(Instruction.REDIRECT)
_INSTRUCTION = int(EventCode.INSTRUCTION)


@kernel
def place(config, state):
    """Puts scripted characters on the map, with the jitter of the seed (E.3)."""
    for c in range(config.n_confederates):
        agent = state.agents[config.n_agents + c]
        agent.tile = config.confederate_path[c, 0]
        agent.intent = agent.tile
        state.waypoint[c] = 0
        state.heading[c] = 0
        for k in range(CROSSINGS):
            tick = config.crossing_tick[c, k]
            if tick >= 0:
                jitter = config.confederate_jitter
                tick = max(0, tick + between(state.seed, CROSSING, 0, k, -jitter, jitter))
            state.crossing_tick[c, k] = tick
    for o in range(config.n_officers):
        agent = state.agents[config.n_agents + config.n_confederates + o]
        shift = between(state.seed, OFFICER_POST, 0, o, 0, config.officer_jitter)
        agent.tile = config.officer_tile[o] + shift * (WIDTH if config.officer_axis[o] else 1)
        agent.intent = agent.tile


@kernel
def update_confederates(config, state):
    """Starts a crossing whose tick has come; both confederates share one draw per crossing."""
    for c in range(config.n_confederates):
        k = state.crossing_next[c]
        while k < CROSSINGS and 0 <= state.crossing_tick[c, k] < state.tick:
            k += 1
        if k < CROSSINGS and state.crossing_tick[c, k] == state.tick and state.heading[c] == 0:
            state.heading[c] = 1 if state.waypoint[c] == 0 else -1
            k += 1
        state.crossing_next[c] = k


@kernel
def confederate_intent(config, state, c):
    """The tile a confederate wants next: along its path, at its pace."""
    agent = state.agents[config.n_agents + c]
    agent.intent = agent.tile
    heading = state.heading[c]
    if heading != 0 and state.step % config.confederate_pace == 0:
        agent.intent = config.confederate_path[c, state.waypoint[c] + heading]


@kernel
def advance_confederate(config, state, c):
    """Notes that a confederate moved, and rests it at the end of its path."""
    state.waypoint[c] += state.heading[c]
    at = state.waypoint[c]
    if at == 0 or at == config.confederate_length[c] - 1:
        state.heading[c] = 0


@kernel
def update_officers(config, state):
    """Sets who is on duty and which phase of the script runs."""
    for o in range(config.n_officers):
        agent = state.agents[config.n_agents + config.n_confederates + o]
        on_duty = config.officer_from[o] <= state.tick < config.officer_until[o]
        agent.active = 1 if on_duty else 0
        kind = _NONE
        left = 0
        phases = config.officer_phases[o]
        if on_duty and phases > 0:
            total = 0
            for p in range(phases):
                total += config.phase_ticks[o, p]
            at = (state.tick - config.officer_from[o]) % total
            for p in range(PHASES):
                if at < config.phase_ticks[o, p]:
                    kind = config.phase_kind[o, p]
                    left = config.phase_ticks[o, p] - at
                    break
                at -= config.phase_ticks[o, p]
            # A run may begin in the middle of a phase: then its order is given there.
            if kind != _NONE and (at == 0 or state.officer_kind[o] == _NONE):
                state.n_instructions += 1
                state.officer_id[o] = state.n_instructions
        state.officer_kind[o] = kind
        state.officer_left[o] = left


@kernel
def nearest_officer(config, state, tile, radius, need_sight, town):
    """Index of the nearest officer on duty within a radius, -1 if there is none."""
    best = -1
    best_distance = radius + 1
    for o in range(config.n_officers):
        officer = state.agents[config.n_agents + config.n_confederates + o]
        if officer.active == 0:
            continue
        away = distance(tile, officer.tile)
        if away < best_distance and (need_sight == 0 or visible(town, tile, officer.tile)):
            best = o
            best_distance = away
    return best


@kernel
def in_zone(town, config, tile, o):
    """Whether a tile lies in the effective zone of the intersection that officer o serves."""
    signal = config.officer_signal[o]
    return town.signal_distance[signal, tile] <= town.signal_zone[signal]


@kernel
def hears(town, config, state, tile, o):
    """Whether an instruction of officer o reaches a tile: in its zone, in range and in sight."""
    officer = state.agents[config.n_agents + config.n_confederates + o]
    return (
        distance(tile, officer.tile) <= config.instruction_radius
        and in_zone(town, config, tile, o)
        and visible(town, tile, officer.tile)
    )


@kernel
def expire(town, config, state, agent):
    """Ends an instruction whose time is over; a pass lasts until revoked or the zone is left."""
    if agent.instruction == _PASS:
        officer = state.agents[config.n_agents + config.n_confederates + agent.officer]
        over = officer.active == 0 or not in_zone(town, config, agent.tile, agent.officer)
    else:
        over = state.tick >= agent.instruction_until
    if over:
        agent.instruction = _NONE
        agent.officer = -1


@kernel
def deliver(town, config, state, events):
    """Gives each person the instruction of the nearest officer whose order reaches them."""
    for i in range(config.n_agents):
        agent = state.agents[i]
        expire(town, config, state, agent)
        best = -1
        best_distance = 1000
        if agent.active != 0:
            for o in range(config.n_officers):
                if state.officer_kind[o] == _NONE or not hears(town, config, state, agent.tile, o):
                    continue
                if config.officer_reactive[o] != 0 and agent.tile == agent.from_tile:
                    continue
                officer = state.agents[config.n_agents + config.n_confederates + o]
                away = distance(agent.tile, officer.tile)
                if away < best_distance:
                    best = o
                    best_distance = away
        if best >= 0:
            receive(town, config, state, events, i, best, best_distance)


@kernel
def receive(town, config, state, events, i, o, away):
    """Puts an instruction in force for one person and starts judging the response."""
    agent = state.agents[i]
    kind = state.officer_kind[o]
    agent.instruction = kind
    agent.officer = o
    agent.instruction_until = state.tick + state.officer_left[o]
    if agent.last_id[o] == state.officer_id[o]:
        return
    agent.last_id[o] = state.officer_id[o]
    agent.instruction_id = state.officer_id[o]
    agent.instruction_from = state.tick
    emit(
        config,
        state,
        events,
        _INSTRUCTION,
        i,
        o,
        kind,
        state.officer_id[o],
        state.officer_left[o],
        away,
        config.officer_direction[o],
    )
    judge_response(config, state, events, i)
    if kind == _HOLD or kind == _REDIRECT:
        agent.pending = kind
        agent.pending_officer = o
        agent.pending_id = state.officer_id[o]
        agent.pending_from = state.tick
        agent.pending_until = min(agent.instruction_until, state.tick + config.response_ticks)
        agent.pending_distance = town.signal_distance[config.officer_signal[o], agent.tile]
        agent.pending_ok = 1
