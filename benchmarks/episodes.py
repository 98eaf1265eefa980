"""One episode of a run: what it is, whether it is finished, and how it is played."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voville_env.benchmarks.folder import episode_path
from voville_env.benchmarks.play import EpisodePlayer, policy_hash
from voville_env.benchmarks.suite import EpisodeKey, Suite, make_policy
from voville_env.errors import InvalidValueError
from voville_env.events import read_log, write_lines
from voville_env.metrics import metrics_of
from voville_env.parallel import VovilleEnv
from voville_env.policy import Policy
from voville_env.scenario import load_world

_QUICK_LEAD = 10


@dataclass(frozen=True)
class Job:
    """One episode to play, as it travels to a worker."""

    key: EpisodeKey
    folder: str
    suite: Suite

    @property
    def path(self) -> Path:
        """Where its log lies, or will."""
        return episode_path(Path(self.folder), self.key)


def start_worker(path: list[str]) -> None:
    """Prepares a worker process, which prints nothing.

    It lives here and not beside the pool, whose module imports the statistics: a worker needs none.

    Args:
        path: Where the parent looks for modules, such as those of `module:factory` policies.
    """
    sys.path[:] = path
    os.environ["VOVILLE_QUIET"] = "1"


def play_episode(job: Job) -> dict[str, Any]:
    """Plays an episode, or reads the finished one, and measures it from its log.

    Args:
        job: What to play.

    Returns:
        Its metrics.

    Raises:
        InvalidValueError: If a finished log belongs to other settings.
    """
    policy = make_policy(job.suite, job.key.policy)
    if not is_finished(job, policy):
        write_lines(job.path, player_of(job, policy).records())
    return metrics_of(job.path)


def is_finished(job: Job, policy: Policy) -> bool:
    """Whether an episode was played already.

    Args:
        job: The episode.
        policy: Its policy.

    Returns:
        True where its whole log is there.

    Raises:
        InvalidValueError: If a finished log belongs to other settings.
    """
    if not job.path.exists():
        return False
    world = load_world(job.key.scenario)
    expected = {
        "scenario": world.scenario.name,
        "policy": job.key.policy,
        "seed": job.key.seed,
        "scenario_hash": world.digest(),
        "policy_hash": policy_hash(policy),
    }
    _check_same(job.path, expected)
    return True


def player_of(job: Job, policy: Policy) -> EpisodePlayer:
    """Sets an episode up.

    Args:
        job: The episode.
        policy: Its policy.

    Returns:
        What plays it.
    """
    world, suite = load_world(job.key.scenario), job.suite
    window = None
    if suite.quick:
        day, start, end = world.scenario.focus
        window = (day, max(0, start - _QUICK_LEAD), end)
    days = None if suite.days is None else min(suite.days, world.scenario.clock.days)
    env = VovilleEnv(world, window=window, days=days)
    return EpisodePlayer(env, policy, job.key.policy, job.key.seed)


def _check_same(path: Path, expected: dict[str, Any]) -> None:
    """Refuses a finished log of another episode."""
    first = next(read_log(path), {})
    for key, value in expected.items():
        if first.get(key) != value:
            raise InvalidValueError(
                f"{path.name} is a log of {key} {first.get(key)!r}, not {value!r}; "
                "remove the file to play it again, or choose another --out folder"
            )
