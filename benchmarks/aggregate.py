"""From metrics of episodes to cells: one scenario and policy each, summarised over seeds."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from voville_env.benchmarks.statistics import (
    OF_RATES,
    RATE,
    Difference,
    Summary,
    bound_missing,
    correct,
    paired,
    summarise,
)
from voville_env.errors import InvalidValueError
from voville_env.metrics import BY_KEY, METRICS, Kind, Metric, Unit, companion
from voville_env.metrics.calls import Counts, add_up
from voville_env.metrics.values import mean, rounded

Key = tuple[str, str, int]
"""Scenario, policy and seed."""
Data = dict[str, Any]
FALLBACK_LIMIT = 0.2
"""Mean share of fallback verdicts above which a policy is not scoreable."""
_LIMITS: Mapping[Kind, tuple[float, float]] = {
    Kind.RATE: RATE,
    Kind.COUNT: (0, math.inf),
    Kind.MEAN: (0, math.inf),
    Kind.GAP: (-math.inf, math.inf),
    Kind.CORRELATION: (-1, 1),
}


@dataclass
class Cell:
    """The episodes of one scenario and policy.

    Attributes:
        scenario: Its name.
        policy: Its name.
        planned: Seeds planned.
        scored: Metrics of the scored episodes by seed.
        failed: Seeds that failed.
        facts: What the log says of the policy and scenario; empty where nothing was scored.
        calls: Model calls of the scored episodes by operation, by seed; without those of none.
    """

    scenario: str
    policy: str
    planned: set[int] = field(default_factory=set)
    scored: dict[int, Data] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    facts: Data = field(default_factory=dict)
    calls: dict[int, dict[str, Counts]] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """Planned seeds without a score."""
        return len(self.planned - self.scored.keys())

    @property
    def privileged(self) -> bool:
        """Whether the policy is told what others must find out."""
        return bool(self.facts.get("privileged"))

    @property
    def backbone(self) -> str | None:
        """Who answers the policy's questions, if it asks any."""
        name = self.facts.get("backbone")
        return None if name is None else str(name)

    @property
    def is_control(self) -> bool:
        """Whether the scenario is its own control."""
        return self.facts.get("control") == self.scenario

    def values(self, key: str, unit: Unit) -> dict[int, float]:
        """A metric by seed, without the seeds where it is null.

        Args:
            key: The metric.
            unit: What it counts.

        Returns:
            Values.
        """
        found = {seed: self.scored[seed][key][unit.value]["value"] for seed in sorted(self.scored)}
        return {seed: value for seed, value in found.items() if value is not None}

    def summary(self, metric: Metric, unit: Unit) -> Summary | None:
        """A metric over seeds.

        Args:
            metric: The metric.
            unit: What it counts.

        Returns:
            The summary; None where no seed has a value.
        """
        values = self.values(metric.key, unit)
        parts = [self.scored[seed][metric.key][unit.value] for seed in values]
        cases = sum(max(part["denominator"] or 0, part["n"] or 0) for part in parts)
        return summarise(list(values.values()), limits=_LIMITS[metric.kind], cases=cases)

    def without_variance(self) -> list[str]:
        """Metrics that came out the same in all of several seeds.

        Returns:
            Their keys, with the unit where there are two.
        """
        return [
            metric.key if len(metric.units) == 1 else f"{metric.key}.{unit}"
            for metric in METRICS
            for unit in metric.units
            if (found := self.summary(metric, unit)) is not None and found.no_variance
        ]

    @property
    def fallback_share(self) -> float | None:
        """Mean share of verdicts that no model gave; None for a policy that gives none."""
        values = self.values("fallback_share", Unit.VERDICT)
        return mean(list(values.values())) if values else None

    @property
    def scoreable(self) -> bool:
        """False where so many verdicts are fallbacks that the numbers are not the policy's own."""
        return (self.fallback_share or 0.0) <= FALLBACK_LIMIT

    def tells(self, metric: Metric) -> bool:
        """Whether a number of the cell may be shown as the policy's own.

        Args:
            metric: Which number.

        Returns:
            False for conduct that is not scoreable; how the model answered is shown all the same.
        """
        return self.scoreable or metric.of_answers

    def bounds(self, metric: Metric, unit: Unit) -> tuple[float, float] | None:
        """What a rate is with everything that a fallback decided counted one way and the other.

        Args:
            metric: The rate.
            unit: What it counts.

        Returns:
            Means over seeds of the least and the greatest value; None where there are none.
        """
        other = companion(metric)
        if other is None or unit not in other.units:
            return None
        parts = [self.scored[seed][other.key][unit.value] for seed in sorted(self.scored)]
        extras = [part["extra"] for part in parts if "extra" in part]
        least, most = (_extra_means(extras).get(name) for name in ("least", "most"))
        return None if least is None or most is None else (least, most)

    def metric_json(self, metric: Metric, unit: Unit) -> Data:
        """A metric over seeds, as it is written down.

        Args:
            metric: The metric.
            unit: What it counts.

        Returns:
            Statistics, pooled counts, bounds for missing seeds, reasons where there is no value.
            What is not scoreable has only the bounds of its fallbacks.
        """
        if not self.tells(metric):
            least, most = self.bounds(metric, unit) or (None, None)
            nothing: Data = {"n": 0, "mean": None, "reasons": ["not scoreable"]}
            return nothing | {"least": least, "most": most}
        parts = [self.scored[seed][metric.key][unit.value] for seed in sorted(self.scored)]
        found = self.summary(metric, unit)
        kept = [part["value"] for part in parts if part["value"] is not None]
        bounds = bound_missing(kept, self.missing, _LIMITS[metric.kind])
        statistics: Data = {"n": 0, "mean": None} if found is None else _rounded(asdict(found))
        reasons = Counter(part["reason"] for part in parts if part["reason"])
        shown: Data = statistics | {
            "numerator": _total(part["numerator"] for part in parts),
            "denominator": _total(part["denominator"] for part in parts),
            "least": rounded(bounds.least) if bounds else None,
            "most": rounded(bounds.most) if bounds else None,
            "conservative": rounded(bounds.conservative(metric.direction)) if bounds else None,
            "null_seeds": sum(reasons.values()),
            "reasons": sorted(reasons),
        }
        if extras := [part["extra"] for part in parts if "extra" in part]:
            shown["extra_means"] = _extra_means(extras)
        return shown

    def as_json(self) -> Data:
        """The cell as it is written down.

        Returns:
            A JSON-ready dict, without times.
        """
        return {
            "scenario": self.scenario,
            "policy": self.policy,
            "privileged": self.privileged,
            "backbone": self.backbone,
            "planned": len(self.planned),
            "scored": len(self.scored),
            "failed": len(self.failed),
            "not_run": self.missing - len(self.failed),
            "seeds": sorted(self.scored),
            "scoreable": self.scoreable,
            "no_variance": self.without_variance(),
            "calls": add_up(self.calls.values()),
            "metrics": {
                metric.key: {unit.value: self.metric_json(metric, unit) for unit in metric.units}
                for metric in METRICS
            },
        }


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(sum(known)) if known else None


