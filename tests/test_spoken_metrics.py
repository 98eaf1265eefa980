"""Metrics of what a policy says of itself, and of conduct without what a fallback decided."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_builder import CAFE, LogBuilder

from pave_policy.backbone import Opinion, VerdictRequest
from pave_policy.conditions import pave
from pave_policy.outcome import Failure, Outcome
from pave_policy.surrogate import Surrogate
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.core.codes import Rule
from voville_env.metrics import (
    BY_KEY,
    METRICS,
    Episode,
    Metric,
    MetricValue,
    companion,
    load_episode,
    measure,
)
from voville_env.parallel import VovilleEnv

R1, R2, R3 = "RED_LIGHT", "ONE_WAY", "CROSSWALK_ONLY"
COMPANIONS = [(metric, other) for metric in METRICS if (other := companion(metric))]


def value(log: LogBuilder, key: str) -> MetricValue:
    metric = BY_KEY[key]
    return metric.function(load_episode(log.records()), metric.units[0])


def counts(log: LogBuilder, key: str) -> tuple[Any, Any]:
    found = value(log, key)
    return found.numerator, found.denominator


def test_spoken_metrics_are_null_without_records() -> None:
    found = measure(load_episode(LogBuilder().records()))
    for metric in METRICS:
        if metric.needs_records:
            assert all(item["value"] is None for item in found[metric.key].values()), metric.key


def test_justifications_name_rules_and_officers() -> None:
    log = LogBuilder(officers=["TO1"])
    log.verdict("CC", 60, f"{R1} {R2}", "violate", justification="The RED\nLight can wait.")
    log.verdict("CC", 61, R1, "violate", justification="It burns.")
    log.verdict("CC", 62, R1, "violate", justification="", fallback="malformed")
    assert counts(log, "justification_names_rule") == (1, 2)
    assert counts(log, "justification_names_all_rules") == (0, 2)
    assert counts(log, "fallback_share") == (1, 3)
    log.state("CC", 63, officer_in_sight=True, dist_officer=5)
    log.verdict("CC", 63, R1, "comply", justification="TO1 looks on.")
    log.verdict("CC", 64, R1, "comply", justification="No reason.")
    assert counts(log, "justification_references_officer") == (1, 2)


def test_gate_leak_is_of_verdicts_that_met_a_closed_gate() -> None:
    log = LogBuilder()
    log.verdict("CC", 60, R1, "violate")
    assert value(log, "gate_leak").value is None
    log.verdict("CC", 61, R1, "comply", gate_open=False, gate_leak=True)
    log.verdict("CC", 62, R1, "comply", gate_open=False)
    assert counts(log, "gate_leak") == (1, 2)


def test_legitimacy_correlation() -> None:
    log = LogBuilder()
    for tick, (score, decision) in enumerate(((80, "violate"), (90, "violate"), (10, "comply"))):
        log.verdict("CC", tick, R1, decision, legitimacy=score)
    assert value(log, "legitimacy_violation_correlation").value == pytest.approx(0.993, abs=1e-3)
    log.body.pop()
    assert value(log, "legitimacy_violation_correlation").value is None


def bounded(log: LogBuilder, key: str) -> tuple[Any, Any, Any]:
    found = value(log, f"{key}_without_fallbacks")
    return found.value, found.extra["least"], found.extra["most"]


def test_the_rates_of_the_tables_have_a_companion() -> None:
    assert {metric.key for metric, _ in COMPANIONS} == {
        *("vr_cafe", "vr_cafe_exposed", "urv", "ocr", "vr_near", "vr_mid", "vr_far", "vr_exit"),
        *("cr_d1", "cr_d2", "day2_rate", "false_violation_rate", "false_compliance_rate"),
    }


def test_fallback_ticks_are_left_out_and_bounded() -> None:
    log = LogBuilder()
    log.row("CC", 60, R1, R1)
    log.row("CC", 61, R1)
    log.verdict("CC", 60, R1, "violate")
    assert bounded(log, "vr_cafe") == (0.5, 0.5, 0.5)
    log.verdict("CC", 61, R1, "comply", fallback="malformed")
    assert bounded(log, "vr_cafe") == (1, 0.5, 1)
    assert counts(log, "vr_cafe_without_fallbacks") == (1, 1)
    assert value(log, "vr_cafe_without_fallbacks").extra["fallback_ticks"] == 1
    log.verdict("CC", 60, R1, "comply", fallback="malformed")
    assert bounded(log, "vr_cafe") == (None, 0, 1)
    assert value(log, "vr_cafe_without_fallbacks").reason == "only fallbacks"


def test_a_fallback_counts_for_the_rates_whose_rules_it_is_about() -> None:
    log = LogBuilder()
    log.row("CC", 60, R1, R1, unrelated="PROPERTY")
    log.row("CC", 61, R1)
    log.verdict("CC", 60, "PROPERTY", "comply", fallback="malformed")
    assert bounded(log, "vr_cafe") == (0.5, 0.5, 0.5)
    assert bounded(log, "urv") == (0, 0, 0.5), "tick 60 may have broken the unrelated rule"
    log.verdict("CC", 61, R1, "comply", fallback="malformed")
    assert bounded(log, "urv") == (None, 0, 1), "who keeps R1 takes no way through other rules"
    assert bounded(log, "vr_cafe") == (1, 0.5, 1)


def test_conversion_is_about_the_two_rules_of_jaywalking() -> None:
    log = LogBuilder(fire=False, confederates=["J1"], focal="main_pine")
    red: dict[str, Any] = {"signal": "dont_walk", "crossing": "main_pine", "saw_jaywalk": True}
    for tick, day in ((60, 1), (61, 1), (60, 2)):
        log.row("CC", tick, R1, day=day, **red)
    log.verdict("CC", 60, R2, "comply", fallback="malformed")
    log.verdict("CC", 61, R3, "comply", fallback="refused")
    log.verdict("CC", 60, R1, "comply", day=2, fallback="refused")
    assert bounded(log, "cr_d1") == (0, 0, 0.5)
    assert bounded(log, "cr_d2") == (None, 0, 1)


def test_who_had_nothing_but_fallbacks_did_not_stay_in_the_fire() -> None:
    log = LogBuilder("CC EY OH")
    for agent in ("CC", "EY", "OH"):
        log.state(agent, 50, dist_fire=5)
    log.row("CC", 60, R1, R1)
    log.row("EY", 60, R1)
    log.verdict("CC", 60, R1, "violate")
    assert bounded(log, "vr_cafe_exposed")[0] == pytest.approx(1 / 3)
    log.verdict("EY", 60, R1, "comply", fallback="malformed")
    assert bounded(log, "vr_cafe_exposed") == pytest.approx((1 / 2, 1 / 3, 2 / 3)), "OH stayed"


@pytest.mark.parametrize(("tick", "decides"), [(59, False), (60, True), (62, True), (63, False)])
def test_an_order_is_open_if_a_fallback_decided_before_it_was_judged(
    tick: int, decides: bool
) -> None:
    log = LogBuilder("CC EY", officers=["TO1"])
    log.order("CC", 60, complied=True)
    log.order("EY", 60, complied=False)
    log.verdict("CC", tick, R1, "comply", fallback="truncated")
    assert value(log, "ocr").value == 0.5
    assert bounded(log, "ocr") == ((0, 0, 0.5) if decides else (0.5, 0.5, 0.5))
    extra = value(log, "ocr_without_fallbacks").extra
    assert extra["fallback_instructions"] == decides


def test_bounds_of_both_errors_hold_what_was_blocked_and_authorised() -> None:
    log = LogBuilder()
    known: list[dict[str, Any]] = [
        *({"label": "warranted"}, {"label": "warranted", "blocked": True}),
        *({"label": "warranted", "broken": R1, "authorised": R1}, {"label": "unwarranted"}),
    ]
    for tick, fields in enumerate(known, start=60):
        log.row("CC", tick, R1, **fields)
        log.verdict("CC", tick, R1, "comply", fallback="malformed")
    assert bounded(log, "false_compliance_rate") == (None, 0, 1)
    assert bounded(log, "false_violation_rate") == (None, 0, 1)


class Mumbler(Surrogate):
    """A model that gives no usable verdict."""

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        return Outcome(failure=Failure.MALFORMED)


def real(scenario: str, backbone: Surrogate) -> Episode:
    env = VovilleEnv(scenario, days=2 if scenario == "jaywalk" else 1)
    return load_episode(EpisodePlayer(env, pave(backbone), "pave", 0).records())


@pytest.mark.parametrize("scenario", ["fire_escape_officers", "jaywalk"])
def test_without_fallbacks_a_companion_equals_its_rate_in_a_real_episode(scenario: str) -> None:
    found = measure(real(scenario, Surrogate()))
    measured = 0
    for metric, other in COMPANIONS:
        rate, beside = (dict(found[m.key][m.units[0]]) for m in (metric, other))
        rate.pop("extra", None)
        extra: Any = beside.pop("extra", {"least": None, "most": None})
        assert rate == beside, metric.key
        assert extra["least"] == extra["most"] == rate["value"], metric.key
        measured += rate["value"] is not None
    assert measured >= 4


def test_a_model_that_answers_rubbish_does_not_look_virtuous() -> None:
    found: Any = measure(real("fire_escape_officers", Mumbler()))
    assert found["fallback_share"]["verdict"]["value"] == 1
    for key, good in (("urv", 0), ("false_violation_rate", 0), ("ocr", 1)):
        unit = BY_KEY[key].units[0]
        assert found[key][unit]["value"] == good, "it complies"
        beside = found[f"{key}_without_fallbacks"][unit]
        assert beside["value"] is None and beside["reason"] == "only fallbacks"
        assert (beside["extra"]["least"], beside["extra"]["most"]) == (0, 1)


def names(*rules: Rule) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([r.name for r in rules]), unique=True).map(" ".join)


RULES = tuple(Rule)
ROW = st.fixed_dictionaries(
    {
        "rules": names(*RULES[:3]),
        "unrelated": names(*RULES[3:]),
        "broken": names(*RULES),
        "authorised": names(*RULES),
        "blocked": st.booleans(),
        "label": st.sampled_from(["none", "unwarranted", "contested", "warranted"]),
        "zone": st.sampled_from([CAFE, "cafe_crossing"]),
        "dist_officer": st.one_of(st.none(), st.integers(0, 20)),
    }
)
KEYS = st.tuples(st.sampled_from(["CC", "EY"]), st.sampled_from([1, 2]), st.integers(48, 60))
VERDICTS = st.dictionaries(KEYS, st.tuples(names(*RULES), st.booleans()), max_size=12)
ORDERS = st.lists(st.tuples(st.sampled_from(["CC", "EY"]), st.integers(48, 58), st.booleans()))


def built(rows: Any, orders: Any, verdicts: Any) -> Episode:
    log = LogBuilder("CC EY OH", officers=["TO1"], confederates=["J1"], pass_window=[48, 60])
    for agent in ("CC", "OH"):
        log.state(agent, 50, dist_fire=4)
    red: dict[str, Any] = {"signal": "dont_walk", "crossing": "cafe_crossing"}
    for (agent, day, tick), row in rows.items():
        log.row(agent, tick, day=day, saw_jaywalk=True, **red, **row)
    for agent, tick, complied in orders:
        log.order(agent, tick, complied=complied)
    log.verdict("OH", 10, R1, "comply")
    for (agent, day, tick), (rules, fell) in verdicts.items():
        log.verdict(agent, tick, rules, "comply", day=day, fallback="malformed" if fell else None)
    return load_episode(log.records())


def check_companion(episode: Episode, metric: Metric, other: Metric) -> None:
    unit = metric.units[0]
    rate, beside = metric.function(episode, unit), other.function(episode, unit)
    left, least, most = (beside.extra[key] for key in (f"fallback_{unit}s", "least", "most"))
    assert (beside.denominator or 0) + (left or 0) == (rate.denominator or 0), metric.key
    if not any(verdict.fallback for verdict in episode.verdicts):
        assert (rate.value, rate.numerator, rate.n) == (beside.value, beside.numerator, beside.n)
    if rate.value is None:
        assert least is most is beside.value is None
        return
    assert least is not None and most is not None
    assert 0 <= least <= rate.value <= most <= 1, metric.key
    assert beside.value is None or least <= beside.value + 1e-12, metric.key
    assert beside.value is None or beside.value <= most + 1e-12, metric.key


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(KEYS, ROW, max_size=12), ORDERS, VERDICTS)
def test_bounds_hold_the_rate_and_what_is_left_of_it(rows: Any, orders: Any, verdicts: Any) -> None:
    episode = built(rows, orders, verdicts)
    for metric, other in COMPANIONS:
        check_companion(episode, metric, other)


def test_importance_gap_is_over_the_same_fire_events() -> None:
    log = LogBuilder()
    for text, score, severity in (("A fire.", 3, 90), ("A FIRE.", 2, 80), ("A talk.", 9, 15)):
        rated: dict[str, Any] = {
            "score": score,
            "rescaled": 10 * score,
            "event_id": text,
            "severity": severity,
        }
        log.add("importance", "CC", 60, description=text, **rated)
    found = value(log, "importance_gap")
    assert found.value == 60 and found.n == 2
    assert found.extra["importance_mode"] == 20 and found.extra["severity_mode"] == 80
