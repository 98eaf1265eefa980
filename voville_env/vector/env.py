"""A batch of towns as arrays, for training."""

from __future__ import annotations

import copy as copying
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from voville_env.actions import N_ACTIONS
from voville_env.core import layout
from voville_env.core.layout import Records, plain
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.observation import build_space
from voville_env.parallel import with_loaded_map
from voville_env.scenario import Scenario, World
from voville_env.scenario.compile import Window, check_window
from voville_env.sim import TownSim
from voville_env.text_map import text_map
from voville_env.vector.edges import (
    FIELDS,
    FLAGS,
    check_actions,
    check_buffers,
    check_choice,
    check_counts,
    check_reset_mask,
    check_switches,
    read_world,
)
from voville_env.vector.finals import blank_rows, constant, final_rows
from voville_env.vector.seeds import SeedSource

Observations = dict[str, NDArray[Any]]
Infos = dict[str, Any]
Flags = NDArray[np.bool_]
Autoreset = Literal["next_step", "same_step", "disabled"]
AUTORESET_MODES = ("next_step", "same_step", "disabled")
OPTIONS = ("window", "reset_mask")
_VIEWS = ("_records", "_raw", "_reward", "_terminated", "_truncated", "_terms", "_over")
_FLAG_TYPES = {"rewards": np.float32, "terminations": np.bool_, "truncations": np.bool_}


