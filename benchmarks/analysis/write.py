"""The folder `analysis/` of a run: text, page, CSV and figures, the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from voville_env.benchmarks.analysis import (
    expectations,
    failure_modes,
    gate,
    importance,
    recovery,
    suppression,
)
from voville_env.benchmarks.analysis.run import Run, load_run
from voville_env.benchmarks.analysis.section import Section, csv_text
from voville_env.benchmarks.folder import write_bytes, write_text
from voville_env.benchmarks.html import document, table_html
from voville_env.benchmarks.notes import answered_by
from voville_env.benchmarks.spread import Note
from voville_env.errors import InvalidValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "analysis"
TITLE = "Analysis"
_SECTIONS: tuple[Callable[[Run], Section], ...] = (
    gate.section,
    suppression.section,
    recovery.section,
    failure_modes.section,
    importance.section,
    expectations.section,
)
_QUICK = "A quick smoke run: these numbers are no score."


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        folder: Where.
        notice: What is missing and why; empty where nothing is.
    """

    folder: Path
    notice: str


def write_analysis(folder: Path, note: Note | None = None) -> Written:
    """Analyses the finished episodes of a run and writes `analysis/` into its folder.

    Args:
        folder: The run folder.
        note: Called after each log.

    Returns:
        Where it lies, and what is missing without matplotlib.

    Raises:
        InvalidValueError: If it is no run folder, or its `analysis` leads elsewhere.
        LogError: If a log in it cannot be understood.
    """
    from voville_env.viewer.style import NEEDS_EXTRA, has_matplotlib

    run = load_run(folder, note)
    target = folder / FOLDER
    if target.is_symlink():
        raise InvalidValueError(f"{target} leads elsewhere; allowed: a plain folder")
    target.mkdir(exist_ok=True)
    sections = [make(run) for make in _SECTIONS]
    draws = has_matplotlib()
    notice = "" if draws else f"No figures: {NEEDS_EXTRA}"
    images = _figures(run, sections) if draws else {}
    _clear(target, sections)
    for section in sections:
        if section.rows:
            write_text(target / f"{section.key}.csv", csv_text(section.rows))
    for name, content in images.items():
        write_bytes(target / name, content)
    preamble = _preamble(run, notice)
    write_text(target / "analysis.md", _markdown(preamble, sections, images))
    write_text(target / "analysis.html", _page(preamble, sections, images))
    return Written(target, notice)


def _clear(target: Path, sections: list[Section]) -> None:
    """Removes what an earlier analysis wrote and this one may not."""
    for section in sections:
        for ending in ("csv", "png", "svg"):
            (target / f"{section.key}.{ending}").unlink(missing_ok=True)


def _figures(run: Run, sections: list[Section]) -> dict[str, bytes]:
    """The files of the figures; a section without tables has none."""
    from voville_env.viewer import figures, style

    makers: Mapping[str, Callable[[Run], Figure]] = {
        gate.KEY: figures.gate_figure,
        suppression.KEY: figures.suppression_figure,
        recovery.KEY: figures.recovery_figure,
        failure_modes.KEY: figures.failure_modes_figure,
        importance.KEY: figures.importance_figure,
        expectations.KEY: figures.expectations_figure,
    }
    found = {}
    for section in sections:
        if not section.tables:
            continue
        try:
            figure = makers[section.key](run)
        except InvalidValueError:
            continue  # nothing in its tables is scoreable
        for kind in ("png", "svg"):
            found[f"{section.key}.{kind}"] = style.image(figure, kind)
    return found


def _preamble(run: Run, notice: str) -> list[str]:
    scored = len(run.episodes)
    return list(
        filter(
            None,
            (
                _QUICK if run.quick else "",
                f"Episodes: {run.planned} planned, {scored} finished and analysed.",
                answered_by(run.cells),
                "Unit of replication: the seed, as in the report.",
                notice,
            ),
        )
    )


def _markdown(preamble: list[str], sections: list[Section], images: Mapping[str, bytes]) -> str:
    parts = [f"# {TITLE}\n", *(f"{text}\n" for text in preamble)]
    for section in sections:
        parts.append(f"# {section.title}\n")
        if section.nothing:
            parts.append(f"{section.nothing}\n")
        if f"{section.key}.png" in images:
            parts.append(f"![{section.title}]({section.key}.png)\n")
        parts += [table.markdown() for table in section.tables]
        if section.rows:
            parts.append(f"Numbers: [{section.key}.csv]({section.key}.csv)\n")
    return "\n".join(parts)


def _page(preamble: list[str], sections: list[Section], images: Mapping[str, bytes]) -> str:
    body = [f"<p>{escape(text)}</p>" for text in preamble]
    for section in sections:
        body.append(f"<h2>{escape(section.title)}</h2>")
        if section.nothing:
            body.append(f"<p>{escape(section.nothing)}</p>")
        svg = images.get(f"{section.key}.svg")
        if svg is not None:
            body.append(f'<div class="scroll">{_inline(section, svg.decode("utf-8"))}</div>')
        body += map(table_html, section.tables)
    return document(TITLE, body)


def _inline(section: Section, svg: str) -> str:
    """A figure inside a page: without its prologue, and with ids that no other figure has."""
    start = svg.index("<svg")
    own = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{section.key}-", svg[start:])
    return own.replace("<svg", f'<svg role="img" aria-label="{escape(section.title)}"', 1)
