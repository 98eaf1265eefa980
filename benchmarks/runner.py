"""Runs a suite into a run folder: episodes are whole or absent, and a killed run can go on."""

from __future__ import annotations

import json
import multiprocessing
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from voville_env.benchmarks.play import EpisodePlayer, policy_hash, versions
from voville_env.benchmarks.report import build_report, metrics_of
from voville_env.benchmarks.suite import EpisodeKey, Suite
from voville_env.errors import InvalidValueError
from voville_env.events import read_log, write_lines
from voville_env.parallel import VovilleEnv
from voville_env.policy import load_policy
from voville_env.scenario import load_world

Progress = Callable[[EpisodeKey, str], None]
_QUICK_LEAD = 10


@dataclass(frozen=True)
class Job:
    """One episode to play, as it travels to a worker."""

    key: EpisodeKey
    folder: str
    days: int | None
    quick: bool


@dataclass
class Outcome:
    """What a run has so far.

    Attributes:
        metrics: Metrics of finished episodes, by file stem.
        failed: Episodes that raised, with the reason.
    """

    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, dict[str, Any]] = field(default_factory=dict)


def episode_path(folder: Path, key: EpisodeKey) -> Path:
    """Where an episode's log lies.

    Args:
        folder: The run folder.
        key: The episode.

    Returns:
        The path.
    """
    return folder / "episodes" / f"{key.stem}.jsonl"


def play_episode(job: Job) -> dict[str, Any]:
    """Plays an episode, or reads the finished one, and measures it from its log.

    Args:
        job: What to play.

    Returns:
        Its metrics.

    Raises:
        InvalidValueError: If a finished log belongs to other settings.
    """
    path = episode_path(Path(job.folder), job.key)
    world = load_world(job.key.scenario)
    policy = load_policy(job.key.policy)
    if path.exists():
        _check_same(
            path,
            {
                "scenario": world.scenario.name,
                "policy": job.key.policy,
                "seed": job.key.seed,
                "scenario_hash": world.digest(),
                "policy_hash": policy_hash(policy),
            },
        )
        return metrics_of(path)
    window = None
    if job.quick:
        day, start, end = world.scenario.focus
        window = (day, max(0, start - _QUICK_LEAD), end)
    days = None if job.days is None else min(job.days, world.scenario.clock.days)
    env = VovilleEnv(world, window=window, days=days)
    player = EpisodePlayer(env, policy, job.key.policy, job.key.seed)
    write_lines(path, player.records())
    return metrics_of(path)


def _check_same(path: Path, expected: dict[str, Any]) -> None:
    """Refuses a finished log of another episode."""
    first = next(read_log(path), {})
    for key, value in expected.items():
        if first.get(key) != value:
            raise InvalidValueError(
                f"{path.name} is a log of {key} {first.get(key)!r}, not {value!r}; "
                "remove the file to play it again, or choose another --out folder"
            )


def prepare_folder(folder: Path, suite: Suite, *, resume: bool) -> None:
    """Makes the run folder, or checks that it holds the same plan.

    Args:
        folder: The run folder.
        suite: The plan.
        resume: Whether an existing run may be continued.

    Raises:
        InvalidValueError: If the folder holds something else.
    """
    manifest = folder / "manifest.json"
    scenario_titles(suite)
    content = {
        "suite": asdict(suite),
        "suite_hash": suite.digest(),
        "scenario_hashes": {name: load_world(name).digest() for name in suite.scenarios},
        "policy_hashes": {name: policy_hash(load_policy(name)) for name in suite.policies},
        "versions": versions(),
    }
    text = json.dumps(content, indent=2, sort_keys=True) + "\n"
    if folder.exists() and any(folder.iterdir()):
        if not resume:
            raise InvalidValueError(
                f"{folder} is not empty; use --resume to continue it, or another --out"
            )
        if not manifest.exists():
            raise InvalidValueError(f"{folder} has no manifest.json: not a run folder")
        _check_same_plan(manifest, content)
    (folder / "episodes").mkdir(parents=True, exist_ok=True)
    _write(manifest, text)


