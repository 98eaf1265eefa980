"""`voville report` and `voville replay`: a finished run again, with neither key nor network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from voville_env.cli.answering import CHAT
from voville_env.cli.running import print_report, progress_bar
from voville_env.errors import InvalidValueError

RunFolder = Annotated[Path, typer.Argument(help="Run folder.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several give one report.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the report of several runs is written.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Scores finished episodes again, from their logs alone, and writes the report.

    A single run is also analysed, in RUN/analysis.

    Exit codes: 0 there is a report, 2 wrong usage, 3 nothing was scored.
    """
    if len(runs) > 1:
        _report_several(runs, out, as_json=as_json)
    elif out is not None:
        raise InvalidValueError(f"--out is {str(out)!r}; allowed: with several runs alone")
    else:
        _report_one(runs[0], as_json=as_json)


def _report_one(run: Path, *, as_json: bool) -> None:
    from voville_env.benchmarks.analysis.write import write_analysis
    from voville_env.benchmarks.folder import only_run, read_manifest
    from voville_env.benchmarks.replay import report_again

    read_manifest(run)
    with only_run(run), progress_bar(Console(stderr=True)) as bar:
        logs = len(list(run.glob("episodes/*.jsonl")))
        task = bar.add_task("logs", total=2 * logs)
        summary, made = report_again(run, lambda: bar.advance(task))
        analysis = write_analysis(run, lambda: bar.advance(task))
    _show(summary, made, run, as_json=as_json)
    if not as_json:
        typer.echo(f"Analysis: {analysis.folder / 'analysis.html'}")
        if analysis.notice:
            typer.echo(analysis.notice)
    _exit(summary)


def _report_several(runs: list[Path], out: Path | None, *, as_json: bool) -> None:
    from voville_env.benchmarks.merge import report_runs

    if out is None:
        raise InvalidValueError("several runs need --out: where their report is written")
    summary, made = report_runs(runs, out)
    _show(summary, made, out, as_json=as_json)
    _exit(summary)


def _show(summary: dict[str, Any], made: Any, folder: Path, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False, allow_nan=False))
    else:
        print_report(made, folder, quick=bool(summary["no_score"]))


def _exit(summary: dict[str, Any]) -> None:
    if summary["episodes"]["scored"] == 0:
        raise typer.Exit(3)


def replay(
    run: RunFolder,
    store: Annotated[
        Path | None, typer.Option(help="Store of model calls, if not in the run folder.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Plays a run's finished episodes again from its stored model calls and compares the logs.

    Exit codes: 0 all logs came out the same, 1 one did not, 2 wrong usage.
    """
    from voville_env.benchmarks.folder import read_manifest
    from voville_env.benchmarks.replay import Replayed
    from voville_env.benchmarks.replay import replay as play_again
    from voville_env.policy import load_backbone

    connection = read_manifest(run).get("connection")
    backbone = None if connection is None else load_backbone(CHAT, offline=True, **connection)
    progress = Console(stderr=True)

    def note(result: Replayed) -> None:
        if not result.same and not as_json:
            what = result.error or f"line {result.line} of the log differs"
            progress.print(f"{result.key.stem}: {what}", markup=False, soft_wrap=True)

    results = play_again(run, backbone, store=store, note=note)
    same = sum(result.same for result in results)
    if as_json:
        typer.echo(json.dumps([result.as_json() for result in results], ensure_ascii=False))
    else:
        typer.echo(f"{same} of {len(results)} episodes came out byte for byte the same")
    if same < len(results):
        raise typer.Exit(1)
