"""Reward terms: progress, arrival, harm, sanction and time (ours; no document defines a reward)."""

import numpy as np

from voville_env.core.codes import Route
from voville_env.core.compile import kernel
from voville_env.core.kernels.hazards import note_arrival, reference_goal
from voville_env.core.kernels.space import severity
from voville_env.core.layout import UNREACHABLE

_UNRESTRICTED = int(Route.UNRESTRICTED)


@kernel
def measure(town, config, agent):
    """Takes the distance to the goal that counts now as the new potential; returns the gain."""
    goal = reference_goal(config, agent)
    steps = town.routes[goal, _UNRESTRICTED, agent.tile].distance
    if steps == UNREACHABLE:
        steps = 0
    gain = agent.potential - steps if agent.potential_goal == goal else 0
    agent.potential = steps
    agent.potential_goal = goal
    return gain


@kernel
def clear(config, out):
    """Zeroes the outcome records of a step."""
    for i in range(config.n_agents):
        out[i].reward = 0.0
        for k in range(5):
            out[i].terms[k] = 0.0


@kernel
def update(town, config, state, events, out):
    """Fills the terms and the weighted reward of a step, and notes arrivals."""
    for i in range(config.n_agents):
        agent = state.agents[i]
        terms = out[i].terms
        if agent.active == 0:
            continue
        terms[0] = measure(town, config, agent)
        terms[1] = note_arrival(town, config, state, events, i)
        harm = severity(config, state, agent.tile, state.tick)
        if harm > 0:  # else 0, as it was cleared to
            terms[2] = harm / 100.0 / config.steps_per_tick
        terms[4] = 0.0 if agent.at_goal else 1.0
        total = np.float64(0.0)
        for k in range(5):
            total += terms[k] * config.reward[k]
        out[i].reward = total
