"""Training: it repeats, saves what plays alike everywhere, resumes, and sweeps penalties."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pave_policy.commands.train import train_app
from pave_policy.commands.training import learn as learning
from pave_policy.commands.training.config import TrainConfig, make_config
from pave_policy.commands.training.environment import make_env
from pave_policy.commands.training.learn import train
from pave_policy.commands.training.record import CHECKPOINTS, CONFIG, CURVE, read_curve
from pave_policy.commands.training.tally import COLUMNS, TERMS
from pave_policy.rl.policy import PPOPolicy
from pave_policy.rl.weight_file import load_weights
from voville_env.errors import InvalidValueError
from voville_env.flat import FLAT_SIZE
from voville_env.scenario import load_world
from voville_env.scenario.suites import suite_of

pytestmark = pytest.mark.learning
for library in ("torch", "stable_baselines3", "sb3_contrib"):
    pytest.importorskip(library)

SMALL: dict[str, Any] = {
    "algorithm": "maskable-ppo",
    "envs": 2,
    "seed": 3,
    "total_steps": 320,
    "windows": ((1, 28, 32),),
    "checkpoint_steps": 160,
    "curve_steps": 20,
    "learning": {"rollout_steps": 8, "batch_size": 32, "epochs": 2, "hidden": (8, 8)},
}
OBSERVE = """
import sys, numpy as np
from pave_policy.rl.weight_file import load_weights
from voville_env.flat import FLAT_SIZE
flat = np.random.default_rng(0).uniform(-1, 1, (50, FLAT_SIZE)).astype(np.float32)
print(load_weights(sys.argv[1]).network.logits(flat).argmax(1).tolist())
"""


def small(**changes: Any) -> TrainConfig:
    return make_config("jaywalk", "wide", **{**SMALL, **changes})


def flats() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (50, FLAT_SIZE)).astype(np.float32)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("training") / "first"
    train(small(), out, "voville train maskable-ppo")
    return out


def test_a_training_leaves_all_that_says_what_it_was(trained: Path) -> None:
    metadata = load_weights(trained / "weights.npz").metadata
    suite = suite_of(load_world(metadata.scenario))
    assert metadata.scenario == "jaywalk@variation.kind=wide"
    assert metadata.plays == ["jaywalk", "jaywalk_control"]
    assert (metadata.suite, metadata.total_steps) == (suite.id, 320)
    assert metadata.train_seeds == [suite.train.start, suite.train.stop]
    assert metadata.command == "voville train maskable-ppo"
    assert metadata.settings["learning"]["hidden"] == [8, 8]
    rows = read_curve(trained / CURVE)
    assert rows and rows == metadata.curve
    for row in rows:
        assert tuple(row) == COLUMNS
        weights = metadata.rewards
        parts = sum((row[name] or 0) * weights[name] for name in TERMS)
        assert row["return"] == pytest.approx(parts, abs=1e-4)
        assert row["time"] == pytest.approx(16, abs=16)
    assert json.loads((trained / CONFIG).read_text())["seed"] == 3
    names = sorted(item.name for item in (trained / CHECKPOINTS).iterdir())
    assert names == [f"{n:012d}.{kind}" for n in (160, 320) for kind in ("npz", "zip")]


def test_a_training_repeats_exactly(trained: Path, tmp_path: Path) -> None:
    train(small(), tmp_path / "again", "voville train maskable-ppo")
    first, again = (trained / "weights.npz").read_bytes(), tmp_path / "again" / "weights.npz"
    assert first == again.read_bytes()
    train(small(seed=4), tmp_path / "other", "voville train maskable-ppo")
    other = load_weights(tmp_path / "other" / "weights.npz").network
    mine = load_weights(trained / "weights.npz").network
    assert not np.array_equal(other.layers[0].weight, mine.layers[0].weight)


def test_episodes_are_played_on_training_seeds_alone() -> None:
    config = small(windows=((1, 28, 32), (2, 100, 101)), envs=5)
    env, batches = make_env(config)
    assert [batch.num_envs for batch in batches] == [3, 2]
    assert env.num_envs == 50
    suite = suite_of(load_world(config.scenario))
    env.seed(0)
    env.reset()
    seen = set()
    for _ in range(18):
        seen |= {int(seed) for batch in batches for seed in batch.episode_seeds}
        env.step(np.zeros(50, np.int64))
    assert len(seen) > 8
    assert all(seed in suite.train and seed not in suite.evaluation for seed in seen)


def test_windows_are_slots_of_one_environment_and_settled_people_only_wait() -> None:
    from sb3_contrib.common.maskable.utils import get_action_masks

    env, batches = make_env(small(windows=((1, 28, 32), (2, 100, 101)), envs=2))
    env.seed(0)
    env.reset()
    names = [name for batch in batches for name in batch.agents]
    assert env.get_attr("agent") == names
    assert env.get_attr("agent", [0, 19, 10]) == [names[0], names[19], names[10]]
    assert env.env_is_wrapped(object) == [False] * 20
    masks = get_action_masks(env)
    assert masks.shape == (20, 10)
    assert masks[:, 0].all()
    own = np.concatenate([batch.sim.observations["self"].reshape(-1, 12) for batch in batches])
    idle = own[:, 8] == 1
    assert idle.sum() > 10, "most people have no errand then"
    assert (masks[idle].sum(axis=1) == 1).mean() > 0.5
    assert (masks[~idle].sum(axis=1) > 1).all()
    np.testing.assert_array_equal(env.env_method("action_masks", indices=[13])[0], masks[13])


@pytest.mark.parametrize("algorithm", ["ppo", "maskable-ppo"])
def test_numpy_plays_what_the_learner_learned(algorithm: str, tmp_path: Path) -> None:
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO

    out = tmp_path / algorithm
    config = small(algorithm=algorithm, learning={**SMALL["learning"], "activation": "relu"})
    train(config, out, "x")
    kind: Any = PPO if algorithm == "ppo" else MaskablePPO
    model = kind.load(out / "model.zip", device="cpu")
    with torch.no_grad():
        latent = model.policy.mlp_extractor.forward_actor(torch.as_tensor(flats()))
        theirs = model.policy.action_net(latent).numpy()
    for name in ("weights.npz", "model.zip"):
        mine = load_weights(out / name).network.logits(flats())
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
        assert (mine.argmax(1) == theirs.argmax(1)).all()
    chosen, _ = model.predict(flats(), deterministic=True)
    assert (theirs.argmax(1) == chosen).all()


def test_a_checkpoint_plays_the_same_in_a_new_process(trained: Path) -> None:
    for name in ("weights.npz", "model.zip"):
        path = trained / name
        done = subprocess.run(
            [sys.executable, "-c", OBSERVE, str(path)], capture_output=True, text=True, check=True
        )
        here = load_weights(path).network.logits(flats()).argmax(1).tolist()
        assert json.loads(done.stdout) == here


def test_a_checkpoint_of_the_learner_is_never_unpickled(trained: Path, tmp_path: Path) -> None:
    """Its `data` is full of pickles; only the tensors and the words beside them are read."""
    import zipfile

    source = zipfile.ZipFile(trained / "model.zip")
    with zipfile.ZipFile(tmp_path / "bare.zip", "w") as archive:
        archive.writestr("policy.pth", source.read("policy.pth"))
        archive.writestr("data", json.dumps({}))
    bare = PPOPolicy(path=str(tmp_path / "bare.zip"))
    assert bare.settings()["weights"] != PPOPolicy(path=str(trained / "model.zip")).settings()


def test_a_training_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def stop(steps: int, row: object) -> None:
        if steps >= 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small(), out, "x", progress=stop)
    assert load_weights(out / "weights.npz").metadata.total_steps == 200
    told: list[int] = []
    train(small(), out, "x", resume=True, progress=lambda steps, row: told.append(steps))
    assert told[0] == 220
    found = load_weights(out / "weights.npz").metadata
    assert found.total_steps >= 320
    steps = [row["steps"] or 0 for row in found.curve]
    assert steps == sorted(set(steps))
    with pytest.raises(InvalidValueError, match="not empty"):
        train(small(), out, "x")
    with pytest.raises(InvalidValueError, match="no checkpoint"):
        train(small(), tmp_path / "none", "x", resume=True)


def test_torch_is_left_as_it_was(tmp_path: Path) -> None:
    import torch

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with learning.repeatable(1):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 1
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_the_command_line_trains_resumes_and_sweeps(tmp_path: Path) -> None:
    runner = CliRunner()
    out = tmp_path / "ppo"
    options = ["--scenario", "fire_escape_officers", "--envs", "2", "--window", "1:60:62"]
    options += ["--set", "rollout_steps=4", "--set", "batch_size=16", "--set", "hidden=[4]"]
    wanted = ["--total-steps", "160", "--reward", "harm=-1", "--out"]
    done = runner.invoke(train_app, ["ppo", *options, *wanted, str(out), "--tensorboard"])
    assert done.exit_code == 0, done.output
    metadata = load_weights(out / "weights.npz").metadata
    assert (metadata.rewards["harm"], metadata.rewards["time"]) == (-1, -0.002)
    assert list((out / "tensorboard").rglob("events*"))
    again = ["ppo", "--resume", "--out", str(out), "--total-steps", "240"]
    assert runner.invoke(train_app, again).exit_code == 0
    assert load_weights(out / "weights.npz").metadata.total_steps == 240
    refused = runner.invoke(train_app, [*again, "--envs", "4"])
    assert "--envs cannot change" in str(refused.exception)
    study = tmp_path / "study"
    words = ["penalty-sweep", *options, "--total-steps", "80", "--sanctions", "0,-1"]
    for _ in range(2):
        done = runner.invoke(
            train_app, [*words, "--seeds", "2", "--trainings", "2", "--out", str(study)]
        )
        assert done.exit_code == 0, done.output
    rows = (study / "penalty.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 2 * 2
    assert (study / "sanction_-1.0" / "seed_1" / "weights.npz").exists()
