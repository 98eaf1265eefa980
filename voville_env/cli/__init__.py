"""The `voville` command."""

from __future__ import annotations


def main() -> None:
    """Runs the command line."""
    from voville_env.cli.app import run

    run()