def _check_same_plan(manifest: Path, content: dict[str, Any]) -> None:
    """Refuses to go on with a run that was planned or made otherwise, and says what differs."""
    try:
        kept = dict(json.loads(manifest.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"{manifest} cannot be read as a plan: {error}") from error
    fresh = json.loads(json.dumps(content))
    for key in ("suite", "scenario_hashes", "policy_hashes", "versions"):
        for name in sorted({*kept.get(key, {}), *fresh[key]}):
            before, now = kept.get(key, {}).get(name), fresh[key].get(name)
            if before != now:
                raise InvalidValueError(
                    f"{manifest} is another plan: {key} {name!r} was {before!r} and is now "
                    f"{now!r}; leave the options out to go on as planned, or use another --out"
                )


def planned_suite(folder: Path | None) -> Suite:
    """The plan of an existing run folder.

    Args:
        folder: The run folder.

    Returns:
        Its plan.

    Raises:
        InvalidValueError: If there is no such run.
    """
    if folder is None:
        raise InvalidValueError("--resume needs --out: which run folder to go on with")
    manifest = folder / "manifest.json"
    if not manifest.exists():
        raise InvalidValueError(f"{folder} has no manifest.json: not a run folder")
    try:
        kept = json.loads(manifest.read_text("utf-8"))["suite"]
        scenarios, policies, seeds = (kept[key] for key in ("scenarios", "policies", "seeds"))
        return Suite(
            tuple(scenarios), tuple(policies), tuple(seeds), kept["days"], bool(kept["quick"])
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidValueError(f"{manifest} cannot be read as a plan: {error}") from error


def run_suite(
    suite: Suite,
    folder: Path,
    *,
    jobs: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], Any]:
    """Plays what is missing of a suite and writes the report.

    Args:
        suite: The plan.
        folder: The run folder.
        jobs: Worker processes.
        resume: Whether to continue an existing run.
        progress: Called after each episode with its key and `done` or `failed`.

    Returns:
        The summary, and the report it was made from.

    Raises:
        InvalidValueError: If the folder cannot be used or a number is out of range.
    """
    if jobs < 1:
        raise InvalidValueError(f"jobs is {jobs!r}; allowed: at least 1")
    prepare_folder(folder, suite, resume=resume)
    with only_run(folder):
        return _play_and_report(suite, folder, jobs, progress)


def _play_and_report(
    suite: Suite, folder: Path, jobs: int, progress: Progress | None
) -> tuple[dict[str, Any], Any]:
    outcome = Outcome()
    planned = suite.episodes()
    for key, result in _results(suite, planned, folder, jobs):
        if isinstance(result, dict):
            outcome.metrics[key.stem] = result
        else:
            outcome.failed[key.stem] = {**key.as_dict(), "error": describe(result)}
        if progress is not None:
            progress(key, "done" if isinstance(result, dict) else "failed")
    return write_report(suite, folder, outcome)


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Keeps a second run out of a folder while one is at work in it; a killed run leaves no lock.

    Args:
        folder: The run folder.

    Yields:
        Nothing.

    Raises:
        InvalidValueError: If another run is at work there.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with (folder / ".lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InvalidValueError(f"another run is at work in {folder}") from error
        yield


def _results(
    suite: Suite, planned: list[EpisodeKey], folder: Path, jobs: int
) -> Iterator[tuple[EpisodeKey, dict[str, Any] | BaseException]]:
    work = [Job(key, str(folder), suite.days, suite.quick) for key in planned]
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
        jobs, mp_context=context, initializer=_worker, initargs=(sys.path,)
    ) as pool:
        futures: dict[Future[dict[str, Any]], EpisodeKey] = {
            pool.submit(play_episode, job): job.key for job in work
        }
        for future in as_completed(futures):
            raised = future.exception()
            yield futures[future], future.result() if raised is None else raised


def _worker(path: list[str]) -> None:
    """Workers look for `module:factory` policies where their parent does."""
    sys.path[:] = path


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
    frames = traceback.extract_tb(error.__traceback__)
    where = ""
    if frames:
        last = frames[-1]
        where = f" in {last.name} ({Path(last.filename).name}, line {last.lineno})"
    return f"{type(error).__name__}{where}: {error}"


def write_report(suite: Suite, folder: Path, outcome: Outcome) -> tuple[dict[str, Any], Any]:
    """Writes `summary.json`, `report.md` and `report.html` from the metrics.

    Args:
        suite: The plan.
        folder: The run folder.
        outcome: What was scored and what failed.

    Returns:
        The summary and the report.
    """
    planned = suite.episodes()
    titles = scenario_titles(suite)
    scored = [outcome.metrics[key.stem] for key in planned if key.stem in outcome.metrics]
    failed = [outcome.failed[key.stem] for key in planned if key.stem in outcome.failed]
    for item in failed:
        item["scenario"] = titles.get(item["scenario"], item["scenario"])
    expected = [{**key.as_dict(), "scenario": titles[key.scenario]} for key in planned]
    report = build_report(scored, expected, failed)
    summary = {"suite": asdict(suite), "no_score": suite.quick, **report.summary()}
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    _write(folder / "summary.json", text)
    notice = "**A quick smoke run: these numbers are no score.**\n\n" if suite.quick else ""
    _write(folder / "report.md", notice + report.markdown())
    _write(folder / "report.html", report.html(notice.strip("*\n")))
    return summary, report


def scenario_titles(suite: Suite) -> dict[str, str]:
    """The name inside each scenario, by which logs and reports know it.

    Args:
        suite: The plan.

    Returns:
        Names by what was asked for: a shipped name or a path.

    Raises:
        InvalidValueError: If two files carry one name.
    """
    titles = {asked: load_world(asked).scenario.name for asked in suite.scenarios}
    names = list(titles.values())
    for asked, name in titles.items():
        if names.count(name) > 1:
            raise InvalidValueError(f"{asked} and another scenario are both named {name!r}")
    return titles


def _write(path: Path, text: str) -> None:
    aside = path.with_name(path.name + ".part")
    aside.write_text(text, encoding="utf-8", newline="\n")
    aside.replace(path)