class VovilleVectorEnv:
    """`B` towns of one scenario, stepped together.

    Observations are a dict of field name to array `(B, N, ...)`. Agents that have left keep their
    row; `infos["live"]` says who takes part in the next step. An environment has ended once none
    of its agents is live, or once `ends_with` no longer is. What happens then is its autoreset
    mode, as in Gymnasium: with `"next_step"` the next step ignores its actions and returns the
    first observation of its next episode with reward 0; with `"same_step"` the step that ends it
    returns that observation, and the last one stands in `infos["final_obs"]`; with `"disabled"`
    it must be reset before the next step.

    `infos` always has the same keys: `reward_terms`, `(B, N, 5)` float32 unweighted terms by
    `core.codes.RewardTerm`; `live`, `(B, N)` bool; with `"same_step"` also `final_obs` and
    `final_info`. Each key `k` has a mask `_k`, `(B,)` bool: rows where it is False mean nothing.

    With `copy=True` every call returns fresh arrays. With `copy=False` they are buffers that the
    next call overwrites, except final observations and infos, which are always fresh.

    Attributes:
        world: The scenario with its town.
        num_envs: Number of environments, `B`.
        agents: Ids of the agents, `N` of them, in the order of the second axis.
        autoreset: The autoreset mode.
        copy: Whether every call returns fresh arrays.
        single_observation_space: The space of one agent's observation.
        single_action_space: `Discrete(10)`, by `core.codes.Action`.
    """

    def __init__(  # noqa: PLR0913 - the settings of a whole training set-up, all by keyword
        self,
        scenario: str | Path | Scenario | World = "fire_escape",
        num_envs: int = 1,
        *,
        autoreset: Autoreset = "next_step",
        threads: int = 1,
        copy: bool = True,
        buffers: Records | Mapping[str, NDArray[Any]] | None = None,
        window: Window | None = None,
        terminal_goal: bool = False,
        days: int | None = None,
        events: bool = False,
        oracle: bool = False,
        seed_pool: Sequence[int] | None = None,
        ends_with: str | None = None,
    ) -> None:
        """Loads the scenario and allocates the buffers.

        Args:
            scenario: A shipped name, a path to a TOML file, a scenario or a loaded world.
            num_envs: Number of environments, `B`.
            autoreset: What follows the end of an environment.
            threads: Threads that a step may use; results are the same for any number.
            copy: Whether every call returns fresh arrays.
            buffers: Arrays of the caller to write into, which are then returned whatever `copy`
                says: `(B, N)` records of dtype `core.layout.OBSERVATION`, which the core fills
                directly, or a mapping with an array for every field and, if wanted, for
                `rewards`, `terminations` and `truncations`.
            window: `(day, start, end)` in ticks to run only that part; None runs all days.
            terminal_goal: Whether an agent is terminated when it arrives at its goal.
            days: Days to play; all of the scenario's unless given.
            events: Whether the core records events, for `drain`.
            oracle: Whether the core computes the labels of `oracle_labels`.
            seed_pool: The only seeds that episodes may have; any unless given.
            ends_with: An agent with whose run its environment ends.

        Raises:
            ScenarioError: If the scenario cannot be used.
            InvalidValueError: If another argument is not allowed.
        """
        check_choice("autoreset", autoreset, AUTORESET_MODES)
        check_switches(copy=copy, terminal_goal=terminal_goal, events=events, oracle=oracle)
        check_counts(num_envs=num_envs, threads=threads)
        self.world = read_world(scenario)
        self.num_envs, self.autoreset, self.copy = int(num_envs), autoreset, copy
        self.agents = self.world.agent_ids
        if ends_with is not None:
            check_choice("ends_with", ends_with, self.agents)
        self._judge = None if ends_with is None else self.agents.index(ends_with)
        self._window = None if window is None else check_window(self.world, window)
        self._played = self._window
        self._with_events, self._with_oracle, self._threads = events, oracle, int(threads)
        self._seeds = SeedSource(self.num_envs, seed_pool)
        shape = (self.num_envs, len(self.agents))
        self._buffers = None if buffers is None else check_buffers(buffers, shape)
        self._sim = TownSim(
            self.world,
            self.num_envs,
            window=self._window,
            terminal_goal=terminal_goal,
            days=days,
            threads=self._threads,
        )
        self._check_days(self._window)
        self._sim.config["with_events"] = int(events)
        self._sim.config["with_oracle"] = int(oracle)
        self.single_observation_space = build_space()
        self.single_action_space = spaces.Discrete(N_ACTIONS)
        self._live = np.zeros(shape, np.bool_)
        self._ended = np.zeros(self.num_envs, np.bool_)
        self._restarted = np.zeros(self.num_envs, np.bool_)
        self._due = self._running = False
        self._unread: dict[int, list[Records]] = {}
        self._open_views()

    def _open_views(self) -> None:
        """Lays views and constants over the simulation's arrays; a view costs less than a look."""
        sim = self._sim
        if isinstance(self._buffers, np.ndarray):
            sim.observations = self._buffers
        self._records = plain(sim.observations)
        # Without fields, which NumPy would copy one by one.
        self._raw = self._records.view(np.dtype((np.void, self._records.dtype.itemsize)))
        outcomes = plain(sim.outcomes)
        self._reward, self._terms = outcomes["reward"], outcomes["terms"]
        self._terminated = outcomes["terminated"].view(np.bool_)
        self._truncated = outcomes["truncated"].view(np.bool_)
        self._over = plain(sim.state)["over"]
        owned = self._buffers if isinstance(self._buffers, dict) else {}
        shape = self._live.shape
        self._flags = [
            owned[name] if name in owned else np.zeros(shape, kind)
            for name, kind in _FLAG_TYPES.items()
        ]
        self._owned_flags = any(name in owned for name in FLAGS)
        self._kept_live = np.zeros(shape, np.bool_)
        self._everywhere = constant(True, (self.num_envs,), np.bool_)
        self._nowhere = constant(False, (self.num_envs,), np.bool_)
        self._blank = blank_rows(shape)

    @property
    def sim(self) -> TownSim:
        """The simulation below: for metrics and renderers, not for policies."""
        return self._sim

    @property
    def episode_seeds(self) -> NDArray[np.uint64]:
        """`(B,)` uint64: the seeds now being played, a copy."""
        return self._seeds.current.copy()

    @property
    def restarted(self) -> Flags:
        """`(B,)` bool: environments that began an episode in the last reset or step, a copy."""
        return self._restarted.copy()

    @property
    def live(self) -> Flags:
        """`(B, N)` bool: who takes part in the next step, a copy."""
        return self._live.copy()

    def reset(
        self,
        *,
        seed: int | Sequence[int] | NDArray[Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, Infos]:
        """Starts a new episode everywhere, or where `reset_mask` says.

        Args:
            seed: One integer is the base from which the seeds of all episodes of all environments
                are hashed. Of a sequence of `B`, each environment plays its own entry exactly,
                and hashes its later ones from it. None goes on from the base given before.
            options: `{"window": [day, start, end]}` or `{"window": None}`, until the next full
                reset; `{"reset_mask": mask}` with a `(B,)` bool array resets only those.

        Returns:
            Observations and infos of all environments.

        Raises:
            InvalidValueError: If the seed or an option is not allowed; nothing has changed then.
            LifecycleError: If only some are reset before all have been.
        """
        checked = self._seeds.check(seed)
        which, window = self._check_options({} if options is None else options)
        if which is None:
            which = np.ones(self.num_envs, np.bool_)
            if window != self._played:
                self._sim.set_window(window)
                self._played = window
        self._unread = {b: kept for b, kept in self._unread.items() if not which[b]}
        self._seeds.begin(checked, which)
        self._begin(which)
        self._ended = self._ended & ~which
        self._due = bool(self._ended.any())
        self._running = True
        return self._observations(), self._infos(None)

    def _check_options(self, options: Any) -> tuple[Flags | None, Window | None]:
        if not isinstance(options, dict):
            raise InvalidValueError(f"options is {options!r}; allowed: a dict or None")
        for key in options:
            check_choice("reset option", key, OPTIONS)
        if "reset_mask" in options:
            if "window" in options:
                raise InvalidValueError("a window is for all environments: reset them all for it")
            mask = check_reset_mask(options["reset_mask"], self.num_envs)
            if not self._running:
                raise LifecycleError("reset_mask before the first reset(); reset all first")
            return mask, None
        window = options.get("window", self._window)
        checked = None if window is None else check_window(self.world, window)
        self._check_days(checked)
        return None, checked

    def _check_days(self, window: Window | None) -> None:
        days = int(self._sim.config[0].days)
        if window is not None and window[0] > days:
            raise InvalidValueError(f"window is {list(window)}; only {days} days are played")

    def step(
        self, actions: NDArray[np.integer[Any]] | Sequence[Sequence[int]]
    ) -> tuple[Observations, NDArray[np.float32], Flags, Flags, Infos]:
        """Moves everybody in every environment at once.

        Args:
            actions: `(B, N)` integers 0 to 9; those of agents that are not live are ignored.

        Returns:
            Observations; rewards `(B, N)` float32; terminations and truncations, `(B, N)` bool,
            each True only in the step in which it happens; infos.

        Raises:
            LifecycleError: Before the first reset, after `close()`, or, with autoreset disabled,
                where an environment has ended.
            InvalidValueError: If actions are not allowed; nothing has changed then.
        """
        self.check_running()
        sim = self._sim
        checked = check_actions(actions, self._live, self.agents)
        np.copyto(sim.actions, checked, casting="unsafe")
        if not np.logical_and.reduce(self._live, axis=None):
            sim.actions[~self._live] = 0
        sim.step()
        rewards, terminations, truncations = self._flag_arrays()
        np.copyto(rewards, self._reward)
        np.logical_and(self._terminated, self._live, out=terminations)
        np.logical_and(self._truncated, self._live, out=truncations)
        self._restarted = self._nowhere
        if self._due:
            self._restart(self._ended)
            self._ended, self._due = self._nowhere, False
        done = terminations | truncations
        ended = self._note_ends(done) if np.logical_or.reduce(done, axis=None) else None
        final = None
        if ended is not None and self.autoreset == "same_step":
            final = final_rows(self._records, self._terms, ended)
            self._restart(ended)
        elif ended is not None:
            self._ended, self._due = ended, True
        return self._observations(), rewards, terminations, truncations, self._infos(final)

    def check_running(self) -> None:
        """Checks that a step may be taken.

        Raises:
            LifecycleError: Before the first reset, after `close()`, or, with autoreset disabled,
                where an environment has ended.
        """
        if not self._running:
            raise LifecycleError("step() needs a run; call reset() first")
        if self._due and self.autoreset == "disabled":
            raise LifecycleError(
                f"environments {self._ended.nonzero()[0].tolist()} have ended and autoreset is "
                'disabled; reset them with options={"reset_mask": ...}'
            )

    def _flag_arrays(self) -> list[NDArray[Any]]:
        if self.copy and not self._owned_flags:
            return [np.empty(self._live.shape, kind) for kind in _FLAG_TYPES.values()]
        return self._flags

    def _note_ends(self, done: Flags) -> Flags | None:
        """Takes note of who is done; returns the environments that have ended, if any."""
        self._live &= ~done
        judge = self._judge
        going: Flags = np.any(self._live, axis=1) if judge is None else self._live[:, judge]
        ended: Flags = ~going
        if not ended.any():
            return None
        self._live[ended] = False
        self._over[ended] = 1  # so that the core leaves them alone
        return ended

    def _restart(self, which: Flags) -> None:
        if self._with_events:
            for b in which.nonzero()[0].tolist():
                self._unread.setdefault(b, []).append(self._sim.drain(b))
        self._seeds.advance(which)
        self._begin(which)

    def _begin(self, which: Flags) -> None:
        self._sim.reset(self._seeds.current, which)
        self._live[which] = True
        self._restarted = which

    def _observations(self) -> Observations:
        owned = self._buffers
        if isinstance(owned, dict):
            for key in FIELDS:
                np.copyto(owned[key], self._records[key])
            return {key: owned[key] for key in FIELDS}
        records = self._records
        if self.copy and owned is None:
            records = self._raw.copy().view(records.dtype)
        return {key: records[key] for key in FIELDS}

    def _infos(self, final: Infos | None) -> Infos:
        if self.copy:
            terms, live = self._terms.copy(), self._live.copy()
        else:
            terms, live = self._terms, self._kept_live
            np.copyto(live, self._live)
        infos: Infos = {
            "reward_terms": terms,
            "_reward_terms": self._everywhere,
            "live": live,
            "_live": self._everywhere,
        }
        if self.autoreset == "same_step":
            infos.update(self._blank if final is None else final)
            if final is None:  # arrays are read-only, dicts are the caller's to write into
                infos["final_obs"] = dict(self._blank["final_obs"])
                infos["final_info"] = dict(self._blank["final_info"])
        return infos

    def action_masks(self) -> Flags:
        """Which actions are physically possible; agents that are not live can only wait.

        Returns:
            `(B, N, 10)` bool, a fresh array.

        Raises:
            LifecycleError: Before the first reset.
        """
        self._need_run()
        masks: Flags = self._records["action_mask"].astype(np.bool_)
        gone = ~self._live
        if gone.any():
            masks[gone] = False
            masks[gone, 0] = True
        return masks

    def drain(self, index: int = 0) -> Records:
        """Takes the events of one environment since the last call; needs `events=True`.

        Those of an episode that ended by autoreset come before those of the one that followed.

        Args:
            index: Which environment.

        Returns:
            Records of dtype `core.layout.EVENT`, a copy.

        Raises:
            LifecycleError: Without `events=True`.
            CapacityError: If events were lost because nobody drained them.
        """
        if not self._with_events:
            raise LifecycleError("drain() needs events=True")
        parts = [*self._unread.pop(index, []), self._sim.drain(index)]
        joined: Records = np.concatenate(parts).view(layout.EVENT).view(np.recarray)
        return joined

    def oracle_labels(self) -> NDArray[np.uint8]:
        """Privileged: labels of the rules at stake in this tick; needs `oracle=True`.

        Returns:
            `(B, N, 2)` uint8 by `core.codes.Label`: of the trigger-relevant and the unrelated set.

        Raises:
            LifecycleError: Without `oracle=True`.
        """
        if not self._with_oracle:
            raise LifecycleError("oracle_labels() needs oracle=True")
        people = self._sim.state["agents"][:, : len(self.agents)]
        labels: NDArray[np.uint8] = np.stack([people["label"], people["label_unrelated"]], axis=-1)
        return labels

    def state(self) -> NDArray[np.float32]:
        """Global states for centralised critics; parts in `sim.STATE_PARTS`.

        Returns:
            `(B, STATE_SIZE)` float32.

        Raises:
            LifecycleError: Before the first reset.
        """
        self._need_run()
        return np.stack([self._sim.global_state(b) for b in range(self.num_envs)])

    def render(self, index: int = 0) -> str:
        """Draws one environment as text.

        Args:
            index: Which environment.

        Returns:
            A header line and the map.

        Raises:
            LifecycleError: Before the first reset.
        """
        self._need_run()
        return text_map(self._sim, index)

    def close(self) -> None:
        """Ends the run; harmless to repeat, and `reset()` starts anew."""
        self._running = False

    def _need_run(self) -> None:
        if not self._running:
            raise LifecycleError("needs a run; call reset() first")

    def __getstate__(self) -> dict[str, Any]:
        """A copy in mid-episode goes on from the same state, with buffers of its own."""
        kept = {k: v for k, v in self.__dict__.items() if k not in (*_VIEWS, "_sim")}
        kept["_arrays"] = self._sim.arrays()
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Restores a copy; the town's tables are built anew."""
        kept = dict(kept)
        arrays = kept.pop("_arrays")
        self.__dict__.update(kept)
        self.world = with_loaded_map(self.world)
        self._sim = self._twin_sim(arrays)
        self._open_views()

    def _twin_sim(self, arrays: dict[str, NDArray[Any]]) -> TownSim:
        sim = TownSim(self.world, self.num_envs, threads=self._threads)
        if isinstance(self._buffers, np.ndarray):
            sim.observations = self._buffers
        sim.restore(arrays)
        return sim

    def __deepcopy__(self, memo: dict[int, Any]) -> VovilleVectorEnv:
        """A deep copy shares the town, which nothing changes, and nothing else."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        kept = self.__getstate__()
        arrays, world = kept.pop("_arrays"), kept.pop("world")
        twin.__dict__.update(copying.deepcopy(kept, memo))
        twin.world = world
        twin._sim = twin._twin_sim(arrays)
        twin._sim.town = self._sim.town
        twin._open_views()
        return twin
