"""From a model of Stable-Baselines3 to a weight file that NumPy plays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pave_policy.commands.training.config import TrainConfig, world_of
from pave_policy.rl.checkpoint import network_of
from pave_policy.rl.network import Activation
from pave_policy.rl.weight_file import Metadata, save_weights
from voville_env.benchmarks.play import versions
from voville_env.scenario import load_world
from voville_env.scenario.load import scenario_variant
from voville_env.scenario.suites import suite_of

_PACKAGES = ("voville", "numpy", "torch", "stable-baselines3", "sb3-contrib")
Curve = Sequence[dict[str, float | None]]


def export(path: Path, model: Any, config: TrainConfig, command: str, curve: Curve) -> None:
    """Writes the policy of a model with all that says how it was made.

    Args:
        path: The `.npz` file.
        model: A `PPO` or `MaskablePPO`.
        config: What it was trained with.
        command: The command line.
        curve: The learning curve so far.
    """
    state = {name: item.detach().cpu().numpy() for name, item in model.policy.state_dict().items()}
    network = network_of(state, Activation(config.learning.activation), "of the model")
    save_weights(path, network, _metadata(model, config, command, curve))


def _metadata(model: Any, config: TrainConfig, command: str, curve: Curve) -> Metadata:
    world = world_of(config)
    suite = suite_of(world)
    plain = load_world(scenario_variant(config.scenario).base).scenario
    return Metadata(
        activation=config.learning.activation,
        scenario=config.scenario,
        plays=[plain.name, *([plain.control] if plain.control else [])],
        suite=suite.id,
        train_seeds=[suite.train.start, suite.train.stop],
        seed=config.seed,
        algorithm=config.algorithm,
        total_steps=int(model.num_timesteps),
        rewards=world.scenario.rewards.model_dump(),
        settings=config.model_dump(mode="json", exclude={"scenario", "algorithm", "rewards"}),
        command=command,
        versions=versions(_PACKAGES),
        curve=list(curve),
    )
