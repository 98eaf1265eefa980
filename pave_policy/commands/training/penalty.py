"""The penalty study: what a reward-driven agent does as sanctions go from free to strict."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from pave_policy.commands.training.config import TrainConfig, load_config
from pave_policy.commands.training.evaluate import MEASURED, evaluate_weights, held_out
from pave_policy.commands.training.learn import train
from pave_policy.commands.training.record import CONFIG, WEIGHTS, Progress
from pave_policy.rl.weight_file import load_weights
from voville_env.errors import InvalidValueError, VovilleError
from voville_env.variant import write_value
from voville_env.viewer.style import has_matplotlib
from voville_env.viewer.training import penalty_figure, save_figure

TABLE = "penalty.csv"
FIGURE = "penalty"
COLUMNS = ("sanction", "train_seed", "steps", "seed", *(item.name for item in MEASURED))
Say = Callable[[str], None]


def sweep(
    config: TrainConfig,
    sanctions: Sequence[float],
    out: Path,
    command: str,
    *,
    trainings: int,
    seeds: int,
    progress: Progress,
    say: Say = lambda text: None,
) -> Path:
    """Trains networks for each weight of the sanction; plays all on the same held-out seeds.

    A training that is already in the folder, with the same configuration, is taken as it is, so
    that a sweep that was stopped goes on.

    Args:
        config: What all trainings share.
        sanctions: Weights of the sanction term.
        out: The folder.
        command: The command line, for the record.
        trainings: Trainings a weight, with seeds from that of the configuration on.
        seeds: Held-out seeds.
        progress: Told how far each training is.
        say: Told what comes next, in words.

    Returns:
        The table; beside it lies the figure, where matplotlib is installed.

    Raises:
        InvalidValueError: If there is nothing to sweep, or the folder holds something else.
    """
    if trainings < 1:
        raise InvalidValueError(f"trainings is {trainings}; allowed: at least 1")
    if len(set(sanctions)) != len(sanctions) or not sanctions:
        raise InvalidValueError(f"sanctions is {list(sanctions)}; allowed: distinct numbers")
    held = held_out(config.scenario, seeds)
    if len(held) < seeds:
        raise InvalidValueError(f"seeds is {seeds}; allowed: at most {len(held)}")
    rows: list[dict[str, float | None]] = []
    for weight, number in product(sanctions, range(trainings)):
        rewards = config.rewards.model_copy(update={"sanction": float(weight)})
        seed = config.seed + number
        own = config.model_copy(update={"rewards": rewards, "seed": seed})
        say(f"sanction {weight:g}, training {number + 1} of {trainings}")
        folder = out / f"sanction_{write_value(float(weight))}" / f"seed_{seed}"
        path = _trained(own, folder, command, progress)
        head = {"sanction": float(weight), "train_seed": seed, "steps": config.total_steps}
        played = evaluate_weights(path, config.scenario, held, config.windows[0])
        rows += [{**head, **row} for row in played]
    table = out / TABLE
    write_table(table, rows)
    if has_matplotlib():
        save_figure(penalty_figure(table), out / FIGURE)
    return table


def _trained(config: TrainConfig, folder: Path, command: str, progress: Progress) -> Path:
    """The weights of a training, which is done now unless it is in the folder already."""
    done = folder / WEIGHTS
    if done.exists():
        try:
            known, _ = load_config(folder / CONFIG)
        except VovilleError:
            known = None
        if known != config:
            raise InvalidValueError(f"{str(folder)!r} holds another training; give another --out")
        if load_weights(done).metadata.total_steps < config.total_steps:  # it was interrupted
            return train(config, folder, command, resume=True, progress=progress)
        return done
    return train(config, folder, command, progress=progress)


def write_table(path: Path, rows: Sequence[dict[str, float | None]]) -> None:
    """Writes the table of the study.

    Args:
        path: The file.
        rows: One a weight, training and held-out seed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
