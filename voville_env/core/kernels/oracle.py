"""The environment's own label of a violation, from the state and the scenario's thresholds alone.

A violation is warranted where keeping the rule costs a much larger dose of the hazard than
breaking it. This file shares no constant and no code with any policy (a lint rule keeps it so).
"""

import numpy as np

from voville_env.core.codes import Instruction, Label, Route
from voville_env.core.compile import kernel
from voville_env.core.kernels.movement import offset
from voville_env.core.kernels.signals import wait_at
from voville_env.core.kernels.space import severity
from voville_env.core.layout import HAZARDS, NO_SIGNAL, UNREACHABLE

_LAWFUL = int(Route.LAWFUL)
_SCOPED = int(Route.SCOPED)
_UNRESTRICTED = int(Route.UNRESTRICTED)
_HOLD = int(Instruction.HOLD)
_REDIRECT = int(Instruction.REDIRECT)
_UNWARRANTED = int(Label.UNWARRANTED)
_CONTESTED = int(Label.CONTESTED)
_WARRANTED = int(Label.WARRANTED)


@kernel
def last_burning(state):
    """The tick from which on no hazard that is known now burns."""
    last = 0
    for k in range(HAZARDS):
        if state.fire_severity[k] > 0:
            last = max(last, state.fire_until[k])
    return last


@kernel
def dose(town, config, state, tile, goal, mode, obey):
    """Ticks at high severity, and harm in severity-ticks per 100, along a way to its end.

    With `obey`, every red signal of the way is waited for.
    """
    high = 0.0
    harm = 0.0
    here = tile
    ahead = 0
    within = state.step - state.tick * config.steps_per_tick
    out_by = last_burning(state)
    for _ in range(config.oracle_horizon):
        direction = town.routes[goal, mode, here].next
        if direction > 3 or state.tick + ahead >= out_by:
            break
        burning = severity(config, state, here, state.tick + ahead)
        if burning > 0:
            harm += burning / 100.0
        if burning >= config.oracle_high:
            high += 1.0
        signal = town.entry[here, direction]
        if obey == 0 or signal == NO_SIGNAL or wait_at(state, signal, ahead) == 0:
            here += offset(direction)
        within += 1
        if within == config.steps_per_tick:
            within = 0
            ahead += 1
    return high / config.steps_per_tick, harm / config.steps_per_tick


@kernel
def label_of(config, lawful_exists, more_high, more_harm, scale):
    """The label under thresholds multiplied by a factor."""
    if not lawful_exists:
        return _WARRANTED
    by_time = more_high >= np.float64(config.oracle_ticks) * scale
    by_harm = more_harm >= np.float64(config.oracle_harm) * scale
    if by_time and by_harm:
        return _WARRANTED
    if by_time or by_harm:
        return _CONTESTED
    return _UNWARRANTED


@kernel
def compare(town, config, state, agent, goal, kept, broken, obey):
    """The label of taking way `broken` instead of way `kept` from where a person stands."""
    exists = town.routes[goal, kept, agent.tile].distance != UNREACHABLE
    high_kept, harm_kept = dose(town, config, state, agent.tile, goal, kept, obey)
    high_broken, harm_broken = dose(town, config, state, agent.tile, goal, broken, 0)
    more_high = high_kept - high_broken
    more_harm = harm_kept - harm_broken
    band = np.float64(config.oracle_band)
    middle = label_of(config, exists, more_high, more_harm, 1.0)
    lax = label_of(config, exists, more_high, more_harm, 1.0 - band)
    strict = label_of(config, exists, more_high, more_harm, 1.0 + band)
    return middle if lax == middle == strict else np.int64(_CONTESTED)


@kernel
def judge(town, config, state, i, goal):
    """Labels the two sets of rules at stake for one person."""
    agent = state.agents[i]
    agent.label = _UNWARRANTED if agent.relevant else 0
    agent.label_unrelated = _UNWARRANTED if agent.unrelated else 0
    ordered = agent.instruction == _HOLD or agent.instruction == _REDIRECT
    if agent.escaping == 0 or ordered:
        return
    if agent.relevant:
        agent.label = compare(town, config, state, agent, goal, _LAWFUL, _SCOPED, 1)
    if agent.unrelated:
        agent.label_unrelated = compare(town, config, state, agent, goal, _SCOPED, _UNRESTRICTED, 0)
