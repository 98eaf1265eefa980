"""Episodes whose policies wait for a model: played side by side in one process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from voville_env.benchmarks.episodes import Job, is_finished, player_of
from voville_env.benchmarks.folder import run_id, store_of
from voville_env.benchmarks.suite import EpisodeKey, make_policy
from voville_env.benchmarks.usage import write_usage
from voville_env.errors import RunAbortedError
from voville_env.events import whole_file
from voville_env.metrics import metrics_of

Note = Callable[[EpisodeKey, dict[str, Any] | BaseException], None]


def play_side_by_side(
    work: list[Job], folder: Path, backbone: Any, note: Note, *, store: Path | None = None
) -> None:
    """Plays episodes side by side; as many as the backbone may have calls under way.

    Args:
        work: The episodes.
        folder: The run folder.
        backbone: Who answers.
        note: Called with each episode's metrics, or with what it failed of.
        store: Where the backbone keeps its calls; in the run folder unless given.

    Raises:
        RunAbortedError: If the backbone cannot be used at all.
    """
    backbone.open_store(store_of(folder, store), run_id(folder))
    run_anywhere(_play_all(work, folder, backbone, note))


async def _play_all(work: list[Job], folder: Path, backbone: Any, note: Note) -> None:
    waiting = iter(work)
    players = [
        asyncio.create_task(_play_some(waiting, backbone, note))
        for _ in range(min(len(work), backbone.concurrency))
    ]
    try:
        # When the endpoint turns out unusable no further call is made; those under way are paid
        # for, and end first.
        for result in await asyncio.gather(*players, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
    finally:
        for player in players:
            player.cancel()
        await asyncio.gather(*players, return_exceptions=True)
        write_usage(folder, backbone.usage())
        await backbone.aclose()


async def _play_some(waiting: Iterator[Job], backbone: Any, note: Note) -> None:
    for job in waiting:
        try:
            result: dict[str, Any] | BaseException = await play_episode_async(job, backbone)
        except RunAbortedError:
            raise
        except (Exception, SystemExit) as error:
            result = error
        note(job.key, result)


async def play_episode_async(job: Job, backbone: Any) -> dict[str, Any]:
    """Plays an episode, or reads the finished one, and measures it from its log.

    Args:
        job: What to play.
        backbone: Who answers.

    Returns:
        Its metrics.

    Raises:
        InvalidValueError: If a finished log belongs to other settings.
        CallFailedError: If a call to the model failed for good.
        RunAbortedError: If the model cannot be used at all.
    """
    policy = make_policy(job.suite, job.key.policy, backbone)
    if not is_finished(job, policy):
        with whole_file(job.path) as write:
            async for record in player_of(job, policy).records_async():
                write(record)
    return metrics_of(job.path)


def run_anywhere(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine to its end, also where an event loop is running already, as in a notebook.

    Args:
        work: What to run.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    raised: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="voville-run")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
