"""The call store in many hands: claims, and processes that share a file and die."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from store_worker import exchange, large_exchange

from pave_policy.llm.store import CallStore
from voville_env.errors import LifecycleError

WORKER = Path(__file__).with_name("store_worker.py")
MISHAPS = ("timeout", "unavailable", "rejected", "over_budget")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[CallStore]:
    with CallStore(path, "mine") as opened:
        yield opened


@pytest.fixture
def other(path: Path) -> Iterator[CallStore]:
    with CallStore(path, "other") as opened:
        yield opened


@contextmanager
def worker(mode: str, path: Path, *keys: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is ready to start its work."""
    command = [sys.executable, str(WORKER), mode, str(path), "mine", *keys]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert line_of(process) == "ready"
            yield process
        finally:
            process.kill()


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


# Claims


def test_a_claim_is_taken_once_until_released(store: CallStore, other: CallStore) -> None:
    assert store.claim("k", "0")
    assert not store.claim("k", "0")
    assert not other.claim("k", "0")
    other.release("k", "0")
    assert not other.claim("k", "0")
    store.release("k", "0")
    assert other.claim("k", "0")


@pytest.mark.parametrize("outcome", MISHAPS)
def test_a_recorded_mishap_frees_the_call(store: CallStore, other: CallStore, outcome: str) -> None:
    assert store.claim("k", "0")
    store.record(exchange(outcome))
    assert other.claim("k", "0")


def test_an_answered_call_is_not_claimed_again(store: CallStore, other: CallStore) -> None:
    store.record(exchange("refused"))
    assert not store.claim("k", "0")
    assert other.claim("k", "0")
    other.record(exchange("valid"))
    assert not other.claim("k", "0")


def test_a_closed_store_holds_nothing(store: CallStore, path: Path) -> None:
    with CallStore(path, "mine") as leaving:
        assert leaving.claim("k", "0")
        assert not store.claim("k", "0")
    assert store.claim("k", "0")


def test_of_many_threads_one_gets_the_claim(store: CallStore) -> None:
    barrier = threading.Barrier(8, timeout=30)
    won: list[str] = []

    def compete() -> None:
        for key in "abcdefghij":
            barrier.wait()
            if store.claim(key, "0"):
                won.append(key)

    threads = [threading.Thread(target=compete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list("abcdefghij")


def alter_claim(path: Path, column: str, value: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(f"UPDATE claims SET {column} = ?", (value,)).rowcount == 1


def test_a_number_that_another_process_bears_now_is_no_owner(
    store: CallStore, other: CallStore, path: Path
) -> None:
    assert store.claim("k", "0")
    alter_claim(path, "started", "long ago")
    assert other.claim("k", "0")


@pytest.mark.parametrize(("past", "free"), [(-1, True), (1000, False)])
def test_only_time_frees_a_claim_of_another_host(
    store: CallStore, path: Path, past: float, free: bool
) -> None:
    with CallStore(path, "mine", lease=past) as gone:
        assert gone.claim("k", "0")
        alter_claim(path, "host", "elsewhere")
        alter_claim(path, "pid", 0)
        assert store.claim("k", "0") is free


def test_time_does_not_free_a_claim_whose_process_runs(path: Path, store: CallStore) -> None:
    with CallStore(path, "mine", lease=-1) as slow:
        assert slow.claim("k", "0")
        assert not store.claim("k", "0")


def test_the_claims_of_a_killed_process_are_void_at_once(path: Path, store: CallStore) -> None:
    with worker("hold", path, "k") as process:
        start(process)
        assert line_of(process) == "k True"
        assert not store.claim("k", "0")
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert store.claim("k", "0"), "ended, though its parent has not taken note"
        store.release("k", "0")
        process.wait()
        assert store.claim("k", "0")


# Processes that share the file


def test_processes_that_share_a_file_make_each_call_once(path: Path) -> None:
    keys = [f"key {number}" for number in range(50)]
    workers = [worker("share", path, *keys) for _ in range(4)]
    with workers[0] as a, workers[1] as b, workers[2] as c, workers[3] as d:
        processes = (a, b, c, d)
        for process in processes:
            start(process)
        said = [process.communicate(timeout=60)[0].split("\n")[:-1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0, 0]
    with CallStore(path, "mine") as store:
        assert [item.key for item in store.exchanges(keys)] == keys
        assert store.spent().exchanges == 50
    assert Counter(key for lines in said for key in lines) == Counter(keys)


@pytest.mark.parametrize("lines", [0, 1, 30])
def test_a_kill_loses_nothing_that_was_recorded(path: Path, lines: int) -> None:
    with worker("pour", path) as process:
        start(process)
        for _ in range(lines):
            line_of(process)
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        rest = process.stdout.read().count("\n")
    with CallStore(path, "mine") as store:
        count = store.spent().exchanges
        assert lines + rest <= count <= lines + rest + 1
        for item in store.exchanges([f"key {number}" for number in range(count)]):
            assert item == replace(large_exchange(item.key), run="mine")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_new_file_can_be_opened_by_many_at_once(tmp_path: Path) -> None:
    barrier = threading.Barrier(8, timeout=30)
    opened: list[int] = []

    def open_all() -> None:
        for number in range(10):
            barrier.wait()
            with CallStore(tmp_path / str(number), "mine") as store:
                store.record(exchange("timeout"))
                opened.append(number)

    threads = [threading.Thread(target=open_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(opened) == dict.fromkeys(range(10), 8)
    for number in range(10):
        with CallStore(tmp_path / str(number), "mine") as store:
            assert store.spent().exchanges == 8


def test_a_writer_waits_for_another(path: Path, store: CallStore) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as db:
        db.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.2, db.execute, ("ROLLBACK",))
        timer.start()
        assert store.claim("k", "0")
        timer.join()


def test_a_reader_keeps_nobody_from_writing(path: Path, store: CallStore) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        assert db.execute("SELECT count(*) FROM exchanges").fetchone() == (0,)
        store.record(exchange())
        assert db.execute("SELECT count(*) FROM exchanges").fetchone() == (0,)
        db.execute("ROLLBACK")
        assert db.execute("SELECT count(*) FROM exchanges").fetchone() == (1,)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_store_does_not_cross_a_fork(store: CallStore) -> None:
    child = os.fork()
    if child == 0:
        code = 0
        try:
            store.find("k", "0")
        except LifecycleError:
            code = 7
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
