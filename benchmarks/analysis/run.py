"""A finished run as the analyses see it, read from its logs once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voville_env.benchmarks.aggregate import Cell, gather
from voville_env.benchmarks.analysis import evidence
from voville_env.benchmarks.analysis.evidence import (
    Chance,
    Exposure,
    Rating,
    Recovery,
    Said,
    Track,
)
from voville_env.benchmarks.folder import MANIFEST, episode_path, planned_suite
from voville_env.benchmarks.spread import Note, over_logs
from voville_env.benchmarks.statistics import RATE, Summary, summarise
from voville_env.benchmarks.tables import marked
from voville_env.errors import InvalidValueError
from voville_env.events import Event, LogError, read_log
from voville_env.metrics import load_episode, metrics_of_episode
from voville_env.metrics.episode import Episode


@dataclass(frozen=True)
class Played:
    """What the analyses keep of one finished episode.

    Attributes:
        scenario: The scenario's name.
        policy: The policy's name.
        seed: The seed.
        control: The scenario's control; empty without one.
        officers: Whether officers are in it.
        peers: Whether scripted jaywalkers are in it.
        windows: Day, first tick and end of each fire.
        said: Verdicts.
        chances: Attendees' ticks with R1 to R3 at stake.
        recoveries: How long attendees went on breaking rules.
        exposures: Commuters' days with a jaywalk seen.
        ratings: Fires rated for importance.
        tracks: Everybody's distance to the fire.
    """

    scenario: str
    policy: str
    seed: int
    control: str
    officers: bool
    peers: bool
    windows: tuple[tuple[int, int, int], ...]
    said: tuple[Said, ...]
    chances: tuple[Chance, ...]
    recoveries: tuple[Recovery, ...]
    exposures: tuple[Exposure, ...]
    ratings: tuple[Rating, ...]
    tracks: Mapping[str, Track]

    @property
    def is_control(self) -> bool:
        """Whether the scenario is its own control."""
        return self.control == self.scenario


@dataclass(frozen=True)
class Run:
    """A run folder, read.

    Attributes:
        episodes: The finished episodes, in the order of the plan.
        cells: Their metrics, one cell for each scenario and policy.
        planned: How many episodes were planned.
        quick: Whether it is a smoke run, which is no score.
    """

    episodes: tuple[Played, ...]
    cells: tuple[Cell, ...]
    planned: int
    quick: bool

    def conditions(
        self, keep: Callable[[Played], bool]
    ) -> Iterator[tuple[Cell, tuple[Played, ...]]]:
        """The scenarios and policies of which some episodes are wanted.

        Args:
            keep: Which episodes.

        Yields:
            The cell and those of its episodes, in the order of the plan.
        """
        for cell in self.cells:
            key = (cell.scenario, cell.policy)
            played = (item for item in self.episodes if (item.scenario, item.policy) == key)
            if kept := tuple(filter(keep, played)):
                yield cell, kept

    def cell(self, scenario: str, policy: str) -> Cell | None:
        """A cell.

        Args:
            scenario: Its scenario.
            policy: Its policy.

        Returns:
            The cell; None where nothing of it is finished.
        """
        wanted = (scenario, policy)
        return next((c for c in self.cells if (c.scenario, c.policy) == wanted), None)

    def policies(self) -> list[str]:
        """The policies.

        Returns:
            Their names, in the order of the plan.
        """
        return list(dict.fromkeys(cell.policy for cell in self.cells))


def load_run(folder: Path, note: Note | None = None) -> Run:
    """Reads the finished episodes of a run folder.

    Args:
        folder: The run folder.
        note: Called after each log.

    Returns:
        The run.

    Raises:
        InvalidValueError: If it is no run folder.
        LogError: If a log in it cannot be understood.
    """
    if not (folder / MANIFEST).exists():
        raise InvalidValueError(
            f"{folder} has no {MANIFEST}; allowed: the folder of one run (a report of several runs "
            "is none: give one of its runs)"
        )
    suite = planned_suite(folder)
    planned = suite.episodes()
    logs = [path for key in planned if (path := episode_path(folder, key)).exists()]
    read = over_logs(_read, logs, note)
    cells = tuple(gather([metrics for _, metrics in read], [], []).values())
    return Run(tuple(played for played, _ in read), cells, len(planned), suite.quick)


def run_of(source: Path | str | Run) -> Run:
    """A run, whether it was read already or not.

    Args:
        source: A run folder, or a run that was read.

    Returns:
        The run.
    """
    return source if isinstance(source, Run) else load_run(Path(source))


def _read(path: Path) -> tuple[Played, dict[str, Any]]:
    """One log, read once: what the analyses keep, and the metrics."""
    records = list(read_log(path))
    try:
        episode = load_episode(records)
    except LogError as error:
        raise LogError(f"{path}: {error}") from error
    return _played(records, episode), metrics_of_episode(episode)


def _played(records: Sequence[Event], episode: Episode) -> Played:
    header = episode.header
    return Played(
        scenario=str(header["scenario"]),
        policy=str(header["policy"]),
        seed=int(header["seed"]),
        control=str(header.get("control") or ""),
        officers=bool(header["officers"]),
        peers=bool(header["confederates"]),
        windows=tuple((fire.day, fire.ignite, fire.extinguish) for fire in episode.fires),
        said=evidence.said(records),
        chances=evidence.chances(episode),
        recoveries=evidence.recoveries(episode),
        exposures=evidence.exposures(episode),
        ratings=evidence.ratings(records),
        tracks=evidence.tracks(episode),
    )


def over_seeds(values: Iterable[float | None], cases: int) -> Summary | None:
    """A rate over seeds, with its interval as everywhere in a report.

    Args:
        values: One a seed; None where the seed has nothing to measure.
        cases: How many cases all of them are of.

    Returns:
        The summary; None without a value.
    """
    return summarise([v for v in values if v is not None], limits=RATE, cases=cases)


def name_of(cell: Cell) -> str:
    """A scenario and policy as a table names them.

    Args:
        cell: Their cell.

    Returns:
        The name, marked if the policy is privileged.
    """
    return f"{cell.scenario}, {marked(cell.policy, privileged=cell.privileged)}"
