"""The call store: what it reuses and keeps, its sums, the files that it refuses."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_worker import exchange

from pave_policy.llm.store import CallStore, Exchange, Site, Spent, request_key
from pave_policy.outcome import Failure
from voville_env.errors import InvalidValueError, LifecycleError, RunAbortedError

ANSWERS = ("valid", "malformed", "truncated", "refused", "filtered")
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


def found(store: CallStore, key: str = "k") -> tuple[str, str] | None:
    """Outcome and run of what the store would reuse."""
    hit = store.find(key, "0")
    return None if hit is None else (hit.outcome, hit.run)


# What a request is named


def test_a_key_does_not_depend_on_the_order_of_entries() -> None:
    one = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    two = {"messages": [{"content": "x", "role": "user"}], "model": "m"}
    assert request_key(one) == request_key(two)
    assert len(request_key(one)) == 20 and set(request_key(one)) <= set("0123456789abcdef")


def test_a_key_depends_on_everything_else() -> None:
    base: dict[str, Any] = {"model": "m", "messages": ["a", "b"], "seed": 1, "stop": None}
    changed = [
        {**base, "model": "n"},
        {**base, "messages": ["b", "a"]},
        {**base, "messages": ["ab"]},
        {**base, "seed": 2},
        {**base, "seed": "1"},
        {**base, "seed": True},
        {**base, "stop": []},
        {**base, "more": None},
        {name: value for name, value in base.items() if name != "stop"},
    ]
    assert len({request_key(request) for request in [base, *changed]}) == 1 + len(changed)


@pytest.mark.parametrize("value", [float("nan"), {1}, object()])
def test_a_request_must_be_json(value: object, store: CallStore) -> None:
    with pytest.raises(InvalidValueError, match="plain JSON"):
        request_key({"x": value})
    with pytest.raises(InvalidValueError, match="plain JSON"):
        store.record(exchange(request={"x": value}))


# What is reused


def test_every_outcome_is_an_answer_or_a_mishap() -> None:
    assert {"valid", *Failure} == {*ANSWERS, *MISHAPS}


@pytest.mark.parametrize("outcome", ANSWERS)
def test_own_answers_are_reused_whatever_they_say(store: CallStore, outcome: str) -> None:
    store.record(exchange(outcome))
    assert found(store) == (outcome, "mine")


@pytest.mark.parametrize("outcome", ANSWERS)
def test_of_other_runs_only_valid_answers_are_reused(
    store: CallStore, other: CallStore, outcome: str
) -> None:
    other.record(exchange(outcome))
    assert found(store) == (("valid", "other") if outcome == "valid" else None)
    replayed = store.find_any("k", "0")
    assert replayed is not None and replayed.outcome == outcome


@pytest.mark.parametrize("outcome", MISHAPS)
def test_mishaps_are_never_reused(store: CallStore, other: CallStore, outcome: str) -> None:
    store.record(exchange(outcome))
    other.record(exchange(outcome))
    assert store.find("k", "0") is None
    assert store.find_any("k", "0") is None


def test_own_answers_come_first_then_valid_ones_then_the_earliest(
    store: CallStore, other: CallStore
) -> None:
    other.record(exchange("malformed", text="1"))
    replayed = store.find_any("k", "0")
    assert replayed is not None and replayed.text == "1"
    other.record(exchange("valid", text="2"))
    other.record(exchange("valid", text="3"))
    for look in (store.find, store.find_any):
        hit = look("k", "0")
        assert hit is not None and hit.text == "2"
    store.record(exchange("timeout"))
    store.record(exchange("malformed", text="4"))
    store.record(exchange("valid", text="5"))
    for look in (store.find, store.find_any):
        hit = look("k", "0")
        assert hit is not None and hit.text == "4"


def test_samples_and_keys_are_apart(store: CallStore) -> None:
    store.record(exchange(sample="0"))
    assert store.find("k", "1") is None
    assert store.find("l", "0") is None
    assert store.claim("k", "1")


def test_a_mishap_does_not_hide_the_answer_after_it(store: CallStore) -> None:
    store.record(exchange("unavailable"))
    assert store.claim("k", "0")
    store.record(exchange("valid"))
    assert found(store) == ("valid", "mine")


# What is kept


def test_everything_survives_exactly(path: Path) -> None:
    awkward = "line\u2028paragraph\u2029next\x85nul\0 cut \ud83d end 🧯 \r\n" + "é" * 1_000_000
    whole = Exchange(
        key=request_key({"text": awkward}),
        sample="3",
        operation="GenerateVerdict",
        site=Site("fire_escape", "pave", 7, "Ayesha Khan", 2, 110, "trigger_relevant"),
        request={"text": awkward, "numbers": [1, 0.1, None, True], "nested": {"b": {}, "a": "{x}"}},
        outcome="truncated",
        detail=awkward,
        text=awkward,
        finish="length",
        refusal="",
        reasoning=awkward,
        raw=awkward,
        prompt_tokens=0,
        completion_tokens=12,
        cost=0.1 + 0.2,
        latency=1e-9,
        attempts=4,
    )
    with CallStore(path, "mine") as store:
        store.record(whole)
        store.record(exchange("timeout"))
    with CallStore(path, "other") as store:
        assert store.exchanges([whole.key]) == [replace(whole, run="mine")]
        assert store.exchanges(["k"]) == [replace(exchange("timeout"), run="mine")]


def test_numbers_of_numpy_stay_numbers(store: CallStore) -> None:
    site = Site(seed=np.int64(5), day=np.int8(1), tick=np.int32(9))  # type: ignore[arg-type]
    cost: Any = np.float32(0.5)
    store.record(exchange(site=site, prompt_tokens=np.int64(3), cost=cost))
    hit = store.find("k", "0")
    assert hit is not None
    kept = (hit.site.seed, hit.site.day, hit.site.tick, hit.prompt_tokens, hit.cost)
    assert kept == (5, 1, 9, 3, 0.5)
    assert [type(value) for value in kept] == [int, int, int, int, float]


def test_exchanges_come_in_the_order_of_the_keys_this_run_first(
    store: CallStore, other: CallStore
) -> None:
    other.record(exchange("valid", "b", text="1"))
    store.record(exchange("timeout", "b", text="2"))
    store.record(exchange("valid", "b", text="3"))
    store.record(exchange("valid", "a", text="4"))
    read = store.exchanges(["b", "c", "a", "b"])
    assert [item.text for item in read] == ["2", "3", "1", "4"]
    assert [item.run for item in read] == ["mine", "mine", "other", "mine"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "truncatd"}, r"'truncatd'.*did you mean 'truncated'"),
        ({"cost": float("nan")}, r"exchanges\.cost"),
        ({"detail": None}, r"exchanges\.detail"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    store: CallStore, change: dict[str, Any], message: str
) -> None:
    assert store.claim("k", "0")
    with pytest.raises(InvalidValueError, match=message):
        store.record(replace(exchange(), **change))
    assert store.exchanges(["k"]) == []
    store.record(exchange())
    assert found(store) == ("valid", "mine")


# Sums


def test_spent_counts_all_attempts_of_this_run(store: CallStore, other: CallStore) -> None:
    assert store.spent() == Spent(0, 0, 0, 0, 0.0)
    store.record(exchange(prompt_tokens=100, completion_tokens=10, cost=0.25, attempts=3))
    store.record(exchange("timeout", prompt_tokens=None, cost=0.5, attempts=4))
    store.record(exchange("malformed", prompt_tokens=7, completion_tokens=1))
    store.record(exchange("over_budget", attempts=0))
    other.record(exchange(prompt_tokens=1000, completion_tokens=1000, cost=9.0))
    assert store.spent() == Spent(4, 8, 107, 11, 0.75)
    assert [use.spent for use in store.by_operation()] == [store.spent()]
    assert isinstance(store.spent().prompt_tokens, int)


def test_use_is_told_by_operation(store: CallStore, other: CallStore) -> None:
    assert store.by_operation() == []
    for seconds in range(20, 0, -1):
        outcome = "malformed" if seconds > 18 else "valid"
        store.record(exchange(outcome, latency=float(seconds), prompt_tokens=2, cost=0.5))
    store.record(exchange("over_budget", attempts=0))
    store.record(exchange("over_budget", attempts=0, operation="AssessBenefit"))
    other.record(exchange(operation="Perceive"))
    benefit, risk = store.by_operation()
    assert (benefit.operation, risk.operation) == ("AssessBenefit", "AssessRisk")
    assert risk.spent == Spent(21, 20, 40, 0, 10.0)
    assert risk.outcomes == {"valid": 18, "malformed": 2, "over_budget": 1}
    assert (risk.latency_mean, risk.latency_median, risk.latency_p95) == (10.5, 10.5, 19.0)
    assert (benefit.latency_mean, benefit.latency_median, benefit.latency_p95) == (None,) * 3


# The file


def make_foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE exchanges (id INTEGER PRIMARY KEY)")


def make_store_of_another_schema(path: Path) -> None:
    CallStore(path, "mine").close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version = 99")


def make_half_a_store(path: Path) -> None:
    with CallStore(path, "mine") as store:
        for number in range(20):
            store.record(exchange(key=f"key {number}", text="long " * 5000))
    os.truncate(path, path.stat().st_size // 2)


def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path) -> None:
    makers: list[Callable[[Path], object]] = [
        make_foreign_database,
        make_store_of_another_schema,
        make_half_a_store,
        lambda path: path.write_text("model,answer\n" * 100),
        lambda path: path.write_bytes(b"SQLite format 3\0"),
        lambda path: path.write_bytes(b"x"),
    ]
    for number, make in enumerate(makers):
        file = path.with_name(f"file {number}")
        make(file)
        before = file.read_bytes()
        with pytest.raises(InvalidValueError, match=f"'{file}' cannot be used"):
            CallStore(file, "mine")
        assert file.read_bytes() == before


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with CallStore(path, "mine") as store:
        store.record(exchange())
        assert found(store) == ("valid", "mine")


def unwritable_folder(tmp_path: Path) -> Path:
    """A folder that takes no file, not even of the administrator where one runs the tests."""
    if os.geteuid() == 0:
        return Path("/proc")
    tmp_path.chmod(0o555)
    return tmp_path


def test_a_place_that_takes_no_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "calls.sqlite"
    for place in (missing, tmp_path, unwritable_folder(tmp_path) / "calls.sqlite"):
        with pytest.raises(InvalidValueError, match=f"'{place}' cannot be used.*can be written"):
            CallStore(place, "mine")
    assert not missing.parent.exists()


def test_a_store_in_memory_works_alone() -> None:
    with CallStore(":memory:", "mine") as one, CallStore(Path(":memory:"), "mine") as two:
        assert one.claim("k", "0")
        assert two.claim("k", "0")
        one.record(exchange())
        assert found(one) == ("valid", "mine")
        assert found(two) is None
    assert not Path(":memory:").exists()


def test_a_closed_store_says_so(store: CallStore) -> None:
    store.close()
    store.close()
    with pytest.raises(LifecycleError, match="closed"):
        store.find("k", "0")


def test_a_file_that_fails_later_stops_the_run(store: CallStore, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE exchanges")
    with pytest.raises(RunAbortedError, match=f"'{path}'.*no such table"):
        store.record(exchange())


def test_the_time_of_a_call_is_kept_in_the_file_only(store: CallStore, path: Path) -> None:
    before = time.time()
    store.record(exchange())
    with closing(sqlite3.connect(path)) as db:
        (created,) = db.execute("SELECT created FROM exchanges").fetchone()
    assert before <= created <= time.time()
    assert "created" not in {item.name for item in fields(Exchange)}
