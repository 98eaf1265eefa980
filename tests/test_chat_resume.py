"""A run that is killed again and again ends as one that was not, and pays for nothing twice."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from chat_kit import log_of, results, voville

from pave_policy.testing import StubReply, StubRequest, StubServer, canned
from voville_env.benchmarks.folder import CALLS

CONCURRENCY = 8
PLAN = ("--scenario", "jaywalk", "--policy", "pave", "--seeds", "2", "--days", "1")


def imperfect(request: StubRequest) -> StubReply:
    """A pure function of the prompt; now and then it is no answer."""
    if request.operation == "emulate_action" and len(request.prompt) % 4 == 0:
        return StubReply("Let me think about that.", delay=0.003)
    reply = canned(request)
    return StubReply(reply.content, delay=0.003)


def command(folder: Path, url: str, *more: str | Path) -> list[str]:
    model = ("--backbone", "chat", "--base-url", url, "--model", "stub")
    options = (*PLAN, *model, "--concurrency", str(CONCURRENCY), "--out", folder, *more)
    return [sys.executable, "-m", "voville_env", "bench", *map(str, options)]


def run(folder: Path, url: str, *more: str | Path) -> None:
    done = subprocess.run(command(folder, url, *more), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def sent(request: StubRequest) -> tuple[str, Any]:
    return request.prompt, request.body["max_tokens"]


def stored(store: Path) -> set[tuple[str, Any]]:
    """What was asked and answered, by the store."""
    with sqlite3.connect(store) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = [row[0] for row in db.execute("SELECT CAST(request AS TEXT) FROM exchanges")]
    db.close()
    logical = [json.loads(row) for row in rows]
    return {(item["messages"][0]["content"], item["max_tokens"]) for item in logical}


def kill_at(process: subprocess.Popen[bytes], server: StubServer, number: int) -> None:
    """Kills the process when the server has seen so many requests in all."""
    deadline = time.monotonic() + 120
    while len(server.requests) < number and process.poll() is None:
        assert time.monotonic() < deadline, "the run got nowhere"
        time.sleep(0.001)
    process.kill()
    process.wait()


@pytest.mark.slow
def test_a_run_killed_five_times_ends_as_one_that_was_not(tmp_path: Path) -> None:
    with StubServer(imperfect) as server:
        run(tmp_path / "whole", server.url)
        total = len(server.requests)
    assert total > 50
    moments = sorted(random.Random(7).sample(range(1, total), 5))
    cut = tmp_path / "cut"
    with StubServer(imperfect) as server:
        resume: tuple[str, ...] = ()
        for moment in moments:
            before = stored(cut / CALLS) if (cut / CALLS).exists() else set()
            seen = len(server.requests)
            process = subprocess.Popen(
                command(cut, server.url, *resume),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            kill_at(process, server, moment)
            assert process.returncode == -9, "it was at work"
            assert not before & {sent(request) for request in server.requests[seen:]}
            resume = ("--resume",)
        before, seen = stored(cut / CALLS), len(server.requests)
        run(cut, server.url, "--resume")
        assert not before & {sent(request) for request in server.requests[seen:]}
        times = Counter(map(sent, server.requests))
        assert sum(times.values()) - len(times) <= CONCURRENCY * len(moments)
        assert len(times) == total
    assert results(cut) == results(tmp_path / "whole")
    stems = [path.stem for path in (cut / "episodes").iterdir()]
    assert sorted(stems) == sorted(
        f"{name}--pave--{seed}" for name in ("jaywalk", "jaywalk_control") for seed in (0, 1)
    )
    assert log_of(cut)
    assert voville("replay", cut).code == 0, "without the server"


@pytest.mark.slow
def test_two_runs_at_once_share_a_store_and_ask_nothing_twice(tmp_path: Path) -> None:
    store = tmp_path / "shared.sqlite"
    folders = (tmp_path / "one", tmp_path / "two")
    with StubServer(canned, latency=0.01) as server:
        both = [
            subprocess.Popen(command(folder, server.url, "--store", store), stdout=subprocess.PIPE)
            for folder in folders
        ]
        for process in both:
            process.communicate(timeout=120)
            assert process.returncode == 0
        assert max(Counter(map(sent, server.requests)).values()) == 1
    assert results(folders[0]) == results(folders[1])
    for folder in folders:
        assert voville("replay", folder, "--store", store).code == 0
    assert voville("replay", folders[0]).code == 1, "its calls are not in the folder"
