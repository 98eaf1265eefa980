"""The walk along the road network that every person has taken before an episode (MEM-01)."""

from __future__ import annotations

from voville_env.town.model import Town


def warm_up(town: Town) -> tuple[str, ...]:
    """What a walk along the road network leaves in memory (paper section 4, MEM-01).

    Args:
        town: The town.

    Returns:
        One entry for each intersection, each crosswalk and each one-way street.
    """
    entries = []
    for crossing in town.intersections:
        entries.append(f"There is a signalised intersection {crossing.name}.")
        for box in crossing.crosswalks:
            entries.append(f"There is a crosswalk of {crossing.name} at ({box.x}, {box.y}).")
    for street in town.streets:
        if street.direction is not None:
            entries.append(f"{street.name} is one-way, legal direction {street.direction.name}.")
    return tuple(entries)
