"""Recorded episodes: nothing is lost, the log is the benchmark's, a replay tells differences."""

from __future__ import annotations

import copy
import importlib
import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voville_env
from pave_policy.scripted import LawfulPolicy
from voville_env import testing
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.core.codes import Action
from voville_env.core.fields import FIELDS
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.events import dumps, read_log
from voville_env.metrics import metrics_of
from voville_env.parallel import VovilleEnv
from voville_env.wrappers.recorder import EpisodeRecorder
from voville_env.wrappers.recording import (
    RecordingError,
    VersionMismatchWarning,
    load_episode,
    replay,
)
from voville_env.wrappers.text import TextObservation

WINDOW = (1, 48, 60)
Edit = Callable[[dict[str, Any]], None]


def recorder(folder: Path, scenario: str = "fire_escape", **settings: Any) -> EpisodeRecorder:
    env = voville_env.parallel_env(scenario, window=WINDOW)
    return EpisodeRecorder(env, folder, **settings)


@pytest.fixture(scope="module")
def episode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded episode with observations and two interventions."""
    env = recorder(tmp_path_factory.mktemp("recorded"), "fire_escape_officers", observations=True)
    for step, _ in enumerate(testing.play(env, 5)):
        if step == 10:
            env.ignite(30, 30, severity=np.int64(60))
            env.set_signal(env.world.town.intersections[0].name, red=5, green=5, green_start=0)
        if step == 30:
            env.extinguish(30, 30)
    return env.files[0]


def test_everything_that_was_returned_is_in_the_file(episode: Path) -> None:
    read = load_episode(episode)
    assert read.steps == 48 and read.header["complete"] and read.header["seed"] == 5
    env = voville_env.parallel_env("fire_escape_officers", window=WINDOW)
    assert read.agents == tuple(env.possible_agents)
    assert read.header["scenario_hash"] == env.world.digest() == read.world().digest()
    assert set(read.observations) == {field.name for field in FIELDS}
    source = testing.ActionSource(env, 5)
    observations, infos = env.reset(seed=5)
    for step in range(read.steps):
        for k, agent in enumerate(read.agents):
            for name, value in observations[agent].items():
                assert (read.observations[name][step, k] == value).all()
        chosen = source(observations, infos)
        assert read.actions[step].tolist() == [chosen[agent] for agent in read.agents]
        observations, rewards, done, cut, infos = env.step(chosen)
        assert read.rewards[step].tolist() == list(rewards.values())
        assert read.terminated[step].tolist() == list(done.values())
        assert read.truncated[step].tolist() == list(cut.values())
        terms = np.array([info["reward_terms"] for info in infos.values()])
        assert (read.terms[step] == terms).all()
        if step == 9:
            env.ignite(30, 30, severity=60)
            env.set_signal(env.world.town.intersections[0].name, red=5, green=5, green_start=0)
        if step == 29:
            env.extinguish(30, 30)
    assert read.truncated[-1].all() and not read.truncated[:-1].any()


def test_a_replay_is_the_same_run(episode: Path) -> None:
    result = replay(episode)
    assert result and result.same and result.what == "" and result.versions == {}
    assert [change.method for change in load_episode(episode).interventions] == [
        *("ignite", "set_signal", "extinguish")
    ]


def test_the_hash_is_that_of_the_kit(tmp_path: Path) -> None:
    env = recorder(tmp_path)
    list(testing.play(env, 3))
    plain = voville_env.parallel_env("fire_escape", window=WINDOW)
    header = load_episode(env.files[0]).header
    assert header["trajectory_hash"] == testing.trajectory_hash(plain, 3)


@pytest.mark.parametrize("scenario", ["fire_escape_officers", "jaywalk"])
def test_the_log_is_the_benchmarks_own(scenario: str, tmp_path: Path) -> None:
    policy = LawfulPolicy()
    window = (1, 20, 70)
    player = EpisodePlayer(
        voville_env.parallel_env(scenario, window=window), policy, "lawful", seed=2
    )
    expected = list(player.records())
    env = EpisodeRecorder(
        voville_env.parallel_env(scenario, window=window), tmp_path, policy="lawful"
    )
    observations, infos = env.reset(seed=2)
    again = LawfulPolicy()
    again.reset(env.briefing())
    while env.agents:
        observations, _, _, _, infos = env.step(again.act(observations, infos))
    log = env.files[0].with_suffix(".jsonl")
    records = list(read_log(log))
    for key in ("policy_hash", "policy_settings"):
        expected[0].pop(key)
        records[0].pop(key)
    assert [dumps(r) for r in records] == [dumps(r) for r in expected]
    assert len(records) > 80
    assert metrics_of(log)["metrics"]["task_score"] is not None


def test_people_who_arrive_early_leave_and_the_rest_goes_on(tmp_path: Path) -> None:
    env = voville_env.parallel_env("fire_escape", window=(1, 50, 80), terminal_goal=True)
    taped = EpisodeRecorder(env, tmp_path, observations=True)

    def flee(observations: Any, infos: Any) -> dict[str, int]:
        rows = {agent: observations[agent]["routes"][5] for agent in taped.agents}
        return {agent: int(row[1]) if row[0] > 0 else 0 for agent, row in rows.items()}

    list(testing.play(taped, 0, None, flee))
    read = load_episode(taped.files[0])
    ends = read.terminated.argmax(axis=0)
    assert read.terminated.any() and len(set(ends.tolist())) > 1
    assert replay(taped.files[0])


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_in_mid_episode_writes_its_own_file(twin_of: Any, tmp_path: Path) -> None:
    env = recorder(tmp_path)
    frames = testing.play(env, 1)
    for _ in range(10):
        next(frames)
    twin = twin_of(env)
    for one in (env, twin):
        while one.agents:
            one.step(dict.fromkeys(one.agents, 0))
    assert env.files != twin.files
    assert load_episode(env.files[0]).header == load_episode(twin.files[0]).header
    assert replay(twin.files[0])
    assert not list(tmp_path.glob("*.part"))


def test_what_is_cut_short_is_kept_as_such(tmp_path: Path) -> None:
    env = recorder(tmp_path)
    env.reset(seed=1)
    env.reset(seed=1)  # nothing was played: nothing to keep
    assert env.files == []
    for _ in range(5):
        env.step(dict.fromkeys(env.agents, 0))
    env.close()
    env.close()
    assert [path.name for path in tmp_path.iterdir()] == ["fire_escape-1-0000-unfinished.npz"]
    read = load_episode(env.files[0])
    assert not read.header["complete"] and read.steps == 5 and replay(read)
    with pytest.raises(RecordingError, match="cut short"):
        list(read.log())


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "fire_escape-1-0001.npz.part").touch()  # somebody else is writing it
    for _ in range(2):
        list(testing.play(recorder(tmp_path, log=False), 1))
    names = sorted(path.name for path in tmp_path.glob("*.npz"))
    assert names == ["fire_escape-1-0000.npz", "fire_escape-1-0002.npz"]
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_scenario_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    world = voville_env.parallel_env("fire_escape", window=WINDOW).world
    odd = replace(world, scenario=world.scenario.model_copy(update={"name": "../a b/c"}))
    env = EpisodeRecorder(VovilleEnv(odd, window=WINDOW), tmp_path / "in", log=False)
    list(testing.play(env, 0))
    assert env.files == [tmp_path / "in" / ".._a_b_c-0-0000.npz"]


def edited(path: Path, folder: Path, edit: Edit) -> Path:
    """A copy of a recording with some arrays changed."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    edit(arrays)
    changed = folder / "edited.npz"
    np.savez(changed, **arrays)
    return changed


