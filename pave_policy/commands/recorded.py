"""A finished episode: found in its run folder, looked up, and lived through again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pave_policy.glance import Own
from voville_env.benchmarks.episodes import Job, player_of
from voville_env.benchmarks.folder import MANIFEST, episode_path, planned_suite
from voville_env.benchmarks.play import POLICY_RECORDS, versions
from voville_env.benchmarks.suite import EpisodeKey, Suite
from voville_env.core.codes import Action
from voville_env.errors import InvalidValueError, VovilleError, invalid
from voville_env.events import FORMAT, Event, read_log
from voville_env.observation import Observation
from voville_env.policy import Actions, BasePolicy, Infos, Observations
from voville_env.scenario import load_world

When = tuple[int, int]
"""Day and tick of the day."""
_ENDS = ("run_start", "run_end")
_NEEDED = (
    *("scenario", "policy", "seed", "scenario_hash", "policy_settings", "versions"),
    *("clock", "agents"),
)


def when_of(record: Event) -> When:
    """When a record was made.

    Args:
        record: Of a log, its first and last aside.

    Returns:
        Day and tick.
    """
    return record["day"], record["tick"]


@dataclass(frozen=True)
class Recording:
    """An episode's log and what it belongs to.

    Attributes:
        path: The log.
        key: Which episode it is.
        suite: The plan it belongs to; a plan of its own where the log lies in no run folder.
        folder: The run folder, if there is one.
        header: Its first record.
    """

    path: Path
    key: EpisodeKey
    suite: Suite
    folder: Path | None
    header: Event

    @cached_property
    def records(self) -> list[Event]:
        """All records but the first and the last."""
        found = [record for record in read_log(self.path) if record["type"] not in _ENDS]
        for record in found:
            if not all(isinstance(record.get(name), int) for name in ("day", "tick")):
                raise InvalidValueError(f"{self.path}: a record of {record['type']!r} has no time")
        return found

    @property
    def people(self) -> dict[str, Event]:
        """What the log says of each agent, in its order."""
        return {item["id"]: item for item in self.header["agents"]}

    def of(self, agent: str, *types: str) -> Iterator[Event]:
        """The records of some types about one agent.

        Args:
            agent: Who.
            *types: Which types.

        Yields:
            Records in order.
        """
        for record in self.records:
            if record["type"] in types and record.get("agent") == agent:
                yield record

    def environment(self) -> Iterator[Event]:
        """What the environment recorded.

        Yields:
            Records in order.
        """
        return (record for record in self.records if record["type"] not in POLICY_RECORDS)

    def actions(self) -> dict[When, list[list[Action]]]:
        """What was done, where anybody did anything but wait.

        Returns:
            By day and tick: for each step one action an agent.

        Raises:
            InvalidValueError: If a record of it cannot be read.
        """
        width = len(self.people)
        found = {}
        for record in self.records:
            if record["type"] == "actions":
                digits = str(record["a"])
                if not (digits.isascii() and digits.isdigit()) or len(digits) % width:
                    raise InvalidValueError(
                        f"{self.path}: actions are {digits!r}; allowed: a digit for each step and "
                        f"each of {width} agents"
                    )
                done = [Action(int(digit)) for digit in digits]
                steps = [done[i : i + width] for i in range(0, len(done), width)]
                found[when_of(record)] = steps
        return found


def choose(
    run: Path, scenario: str | None = None, policy: str | None = None, seed: int | None = None
) -> tuple[Recording, int]:
    """Finds an episode.

    Args:
        run: A run folder, or the log of one episode.
        scenario: By its name, or as it was planned.
        policy: By its name.
        seed: The seed.

    Returns:
        The first finished episode, in the order of the run, that agrees with what is given, and how
        many do.

    Raises:
        InvalidValueError: If there is none; it names what is nearest.
    """
    offered = [_open_log(run)] if run.is_file() else list(_finished(run))
    if not offered:
        raise InvalidValueError(f"{run} has no finished episode")
    wanted = (
        ("scenario", scenario, lambda item: (item.header["scenario"], item.key.scenario)),
        ("policy", policy, lambda item: (item.key.policy,)),
        ("seed", seed, lambda item: (item.key.seed,)),
    )
    for name, value, names_of in wanted:
        if value is None:
            continue
        fitting = [item for item in offered if value in names_of(item)]
        if not fitting:
            names = dict.fromkeys(names_of(item)[0] for item in offered)
            raise invalid(f"{name} of a finished episode", value, names)
        offered = fitting
    return offered[0], len(offered)


def _finished(folder: Path) -> Iterator[Recording]:
    if not folder.exists():
        raise InvalidValueError(f"{folder} does not exist; allowed: a run folder, or a log in it")
    suite = planned_suite(folder)
    for key in suite.episodes():
        path = episode_path(folder, key)
        if path.exists():
            yield Recording(path, key, suite, folder, _header(path))


def _open_log(path: Path) -> Recording:
    """One log by its path, with its run's plan where it lies in a run folder."""
    header, folder = _header(path), path.resolve().parent.parent
    if path.resolve().parent.name == "episodes" and (folder / MANIFEST).exists():
        suite = planned_suite(folder)
        for key in suite.episodes():
            if key.stem == path.stem:
                return Recording(path, key, suite, folder, header)
    key = EpisodeKey(header["scenario"], header["policy"], header["seed"])
    suite = Suite((key.scenario,), (key.policy,), (key.seed,))
    return Recording(path, key, suite, None, header)


