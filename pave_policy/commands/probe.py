"""`voville probe`: can an endpoint be used, what does it take, what would a benchmark cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_UNFIT = 1
_INTERRUPTED = 130


def probe(
    url: Annotated[
        str | None, typer.Argument(help="The endpoint's address; may be left out with a preset.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model; may be left out where just one is listed.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", "--backbone", help="A preset such as gpt-4o, vllm or ollama."),
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the key.")
    ] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File that holds the key.")] = None,
    samples: Annotated[
        int,
        typer.Option(
            help="How often each operation is asked; more often where it takes more to have "
            "--concurrency calls under way."
        ),
    ] = 2,
    concurrency: Annotated[
        int | None, typer.Option(help="Calls under way at once; 8 unless given.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(help="As for bench: what is to be estimated.")
    ] = None,
    policy: Annotated[list[str] | None, typer.Option(help="As for bench.")] = None,
    seeds: Annotated[int | None, typer.Option(help="As for bench; 5 unless given.")] = None,
    days: Annotated[int | None, typer.Option(help="As for bench; all unless given.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="key=value for the policies, as for bench.")
    ] = None,
    chat: Annotated[
        list[str] | None, typer.Option(help="key=value of any other setting of a chat backbone.")
    ] = None,
    price_in: Annotated[
        float | None, typer.Option(help="US dollars for a million tokens sent.")
    ] = None,
    price_out: Annotated[
        float | None, typer.Option(help="US dollars for a million tokens received.")
    ] = None,
    rough: Annotated[
        bool, typer.Option("--rough", help="Rehearse one seed instead of all.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tries an endpoint out and estimates what a benchmark takes there.

    Every operation of both agents is asked with sample requests, whatever policies are to be
    estimated: a few dozen calls. Exit codes: 0 usable, 1 some operation never got a usable answer,
    2 wrong usage, 4 the endpoint cannot be used.
    """
    from pave_policy.commands.probe_report import as_data, print_probe
    from pave_policy.commands.probe_run import run_probe
    from pave_policy.commands.terminal import show_json
    from voville_env.benchmarks.suite import plan
    from voville_env.cli.answering import settings_of

    said = {
        "base_url": url,
        "model": model,
        "api_key_env": api_key_env,
        "api_key_file": None if api_key_file is None else str(api_key_file),
        "concurrency": concurrency,
        "price_in": price_in,
        "price_out": price_out,
        **settings_of(chat, "--chat"),
    }
    options = settings_of(option, "--option")
    suite = plan(scenario, policy, seeds=seeds, days=days, backbone="chat", options=options)
    try:
        with _bar(Console(stderr=True)) as bar:
            found = run_probe(suite, preset, said, samples, bar, rough=rough)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if as_json:
        show_json(as_data(found))
    else:
        print_probe(found)
    if not found.fitness.fit:
        raise typer.Exit(_UNFIT)


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
