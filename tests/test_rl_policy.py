"""Trained policies in play: weight files, the forward pass, draws that repeat, names with paths."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rl_kit import network, weights_file

import voville_env
from pave_policy.commands.training.record import read_curve
from pave_policy.rl import settled as settling
from pave_policy.rl.network import ACTIONS, Activation, greedy, lots, sample
from pave_policy.rl.policy import PPOPolicy, shipped
from pave_policy.rl.weight_file import METADATA, Metadata, load_weights, save_weights
from voville_env.benchmarks.play import EpisodePlayer, policy_hash
from voville_env.benchmarks.suite import SCENARIOS, plan, slug
from voville_env.core.fields import column_index
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.flat import FLAT_SIZE
from voville_env.parallel import VovilleEnv
from voville_env.policy import load_policy, settable
from voville_env.scenario import load_world
from voville_env.scenario.suites import suite_of

WINDOW = (1, 50, 58)


def played(policy: PPOPolicy, seed: int = 0, scenario: str = "fire_escape") -> list[str]:
    env = VovilleEnv(scenario, window=WINDOW)
    records = EpisodePlayer(env, policy, "ppo", seed).records()
    return [record["a"] for record in records if record["type"] == "actions"]


@pytest.mark.parametrize("activation", list(Activation))
def test_the_forward_pass_is_that_of_a_perceptron(activation: Activation) -> None:
    made = network(3, (5, 4), activation)
    flat = np.random.default_rng(1).uniform(-1, 1, (7, FLAT_SIZE)).astype(np.float32)
    function = np.tanh if activation is Activation.TANH else lambda x: np.maximum(x, 0)
    wide = flat.astype(np.float64)
    for layer in made.layers[:-1]:
        wide = function(wide @ layer.weight.T.astype(np.float64) + layer.bias)
    wide = wide @ made.layers[-1].weight.T.astype(np.float64) + made.layers[-1].bias
    found = made.logits(flat)
    assert found.dtype == np.float32
    assert found.shape == (7, ACTIONS)
    np.testing.assert_allclose(found, wide, atol=1e-4)
    assert (made.size, made.hidden) == (FLAT_SIZE, (5, 4))


def test_draws_follow_the_distribution_and_the_mask() -> None:
    draws = 40_000
    logits = np.tile(np.log(np.arange(1, 11, dtype=np.float32)), (draws, 1))
    masks = np.ones((draws, ACTIONS), np.bool_)
    masks[:, [0, 4, 9]] = False
    agents = np.arange(draws, dtype=np.uint64)
    chosen = sample(logits, masks, lots(5, agents, np.zeros_like(agents)))
    wanted = np.where(masks[0], np.arange(1, 11), 0) / np.arange(1, 11)[masks[0]].sum()
    np.testing.assert_allclose(np.bincount(chosen, minlength=10) / draws, wanted, atol=0.01)
    assert set(greedy(logits, masks)) == {8}


@pytest.mark.parametrize("lot", [0.0, 0.5, 1 - 2**-53])
def test_a_lone_possible_action_is_chosen_whatever_the_lot(lot: float) -> None:
    logits = np.full((ACTIONS, ACTIONS), -1e30, np.float32)
    logits[:, 3] = 50
    masks = np.eye(ACTIONS, dtype=np.bool_)
    assert sample(logits, masks, np.full(ACTIONS, lot)).tolist() == list(range(ACTIONS))
    assert greedy(logits, masks).tolist() == list(range(ACTIONS))


def test_a_lot_depends_on_seed_agent_and_time() -> None:
    agents = np.arange(10, dtype=np.uint64)
    found = [lots(seed, agents, np.full(10, when, np.uint64)) for seed in (1, 2) for when in (7, 8)]
    assert len(np.unique(found)) == 40
    again = lots(1, agents[3:4], np.array([7], np.uint64))
    assert again[0] == found[0][3], "alone or in company"
    assert 0.4 < float(np.mean(found)) < 0.6


def test_a_file_comes_back_as_it_was_and_its_bytes_repeat(tmp_path: Path) -> None:
    metadata = Metadata(scenario="jaywalk", rewards={"harm": -1.0}, curve=[{"steps": 1.0}])
    for name in ("a.npz", "b.npz"):
        save_weights(tmp_path / name, network(), metadata)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    found = load_weights(tmp_path / "a.npz")
    assert found.metadata == metadata
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.npz", "b.npz"]
    for mine, theirs in zip(found.network.layers, network().layers, strict=True):
        np.testing.assert_array_equal(mine.weight, theirs.weight)
        np.testing.assert_array_equal(mine.bias, theirs.bias)


def spoilt(folder: Path, **changes: Any) -> Path:
    """A weight file with some arrays replaced, or left out where None is given."""
    with np.load(weights_file(folder)) as file:
        arrays: dict[str, Any] = {key: file[key] for key in file.files} | changes
    path = folder / "spoilt.npz"
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return path


def said(**changes: Any) -> Any:
    text = json.dumps(Metadata().model_dump() | changes)
    return np.frombuffer(text.encode(), np.uint8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({METADATA: None}, "no 'metadata'"),
        ({METADATA: np.zeros(3)}, "no 'metadata'"),
        ({METADATA: said(flat_version=99)}, "flat_version 99; allowed: "),
        ({METADATA: said(flat_size=3)}, "flat_size 3; allowed: "),
        ({METADATA: said(format=2)}, "format 2; allowed: 1"),
        ({METADATA: said(activation="gelu")}, "'gelu'; allowed: tanh, relu"),
        ({METADATA: said(colour="red")}, "colour"),
        ({"weight_1": None}, "allowed: weight_0, bias_0"),
        ({"other": np.zeros(3)}, "allowed: weight_0, bias_0"),
        ({"weight_0": np.zeros((8, 3), np.float32)}, r"weight_0 is float32 of shape \(8, 3\)"),
        ({"weight_2": np.zeros((9, 8), np.float32)}, r"shape \(10, 8\)"),
        ({"bias_1": np.zeros(8)}, "bias_1 is float64"),
        ({"bias_1": np.full(8, np.nan, np.float32)}, "bias_1 holds NaN"),
        ({"bias_0": np.float32(1)}, "bias_0"),
    ],
)
def test_a_spoilt_file_is_refused_by_name(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValueError, match=message) as caught:
        load_weights(spoilt(tmp_path, **changes))
    assert "spoilt.npz" in str(caught.value)


def test_pickles_are_never_read(tmp_path: Path) -> None:
    path = spoilt(tmp_path, weight_0=np.array([{"a": 1}], object))
    with pytest.raises(InvalidValueError, match="damaged"):
        load_weights(path)


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_truncated_file_is_refused(kept: float, tmp_path: Path) -> None:
    path = weights_file(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if kept < 1 else int(kept)])
    with pytest.raises(InvalidValueError, match="damaged"):
        load_weights(path)


def test_missing_files_and_other_archives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="cannot be read"):
        load_weights(tmp_path / "none.npz")
    with pytest.raises(InvalidValueError, match="cannot be read"):
        load_weights(tmp_path)
    for name, message in (("x.npz", "damaged|metadata"), ("x.zip", "no checkpoint")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("hello.txt", "hello")
        with pytest.raises(InvalidValueError, match=message):
            load_weights(tmp_path / name)


def test_an_episode_repeats_and_depends_on_seed_weights_and_mode(tmp_path: Path) -> None:
    path = str(weights_file(tmp_path))
    other = str(weights_file(tmp_path, 1, "other.npz"))
    first = played(PPOPolicy(path=path))
    assert first == played(PPOPolicy(path=path))
    assert first != played(PPOPolicy(path=path), seed=1)
    assert first != played(PPOPolicy(path=other))
    assert first != played(PPOPolicy(path=path, mode="greedy"))


def test_who_decides_in_company_decides_alone(tmp_path: Path) -> None:
    policy = PPOPolicy(path=str(weights_file(tmp_path)))
    env = voville_env.parallel_env("fire_escape")
    observations, infos = env.reset(seed=4, options={"window": [1, 50, 60]})
    policy.reset(env.briefing())
    for _ in range(8):
        together = policy.act(observations, infos)
        for agent, observation in observations.items():
            assert observation["action_mask"][together[agent]]
            assert policy.act({agent: observation}, infos) == {agent: together[agent]}
        observations, _, _, _, infos = env.step(together)
    assert policy.act({}, {}) == {}


def test_settled_people_wait_and_the_columns_are_those_of_the_table() -> None:
    assert settling._AT_GOAL == column_index("self", "at_goal")
    assert settling._ESCAPING == column_index("self", "escaping")
    assert settling._INSTRUCTION == column_index("authority", "instruction")
    seen: dict[str, Any] = {
        "self": np.zeros((6, 12), np.int16),
        "rules": np.zeros((6, 2, 7), np.uint8),
        "authority": np.zeros((6, 8), np.int16),
    }
    seen["self"][1:, 8] = 1  # all but the first are at the goal
    seen["self"][2, 11] = 1
    seen["rules"][3, 1, 5] = 1
    seen["authority"][4, 4] = 2
    seen["rules"][5, 0] = 1  # in force here, but not at stake
    assert settling.settled(seen).tolist() == [False, True, False, False, False, True]
    masks = settling.open_to(seen, np.ones((6, ACTIONS), np.int8))
    assert masks.sum(axis=1).tolist() == [10, 1, 10, 10, 10, 1]
    assert masks[:, 0].all()


def test_a_name_may_carry_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = weights_file(tmp_path)
    (tmp_path / "runs").mkdir()
    path.rename(tmp_path / "runs" / "v1.2.npz")
    monkeypatch.chdir(tmp_path)
    names = [
        "ppo:runs/v1.2.npz",
        "ppo:./runs/v1.2.npz@mode=greedy",
        f"ppo:{tmp_path}/runs/v1.2.npz",
    ]
    made = [load_policy(name) for name in names]
    assert [policy.mode for policy in made if isinstance(policy, PPOPolicy)] == [
        "sample",
        "greedy",
        "sample",
    ]
    assert len({slug(name) for name in names}) == 3
    assert all("/" not in slug(name) for name in names)
    assert settable(names[0]) == ["mode"]
    assert settable("ppo") == ["mode", "path"]
    assert plan(["jaywalk"], names).policies == tuple(names)
    with pytest.raises(InvalidValueError, match="setting of policy"):
        load_policy("ppo:runs/v1.2.npz@path=other.npz")
    with pytest.raises(InvalidValueError, match="empty"):
        load_policy("ppo:")
    with pytest.raises(InvalidValueError, match=r"runs/none\.npz"):
        load_policy("ppo:runs/none.npz")
    with pytest.raises(InvalidValueError, match="mode is 'best'; allowed: sample, greedy"):
        load_policy("ppo:runs/v1.2.npz@mode=best")


def test_a_policy_without_a_path_leaves_its_name_to_modules() -> None:
    with pytest.raises(InvalidValueError, match="cannot import 'lawful'"):
        load_policy("lawful:Hasty")


def test_the_hash_of_a_policy_tells_files_and_modes_apart(tmp_path: Path) -> None:
    paths = [str(weights_file(tmp_path, seed, f"{seed}.npz")) for seed in (0, 1)]
    policies = [PPOPolicy(path=path, mode=mode) for path in paths for mode in ("sample", "greedy")]
    hashes = {policy_hash(policy) for policy in [*policies, PPOPolicy()]}
    assert len(hashes) == 5
    same = PPOPolicy(path=str(weights_file(tmp_path, 0, "copy.npz")))
    assert policy_hash(same) == policy_hash(policies[0]), "the content counts, not the name"


def test_act_needs_an_episode(tmp_path: Path) -> None:
    with pytest.raises(LifecycleError, match="reset"):
        PPOPolicy(path=str(weights_file(tmp_path))).act({}, {})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_weights_are_shipped_for_every_scenario_and_its_control(scenario: str) -> None:
    weights = shipped()[scenario]
    metadata = weights.metadata
    suite = suite_of(load_world(metadata.scenario))
    assert metadata.plays == [scenario, load_world(scenario).scenario.control]
    assert metadata.train_seeds == [suite.train.start, suite.train.stop]
    assert metadata.command.startswith(f"voville train {metadata.algorithm} --scenario {scenario} ")
    curve = files("pave_policy.rl") / "weights" / f"{scenario}.csv"
    assert read_curve(Path(str(curve))) == metadata.curve
    assert weights.network.hidden == (64, 64)


def test_the_shipped_weights_play_variants_and_controls_and_nothing_else() -> None:
    policy = PPOPolicy()
    briefing = voville_env.parallel_env("jaywalk").briefing()
    for name in ("jaywalk", "jaywalk_control", "jaywalk@variation.kind=wide"):
        policy.reset(replace(briefing, scenario=name))
    with pytest.raises(InvalidValueError, match=r"'elsewhere'; allowed: .*jaywalk.* ppo:PATH"):
        policy.reset(replace(briefing, scenario="elsewhere"))
