"""Statistics over seeds: the seed is the unit of replication (requirements MET-04, C-48).

Intervals never collapse: where all seeds agree on a rate, the cases behind it give the interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import stats

CONFIDENCE = 0.95
ALPHA = 0.05
RATE: tuple[float, float] = (0.0, 1.0)
"""Limits of a rate."""
OF_RATES: tuple[float, float] = (-1.0, 1.0)
"""Limits of a difference of rates."""
SIGN_FLIP_SEEDS = 6
"""The fewest seeds whose equal differences the sign-flip test can tell from none at 5%."""
_SAME = 1e-9
HIGHER = "higher"
LOWER = "lower"
NOT_DISTINGUISHABLE = "not distinguishable"
NO_SHARED_SEEDS = "no shared seeds"


@dataclass(frozen=True)
class Summary:
    """What seeds say about one number.

    Attributes:
        n: Seeds with a value.
        mean: Their mean.
        sd: Sample standard deviation; None for one seed.
        se: Standard error of the mean, sd / √n.
        low: Lower end of the 95% interval; None where none can be given.
        high: Upper end.
        method: `t` (over seeds), `wilson` (over pooled cases) or `none`.
        no_variance: Whether several seeds all gave the same value.
    """

    n: int
    mean: float
    sd: float | None
    se: float | None
    low: float | None
    high: float | None
    method: str
    no_variance: bool


def summarise(
    values: Sequence[float],
    *,
    limits: tuple[float, float] | None = None,
    cases: float | None = None,
) -> Summary | None:
    """Summarises one number per seed.

    Without variance over seeds a t interval would have no width. A rate then gets the Wilson
    interval around its value for the pooled number of cases; that takes cases as independent, so
    the true uncertainty is larger. Other numbers get no interval.

    Args:
        values: One number a seed.
        limits: Least and greatest possible value; `RATE` for a rate.
        cases: For a rate, its denominator, pooled over seeds.

    Returns:
        The summary; None without values.
    """
    n = len(values)
    if n == 0:
        return None
    centre = math.fsum(values) / n
    varies = max(values) - min(values) > _SAME
    sd: float | None = None
    se: float | None = None
    if n > 1:
        variance = math.fsum((value - centre) ** 2 for value in values) / (n - 1)
        sd = math.sqrt(variance) if varies else 0.0
        se = sd / math.sqrt(n)
    low, high, method = _interval(centre, se, n, limits, cases)
    return Summary(n, centre, sd, se, low, high, method, no_variance=n > 1 and not varies)


def _interval(
    centre: float,
    se: float | None,
    n: int,
    limits: tuple[float, float] | None,
    cases: float | None,
) -> tuple[float | None, float | None, str]:
    """The interval around a mean, and the method; it holds the mean and keeps within the limits."""
    if se:
        half = t_quantile(n - 1) * se
        low, high, method = centre - half, centre + half, "t"
    elif limits == RATE and cases:
        low, high = wilson(min(1.0, max(0.0, centre)), cases)
        method = "wilson"
    else:
        return None, None, "none"
    least, most = limits or (-math.inf, math.inf)
    return min(max(low, least), centre), max(min(high, most), centre), method


def t_quantile(freedom: int) -> float:
    """The t value of a two-sided 95% interval.

    Args:
        freedom: Degrees of freedom; 4 gives 2.776.

    Returns:
        The quantile.
    """
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom))


def wilson(proportion: float, cases: float) -> tuple[float, float]:
    """Wilson's 95% interval of a proportion; it has a width at 0 and 1 too.

    Args:
        proportion: The observed proportion.
        cases: How many cases it is of.

    Returns:
        Lower and upper end.
    """
    z = float(stats.norm.ppf(0.5 + CONFIDENCE / 2))
    scale = 1 + z * z / cases
    middle = (proportion + z * z / (2 * cases)) / scale
    spread = proportion * (1 - proportion) / cases + z * z / (4 * cases * cases)
    half = z / scale * math.sqrt(spread)
    return max(0.0, min(middle - half, proportion)), min(1.0, max(middle + half, proportion))


@dataclass(frozen=True)
class Bounds:
    """A mean over all planned seeds, whatever the missing ones would have given.

    Attributes:
        least: With the least possible value for each missing seed.
        most: With the greatest.
    """

    least: float
    most: float

    def conservative(self, direction: str) -> float | None:
        """The bound that flatters nobody.

        Args:
            direction: `up` or `down` where more or less is better; `none`.

        Returns:
            The worse bound; None where neither is worse.
        """
        return {"up": self.least, "down": self.most}.get(direction)


def bound_missing(
    values: Sequence[float], missing: int, limits: tuple[float, float]
) -> Bounds | None:
    """Bounds the mean over planned seeds of which some have no score.

    Args:
        values: Values of the seeds that were scored.
        missing: Planned seeds that failed or were not run.
        limits: Least and greatest possible value.

    Returns:
        The bounds; None if a seed of a number without finite limits is missing, or nothing was
        planned.
    """
    planned = len(values) + missing
    if planned == 0 or (missing and not all(math.isfinite(limit) for limit in limits)):
        return None
    total = math.fsum(values)
    least, most = (total + missing * limit if missing else total for limit in limits)
    return Bounds(least / planned, most / planned)


@dataclass(frozen=True)
class Difference:
    """A paired difference over shared seeds.

    Attributes:
        n: Shared seeds.
        mean: Mean difference, first less second; None without shared seeds.
        sd: Standard deviation of the differences.
        se: Standard error.
        low: Lower end of the 95% interval, without correction for several comparisons.
        high: Upper end.
        p: Two-sided p-value.
        method: `paired t`; `sign flip` where all differences are equal.
        p_holm: p-value after Holm's correction within the family.
        verdict: Which is higher, in words, at 5% after the correction.
    """

    n: int
    mean: float | None
    sd: float | None
    se: float | None
    low: float | None
    high: float | None
    p: float | None
    method: str
    p_holm: float | None = None
    verdict: str = NO_SHARED_SEEDS

    @property
    def too_few(self) -> bool:
        """Whether several seeds all differ alike, and are too few for any test to tell."""
        return self.method == "sign flip" and bool(self.mean) and 1 < self.n < SIGN_FLIP_SEEDS


def paired(
    first: Mapping[int, float],
    second: Mapping[int, float],
    limits: tuple[float, float] | None = None,
) -> Difference:
    """Compares two conditions on the seeds that both have.

    Where all differences are equal there is no variance to test against; the exact test that flips
    their signs in all 2ⁿ ways is used instead. It cannot fall below 2^(1−n).

    Args:
        first: Value by seed.
        second: Value by seed.
        limits: Least and greatest possible difference; `OF_RATES` for rates.

    Returns:
        The difference, not yet corrected.
    """
    seeds = sorted(first.keys() & second.keys())
    n = len(seeds)
    found = summarise([first[seed] - second[seed] for seed in seeds], limits=limits)
    if found is None:
        return Difference(0, None, None, None, None, None, None, "none")
    if found.se:
        p = 2 * float(stats.t.sf(abs(found.mean) / found.se, n - 1))
        method = "paired t"
    else:
        p = 1.0 if abs(found.mean) <= _SAME else 2.0 ** (1 - n)
        method = "sign flip"
    return Difference(n, found.mean, found.sd, found.se, found.low, found.high, p, method)


def correct(family: Sequence[Difference]) -> list[Difference]:
    """Corrects a family of comparisons (Holm) and puts the verdicts in words.

    Args:
        family: Comparisons that are read together.

    Returns:
        The same, in the same order, with `p_holm` and `verdict`.
    """
    tested = [(item.p, k) for k, item in enumerate(family) if item.p is not None]
    corrected: dict[int, float] = {}
    highest = 0.0
    for rank, (p, k) in enumerate(sorted(tested)):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        corrected[k] = highest
    return [
        replace(item, p_holm=corrected[k], verdict=_in_words(item, corrected[k]))
        if k in corrected
        else item
        for k, item in enumerate(family)
    ]


def _in_words(item: Difference, p: float) -> str:
    if p >= ALPHA or not item.mean:
        return NOT_DISTINGUISHABLE
    return HIGHER if item.mean > 0 else LOWER
