"""Options of every command that plays a run, and how it is played, shown and ended."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from voville_env.cli.answering import BACKBONE_HELP, backbone_of, settings_of
from voville_env.errors import InvalidValueError

_WIDE = 160


@dataclass(frozen=True)
class RunOptions:
    """How a run is to be played, whatever it plays.

    Attributes:
        out: The run folder; a new one unless given.
        resume: Whether to go on with the run in it.
        jobs: Worker processes; one a core, at most 8, unless given.
        options: Settings for the policies that take them.
        backbone: Who answers.
        chat: What was said of a chat backbone.
        store: Where model calls are kept; in the run folder unless given.
        as_json: Whether the summary is printed as JSON.
    """

    out: Path | None
    resume: bool
    jobs: int | None
    options: Mapping[str, Any]
    backbone: str | None
    chat: Mapping[str, Any]
    store: Path | None
    as_json: bool


def run_options(
    out: Annotated[
        Path | None, typer.Option(help="Run folder; a new one under runs/ unless given.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, as it was planned.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(help="Worker processes; one a core, at most 8, unless given.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="key=value for the policies that take it, such as perception=llm."),
    ] = None,
    backbone: Annotated[str | None, typer.Option(help=BACKBONE_HELP)] = None,
    base_url: Annotated[str | None, typer.Option(help="The endpoint's address.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name at the endpoint.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the key.")
    ] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File that holds the key.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 unless given.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Calls under way at once; 8 unless given.")
    ] = None,
    max_calls: Annotated[int | None, typer.Option(help="Budget of the run in requests.")] = None,
    max_tokens_total: Annotated[int | None, typer.Option(help="Budget in tokens.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Budget in US dollars.")] = None,
    paper_inputs: Annotated[
        bool | None, typer.Option("--paper-inputs", help="Only the inputs of the paper's prompts.")
    ] = None,
    paper_token_limits: Annotated[
        bool | None, typer.Option("--paper-token-limits", help="The paper's output limits.")
    ] = None,
    chat: Annotated[
        list[str] | None,
        typer.Option(help="key=value of any other setting of a chat backbone."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Store of model calls, to be shared by runs; in the run folder if not."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> RunOptions:
    """Gathers the options that all commands that play a run have."""
    named = {
        "base_url": base_url,
        "model": model,
        "api_key_env": api_key_env,
        "api_key_file": None if api_key_file is None else str(api_key_file),
        "temperature": temperature,
        "concurrency": concurrency,
        "max_calls": max_calls,
        "max_tokens_total": max_tokens_total,
        "max_cost": max_cost,
        "paper_inputs": paper_inputs,
        "paper_token_limits": paper_token_limits,
    }
    said = {key: value for key, value in named.items() if value is not None}
    for key, value in settings_of(chat, "--chat").items():
        if key in said:
            raise InvalidValueError(f"{key} is given twice: {said[key]!r} and {value!r}")
        said[key] = value
    given = settings_of(option, "--option")
    return RunOptions(out, resume, jobs, given, backbone, said, store, as_json)


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of a run.

    Args:
        command: It takes them as its keyword `run`.

    Returns:
        The command as Typer reads it: with every option in place of `run`.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    own = [item for name, item in parameters.items() if name != "run"]
    shared = list(inspect.signature(run_options, eval_str=True).parameters.values())

    @wraps(command)
    def wrapper(**given: Any) -> None:
        mine = {item.name: given.pop(item.name) for item in own}
        command(**mine, run=run_options(**given))

    every = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in (*own, *shared)]
    wrapper.__dict__["__signature__"] = inspect.Signature(every)
    wrapper.__annotations__ = {item.name: item.annotation for item in every}
    del wrapper.__dict__["__wrapped__"]
    return wrapper


def play(run: RunOptions, make_plan: Callable[[str | None], Any] | None, *, kind: str) -> None:
    """Plays a run, prints its tables and ends the command with its exit code.

    Args:
        run: How.
        make_plan: Makes the plan, given the backbone's name; None to take that of the run to be
            continued.
        kind: The command, which is also the first part of a new run folder's name.

    Raises:
        InvalidValueError: If an option is not allowed.
        RunAbortedError: If what the run depends on cannot be used.
    """
    from voville_env.benchmarks.folder import planned_suite, read_manifest
    from voville_env.benchmarks.runner import run_suite

    kept = None
    if run.resume:
        suite = planned_suite(run.out)
        kept = read_manifest(run.out).get("connection") if run.out else None
    answers = backbone_of(run.backbone, run.chat, kept)
    if make_plan is not None:
        suite = make_plan(None if answers is None else answers.name)
    folder = run.out or _fresh_folder(Path("runs"), f"{kind}-{suite.digest()[:6]}")
    workers = run.jobs if run.jobs is not None else max(1, min(os.cpu_count() or 1, 8))
    try:
        with progress_bar(Console(stderr=True)) as bar:
            task = bar.add_task("episodes", total=len(suite.episodes()))
            summary, report = run_suite(
                suite,
                folder,
                jobs=workers,
                resume=run.resume,
                progress=lambda key, state: bar.advance(task),
                backbone=answers,
                store=run.store,
            )
    except KeyboardInterrupt:
        again = shlex.join(["voville", kind, "--resume", "--out", str(folder)])
        typer.echo(f"interrupted; go on with: {again}", err=True)
        raise typer.Exit(130) from None
    if run.as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False, allow_nan=False))
    else:
        print_report(report, folder, quick=suite.quick)
    _exit(summary)


def _fresh_folder(parent: Path, stem: str) -> Path:
    """The first unused folder for a plan; numbered, so that nothing is ever overwritten."""
    for number in range(1, 10000):
        folder = parent / f"{stem}-{number:03d}"
        if not folder.exists():
            return folder
    raise typer.BadParameter(f"{parent} is full of runs of this plan; give --out")


def progress_bar(console: Console) -> Progress:
    """A bar that counts, where there is a terminal to show it.

    Args:
        console: Where.

    Returns:
        The bar, not yet begun.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def print_report(report: Any, folder: Path, *, quick: bool) -> None:
    """Prints a report's tables.

    Args:
        report: The report.
        folder: Its run folder.
        quick: Whether it is of a smoke run.
    """
    from voville_env.benchmarks.usage import read_usage, usage_table

    width = None if sys.stdout.isatty() else _WIDE
    console = Console(width=width)
    if quick:
        console.print("A quick smoke run: these numbers are no score.", style="bold")
    for table in report.tables():
        console.print(table)
    if (usage := read_usage(folder)) is not None:
        console.print(usage_table(usage).rich())
    for line in report.flags():
        console.print(line, markup=False)
    console.print(f"Run folder: {folder}", markup=False, soft_wrap=True)


def _exit(summary: dict[str, Any]) -> None:
    counts = summary["episodes"]
    if counts["scored"] == 0:
        raise typer.Exit(3)
    if counts["failed"] > 0:
        raise typer.Exit(1)
