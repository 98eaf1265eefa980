"""What a training is made of: one frozen record, written beside its results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from voville_env.errors import InvalidValueError, nearest
from voville_env.scenario import World, load_world
from voville_env.scenario.load import scenario_variant
from voville_env.scenario.schema import Rewards

PPO = "ppo"
MASKABLE_PPO = "maskable-ppo"
Window = tuple[int, int, int]
Positive = Annotated[int, Field(ge=1)]
_VARIATION = "variation.kind"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Learning(_Part):
    """How the network learns: the settings of PPO.

    Attributes:
        rollout_steps: Steps of every slot between two updates.
        batch_size: Steps of single agents in a minibatch.
        epochs: Passes over what was played between two updates.
        learning_rate: Of Adam; it falls linearly to a tenth.
        gamma: Discount a step.
        gae_lambda: Of the advantage estimate.
        clip_range: Of the policy's ratio.
        entropy: Weight of the entropy bonus.
        value: Weight of the value loss.
        max_grad_norm: Where gradients are clipped.
        reward_scale: What rewards are multiplied by for the learner, so that no large return
            drowns the rest; the curve shows them as they are.
        hidden: Widths of the hidden layers, of the policy and of the value alike.
        activation: What stands between them.
    """

    rollout_steps: int = Field(default=32, ge=1, le=100_000)
    batch_size: int = Field(default=4096, ge=2, le=1_000_000)
    epochs: int = Field(default=4, ge=1, le=100)
    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    gamma: float = Field(default=0.99, ge=0, le=1)
    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    clip_range: float = Field(default=0.2, gt=0, le=1)
    entropy: float = Field(default=0.005, ge=0, le=1)
    value: float = Field(default=0.5, ge=0, le=10)
    max_grad_norm: float = Field(default=0.5, gt=0, le=100)
    reward_scale: float = Field(default=0.1, gt=0, le=1000)
    hidden: tuple[Annotated[int, Field(ge=1, le=4096)], ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"


class TrainConfig(_Part):
    """A training, all but the folder it is written to.

    Attributes:
        algorithm: `ppo`, or `maskable-ppo`, which never tries what is physically impossible.
        scenario: The scenario, with the keys that it changes; its variation is one of them.
        windows: Ticks that are played, `(day, start, end)`; environments are dealt out in turn.
        envs: Environments, each with all people of the scenario.
        seed: Of weights, actions and episodes.
        total_steps: Steps of single agents.
        threads: Threads of the simulation.
        torch_threads: Threads of torch; with one a training repeats exactly on the same machine.
        checkpoint_steps: Steps of single agents between two checkpoints.
        curve_steps: Steps of single agents between two points of the learning curve, at least.
        rewards: Weights of the reward terms.
        learning: How the network learns.
    """

    algorithm: Literal["ppo", "maskable-ppo"] = MASKABLE_PPO  # type: ignore[assignment]
    scenario: str = "fire_escape"
    windows: tuple[Window, ...] = ()
    envs: int = Field(default=64, ge=1, le=65_536)
    seed: int = Field(default=0, ge=0, lt=2**32)
    total_steps: Positive = 6_000_000
    threads: int = Field(default=1, ge=1, le=1024)
    torch_threads: int = Field(default=1, ge=1, le=1024)
    checkpoint_steps: Positive = 1_000_000
    curve_steps: Positive = 100_000
    rewards: Rewards = Rewards()
    learning: Learning = Learning()

    @model_validator(mode="after")
    def _enough(self) -> TrainConfig:
        if len(self.windows) > self.envs:
            raise ValueError(f"envs is {self.envs}; allowed: one a window, {len(self.windows)}")
        return self

    @property
    def rewarded(self) -> str:
        """The scenario with the reward weights of the training."""
        variant = scenario_variant(self.scenario)
        own = load_world(self.scenario).scenario.rewards
        for key, weight in self.rewards.model_dump().items():
            if weight != getattr(own, key):
                variant = variant.varied(f"rewards.{key}", weight)
        return variant.name


def named(scenario: str, variation: str) -> str:
    """A scenario under a variation.

    Args:
        scenario: Its name, which may carry keys.
        variation: `paper` or `wide`.

    Returns:
        The name with the variation, unless that is the scenario's own already.
    """
    variant = scenario_variant(scenario)
    own = load_world(scenario).scenario.variation.kind
    return variant.name if own == variation else variant.varied(_VARIATION, variation).name


def make_config(scenario: str, variation: str, **given: Any) -> TrainConfig:
    """Makes a configuration from what a command line says.

    Args:
        scenario: Its name, which may carry keys.
        variation: `paper` or `wide`.
        **given: Fields of `TrainConfig`; `rewards` and `learning` as mappings of what differs from
            the scenario's weights and from the defaults.

    Returns:
        The configuration.

    Raises:
        InvalidValueError: If a name or a value is not allowed.
        ScenarioError: If the scenario is unknown or wrong.
    """
    name = named(scenario, variation)
    spec = load_world(name).scenario
    rewards = spec.rewards.model_dump() | dict(given.pop("rewards", {}))
    wide = spec.variation.kind == "wide"
    focus = (spec.variation.focus if wide else None) or spec.focus
    windows = given.pop("windows", ()) or (focus,)
    for window in windows:
        _check_window(window, spec.clock.days, spec.clock.ticks_per_day)
    values = {key: value for key, value in given.items() if value is not None}
    return read_config({**values, "scenario": name, "windows": windows, "rewards": rewards})


def read_config(values: Mapping[str, Any], name: str = "") -> TrainConfig:
    """Reads a configuration.

    Args:
        values: Its fields.
        name: Where they come from, for the message.

    Returns:
        The configuration.

    Raises:
        InvalidValueError: If a field is unknown or a value not allowed.
    """
    try:
        return TrainConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = [str(part) for part in first["loc"]]
        message = f"{name + ': ' if name else ''}{'.'.join(where)} is {first['input']!r}; "
        if first["type"] == "extra_forbidden":
            parts: dict[str, type[BaseModel]] = {"learning": Learning, "rewards": Rewards}
            allowed = sorted(parts.get(where[0], TrainConfig).model_fields)
            hint = nearest(where[-1], allowed)
            raise InvalidValueError(
                f"{name + ': ' if name else ''}{'.'.join(where[:-1]) or 'training'} has no "
                f"{where[-1]!r}; allowed: {', '.join(allowed)}{hint}"
            ) from error
        raise InvalidValueError(message + first["msg"]) from error


def read_window(text: str) -> Window:
    """Reads a window from a command line.

    Args:
        text: `day:start:end`, such as `1:50:150`.

    Returns:
        The window.

    Raises:
        InvalidValueError: If it is none.
    """
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InvalidValueError(f"window is {text!r}; allowed: day:start:end, such as 1:50:150")
    day, start, end = map(int, parts)
    return day, start, end


def _check_window(window: Window, days: int, ticks: int) -> None:
    day, start, end = window
    if not (1 <= day <= days and 0 <= start < end <= ticks):
        raise InvalidValueError(
            f"window is {day}:{start}:{end}; allowed: day 1 to {days}, "
            f"start below end, both from 0 to {ticks}"
        )


def world_of(config: TrainConfig) -> World:
    """The world that is trained in.

    Args:
        config: The configuration.

    Returns:
        The scenario with the reward weights of the training.
    """
    return load_world(config.rewarded)


def write_config(path: Path, config: TrainConfig, command: str) -> None:
    """Writes a configuration as JSON.

    Args:
        path: The file.
        config: The configuration.
        command: The command line that it comes from.
    """
    text = json.dumps({"command": command, **config.model_dump(mode="json")}, indent=2)
    path.write_text(text + "\n", "utf-8")


def load_config(path: Path) -> tuple[TrainConfig, str]:
    """Reads a configuration that was written.

    Args:
        path: The file.

    Returns:
        The configuration and the command line.

    Raises:
        InvalidValueError: If there is none, or it cannot be read.
    """
    try:
        values = json.loads(path.read_text("utf-8"))
        command = str(values.pop("command"))
    except OSError as error:
        raise InvalidValueError(
            f"there is no training in {str(path.parent)!r}: {error.strerror}"
        ) from error
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise InvalidValueError(f"{path} is no configuration of a training: {error}") from error
    return read_config(values, str(path)), command
