"""The structured records that the kernels work on: shapes, dtypes and units, field by field.

One `STATE` record is one environment. Numba reads the records like C structs; with the JIT switched
off the same code runs on NumPy records, which is the reference implementation of the tests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voville_env.core import codes, fields

CHARACTERS = 16
"""Most characters of one environment: policy agents, then confederates, then officers."""
DESTINATIONS = 40
SIGNALS = 16
BUILDINGS = 64
HAZARDS = 4
ITEMS = 8
SCHEDULE = 8
WAYPOINTS = 16
CROSSINGS = 8
PHASES = 8
SIGHT = 20
"""Radius of the visibility table, in tiles."""
SIGHT_ROWS = 2 * SIGHT + 1
PAD = fields.WINDOW // 2
WINDOW_TILES = fields.WINDOW**2
UNREACHABLE = 0xFFFF
NO_SIGNAL = 255
FAR = 255
DISTANCES = codes.WIDTH + codes.HEIGHT - 1
"""Manhattan distances in a town, 0 included."""
EVENTS = 1024
"""Event records kept between two drains; the tests count that one tick cannot write more."""

Records: TypeAlias = Any
"""A `numpy.recarray`, or one record of it: NumPy has no type for attributes named by a dtype."""


def _record(columns: list[tuple[Any, ...]]) -> np.dtype[Any]:
    return np.dtype((np.record, np.dtype(columns, align=True)))


_T = codes.TILES
_C = CHARACTERS

ROUTE = _record(
    [
        ("distance", "u2"),  # steps to the destination, UNREACHABLE if there is no way
        ("signal_ticks", "u2"),  # whole ticks of steps before the first signalised crosswalk entry
        ("next", "u1"),  # Direction of the first step, 4 at the destination
        ("bits", "u1"),  # static rule bits (R2 to R5) broken in the next four tiles
        ("signal", "u1"),  # signal of that entry, NO_SIGNAL if none
        ("signal_rest", "u1"),  # steps before that entry beyond those ticks
    ]
)

TOWN = _record(
    [
        ("terrain", "u1", (_T,)),  # Terrain
        ("windows", "u8", (_T, WINDOW_TILES // 8 + 1)),  # terrain around each tile, 8 a word
        ("verb", "u1", (_T, 4)),  # Verb of a step in each direction
        ("bits", "u1", (_T, 4)),  # static rule bits of that step (R2 to R5)
        ("entry", "u1", (_T, 4)),  # signal of a signalised crosswalk entered by it, or NO_SIGNAL
        ("wrong_way", "u1", (_T, 4)),  # 1 where the step goes against the arrow, in force or not
        ("building", "u1", (_T,)),  # building number, 0 outdoors
        ("owners", "u4", (BUILDINGS,)),  # bit i: agent i owns the building
        ("in_force", "u1", (_T,)),  # rule bits in force on the tile
        ("near_signal", "u1", (_T,)),  # nearest signal within sight's radius, or NO_SIGNAL
        ("near_signal_distance", "u1", (_T,)),  # tiles
        ("safe", "u1", (_T,)),  # 1 in the safe zone
        ("kerb", "u1", (_T,)),  # Direction to the nearest pavement, 4 off the carriageway
        ("visible", "u8", (_T, SIGHT_ROWS)),  # bit dx+20 of row dy+20: line of sight
        ("routes", ROUTE, (DESTINATIONS, 3, _T)),
        ("destination_tile", "u2", (DESTINATIONS,)),  # representative tile
        ("n_destinations", "i4"),
        ("n_signals", "i4"),
        ("signal_distance", "u1", (SIGNALS, _T)),  # tiles to its nearest crosswalk tile
        ("signal_zone", "i2", (SIGNALS,)),  # radius of the effective zone, tiles
    ]
)

CONFIG = _record(
    [
        ("mode", "i4"),  # what `run_batch` does: 0 step, 1 reset, 2 idle
        ("until", "i4"),  # absolute tick at which idling ends
        ("steps_per_tick", "i4"),
        ("ticks_per_day", "i4"),
        ("days", "i4"),
        ("n_agents", "i4"),
        ("n_confederates", "i4"),
        ("n_officers", "i4"),
        ("safe_destination", "i4"),
        ("cue_radius", "i4"),  # of what is no hazard: signals and conversations
        ("hazard_radius", "i4"),  # 0: the hazard's own reach (C-13)
        ("authority_radius", "i4"),
        ("instruction_radius", "i4"),
        ("peer_radius", "i4"),
        ("peer_memory", "i4"),  # ticks a seen act stays with a visible peer
        ("sanction_radius", "i4"),
        ("supervised_radius", "i4"),
        ("severity_lost", "i4", (DISTANCES,)),  # of a hazard, by distance in tiles (C-26)
        ("perception_delay", "i4"),  # ticks (C-28)
        ("late_severity", "i4"),
        ("conversation_severity", "i4"),
        ("response_ticks", "i4"),  # H of OCR
        ("exposure_ticks", "i4"),
        ("officer_jitter", "i4"),  # tiles
        ("confederate_jitter", "i4"),  # ticks
        ("confederate_pace", "i4"),  # steps a tile
        ("terminal_goal", "i4"),
        ("window_day", "i4"),  # 0: whole run
        ("window_start", "i4"),
        ("window_end", "i4"),
        ("with_oracle", "i4"),
        ("with_events", "i4"),
        ("with_observation", "i4"),
        ("oracle_high", "i4"),  # severity that counts as high
        ("oracle_ticks", "f4"),  # extra high ticks that warrant
        ("oracle_harm", "f4"),  # extra harm that warrants
        ("oracle_band", "f4"),  # relative half width of the contested band
        ("oracle_horizon", "i4"),  # steps looked ahead
        ("reward", "f4", (5,)),  # weights by RewardTerm
        ("start", "i4", (_C,)),  # start destination on day 1
        ("home", "i4", (_C,)),  # destination of the day's start from day 2 on
        ("schedule_day", "i4", (_C, SCHEDULE)),  # 0: empty
        ("schedule_tick", "i4", (_C, SCHEDULE)),
        ("schedule_goal", "i4", (_C, SCHEDULE)),
        ("schedule_late", "i4", (_C, SCHEDULE)),
        ("signal_red", "i4", (SIGNALS,)),  # ticks
        ("signal_green", "i4", (SIGNALS,)),  # ticks
        ("signal_start", "i4", (SIGNALS,)),  # a tick at which green begins
        ("fire_tile", "i4", (HAZARDS,)),
        ("fire_severity", "i4", (HAZARDS,)),  # 0: unused row
        ("fire_from", "i4", (HAZARDS,)),  # absolute tick
        ("fire_until", "i4", (HAZARDS,)),
        ("item_tile", "i4", (ITEMS,)),  # -1: unused row
        ("item_owner", "i4", (ITEMS,)),  # agent index or -1
        ("confederate_path", "i4", (4, WAYPOINTS)),  # tiles, -1 after the end
        ("confederate_length", "i4", (4,)),
        ("crossing_tick", "i4", (4, CROSSINGS)),  # absolute nominal tick, -1 unused
        ("officer_tile", "i4", (4,)),
        ("officer_axis", "i4", (4,)),  # 0: jitter along x, 1: along y
        ("officer_from", "i4", (4,)),  # absolute tick on duty
        ("officer_until", "i4", (4,)),
        ("officer_signal", "i4", (4,)),  # intersection served
        ("officer_phases", "i4", (4,)),  # number of phases, 0: passive
        ("phase_kind", "i4", (4, PHASES)),  # Instruction
        ("phase_ticks", "i4", (4, PHASES)),
        ("officer_direction", "i4", (4,)),  # Direction of a redirect
        ("officer_reactive", "i4", (4,)),  # 1: orders only people on the move (C-22)
    ]
)

AGENT = _record(
    [
        ("tile", "i4"),
        ("from_tile", "i4"),
        ("role", "u1"),
        ("active", "u1"),  # on the map: officers off duty and terminated agents are not
        ("goal", "i4"),  # scheduled destination
        ("late", "u1"),
        ("exposed", "u1"),  # has been within a hazard's reach and not yet reached safety
        ("escaping", "u1"),  # reference goal is the safe zone
        ("at_goal", "u1"),
        ("blocked", "u1"),
        ("blocked_tick", "u1"),  # some move failed in this tick
        ("moved_tick", "u1"),
        ("crossed_tick", "u1"),  # entered a signalised crosswalk on walk in this tick
        ("evacuated", "u1"),  # was exposed today: goes home once the hazard is out
        ("carrying", "u1"),
        ("intent", "i4"),  # tile wanted in this step
        ("fate", "u1"),
        ("relevant", "u1"),  # trigger-relevant rules at stake in this tick
        ("unrelated", "u1"),  # other rules at stake
        ("violated", "u1"),  # rules broken in this tick
        ("authorised", "u1"),  # of those, while an officer granted passage
        ("violated_step", "u1"),
        ("label", "u1"),  # Label of the trigger-relevant set
        ("label_unrelated", "u1"),
        ("behaviour", "u1"),
        ("behaviour_rule", "i1"),
        ("behaviour_followed", "i1"),
        ("behaviour_tick", "i4"),
        ("seen_by", "u4"),  # bit i: agent i observed the act
        ("jaywalk_seen", "i4"),  # absolute tick at which jaywalking was last seen, or very small
        ("instruction", "u1"),
        ("officer", "i1"),
        ("instruction_from", "i4"),
        ("instruction_until", "i4"),
        ("instruction_id", "i4"),
        ("pending", "u1"),  # Instruction whose response is still being judged
        ("pending_officer", "i1"),
        ("pending_id", "i4"),
        ("pending_from", "i4"),
        ("pending_until", "i4"),
        ("pending_distance", "i4"),  # tiles to the intersection when it was given
        ("pending_ok", "u1"),
        ("last_id", "i4", (4,)),  # last instruction received from each officer
        ("reached", "u1"),
        ("potential", "i4"),  # steps to the reference goal
        ("potential_goal", "i4"),
        ("distance_fire", "i4"),
        ("distance_officer", "i4"),
    ]
)

STATE = _record(
    [
        ("seed", "u8"),
        ("agents", AGENT, (_C,)),  # directly behind an 8-byte field: NumPy does not align it itself
        ("step", "i4"),  # steps since the start of the run
        ("tick", "i4"),  # absolute tick
        ("day", "i4"),  # of that tick, from 1
        ("day_tick", "i4"),  # tick of the day
        ("end_step", "i4"),  # the run is over at this step
        ("over", "u1"),
        ("n_characters", "i4"),
        ("signal_state", "u1", (SIGNALS,)),  # SignalState
        ("signal_change", "i4", (SIGNALS,)),  # ticks until it changes
        ("signal_red", "i4", (SIGNALS,)),
        ("signal_green", "i4", (SIGNALS,)),
        ("signal_start", "i4", (SIGNALS,)),
        ("signal_phase", "i4", (SIGNALS,)),  # ticks since walk began, modulo the cycle
        ("fire_tile", "i4", (HAZARDS,)),
        ("fire_severity", "i4", (HAZARDS,)),
        ("fire_from", "i4", (HAZARDS,)),
        ("fire_until", "i4", (HAZARDS,)),
        ("fire_burning", "u1", (HAZARDS,)),
        ("item_tile", "i4", (ITEMS,)),  # -1 once taken
        ("item_owner", "i4", (ITEMS,)),
        ("crossing_tick", "i4", (4, CROSSINGS)),  # with the seed's jitter
        ("crossing_next", "i4", (4,)),
        ("waypoint", "i4", (4,)),
        ("heading", "i4", (4,)),  # +1, -1 along the path, 0 at rest
        ("officer_kind", "u1", (4,)),
        ("officer_id", "i4", (4,)),
        ("officer_left", "i4", (4,)),
        ("n_instructions", "i4"),
        (
            "ranks",
            "i4",
            (_C,),
        ),  # scratch: peers of the person being observed for, as they were found
        ("event_count", "i4"),
        ("event_lost", "i4"),
    ]
)

EVENT = _record(
    [
        ("tick", "i4"),  # absolute
        ("step", "i4"),
        ("code", "u1"),  # EventCode
        ("agent", "i1"),  # character index, or -1
        ("a", "i4"),
        ("b", "i4"),
        ("c", "i4"),
        ("d", "i4"),
        ("e", "i4"),
        ("f", "i4"),
    ]
)


def _observation(*overlays: tuple[str, str, tuple[int, ...], int]) -> np.dtype[Any]:
    """Fields of an observation; its tiles come first, where whole words can be written to them."""
    first = fields.FIELD["tiles"]
    named, size = {"tiles": (first.dtype, first.shape, 0)}, WINDOW_TILES + 1
    for item in sorted(fields.FIELDS, key=lambda item: -np.dtype(item.dtype).itemsize):
        if item is not first:
            named[item.name] = (item.dtype, item.shape, size)
            size += np.dtype(item.dtype).itemsize * int(np.prod(item.shape))
    rows = [(item.name, *named[item.name]) for item in fields.FIELDS] + list(overlays)
    names, dtypes, shapes, offsets = zip(*rows, strict=True)
    parts = {
        "names": list(names),
        "formats": list(zip(dtypes, shapes, strict=True)),
        "offsets": list(offsets),
        "itemsize": -(-size // 8) * 8,
    }
    return np.dtype((np.record, np.dtype(parts, align=True)))  # type: ignore[call-overload]


OBSERVATION = _observation()
TILE_WORDS = WINDOW_TILES // 8
WRITTEN = _observation(("tile_words", "u8", (TILE_WORDS,), 0))
"""`OBSERVATION` as the kernels see it: all tiles but the last are there as words as well."""

OUTCOME = _record(
    [
        ("reward", "f4"),
        ("terms", "f4", (5,)),  # unweighted, by RewardTerm
        ("terminated", "u1"),
        ("truncated", "u1"),
    ]
)


def zeros(dtype: np.dtype[Any], *shape: int) -> Records:
    """Allocates records whose fields can be read as attributes.

    Args:
        dtype: One of the dtypes above.
        *shape: Array shape.

    Returns:
        A zeroed record array.
    """
    return np.zeros(shape, dtype).view(np.recarray)


def plain(records: Records) -> NDArray[Any]:
    """A view without attribute access, which is several times quicker to index from Python.

    Args:
        records: A record array.

    Returns:
        A structured array on the same memory.
    """
    base: NDArray[Any] = records.view(np.ndarray)
    return base.view(np.dtype((np.void, base.dtype)))
