"""Trains a shared policy with Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pave_policy.commands.training.config import MASKABLE_PPO, TrainConfig, write_config
from pave_policy.commands.training.environment import make_env
from pave_policy.commands.training.record import (
    CONFIG,
    CURVE,
    MODEL,
    WEIGHTS,
    Progress,
    Recorder,
    last_checkpoint,
    read_curve,
)
from pave_policy.draws import draw
from voville_env.errors import InvalidValueError, MissingExtraError

NEEDS = "training needs {}: pip install 'voville[rl]'"


def need_libraries(*, tensorboard: bool) -> None:
    """Checks that what a training needs is installed.

    Args:
        tensorboard: Whether TensorBoard is wanted.

    Raises:
        MissingExtraError: If something is missing.
    """
    for name in ("torch", "stable_baselines3", "sb3_contrib"):
        if find_spec(name) is None:
            raise MissingExtraError(NEEDS.format(name))
    if tensorboard and find_spec("tensorboard") is None:
        raise MissingExtraError("--tensorboard needs tensorboard: pip install tensorboard")


def train(
    config: TrainConfig,
    out: Path,
    command: str,
    *,
    resume: bool = False,
    tensorboard: bool = False,
    progress: Progress = lambda steps, row: None,
) -> Path:
    """Trains, or goes on training.

    Args:
        config: The configuration.
        out: The folder for everything that comes of it; a new one unless a training is resumed.
        command: The command line, for the record.
        resume: Whether to go on from the last checkpoint in the folder.
        tensorboard: Whether to write logs for TensorBoard.
        progress: Called with the steps so far and the last point of the curve.

    Returns:
        The weight file.

    Raises:
        InvalidValueError: If the folder is in use, or there is nothing to resume.
        MissingExtraError: If a library is missing.
        KeyboardInterrupt: If it is interrupted, once the model is saved.
    """
    need_libraries(tensorboard=tensorboard)
    start = last_checkpoint(out) if resume else None
    if resume and start is None:
        raise InvalidValueError(f"{str(out)!r} holds no checkpoint to resume from")
    if not resume:
        if out.exists() and any(out.iterdir()):
            raise InvalidValueError(f"{str(out)!r} is not empty; allowed: a new folder, --resume")
        out.mkdir(parents=True, exist_ok=True)
    write_config(out / CONFIG, config, command)
    with repeatable(config.torch_threads):
        env, batches = make_env(config)
        logs = str(out / "tensorboard") if tensorboard else None
        model = _fresh(config, env, logs) if start is None else _loaded(start, config, env, logs)
        recorder = Recorder(out, config, command, [batch.tally for batch in batches], progress)
        done = int(model.num_timesteps)
        recorder.rows = [row for row in read_curve(out / CURVE) if (row["steps"] or 0) <= done]
        recorder.begin(done)
        try:
            if done < config.total_steps:
                model.learn(
                    config.total_steps - done,
                    callback=recorder,
                    reset_num_timesteps=start is None,
                )
        finally:
            recorder.save(model, out, MODEL, WEIGHTS)
            env.close()
    return out / WEIGHTS


@contextmanager
def repeatable(threads: int) -> Iterator[None]:
    """Has torch compute the same each time, and puts its settings back.

    Args:
        threads: Threads of torch.

    Yields:
        Nothing.
    """
    import torch

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


def _class(config: TrainConfig) -> tuple[Any, dict[str, Any]]:
    """The learner, and what only it takes."""
    if config.algorithm == MASKABLE_PPO:
        from sb3_contrib import MaskablePPO

        from voville_env.wrappers.sb3_active import ActiveRolloutBuffer

        return MaskablePPO, {"rollout_buffer_class": ActiveRolloutBuffer}
    from stable_baselines3 import PPO

    return PPO, {}


def falling(rate: float, remaining: float) -> float:
    """A learning rate that falls to a tenth.

    Args:
        rate: At the start.
        remaining: Share of the training that is still to come.

    Returns:
        The rate now.
    """
    return rate * (0.1 + 0.9 * remaining)


def _fresh(config: TrainConfig, env: Any, logs: str | None) -> Any:
    from torch import nn

    set_ = config.learning
    activation = nn.Tanh if set_.activation == "tanh" else nn.ReLU
    hidden = list(set_.hidden)
    learner, own = _class(config)
    return learner(
        "MlpPolicy",
        env,
        learning_rate=partial(falling, set_.learning_rate),
        n_steps=set_.rollout_steps,
        batch_size=min(set_.batch_size, set_.rollout_steps * env.num_envs),
        n_epochs=set_.epochs,
        gamma=set_.gamma,
        gae_lambda=set_.gae_lambda,
        clip_range=set_.clip_range,
        ent_coef=set_.entropy,
        vf_coef=set_.value,
        max_grad_norm=set_.max_grad_norm,
        policy_kwargs={"net_arch": {"pi": hidden, "vf": hidden}, "activation_fn": activation},
        tensorboard_log=logs,
        seed=config.seed,
        device="cpu",
        verbose=0,
        **own,
    )


def _loaded(start: Path, config: TrainConfig, env: Any, logs: str | None) -> Any:
    """The model of a checkpoint; its draws and episodes from here on are new ones."""
    learner, _ = _class(config)
    model = learner.load(start, env=env, device="cpu", tensorboard_log=logs)
    steps = int(model.num_timesteps)
    model.set_random_seed(draw(("resume", config.seed, steps), 0, 2**32 - 1))
    return model
