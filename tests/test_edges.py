"""Input at the edges: refused before anything changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voville_env
from voville_env.benchmarks.folder import MANIFEST, checked_manifest, planned_suite
from voville_env.benchmarks.sweep import plan_sweep
from voville_env.errors import InvalidValueError, LifecycleError, ScenarioError
from voville_env.scenario import load_world


@pytest.mark.parametrize(
    "window",
    [(1, 2.0, 5), (True, 0, 5), (1, "0", 5), (1, 5, 5), (3, 0, 5), (1, 0, 1001), (1, 2), 7],
)
def test_wrong_windows_are_refused(window: Any) -> None:
    with pytest.raises(InvalidValueError, match="window"):
        voville_env.parallel_env("jaywalk", window=window)
    env = voville_env.parallel_env("jaywalk", window=(1, 0, 2))
    env.reset(seed=1)
    with pytest.raises(InvalidValueError, match="window"):
        env.reset(seed=2, options={"window": window})
    assert env.seed == 1


def test_unknown_reset_options_are_named() -> None:
    env = voville_env.parallel_env("jaywalk", window=(1, 0, 2))
    with pytest.warns(UserWarning, match="did you mean 'window'"):
        env.reset(seed=0, options={"windw": None})


def test_idling_past_arrivals_is_refused() -> None:
    env = voville_env.parallel_env("jaywalk", window=(1, 0, 20), terminal_goal=True)
    env.reset(seed=0)
    with pytest.raises(LifecycleError, match="terminal_goal"):
        env.advance_idle(10)


def test_an_endless_phase_is_refused(tmp_path: Path) -> None:
    text = Path(load_world("fire_escape_officers").source).read_text("utf-8")
    path = tmp_path / "long.toml"
    path.write_text(
        text.replace('kind = "hold", ticks = 2', 'kind = "hold", ticks = 40000'), "utf-8"
    )
    with pytest.raises(ScenarioError, match=r"officers\.0\.script\.0\.ticks.*40000"):
        load_world(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('goal = "office_KQ"', 'goal = "office_CC"', "both use the place 'office_CC'"),
        ('goal = "office_KQ"', 'goal = "home_EY"', "both use the place 'home_EY'"),
        ("x = 16\ny = 29", "x = 16\ny = 25", "the post lies in the place 'home_CC'"),
    ],
)
def test_a_place_is_for_one_person(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = Path(load_world("jaywalk").source).read_text("utf-8")
    assert old in text
    path = tmp_path / "shared.toml"
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ScenarioError, match=words):
        load_world(path)


@pytest.mark.parametrize("days", [0, 3, -1])
def test_days_must_lie_in_the_scenario(days: int) -> None:
    with pytest.raises(InvalidValueError, match="days"):
        voville_env.parallel_env("jaywalk", days=days)


def test_numbers_of_any_width_mean_the_same() -> None:
    env = voville_env.parallel_env("fire_escape_control", window=(1, 0, 20))
    env.reset(seed=0)
    env.ignite(np.uint8(32), np.uint8(29))  # type: ignore[arg-type]
    assert env.sim.state[0].fire_tile[0] == 29 * 64 + 32
    env.set_signal("main_pine", red=np.uint8(200), green=np.uint8(100), green_start=100)  # type: ignore[arg-type]
    assert env.sim.state[0].signal_start[2] == 100


def test_a_refused_fire_leaves_nothing_behind() -> None:
    env = voville_env.parallel_env("fire_escape_control", window=(1, 0, 20))
    env.reset(seed=0)
    with pytest.raises(InvalidValueError, match="fire from tick"):
        env.ignite(32, 29, end=2**40)
    assert not env.sim.state[0].fire_severity.any()


@pytest.mark.parametrize("scenario", [5, None, b"jaywalk"])
def test_a_scenario_is_a_name_a_path_or_a_scenario(scenario: Any) -> None:
    with pytest.raises(InvalidValueError, match="scenario is"):
        voville_env.parallel_env(scenario)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("focus = [1, 50, 150]", "focus = [0, 50, 150]", "focus"),
        ("focus = [1, 50, 150]", "focus = [1, -5, 150]", "focus"),
        ("severity = 95", "severity = nan", "severity"),
        ("version = 1", "version = 1\nrewards = { progress = inf }", "progress"),
    ],
)
def test_numbers_in_files_are_finite_and_in_range(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    text = Path(load_world("fire_escape").source).read_text("utf-8")
    assert old in text
    path = tmp_path / "odd.toml"
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ScenarioError, match=words):
        load_world(path)


def test_a_base_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "child.toml"
    path.write_text('base = "../jaywalk"\n', "utf-8")
    with pytest.raises(ScenarioError, match="without folders"):
        load_world(path)


def test_early_crossings_are_kept_whatever_the_jitter(tmp_path: Path) -> None:
    text = Path(load_world("jaywalk").source).read_text("utf-8")
    path = tmp_path / "early.toml"
    path.write_text(text.replace("{ day = 1, tick = 30 }", "{ day = 1, tick = 1 }"), "utf-8")
    env = voville_env.parallel_env(path, window=(1, 0, 60))
    for seed in range(8):
        env.reset(seed=seed)
        assert (env.sim.state[0].crossing_tick[0, :4] >= 0).all()


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("suite", "seeds", "012", "key 'suite.seeds' is '012'"),
        ("suite", "seeds", ["0"], "key 'suite.seeds.0' is '0'"),
        ("suite", "seeds", [True], "key 'suite.seeds.0' is true"),
        ("suite", "seeds", [-1], "suite.seeds is .-1.; allowed: one or more from 0 on"),
        ("suite", "seeds", [0, 0], "suite.seeds is .0, 0.; allowed: one or more"),
        ("suite", "scenarios", [], "suite.scenarios is ..; allowed: one or more, each once"),
        ("suite", "policies", "pave", "key 'suite.policies' is 'pave'"),
        ("suite", "options", [], "key 'suite.options' is"),
        ("suite", "days", "1", "key 'suite.days' is '1'"),
        ("suite", "sedes", 1, "key of suite is 'sedes'; allowed: scenarios, policies, seeds"),
        ("sweep", "values", "3", "key 'sweep.values' is '3'"),
        ("sweep", "defaults", 3, "key 'sweep.defaults' is 3"),
        ("sweep", "metrics", ["cr"], "metric of sweep is 'cr'; allowed: those of docs/metrics.md"),
        ("sweep", "kind", "x", "sweep.kind is 'x'; allowed: policy, scenario"),
        ("", "suite", None, "key 'suite' is None"),
        ("", "versions", [], "key 'versions' is"),
        ("", "answered_by", "x", "key 'answered_by' is 'x'"),
        ("", "store", 5, "key 'store' is 5"),
    ],
)
def test_a_manifest_that_is_no_plan_is_one_clear_error(
    part: str, key: str, value: Any, words: str, tmp_path: Path
) -> None:
    suite = plan_sweep("peer_radius", "3", policies=["lawful"], seeds=1)
    text = checked_manifest(tmp_path / "run", suite, resume=False)
    (tmp_path / MANIFEST).write_text(text, "utf-8")
    assert planned_suite(tmp_path) == suite
    manifest = json.loads(text)
    (manifest[part] if part else manifest)[key] = value
    (tmp_path / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(
        InvalidValueError, match=r"manifest.json cannot be read as a plan: " + words
    ):
        planned_suite(tmp_path)


def test_a_manifest_is_an_object(tmp_path: Path) -> None:
    for text in ("[]", '[["suite", {}]]', "{"):
        (tmp_path / MANIFEST).write_text(text, "utf-8")
        with pytest.raises(InvalidValueError, match="cannot be read as a plan"):
            planned_suite(tmp_path)


@pytest.mark.slow
def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    code = "import voville_env; voville_env.parallel_env('jaywalk').reset(seed=0); print('fine')"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == "fine", done.stderr
        for path in tmp_path.rglob("step.run_batch*.nbi"):
            path.write_bytes(path.read_bytes()[:10])
