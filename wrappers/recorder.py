"""Records every episode of a town into files that can be read, scored and played again."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pettingzoo.utils.wrappers.base_parallel import BaseParallelWrapper

from voville_env.benchmarks.play import shortest_way, versions
from voville_env.core.codes import EventCode
from voville_env.core.layout import EVENT, plain
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.events import write_lines
from voville_env.parallel import Info, Observation, VovilleEnv
from voville_env.testing.trajectory import Frame, digest_of
from voville_env.wrappers.parallel_observation import Frame as Returned
from voville_env.wrappers.recording import FORMAT, Recording

_MANY = 1_000_000


class EpisodeRecorder(BaseParallelWrapper[str, Any, Any]):
    """Writes `NAME.npz` for each episode, and `NAME.jsonl`, the benchmark's log of it.

    Wrap the town itself, and put other wrappers around the recorder. A file appears when its
    episode ends; what `reset()` or `close()` cuts short is kept as `NAME-unfinished.npz` without a
    log. Names are `SCENARIO-SEED-NUMBER`, and no file is ever overwritten.

    Attributes:
        files: Recordings written so far, oldest first.
    """

    def __init__(
        self,
        env: VovilleEnv,
        folder: Path | str,
        *,
        observations: bool = False,
        log: bool = True,
        policy: str = "recorded",
    ) -> None:
        """Wraps a town; the folder is made.

        Args:
            env: The town.
            folder: Where the files go.
            observations: Whether observations are kept, not only their digests.
            log: Whether the benchmark's log is written, too.
            policy: What the log calls the policy.

        Raises:
            InvalidValueError: If an argument is not allowed.
        """
        if not isinstance(env, VovilleEnv):
            raise InvalidValueError(
                f"env is a {type(env).__name__}; allowed: a VovilleEnv (record the town itself, "
                "and put other wrappers around the recorder)"
            )
        for name, value in (("observations", observations), ("log", log)):
            if not isinstance(value, bool):
                raise InvalidValueError(f"{name} is {value!r}; allowed: True, False")
        if not policy:
            raise InvalidValueError(f"policy is {policy!r}; allowed: a name")
        super().__init__(env)
        self._town = env
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidValueError(f"folder is {str(folder)!r}: {error}") from error
        self._keeps = observations
        self._logs = log
        self._policy = policy
        self._tape: _Tape | None = None
        self.files: list[Path] = []

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Starts a run and its recording.

        Args:
            seed: As the town takes it.
            options: As the town takes them.

        Returns:
            Observations and infos of all agents.
        """
        observations, infos = self._town.reset(seed=seed, options=options)
        self._cut_short()
        self._tape = _Tape(self._town, self._policy, keeps=self._keeps)
        self._tape.take(self._town, Frame(observations, {}, {}, {}, infos))
        return observations, infos

    def step(self, actions: dict[str, int]) -> Returned:
        """Moves everybody at once, and writes the files if the run ends.

        Args:
            actions: As the town takes them.

        Returns:
            What the town returns.
        """
        tick = int(self._town.sim.state[0].tick)
        returned = self._town.step(actions)
        if self._tape is not None:
            self._tape.step(self._town, tick, Frame(*returned))
            if not self._town.agents:
                self._finish()
        return returned

    def ignite(self, x: int, y: int, **settings: Any) -> None:
        """Lights a fire, which is recorded; see `VovilleEnv.ignite`.

        Args:
            x: Column.
            y: Row.
            **settings: `severity`, `start`, `end`.
        """
        self._intervene("ignite", {"x": x, "y": y, **settings})

    def extinguish(self, x: int, y: int) -> None:
        """Puts out a fire, which is recorded; see `VovilleEnv.extinguish`.

        Args:
            x: Column.
            y: Row.
        """
        self._intervene("extinguish", {"x": x, "y": y})

    def set_signal(self, name: str, **settings: int) -> None:
        """Changes a signal, which is recorded; see `VovilleEnv.set_signal`.

        Args:
            name: The intersection.
            **settings: `red`, `green`, `green_start`.
        """
        self._intervene("set_signal", {"name": name, **settings})

    def _intervene(self, method: str, arguments: dict[str, Any]) -> None:
        getattr(self._town, method)(**arguments)
        if self._tape is not None:
            plain_numbers = {
                key: int(value) if isinstance(value, np.integer) else value
                for key, value in arguments.items()
            }
            self._tape.interventions.append([self._tape.steps, method, plain_numbers])

    def advance_idle(self, until: int) -> Any:
        """Refused: a recording holds every step.

        Args:
            until: Absolute tick.

        Raises:
            LifecycleError: Always.
        """
        raise LifecycleError(
            f"advance_idle({until!r}) would pass over steps, and a recording holds every one; "
            "step with WAIT instead"
        )

    def drain_events(self) -> Any:
        """Refused: the recorder takes the events.

        Raises:
            LifecycleError: Always.
        """
        raise LifecycleError(
            "the recorder takes the events; read them from its files, "
            "load_episode(path).events or the log"
        )

    def close(self) -> None:
        """Ends the run; what was played of it is kept. Harmless to repeat."""
        self._cut_short()
        self._town.close()

    def _cut_short(self) -> None:
        """Keeps a run that has begun and not ended."""
        if self._tape is not None and self._tape.steps:
            self._write(self._tape.recording(complete=False), "-unfinished")
        self._tape = None

    def _finish(self) -> None:
        assert self._tape is not None
        recording = self._tape.recording(complete=True)
        self._tape = None
        path = self._write(recording, "")
        if self._logs:
            write_lines(path.with_suffix(".jsonl"), recording.log(self._town.world))

    def _write(self, recording: Recording, ending: str) -> Path:
        path = self._free_path(recording, ending)
        recording.save(path)
        self.files.append(path)
        return path

    def _free_path(self, recording: Recording, ending: str) -> Path:
        """A name that no file has, reserved by the empty file of that name that is being written.

        Several recorders may share a folder, also those of several processes.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.-]", "_", recording.header["scenario"]["name"])
        stem = f"{name}-{recording.header['seed']}"
        for number in range(_MANY):
            path = self._folder / f"{stem}-{number:04d}{ending}.npz"
            part = path.with_name(f"{path.name}.part")
            if path.exists():
                continue
            try:
                part.open("xb").close()
            except FileExistsError:
                continue
            if not path.exists():
                return path
            part.unlink()
        raise InvalidValueError(f"{self._folder} holds {_MANY} episodes of {stem}")


class _Tape:
    """What is kept of a run while it is played."""

    def __init__(self, town: VovilleEnv, policy: str, *, keeps: bool) -> None:
        config = town.sim.config[0]
        window = [int(config[f"window_{part}"]) for part in ("day", "start", "end")]
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "scenario": town.world.scenario.model_dump(mode="json"),
            "scenario_hash": town.world.digest(),
            "seed": town.seed,
            "window": window if window[0] else None,
            "terminal_goal": bool(config.terminal_goal),
            "days": int(config.days),
            "agents": list(town.possible_agents),
            "policy": policy,
            "versions": versions(),
        }
        self.steps = 0
        self.interventions: list[list[Any]] = []
        self._keeps = keeps
        self._ticks = int(config.steps_per_tick)
        self._actions: list[NDArray[np.int8]] = []
        self._outcomes: list[NDArray[Any]] = []
        self._observations: list[NDArray[Any]] = []
        self._digests: list[bytes] = []
        self._events: list[NDArray[Any]] = []
        self._drained: list[list[int]] = []
        self._ways: list[int | None] = []
        self._routes: tuple[int, dict[str, Any]] = (0, {})
        self._last = 0

    def take(self, town: VovilleEnv, frame: Frame) -> None:
        """Keeps what a call returned."""
        self._digests.append(bytes.fromhex(digest_of(frame)))
        self._last = int(town.sim.state[0].step)
        if not self.steps:
            self._routes = (int(town.sim.state[0].tick), _routes(frame))
        if self._keeps:
            self._observations.append(plain(town.sim.observations)[0].copy())

    def step(self, town: VovilleEnv, tick: int, frame: Frame) -> None:
        """Keeps a step, and at the end of a tick its events."""
        self.steps += 1
        self._actions.append(town.sim.actions[0].copy())
        self._outcomes.append(plain(town.sim.outcomes)[0].copy())
        self.take(town, frame)
        if self._last % self._ticks == 0 or not town.agents:
            events = town.drain_events()
            self._events.append(np.array(events))
            self._drained.append([self.steps, tick, len(events)])
            self._note_ways(events, int(town.sim.state[0].tick), _routes(frame))

    def _note_ways(self, events: Any, tick: int, routes: dict[str, Any]) -> None:
        """Keeps the shortest way to each new goal, as the benchmark's log tells it."""
        last, before = self._routes
        for event in events[events["code"] == EventCode.GOAL]:
            agent = {"agent": self.header["agents"][event["agent"]], "escaping": bool(event["c"])}
            self._ways.append(shortest_way(before if event["tick"] == last else routes, agent))
        self._routes = (tick, routes)

    def recording(self, *, complete: bool) -> Recording:
        """The run so far as arrays."""
        outcomes = np.array(self._outcomes)
        seen = np.array(self._observations)
        events = np.concatenate([np.zeros(0, EVENT), *self._events]).astype(EVENT)
        recording = Recording(
            copy.deepcopy(self.header),
            actions=np.array(self._actions),
            rewards=outcomes["reward"].copy(),
            terms=outcomes["terms"].copy(),
            terminated=outcomes["terminated"].astype(np.bool_),
            truncated=outcomes["truncated"].astype(np.bool_),
            digests=np.frombuffer(b"".join(self._digests), np.uint8).reshape(-1, 32),
            events=events,
            observations={name: seen[name].copy() for name in seen.dtype.names or ()},
        )
        recording.header.update(
            interventions=copy.deepcopy(self.interventions),
            drained=copy.deepcopy(self._drained),
            ways=list(self._ways),
            last_step=self._last,
            complete=complete,
            trajectory_hash=recording.trajectory_hash(),
        )
        return recording


def _routes(frame: Frame) -> dict[str, Any]:
    """Everybody's planned ways, copied: the town may overwrite its arrays."""
    return {
        agent: {"routes": observation["routes"].copy()}
        for agent, observation in frame.observations.items()
    }
