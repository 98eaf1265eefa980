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
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Plays scenarios × policies × seeds and prints the tables.

    Exit codes: 0 all episodes scored, 1 some failed, 2 wrong usage, 3 none scored.
    """
    from voville_env.benchmarks.runner import planned_suite, run_suite
    from voville_env.benchmarks.suite import plan

    asked = any(value is not None for value in (scenario, policy, seeds, days)) or quick
    if resume:
        suite = planned_suite(out)
    if not resume or asked:
        suite = plan(scenario, policy, seeds=seeds, days=days, quick=quick)
    folder = out or _fresh_folder(Path("runs"), suite.digest())
    workers = jobs if jobs is not None else max(1, min(os.cpu_count() or 1, 8))
    stderr = Console(stderr=True)
    with _bar(stderr) as bar:
        task = bar.add_task("episodes", total=len(suite.episodes()))
        summary, report = run_suite(
            suite,
            folder,
            jobs=workers,
            resume=resume,
            progress=lambda key, state: bar.advance(task),
        )
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False, allow_nan=False))
    else:
        _print(report, folder, quick=quick)
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


def _print(report: Any, folder: Path, *, quick: bool) -> None:
    width = None if sys.stdout.isatty() else _WIDE
    console = Console(width=width)
    if quick:
        console.print("A quick smoke run: these numbers are no score.", style="bold")
    for table in report.tables():
        console.print(table)
    for line in report.flags():
        console.print(line, markup=False)
    console.print(f"Run folder: {folder}", markup=False, soft_wrap=True)


def _exit(summary: dict[str, Any]) -> None:
    counts = summary["episodes"]
    if counts["scored"] == 0:
        raise typer.Exit(3)
    if counts["failed"] > 0:
        raise typer.Exit(1)
