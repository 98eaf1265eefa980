"""The whole kit: every check that fits an environment, and one report."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from gymnasium import spaces

from voville_env.parallel import VovilleEnv
from voville_env.testing.lifecycle import check_actions, check_lifecycle, check_seeds
from voville_env.testing.mask import check_mask, check_norms_unmasked
from voville_env.testing.privilege import check_no_privilege
from voville_env.testing.repeat import (
    check_action_order,
    check_copy,
    check_determinism,
    check_processes,
)
from voville_env.testing.report import CheckResult, ConformanceError
from voville_env.testing.spaces import check_aliasing, check_spaces
from voville_env.testing.trajectory import MakeEnv

_Job = tuple[str, Callable[[], Any]]


def check_environment(
    make_env: MakeEnv, *, steps: int | None = 200, seed: int = 0, skip: Collection[str] = ()
) -> list[CheckResult]:
    """Runs every check that applies.

    Where `steps` is None, the checks of spaces, determinism and copies play to the end of a run.

    Args:
        make_env: Makes the environment, in the same way each time. The check of several processes
            needs a function of an importable module and is skipped for any other.
        steps: Most steps of one run.
        seed: Seed of the runs.
        skip: Names of checks to leave out.

    Returns:
        One result a check; the town's own checks are skipped for other environments.

    Raises:
        ConformanceError: If a check fails; it lists all that do.
    """
    results = [_run(name, job, skip) for name, job in _jobs(make_env, steps, seed)]
    failed = [str(result) for result in results if result.outcome == "failed"]
    if failed:
        raise ConformanceError("\n".join([f"{len(failed)} checks failed", *failed]))
    return results


def _run(name: str, job: Callable[[], Any], skip: Collection[str]) -> CheckResult:
    if name in skip:
        return CheckResult(name, "skipped", "as asked")
    try:
        found = job()
    except ConformanceError as error:
        return CheckResult(name, "failed", str(error))
    if isinstance(found, CheckResult):
        return found
    return CheckResult(name, "passed", "" if found is None else str(found))


def _jobs(make_env: MakeEnv, steps: int | None, seed: int) -> list[_Job]:
    short = 200 if steps is None else steps
    general: list[_Job] = [
        ("spaces", lambda: check_spaces(make_env, seed=seed, steps=steps)),
        ("spaces, idle", lambda: check_spaces(make_env, seed=seed, steps=steps, actions="first")),
        ("aliasing", lambda: check_aliasing(make_env, seed=seed, steps=min(short, 50))),
        ("determinism", lambda: check_determinism(make_env, seed=seed, steps=steps)),
        ("processes", lambda: _where_it_travels(make_env, seed, steps)),
        ("action order", lambda: check_action_order(make_env, seed=seed, steps=short)),
        ("copy", lambda: check_copy(make_env, seed=seed, lead=min(short, 20), steps=steps)),
        ("lifecycle", lambda: check_lifecycle(make_env, seed=seed)),
        ("seeds", lambda: check_seeds(make_env)),
        ("actions", lambda: _discrete_only(make_env, seed)),
    ]
    own: list[_Job] = [
        ("mask", lambda: check_mask(make_env, seed=seed, steps=min(short, 120))),
        ("norms", lambda: check_norms_unmasked(make_env, seed=seed, steps=min(short, 100))),
        ("privilege", lambda: check_no_privilege(make_env, seed=seed, steps=min(short, 120))),
    ]
    if isinstance(make_env().unwrapped, VovilleEnv):
        return general + own
    skipped = [(name, partial(CheckResult, name, "skipped", "only for towns")) for name, _ in own]
    return [*general, *skipped]


def _discrete_only(make_env: MakeEnv, seed: int) -> CheckResult | None:
    env = make_env()
    if not all(isinstance(env.action_space(a), spaces.Discrete) for a in env.possible_agents):
        return CheckResult("actions", "skipped", "only for Discrete action spaces")
    check_actions(make_env, seed=seed)
    return None


def _where_it_travels(make_env: MakeEnv, seed: int, steps: int | None) -> CheckResult | str:
    """Other processes can make the environment only through a function they can import."""
    try:
        pickle.dumps(make_env)
    except (pickle.PicklingError, AttributeError, TypeError):
        made_here = True
    else:
        made_here = getattr(make_env, "__module__", None) == "__main__"
    if made_here:
        told = "needs make_env to be a function of a module, not a lambda or one of a script"
        return CheckResult("processes", "skipped", told)
    return check_processes(make_env, seed=seed, steps=steps)
