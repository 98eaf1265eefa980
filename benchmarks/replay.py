"""A finished run again: scored and reported anew, or played again from its stored calls."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voville_env.benchmarks.episodes import Job, play_episode
from voville_env.benchmarks.folder import planned_suite, run_id, scenario_titles, store_of
from voville_env.benchmarks.report import Report
from voville_env.benchmarks.runner import Outcome, write_report
from voville_env.benchmarks.side_by_side import play_episode_async, run_anywhere
from voville_env.benchmarks.spread import Note, over_logs
from voville_env.benchmarks.suite import EpisodeKey, Suite
from voville_env.errors import InvalidValueError
from voville_env.metrics import metrics_of


@dataclass(frozen=True)
class Replayed:
    """What playing a recorded episode again gave.

    Attributes:
        key: The episode.
        same: Whether the log came out byte for byte the same.
        line: The first line that differs, from 1; None where none does.
        error: Why it could not be played, if it could not.
    """

    key: EpisodeKey
    same: bool
    line: int | None = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The result as data.

        Returns:
            A JSON-ready dict.
        """
        shown = {"same": self.same, "line": self.line, "error": self.error}
        return {**self.key.as_dict(), **shown}


def report_again(folder: Path, note: Note | None = None) -> tuple[dict[str, Any], Report]:
    """Scores and reports what is finished of a run, from its logs alone.

    Args:
        folder: The run folder.
        note: Called after each log.

    Returns:
        The summary and the report.

    Raises:
        InvalidValueError: If it is no run folder.
    """
    suite = planned_suite(folder)
    return write_report(suite, folder, outcome_of(suite, folder, note))


def outcome_of(suite: Suite, folder: Path, note: Note | None = None) -> Outcome:
    """Scores what is finished of a run, from its logs alone.

    Why an episode failed or a run was stopped stands in no log: it is kept as reported before.

    Args:
        suite: Its plan.
        folder: The run folder.
        note: Called after each log.

    Returns:
        What the run has so far.
    """
    before = _reported(folder)
    failures = {
        (item["scenario"], item["policy"], item["seed"]): item["error"]
        for item in before.get("failures", [])
    }
    titles = scenario_titles(suite)
    outcome = Outcome(aborted=before.get("aborted"))
    logs = {key.stem: Job(key, str(folder), suite).path for key in suite.episodes()}
    finished = {stem: path for stem, path in logs.items() if path.exists()}
    scores = over_logs(metrics_of, list(finished.values()), note)
    outcome.metrics = dict(zip(finished, scores, strict=True))
    for key in suite.episodes():
        if key.stem in finished:
            continue
        if error := failures.get((titles[key.scenario], key.policy, key.seed)):
            outcome.failed[key.stem] = {**key.as_dict(), "error": error}
    return outcome


def _reported(folder: Path) -> dict[str, Any]:
    path = folder / "summary.json"
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def replay(
    folder: Path,
    backbone: Any = None,
    *,
    store: Path | None = None,
    note: Callable[[Replayed], None] | None = None,
) -> list[Replayed]:
    """Plays the finished episodes of a run again and compares the logs.

    Args:
        folder: The run folder.
        backbone: One that answers from the store alone; None for a run without model calls.
        store: Where the calls are; in the run folder unless given.
        note: Called after each episode.

    Returns:
        One result an episode.

    Raises:
        InvalidValueError: If it is no run folder, or nothing in it is finished.
    """
    suite = planned_suite(folder)
    finished = [Job(key, str(folder), suite) for key in suite.episodes()]
    finished = [job for job in finished if job.path.exists()]
    if not finished:
        raise InvalidValueError(f"{folder} has no finished episode to replay")
    results: list[Replayed] = []

    def keep(result: Replayed) -> None:
        results.append(result)
        if note is not None:
            note(result)

    with tempfile.TemporaryDirectory(prefix="voville-replay-") as scratch:
        (Path(scratch) / "episodes").mkdir()
        if backbone is None:
            for job in finished:
                keep(_compared(job, Path(scratch)))
        else:
            calls = store_of(folder, store)
            if not calls.is_file():
                raise InvalidValueError(f"{calls} is missing; --store says where the calls are")
            backbone.open_store(calls, run_id(folder))
            run_anywhere(_answered(finished, Path(scratch), backbone, keep))
    return results


async def _answered(
    jobs: list[Job], scratch: Path, backbone: Any, keep: Callable[[Replayed], None]
) -> None:
    for job in jobs:
        again = replace(job, folder=str(scratch))
        try:
            await play_episode_async(again, backbone)
        except Exception as error:
            keep(Replayed(job.key, same=False, error=str(error)))
            continue
        keep(_difference(job, again))
    await backbone.aclose()


def _compared(job: Job, scratch: Path) -> Replayed:
    again = replace(job, folder=str(scratch))
    try:
        play_episode(again)
    except Exception as error:
        return Replayed(job.key, same=False, error=str(error))
    return _difference(job, again)


def _difference(job: Job, again: Job) -> Replayed:
    """Compares two logs; the second is removed, so that many episodes need no room."""
    before, now = job.path.read_bytes(), again.path.read_bytes()
    again.path.unlink()
    if before == now:
        return Replayed(job.key, same=True)
    pairs = zip(before.split(b"\n"), now.split(b"\n"), strict=False)
    line = next((number for number, (a, b) in enumerate(pairs, 1) if a != b), 1)
    return Replayed(job.key, same=False, line=line)
