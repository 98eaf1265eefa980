"""The tables of a report: the paper's beside ours, error rates, scenarios and the detail."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any

from voville_env.benchmarks.aggregate import Cell, Comparison, Data
from voville_env.benchmarks.layout import Table, interval, number
from voville_env.benchmarks.notes import not_scoreable, note_of
from voville_env.benchmarks.suite import CONDITIONS
from voville_env.metrics import BY_KEY, METRICS, Metric, Unit, companion

REFERENCE = "pave"
VARIANTS = "Variants, which carry settings in their names, stand in the tables of their scenarios."
# Column of a paper table: key in the data file, head, scenario, metric; None: the row's own policy.
Column = tuple[str, str, str, str, str | None]
FIRE, OFFICERS, PEERS = "fire_escape", "fire_escape_officers", "jaywalk"
TABLE_1: tuple[Column, ...] = (
    ("vr_cafe", "VR_cafe ↑", FIRE, "vr_cafe", None),
    ("urv", "URV ↓", FIRE, "urv", None),
    ("t_rec_ticks", "T_rec ↓", FIRE, "t_rec_origin", None),
    ("", "T_rec, 12 tiles", FIRE, "t_rec_radius", None),
    ("ocr", "OCR ↑", OFFICERS, "ocr", None),
    ("vr_near", "VR_near ↓", OFFICERS, "vr_near", None),
    ("vr_far", "VR_far", OFFICERS, "vr_far", None),
    ("cr_d1", "CR_D1 ↓", PEERS, "cr_d1", None),
    ("cr_d2", "CR_D2 ↓", PEERS, "cr_d2", None),
    ("cr_d1_vanilla", "CR_D1 vanilla", PEERS, "cr_d1", "vanilla"),
)
TABLE_6: tuple[Column, ...] = (
    ("vr_cafe", "VR_cafe, exposed ↑", FIRE, "vr_cafe_exposed", None),
    ("urv", "URV ↓", FIRE, "urv", None),
    ("ocr", "OCR ↑", OFFICERS, "ocr", None),
    ("vr_near", "VR_near ↓", OFFICERS, "vr_near", None),
    ("cr_d1", "CR_D1 ↓", PEERS, "cr_d1", None),
)
_ARROWS = {"up": " ↑", "down": " ↓", "none": ""}
_STATISTICS = ("mean", "sd", "SE", "95% interval", "without fallbacks")


def _cell(cells: Sequence[Cell], scenario: str, policy: str) -> Cell | None:
    return next((c for c in cells if (c.scenario, c.policy) == (scenario, policy)), None)


def _shown(cells: Sequence[Cell], columns: Sequence[Column], policy: str) -> list[Cell | None]:
    """The cell behind each column of a policy's rows in a paper table."""
    return [_cell(cells, scenario, other or policy) for _, _, scenario, _, other in columns]


def shows(columns: Sequence[Column], policies: Sequence[str], cells: Sequence[Cell]) -> bool:
    """Whether a table of the paper has anything of ours to show.

    Args:
        columns: Its columns.
        policies: Its rows of ours.
        cells: All cells.

    Returns:
        True if any number in it was run.
    """
    shown = (cell for policy in policies for cell in _shown(cells, columns, policy))
    return any(cell is not None and cell.scored for cell in shown)


def _ours(
    cells: Sequence[Cell], columns: Sequence[Column], policy: str, who: str = "ours"
) -> list[tuple[str, ...]]:
    """The rows of ours in a paper table: a statistic each, and the rates without fallbacks."""
    shown = _shown(cells, columns, policy)
    label = _label(cells, policy, who)
    if not any(cell and cell.scored for cell in shown):
        return [(label, *("–",) * len(columns))]
    metrics = [BY_KEY[key] for _, _, _, key, _ in columns]
    texts = [_statistics(cell, metric) for cell, metric in zip(shown, metrics, strict=True)]
    rows = dict(zip(_STATISTICS, zip(*texts, strict=True), strict=True))
    if not any(cell.fallback_share for cell in shown if cell and cell.scoreable):
        del rows["without fallbacks"]
    return [
        (f"{label}: {name}" if name == "mean" else f"– {name}", *row) for name, row in rows.items()
    ]


def _ours_on_each(
    blocks: Sequence[Sequence[Cell]], columns: Sequence[Column], policy: str, who: str = "ours"
) -> list[tuple[str, ...]]:
    """The rows of ours for each backbone; that a policy was run on none of them is said once."""
    made = dict.fromkeys(tuple(_ours(cells, columns, policy, who)) for cells in blocks)
    return [row for rows in made for row in rows]


