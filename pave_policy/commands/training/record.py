"""What a training leaves behind while it runs: the curve, checkpoints, a bar."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pave_policy.commands.training.config import TrainConfig
from pave_policy.commands.training.export import export
from pave_policy.commands.training.tally import COLUMNS, Tally, point
from voville_env.errors import InvalidValueError

CONFIG, CURVE, MODEL, WEIGHTS = "config.json", "curve.csv", "model.zip", "weights.npz"
CHECKPOINTS = "checkpoints"
Row = dict[str, float | None]
Progress = Callable[[int, Row | None], None]
"""Called with the steps so far and the last point of the curve."""


@dataclass
class Recorder:
    """Called by the learner after each of its steps.

    Attributes:
        out: The folder.
        config: The configuration.
        command: The command line, for the weight files.
        tallies: What is counted of the environments.
        progress: Who is told.
        rows: The curve so far.
    """

    out: Path
    config: TrainConfig
    command: str
    tallies: list[Tally]
    progress: Progress
    rows: list[Row] = field(default_factory=list)
    _next_point: int = 0
    _next_checkpoint: int = 0

    def begin(self, steps: int) -> None:
        """Prepares for a training that has gone some way already.

        Args:
            steps: Steps of single agents so far.
        """
        self._next_point = steps + self.config.curve_steps
        self._next_checkpoint = steps + self.config.checkpoint_steps
        write_curve(self.out / CURVE, self.rows)

    def __call__(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> bool:
        """Notes a step of all slots.

        Args:
            locals_: Of the learner; `self` is the model.
            globals_: Not used.

        Returns:
            True: the training goes on.
        """
        model = locals_["self"]
        steps = int(model.num_timesteps)
        if steps >= self._next_point and (row := point(self.tallies, steps)) is not None:
            self.rows.append(row)
            write_curve(self.out / CURVE, self.rows)
            for name, value in row.items():
                model.logger.record(f"town/{name}", value)
            self._next_point = steps + self.config.curve_steps
        if steps >= self._next_checkpoint:
            self.save(model, self.out / CHECKPOINTS, f"{steps:012d}.zip", f"{steps:012d}.npz")
            self._next_checkpoint = steps + self.config.checkpoint_steps
        self.progress(steps, self.rows[-1] if self.rows else None)
        return True

    def save(self, model: Any, folder: Path, whole: str, weights: str) -> None:
        """Saves the model, to go on with it, and its weights, to play them.

        Args:
            model: The model.
            folder: Where.
            whole: Name of the checkpoint.
            weights: Name of the weight file.
        """
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / f"part-{whole}"
        try:
            model.save(aside)
            aside.replace(folder / whole)
        finally:
            aside.unlink(missing_ok=True)
        export(folder / weights, model, self.config, self.command, self.rows)


def write_curve(path: Path, rows: list[Row]) -> None:
    """Writes a learning curve.

    Args:
        path: The file.
        rows: Its points.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_curve(path: Path) -> list[Row]:
    """Reads a learning curve.

    Args:
        path: The file; without it the curve is empty.

    Returns:
        Its points.

    Raises:
        InvalidValueError: If it is no learning curve.
    """
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        try:
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise ValueError(f"it has columns {reader.fieldnames}")
            return [{key: _number(row[key]) for key in COLUMNS} for row in reader]
        except (ValueError, TypeError, csv.Error) as error:
            raise InvalidValueError(f"{path} is no learning curve: {error}") from error


def _number(text: str) -> float | None:
    if not text:
        return None
    value = float(text)
    return int(value) if value.is_integer() and "." not in text else value


def last_checkpoint(out: Path) -> Path | None:
    """The checkpoint to go on from.

    Args:
        out: The folder of a training.

    Returns:
        The one with the most steps: what was saved at the end or when it was stopped, else the
        last in between; None without any.
    """
    whole = out / MODEL
    between = sorted((out / CHECKPOINTS).glob("[0-9]*.zip"))
    return whole if whole.exists() else (between[-1] if between else None)
