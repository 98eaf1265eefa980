"""Text observations: bounds that hold, the same run below, and the habits of a wrapper."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import voville_env
from voville_env import testing
from voville_env.core.codes import Action
from voville_env.core.fields import FIELDS
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.observation import build_space, narrate
from voville_env.wrappers.gymnasium_single import VovilleGymEnv
from voville_env.wrappers.text import (
    CHARSET,
    SingleTextObservation,
    TextObservation,
    longest_observation,
    max_length,
)

WINDOW = (1, 48, 56)
with warnings.catch_warnings():
    # Where pygame is installed, PettingZoo's tests import a game of its own by its old name.
    warnings.simplefilter("ignore", DeprecationWarning)
    official: Any = importlib.import_module("pettingzoo.test")


def town() -> TextObservation:
    return TextObservation(voville_env.parallel_env("fire_escape_officers", window=WINDOW))


def town_with_masks() -> TextObservation:
    env = voville_env.parallel_env("jaywalk", window=(1, 28, 34))
    return TextObservation(env, mask="observation", history=2)


def alone() -> VovilleGymEnv:
    return VovilleGymEnv("fire_escape", agent="CC", others="wait", window=WINDOW)


def candidates(low: int, high: int) -> list[int]:
    """All values of a small range; of a large one, those at which the count of digits changes."""
    if high - low <= 130:
        return list(range(low, high + 1))
    edges = [0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10000]
    return [value for value in (low, *edges, high) if low <= value <= high]


def test_no_observation_is_longer_than_the_longest() -> None:
    longest = longest_observation()
    assert build_space().contains(longest)
    assert len(narrate(longest)) == max_length()
    for field in FIELDS:
        low, high = field.bounds()
        for index in np.ndindex(field.shape):
            if field.name == "tiles" or (field.rows and index[0]):
                continue  # one sign a tile; all rows of a table are told alike
            kept = longest[field.name][index]
            for value in candidates(int(low[index]), int(high[index])):
                column = field.columns[index[-1]].name
                if (field.name, column, value) == ("situational_cues", "severity", 0):
                    continue  # a cue has a severity
                longest[field.name][index] = value
                assert len(narrate(longest)) <= max_length(), (field.name, column, value)
            longest[field.name][index] = kept


def test_any_member_of_the_space_is_told_within_the_bounds() -> None:
    space = build_space()
    space.seed(0)
    text = spaces.Text(max_length=max_length(), charset=CHARSET)
    for _ in range(100):
        native: Any = space.sample()
        native["situational_cues"][:, 2] = np.maximum(native["situational_cues"][:, 2], 1)
        native["tiles"] &= 0xF0  # of the four bits of terrain not every value has a meaning
        assert text.contains(narrate(native))


def test_the_stated_length_is_documented(repository: Path) -> None:
    page = (repository / "docs" / "wrappers.md").read_text("utf-8")
    assert f"{max_length():,} characters" in page


@pytest.mark.parametrize("make", [town, town_with_masks])
def test_the_kit_finds_nothing_wrong(make: Any) -> None:
    results = testing.check_environment(make, steps=10, skip=["processes"])
    assert {r.name for r in results if r.outcome == "skipped"} == {"processes"}


@pytest.mark.parametrize("make", [town, town_with_masks])
def test_parallel_api(make: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="reset option")
        official.parallel_api_test(make(), num_cycles=60)


def test_the_text_is_the_narration_of_the_same_run() -> None:
    env, plain = town(), voville_env.parallel_env("fire_escape_officers", window=WINDOW)
    frames = testing.play(env, 7), testing.play(plain, 7)
    count = 0
    for told, native in zip(*frames, strict=True):
        count += 1
        for agent, observation in native.observations.items():
            assert told.observations[agent] == narrate(observation)
            mask = told.infos[agent]["action_mask"]
            assert mask.tolist() == observation["action_mask"].tolist()
        assert told[1:4] == native[1:4]
    assert count == 33


def test_history_tells_the_last_steps_and_what_was_chosen() -> None:
    plain = voville_env.parallel_env("jaywalk", window=(1, 28, 34))
    env = TextObservation(
        voville_env.parallel_env("jaywalk", window=(1, 28, 34)), mask="observation", history=2
    )
    told, _ = env.reset(seed=1)
    agent = env.agents[0]
    now = [narrate(plain.reset(seed=1)[0][agent])]
    assert told[agent]["text"] == f"Now:\n{now[0]}"
    for action in (Action.WAIT, Action.MOVE_E, Action.MOVE_W):
        told = env.step(dict.fromkeys(env.agents, action))[0]
        now.append(narrate(plain.step(dict.fromkeys(plain.agents, int(action)))[0][agent]))
    assert told[agent]["text"] == (
        f"2 steps ago, before you chose MOVE_E:\n{now[1]}\n\n"
        f"1 step ago, before you chose MOVE_W:\n{now[2]}\n\nNow:\n{now[3]}"
    )
    assert env.observe(agent)["text"] == told[agent]["text"]
    again, _ = env.reset(seed=1)
    assert again[agent]["text"] == f"Now:\n{now[0]}"


def test_the_longest_history_fits_its_space() -> None:
    env = TextObservation(voville_env.parallel_env("jaywalk"), history=12)
    agent = env.possible_agents[0]
    env.begin([agent])
    for _ in range(14):
        env.note(agent, longest_observation(), int(Action.CROSS_N))
    text = env.translate(agent, longest_observation())
    assert len(text) == max_length(12)
    assert env.observation_space(agent).contains(text)


def test_waiting_and_attributes_are_forwarded() -> None:
    env = TextObservation(voville_env.parallel_env("jaywalk", render_mode="ansi"))
    env.reset(seed=0, options={"window": [1, 10, 40]})
    told, steps = env.advance_idle(11)
    assert steps > 0 and told[env.agents[0]].startswith("Day 1, tick 1")
    drawn: Any = env.render()
    assert "\n" in drawn and env.render_mode == "ansi"
    assert env.world.scenario.name == "jaywalk"
    assert env.unwrapped is env.env
    env.close()
    assert env.agents == []


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_on_alike(twin_of: Any) -> None:
    env = town_with_masks()
    list(testing.play(env, 3, 5))
    twin = twin_of(env)
    for _ in range(5):
        idle = dict.fromkeys(env.agents, 0)
        assert testing.digest_of(env.step(idle)) == testing.digest_of(twin.step(idle))


def test_wrong_arguments_are_refused() -> None:
    env = voville_env.parallel_env("jaywalk")
    with pytest.raises(InvalidValueError, match=r"mask is 'inof'; .*did you mean 'info'"):
        TextObservation(env, mask="inof")  # type: ignore[arg-type]
    for history in (-1, 101, 1.0, True):
        with pytest.raises(InvalidValueError, match=r"history is .* 0 to 100"):
            TextObservation(env, history=history)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="allowed: a Dict with the town's fields"):
        TextObservation(TextObservation(env))
    with pytest.raises(InvalidValueError, match="ParallelEnv"):
        TextObservation("jaywalk")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="agent is 'CQ'"):
        TextObservation(voville_env.parallel_env()).observation_space("CQ")


def test_one_person_reads_the_same() -> None:
    env = SingleTextObservation(alone(), history=1)
    with pytest.raises(LifecycleError, match="reset"):
        env.action_masks()
    plain = alone()
    text, info = env.reset(seed=4)
    native, _ = plain.reset(seed=4)
    assert text == f"Now:\n{narrate(native)}"
    before = narrate(native)
    for _ in range(6):
        action = int(np.flatnonzero(env.action_masks())[-1])
        text, reward, done, cut, info = env.step(action)
        native, *outcome = plain.step(action)
        head = f"1 step ago, before you chose {Action(action).name}:"
        assert text == f"{head}\n{before}\n\nNow:\n{narrate(native)}"
        assert env.observation_space.contains(text)
        assert [reward, done, cut] == outcome[:3]
        assert info["action_mask"].tolist() == native["action_mask"].tolist()
        before = narrate(native)
    assert env.get_wrapper_attr("agent") == "CC"
    with pytest.raises(InvalidValueError, match="observation space of env"):
        SingleTextObservation(gymnasium.make("CartPole-v1"))


def test_the_example_runs(repository: Path, tmp_path: Path) -> None:
    script = repository / "docs" / "examples" / "text_agent.py"
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "safe zone" in done.stdout
