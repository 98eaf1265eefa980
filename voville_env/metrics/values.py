"""What a metric returns, and the counting that most of them share (requirements, part d, D0)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from voville_env.core.codes import ALL_RULES, TRIGGER_RELEVANT, UNRELATED, Rule, rules_in
from voville_env.events import finite
from voville_env.metrics.episode import Episode, Row

TREL = TRIGGER_RELEVANT
UNREL = UNRELATED
EVERY = ALL_RULES


class Unit(StrEnum):
    """What a metric counts."""

    TICK = "tick"
    ENCOUNTER = "encounter"
    AGENT = "agent"
    INSTRUCTION = "instruction"
    VERDICT = "verdict"
    EVENT = "event"
    CALL = "call"


class Kind(StrEnum):
    """What sort of number a metric is: rates lie between 0 and 1, only a gap may be negative."""

    RATE = "rate"
    COUNT = "count"
    MEAN = "mean"
    GAP = "gap"
    CORRELATION = "correlation"


@dataclass(frozen=True)
class MetricValue:
    """One metric of one episode.

    Attributes:
        value: The value; None, never 0, where there is nothing to measure.
        numerator: Cases counted over all agents.
        denominator: Cases that could have been counted.
        n: Agents (or events) that the value is a mean over.
        reason: Why the value is None.
        extra: Further counts of the same metric.
    """

    value: float | None
    numerator: float | None = None
    denominator: float | None = None
    n: int = 0
    reason: str | None = None
    extra: Mapping[str, float | None] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """The value as it is written down.

        Returns:
            Six decimals at most, keys in a fixed order.
        """
        shown: dict[str, object] = {
            "value": rounded(self.value),
            "numerator": rounded(self.numerator),
            "denominator": rounded(self.denominator),
            "n": self.n,
            "reason": self.reason,
        }
        if self.extra:
            shown["extra"] = {key: rounded(value) for key, value in self.extra.items()}
        return shown


def rounded(value: float | None) -> float | None:
    """A number for JSON.

    Args:
        value: Any number.

    Returns:
        An integer as it is, a float with six decimals, None for None or what is not finite.
    """
    if value is None or isinstance(value, int):
        return value
    return finite(value)


def nothing(reason: str, **extra: float | None) -> MetricValue:
    """A metric without a value.

    Args:
        reason: Why.
        **extra: Counts that exist nevertheless.

    Returns:
        The metric, with empty counts.
    """
    return MetricValue(None, 0, 0, 0, reason, extra)


class Case(NamedTuple):
    """One case of a rate: whose, and whether it counts in the numerator."""

    agent: int
    hit: bool


def tick_cases(rows: Iterable[Row], at_stake: int, broken: int) -> list[Case]:
    """One case a person and tick with one of some rules at stake.

    Args:
        rows: Rows to look at.
        at_stake: Rules of which one must be at stake.
        broken: Rules of which one must be broken for a hit.

    Returns:
        The cases.
    """
    return [Case(r.agent, bool(r.violated & broken)) for r in rows if r.stake & at_stake]


def encounters(rows: Iterable[Row], at_stake: int) -> Iterator[tuple[Rule, list[Row]]]:
    """Maximal runs of consecutive ticks with a rule at stake, per person, rule and place.

    Args:
        rows: Rows by agent, day and tick.
        at_stake: Rules to look at.

    Yields:
        The rule and the rows of a run.
    """
    ordered = list(rows)
    for rule in rules_in(at_stake):
        for run in runs(row for row in ordered if row.stake >> rule & 1):
            yield rule, run


def runs(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Maximal runs of rows in consecutive ticks of one person at one place.

    Args:
        rows: Rows by agent, day and tick.

    Yields:
        The rows of a run.
    """
    run: list[Row] = []
    for row in rows:
        if run and not _continues(run[-1], row):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _continues(last: Row, row: Row) -> bool:
    return (row.agent, row.day, row.tick, row.place) == (
        last.agent,
        last.day,
        last.tick + 1,
        last.place,
    )


def encounter_cases(rows: Iterable[Row], at_stake: int, broken: int) -> list[Case]:
    """One case an encounter, a hit if the rule is broken in any of its ticks.

    Args:
        rows: Rows by agent, day and tick.
        at_stake: Rules whose encounters count.
        broken: Rules that make a hit.

    Returns:
        The cases.
    """
    return [
        Case(run[0].agent, any(row.violated & broken & 1 << rule for row in run))
        for rule, run in encounters(rows, at_stake)
    ]


Counter = Callable[[Iterable[Row], int, int], list[Case]]
COUNTERS: Mapping[Unit, Counter] = {Unit.TICK: tick_cases, Unit.ENCOUNTER: encounter_cases}


def mean_rate(
    cases: Sequence[Case],
    reason: str,
    *,
    zeros: Collection[int] = (),
    extra: Mapping[str, float | None] | None = None,
) -> MetricValue:
    """Rates of agents, then their mean; agents without a case are left out.

    Args:
        cases: The cases.
        reason: Why there is no value, if there are none.
        zeros: Agents whose rate counts as 0 if they have no case.
        extra: Further counts.

    Returns:
        The mean, with the counts over all agents.
    """
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for case in cases:
        counts[case.agent][0] += case.hit
        counts[case.agent][1] += 1
    rates = {agent: hits / all_ for agent, (hits, all_) in counts.items()}
    rates |= {agent: 0.0 for agent in zeros if agent not in rates}
    if not rates:
        return MetricValue(None, 0, 0, 0, reason, extra or {})
    hits = sum(case.hit for case in cases)
    return MetricValue(mean(list(rates.values())), hits, len(cases), len(rates), None, extra or {})


def share(hits: int, all_: int, reason: str, **extra: float | None) -> MetricValue:
    """A pooled share.

    Args:
        hits: Numerator.
        all_: Denominator.
        reason: Why there is no value, if the denominator is 0.
        **extra: Further counts.

    Returns:
        The share.
    """
    if all_ == 0:
        return MetricValue(None, 0, 0, 0, reason, extra)
    return MetricValue(hits / all_, hits, all_, all_, None, extra)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, the same to the last bit whatever the order.

    Args:
        values: At least one number.

    Returns:
        The mean.
    """
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float | None:
    """Sample standard deviation.

    Args:
        values: Numbers.

    Returns:
        The deviation; None for fewer than two.
    """
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's r; point-biserial where one of the two is 0 or 1.

    Args:
        x: Numbers.
        y: As many numbers.

    Returns:
        The correlation; None where either is constant.
    """
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    dx, dy = _centred(x), _centred(y)
    product = math.fsum(a * b for a, b in zip(dx, dy, strict=True))
    scale = math.sqrt(math.fsum(a * a for a in dx) * math.fsum(b * b for b in dy))
    return max(-1.0, min(1.0, product / scale)) if scale > 0 else None


def _centred(values: Sequence[float]) -> list[float]:
    centre = mean(values)
    return [value - centre for value in values]


def window_rows(episode: Episode) -> list[Row]:
    """Rows of the attendees in the fire window.

    Args:
        episode: The episode.

    Returns:
        The rows.
    """
    return [
        row
        for row in episode.rows
        if row.agent in episode.attendees and episode.in_window(row.day, row.tick)
    ]
