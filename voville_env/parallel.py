"""The town as a PettingZoo `ParallelEnv`."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from voville_env.actions import N_ACTIONS, check_action
from voville_env.core.layout import Records, plain
from voville_env.errors import (
    InvalidValueError,
    LifecycleError,
    VovilleError,
    invalid,
    nearest,
)
from voville_env.observation import build_space
from voville_env.policy import Briefing
from voville_env.scenario import Scenario, World, load_map, load_world
from voville_env.scenario.briefing import make_briefing
from voville_env.scenario.compile import Window, check_window
from voville_env.sim import STATE_SIZE, TownSim
from voville_env.text_map import text_map

Observation = dict[str, NDArray[Any]]
Info = dict[str, Any]
OPTIONS = ("window",)
RENDER_MODES = ("ansi",)
_FIELDS = tuple(build_space().spaces)
_VIEWS = ("_records", "_outcomes", "_own", "_raw", "_told", "_terms", "_flags")


class VovilleEnv(ParallelEnv[str, Any, Any]):
    """One town.

    `infos[agent]` holds `reward_terms`, a `(5,)` float32 array of unweighted terms by
    `core.codes.RewardTerm`, and nothing else. The oracle's labels are privileged and come only from
    `oracle_labels()`.

    With `copy=True`, the default, every step returns fresh arrays. With `copy=False` observations
    and
    `reward_terms` are views of buffers that the next step overwrites: faster, and never to be kept.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - PettingZoo declares it on the instance
        "name": "voville_v1",
        "render_modes": list(RENDER_MODES),
        "is_parallelizable": True,
    }

    def __init__(
        self,
        scenario: str | Path | Scenario | World = "fire_escape",
        *,
        render_mode: str | None = None,
        copy: bool = True,
        window: Window | None = None,
        terminal_goal: bool = False,
        days: int | None = None,
    ) -> None:
        """Loads the scenario.

        Args:
            scenario: A shipped name, a path to a TOML file, a scenario or a loaded world.
            render_mode: `"ansi"` or None.
            copy: Whether every step returns fresh arrays.
            window: `(day, start, end)` in ticks to run only that part; None runs all days.
            terminal_goal: Whether an agent is terminated when it arrives at its goal.
            days: Days to play; all of the scenario's unless given.

        Raises:
            ScenarioError: If the scenario cannot be used.
            InvalidValueError: If another argument is not allowed.
        """
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise invalid("render_mode", render_mode, RENDER_MODES)
        for name, value in (("copy", copy), ("terminal_goal", terminal_goal)):
            if not isinstance(value, bool):
                raise InvalidValueError(f"{name} is {value!r}; allowed: True, False")
        if not isinstance(scenario, (str, Path, Scenario, World)):
            raise InvalidValueError(
                f"scenario is {scenario!r}; allowed: a name, a path, a Scenario or a World"
            )
        self.world = scenario if isinstance(scenario, World) else load_world(scenario)
        self.render_mode = render_mode
        self.copy = copy
        self._window = None if window is None else check_window(self.world, window)
        self._sim = TownSim(self.world, window=self._window, terminal_goal=terminal_goal, days=days)
        self._names = self.world.agent_ids
        self._live: list[str] = []
        self._index = {name: i for i, name in enumerate(self._names)}
        self._observation_spaces = {name: build_space() for name in self._names}
        self._action_spaces = {name: spaces.Discrete(N_ACTIONS) for name in self._names}
        self.state_space = spaces.Box(-1e9, 1e9, (STATE_SIZE,), np.float32)
        self._started = False
        self.seed: int | None = None
        self._open_views()

    def _open_views(self) -> None:
        """Plain views of the buffers: a `recarray` costs a microsecond at each access."""
        self._records = plain(self._sim.observations)
        self._outcomes = plain(self._sim.outcomes)
        self._own: NDArray[Any] = self._records[0]
        self._raw = self._own.view(f"V{self._records.itemsize}")
        self._told = _told(self._records[0])
        self._terms = list(self._outcomes["terms"][0])
        self._flags = [self._outcomes[key][0] for key in ("reward", "terminated", "truncated")]

    @property
    def agents(self) -> list[str]:
        """Agents that are still in the run; a fresh list each time."""
        return list(self._live)

    @agents.setter
    def agents(self, value: list[str]) -> None:
        raise LifecycleError("env.agents is read only; reset() starts a new run")

    @property
    def possible_agents(self) -> list[str]:
        """Everybody who can take part; a fresh list each time."""
        return list(self._names)

    @possible_agents.setter
    def possible_agents(self, value: list[str]) -> None:
        raise LifecycleError("env.possible_agents is read only; the scenario names the agents")

    @property
    def sim(self) -> TownSim:
        """The simulation below: for runners, metrics and renderers, not for policies."""
        return self._sim

    @property
    def records(self) -> NDArray[Any]:
        """`(N,)` records of dtype `core.layout.OBSERVATION`, which only the core may write."""
        return self._own

    def observation_space(self, agent: str) -> spaces.Dict:
        """The observation space of an agent, the same object each time.

        Args:
            agent: Agent id.

        Returns:
            A flat `Dict` of `Box` spaces.

        Raises:
            InvalidValueError: If there is no such agent.
        """
        space: spaces.Dict = self._lookup(self._observation_spaces, agent)
        return space

    def action_space(self, agent: str) -> spaces.Discrete[Any]:
        """The action space of an agent, the same object each time.

        Args:
            agent: Agent id.

        Returns:
            `Discrete(10)`, by `core.codes.Action`.

        Raises:
            InvalidValueError: If there is no such agent.
        """
        space: spaces.Discrete[Any] = self._lookup(self._action_spaces, agent)
        return space

    def _lookup(self, table: dict[str, Any], agent: str) -> Any:
        if agent not in table:
            raise invalid("agent", agent, table)
        return table[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Starts a run.

        Args:
            seed: 0 to 2**64 - 1; None draws one from the operating system.
            options: `{"window": [day, start, end]}`, or `{"window": None}` for all days; unknown
            keys
                are ignored with a warning.

        Returns:
            Observations and infos of all agents.

        Raises:
            InvalidValueError: If the seed or an option is not allowed.
        """
        number = check_seed(seed)
        window = self._checked_options({} if options is None else options)
        self._sim.set_window(window)
        self._sim.reset(np.array([number], np.uint64))
        self.seed = number
        self._started = True
        self._live = list(self._names)
        return self._collect()

    def _checked_options(self, options: dict[str, Any]) -> Window | None:
        if not isinstance(options, dict):
            raise InvalidValueError(f"options is {options!r}; allowed: a dict or None")
        for key in options:
            if key not in OPTIONS:
                warnings.warn(
                    f"reset option {key!r} is not known and is ignored; known: "
                    f"{', '.join(OPTIONS)}{nearest(key, OPTIONS)}",
                    stacklevel=3,
                )
        window = options.get("window", self._window)
        if window is None:
            return None
        checked = check_window(self.world, window)
        if checked[0] > int(self._sim.config[0].days):
            raise InvalidValueError(
                f"window is {list(checked)}; only {int(self._sim.config[0].days)} days are played"
            )
        return checked

    def step(
        self, actions: dict[str, int]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, Info],
    ]:
        """Moves everybody at once, by at most one tile.

        Args:
            actions: One action for every agent in `agents`. An action that is physically impossible
                counts as a failed one: the agent stays and sees `blocked`.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that acted.

        Raises:
            LifecycleError: Before the first reset or after the end.
            InvalidValueError: If an agent is missing or unknown, or an action is not allowed;
            nothing
                has changed then.
        """
        if not self._started:
            raise LifecycleError("step() before the first reset()")
        if not self._live:
            raise LifecycleError("step() after the end of the run; call reset()")
        self._sim.actions[0] = self._check_actions(actions)
        self._sim.step()
        acted = self._live
        observations, infos = self._collect()
        reward, done, cut = (column.tolist() for column in self._flags)
        if len(acted) < len(self._names):
            pick = [self._index[name] for name in acted]
            reward, done, cut = ([column[i] for i in pick] for column in (reward, done, cut))
        terminations = dict(zip(acted, map(bool, done), strict=True))
        truncations = dict(zip(acted, map(bool, cut), strict=True))
        if any(done) or any(cut):
            self._live = [n for n in acted if not (terminations[n] or truncations[n])]
        rewards = dict(zip(acted, reward, strict=True))
        return observations, rewards, terminations, truncations, infos

    def _check_actions(self, actions: dict[str, int]) -> list[int]:
        """One action for everybody by index, WAIT for those who have left."""
        if not isinstance(actions, dict):
            raise InvalidValueError(
                f"actions is a {type(actions).__name__}; allowed: a dict of agent id to action"
            )
        if len(actions) != len(self._live) or any(name not in actions for name in self._live):
            for name in actions:
                if name not in self._live:
                    raise invalid("agent in actions", name, self._live)
            missing = [name for name in self._live if name not in actions]
            raise InvalidValueError(f"actions lack {', '.join(missing)}; every live agent must act")
        chosen = [0] * len(self._names)
        for name in self._live:
            chosen[self._index[name]] = check_action(name, actions[name])
        return chosen

    def _collect(self) -> tuple[dict[str, Observation], dict[str, Info]]:
        if self.copy:
            # Whole buffers are copied, as raw memory: field by field would take ten times as long.
            told = _told(self._raw.copy().view(self._records.dtype))
            terms = list(self._outcomes["terms"][0].copy())
        else:
            told, terms = [views.copy() for views in self._told], self._terms
        observations = dict(zip(self._names, told, strict=True))
        infos: dict[str, Info] = {
            name: {"reward_terms": parts} for name, parts in zip(self._names, terms, strict=True)
        }
        if len(self._live) < len(self._names):
            observations = {name: observations[name] for name in self._live}
            infos = {name: infos[name] for name in self._live}
        return observations, infos

    def observe(self, agent: str) -> Observation:
        """The current observation of one agent, a copy.

        Args:
            agent: Agent id.

        Returns:
            The observation.

        Raises:
            LifecycleError: Before the first reset.
        """
        if not self._started:
            raise LifecycleError("observe() before the first reset()")
        record = self._sim.observations[0, self._lookup(self._index, agent)]
        return {key: record[key].copy() for key in _FIELDS}

    def advance_idle(self, until: int) -> tuple[dict[str, Observation], int]:
        """Lets everybody wait until a tick, or until somebody has something to decide.

        Equal to stepping with WAIT for everybody, without the observations in between. Rewards on
        the way are those of people at their goal out of danger: zero.

        Args:
            until: Absolute tick, counted over all days.

        Returns:
            Observations, and how many steps were taken. The run may be over afterwards.

        Raises:
            LifecycleError: Before the first reset or after the end.
        """
        if not self._started or not self._live:
            raise LifecycleError("advance_idle() needs a run in progress; call reset()")
        if self._sim.config[0].terminal_goal:
            raise LifecycleError("advance_idle() would pass over arrivals; terminal_goal is on")
        number: Any = until
        if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
            raise InvalidValueError(f"until is {until!r}; allowed: a whole number of ticks")
        steps = self._sim.advance_idle(min(max(int(number), 0), self.world.scenario.ticks))
        observations, _ = self._collect()
        if self._sim.state[0].over:
            self._live = []
        return observations, steps

    def oracle_labels(self) -> dict[str, tuple[int, int]]:
        """Privileged: the labels of the rules at stake in this tick, by `core.codes.Label`.

        Returns:
            For each live agent, the label of the trigger-relevant and of the unrelated set.
        """
        people = self._sim.state[0].agents
        labels = zip(people["label"].tolist(), people["label_unrelated"].tolist(), strict=True)
        by_index = list(labels)
        return {name: by_index[self._index[name]] for name in self._live}

    def drain_events(self) -> Records:
        """Takes the core's events since the last call.

        Returns:
            Records of dtype `core.layout.EVENT`.
        """
        return self._sim.drain()

    def ignite(
        self,
        x: int,
        y: int,
        *,
        severity: int = 95,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Lights a fire, felt from the next tick on.

        Args:
            x: Column.
            y: Row.
            severity: 1 to 100 at the tile.
            start: Absolute tick of ignition; the next tick unless given.
            end: Absolute tick of extinction; the end of the run unless given.

        Raises:
            LifecycleError: Before the first reset.
            InvalidValueError: If something is out of range or no fire is free.
        """
        self._need_run()
        now = int(self._sim.state[0].tick) + 1
        last = self.world.scenario.ticks + 1
        self._sim.ignite(
            x,
            y,
            severity=severity,
            start=now if start is None else start,
            end=last if end is None else end,
        )

    def extinguish(self, x: int, y: int) -> None:
        """Puts out a fire at the start of the next tick.

        Args:
            x: Column.
            y: Row.

        Raises:
            LifecycleError: Before the first reset.
            InvalidValueError: If there is none.
        """
        self._need_run()
        self._sim.extinguish(x, y)

    def set_signal(self, name: str, *, red: int, green: int, green_start: int) -> None:
        """Changes the cycle of an intersection from the next tick on.

        Args:
            name: The intersection.
            red: Ticks of don't-walk.
            green: Ticks of walk.
            green_start: A tick at which walk begins.

        Raises:
            LifecycleError: Before the first reset.
            InvalidValueError: If the name or a number is not allowed.
        """
        self._need_run()
        self._sim.set_signal(name, red=red, green=green, green_start=green_start)

    def _need_run(self) -> None:
        if not self._started:
            raise LifecycleError("needs a run; call reset() first")

    def state(self) -> NDArray[np.float32]:
        """A fixed-size global state for centralised critics; parts in `sim.STATE_PARTS`.

        Returns:
            `state_space.shape` float32.

        Raises:
            LifecycleError: Before the first reset.
        """
        self._need_run()
        return self._sim.global_state()

    def briefing(self) -> Briefing:
        """What a policy may know before the run.

        Returns:
            The public town and everybody's persona.
        """
        return make_briefing(self.world, self.seed or 0)

    def render(self) -> str | None:
        """Draws the town.

        Returns:
            Text in mode `ansi`; None without a mode.

        Raises:
            LifecycleError: Before the first reset.
        """
        if self.render_mode is None:
            warnings.warn(
                "render() without a render_mode; pass render_mode='ansi' to parallel_env()",
                stacklevel=2,
            )
            return None
        self._need_run()
        return text_map(self._sim)

    def close(self) -> None:
        """Ends the run; harmless to repeat, and reset() starts anew."""
        self._live = []

    def __getstate__(self) -> dict[str, Any]:
        """A copy in mid-episode goes on from the same state."""
        kept = {k: v for k, v in self.__dict__.items() if k not in _VIEWS}
        kept["_sim"] = self._sim.arrays()
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Restores a copy; the town's tables are built anew."""
        kept = dict(kept)
        arrays = kept.pop("_sim")
        self.__dict__.update(kept)
        self.world = with_loaded_map(self.world)
        self._sim = TownSim(self.world)
        self._sim.restore(arrays)
        self._open_views()

    def __deepcopy__(self, memo: dict[int, Any]) -> VovilleEnv:
        """A deep copy shares the town, which nothing changes, and nothing else."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        world, sim = self.world, self._sim
        for key, value in self.__dict__.items():
            if key not in ("world", "_sim", *_VIEWS):
                setattr(twin, key, copy.deepcopy(value, memo))
        twin.world = world
        twin._sim = TownSim(world)
        twin._sim.restore(sim.arrays())
        twin._sim.town = sim.town
        twin._open_views()
        return twin


def _told(records: NDArray[Any]) -> list[Observation]:
    """The observation of each person of `(N,)` records: views of the fields."""
    rows = zip(*[records[key] for key in _FIELDS], strict=True)
    return [dict(zip(_FIELDS, row, strict=True)) for row in rows]


def with_loaded_map(world: World) -> World:
    """Takes the town from the map that this process has loaded, where it is the same one.

    Args:
        world: A scenario with its town, such as one from a pickle.

    Returns:
        The same, with a town that is shared within the process.
    """
    try:
        town = load_map(world.scenario.map)
    except VovilleError:
        return world
    return replace(world, town=town) if town.digest() == world.town.digest() else world


def check_seed(seed: Any) -> int:
    """Checks a seed.

    Args:
        seed: An integer from 0 to 2**64 - 1, or None.

    Returns:
        The seed, drawn from the operating system for None.

    Raises:
        InvalidValueError: If it is anything else.
    """
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, (bool, np.bool_))
    if not whole or not 0 <= int(seed) < 1 << 64:
        raise InvalidValueError(f"seed is {seed!r}; allowed: integers 0 to 2**64 - 1, or None")
    return int(seed)
