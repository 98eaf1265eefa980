"""A batch of towns: state, buffers and the calls into the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from voville_env.core import layout
from voville_env.core.codes import HEIGHT, WIDTH, Terrain
from voville_env.core.compile import announce, call
from voville_env.errors import CapacityError, InvalidValueError
from voville_env.scenario.compile import Window, compile_config
from voville_env.scenario.load import World
from voville_env.scenario.variation import Varier
from voville_env.town.tables import build_tables


class TownSim:
    """`B` environments of one scenario, stepped together.

    Attributes:
        world: The scenario with its town.
        batch: Number of environments, `B`.
        n_agents: Policy agents in each, `N`.
        actions: `(B, N)` int8, filled by the caller before `step`.
        observations: `(B, N)` records of dtype `layout.OBSERVATION`; the core overwrites them.
        outcomes: `(B, N)` records of dtype `layout.OUTCOME`: rewards, terms and end flags.
        state: `(B,)` records of dtype `layout.STATE`.
        config: Records of dtype `layout.CONFIG`: one for all, or `B` where the scenario varies.
    """

    def __init__(
        self,
        world: World,
        batch: int = 1,
        *,
        window: Window | None = None,
        terminal_goal: bool = False,
        days: int | None = None,
        threads: int = 1,
    ) -> None:
        """Allocates the buffers; the first call of a fresh installation compiles the core.

        Args:
            world: The scenario with its town.
            batch: Number of environments.
            window: Focus window, or None for the whole run.
            terminal_goal: Whether agents are terminated when they arrive.
            days: Days to play; all of the scenario's unless given.
            threads: Threads that a step may use; 1 is serial.

        Raises:
            InvalidValueError: If a number is out of range.
        """
        if batch < 1:
            raise InvalidValueError(f"batch is {batch!r}; allowed: at least 1")
        limit = world.scenario.clock.days
        whole = isinstance(days, int) and not isinstance(days, bool)
        if days is not None and not (whole and 1 <= days <= limit):
            raise InvalidValueError(f"days is {days!r}; allowed: 1 to {limit}")
        announce()
        from voville_env.core.kernels import step

        self._kernels = step
        kernels: Any = step
        self._run_batch = kernels.run_batch if threads == 1 else kernels.parallel_run_batch()
        self._threads = threads
        self.world = world
        self.batch = batch
        self.n_agents = len(world.agent_ids)
        self._bound: tuple[NDArray[Any], tuple[Any, ...]] | None = None
        self.town = build_tables(world.town, world.agent_ids, world.scenario.clock.steps_per_tick)
        self.config: layout.Records = compile_config(
            world, window=window, terminal_goal=terminal_goal
        )
        self.config[0].days = limit if days is None else days
        self._varier = Varier(world) if world.scenario.variation.kind == "wide" else None
        if self._varier is not None:
            self.config = np.repeat(self.config, batch)
        self.state: layout.Records = layout.zeros(layout.STATE, batch)
        self.observations = layout.zeros(layout.OBSERVATION, batch, self.n_agents)
        self.outcomes: layout.Records = layout.zeros(layout.OUTCOME, batch, self.n_agents)
        self.events: layout.Records = layout.zeros(layout.EVENT, batch, layout.EVENTS)
        self.actions: NDArray[np.int8] = np.zeros((batch, self.n_agents), np.int8)

    @property
    def town(self) -> layout.Records:
        """`(1,)` record of dtype `layout.TOWN`: tables that several simulations may share."""
        return self._town

    @town.setter
    def town(self, records: layout.Records) -> None:
        self._town = records
        self._bound = None

    @property
    def observations(self) -> layout.Records:
        """`(B, N)` records of dtype `layout.OBSERVATION`; the core overwrites them."""
        return self._observations

    @observations.setter
    def observations(self, records: layout.Records) -> None:
        self._observations = records
        self._bound = None

    def _bind(self) -> tuple[NDArray[Any], tuple[Any, ...]]:
        """The `mode` of the configurations and the arguments of the core, made once.

        Numba takes forty microseconds a call to tell what a `recarray` is, and none for an array.
        """
        arguments: tuple[Any, ...] = (
            *(self.town, self.config, self.state, self.actions),
            *(self.observations.view(layout.WRITTEN), self.outcomes, self.events),
        )
        if not getattr(numba.config, "DISABLE_JIT", False):
            arguments = tuple(records.view(np.ndarray) for records in arguments)
        self._bound = layout.plain(self.config)["mode"], arguments
        return self._bound

    def set_window(self, window: Window | None) -> None:
        """Changes the focus window for the next reset.

        Args:
            window: `(day, start, end)`, or None for the whole run.
        """
        fresh = compile_config(self.world, window=window)
        for key in ("window_day", "window_start", "window_end"):
            self.config[key] = fresh[key]

    def reset(self, seeds: NDArray[np.uint64], which: NDArray[np.bool_] | None = None) -> None:
        """Starts every environment, or some of them; the others stay as they are.

        What the scenario varies widely is drawn from each seed.

        Args:
            seeds: `(B,)` uint64; of those that are started.
            which: `(B,)` bool, who is started; all unless given.
        """
        chosen = np.ones(self.batch, np.bool_) if which is None else which
        if self._varier is not None:
            for key, values in self._varier.fields(seeds[chosen]).items():
                self.config[key][chosen] = values
        fresh = layout.zeros(layout.STATE, int(chosen.sum()))
        fresh["seed"] = seeds[chosen]
        config = self.config if len(self.config) == 1 else self.config[chosen]
        for key in _STARTING:
            fresh[key] = config[key]
        fresh["over"] = self._kernels.DUE
        self.state[chosen] = fresh
        self._run(self._kernels.RESET)

    def step(self) -> None:
        """Steps every environment with the actions in `actions`."""
        self._run(self._kernels.STEP)

    def _run(self, mode: int) -> None:
        if self._threads > 1:
            limit = getattr(numba.config, "NUMBA_NUM_THREADS")  # noqa: B009 - set at run time
            numba.set_num_threads(min(self._threads, limit))
        modes, arguments = self._bound or self._bind()
        modes[...] = mode
        call(self._run_batch, *arguments)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the core's functions take: town, config, state, actions and what they write."""
        return (self._bound or self._bind())[1]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a run in progress consists of, copied.

        Returns:
            Arrays by name, for `restore`.
        """
        return {name: np.array(getattr(self, name)) for name in _RUN}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Goes on with a run from what `arrays` gave.

        Args:
            arrays: Of a simulation of the same scenario and batch.
        """
        for name, array in arrays.items():
            getattr(self, name)[...] = array

    def advance_idle(self, until: int) -> int:
        """Waits until a tick, or until somebody has something to decide; for a batch of one.

        Args:
            until: Absolute tick.

        Returns:
            Steps taken.
        """
        before = int(self.state[0].step)
        self.actions[:] = 0
        self.config[0].until = until
        self._run(self._kernels.IDLE)
        return int(self.state[0].step) - before

    def drain(self, index: int = 0) -> layout.Records:
        """Takes the events of one environment since the last call.

        Args:
            index: Which environment.

        Returns:
            Records of dtype `layout.EVENT`, a copy.

        Raises:
            CapacityError: If events were lost because nobody drained them.
        """
        state = self.state[index]
        count, lost = int(state.event_count), int(state.event_lost)
        state.event_count = state.event_lost = 0
        if lost:
            raise CapacityError(f"{lost} events were lost: drain at least once a tick")
        taken: layout.Records = self.events[index, :count].copy()
        return taken

    def ignite(
        self, x: int, y: int, *, severity: int, start: int, end: int, index: int = 0
    ) -> None:
        """Lights a fire (requirement HAZ-01); it is felt from the next tick on.

        Args:
            x: Column.
            y: Row.
            severity: 1 to 100 at the tile.
            start: Absolute tick of ignition, a tick to come.
            end: Absolute tick of extinction.
            index: Which environment.

        Raises:
            InvalidValueError: If something is out of range or no slot is free.
        """
        _check_tile(x, y)
        _check_whole(severity=severity, start=start, end=end)
        x, y, severity, start, end = int(x), int(y), int(severity), int(start), int(end)
        if not 1 <= severity <= 100:
            raise InvalidValueError(f"severity is {severity!r}; allowed: 1 to 100")
        if self.world.town.terrain[y, x] == Terrain.WALL:
            raise InvalidValueError(f"tile ({x}, {y}) is a wall; allowed: any other tile")
        state = self.state[index]
        if not int(state.tick) < start < end <= _LAST_TICK:
            raise InvalidValueError(
                f"fire from tick {start} to {end}; "
                f"allowed: {int(state.tick)} < start < end <= {_LAST_TICK}"
            )
        for k in range(layout.HAZARDS):
            if state.fire_severity[k] == 0 or state.fire_until[k] <= state.tick:
                state.fire_tile[k] = y * WIDTH + x
                state.fire_severity[k] = severity
                state.fire_from[k] = start
                state.fire_until[k] = end
                return
        raise InvalidValueError(f"{layout.HAZARDS} fires are in use; extinguish one first")

    def extinguish(self, x: int, y: int, index: int = 0) -> None:
        """Puts out the fires of a tile at the start of the next tick.

        Args:
            x: Column.
            y: Row.
            index: Which environment.

        Raises:
            InvalidValueError: If nothing burns or is due to burn there.
        """
        _check_tile(x, y)
        state = self.state[index]
        found = False
        for k in range(layout.HAZARDS):
            due = state.fire_severity[k] > 0 and state.fire_until[k] > state.tick
            if due and state.fire_tile[k] == y * WIDTH + x:
                state.fire_until[k] = min(int(state.fire_until[k]), int(state.tick) + 1)
                found = True
        if not found:
            raise InvalidValueError(f"no fire at ({x}, {y})")

    def set_signal(
        self, name: str, *, red: int, green: int, green_start: int, index: int = 0
    ) -> None:
        """Changes the cycle of an intersection (requirement RUL-06).

        The signal shows the new cycle from the next tick on; foreseen waits know it at once.

        Args:
            name: The intersection.
            red: Ticks of don't-walk, at least 0.
            green: Ticks of walk, at least 0; not both 0.
            green_start: A tick at which walk begins.
            index: Which environment.

        Raises:
            InvalidValueError: If the name or a number is not allowed.
        """
        k = self.world.town.intersection_index(name)
        _check_whole(red=red, green=green, green_start=green_start)
        red, green, green_start = int(red), int(green), int(green_start)
        if red < 0 or green < 0 or red + green < 1 or red + green > 10000:
            raise InvalidValueError(
                f"signal {name!r}: red {red}, green {green}; "
                "allowed: 0 or more each, 1 to 10000 together"
            )
        state = self.state[index]
        state.signal_red[k], state.signal_green[k] = red, green
        state.signal_start[k] = green_start % (red + green)
        state.signal_phase[k] = (state.tick - state.signal_start[k]) % (red + green)

    def global_state(self, index: int = 0) -> NDArray[np.float32]:
        """A fixed-size picture of the whole town for centralised critics.

        Args:
            index: Which environment.

        Returns:
            `(STATE_SIZE,)` float32: clock, characters, signals, fires and items; see `STATE_PARTS`.
        """
        s = self.state[index]
        people = s.agents
        tile, goal = people["tile"], self.town[0].destination_tile[people["goal"]]
        columns: list[NDArray[Any]] = [
            people["active"],
            people["role"],
            tile % WIDTH,
            tile // WIDTH,
            goal % WIDTH,
            goal // WIDTH,
            people["escaping"],
            people["late"],
            people["carrying"],
            people["instruction"],
        ]
        fire = s.fire_tile
        fires = [s.fire_burning, fire % WIDTH, fire // WIDTH, s.fire_severity]
        item = s.item_tile
        parts = [
            np.array([s.tick, s.step, s.over]),
            np.stack(columns, axis=1).ravel(),
            np.stack([s.signal_state, s.signal_change], axis=1).ravel(),
            np.stack(fires, axis=1).ravel(),
            np.stack([item >= 0, item % WIDTH, item // WIDTH], axis=1).ravel(),
        ]
        return np.concatenate(parts).astype(np.float32)


_LAST_TICK = 1_000_000_000
_RUN = ("config", "state", "observations", "outcomes", "events", "actions")
_STARTING = (
    *("fire_tile", "fire_severity", "fire_from", "fire_until", "item_tile", "item_owner"),
    *("signal_red", "signal_green", "signal_start"),
)
"""What an environment's own state takes over from its configuration."""
STATE_PARTS = (
    ("clock", 1, ("absolute tick", "absolute step", "over")),
    (
        "characters",
        layout.CHARACTERS,
        (
            "active",
            "role",
            "x",
            "y",
            "goal x",
            "goal y",
            "escaping",
            "late",
            "carrying",
            "instruction",
        ),
    ),
    ("signals", layout.SIGNALS, ("state", "ticks to change")),
    ("fires", layout.HAZARDS, ("burning", "x", "y", "severity")),
    ("items", layout.ITEMS, ("there", "x", "y")),
)
"""Name, rows and columns of each part of the global state, in order."""
STATE_SIZE = sum(rows * len(columns) for _, rows, columns in STATE_PARTS)


def _check_whole(**numbers: object) -> None:
    for name, value in numbers.items():
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
        if not whole:
            raise InvalidValueError(f"{name} is {value!r}; allowed: whole numbers")


def _check_tile(x: int, y: int) -> None:
    _check_whole(x=x, y=y)
    if not (0 <= x < WIDTH and 0 <= y < HEIGHT):
        raise InvalidValueError(f"tile is ({x!r}, {y!r}); allowed: 0 to 63 each")
