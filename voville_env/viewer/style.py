"""How figures look: colours that colour-blind readers tell apart, marks that read in grey."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from voville_env.benchmarks.statistics import Summary
from voville_env.errors import InvalidValueError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS_EXTRA = "figures need matplotlib: pip install 'voville[figures]'"
GREY = "#666666"
OKABE_ITO = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
)
_MARKERS = "osD^vPX*<>p"
_LINES: tuple[Any, ...] = (
    *("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1))),
    *((0, (8, 2)), (0, (5, 4)), (0, (3, 3, 1, 3)), (0, (1, 3))),
)
_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.fonttype": "path",
    "svg.hashsalt": "voville",
}
_UNDATED = {"png": {"Software": None}, "svg": dict.fromkeys(("Date", "Creator", "Format", "Type"))}


class Look(NamedTuple):
    """How one policy is drawn, alike in every figure of a run."""

    color: str
    marker: str
    line: Any


def has_matplotlib() -> bool:
    """Whether figures can be drawn.

    Returns:
        True where matplotlib is installed.
    """
    return find_spec("matplotlib") is not None


@contextmanager
def drawing() -> Iterator[None]:
    """Draws in this style, whatever the user's own settings, and leaves those as they were.

    Yields:
        Nothing.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    if not has_matplotlib():
        raise MissingExtraError(NEEDS_EXTRA)
    from matplotlib import rc_context, rcParamsDefault

    kept: dict[str, Any] = {
        key: rcParamsDefault[key] for key in rcParamsDefault if not key.startswith("backend")
    }
    settings: Any = kept | _STYLE
    with rc_context(settings):
        yield


def looks(policies: Sequence[str]) -> dict[str, Look]:
    """One look a policy.

    Args:
        policies: All policies of a run.

    Returns:
        Looks by name; after eleven policies they begin again.
    """
    size = len(_MARKERS)
    return {
        name: Look(OKABE_ITO[i % size], _MARKERS[i % size], _LINES[i % size])
        for i, name in enumerate(policies)
    }


def canvas(width: float, height: float) -> Figure:
    """An empty figure that no window and no global state knows of.

    Args:
        width: Inches.
        height: Inches.

    Returns:
        The figure.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def image(figure: Figure, kind: str) -> bytes:
    """A figure as a file, the same bytes each time.

    Args:
        figure: The figure.
        kind: `png` or `svg`.

    Returns:
        The content of the file, without dates.
    """
    out = io.BytesIO()
    with drawing():
        figure.savefig(out, format=kind, metadata=_UNDATED[kind])
    return out.getvalue()


def reach(found: Summary) -> tuple[float, float]:
    """How far an interval goes below and above its mean.

    Args:
        found: The summary.

    Returns:
        Both lengths; 0 without an interval.
    """
    low = found.mean if found.low is None else found.low
    high = found.mean if found.high is None else found.high
    return max(0.0, found.mean - low), max(0.0, high - found.mean)


def rate_axis(axes: Axes, label: str) -> None:
    """Makes the vertical axis one of a rate.

    Args:
        axes: The axes.
        label: What the rate is of.
    """
    axes.set_ylim(-0.04, 1.04)
    axes.set_ylabel(label)


def legend_above(axes: Axes) -> None:
    """Puts the legend above the title, where it covers nothing.

    Args:
        axes: The axes.
    """
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), borderaxespad=2.6)


def legend_once(figure: Figure, columns: int) -> None:
    """One legend for all panels, with what is drawn in any of them.

    Args:
        figure: The figure.
        columns: How many columns it has.
    """
    pairs = [axes.get_legend_handles_labels() for axes in figure.axes]
    found = {
        label: one for handles, labels in pairs for one, label in zip(handles, labels, strict=True)
    }
    figure.legend([*found.values()], [*found], loc="outside upper left", ncols=columns)


def bars(
    axes: Axes,
    places: Sequence[float],
    found: Sequence[Summary | None],
    look: Look,
    label: str,
) -> None:
    """A line through means with their intervals.

    Args:
        axes: Where.
        places: Horizontal places.
        found: A mean at each place; None is left out.
        look: How.
        label: For the legend; empty for none.
    """
    kept = [(place, one) for place, one in zip(places, found, strict=True) if one is not None]
    lengths = [reach(one) for _, one in kept]
    axes.errorbar(
        [place for place, _ in kept],
        [one.mean for _, one in kept],
        yerr=([a for a, _ in lengths], [b for _, b in lengths]),
        color=look.color,
        marker=look.marker,
        linestyle=look.line,
        markersize=4,
        linewidth=1.2,
        elinewidth=0.7,
        capsize=2,
        label=label or None,
    )


def band(axes: Axes, ticks: Sequence[int], found: Sequence[Summary | None], look: Look) -> None:
    """A step line of means in a band of their intervals.

    Args:
        axes: Where.
        ticks: Where each step begins.
        found: A mean from there on; None is left out.
        look: How.
    """
    kept = [(tick, one) for tick, one in zip(ticks, found, strict=True) if one is not None]
    x, means = [tick for tick, _ in kept], [one.mean for _, one in kept]
    lengths = [reach(one) for _, one in kept]
    low = [mean - a for mean, (a, _) in zip(means, lengths, strict=True)]
    high = [mean + b for mean, (_, b) in zip(means, lengths, strict=True)]
    axes.fill_between(x, low, high, step="post", color=look.color, alpha=0.12, linewidth=0)
    axes.step(x, means, where="post", color=look.color, linestyle=look.line, linewidth=1.6)


def offset(number: int, of: int) -> float:
    """Moves the marks of one of several series aside, so that they do not cover each other.

    Args:
        number: Which series, from 0.
        of: How many.

    Returns:
        A part of the distance between two places.
    """
    return 0.5 * ((number + 0.5) / of - 0.5)


def need(found: Sequence[object], what: str) -> None:
    """Refuses to draw an empty figure.

    Args:
        found: What would be drawn.
        what: What is missing, in words.

    Raises:
        InvalidValueError: If there is nothing.
    """
    if not found:
        raise InvalidValueError(f"there is nothing to draw: the run has no {what}")
