"""Worker processes of a benchmark start only after the core was compiled, once."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import pytest

from voville_env.benchmarks import runner
from voville_env.benchmarks.episodes import Job
from voville_env.benchmarks.suite import plan
from voville_env.parallel import VovilleEnv


class FakePool:
    """Takes the place of the worker processes and plays nothing."""

    order: list[str]

    def __init__(self, workers: int, **_: Any) -> None:
        self.order.append(f"start {workers}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def submit(self, *_: Any) -> Future[dict[str, Any]]:
        self.order.append("submit")
        future: Future[dict[str, Any]] = Future()
        future.set_result({})
        return future


def order_of(folder: Path, monkeypatch: pytest.MonkeyPatch, jobs: int) -> list[str]:
    suite = plan(["jaywalk"], ["lawful"], seeds=2, days=1)
    work = [Job(key, str(folder), suite) for key in suite.episodes()]
    order: list[str] = []
    reset = VovilleEnv.reset

    def counted(env: Any, *args: Any, **kwargs: Any) -> Any:
        order.append("compile")
        return reset(env, *args, **kwargs)

    monkeypatch.setattr(FakePool, "order", order, raising=False)
    monkeypatch.setattr(runner, "ProcessPoolExecutor", FakePool)
    monkeypatch.setattr(VovilleEnv, "reset", counted)
    played = list(runner._results(work, jobs))
    assert [key for key, _ in played] and len(played) == len(work)
    return order


def test_parent_compiles_once_before_the_workers_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_of(tmp_path, monkeypatch, jobs=2)
    assert order[:2] == ["compile", "start 2"]
    assert order.count("compile") == 1
    assert set(order[2:]) == {"submit"}