def _header(path: Path) -> Event:
    first = next(read_log(path), {})
    if first.get("type") != "run_start" or first.get("format") != FORMAT:
        raise InvalidValueError(f"{path} is not the log of an episode in format {FORMAT}")
    for name in _NEEDED:
        if name not in first:
            raise InvalidValueError(f"{path}: its first record lacks {name!r}")
    return first


class Rerun(BasePolicy):
    """Does again what a log says was done, and keeps what one agent sees at one tick."""

    def __init__(self, recording: Recording, agent: str, when: When) -> None:
        """Reads the actions.

        Args:
            recording: The episode.
            agent: Whose observation is kept.
            when: Which one: that at the start of this day and tick.
        """
        super().__init__(name="rerun")
        self.seen: Observation | None = None
        self._agent, self._when = agent, when
        self._agents = list(recording.people)
        self._actions = recording.actions()

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Takes the logged actions.

        Args:
            observations: One observation an agent.
            infos: Not used.

        Returns:
            One action an agent; those of whom the log says nothing wait.
        """
        own = Own(*observations[self._agent]["self"].tolist())
        if (own.day, own.tick) == self._when and own.step == 0:
            self.seen = observations[self._agent]
        steps = self._actions.get((own.day, own.tick), [])
        done = steps[own.step] if own.step < len(steps) else []
        known = dict(zip(self._agents, done, strict=False))
        return {agent: int(known.get(agent, Action.WAIT)) for agent in observations}


@dataclass(frozen=True)
class Seen:
    """What an agent saw.

    Attributes:
        observation: The observation; None where it cannot be worked out.
        notes: What there is to say about that.
    """

    observation: Observation | None
    notes: Sequence[str]


def look_again(recording: Recording, agent: str, when: When) -> Seen:
    """Plays the logged actions in a fresh environment up to one tick.

    What is seen there counts only if the environment records the same on the way as it did before.

    Args:
        recording: The episode.
        agent: Who looks.
        when: Day and tick.

    Returns:
        The observation at the start of that tick.

    Raises:
        InvalidValueError: If the episode does not reach that tick.
    """
    notes = []
    policy = Rerun(recording, agent, when)
    try:
        now, then = load_world(recording.key.scenario).digest(), recording.header["scenario_hash"]
        if now != then:
            notes.append(f"The scenario has changed since: its hash was {then} and is now {now}.")
        if changed := _other_versions(recording.header["versions"]):
            notes.append(f"The episode was played with other versions: {changed}.")
        departure = _follow(recording, policy, when)
    except (VovilleError, OSError) as error:
        return Seen(None, [*notes, f"The episode cannot be played again: {error}"])
    if departure is not None:
        day, tick = departure
        notes.append(
            f"Played again, the episode departs from its log on day {day} at tick {tick}: what "
            f"{agent} saw later cannot be worked out."
        )
        if recording.folder is None:
            notes.append(
                "A log of a part of a scenario can be played again in its run folder only."
            )
        return Seen(None, notes)
    if policy.seen is None:
        raise InvalidValueError(f"day {when[0]}, tick {when[1]} is not in {recording.path.name}")
    return Seen(policy.seen, notes)


def _follow(recording: Recording, policy: Rerun, when: When) -> When | None:
    """Lives through the episode to the end of a tick; says where it departs from its log."""
    job = Job(recording.key, str(recording.folder or ""), recording.suite)
    again = (item for item in player_of(job, policy).records() if item["type"] not in _ENDS)
    for fresh, logged in zip(again, recording.environment(), strict=False):
        if fresh != logged:
            return min(when_of(fresh), when_of(logged))
        if when_of(fresh) > when and policy.seen is not None:
            return None
    return None


def _other_versions(kept: dict[str, Any]) -> str:
    now = versions()
    return ", ".join(
        f"{name} {kept.get(name)} (now {now.get(name)})"
        for name in sorted({*kept, *now})
        if kept.get(name) != now.get(name)
    )
