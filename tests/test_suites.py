"""Suites are frozen, every result names its own, and none is compared with another's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from voville_env.benchmarks.merge import report_runs
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import plan, with_seed_set, with_variation
from voville_env.errors import InvalidValueError
from voville_env.events import read_log
from voville_env.scenario import World, load_world, scenario_names
from voville_env.scenario.suites import joint_id, suite_of, suites, world_hash

PAPER, WIDE = "voville-paper-1", "voville-wide-1"
FROZEN = (
    "The worlds of this suite have changed. A suite is frozen: undo the change, or give the "
    "changed worlds a suite with a new version in scenarios/suites/suites.toml and say so in the "
    "changelog"
)


@pytest.mark.parametrize(("kind", "name"), [("paper", PAPER), ("wide", WIDE)])
def test_the_worlds_of_a_suite_are_frozen(kind: str, name: str) -> None:
    names = with_variation(scenario_names(), kind)
    now = {item.partition("@")[0]: world_hash(load_world(item)) for item in names}
    assert now == suites()[name], FROZEN


def changed(**changes: Any) -> World:
    world = load_world("fire_escape")
    return replace(world, scenario=world.scenario.model_copy(update=changes))


def test_whatever_decides_a_world_changes_its_suite() -> None:
    spec = load_world("fire_escape").scenario
    fire = spec.fires[0].model_copy(update={"x": 33})
    for changes in (
        {"fires": [fire]},
        {"agents": spec.agents[:-1]},
        {"jitter": spec.jitter.model_copy(update={"officer_tiles": 0})},
        {"oracle": spec.oracle.model_copy(update={"band": 0.3})},
    ):
        assert suite_of(changed(**changes)).id.startswith("custom:"), changes
    for told in (
        {"name": "other", "title": "Other", "focus": (1, 20, 30)},
        {"rewards": spec.rewards.model_copy(update={"sanction": 0.0})},
    ):
        assert suite_of(changed(**told)).id == PAPER, told
    world = load_world("fire_escape")
    assert suite_of(replace(world, personas=world.personas[::-1])).id != PAPER
    crossings = (replace(world.town.intersections[0], red=11), *world.town.intersections[1:])
    assert suite_of(replace(world, town=replace(world.town, intersections=crossings))).id != PAPER


def test_ranges_decide_only_the_worlds_that_use_them() -> None:
    spec = load_world("fire_escape").scenario
    ranges = spec.variation.model_copy(update={"shift_ticks": (0, 39)})
    assert suite_of(changed(variation=ranges)).id == PAPER
    ranges = ranges.model_copy(update={"kind": "wide"})
    assert suite_of(changed(variation=ranges)).id.startswith("custom:")


def test_seeds_for_training_and_for_evaluation_are_disjoint() -> None:
    for name in ("jaywalk", "jaywalk@variation.kind=wide", "jaywalk@confederate_pace=3"):
        found = suite_of(load_world(name))
        assert found.train.step == found.evaluation.step == 1
        assert found.train.start >= found.evaluation.stop
        assert tuple(found.evaluation[:5]) == (0, 1, 2, 3, 4)


def test_one_id_for_one_suite_and_a_mixture_in_no_order() -> None:
    assert joint_id([PAPER, PAPER]) == PAPER
    assert joint_id([PAPER, WIDE]) == joint_id([WIDE, PAPER, PAPER])
    assert joint_id([PAPER, WIDE]).startswith("mixed:")


def test_the_benchmark_is_one_suite_with_the_seeds_it_always_had() -> None:
    suite = plan(policies=["lawful"])
    assert (suite.seeds, suite.suite_id(), suite.seed_set()) == (
        tuple(range(5)),
        PAPER,
        "evaluation",
    )
    wide = plan(with_variation(None, "wide"), ["lawful"], seeds=3)
    assert (wide.seeds, wide.suite_id()) == ((0, 1, 2), WIDE)
    assert len(wide.scenarios) == 6
    assert with_variation(["jaywalk@variation.kind=wide"], "paper") == [
        "jaywalk@variation.kind=paper"
    ]
    assert with_variation(["jaywalk"], "paper") == ["jaywalk"]


def test_training_seeds_are_marked() -> None:
    suite = with_seed_set(plan(["jaywalk"], ["lawful"], seeds=2), "train")
    assert suite.seeds == (1_000_000, 1_000_001)
    assert suite.seed_set() == "train"
    assert replace(suite, seeds=(0, 500_000)).seed_set() == "other"
    for call in (lambda: with_seed_set(suite, "test"), lambda: with_variation(None, "wider")):
        with pytest.raises(InvalidValueError, match=r"is '\w+'; allowed: "):
            call()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Smoke runs of one policy: as in the paper, wide, and on a training seed."""
    base = tmp_path_factory.mktemp("runs")
    paper = plan(["jaywalk"], ["lawful"], quick=True, controls=False)
    wide = plan(["jaywalk@variation.kind=wide"], ["lawful"], quick=True, controls=False)
    planned = {"paper": paper, "wide": wide, "train": with_seed_set(paper, "train")}
    for name, suite in planned.items():
        run_suite(suite, base / name)
    return {name: base / name for name in planned}


def test_every_result_carries_its_suite(runs: dict[str, Path]) -> None:
    for name, expected in (("paper", PAPER), ("wide", WIDE), ("train", PAPER)):
        run = runs[name]
        assert json.loads((run / "summary.json").read_text("utf-8"))["suite_id"] == expected
        manifest = json.loads((run / "manifest.json").read_text("utf-8"))
        assert manifest["suite_id"] == expected
        assert manifest["seed_set"] == ("train" if name == "train" else "evaluation")
        assert f"Suite: {expected}" in (run / "report.md").read_text("utf-8")
        assert f"Suite: {expected}" in (run / "report.html").read_text("utf-8")
        (log,) = (run / "episodes").glob("*.jsonl")
        assert next(read_log(log))["suite"] == expected
    assert "training seeds: " in (runs["train"] / "report.md").read_text("utf-8")
    assert "training seeds: " not in (runs["paper"] / "report.md").read_text("utf-8")


def test_runs_of_different_suites_are_not_reported_together(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(InvalidValueError, match=f"{PAPER}, the second of {WIDE}"):
        report_runs([runs["paper"], runs["wide"]], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_a_run_that_names_no_suite_stands_alone(runs: dict[str, Path], tmp_path: Path) -> None:
    old = tmp_path / "old"
    (old / "episodes").mkdir(parents=True)
    manifest = json.loads((runs["paper"] / "manifest.json").read_text("utf-8"))
    for key in ("suite_id", "suite_ids", "seed_set"):
        del manifest[key]
    (old / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(InvalidValueError, match=r"unknown suite.* play the older run again"):
        report_runs([runs["paper"], old], tmp_path / "both")
    summary, report = report_runs([old], tmp_path / "alone")
    assert summary["suite_id"] == "unknown suite"
    assert "Suite: unknown suite" in report.markdown()
