"""From a scenario to the arrays that the core works on."""

from __future__ import annotations

from operator import index

import numpy as np

from voville_env.core import layout
from voville_env.core.codes import WIDTH, Direction, Instruction
from voville_env.errors import InvalidValueError
from voville_env.scenario.load import World
from voville_env.scenario.schema import Perception

Window = tuple[int, int, int]
_KINDS = {
    "silent": Instruction.NONE,
    "hold": Instruction.HOLD,
    "pass": Instruction.PASS,
    "redirect": Instruction.REDIRECT,
}
_CURVE = {"severity_model", "severity_decay"}
_WALKTHROUGH = ((0, 95), (2, 95), (3, 92), (4, 85), (8, 80), (12, 65), (15, 45), (18, 30))
"""Tiles and severities of D.1's printed cues; the fire's own tile and the lines between: ours."""


def compile_config(
    world: World, *, window: Window | None = None, terminal_goal: bool = False
) -> layout.Records:
    """Makes the configuration record of a scenario.

    Args:
        world: The checked scenario with its town.
        window: `(day, start, end)` in ticks of that day, or None for the whole run.
        terminal_goal: Whether an agent is terminated when it arrives.

    Returns:
        A record array of length one with dtype `layout.CONFIG`.

    Raises:
        InvalidValueError: If the window does not lie in the run.
    """
    config = layout.zeros(layout.CONFIG, 1)
    record = config[0]
    _fill_settings(world, record)
    _fill_people(world, record)
    _fill_hazards(world, record)
    _fill_scripts(world, record)
    for k, intersection in enumerate(world.town.intersections):
        record.signal_red[k] = intersection.red
        record.signal_green[k] = intersection.green
        record.signal_start[k] = intersection.green_start
    record.terminal_goal = int(terminal_goal)
    if window is not None:
        day, start, end = check_window(world, window)
        record.window_day, record.window_start, record.window_end = day, start, end
    record.with_events = record.with_observation = record.with_oracle = 1
    return config


def check_window(world: World, window: Window) -> Window:
    """Checks a focus window.

    Args:
        world: The scenario.
        window: `(day, start, end)`.

    Returns:
        The window as ints.

    Raises:
        InvalidValueError: If it does not lie in the run.
    """
    clock = world.scenario.clock
    try:
        if not isinstance(window, (tuple, list)):
            raise TypeError("not a sequence")
        day, start, end = window
        if any(isinstance(value, bool) for value in (day, start, end)):
            raise TypeError("a flag is no number")
        day, start, end = index(day), index(start), index(end)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            f"window is {window!r}; allowed: [day, start, end], whole ticks of that day"
        ) from error
    if not (1 <= day <= clock.days and 0 <= start < end <= clock.ticks_per_day):
        raise InvalidValueError(
            f"window is {[day, start, end]}; allowed: day 1 to {clock.days}, "
            f"0 <= start < end <= {clock.ticks_per_day}"
        )
    return day, start, end


def severity_lost(perception: Perception) -> list[int]:
    """What a hazard loses of its severity on the way to whoever perceives it (C-26).

    Args:
        perception: The model and, for the linear one, the loss a tile.

    Returns:
        The loss for each Manhattan distance, at most 100.
    """
    tiles = np.arange(layout.DISTANCES)
    if perception.severity_model == "linear":
        lost = np.minimum(perception.severity_decay * tiles, 100)
    else:
        at, severity = zip(*_WALKTHROUGH, strict=True)
        lost = severity[0] - np.rint(np.interp(tiles, at, severity))
        lost[tiles > at[-1]] = 100
    return [int(loss) for loss in lost]


def _fill_settings(world: World, record: layout.Records) -> None:
    spec = world.scenario
    for part in (spec.clock, spec.perception, spec.authority):
        for key, value in part.model_dump(exclude=_CURVE).items():
            record[key] = value
    record.severity_lost[:] = severity_lost(spec.perception)
    record.n_agents = len(spec.agents)
    record.n_confederates = len(spec.confederates)
    record.n_officers = len(spec.officers)
    record.safe_destination = world.town.place_index(spec.refuge)
    record.exposure_ticks = 10
    record.officer_jitter = spec.jitter.officer_tiles
    record.confederate_jitter = spec.jitter.confederate_ticks
    record.confederate_pace = spec.confederate_pace
    record.oracle_high = spec.oracle.high_severity
    record.oracle_ticks = spec.oracle.extra_ticks
    record.oracle_harm = spec.oracle.extra_harm
    record.oracle_band = spec.oracle.band
    record.oracle_horizon = spec.oracle.horizon_steps
    weights = spec.rewards
    record.reward[:] = (
        weights.progress,
        weights.arrival,
        weights.harm,
        weights.sanction,
        weights.time,
    )


def _fill_people(world: World, record: layout.Records) -> None:
    town = world.town
    for i, plan in enumerate(world.scenario.agents):
        record.start[i] = town.place_index(plan.start)
        record.home[i] = town.place_index(plan.home)
        for k, errand in enumerate(plan.schedule):
            record.schedule_day[i, k] = errand.day
            record.schedule_tick[i, k] = errand.tick
            record.schedule_goal[i, k] = town.place_index(errand.goal)
            record.schedule_late[i, k] = int(errand.late)


def _fill_hazards(world: World, record: layout.Records) -> None:
    spec, town = world.scenario, world.town
    for k, fire in enumerate(spec.fires):
        record.fire_tile[k] = fire.y * WIDTH + fire.x
        record.fire_severity[k] = fire.severity
        record.fire_from[k] = spec.absolute(fire.day, fire.ignite)
        record.fire_until[k] = spec.absolute(fire.day, fire.extinguish)
    record.item_tile[:] = -1
    record.item_owner[:] = -1
    for k, item in enumerate(town.items):
        record.item_tile[k] = item.y * WIDTH + item.x
        if item.owner:
            record.item_owner[k] = world.agent_ids.index(item.owner)


def _fill_scripts(world: World, record: layout.Records) -> None:
    spec = world.scenario
    record.crossing_tick[:] = -1
    record.confederate_path[:] = -1
    for c, confederate in enumerate(spec.confederates):
        record.confederate_length[c] = len(confederate.path)
        for k, (x, y) in enumerate(confederate.path):
            record.confederate_path[c, k] = y * WIDTH + x
        for k, crossing in enumerate(confederate.crossings):
            record.crossing_tick[c, k] = spec.absolute(crossing.day, crossing.tick)
    for o, officer in enumerate(spec.officers):
        record.officer_tile[o] = officer.y * WIDTH + officer.x
        record.officer_axis[o] = int(officer.band == "y")
        record.officer_from[o] = spec.absolute(officer.day, officer.start)
        record.officer_until[o] = spec.absolute(officer.day, officer.end)
        record.officer_signal[o] = world.town.intersection_index(officer.intersection)
        record.officer_direction[o] = Direction[officer.redirect]
        record.officer_reactive[o] = int(officer.reactive)
        record.officer_phases[o] = len(officer.script)
        for k, phase in enumerate(officer.script):
            record.phase_kind[o, k] = _KINDS[phase.kind]
            record.phase_ticks[o, k] = phase.ticks
