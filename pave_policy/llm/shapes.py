"""The published table of reply shapes: what is read, what is refused, and why (`shapes.toml`)."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pave_policy.llm.kinds import ANYTHING, Asked


class Shape(BaseModel):
    """One reply and what becomes of it.

    Attributes:
        name: What is special about it.
        operation: What was asked.
        reply: The text, or the part of it that is repeated.
        times: How often the text is repeated.
        examples: What the prompt showed as examples.
        asked: What the prompt said of its answer.
        verdict: Whether it is read.
        value: What it is read as; None where it is refused.
        why: The reason why it is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    operation: str
    reply: str
    times: int = 1
    examples: list[dict[str, Any]] = Field(default_factory=list)
    asked: Asked = ANYTHING
    verdict: Literal["accepted", "refused"]
    value: dict[str, Any] | list[dict[str, Any]] | None = None
    why: str = ""

    @property
    def text(self) -> str:
        """The whole reply."""
        return self.reply * self.times


@cache
def load_shapes() -> tuple[Shape, ...]:
    """Reads the table.

    Returns:
        The shapes in the order of the rules.
    """
    text = files("pave_policy.llm").joinpath("shapes.toml").read_text("utf-8")
    return tuple(Shape.model_validate(entry) for entry in tomllib.loads(text)["shape"])


def markdown_table() -> str:
    """The table of `docs/answers.md`, made from the shapes.

    Returns:
        A Markdown table, one row a shape; ⏎ stands for a line break.
    """
    lines = ["| shape | operation | reply | becomes |", "|---|---|---|---|"]
    for shape in load_shapes():
        reply = _code(shape.reply) + (f" × {shape.times:,}" if shape.times > 1 else "")
        becomes = f"refused: {shape.why}".replace("|", "\\|")
        if shape.value is not None:
            becomes = _code(json.dumps(shape.value, ensure_ascii=False))
        lines.append(f"| {shape.name} | `{shape.operation}` | {reply} | {becomes} |")
    return "\n".join(lines)


def _code(text: str) -> str:
    """Inline code for a table cell, with a delimiter that does not occur in it."""
    ticks = "`"
    while ticks in text:
        ticks += "`"
    space = " " if text[:1] in "` " or text[-1:] in "` " else ""
    shown = text.replace("\n", "⏎").replace("|", "\\|")
    return f"{ticks}{space}{shown}{space}{ticks}"
