"""`voville train`: reinforcement-learning comparators, by parameter sharing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pave_policy.commands.terminal import remark
from voville_env.cli.answering import settings_of
from voville_env.errors import InvalidValueError

if TYPE_CHECKING:
    from pave_policy.commands.training.config import TrainConfig
    from pave_policy.commands.training.record import Progress as Told

train_app = typer.Typer(
    help="Trains one network that all people share, on the training seeds of a scenario.",
    no_args_is_help=True,
)
Scenario = Annotated[str, typer.Option(help="Scenario name or TOML file, also with changed keys.")]
Variation = Annotated[str, typer.Option(help="What the seed varies: wide or paper.")]
TotalSteps = Annotated[
    int | None, typer.Option(help="Steps of single agents; 6,000,000 unless given.")
]
Envs = Annotated[int | None, typer.Option(help="Environments side by side; 64 unless given.")]
Windows = Annotated[
    list[str] | None,
    typer.Option(
        help="Ticks that are played, day:start:end; repeat for several. The scenario's focus "
        "window unless given."
    ),
]
Seed = Annotated[int, typer.Option(help="Of weights, actions and episodes.")]
Threads = Annotated[int | None, typer.Option(help="Threads of the simulation; 1 unless given.")]
TorchThreads = Annotated[
    int | None, typer.Option(help="Threads of torch; 1, which repeats exactly, unless given.")
]
Reward = Annotated[
    list[str] | None, typer.Option(help="term=weight of the reward, such as harm=-1; repeatable.")
]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value of the learner, such as gamma=0.995; repeatable."),
]
Checkpoints = Annotated[
    int | None, typer.Option(help="Steps between two checkpoints; 1,000,000 unless given.")
]
Out = Annotated[Path | None, typer.Option(help="Folder; a new one under runs/ unless given.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the training in --out, as it was set up.")
]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Write logs for TensorBoard.")]


_AFTERWARDS = """

