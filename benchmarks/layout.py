"""A table as titles and strings, and its two faces: Markdown and the terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.markup import escape
from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """A table ready to print.

    Attributes:
        title: Its heading.
        columns: Column heads; the first column names the rows.
        rows: As many strings each as there are columns.
        note: Printed below.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """The table in Markdown.

        Returns:
            Heading, table and note.
        """
        lines = [f"## {self.title}", "", _row(self.columns)]
        lines.append(_row([":--", *["--:"] * (len(self.columns) - 1)]))
        lines += [_row(row) for row in self.rows]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines) + "\n"

    def parts(self, most: int) -> list[Table]:
        """The table as several, where it is too wide.

        Args:
            most: Columns besides the first.

        Returns:
            Tables that share the first column; only this one where it has no more columns.
        """
        width = len(self.columns) - 1
        if width <= most:
            return [self]
        return [
            replace(
                self,
                title=f"{self.title} ({start} to {min(start + most - 1, width)} of {width})",
                columns=(self.columns[0], *self.columns[start : start + most]),
                rows=tuple((row[0], *row[start : start + most]) for row in self.rows),
            )
            for start in range(1, width + 1, most)
        ]

    def rich(self) -> RichTable:
        """The table for a terminal: what has no room goes on in the next line, nothing is cut.

        Returns:
            A Rich table.
        """
        table = RichTable(title=escape(self.title), caption=escape(self.note), title_justify="left")
        table.caption_justify = "left"
        for number, column in enumerate(self.columns):
            table.add_column(escape(column), justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(escape(cell) for cell in row))
        return table


def _row(cells: tuple[str, ...] | list[str]) -> str:
    shown = [cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells]
    return "| " + " | ".join(shown) + " |"


def number(value: float | None, digits: int = 2) -> str:
    """A number in a table.

    Args:
        value: The number.
        digits: Decimals.

    Returns:
        The text; a dash where there is none, and no minus before a zero.
    """
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def interval(low: float | None, high: float | None) -> str:
    """An interval in a table.

    Args:
        low: Lower end.
        high: Upper end.

    Returns:
        The text, with as many decimals as show its width; a dash where there is none.
    """
    if low is None or high is None:
        return "–"
    digits = 2
    while digits < 6 and low < high and number(low, digits) == number(high, digits):
        digits += 1
    return f"[{number(low, digits)}, {number(high, digits)}]"
