"""A recorded episode: the arrays of its file, reading it, and playing it again.

A file is a NumPy `.npz` without pickled objects. `docs/wrappers.md` lists its arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from voville_env.benchmarks.play import header, versions
from voville_env.core.codes import RewardTerm
from voville_env.core.layout import EVENT
from voville_env.errors import VovilleError
from voville_env.events import Event, finite
from voville_env.parallel import VovilleEnv
from voville_env.policy import BasePolicy
from voville_env.scenario import World, load_world
from voville_env.scenario.schema import Scenario
from voville_env.testing.trajectory import Frame, digest_of

FORMAT = 1
_HEADER = "header"
_PREFIX = "observation_"
_ARRAYS = ("actions", "rewards", "terms", "terminated", "truncated", "digests", "events")
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error)
_KEYS = (
    *("format", "scenario", "scenario_hash", "seed", "window", "terminal_goal", "days"),
    *("agents", "versions", "interventions", "trajectory_hash", "complete", "policy", "drained"),
    *("last_step", "ways"),
)


class RecordingError(VovilleError, ValueError):
    """A file that is no recorded episode: the message names it and what is wrong."""


class VersionMismatchWarning(UserWarning):
    """An episode is played again with other versions than those it was recorded with."""


class Intervention(NamedTuple):
    """A change of the town from outside, made before the step of that number."""

    step: int
    method: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """One episode of `T` steps and `N` agents.

    Attributes:
        header: Seed, scenario, versions and the rest, JSON-ready.
        actions: `(T, N)` int8; 0 for those who had left.
        rewards: `(T, N)` float32.
        terms: `(T, N, 5)` float32, unweighted, by `RewardTerm`.
        terminated: `(T, N)` bool.
        truncated: `(T, N)` bool.
        digests: `(T + 1, 32)` uint8: SHA-256 of what the reset and each step returned.
        events: The core's event records, dtype `core.layout.EVENT`.
        observations: Field to `(T + 1, N, ...)`; empty unless they were asked for.
    """

    header: dict[str, Any]
    actions: NDArray[np.int8]
    rewards: NDArray[np.float32]
    terms: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    digests: NDArray[np.uint8]
    events: NDArray[Any]
    observations: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self.actions)

    @property
    def agents(self) -> tuple[str, ...]:
        """Agent ids, in the order of the arrays."""
        return tuple(self.header["agents"])

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """Changes of the town from outside."""
        return tuple(Intervention(*entry) for entry in self.header["interventions"])

    def world(self) -> World:
        """The scenario as it was recorded.

        Returns:
            The loaded world; its map and people are those of this installation.

        Raises:
            RecordingError: If this installation cannot read it.
        """
        try:
            # As JSON, in which the strict schema takes a list for a tuple.
            return load_world(Scenario.model_validate_json(json.dumps(self.header["scenario"])))
        except (ValidationError, VovilleError) as error:
            raise RecordingError(f"the recorded scenario cannot be loaded here: {error}") from error

    def trajectory_hash(self) -> str:
        """Hash over all that was returned, as `voville_env.testing.trajectory_hash` makes it.

        Returns:
            64 hex digits.
        """
        digest = hashlib.sha256()
        for row in self.digests:
            digest.update(row.tobytes().hex().encode())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Writes the file aside and renames it when whole.

        Args:
            path: Where; an existing file is replaced.
        """
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {_PREFIX + name: array for name, array in self.observations.items()}
        text = json.dumps(self.header, allow_nan=False, ensure_ascii=False)
        arrays[_HEADER] = np.frombuffer(text.encode(), np.uint8)
        aside = path.with_name(f"{path.name}.part")
        try:
            with aside.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)

    def log(self, world: World | None = None) -> Iterator[Event]:
        """The episode as the benchmark logs it (`docs/log.md`), for `voville_env.metrics`.

        Args:
            world: Its world, where that is loaded already.

        Yields:
            Records, `run_start` first and `run_end` last.

        Raises:
            RecordingError: If the episode was cut short: half a log cannot be scored.
        """
        if not self.header["complete"]:
            raise RecordingError("the episode was cut short, and half a log cannot be scored")
        world = self.world() if world is None else world
        policy = BasePolicy()
        policy.name = self.header["policy"]
        first = header(world, policy, policy.name, self.header["seed"], privileged=False)
        yield {
            **first,
            "scenario_hash": self.header["scenario_hash"],
            "versions": self.header["versions"],
        }
        yield from self._ticks(world)
        yield self._end()

    def _ticks(self, world: World) -> Iterator[Event]:
        decoder = world.event_decoder()
        step = taken = 0
        ways = iter(self.header["ways"])
        for until, tick, count in self.header["drained"]:
            acted = "".join(map(str, self.actions[step:until].ravel().tolist()))
            day, within = divmod(tick, world.scenario.clock.ticks_per_day)
            if acted.strip("0"):
                yield {"type": "actions", "day": day + 1, "tick": within, "a": acted}
            events: Any = self.events[taken : taken + count].view(np.recarray)
            for record in decoder.decode(events):
                if record["type"] == "goal_change":
                    record["steps"] = next(ways)
                yield record
            step, taken = until, taken + count

    def _end(self) -> Event:
        totals = {}
        for index, agent in enumerate(self.agents):
            sums = self.terms[:, index].astype(float).cumsum(axis=0)[-1].tolist()
            totals[agent] = {
                "reward": finite(float(self.rewards[:, index].astype(float).cumsum()[-1])),
                "progress": finite(sums[RewardTerm.PROGRESS]),
                "arrivals": round(sums[RewardTerm.ARRIVAL]),
                "harm": finite(sums[RewardTerm.HARM]),
                "sanctions": round(sums[RewardTerm.SANCTION]),
            }
        return {"type": "run_end", "steps": self.header["last_step"], "totals": totals}


def load_episode(path: Path | str) -> Recording:
    """Reads a recorded episode.

    Args:
        path: The `.npz` file.

    Returns:
        The episode.

    Raises:
        RecordingError: If it is no recorded episode.
    """
    try:
        # Opened here, since NumPy leaves a file open that is no archive.
        with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        told = json.loads(arrays[_HEADER].tobytes().decode())
    except FileNotFoundError as error:
        raise RecordingError(f"{path}: there is no such file") from error
    except _UNREADABLE as error:
        raise RecordingError(f"{path} is no recorded episode: {error}") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        found = told.get("format") if isinstance(told, dict) else told
        raise RecordingError(f"{path} has format {found!r}; allowed: {FORMAT}")
    missing = [name for name in _ARRAYS if name not in arrays] + [k for k in _KEYS if k not in told]
    if missing:
        raise RecordingError(f"{path} lacks {', '.join(missing)}")
    seen = {k.removeprefix(_PREFIX): v for k, v in arrays.items() if k.startswith(_PREFIX)}
    recording = Recording(told, **{name: arrays[name] for name in _ARRAYS}, observations=seen)
    _check_shapes(recording, path)
    return recording


def _check_shapes(recording: Recording, path: Path | str) -> None:
    steps, people = recording.steps, len(recording.agents)
    expected: dict[str, tuple[int, ...]] = {
        "actions": (steps, people),
        "rewards": (steps, people),
        "terms": (steps, people, len(RewardTerm)),
        "terminated": (steps, people),
        "truncated": (steps, people),
        "digests": (steps + 1, 32),
    }
    for name, shape in expected.items():
        if getattr(recording, name).shape != shape:
            found = getattr(recording, name).shape
            raise RecordingError(f"{path}: {name} has shape {found}; expected {shape}")
    if recording.events.dtype.names != EVENT.names:
        raise RecordingError(f"{path}: events have other fields than this version's")


@dataclass(frozen=True)
class Replay:
    """What playing an episode again showed.

    Attributes:
        same: Whether everything that was returned is the same, byte for byte.
        step: The first call that differs, 0 for the reset; None without one.
        what: The difference in words; empty without one.
        versions: Name to `(recorded, now)` of what has another version now.
    """

    same: bool
    step: int | None = None
    what: str = ""
    versions: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.same