def header_edit(**changes: Any) -> Edit:
    def edit(arrays: dict[str, Any]) -> None:
        header = json.loads(arrays["header"].tobytes())
        header.update(changes)
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)

    return edit


def test_a_replay_names_the_first_difference(episode: Path, tmp_path: Path) -> None:
    def act(arrays: dict[str, Any]) -> None:
        arrays["actions"][20, 3] = (
            Action.WAIT if arrays["actions"][20, 3] else int(arrays["actions"][20, 3]) + 1
        )

    result = replay(edited(episode, tmp_path, act))
    assert not result and result.step is not None and result.step >= 21
    agent = load_episode(episode).agents[3]
    assert f"of agent {agent!r} after step {result.step} is" in result.what

    def no_changes(arrays: dict[str, Any]) -> None:
        header_edit(interventions=[])(arrays)

    result = replay(edited(episode, tmp_path, no_changes))
    assert not result and result.step is not None and result.step >= 11

    result = replay(edited(episode, tmp_path, header_edit(seed=6)))
    assert not result and result.step is not None
    result = replay(edited(episode, tmp_path, header_edit(scenario_hash="0" * 16)))
    assert result.step == 0 and "recorded was 0000" in result.what

    def forge(arrays: dict[str, Any]) -> None:
        arrays["digests"][5] = 0

    result = replay(edited(episode, tmp_path, forge))
    assert not result and "edited" in result.what

    def shorten(arrays: dict[str, Any]) -> None:
        for name in ("actions", "rewards", "terms", "terminated", "truncated"):
            arrays[name] = arrays[name][:-1]
        arrays["digests"] = arrays["digests"][:-1]
        kept = replace(load_episode(episode), digests=arrays["digests"])
        header_edit(trajectory_hash=kept.trajectory_hash())(arrays)

    result = replay(edited(episode, tmp_path, shorten))
    assert not result and "goes on" in result.what


