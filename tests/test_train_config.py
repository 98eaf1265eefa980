"""What a training may be set to, without the libraries that it needs, and what it counts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pave_policy.commands.train import fresh_folder, train_app
from pave_policy.commands.training.config import (
    load_config,
    make_config,
    named,
    read_window,
    world_of,
    write_config,
)
from pave_policy.commands.training.learn import need_libraries
from pave_policy.commands.training.record import last_checkpoint, read_curve, write_curve
from pave_policy.commands.training.tally import COLUMNS, Tally, point
from voville_env.errors import InvalidValueError, MissingExtraError
from voville_env.scenario import load_world
from voville_env.scenario.suites import suite_of


def test_rewards_become_keys_of_the_scenario_and_leave_the_suite() -> None:
    config = make_config("fire_escape", "wide", rewards={"harm": -1, "sanction": -3.0})
    assert config.scenario == "fire_escape@variation.kind=wide"
    assert config.rewarded == (
        "fire_escape@rewards.harm=-1.0,rewards.sanction=-3.0,variation.kind=wide"
    )
    world = world_of(config)
    assert (world.scenario.rewards.harm, world.scenario.rewards.time) == (-1, -0.002)
    assert suite_of(world) == suite_of(load_world("fire_escape@variation.kind=wide"))
    assert named("fire_escape", "paper") == "fire_escape"


def test_the_window_is_the_focus_unless_given() -> None:
    spec = load_world("jaywalk").scenario
    assert spec.variation.focus is not None
    assert make_config("jaywalk", "wide").windows == (spec.variation.focus,)
    assert make_config("jaywalk", "paper").windows == (spec.focus,)
    assert make_config("jaywalk", "wide", windows=((2, 0, 5),)).windows == ((2, 0, 5),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": {"harms": 1}}, "rewards has no 'harms'; allowed: .* did you mean 'harm'"),
        ({"learning": {"gama": 1}}, "learning has no 'gama'; allowed: .* did you mean 'gamma'"),
        ({"learning": {"gamma": 2}}, "learning.gamma is 2"),
        ({"total_steps": 0}, "total_steps is 0"),
        ({"envs": 1, "windows": ((1, 0, 5), (1, 0, 6))}, "one a window"),
        ({"windows": ((3, 0, 5),)}, "window is 3:0:5; allowed: day 1 to 2"),
        ({"windows": ((1, 5, 5),)}, "window is 1:5:5; allowed"),
    ],
)
def test_what_is_not_allowed_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        make_config("jaywalk", "wide", **changes)


@pytest.mark.parametrize("text", ["1:2", "a:b:c", "1:-2:3", "1:2:3:4", ""])
def test_a_window_is_three_numbers(text: str) -> None:
    assert read_window("1:50:150") == (1, 50, 150)
    with pytest.raises(InvalidValueError, match="day:start:end"):
        read_window(text)


def test_a_configuration_comes_back_as_it_was(tmp_path: Path) -> None:
    config = make_config("jaywalk", "paper", envs=7, learning={"hidden": [8]})
    write_config(tmp_path / "config.json", config, "voville train ppo")
    assert load_config(tmp_path / "config.json") == (config, "voville train ppo")
    for text in ("", "[]", "{}", '{"command": "x", "envs": 0}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(InvalidValueError, match=r"config\.json"):
            load_config(tmp_path / "config.json")
    with pytest.raises(InvalidValueError, match="no training"):
        load_config(tmp_path / "none.json")


def own(goal: int, at_goal: int, escaping: int = 0, environments: int = 1) -> Any:
    row = np.zeros((environments, 1, 12), np.int16)
    row[..., 5], row[..., 8], row[..., 11] = goal, at_goal, escaping
    return row


def terms(arrived: float = 0, progress: float = 1) -> Any:
    return np.array([[[progress, arrived, 0, 0, 1]]], np.float32)


def test_returns_terms_and_goals_are_counted_apart() -> None:
    tally, no, yes = Tally(), np.array([False]), np.array([True])
    tally.begin(own(5, 0))  # a goal with the first tick
    reward = np.array([[0.5]], np.float32)
    tally.note(own(5, 1), reward, terms(1), no)
    tally.note(own(5, 1), reward, terms(), no)
    tally.note(own(9, 0), reward, terms(), no)  # another
    tally.note(own(9, 0), reward, terms(), no)
    tally.note(own(9, 0, 1), reward, terms(), no)  # flight
    tally.note(own(4, 0, 1), reward, terms(), no)  # an errand that falls due in it is none
    assert point([tally], 70) is None, "no episode has ended"
    tally.note(own(3, 0), reward, terms(progress=-2), yes)
    row = point([tally], 80)
    assert row is not None
    assert tuple(row) == COLUMNS
    assert (row["steps"], row["episodes"], row["return"]) == (80, 1, 3.5)
    assert (row["progress"], row["arrival"], row["time"]) == (4, 1, 7)
    assert row["given"] == 3
    assert row["success"] == pytest.approx(1 / 3, abs=1e-6)
    assert point([tally], 90) is None
    tally.note(own(3, 1), reward, terms(), yes)
    after = point([tally], 90)
    assert after is not None
    assert (after["return"], after["given"], after["success"]) == (0.5, 1, 0)


def test_windows_count_alike_however_many_episodes_each_has_had() -> None:
    first, second, yes = Tally(), Tally(), np.array([True])
    for tally in (first, second):
        tally.begin(own(3, 1))
    for _ in range(3):
        first.note(own(3, 1), np.array([[1.0]]), terms(), yes)
    assert point([first, second], 10) is None, "the other window has not been seen yet"
    second.note(own(3, 1), np.array([[5.0]]), terms(), yes)
    row = point([first, second], 20)
    assert row is not None
    assert (row["return"], row["success"]) == (3, None)


def test_a_curve_comes_back_as_it_was(tmp_path: Path) -> None:
    rows: list[dict[str, float | None]] = [
        dict.fromkeys(COLUMNS, 0.5) | {"steps": 100, "success": None}
    ]
    write_curve(tmp_path / "curve.csv", rows)
    assert read_curve(tmp_path / "curve.csv") == rows
    assert read_curve(tmp_path / "none.csv") == []
    (tmp_path / "curve.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidValueError, match="no learning curve"):
        read_curve(tmp_path / "curve.csv")


def test_the_last_checkpoint_is_found(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    (tmp_path / "checkpoints").mkdir()
    for name in ("000000000020.zip", "000000000100.zip", "part-000000000200.zip"):
        (tmp_path / "checkpoints" / name).touch()
    found = last_checkpoint(tmp_path)
    assert found is not None and found.name == "000000000100.zip"
    (tmp_path / "model.zip").touch()
    assert last_checkpoint(tmp_path) == tmp_path / "model.zip"


def test_folders_are_numbered(tmp_path: Path) -> None:
    first = fresh_folder(tmp_path, "ppo-jaywalk@a=1")
    first.mkdir()
    assert first.name.endswith("-001")
    assert fresh_folder(tmp_path, "ppo-jaywalk@a=1").name.endswith("-002")


@pytest.mark.parametrize("missing", ["torch", "sb3_contrib", "tensorboard"])
def test_a_missing_library_names_its_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else object()
    )
    monkeypatch.setattr(
        "pave_policy.commands.training.learn.find_spec",
        lambda name: None if name == missing else object(),
    )
    with pytest.raises(MissingExtraError, match=missing):
        need_libraries(tensorboard=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ppo", "--window", "1:2"], "window is '1:2'"),
        (["ppo", "--resume"], "--resume needs --out"),
        (["ppo", "--resume", "--out", "nowhere"], "no training in 'nowhere'"),
        (["penalty-sweep", "--sanctions", "0,a"], "--sanctions has 'a'"),
        (["penalty-sweep", "--sanctions", "0,0"], "0 twice"),
    ],
)
def test_wrong_options_are_refused_before_anything_begins(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(train_app, words)
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []
