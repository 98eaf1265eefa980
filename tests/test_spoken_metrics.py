"""Metrics of what a policy says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from log_builder import LogBuilder

from voville_env.metrics import BY_KEY, METRICS, MetricValue, load_episode, measure

R1, R2 = "RED_LIGHT", "ONE_WAY"


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


def test_fallback_ticks_are_left_out_and_bounded() -> None:
    log = LogBuilder()
    log.row("CC", 60, R1, R1)
    log.row("CC", 61, R1)
    log.verdict("CC", 60, R1, "violate")
    log.verdict("CC", 61, R1, "comply", fallback="timeout")
    found = value(log, "vr_cafe_without_fallbacks")
    assert (found.value, found.extra["least"], found.extra["most"]) == (1, 0.5, 1)


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
