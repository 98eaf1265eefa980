"""Hazards: when they burn, who has been exposed, and which goal counts."""

from voville_env.core.codes import EventCode, Route
from voville_env.core.compile import kernel
from voville_env.core.kernels.log import emit
from voville_env.core.kernels.space import distance, perceived_severity
from voville_env.core.layout import HAZARDS

_HAZARD = int(EventCode.HAZARD)
_ARRIVAL = int(EventCode.ARRIVAL)
_GOAL = int(EventCode.GOAL)
_UNRESTRICTED = int(Route.UNRESTRICTED)


@kernel
def update(config, state, events):
    """Lights and puts out hazards by the clock; returns how many burn."""
    burning = 0
    for k in range(HAZARDS):
        now = 0
        if state.fire_severity[k] > 0 and state.fire_from[k] <= state.tick < state.fire_until[k]:
            now = 1
        if now != state.fire_burning[k]:
            state.fire_burning[k] = now
            emit(
                config,
                state,
                events,
                _HAZARD,
                -1,
                now,
                state.fire_tile[k],
                state.fire_severity[k],
                0,
                0,
                0,
            )
        burning += now
    return burning


@kernel
def nearest(state, tile):
    """Manhattan distance to the nearest burning hazard, -1 if none burns."""
    best = -1
    for k in range(HAZARDS):
        if state.fire_burning[k] != 0:
            away = distance(tile, state.fire_tile[k])
            if best < 0 or away < best:
                best = away
    return best


@kernel
def within_reach(config, state, tile):
    """Whether some burning hazard is perceived at a tile."""
    for k in range(HAZARDS):
        if perceived_severity(config, state, tile, k) >= 1:
            return True
    return False


@kernel
def reference_goal(config, agent):
    """The destination that counts now: the safe zone, or the scheduled goal (part d)."""
    return config.safe_destination if agent.escaping != 0 else agent.goal


@kernel
def is_at_goal(town, config, agent):
    """Whether a person is at the goal that counts now, or in the safe zone while escaping."""
    if agent.escaping != 0:
        return town.safe[agent.tile] != 0
    return town.routes[agent.goal, _UNRESTRICTED, agent.tile].distance == 0


@kernel
def update_escape(town, config, state, events, burning):
    """Marks who must reach safety, and who is where they should be now.

    Who was exposed goes home once nothing burns.
    """
    for i in range(config.n_agents):
        agent = state.agents[i]
        if agent.active == 0:
            continue
        before = agent.escaping
        if burning == 0:
            agent.exposed = 0
            if agent.evacuated != 0:
                agent.goal = config.home[i]
            agent.escaping = 0
        elif town.safe[agent.tile] != 0:
            agent.exposed = 0
        elif within_reach(config, state, agent.tile):
            agent.exposed = 1
            agent.evacuated = 1
        if burning != 0 and agent.evacuated != 0:
            agent.escaping = 1
        if agent.escaping != before:
            agent.reached = 0
            if agent.escaping != 0:
                agent.late = 0
            emit(
                config,
                state,
                events,
                _GOAL,
                i,
                reference_goal(config, agent),
                agent.late,
                agent.escaping,
                0,
                0,
                0,
            )
        agent.at_goal = 1 if is_at_goal(town, config, agent) else 0


@kernel
def note_arrival(town, config, state, events, i):
    """Records the first time a person reaches the goal that counts now; returns 1 then."""
    agent = state.agents[i]
    agent.at_goal = 1 if is_at_goal(town, config, agent) else 0
    if agent.at_goal == 0 or agent.reached != 0:
        return 0
    agent.reached = 1
    agent.late = 0
    if agent.escaping != 0:
        agent.exposed = 0
    emit(
        config,
        state,
        events,
        _ARRIVAL,
        i,
        reference_goal(config, agent),
        agent.escaping,
        agent.tile,
        0,
        0,
        0,
    )
    return 1