def changed_versions(recorded: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Which versions are others now.

    Args:
        recorded: Those of a recording.

    Returns:
        Name to `(recorded, now)`.
    """
    now = versions()
    names = sorted({*recorded, *now})
    pairs = {name: (recorded.get(name, "none"), now.get(name, "none")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def environment_of(recording: Recording) -> VovilleEnv:
    """The environment in which an episode was recorded, before its reset.

    Args:
        recording: The episode.

    Returns:
        A new environment.

    Raises:
        RecordingError: If its scenario cannot be loaded here.
    """
    told = recording.header
    return VovilleEnv(
        recording.world(),
        window=None if told["window"] is None else tuple(told["window"]),
        terminal_goal=told["terminal_goal"],
        days=told["days"],
    )


def replay(source: Path | str | Recording) -> Replay:
    """Plays an episode again and compares all that is returned, step by step.

    Args:
        source: A recorded file, or an episode that was read.

    Returns:
        Whether it is the same, or the first difference. Other versions are told in the result and
        by a `VersionMismatchWarning`; they need not change anything.

    Raises:
        RecordingError: If the file or its scenario cannot be used.
    """
    recording = source if isinstance(source, Recording) else load_episode(source)
    versions_now = changed_versions(recording.header["versions"])
    if versions_now:
        pairs = (f"{name} {then} then, {now} now" for name, (then, now) in versions_now.items())
        text = f"the episode was recorded with other versions: {', '.join(pairs)}"
        warnings.warn(text, VersionMismatchWarning, stacklevel=2)
    step, what = _first_difference(recording)
    return Replay(same=not what, step=step, what=what, versions=versions_now)


def _first_difference(recording: Recording) -> tuple[int | None, str]:
    """Number of the first call that differs, and how; `(None, "")` where none does."""
    told = recording.header
    env = environment_of(recording)
    if env.world.digest() != told["scenario_hash"]:
        now = env.world.digest()
        return 0, f"the scenario has hash {now}, recorded was {told['scenario_hash']}"
    if recording.trajectory_hash() != told["trajectory_hash"]:
        return 0, "the file was edited: its digests do not have the recorded trajectory hash"
    observations, infos = env.reset(seed=told["seed"])
    frame = Frame(observations, {}, {}, {}, infos)
    changes = list(recording.interventions)
    for step in range(recording.steps + 1):
        if step:
            while changes and changes[0].step < step:
                _, method, arguments = changes.pop(0)
                getattr(env, method)(**arguments)
            if not env.agents:
                return step, f"the run ends after {step - 1} steps; recorded are {recording.steps}"
            row = dict(zip(recording.agents, recording.actions[step - 1].tolist(), strict=True))
            frame = Frame(*env.step({agent: row[agent] for agent in env.agents}))
        if digest_of(frame) != recording.digests[step].tobytes().hex():
            return step, _told(recording, env, step)
    if told["complete"] and env.agents:
        return recording.steps, "the run goes on; recorded is its end"
    return None, ""


def _told(recording: Recording, env: VovilleEnv, step: int) -> str:
    """The difference in words, as far as the file's arrays show it."""
    outcomes, seen = env.sim.outcomes[0], env.sim.observations[0]
    now: dict[str, NDArray[Any]] = {}
    then: dict[str, NDArray[Any]] = {}
    for name, array in recording.observations.items():
        now[f"observation field {name!r}"], then[f"observation field {name!r}"] = (
            seen[name],
            array[step],
        )
    pairs = {"rewards": "reward", "terms": "terms"}
    pairs |= {"terminated": "terminated", "truncated": "truncated"}
    for name, key in pairs.items() if step else ():
        now[name], then[name] = outcomes[key], getattr(recording, name)[step - 1]
    when = f"step {step}" if step else "the reset"
    for name, values in now.items():
        for index, agent in enumerate(recording.agents):
            if not np.array_equal(values[index], then[name][index]):
                return (
                    f"{name} of agent {agent!r} after {when} is {values[index].tolist()}, "
                    f"recorded was {then[name][index].tolist()}"
                )
    hint = "" if recording.observations else "; record with observations=True to see in which field"
    return f"what was returned by {when} differs{hint}"
