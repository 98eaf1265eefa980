"""The commands, and what their exit codes mean."""

from __future__ import annotations

import io
import sys
from enum import IntEnum
from importlib.metadata import entry_points

import typer
from rich.console import Console

from voville_env.cli.bench import bench
from voville_env.cli.doctor import doctor
from voville_env.cli.replay import replay, report
from voville_env.cli.scenarios import scenarios_app
from voville_env.cli.sweep import sweep
from voville_env.cli.throughput import throughput
from voville_env.errors import RunAbortedError, VovilleError
from voville_env.policy import COMMANDS


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    """Something asked for was done only in part, such as episodes that failed."""
    USAGE = 2
    """A wrong option, name or file; nothing was done."""
    ALL_FAILED = 3
    """Nothing could be scored."""
    ABORTED = 4
    """The run was stopped: what it depends on, such as a model endpoint, cannot be used."""
    INTERRUPTED = 130


app = typer.Typer(
    help="Voville: a town whose people must decide when breaking a rule is legitimate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(bench)
app.command()(sweep)
app.command()(report)
app.command()(replay)
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


def _add_installed() -> None:
    """Adds the commands of installed packages; one that cannot be loaded breaks no other."""
    for point in sorted(entry_points(group=COMMANDS), key=lambda point: point.name):
        try:
            command = point.load()
        except Exception as error:
            sys.stderr.write(f"warning: command {point.name!r} cannot be loaded: {error}\n")
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=point.name)
        else:
            app.command(point.name)(command)


def plain(text: str) -> str:
    """A line for a terminal: what it would obey, such as an escape, is written out.

    Args:
        text: Any text.

    Returns:
        The same without control and formatting characters.
    """
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def _say(text: str) -> None:
    Console(stderr=True, soft_wrap=True).print(plain(text), markup=False, style="red")


def run() -> None:
    """Runs the command line; our own errors become one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without arrows still gets its table
    try:
        _add_installed()
        app()
    except RunAbortedError as error:
        Console(stderr=True, soft_wrap=True).print(
            plain(f"stopped: {error}"), markup=False, style="red"
        )
        sys.exit(Exit.ABORTED)
    except (VovilleError, OSError) as error:
        Console(stderr=True, soft_wrap=True).print(
            plain(f"error: {error}"), markup=False, style="red"
        )
        sys.exit(Exit.USAGE)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; finished episodes are kept, --resume goes on\n")
        sys.exit(Exit.INTERRUPTED)
