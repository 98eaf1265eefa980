"""The town as text: the `ansi` render mode."""

from __future__ import annotations

from voville_env.core.codes import WIDTH
from voville_env.observation import glyph
from voville_env.sim import TownSim


def text_map(sim: TownSim, index: int = 0) -> str:
    """Draws one environment: terrain, fires, items and the initials of everybody on the map.

    Args:
        sim: The batch.
        index: Which environment.

    Returns:
        A header line and 64 lines of 64 characters.
    """
    world, state = sim.world, sim.state[index]
    rows = [[glyph(int(code)) for code in line] for line in world.town.terrain]
    for tile in state.item_tile:
        if tile >= 0:
            rows[tile // WIDTH][tile % WIDTH] = "*"
    for k, burning in enumerate(state.fire_burning):
        if burning:
            tile = int(state.fire_tile[k])
            rows[tile // WIDTH][tile % WIDTH] = "!"
    names = list(world.agent_ids)
    names += ["j"] * len(world.scenario.confederates) + ["&"] * len(world.scenario.officers)
    for name, agent in zip(names, state.agents, strict=False):
        if agent.active:
            rows[agent.tile // WIDTH][agent.tile % WIDTH] = name[0]
    day, tick = divmod(int(state.tick), world.scenario.clock.ticks_per_day)
    lines = [f"{world.scenario.name}: day {day + 1}, tick {tick}, step {int(state.step)}"]
    return "\n".join(lines + ["".join(row) for row in rows])
