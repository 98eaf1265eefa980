"""What others see of an act, and what officers make of it."""

from voville_env.core.codes import Behaviour, EventCode, Rule
from voville_env.core.compile import kernel
from voville_env.core.kernels.log import emit
from voville_env.core.kernels.space import distance, same_context, visible

_OUTCOME = int(EventCode.OUTCOME)
_RESPONSE = int(EventCode.RESPONSE)
_SANCTION = int(EventCode.SANCTION)
_BROADCAST = int(EventCode.BROADCAST)
_STANDING = int(Behaviour.STANDING)
_WALKING = int(Behaviour.WALKING)
_WAITING = int(Behaviour.WAITING)
_CROSSING = int(Behaviour.CROSSING)
_FIRST_VIOLATION = int(Behaviour.CROSSING_ON_RED)
_RED = int(Rule.RED_LIGHT)
_CROSSWALK = int(Rule.CROSSWALK_ONLY)


@kernel
def sanction(town, config, state, events, out):
    """Sanctions every unauthorised violation of this step that an officer sees close by."""
    for i in range(config.n_agents):
        agent = state.agents[i]
        broken = agent.violated_step & ~agent.authorised
        if broken == 0:
            continue
        for o in range(config.n_officers):
            officer = state.agents[config.n_agents + config.n_confederates + o]
            if (
                officer.active != 0
                and distance(agent.tile, officer.tile) <= config.sanction_radius
                and visible(town, agent.tile, officer.tile)
            ):
                out[i].terms[3] += 1.0
                emit(config, state, events, _SANCTION, i, o, broken, 0, 0, 0, 0)
                break


@kernel
def lowest_bit(bits):
    """Number of the lowest bit set."""
    k = 0
    while bits >> k & 1 == 0:
        k += 1
    return k


@kernel
def show(town, config, state, events, i):
    """Turns the tick's acts of one character into what observers see of it."""
    agent = state.agents[i]
    stake = agent.relevant | agent.unrelated
    recent = (
        agent.behaviour >= _FIRST_VIOLATION
        and state.tick - agent.behaviour_tick < config.peer_memory
    )
    if agent.violated != 0:
        rule = lowest_bit(agent.violated)
        behaviour = _FIRST_VIOLATION + rule
        followed = 0
    elif recent:
        return
    elif agent.crossed_tick != 0:
        rule, behaviour, followed = _RED, _CROSSING, 1
    elif stake != 0 and agent.moved_tick == 0:
        rule, behaviour, followed = lowest_bit(stake), _WAITING, 1
    else:
        rule, behaviour, followed = -1, (_WALKING if agent.moved_tick else _STANDING), -1
    agent.behaviour = behaviour
    agent.behaviour_rule = rule
    agent.behaviour_followed = followed
    agent.behaviour_tick = state.tick
    agent.seen_by = observers(town, config, state, i)
    if followed == 0:
        if rule == _RED or rule == _CROSSWALK:
            for j in range(config.n_agents):
                if agent.seen_by >> j & 1:
                    state.agents[j].jaywalk_seen = state.tick + 1
        if agent.seen_by != 0:
            emit(
                config, state, events, _BROADCAST, i, behaviour, rule, followed, agent.seen_by, 0, 0
            )


@kernel
def observers(town, config, state, i):
    """Bit mask of the people who see character i: near, in sight, in the same context (C-73)."""
    agent = state.agents[i]
    mask = 0
    for j in range(config.n_agents):
        other = state.agents[j]
        if (
            j != i
            and other.active != 0
            and distance(agent.tile, other.tile) <= config.peer_radius
            and same_context(town, agent.tile, other.tile)
            and visible(town, agent.tile, other.tile)
        ):
            mask |= 1 << j
    return mask


@kernel
def judge_response(config, state, events, i):
    """Closes the judgement of the last instruction a person received, if one is open."""
    agent = state.agents[i]
    if agent.pending == 0:
        return
    emit(
        config,
        state,
        events,
        _RESPONSE,
        i,
        agent.pending_officer,
        agent.pending,
        agent.pending_id,
        agent.pending_ok,
        state.tick - agent.pending_from,
        0,
    )
    agent.pending = 0


@kernel
def close_tick(town, config, state, events):
    """Ends a tick: outcomes of the opportunities, behaviours, due responses."""
    for i in range(state.n_characters):
        agent = state.agents[i]
        if agent.active != 0 and i < config.n_agents + config.n_confederates:
            show(town, config, state, events, i)
    for i in range(config.n_agents):
        agent = state.agents[i]
        stake = agent.relevant | agent.unrelated | agent.violated
        if stake != 0:
            emit(
                config,
                state,
                events,
                _OUTCOME,
                i,
                stake,
                agent.violated,
                agent.authorised,
                agent.blocked_tick | agent.moved_tick << 1,
                agent.tile,
                0,
            )
        if agent.pending != 0 and state.tick + 1 >= agent.pending_until:
            judge_response(config, state, events, i)
    for i in range(state.n_characters):
        agent = state.agents[i]
        agent.violated = 0
        agent.authorised = 0
        agent.blocked_tick = 0
        agent.moved_tick = 0
        agent.crossed_tick = 0
