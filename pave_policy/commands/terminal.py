"""Writing to the terminal: UTF-8 whatever the platform's encoding, and text never as markup."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

WIDTH = 120
"""Columns where the output is no terminal."""
# What would move a cursor, turn the direction of writing or could not be sent as UTF-8.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """A text of a model or a file that can do a terminal no harm.

    Args:
        text: Any text.

    Returns:
        The text, with escapes in place of control characters.
    """
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def show(*parts: RenderableType) -> None:
    """Prints to standard output; plain where that is no terminal.

    Args:
        *parts: Strings, Rich's texts and tables.
    """
    on_terminal = sys.stdout.isatty()
    width = None if on_terminal else WIDTH
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        for part in parts:
            if isinstance(part, Text):  # joined with others it would forget how it is to be cut
                console.print(part, crop=False, no_wrap=part.no_wrap, overflow=part.overflow)
            else:
                console.print(part, crop=False)
    text = capture.get()
    if not on_terminal:
        text = re.sub(" +$", "", text, flags=re.MULTILINE)
    typer.echo(text.encode(), nl=False)


def show_json(data: Any) -> None:
    """Prints one line of strict JSON to standard output.

    Args:
        data: JSON-ready.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    typer.echo(text.encode("utf-8", "backslashreplace"))  # half a surrogate pair as JSON writes it


def remark(text: str) -> None:
    """Prints a line to standard error, so that it stays out of a pipe.

    Args:
        text: The line.
    """
    console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    console.print(visible(text), style="dim")
