"""`voville bench`: the main job."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from voville_env.cli.answering import BACKBONE_HELP, backbone_of, settings_of
from voville_env.errors import InvalidValueError

_WIDE = 160


def bench(
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="Scenario name or TOML file; repeat for several. Controls come along."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy name or module:factory; repeat for several."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, counted from 0; 5 unless given.")
    ] = None,
    days: Annotated[int | None, typer.Option(help="Days to play; all unless given.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; a new one under runs/ unless given.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, as it was planned.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(help="Worker processes; one a core unless given.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smoke run of the focus windows: no score.")
    ] = False,
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
) -> None:
    """Plays scenarios × policies × seeds and prints the tables.

    Exit codes: 0 all episodes scored, 1 some failed, 2 wrong usage, 3 none scored, 4 stopped
    because the model endpoint cannot be used.
    """
    from voville_env.benchmarks.folder import planned_suite, read_manifest
    from voville_env.benchmarks.runner import run_suite
    from voville_env.benchmarks.suite import plan

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
    asked = any(value is not None for value in (scenario, policy, seeds, days, option)) or quick
    kept = None
    if resume:
        suite = planned_suite(out)
        kept = read_manifest(out).get("connection") if out else None
    answers = backbone_of(backbone, said, kept)
    if not resume or asked:
        suite = plan(
            scenario,
            policy,
            seeds=seeds,
            days=days,
            quick=quick,
            backbone=None if answers is None else answers.name,
            options=settings_of(option, "--option"),
        )
    folder = out or _fresh_folder(Path("runs"), suite.digest())
    workers = jobs if jobs is not None else max(1, min(os.cpu_count() or 1, 8))
    try:
        with _bar(Console(stderr=True)) as bar:
            task = bar.add_task("episodes", total=len(suite.episodes()))
            summary, report = run_suite(
                suite,
                folder,
                jobs=workers,
                resume=resume,
                progress=lambda key, state: bar.advance(task),
                backbone=answers,
                store=store,
            )
    except KeyboardInterrupt:
        typer.echo(f"interrupted; go on with: voville bench --resume --out {folder}", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False, allow_nan=False))
    else:
        print_report(report, folder, quick=quick)
    _exit(summary)


def _fresh_folder(parent: Path, digest: str) -> Path:
    """The first unused folder for a plan; numbered, so that nothing is ever overwritten."""
    for number in range(1, 10000):
        folder = parent / f"bench-{digest[:6]}-{number:03d}"
        if not folder.exists():
            return folder
    raise typer.BadParameter(f"{parent} is full of runs of this plan; give --out")


def _bar(console: Console) -> Progress:
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
