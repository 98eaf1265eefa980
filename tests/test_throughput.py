"""The plumbing of `voville throughput`; nothing here depends on how fast anything runs."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from voville_env.benchmarks.throughput import (
    cases,
    limits,
    measure,
    ocean,
    peer_worker,
    peers,
    phases,
    targets,
)
from voville_env.benchmarks.throughput.measure import Settings
from voville_env.benchmarks.throughput.timing import (
    Case,
    CaseFailedError,
    Row,
    Sample,
    interleave,
    ratio,
    run_for,
)
from voville_env.cli.throughput import _print
from voville_env.errors import InvalidValueError
from voville_env.scenario import load_world
from voville_env.sim import TownSim


def fake(name: str, seen: list[str], rate: float = 1.0, fails_at: int = 99) -> Case:
    def run(seconds: float) -> Sample:
        seen.append(name)
        if seen.count(name) > fails_at:
            raise CaseFailedError("it broke")
        return Sample(int(1000 * rate), 1, 1.0, 2.0)

    return Case(name, 1, 1, run)


def test_cases_take_turns_after_a_warm_up() -> None:
    seen: list[str] = []
    rows = interleave([fake("a", seen), fake("b", seen)], 1.0, rounds=2)
    assert seen == ["a", "b"] * 3
    assert [len(row.samples) for row in rows] == [2, 2]
    assert rows[0].as_dict()["agent_steps_per_cpu_second"] == 500


def test_a_case_that_breaks_is_told_and_the_others_go_on() -> None:
    seen: list[str] = []
    broken, whole = interleave([fake("a", seen, fails_at=2), fake("b", seen)], 1.0, rounds=3)
    assert broken.failure == "it broke"
    assert (len(broken.samples), len(whole.samples), seen.count("a")) == (1, 3, 3)


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    ours, other = Row(fake("a", [])), Row(fake("b", []))
    ours.samples = [Sample(steps, 1, 1.0, 1.0) for steps in (10, 20, 90)]
    other.samples = [Sample(10, 1, 1.0, cpu) for cpu in (1.0, 2.0, 1.0)]
    found = ratio(ours, other)
    assert (found.median, found.lowest, found.highest, found.cpu) == (2.0, 1.0, 9.0, 4.0)


def test_a_run_makes_at_least_one_call_and_counts_its_steps() -> None:
    sample = run_for(lambda: 7, 1e-12)
    assert (sample.agent_steps, sample.calls) == (7, 1)


def test_kernels_one_by_one_are_the_step_of_the_core() -> None:
    whole = TownSim(load_world(cases.SCENARIO), 2, window=cases.WINDOW)
    parted = TownSim(load_world(cases.SCENARIO), 2, window=cases.WINDOW)
    seeds = np.arange(2, dtype=np.uint64)
    whole.reset(seeds)
    parted.reset(seeds)
    moves = cases.random_actions(2, whole.n_agents)
    for step in range(120):
        for sim in (whole, parted):
            sim.actions[:] = moves[step % len(moves)]
            sim.state["event_count"] = 0
        whole.step()
        ends = (step + 1) % int(whole.config[0].steps_per_tick) == 0
        for phase in phases.PHASES:
            if ends or not phase.each_tick:
                phase.run(*parted.arguments)
                phases.advance_clock(phase, parted.state)
        for name in ("state", "observations", "outcomes", "events"):
            assert getattr(whole, name).tobytes() == getattr(parted, name).tobytes(), (step, name)


def test_the_copy_limit_counts_the_bytes_of_an_observation() -> None:
    told = limits.copy_limit(4, 10, repeats=3)
    size = TownSim(load_world(cases.SCENARIO), 1).observations.itemsize
    assert told["bytes_per_agent"] == size
    assert told["agent_steps_per_second"] == pytest.approx(40 / told["seconds"])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (Settings(batches=(0,)), "batch 0"),
        (Settings(batches=()), "batch 0"),
        (Settings(threads=0), "threads 0"),
        (Settings(seconds=float("nan")), "seconds is nan"),
        (Settings(seconds=0.0), "seconds is 0.0"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: Settings, named: str) -> None:
    with pytest.raises(InvalidValueError, match=named):
        measure.measure(settings)


def test_every_peer_and_every_target_is_known() -> None:
    names = {peer.name for peer in peers.PEERS}
    assert names | {peers.LEARNER.name} == set(peer_worker.PEERS)
    ours = {targets.CORE, targets.TWO_THREADS, targets.DICT, targets.FLAT}
    assert {target.other for target in targets.TARGETS} == names | {targets.CORE}
    assert {target.ours for target in targets.TARGETS} == ours


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def write(body: str) -> None:
        path = tmp_path / "worker.py"
        path.write_text("import json, sys\n" + textwrap.dedent(body), "utf-8")
        monkeypatch.setattr(peers, "WORKER", path)

    return write


PEER = peers.Peer("somebody", 3, "install it")


def test_a_peer_answers_in_a_process_of_its_own(worker: Callable[[str], None]) -> None:
    worker("""
        print(json.dumps({"note": " ".join(sys.argv[1:3])}), flush=True)
        for line in sys.stdin:
            told = {"agent_steps": 5, "calls": 1, "wall": float(line), "cpu": 1.0}
            print(json.dumps(told), flush=True)
    """)
    with peers.workers(peers=(PEER,)) as (found, missing):
        assert found["somebody"].note == "somebody 3"
        assert found["somebody"].run(0.5) == Sample(5, 1, 0.5, 1.0)
    assert missing == {}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('print(json.dumps({"missing": "no such library"}))', "no such library; install it"),
        ("sys.exit(3)", "its process ended with code 3; install it"),
    ],
)
def test_a_missing_peer_is_one_line(worker: Callable[[str], None], body: str, reason: str) -> None:
    worker(body)
    with peers.workers(peers=(PEER,)) as (found, missing):
        assert (found, missing) == ({}, {"somebody": reason})


def test_a_python_that_is_not_there_is_a_reason(worker: Callable[[str], None]) -> None:
    worker('print(json.dumps({"missing": "no"}))')
    with peers.workers(("/no/such/python",), (PEER,)) as (found, missing):
        assert found == {}
        assert "/no/such/python" in missing["somebody"]


def test_a_peer_that_dies_on_the_way_is_left_out(worker: Callable[[str], None]) -> None:
    worker('print(json.dumps({"note": ""}), flush=True); sys.stdin.readline()')
    with peers.workers(peers=(PEER,)) as (found, _):
        rows = interleave([found["somebody"], fake("a", [])], 0.1, rounds=2)
    assert rows[0].failure.startswith("its process ended")
    assert len(rows[1].samples) == 2


def test_the_worker_names_what_it_lacks() -> None:
    peer = peers.Peer("ocean-snake", 1, "build it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ocean, "folder", lambda: Path("/no/such/folder"))
        with peers.workers(peers=(peer,)) as (_, missing):
            assert "No module named 'binding'" in missing["ocean-snake"]


def test_sources_of_ocean_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="no source of PufferLib"):
        ocean.build(tmp_path / "pufferlib-3.0.0.tar.gz")
    with pytest.raises(InvalidValueError, match=r"binding\.c' is missing"):
        ocean.build(tmp_path)
    assert ocean.main([]) == 2


def test_tables_show_ratios_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    rows = interleave([fake(targets.CORE, []), fake("ocean-snake", [], rate=0.5)], 1.0, rounds=1)
    compared = targets.compare({row.case.what: row for row in rows})
    assert [(row["other"], row["ratio"], row["met"]) for row in compared] == [
        ("ocean-snake", 2.0, True)
    ]
    told = {
        "machine": {"load": None},
        "rows": [row.as_dict() for row in rows],
        "peers": {"rows": [], "ratios": compared, "missing": {"somebody": "install it"}},
    }
    _print(told)
    shown = capsys.readouterr().out
    assert "somebody is missing: install it" in shown
    assert "2.00" in shown and "1 k" in shown


def test_the_worker_imports_nothing_of_voville() -> None:
    text = peers.WORKER.read_text("utf-8")
    assert "import voville" not in text and "from voville" not in text
