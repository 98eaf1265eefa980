"""Schedules: where people start, when their goal changes, and the night."""

from voville_env.core.codes import EventCode
from voville_env.core.compile import kernel
from voville_env.core.kernels.log import emit
from voville_env.core.layout import SCHEDULE

NEVER = -1_000_000
_GOAL = int(EventCode.GOAL)
_DAY = int(EventCode.DAY)


@kernel
def day_of(config, tick):
    """The day of an absolute tick, from 1."""
    return tick // config.ticks_per_day + 1


@kernel
def set_clock(config, state):
    """Notes day and tick of the day: a division a tick instead of several a step and person."""
    state.day = day_of(config, state.tick)
    state.day_tick = state.tick - (state.day - 1) * config.ticks_per_day


@kernel
def place(town, config, agent, i, day, tick):
    """Puts a person where the schedule has them before a tick of a day."""
    goal = config.start[i] if day == 1 else config.home[i]
    for k in range(SCHEDULE):
        if config.schedule_day[i, k] == day and config.schedule_tick[i, k] < tick:
            goal = config.schedule_goal[i, k]
    agent.goal = goal
    agent.tile = town.destination_tile[goal]
    agent.from_tile = agent.tile
    agent.intent = agent.tile


@kernel
def settle(agent):
    """Clears what does not survive the night; carried items and memory elsewhere do."""
    agent.late = 0
    agent.exposed = 0
    agent.evacuated = 0
    agent.escaping = 0
    agent.reached = 1
    agent.at_goal = 1
    agent.blocked = 0
    agent.blocked_tick = 0
    agent.moved_tick = 0
    agent.crossed_tick = 0
    agent.violated = 0
    agent.authorised = 0
    agent.violated_step = 0
    agent.instruction = 0
    agent.officer = -1
    agent.pending = 0
    agent.behaviour = 1
    agent.behaviour_rule = -1
    agent.behaviour_followed = -1
    agent.behaviour_tick = NEVER
    agent.seen_by = 0
    agent.jaywalk_seen = NEVER
    agent.potential_goal = -1


@kernel
def night(town, config, state, events):
    """Starts a new day: everybody at the day's start."""
    day = day_of(config, state.tick)
    for i in range(config.n_agents):
        agent = state.agents[i]
        settle(agent)
        place(town, config, agent, i, day, 0)
    emit(config, state, events, _DAY, -1, day, 0, 0, 0, 0, 0)


@kernel
def update(config, state, events):
    """Changes scheduled goals whose tick has come."""
    day = state.day
    tick = state.day_tick
    for i in range(config.n_agents):
        agent = state.agents[i]
        for k in range(SCHEDULE):
            if config.schedule_day[i, k] == day and config.schedule_tick[i, k] == tick:
                agent.goal = config.schedule_goal[i, k]
                agent.late = config.schedule_late[i, k]
                agent.reached = 0
                emit(
                    config, state, events, _GOAL, i, agent.goal, agent.late, agent.escaping, 0, 0, 0
                )
