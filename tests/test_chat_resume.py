"""Runs with a model that are killed and resumed, share a store, or are told again without one."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from chat_kit import RESULTS, results, voville

from pave_policy.testing import StubReply, StubRequest, StubServer, canned
from pave_policy.testing.wire import HttpReply, HttpRequest

CONCURRENCY = 4
LATENCY = 0.003
PLAN = ("--quick", "--scenario", "jaywalk", "--policy", "pave", "--policy", "pave-no-gate")
STEMS = [
    f"{scenario}--{policy}--0"
    for scenario in ("jaywalk", "jaywalk_control")
    for policy in ("pave", "pave-no-gate")
]
RUN = "x-run"
"""A header that tells the stub which process asks."""


def digest(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()


def erring(request: StubRequest) -> StubReply:
    """What a model of middling quality says; which prompts it fails at follows from these alone."""
    reply = canned(request)
    chance = int(digest(request.prompt)[:8], 16) % 10
    if chance == 0:
        return replace(reply, content="Let me think about it.")
    if chance == 1:
        return replace(reply, content=str(reply.content)[:-9], finish_reason="length")
    return reply


class Killer:
    """Answers as `erring` does, and kills the process that asks when enough has been asked."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.target: subprocess.Popen[str] | None = None

    def __call__(self, request: StubRequest) -> StubReply:
        if request.number + 1 == self.at and self.target is not None:
            self.target.send_signal(signal.SIGKILL)
        return erring(request)


def start(folder: Path, *more: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "voville_env", "bench", "--out", str(folder)]
    return subprocess.Popen(
        [*command, *map(str, more)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def ended(process: subprocess.Popen[str]) -> int:
    """The exit code; what a failed process said is shown with a failed test."""
    print(process.communicate()[0])
    return process.returncode


def model(url: str, run: str) -> tuple[str, ...]:
    asks = ("--backbone", "chat", "--base-url", url, "--model", "stub")
    limit = ("--concurrency", str(CONCURRENCY))
    return (*asks, *limit, "--chat", f"headers={json.dumps({RUN: run})}")


def stored(folder: Path, scratch: Path) -> set[str]:
    """The prompts that a run has answers to; its own files stay as a kill left them."""
    scratch.mkdir()
    for path in folder.glob("calls.sqlite*"):
        shutil.copy(path, scratch)
    with closing(sqlite3.connect(scratch / "calls.sqlite")) as db:
        asked = [json.loads(row[0]) for row in db.execute("SELECT request FROM exchanges")]
    return {digest(request["messages"][0]["content"]) for request in asked}


def asked_by(stub: StubServer, run: str) -> list[str]:
    return [digest(item.prompt) for item in stub.requests if item.headers[RUN] == run]


def check_store(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT count(*) FROM claims").fetchone() == (0,)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run from start to end, and the prompts it asked."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with StubServer(erring, latency=LATENCY) as stub:
        done = voville("bench", *PLAN, "--out", folder, *model(stub.url, "whole"))
        assert done.code == 0, done.err
        asked = asked_by(stub, "whole")
    assert len(asked) == len(set(asked)) > 50
    failed = [row for row in outcomes(folder) if row != "valid"]
    assert {"malformed", "truncated"} <= set(failed) and len(failed) < len(asked) / 2
    return folder, asked


def outcomes(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "calls.sqlite")) as db:
        return [row[0] for row in db.execute("SELECT outcome FROM exchanges")]


def check_resumption(whole: tuple[Path, list[str]], scratch: Path, kills: list[int]) -> None:
    """Kills a run at these requests, lets it end, and compares it with one that was left alone."""
    folder, killer = scratch / "run", Killer()
    known: list[set[str]] = [set()]
    with StubServer(killer, latency=LATENCY) as stub:
        for number, at in enumerate([*kills, None]):
            options = ("--resume",) if number else PLAN
            killer.at = at
            killer.target = start(folder, *options, *model(stub.url, str(number)))
            assert ended(killer.target) == (0 if at is None else -signal.SIGKILL)
            known.append(stored(folder, scratch / f"store {number}"))
        segments = [asked_by(stub, str(number)) for number in range(len(kills) + 1)]
    check_requests(segments, known, whole[1])
    assert sorted(path.name for path in (folder / "episodes").iterdir()) == sorted(
        f"{stem}.jsonl" for stem in STEMS
    )
    assert json.loads((folder / "summary.json").read_text("utf-8"))["episodes"] == {
        "planned": 4,
        "scored": 4,
        "failed": 0,
        "not_run": 0,
    }
    assert results(folder) == results(whole[0])
    check_store(folder / "calls.sqlite")


def check_requests(segments: list[list[str]], known: list[set[str]], needed: list[str]) -> None:
    """Nothing stored was asked again, and no more was lost than was in flight at the kills."""
    lost = 0
    for asked, before, after in zip(segments, known, known[1:], strict=False):
        assert before.isdisjoint(asked)
        assert before <= after
        missing = set(asked) - after
        assert len(missing) <= CONCURRENCY
        lost += len(missing)
    everything = Counter(digest for segment in segments for digest in segment)
    assert set(everything) == set(needed) == known[-1]
    assert everything.total() - len(everything) == lost
    assert 1 <= lost <= CONCURRENCY * (len(segments) - 1)


def test_a_killed_run_goes_on_where_it_was(whole: tuple[Path, list[str]], tmp_path: Path) -> None:
    check_resumption(whole, tmp_path, [len(whole[1]) // 2])


@pytest.mark.slow
def test_a_run_killed_at_five_random_points_gives_the_uninterrupted_report(
    whole: tuple[Path, list[str]], tmp_path: Path
) -> None:
    points = random.Random(5).sample(range(1, len(whole[1]) + 1), 5)
    check_resumption(whole, tmp_path, sorted(points))


def test_a_finished_run_is_told_and_replayed_without_key_or_endpoint(
    whole: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    before = results(folder)
    for name in RESULTS:
        (folder / name).unlink()
    assert voville("report", folder).code == 0
    assert results(folder) == before
    done = voville("replay", folder)
    assert (done.code, done.err) == (0, "")
    assert done.out == "4 of 4 episodes came out byte for byte the same\n"
    assert results(folder) == before


class Together(StubServer):
    """Answers nobody before all runs have begun."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        super().__init__(latency=LATENCY)

    def __enter__(self) -> Together:
        return self

    async def _chat(self, http: HttpRequest, path: str, query: str) -> HttpReply | None:
        while not all((folder / ".run-id").exists() for folder in self._folders):
            await asyncio.sleep(0.01)
        return await super()._chat(http, path, query)


def test_two_runs_at_once_share_a_store(tmp_path: Path) -> None:
    folders, store = [tmp_path / "one", tmp_path / "two"], tmp_path / "calls.sqlite"
    with Together(folders) as stub:
        runs = [
            start(folder, *PLAN, *model(stub.url, folder.name), "--store", store)
            for folder in folders
        ]
        assert [ended(run) for run in runs] == [0, 0]
        assert {item.headers[RUN] for item in stub.requests} <= {"one", "two"}
        assert set(Counter(digest(item.prompt) for item in stub.requests).values()) == {1}
    assert results(folders[0]) == results(folders[1])
    assert not any((folder / "calls.sqlite").exists() for folder in folders)
    check_store(store)
