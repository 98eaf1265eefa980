"""Runs a suite into a run folder: episodes are whole or absent, and a killed run can go on."""

from __future__ import annotations

import json
import multiprocessing
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from voville_env.benchmarks.episodes import Job, play_episode, start_worker
from voville_env.benchmarks.folder import (
    MANIFEST,
    checked_manifest,
    only_run,
    run_facts,
    scenario_titles,
    seed_notes,
    suite_id_of,
    write_text,
)
from voville_env.benchmarks.report import Report, build_report
from voville_env.benchmarks.sensitivity import write_sensitivity
from voville_env.benchmarks.side_by_side import play_side_by_side
from voville_env.benchmarks.suite import EpisodeKey, Suite
from voville_env.errors import CallFailedError, InvalidValueError, RunAbortedError
from voville_env.parallel import VovilleEnv
from voville_env.scenario import load_world

Progress = Callable[[EpisodeKey, str], None]
Result = dict[str, Any] | BaseException
"""Metrics of an episode, or why it has none."""


class Written(Protocol):
    """A report in the forms in which it is written."""

    def markdown(self) -> str:
        """The report as text."""
        ...

    def html(self, notice: str = "") -> str:
        """The report as one page."""
        ...


@dataclass
class Outcome:
    """What a run has so far.

    Attributes:
        metrics: Metrics of finished episodes, by file stem.
        failed: Episodes that raised, with the reason.
        aborted: Why the run was stopped before its end, if it was.
    """

    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, dict[str, Any]] = field(default_factory=dict)
    aborted: str | None = None


def run_suite(
    suite: Suite,
    folder: Path,
    *,
    jobs: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
    backbone: Any = None,
    store: Path | None = None,
) -> tuple[dict[str, Any], Report]:
    """Plays what is missing of a suite and writes the report.

    Args:
        suite: The plan.
        folder: The run folder.
        jobs: Worker processes; not used with a backbone that waits for a model, whose episodes go
            side by side in this process.
        resume: Whether to continue an existing run.
        progress: Called after each episode with its key and `done` or `failed`.
        backbone: Who answers the policies' questions, if not their own default.
        store: Where a waiting backbone keeps its calls; in the run folder unless given.

    Returns:
        The summary, and the report it was made from.

    Raises:
        InvalidValueError: If the folder cannot be used or a number is out of range.
        RunAbortedError: If what the run depends on cannot be used; what is finished is kept and
            reported in the folder.
    """
    if jobs < 1:
        raise InvalidValueError(f"jobs is {jobs!r}; allowed: at least 1")
    manifest = checked_manifest(folder, suite, resume=resume, backbone=backbone, store=store)
    (folder / "episodes").mkdir(parents=True, exist_ok=True)
    with only_run(folder):
        write_text(folder / MANIFEST, manifest)
        work = [Job(key, str(folder), suite) for key in suite.episodes()]
        outcome = Outcome()
        note = partial(_note, outcome, progress)
        if backbone is None or not backbone.concurrent:
            for key, result in _results(work, jobs):
                note(key, result)
        else:
            try:
                play_side_by_side(work, folder, backbone, note, store=store)
            except RunAbortedError as error:
                outcome.aborted = str(error)
                write_report(suite, folder, outcome)
                raise
        return write_report(suite, folder, outcome)


def _note(outcome: Outcome, progress: Progress | None, key: EpisodeKey, result: Result) -> None:
    if isinstance(result, dict):
        outcome.metrics[key.stem] = result
    else:
        outcome.failed[key.stem] = {**key.as_dict(), "error": describe(result)}
    if progress is not None:
        progress(key, "done" if isinstance(result, dict) else "failed")


def _results(work: list[Job], jobs: int) -> Iterator[tuple[EpisodeKey, Result]]:
    if jobs == 1 or len(work) == 1:
        for job in work:
            try:
                yield job.key, play_episode(job)
            except (Exception, SystemExit) as error:
                yield job.key, error
        return
    play_episode_warm_up(work[0])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=start_worker, initargs=(sys.path,)
    ) as pool:
        futures: dict[Future[dict[str, Any]], EpisodeKey] = {
            pool.submit(play_episode, job): job.key for job in work
        }
        for future in as_completed(futures):
            raised = future.exception()
            yield futures[future], future.result() if raised is None else raised


def play_episode_warm_up(job: Job) -> None:
    """Compiles the core once, before the workers start.

    Args:
        job: Any job.
    """
    VovilleEnv(load_world(job.key.scenario)).reset(seed=0)


def describe(error: BaseException) -> str:
    """One line about an exception: its type, its text and where it was raised.

    Args:
        error: The exception.

    Returns:
        The line, with file names but no folders.
    """
    if isinstance(error, CallFailedError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = ""
    if frames:
        last = frames[-1]
        where = f" in {last.name} ({Path(last.filename).name}, line {last.lineno})"
    return f"{type(error).__name__}{where}: {error}"


def report_of(suite: Suite, folder: Path, outcome: Outcome) -> Report:
    """Makes the report of a run; writes nothing.

    Args:
        suite: The plan.
        folder: The run folder.
        outcome: What was scored and what failed.

    Returns:
        The report.
    """
    planned = suite.episodes()
    titles = scenario_titles(suite)
    scored = [outcome.metrics[key.stem] for key in planned if key.stem in outcome.metrics]
    failed = [outcome.failed[key.stem] for key in planned if key.stem in outcome.failed]
    for item in failed:
        item["scenario"] = titles.get(item["scenario"], item["scenario"])
    expected = [{**key.as_dict(), "scenario": titles[key.scenario]} for key in planned]
    made = build_report(scored, expected, failed, run_facts(folder), suite.sweep)
    return replace(made, suite_id=suite_id_of(folder), notes=seed_notes(folder))


def write_report(suite: Suite, folder: Path, outcome: Outcome) -> tuple[dict[str, Any], Report]:
    """Writes `summary.json`, `report.md` and `report.html` from the metrics.

    A sweep also gets `sensitivity.csv`, and a figure where matplotlib is installed.

    Args:
        suite: The plan.
        folder: The run folder.
        outcome: What was scored and what failed.

    Returns:
        The summary and the report.
    """
    report = report_of(suite, folder, outcome)
    summary = {"suite": suite.described(), "no_score": suite.quick, **report.summary()}
    notice = "**A quick smoke run: these numbers are no score.**\n\n" if suite.quick else ""
    if outcome.aborted is not None:
        summary |= {"status": "aborted", "aborted": outcome.aborted}
        notice += f"**Stopped before its end: {outcome.aborted}**\n\n"
    write_files(folder, summary, report, notice)
    if points := report.points():
        write_sensitivity(folder, points)
    return summary, report


def write_files(folder: Path, summary: dict[str, Any], report: Written, notice: str = "") -> None:
    """Writes a report in its three forms.

    Args:
        folder: Where.
        summary: The report as data.
        report: The report.
        notice: Markdown to put first.
    """
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / "summary.json", text)
    write_text(folder / "report.md", notice + report.markdown())
    write_text(folder / "report.html", report.html(notice.replace("*", "").strip()))