Ctrl-C saves what was learned so far. The weights are played by `--policy ppo:OUT/weights.npz`.
"""


@train_app.command(
    "ppo",
    help="PPO, as in Stable-Baselines3: what is impossible may be tried in training, and fails."
    + _AFTERWARDS,
)
@train_app.command(
    "maskable-ppo",
    help="PPO with masks, as in sb3-contrib: what is physically impossible is never tried."
    + _AFTERWARDS,
)
def train_shared_policy(
    context: typer.Context,
    scenario: Scenario = "fire_escape",
    variation: Variation = "wide",
    total_steps: TotalSteps = None,
    envs: Envs = None,
    window: Windows = None,
    seed: Seed = 0,
    threads: Threads = None,
    torch_threads: TorchThreads = None,
    reward: Reward = None,
    set_: Setting = None,
    checkpoint_steps: Checkpoints = None,
    out: Out = None,
    resume: Resume = False,
    tensorboard: TensorBoard = False,
) -> None:
    """Trains by the algorithm that the command is named after."""
    asked = locals()
    _train(algorithm=asked.pop("context").info_name, **asked)


@train_app.command("penalty-sweep")
def penalty_sweep(
    sanctions: Annotated[
        str, typer.Option(help="Weights of the sanction term, with commas between them.")
    ] = "0,-0.3,-1,-3,-10",
    scenario: Scenario = "fire_escape_officers",
    variation: Variation = "wide",
    total_steps: TotalSteps = 2_000_000,
    envs: Envs = None,
    window: Windows = None,
    seed: Seed = 0,
    threads: Threads = None,
    torch_threads: TorchThreads = None,
    reward: Reward = None,
    set_: Setting = None,
    trainings: Annotated[int, typer.Option(help="Trainings a weight, each with its own seed.")] = 3,
    seeds: Annotated[int, typer.Option(help="Held-out seeds that each is played on.")] = 10,
    out: Out = None,
) -> None:
    """Trains small agents for each weight of a sanction; plays all on the same held-out seeds.

    Writes penalty.csv, one row a weight, training and seed, and with matplotlib penalty.png and
    penalty.svg: task score against unwarranted violations. Started again on the same folder it goes
    on.
    """
    from pave_policy.commands.training.penalty import sweep

    asked = locals() | {"algorithm": "maskable-ppo", "checkpoint_steps": total_steps}
    config = make(asked)
    weights = _numbers(sanctions)
    folder = out or fresh_folder(Path("runs"), f"penalty-{config.scenario}")
    with bar(config.total_steps) as told:
        table = sweep(
            config,
            weights,
            folder,
            command_line(),
            trainings=trainings,
            seeds=seeds,
            progress=told,
            say=remark,
        )
    typer.echo(table)


def _numbers(text: str) -> list[float]:
    from voville_env.variant import read_values

    found = read_values(text, "--sanctions")
    for value in found:
        if isinstance(value, bool | str):
            raise InvalidValueError(f"--sanctions has {value!r}; allowed: numbers")
    return [float(value) for value in found]


def _train(*, out: Path | None, resume: bool, tensorboard: bool, **asked: Any) -> None:
    from pave_policy.commands.training.learn import train
    from pave_policy.commands.training.record import WEIGHTS, last_checkpoint

    config, command = _config(out, asked) if resume else (make(asked), command_line())
    folder = out or fresh_folder(Path("runs"), f"{config.algorithm}-{config.scenario}")
    try:
        with bar(config.total_steps) as told:
            path = train(
                config, folder, command, resume=resume, tensorboard=tensorboard, progress=told
            )
    except KeyboardInterrupt:
        if last_checkpoint(folder) is not None:
            again = shlex.join(
                ["voville", "train", config.algorithm, "--resume", "--out", str(folder)]
            )
            typer.echo(f"interrupted; {folder / WEIGHTS} is saved; go on with: {again}", err=True)
        raise typer.Exit(130) from None
    remark(f"play it: voville bench --policy {shlex.quote(f'ppo:{path}')}")
    typer.echo(path)


def make(asked: dict[str, Any]) -> TrainConfig:
    """Makes a configuration from the options of a command.

    Args:
        asked: The options.

    Returns:
        The configuration.

    Raises:
        InvalidValueError: If an option is not allowed.
    """
    from pave_policy.commands.training.config import make_config, read_window

    return make_config(
        asked["scenario"],
        asked["variation"],
        algorithm=asked["algorithm"],
        windows=tuple(read_window(text) for text in asked["window"] or ()),
        rewards=settings_of(asked["reward"], "--reward"),
        learning=settings_of(asked["set_"], "--set"),
        **{key: asked[key] for key in ("total_steps", "envs", "seed", "threads", "torch_threads")},
        checkpoint_steps=asked["checkpoint_steps"],
    )


def _config(out: Path | None, asked: dict[str, Any]) -> tuple[TrainConfig, str]:
    """What a training to be resumed was set up with; nothing but its length may change."""
    from pave_policy.commands.training.config import load_config
    from pave_policy.commands.training.record import CONFIG

    if out is None:
        raise InvalidValueError("--resume needs --out: the folder of the training")
    config, command = load_config(out / CONFIG)
    if asked["algorithm"] != config.algorithm:
        raise InvalidValueError(
            f"{str(out)!r} holds a training by {config.algorithm!r}; "
            f"go on with: voville train {config.algorithm} --resume"
        )
    fixed = ("envs", "window", "threads", "torch_threads", "reward", "set_", "checkpoint_steps")
    changed = [key for key in fixed if asked[key]]
    if changed:
        option = changed[0].rstrip("_").replace("_", "-")
        raise InvalidValueError(f"--{option} cannot change in a training that is resumed")
    if asked["total_steps"] is not None:
        config = config.model_copy(update={"total_steps": asked["total_steps"]})
    return config, command


def command_line() -> str:
    """The command line as it was typed.

    Returns:
        A line for a shell.
    """
    return shlex.join(["voville", *sys.argv[1:]])


def fresh_folder(parent: Path, stem: str) -> Path:
    """The first unused folder of a name, numbered.

    Args:
        parent: Where.
        stem: The name.

    Returns:
        The folder, not yet made.
    """
    from voville_env.benchmarks.suite import slug

    numbers = (parent / f"{slug(stem)}-{number:03d}" for number in range(1, 10_000))
    found = next((folder for folder in numbers if not folder.exists()), None)
    if found is None:
        raise InvalidValueError(f"{str(parent)!r} is full of trainings of this name; give --out")
    return found


@contextmanager
def bar(total: int) -> Iterator[Told]:
    """A progress bar, where there is a terminal to show it.

    Args:
        total: Steps of single agents.

    Yields:
        What is told how far the training is.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,} steps"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as shown:
        task = shown.add_task("training", total=total)

        def told(steps: int, row: dict[str, float | None] | None) -> None:
            success = None if row is None else row["success"]
            text = "training" if success is None else f"training, {success:.0%} of goals reached"
            shown.update(task, completed=min(steps, total), description=text)

        yield told