def _statistics(cell: Cell | None, metric: Metric) -> tuple[str, ...]:
    """One column of ours, in the order of `_STATISTICS`."""
    found = cell.summary(metric, metric.units[0]) if cell else None
    if cell is None or found is None:
        return ("–",) * len(_STATISTICS)
    if not cell.scoreable:
        return (not_scoreable(cell, metric, metric.units[0]), *("–",) * (len(_STATISTICS) - 1))
    return (
        number(found.mean) + (" =" if found.no_variance else ""),
        number(found.sd),
        number(found.se),
        interval(found.low, found.high),
        _without_fallbacks(cell, metric),
    )


def _without_fallbacks(cell: Cell, metric: Metric) -> str:
    """A rate without what a fallback decided, and its bounds."""
    other, bounds = companion(metric), cell.bounds(metric, metric.units[0])
    if other is None or bounds is None:
        return "–"
    found = cell.summary(other, other.units[0])
    return f"{number(found.mean if found else None)} {interval(*bounds)}"


def _label(cells: Sequence[Cell], policy: str, who: str) -> str:
    """A policy's name in the paper's tables, with who answers for it."""
    cell = next((c for c in cells if c.policy == policy and c.facts), None)
    if cell is None:
        return f"{who}, {policy} (not run)"
    answers = f" on {cell.backbone}" if cell.backbone else ""
    return f"{who}, {marked(policy, privileged=cell.privileged)}{answers}"


def table_1(*blocks: Sequence[Cell]) -> Table:
    """Table 1 in the paper's layout: its four backbones, and rows of ours for each of our own.

    Args:
        *blocks: The cells of each backbone.

    Returns:
        The table.
    """
    paper = paper_tables()
    rows = [_paper_row(TABLE_1, row) for row in paper["table_1"]["rows"]]
    rows += _ours_on_each(blocks, TABLE_1, REFERENCE)
    return Table(
        "Table 1 of the paper beside ours",
        ("backbone", *(column[1] for column in TABLE_1)),
        tuple(rows),
        note_of(
            [cell for cells in blocks for cell in _shown(cells, TABLE_1, REFERENCE)],
            "Rates are per tick (OCR: per instruction). T_rec is counted from leaving the café; "
            "from 12 tiles it is ours alone. = no variance over seeds.",
            paper["plus_minus"],
            _variants(blocks),
        ),
    )


def table_6(*blocks: Sequence[Cell]) -> Table:
    """Table 6 in the paper's layout: each condition of the paper with ours below.

    The conditions of ours follow; two of them complete the five that the paper speaks of (C-01).

    Args:
        *blocks: The cells of each backbone.

    Returns:
        The table.
    """
    paper = paper_tables()
    rows: list[tuple[str, ...]] = []
    shown: list[Cell | None] = []
    for row in paper["table_6"]["rows"]:
        rows.append(_paper_row(TABLE_6, row | {"name": f"paper, {row['name']}"}))
        rows += _ours_on_each(blocks, TABLE_6, row["policy"])
        shown += [cell for cells in blocks for cell in _shown(cells, TABLE_6, row["policy"])]
    in_paper = [row["policy"] for row in paper["table_6"]["rows"]]
    for policy in (name for name in CONDITIONS if name not in in_paper):
        rows += _ours_on_each(blocks, TABLE_6, policy, "ours alone")
        shown += [cell for cells in blocks for cell in _shown(cells, TABLE_6, policy)]
    return Table(
        "Table 6 of the paper beside ours",
        ("condition", *(column[1] for column in TABLE_6)),
        tuple(rows),
        note_of(
            shown,
            "VR_cafe counts an attendee who stays in the burning café as 0. Rates are per tick "
            "(OCR: per instruction). = no variance over seeds. Ours alone: the paper has no such "
            "condition.",
            paper["plus_minus"],
            _variants(blocks),
        ),
    )


def _variants(blocks: Sequence[Sequence[Cell]]) -> str:
    """Where to look for what a table of the paper has no row for."""
    names = (name for cells in blocks for cell in cells for name in (cell.scenario, cell.policy))
    return VARIANTS if any("@" in name for name in names) else ""


def error_table(cells: Sequence[Cell]) -> Table:
    """Both error rates of every policy, and coverage.

    Args:
        cells: All cells.

    Returns:
        The table.
    """
    keys = [
        (key, unit)
        for key in ("false_violation_rate", "false_compliance_rate")
        for unit in BY_KEY[key].units
    ]
    keys += [("contested_share", Unit.TICK), ("coverage", Unit.AGENT)]
    shown = [cell for cell in cells if not cell.is_control]
    rows = [
        (_name(cell), *(_short(cell, BY_KEY[key], unit) for key, unit in keys)) for cell in shown
    ]
    return Table(
        "Error rates on both sides against the environment's own label, and coverage",
        ("scenario, policy", *(f"{BY_KEY[key].title} ({unit})" for key, unit in keys)),
        tuple(rows),
        note_of(
            shown,
            "False violation: broken though unwarranted ÷ unwarranted. False compliance: kept "
            "though warranted ÷ warranted; who tried and could not move is counted apart. Both are "
            "for rules R1 to R3. Coverage: attendees with an opportunity ÷ attendees.",
        ),
    )


