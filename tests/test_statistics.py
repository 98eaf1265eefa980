"""Statistics over seeds: no interval without a width, no value outside its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from voville_env.benchmarks.aggregate import Cell, against_controls, compare
from voville_env.benchmarks.statistics import (
    HIGHER,
    LOWER,
    NO_SHARED_SEEDS,
    NOT_DISTINGUISHABLE,
    OF_RATES,
    Difference,
    bound_missing,
    correct,
    paired,
    summarise,
    t_quantile,
    wilson,
)
from voville_env.metrics import METRICS

RATES = st.lists(st.floats(0, 1), min_size=1, max_size=10)


def test_t_of_five_seeds() -> None:
    assert t_quantile(4) == pytest.approx(2.776, abs=5e-4)
    found = summarise([0.7, 0.8, 0.9, 0.8, 0.7], limits=(0, 1), cases=100)
    assert found is not None and found.sd is not None and found.se is not None
    assert found.se == pytest.approx(found.sd / math.sqrt(5))
    assert found.high == pytest.approx(found.mean + 2.776445 * found.se, abs=1e-6)
    assert found.method == "t" and not found.no_variance


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_boundary_intervals_have_a_width_that_shrinks_with_cases(value: float) -> None:
    widths = []
    for cases in (5, 500):
        found = summarise([value] * 5, limits=(0, 1), cases=cases)
        assert found is not None and found.low is not None and found.high is not None
        assert found.no_variance and found.method == "wilson"
        assert found.low <= value <= found.high
        widths.append(found.high - found.low)
    assert widths[0] > widths[1] > 0


def test_wilson_of_none_of_five() -> None:
    low, high = wilson(0.0, 5)
    assert low == 0 and high == pytest.approx(0.4345, abs=1e-4)


def test_numbers_without_variance_that_are_no_rates_have_no_interval() -> None:
    found = summarise([3.0, 3.0], limits=(0, math.inf), cases=10)
    assert found is not None and found.no_variance
    assert (found.low, found.high, found.method) == (None, None, "none")


def test_one_seed_is_not_called_without_variance() -> None:
    found = summarise([0.5], limits=(0, 1), cases=8)
    assert found is not None and found.sd is None and not found.no_variance
    assert found.low is not None and found.low < 0.5
    assert summarise([]) is None


@given(RATES, st.integers(1, 1000))
def test_the_value_lies_in_its_interval(values: list[float], cases: int) -> None:
    found = summarise(values, limits=(0, 1), cases=cases)
    assert found is not None and found.low is not None and found.high is not None
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.low < found.high


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=10))
def test_so_does_any_other_number(values: list[float]) -> None:
    found = summarise(values)
    assert found is not None
    if found.low is not None and found.high is not None:
        assert found.low <= found.mean <= found.high


@given(RATES, st.integers(0, 10), st.integers(1, 10), st.sampled_from(["up", "down"]))
def test_failures_never_improve_the_conservative_score(
    values: list[float], failed: int, more: int, direction: str
) -> None:
    few, many = (bound_missing(values, count, (0, 1)) for count in (failed, failed + more))
    assert few is not None and many is not None
    before, after = few.conservative(direction), many.conservative(direction)
    assert before is not None and after is not None
    assert after <= before + 1e-12 if direction == "up" else after >= before - 1e-12
    assert many.least <= math.fsum(values) / len(values) + 1e-12
    assert many.most >= math.fsum(values) / len(values) - 1e-12


def test_bounds_need_limits_only_where_something_is_missing() -> None:
    assert bound_missing([1.0], 1, (0, math.inf)) is None
    whole = bound_missing([1.0, 2.0], 0, (0, math.inf))
    assert whole is not None and whole.least == whole.most == 1.5
    assert bound_missing([], 0, (0, 1)) is None
    nothing = bound_missing([], 2, (0, 1))
    assert nothing is not None and (nothing.least, nothing.most) == (0, 1)
    assert nothing.conservative("none") is None


def test_paired_t_uses_shared_seeds_only() -> None:
    first = {0: 0.9, 1: 0.8, 2: 0.95, 3: 0.5}
    second = {0: 0.1, 1: 0.15, 2: 0.05, 9: 0.5}
    found = paired(first, second)
    shared = [(first[k], second[k]) for k in (0, 1, 2)]
    expected = stats.ttest_rel([a for a, _ in shared], [b for _, b in shared])
    assert found.n == 3 and found.method == "paired t"
    assert found.p == pytest.approx(float(expected.pvalue))
    assert correct([found])[0].verdict == HIGHER
    assert correct([paired(second, first)])[0].verdict == LOWER


@pytest.mark.parametrize(
    ("seeds", "p", "verdict"), [(5, 0.0625, NOT_DISTINGUISHABLE), (6, 0.03125, HIGHER)]
)
def test_equal_differences_are_tested_by_flipping_signs(seeds: int, p: float, verdict: str) -> None:
    found = paired({k: 0.1 * k + 0.3 for k in range(seeds)}, {k: 0.1 * k for k in range(seeds)})
    assert found.method == "sign flip" and found.p == p
    assert correct([found])[0].verdict == verdict


def test_an_interval_of_a_difference_keeps_within_its_limits() -> None:
    first, second = {0: 1.0, 1: 1.0, 2: 0.2}, dict.fromkeys(range(3), 0.0)
    free, kept = paired(first, second), paired(first, second, OF_RATES)
    assert free.high is not None and free.high > 1 and kept.high == 1
    assert (free.mean, free.p) == (kept.mean, kept.p)
    back = paired(second, first, OF_RATES)
    assert back.low == -1


def cell(policy: str, values: Sequence[float]) -> Cell:
    """A cell whose every metric has these values, one a seed."""
    scored = {
        seed: {m.key: {unit.value: {"value": value} for unit in m.units} for m in METRICS}
        for seed, value in enumerate(values)
    }
    return Cell("fire_escape", policy, scored=scored)


def test_only_differences_of_rates_are_limited_in_a_report() -> None:
    cells = [cell("pave", (1.0, 1.0, 0.2)), cell("vanilla", (0.0, 0.0, 0.0))]
    for made in cells:
        for metrics in made.scored.values():
            metrics["fallback_share"]["verdict"]["value"] = 0.0
    rate, harm = compare(cells, "pave", ["vr_cafe_exposed", "harm"])
    assert rate.difference.high == 1
    assert harm.difference.high is not None and harm.difference.high > 1
    cells = [
        replace(made, policy="pave", scenario=name) for made, name in zip(cells, "ab", strict=True)
    ]
    for made in cells:
        made.facts = {"control": "b"}
    (found,) = against_controls(cells)
    assert found.difference.high == 1


@pytest.mark.parametrize(("seeds", "few"), [(1, False), (2, True), (5, True), (6, False)])
def test_seeds_that_differ_alike_may_be_too_few(seeds: int, few: bool) -> None:
    ones, nothing = dict.fromkeys(range(seeds), 1.0), dict.fromkeys(range(seeds), 0.0)
    assert paired(ones, nothing).too_few is few
    assert not paired(ones, ones).too_few


def test_no_difference_at_all() -> None:
    same = {k: 0.1 for k in range(9)}
    found = correct([paired(same, same)])[0]
    assert found.p == found.p_holm == 1 and found.verdict == NOT_DISTINGUISHABLE


def test_no_shared_seeds() -> None:
    found = correct([paired({1: 0.0}, {2: 0.0})])[0]
    assert found.mean is None and found.p_holm is None and found.verdict == NO_SHARED_SEEDS


def family(*ps: float) -> list[Difference]:
    return [Difference(5, 1.0, 1.0, 1.0, None, None, p, "paired t") for p in ps]


def test_holm() -> None:
    assert [item.p_holm for item in correct(family(0.01, 0.04, 0.03))] == [
        pytest.approx(0.03),
        pytest.approx(0.06),
        pytest.approx(0.06),
    ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_correction_only_raises_p_and_keeps_the_order(ps: list[float]) -> None:
    corrected = [item.p_holm for item in correct(family(*ps))]
    for p, holm in zip(ps, corrected, strict=True):
        assert holm is not None and p <= holm <= 1
    ordered = [holm for _, holm in sorted(zip(ps, corrected, strict=True), key=lambda x: x[0])]
    assert ordered == sorted(ordered, key=lambda holm: holm or 0)