def _extra_means(extras: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    known: dict[str, list[float]] = {key: [] for extra in extras for key in extra}
    for extra in extras:
        for key, value in extra.items():
            if value is not None:
                known[key].append(value)
    return {key: rounded(mean(values)) if values else None for key, values in known.items()}


def _rounded(fields: Mapping[str, Any]) -> Data:
    return {k: rounded(v) if isinstance(v, float) else v for k, v in fields.items()}


def key_of(episode: Mapping[str, Any]) -> Key:
    """Names an episode.

    Args:
        episode: A mapping with `scenario`, `policy` and `seed`; a scenario file goes by its stem.

    Returns:
        The key.
    """
    scenario = str(episode["scenario"])
    if scenario.endswith(".toml"):
        scenario = PurePath(scenario).stem
    return scenario, str(episode["policy"]), int(episode["seed"])


def gather(
    episodes: Sequence[Mapping[str, Any]],
    planned: Sequence[Mapping[str, Any]],
    failed: Sequence[Mapping[str, Any]],
) -> dict[tuple[str, str], Cell]:
    """Sorts episodes into cells.

    Args:
        episodes: Metrics of scored episodes.
        planned: Planned episodes.
        failed: Planned episodes that failed.

    Returns:
        Cells in the order of the plan; scored episodes that nobody planned come last.

    Raises:
        InvalidValueError: If an episode is scored twice, or both scored and failed.
    """
    cells: dict[tuple[str, str], Cell] = {}
    for item in planned:
        _cell(cells, key_of(item))
    for item in episodes:
        key = key_of(item["episode"])
        cell = _cell(cells, key)
        if key[2] in cell.scored:
            raise InvalidValueError(f"episode {key!r} is given twice")
        cell.scored[key[2]] = item["metrics"]
        if calls := item.get("calls"):
            cell.calls[key[2]] = calls
        cell.facts = dict(item["episode"])
    for item in failed:
        key = key_of(item)
        cell = _cell(cells, key)
        if key[2] in cell.scored:
            raise InvalidValueError(f"episode {key!r} is given as scored and as failed")
        cell.failed.add(key[2])
    return cells


def _cell(cells: dict[tuple[str, str], Cell], key: Key) -> Cell:
    """The cell of an episode, which counts as planned from now on."""
    cell = cells.setdefault(key[:2], Cell(*key[:2]))
    cell.planned.add(key[2])
    return cell


@dataclass(frozen=True)
class Comparison:
    """A paired difference with what it compares.

    Attributes:
        scenario: Where.
        metric: The metric.
        unit: What it counts.
        first: A policy, or a scenario where a scenario is compared with its control.
        second: What is subtracted.
        difference: First less second.
    """

    scenario: str
    metric: str
    unit: Unit
    first: str
    second: str
    difference: Difference

    def as_json(self) -> Data:
        """The comparison as it is written down.

        Returns:
            A JSON-ready dict.
        """
        named = {
            "scenario": self.scenario,
            "metric": self.metric,
            "unit": self.unit.value,
            "first": self.first,
            "second": self.second,
        }
        return named | _rounded(asdict(self.difference))


def compare(cells: Sequence[Cell], reference: str, keys: Sequence[str]) -> list[Comparison]:
    """Compares a reference policy with the others of each scenario, on shared seeds.

    The comparisons of one metric in one scenario are a family for Holm's correction. Cells that are
    not scoreable are left out.

    Args:
        cells: All cells.
        reference: The policy compared with the others.
        keys: Metrics, in their first unit.

    Returns:
        Comparisons by scenario, metric and policy.
    """
    by_scenario: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        if not cell.is_control and cell.scoreable:
            by_scenario[cell.scenario].append(cell)
    found: list[Comparison] = []
    for scenario, group in by_scenario.items():
        base = next((cell for cell in group if cell.policy == reference), None)
        if base is None:
            continue
        others = [cell for cell in group if cell is not base]
        for key in keys:
            found += _family(scenario, base, others, key)
    return found


def _family(scenario: str, base: Cell, others: Sequence[Cell], key: str) -> list[Comparison]:
    metric = BY_KEY[key]
    unit, limits = metric.units[0], OF_RATES if metric.kind is Kind.RATE else None
    mine = base.values(key, unit)
    policies = [cell for cell in others if mine or cell.values(key, unit)]
    differences = correct([paired(mine, cell.values(key, unit), limits) for cell in policies])
    return [
        Comparison(scenario, key, unit, base.policy, cell.policy, item)
        for cell, item in zip(policies, differences, strict=True)
    ]


def against_controls(cells: Sequence[Cell]) -> list[Comparison]:
    """Sets each scenario's Day-2 rate against its control's, policy by policy (C-51).

    All of these comparisons are one family for Holm's correction. Cells that are not scoreable are
    left out.

    Args:
        cells: All cells.

    Returns:
        Comparisons in the order of the cells.
    """
    by_name = {(cell.scenario, cell.policy): cell for cell in cells if cell.scoreable}
    key, unit = "day2_rate", Unit.TICK
    found = []
    for cell in by_name.values():
        control = by_name.get((str(cell.facts.get("control")), cell.policy))
        if control is not None and control is not cell:
            item = paired(cell.values(key, unit), control.values(key, unit), OF_RATES)
            found.append((cell, control.scenario, item))
    return [
        Comparison(cell.scenario, key, unit, cell.policy, f"{cell.policy} in {control}", item)
        for (cell, control, _), item in zip(
            found, correct([item for *_, item in found]), strict=True
        )
    ]
