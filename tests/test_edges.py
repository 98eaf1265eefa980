"""Input at the edges: refused before anything changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import voville_env
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


def test_one_tile_is_the_goal_of_one_person(tmp_path: Path) -> None:
    text = Path(load_world("jaywalk").source).read_text("utf-8")
    path = tmp_path / "shared.toml"
    path.write_text(text.replace('goal = "office_KQ"', 'goal = "office_CC"'), "utf-8")
    with pytest.raises(ScenarioError, match="both have the goal 'office_CC'"):
        load_world(path)


@pytest.mark.parametrize("days", [0, 3, -1])
def test_days_must_lie_in_the_scenario(days: int) -> None:
    with pytest.raises(InvalidValueError, match="days"):
        voville_env.parallel_env("jaywalk", days=days)
