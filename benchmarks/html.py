"""The report as one HTML page: no script, no outside request, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from voville_env.benchmarks.layout import Table

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem;
       color: #1a1a1a; background: #fff }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
caption { text-align: left; font-weight: 600; padding: .3rem 0 }
th, td { border-bottom: 1px solid #ccc; padding: .25rem .7rem; text-align: right;
         vertical-align: top;
         white-space: pre-line }
th:first-child, td:first-child { text-align: left }
thead th { border-bottom: 2px solid #555 }
.scroll { overflow-x: auto }
.note { color: #444 }
"""


def page(title: str, paragraphs: Sequence[str], tables: Sequence[Table]) -> str:
    """One self-contained page.

    Args:
        title: Its heading.
        paragraphs: Text before the tables.
        tables: The tables.

    Returns:
        HTML.
    """
    body = [f"<p>{escape(text)}</p>" for text in paragraphs]
    return document(title, [*body, *map(table_html, tables)])


def document(title: str, body: Sequence[str]) -> str:
    """One self-contained page of parts that are HTML already.

    Args:
        title: Its heading.
        body: What follows the heading.

    Returns:
        HTML.
    """
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *body,
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def table_html(table: Table) -> str:
    """A table in HTML.

    Args:
        table: The table.

    Returns:
        The table and its note, every text escaped.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll"><table><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )
