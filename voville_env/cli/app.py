"""The commands, and what their exit codes mean."""

from __future__ import annotations

import sys
from enum import IntEnum

import typer
from rich.console import Console

from voville_env.cli.bench import bench
from voville_env.cli.doctor import doctor
from voville_env.cli.scenarios import scenarios_app
from voville_env.cli.throughput import throughput
from voville_env.errors import VovilleError


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    """Something asked for was done only in part, such as episodes that failed."""
    USAGE = 2
    """A wrong option, name or file; nothing was done."""
    ALL_FAILED = 3
    """Nothing could be scored."""
    INTERRUPTED = 130


app = typer.Typer(
    help="Voville: a town whose people must decide when breaking a rule is legitimate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(bench)
app.command()(throughput)
app.command()(doctor)
app.add_typer(scenarios_app, name="scenarios")


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from voville_env import __version__

        typer.echo(f"voville {__version__}")
        raise typer.Exit


def run() -> None:
    """Runs the command line; our own errors become one line on stderr."""
    try:
        app()
    except (VovilleError, OSError) as error:
        Console(stderr=True, soft_wrap=True).print(f"error: {error}", markup=False, style="red")
        sys.exit(Exit.USAGE)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; finished episodes are kept, --resume goes on\n")
        sys.exit(Exit.INTERRUPTED)
