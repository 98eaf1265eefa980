"""The tables of a report: the paper's beside ours, error rates, scenarios and the detail."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any

from voville_env.benchmarks.aggregate import Cell, Comparison, Data
from voville_env.benchmarks.layout import Table, interval, number
from voville_env.metrics import BY_KEY, METRICS, Metric, Unit

SURROGATE = (
    "The surrogate is a calibrated model of the published behaviour: it demonstrates and tests the "
    "machinery and is not evidence about language models."
)
REFERENCE = "pave"
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


def _cell(cells: Sequence[Cell], scenario: str, policy: str) -> Cell | None:
    return next((c for c in cells if (c.scenario, c.policy) == (scenario, policy)), None)


def _ours(cells: Sequence[Cell], columns: Sequence[Column], policy: str) -> list[tuple[str, ...]]:
    """Four rows of a paper table: mean, sd, SE and interval of ours."""
    rows: dict[str, list[str]] = {"mean": [], "sd": [], "SE": [], "95% interval": []}
    for _, _, scenario, key, other in columns:
        metric = BY_KEY[key]
        cell = _cell(cells, scenario, other or policy)
        found = cell.summary(metric, metric.units[0]) if cell else None
        mark = " =" if found and found.no_variance else ""
        rows["mean"].append(number(found.mean) + mark if found else "–")
        rows["sd"].append(number(found.sd) if found else "–")
        rows["SE"].append(number(found.se) if found else "–")
        rows["95% interval"].append(interval(found.low, found.high) if found else "–")
    label = _label(cells, policy)
    return [
        (f"{label}: {name}" if name == "mean" else f"– {name}", *shown)
        for name, shown in rows.items()
    ]


def _label(cells: Sequence[Cell], policy: str) -> str:
    """A policy's name in the paper's tables, with who answers for it."""
    cell = next((c for c in cells if c.policy == policy and c.facts), None)
    if cell is None:
        return f"ours, {policy} (not run)"
    who = f" on {cell.backbone}" if cell.backbone else ""
    return f"ours, {marked(policy, privileged=cell.privileged)}{who}"


def table_1(cells: Sequence[Cell]) -> Table:
    """Table 1 in the paper's layout: its four backbones, and four rows of ours.

    Args:
        cells: All cells.

    Returns:
        The table.
    """
    paper = paper_tables()
    rows = [_paper_row(TABLE_1, row) for row in paper["table_1"]["rows"]]
    rows += _ours(cells, TABLE_1, REFERENCE)
    return Table(
        "Table 1 of the paper beside ours",
        ("backbone", *(column[1] for column in TABLE_1)),
        tuple(rows),
        f"{SURROGATE} Rates are per tick (OCR: per instruction). T_rec is counted from leaving the "
        f"café; from 12 tiles it is ours alone. = no variance over seeds. {paper['plus_minus']}",
    )


def table_6(cells: Sequence[Cell]) -> Table:
    """Table 6 in the paper's layout: each condition of the paper with ours below.

    Args:
        cells: All cells.

    Returns:
        The table.
    """
    paper = paper_tables()
    rows: list[tuple[str, ...]] = []
    for row in paper["table_6"]["rows"]:
        rows.append(_paper_row(TABLE_6, row | {"name": f"paper, {row['name']}"}))
        rows += _ours(cells, TABLE_6, row["policy"])
    return Table(
        "Table 6 of the paper beside ours",
        ("condition", *(column[1] for column in TABLE_6)),
        tuple(rows),
        f"{SURROGATE} VR_cafe counts an attendee who stays in the burning café as 0. Rates are per "
        f"tick (OCR: per instruction). = no variance over seeds. {paper['plus_minus']}",
    )


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
    rows = [
        (
            f"{cell.scenario}, {marked(cell.policy, privileged=cell.privileged)}",
            *(_short(cell, BY_KEY[key], unit) for key, unit in keys),
        )
        for cell in cells
        if not cell.is_control
    ]
    return Table(
        "Error rates on both sides against the environment's own label, and coverage",
        ("scenario, policy", *(f"{BY_KEY[key].title} ({unit})" for key, unit in keys)),
        tuple(rows),
        "False violation: broken though unwarranted ÷ unwarranted. False compliance: kept though "
        "warranted ÷ warranted; who tried and could not move is counted apart. Both are for rules "
        "R1 to R3. Coverage: attendees with an opportunity ÷ attendees.",
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
        "Mean over seeds and 95% interval. = no variance over seeds. – nothing to measure. "
        f"† from what the policy says of itself. {SURROGATE}",
    )


def _detail_row(cell: Cell, metric: Metric, unit: Unit) -> tuple[str, ...]:
    data = cell.metric_json(metric, unit)
    return (
        f"{cell.scenario}, {marked(cell.policy, privileged=cell.privileged)}",
        unit.value,
        str(data["n"]),
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
    rows = [
        _detail_row(cell, metric, unit)
        for cell in cells
        for unit in metric.units
        if cell.values(metric.key, unit) or cell.missing
    ]
    columns = ("n seeds", "mean", "sd", "SE", "95% low", "95% high", "counts", "conservative")
    return Table(
        f"Detail: {metric.title}{_ARROWS[metric.direction]}",
        ("scenario, policy", "unit", *columns, "flag"),
        tuple(rows),
    )


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
    shown = number(found.mean) + (" =" if found.no_variance else "")
    if not cell.scoreable:
        shown += " (not scoreable)"
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