def test_other_versions_are_announced(episode: Path, tmp_path: Path) -> None:
    versions = {**load_episode(episode).header["versions"], "numba": "0.1"}
    changed = edited(episode, tmp_path, header_edit(versions=versions))
    with pytest.warns(VersionMismatchWarning, match=r"numba 0\.1 then"):
        result = replay(changed)
    assert result.same and result.versions["numba"][0] == "0.1"


def test_what_is_no_recording_is_refused(episode: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no such file"):
        load_episode(tmp_path / "none.npz")
    broken = tmp_path / "broken.npz"
    for content in (b"", b"text", episode.read_bytes()[:3000]):
        broken.write_bytes(content)
        with pytest.raises(RecordingError, match="is no recorded episode"):
            load_episode(broken)
    with pytest.raises(RecordingError, match=r"has format 9; allowed: 1"):
        load_episode(edited(episode, tmp_path, header_edit(format=9)))
    with pytest.raises(RecordingError, match="lacks rewards"):
        load_episode(edited(episode, tmp_path, lambda arrays: arrays.pop("rewards")))

    def cut(arrays: dict[str, Any]) -> None:
        arrays["rewards"] = arrays["rewards"][:-1]

    with pytest.raises(RecordingError, match="rewards has shape"):
        load_episode(edited(episode, tmp_path, cut))
    with broken.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(RecordingError, match="is no recorded episode"):
        load_episode(broken)
    np.savez(broken, header=np.array([object()]))
    with pytest.raises(RecordingError, match="is no recorded episode"):
        load_episode(broken)


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = recorder(tmp_path)
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, 0))

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space"):
        env.close()
    assert list(tmp_path.iterdir()) == []


def test_the_kit_finds_nothing_wrong(tmp_path: Path) -> None:
    def make() -> EpisodeRecorder:
        env = voville_env.parallel_env("jaywalk", window=(1, 28, 33))
        return EpisodeRecorder(env, tmp_path)

    testing.check_environment(make, steps=10, skip=["processes"])


def test_parallel_api(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        # Where pygame is installed, PettingZoo's tests import a game of its own by its old name.
        warnings.simplefilter("ignore", DeprecationWarning)
        official: Any = importlib.import_module("pettingzoo.test")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="reset option")
        official.parallel_api_test(recorder(tmp_path), num_cycles=60)


def test_views_that_are_overwritten_and_other_wrappers_change_nothing(tmp_path: Path) -> None:
    hashes = set()
    for number, copies in enumerate((True, False)):
        env = voville_env.parallel_env("fire_escape", window=WINDOW, copy=copies)
        taped = EpisodeRecorder(env, tmp_path / str(number), observations=True)
        list(testing.play(TextObservation(taped), 4))
        read = load_episode(taped.files[0])
        hashes.add(read.trajectory_hash())
        assert len(np.unique(read.observations["self"][:, 0, 3])) > 10
        assert replay(read)
    assert len(hashes) == 1


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    env = voville_env.parallel_env("jaywalk", window=WINDOW)
    with pytest.raises(InvalidValueError, match="record the town itself"):
        EpisodeRecorder(TextObservation(env), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="log is 1"):
        EpisodeRecorder(env, tmp_path, log=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="policy is ''"):
        EpisodeRecorder(env, tmp_path, policy="")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidValueError, match="folder is"):
        EpisodeRecorder(env, tmp_path / "file")
    taped = EpisodeRecorder(env, tmp_path)
    taped.reset(seed=0)
    with pytest.raises(LifecycleError, match="advance_idle"):
        taped.advance_idle(50)
    with pytest.raises(LifecycleError, match="takes the events"):
        taped.drain_events()
    with pytest.raises(InvalidValueError):
        taped.ignite(0, 0, severity=1000)
    while taped.agents:
        taped.step(dict.fromkeys(taped.agents, 0))
    assert replay(taped.files[0]) and not load_episode(taped.files[0]).interventions


def test_the_example_runs(repository: Path, tmp_path: Path) -> None:
    script = repository / "docs" / "examples" / "record_episode.py"
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the same run: True" in done.stdout


def test_the_snippet_of_the_documentation_runs(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "wrappers.md").read_text("utf-8").partition("## Episode recorder")
    snippet = page[2].partition("```python\n")[2].partition("```")[0]
    command = [sys.executable, "-W", "error", "-c", snippet]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "(16, 10, 5) True\n"), done.stderr
