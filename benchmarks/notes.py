"""What a table must say of its numbers: who answered, and whose numbers they are not."""

from __future__ import annotations

from collections.abc import Iterable

from voville_env.benchmarks.aggregate import FALLBACK_LIMIT, Cell
from voville_env.benchmarks.layout import interval, number
from voville_env.metrics import Metric, Unit

SURROGATE = (
    "The surrogate is a calibrated model of the published behaviour: it demonstrates and tests the "
    "machinery and is not evidence about language models."
)
NOT_SCOREABLE = "not scoreable"
FALLBACKS = (
    "Without a usable verdict of the model the person keeps the rule. In brackets after a value "
    "without fallbacks: the least and the greatest value, with all such cases counted one way or "
    "the other."
)
LIMIT = (
    f"Not scoreable: more than {number(FALLBACK_LIMIT)} of the verdicts are fallbacks; only those "
    "two values are given."
)


def shows_surrogate(cells: Iterable[Cell]) -> bool:
    """Whether any of some cells is answered in closed form.

    Args:
        cells: The cells.

    Returns:
        True with the surrogate.
    """
    return any(cell.backbone == "surrogate" for cell in cells if cell.scored)


def models(cells: Iterable[Cell]) -> list[str]:
    """The language models that answer in some cells.

    Args:
        cells: The cells.

    Returns:
        Their names, each once.
    """
    names = dict.fromkeys(cell.backbone for cell in cells if cell.scored)
    return [name for name in names if name is not None and name != "surrogate"]


def answered_by(cells: Iterable[Cell]) -> str:
    """Who answers in some cells.

    Args:
        cells: The cells.

    Returns:
        What the surrogate is, where it answers, and the names of the language models; empty where
        nobody is asked.
    """
    shown = list(cells)
    parts = [SURROGATE] if shows_surrogate(shown) else []
    if names := models(shown):
        parts.append(f"Answered by {', '.join(names)}.")
    return " ".join(parts)


def note_of(cells: Iterable[Cell | None], *sentences: str) -> str:
    """The note below a table.

    Args:
        cells: The cells that the table shows; None where one was not planned.
        *sentences: What it says besides.

    Returns:
        Who answers, these sentences, and what fallbacks mean where there are any.
    """
    shown = [cell for cell in cells if cell is not None]
    parts = [answered_by(shown), *sentences]
    if any(cell.fallback_share for cell in shown):
        parts.append(FALLBACKS)
    if not all(cell.scoreable for cell in shown):
        parts.append(LIMIT)
    return " ".join(filter(None, parts))


def not_scoreable(cell: Cell, metric: Metric, unit: Unit) -> str:
    """What stands where the number of a cell would not be the policy's own.

    Args:
        cell: A cell with too many fallbacks.
        metric: A metric.
        unit: What it counts.

    Returns:
        The words, and the bounds of a rate that has some in this unit.
    """
    bounds = cell.bounds(metric, unit)
    return NOT_SCOREABLE if bounds is None else f"{NOT_SCOREABLE}\n{interval(*bounds)}"