def scenario_table(group: Sequence[Cell], keys: Collection[str] | None = None) -> Table:
    """Every metric of a scenario that has a value, policies side by side.

    Args:
        group: The cells of one scenario.
        keys: The metrics to show; all unless given.

    Returns:
        The table.
    """
    rows = [
        (
            f"{metric.title}{_ARROWS[metric.direction]} ({unit})",
            *(_short(cell, metric, unit) for cell in group),
        )
        for metric in METRICS
        for unit in metric.units
        if keys is None or metric.key in keys
        if any(cell.values(metric.key, unit) for cell in group)
    ]
    scored = (
        "episodes scored / planned",
        *(f"{len(c.scored)}/{len(c.planned)}" for c in group),
    )
    heads = (marked(cell.policy, privileged=cell.privileged) for cell in group)
    return Table(
        f"Scenario {group[0].scenario}",
        ("metric (unit)", *heads),
        (scored, *rows),
        note_of(
            group,
            "Mean over seeds and 95% interval. = no variance over seeds. – nothing to measure. "
            "† from what the policy says of itself.",
        ),
    )


def _detail_row(cell: Cell, metric: Metric, unit: Unit) -> tuple[str, ...]:
    data = cell.metric_json(metric, unit)
    first = (_name(cell), unit.value, str(data["n"]))
    if not cell.tells(metric):
        return (*first, *("–",) * 7, not_scoreable(cell, metric, unit))
    return (
        *first,
        *(number(data.get(key), 3) for key in ("mean", "sd", "se", "low", "high")),
        f"{_plain(data['numerator'])}/{_plain(data['denominator'])}",
        number(data["conservative"], 3),
        "no variance" if data.get("no_variance") else "",
    )


def detail_table(cells: Sequence[Cell], metric: Metric) -> Table:
    """All statistics of one metric.

    Args:
        cells: All cells.
        metric: The metric.

    Returns:
        The table.
    """
    shown = [
        (cell, unit)
        for cell in cells
        for unit in metric.units
        if cell.values(metric.key, unit) or cell.missing
    ]
    columns = ("n seeds", "mean", "sd", "SE", "95% low", "95% high", "counts", "conservative")
    return Table(
        f"Detail: {metric.title}{_ARROWS[metric.direction]}",
        ("scenario, policy", "unit", *columns, "flag"),
        tuple(_detail_row(cell, metric, unit) for cell, unit in shown),
        note_of(cell for cell, _ in shown),
    )


def _name(cell: Cell) -> str:
    return f"{cell.scenario}, {marked(cell.policy, privileged=cell.privileged)}"


def marked(policy: str, *, privileged: bool) -> str:
    """A policy's name in a table.

    Args:
        policy: Its name.
        privileged: Whether it is told what others must find out.

    Returns:
        The name, with a mark if it is privileged.
    """
    return f"{policy} (privileged)" if privileged else policy


def _short(cell: Cell, metric: Metric, unit: Unit) -> str:
    found = cell.summary(metric, unit)
    if found is None:
        return "–"
    if not cell.tells(metric):
        return not_scoreable(cell, metric, unit)
    shown = number(found.mean) + (" =" if found.no_variance else "")
    return shown if found.low is None else f"{shown}\n{interval(found.low, found.high)}"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _paper_row(columns: Sequence[Column], row: Mapping[str, Any]) -> tuple[str, ...]:
    cells = [
        f"{number(row[key][0])} ± {number(row[key][1])}" if key in row else "–"
        for key, *_ in columns
    ]
    return (str(row["name"]), *cells)


def difference_table(title: str, comparisons: Sequence[Comparison], note: str) -> Table:
    """Paired differences and what they mean in words.

    Args:
        title: Heading.
        comparisons: What to show.
        note: Printed below.

    Returns:
        The table.
    """
    rows = []
    for item in comparisons:
        found = item.difference
        rows.append(
            (
                f"{item.scenario}: {item.first} less {item.second}",
                f"{BY_KEY[item.metric].title} ({item.unit})",
                str(found.n),
                number(found.mean),
                interval(found.low, found.high),
                number(found.p_holm, 3),
                found.method,
                found.verdict,
            )
        )
    columns = (
        "metric (unit)",
        "seeds",
        "difference",
        "95% interval",
        "p (Holm)",
        "test",
        "first is",
    )
    return Table(title, ("what", *columns), tuple(rows), note)


def paper_tables() -> Data:
    """The paper's Tables 1 and 6.

    Returns:
        For each row the mean and the printed plus-minus of each column.
    """
    text = files("voville_env.benchmarks").joinpath("paper_tables.json").read_text("utf-8")
    data: Data = json.loads(text)
    return data
