"""The order of a step. `step_one` is one step of one environment; `run_batch` is the way in."""

from functools import cache

import numba

from voville_env.core.compile import kernel
from voville_env.core.kernels import (
    conduct,
    hazards,
    movement,
    observe,
    opportunities,
    rewards,
    schedule,
    scripts,
    signals,
)
from voville_env.core.layout import CHARACTERS, EVENTS

STEP = 0
RESET = 1
IDLE = 2
DUE = 2
"""In `state.over`: this environment is to be reset; 0 is running, 1 over."""


@kernel
def begin_tick(town, config, state, events):
    """What changes at the start of a tick, before anybody acts."""
    schedule.set_clock(config, state)
    signals.update(town, config, state, events)
    burning = hazards.update(config, state, events)
    schedule.update(config, state, events)
    hazards.update_escape(town, config, state, events, burning)
    scripts.update_officers(config, state)
    scripts.update_confederates(config, state)
    scripts.deliver(town, config, state, events)
    opportunities.update(town, config, state, events)


@kernel
def observe_all(town, config, state, obs):
    """Writes the observation of every person still on the map."""
    if config.with_observation != 0:
        for i in range(config.n_agents):
            observe.observe(town, config, state, i, obs[i])
        for k in range(CHARACTERS):  # no trace of what was observed is left in the state
            state.ranks[k] = 0


@kernel
def finish(config, state, out):
    """Sets the end flags of a step."""
    for i in range(config.n_agents):
        agent = state.agents[i]
        done = config.terminal_goal != 0 and agent.active != 0 and out[i].terms[1] > 0.0
        out[i].terminated = 1 if done else 0
        out[i].truncated = 1 if state.over != 0 and not done else 0


@kernel
def leave(config, state, out):
    """Takes people who were terminated in the last step off the map."""
    for i in range(config.n_agents):
        if out[i].terminated != 0:
            state.agents[i].active = 0


@kernel
def step_one(town, config, state, actions, obs, out, events):
    """One step of one environment."""
    rewards.clear(config, out)
    if state.over != 0:
        return
    if config.terminal_goal != 0:
        leave(config, state, out)
    movement.move(town, config, state, actions)
    conduct.sanction(town, config, state, events, out)
    rewards.update(town, config, state, events, out)
    state.step += 1
    if state.step == (state.tick + 1) * config.steps_per_tick:
        conduct.close_tick(town, config, state, events)
        if state.step >= state.end_step:
            state.over = 1
        else:
            state.tick += 1
            if state.tick % config.ticks_per_day == 0:
                schedule.night(town, config, state, events)
            begin_tick(town, config, state, events)
    finish(config, state, out)
    observe_all(town, config, state, obs)


@kernel
def reset_one(town, config, state, obs, out, events):
    """Starts a run; the caller has zeroed the record and set its seed and fires."""
    day = max(config.window_day, 1)
    start = config.window_start if config.window_day > 0 else 0
    ticks = config.days * config.ticks_per_day
    if config.window_day > 0:
        ticks = (day - 1) * config.ticks_per_day + config.window_end
    state.tick = (day - 1) * config.ticks_per_day + start
    state.step = state.tick * config.steps_per_tick
    state.end_step = ticks * config.steps_per_tick
    state.n_characters = config.n_agents + config.n_confederates + config.n_officers
    for i in range(state.n_characters):
        agent = state.agents[i]
        schedule.settle(agent)
        agent.active = 1
        agent.distance_fire = -2
        agent.role = 0
        if i >= config.n_agents:
            agent.role = 1 if i < config.n_agents + config.n_confederates else 2
        else:
            schedule.place(town, config, agent, i, day, start)
    scripts.place(config, state)
    begin_tick(town, config, state, events)
    rewards.clear(config, out)
    for i in range(config.n_agents):
        agent = state.agents[i]
        rewards.measure(town, config, agent)
        agent.at_goal = 1 if hazards.is_at_goal(town, config, agent) else 0
        out[i].terminated = 0
        out[i].truncated = 0
    observe_all(town, config, state, obs)


@kernel
def something_changed(config, before, state):
    """Whether a person has anything new to decide about."""
    for i in range(config.n_agents):
        agent = state.agents[i]
        if agent.relevant | agent.unrelated | agent.escaping | agent.instruction:
            return True
        if agent.active != 0 and agent.at_goal == 0:
            return True
    return before != state.tick // config.ticks_per_day


@kernel
def idle_one(town, config, state, actions, obs, out, events):
    """Waits, step by step, until a tick or until somebody has something to decide.

    The same code as `step_one` runs for every step, so that the state and the events are those of
    stepping; only the observations in between are not written. It also stops when the event buffer
    is half full, for the caller to drain it.
    """
    kept = config.with_observation
    config.with_observation = 0
    day = state.tick // config.ticks_per_day
    while state.over == 0 and state.tick < config.until:
        step_one(town, config, state, actions, obs, out, events)
        at_start = state.step % config.steps_per_tick == 0
        if at_start and (state.event_count > EVENTS // 2 or something_changed(config, day, state)):
            break
    config.with_observation = kept
    observe_all(town, config, state, obs)


@kernel
def run_one(town, config, state, actions, obs, out, events):
    """Does to one environment what `config.mode` says; a reset is for those that are due."""
    if config.mode == STEP:
        step_one(town, config, state, actions, obs, out, events)
    elif config.mode == RESET:
        if state.over == DUE:
            state.over = 0
            reset_one(town, config, state, obs, out, events)
    else:
        idle_one(town, config, state, actions, obs, out, events)


@kernel(entry=True)
def run_batch(town, config, state, actions, obs, out, events):
    """Steps, resets or idles every environment of a batch: the only entry point, compiled once.

    `config` holds one record for all, or one an environment where a scenario varies them.
    """
    varied = 1 if config.shape[0] > 1 else 0
    for b in range(state.shape[0]):
        run_one(town[0], config[b * varied], state[b], actions[b], obs[b], out[b], events[b])


@cache
def parallel_run_batch():
    """Compiles the twin of `run_batch` that spreads a batch over threads.

    Returns:
        A function with the arguments of `run_batch`, for stepping and resetting.
    """

    def run_batch_parallel(town, config, state, actions, obs, out, events):
        varied = 1 if config.shape[0] > 1 else 0
        for b in numba.prange(state.shape[0]):
            run_one(town[0], config[b * varied], state[b], actions[b], obs[b], out[b], events[b])

    return kernel(run_batch_parallel, entry=True, parallel=True)
