"""A step of the core, kernel by kernel, so that each can be timed inside real steps.

Each function here does one part of `core.kernels.step.step_one` to all environments of a batch.
`PHASES` has them in the order of a step: one after the other they leave the same states, and write
the same observations, as the core's own step. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from voville_env.core.compile import kernel
from voville_env.core.kernels import conduct as _conduct
from voville_env.core.kernels import hazards as _hazards
from voville_env.core.kernels import movement as _movement
from voville_env.core.kernels import opportunities as _opportunities
from voville_env.core.kernels import rewards as _rewards
from voville_env.core.kernels import schedule as _schedule
from voville_env.core.kernels import scripts as _scripts
from voville_env.core.kernels import signals as _signals
from voville_env.core.kernels import step as _step
from voville_env.core.layout import Records

# Kernels take records whose types only numba knows.
conduct: Any = _conduct
hazards: Any = _hazards
movement: Any = _movement
opportunities: Any = _opportunities
rewards: Any = _rewards
schedule: Any = _schedule
scripts: Any = _scripts
signals: Any = _signals
step: Any = _step
compiled: Callable[[Callable[..., None]], Callable[..., None]] = kernel(entry=True)


@compiled
def move(town: Any, config: Any, state: Any, actions: Any, obs: Any, out: Any, events: Any) -> None:
    """Outcome records cleared, and everybody's move."""
    for b in range(state.shape[0]):
        rewards.clear(config[0], out[b])
        movement.move(town[0], config[0], state[b], actions[b])


@compiled
def reward(
    town: Any, config: Any, state: Any, actions: Any, obs: Any, out: Any, events: Any
) -> None:
    """Sanctions and rewards."""
    for b in range(state.shape[0]):
        conduct.sanction(town[0], config[0], state[b], events[b], out[b])
        rewards.update(town[0], config[0], state[b], events[b], out[b])


@compiled
def close(
    town: Any, config: Any, state: Any, actions: Any, obs: Any, out: Any, events: Any
) -> None:
    """The end of a tick: acts shown and judged."""
    for b in range(state.shape[0]):
        conduct.close_tick(town[0], config[0], state[b], events[b])


@compiled
def signal(
    town: Any, config: Any, state: Any, actions: Any, obs: Any, out: Any, events: Any
) -> None:
    """Clock and signals of a new tick."""
    for b in range(state.shape[0]):
        schedule.set_clock(config[0], state[b])
        signals.update(town[0], config[0], state[b], events[b])


@compiled
def hazard(
    town: Any, config: Any, state: Any, actions: Any, obs: Any, out: Any, events: Any
) -> None:
    """Hazards, schedules and escapes of a new tick."""
    for b in range(state.shape[0]):
        burning = hazards.update(config[0], state[b], events[b])
        schedule.update(config[0], state[b], events[b])
        hazards.update_escape(town[0], config[0], state[b], events[b], burning)


@compiled
def script(
    town: Any, config: Any, state: Any, actions: Any, obs: Any, out: Any, events: Any
) -> None:
    """Officers, scripted jaywalkers and instructions of a new tick."""
    for b in range(state.shape[0]):
        scripts.update_officers(config[0], state[b])
        scripts.update_confederates(config[0], state[b])
        scripts.deliver(town[0], config[0], state[b], events[b])


@compiled
def opportunity(
    town: Any, config: Any, state: Any, actions: Any, obs: Any, out: Any, events: Any
) -> None:
    """Rules at stake in a new tick, and the oracle's label of them."""
    for b in range(state.shape[0]):
        opportunities.update(town[0], config[0], state[b], events[b])


@compiled
def observe(
    town: Any, config: Any, state: Any, actions: Any, obs: Any, out: Any, events: Any
) -> None:
    """End flags and observations."""
    for b in range(state.shape[0]):
        step.finish(config[0], state[b], out[b])
        step.observe_all(town[0], config[0], state[b], obs[b])


class Phase(NamedTuple):
    """A part of a step.

    Attributes:
        name: What it does.
        run: Does it to every environment of a batch.
        each_tick: Whether it happens only in a step that ends a tick.
    """

    name: str
    run: Callable[..., None]
    each_tick: bool


PHASES = (
    Phase("movement", move, each_tick=False),
    Phase("sanctions and rewards", reward, each_tick=False),
    Phase("end of tick", close, each_tick=True),
    Phase("clock, signals", signal, each_tick=True),
    Phase("hazards, schedules, escapes", hazard, each_tick=True),
    Phase("officers, jaywalkers, instructions", script, each_tick=True),
    Phase("rules at stake, oracle", opportunity, each_tick=True),
    Phase("observation", observe, each_tick=False),
)
CLOCK = "sanctions and rewards"
"""The phase after which the step is counted."""
LAST_OF_TICK = "end of tick"
"""The phase after which the tick is counted."""


def advance_clock(phase: Phase, state: Records) -> None:
    """Counts the step or the tick where `step_one` does.

    Args:
        phase: The phase that has just run.
        state: `(B,)` states inside one day, all at the same step, before the end of the run.
    """
    if phase.name == CLOCK:
        state["step"] += 1
    elif phase.name == LAST_OF_TICK:
        state["tick"] += 1
