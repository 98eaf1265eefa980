"""Metrics from hand-written logs: the paper's walkthroughs, and what a metric must not do."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_builder import CAFE, FIRE, LogBuilder

from voville_env.core.codes import Rule
from voville_env.events import LogError, write_lines
from voville_env.metrics import (
    BY_KEY,
    METRICS,
    Kind,
    MetricValue,
    Unit,
    load_episode,
    measure,
    metrics_of,
)

R1, R2, R3 = "RED_LIGHT", "ONE_WAY", "CROSSWALK_ONLY"
# Ticks with a fire cue of walkthrough D.1: distance, rules at stake, rules broken.
D1 = {
    50: (4, R3, R3),
    52: (2, f"{R2} {R1}", f"{R2} {R1}"),
    53: (3, f"{R2} {R1}", f"{R2} {R1}"),
    55: (8, R2, R2),
    56: (12, R2, R2),
    57: (15, R2, ""),
    58: (18, R2, ""),
}


def value(log: LogBuilder, key: str, unit: Unit | None = None) -> MetricValue:
    metric = BY_KEY[key]
    return metric.function(load_episode(log.records()), unit or metric.units[0])


def counts(log: LogBuilder, key: str, unit: Unit | None = None) -> tuple[Any, Any]:
    found = value(log, key, unit)
    return found.numerator, found.denominator


def walkthrough_1() -> LogBuilder:
    log = LogBuilder()
    for tick, (away, rules, broken) in D1.items():
        zone = CAFE if tick < 52 else "street"
        log.state("CC", tick, zone=zone, dist_fire=away)
        log.row("CC", tick, rules, broken, zone=zone, dist_fire=away, escaping=True)
        log.verdict("CC", tick, rules, "violate" if broken else "comply")
    log.state("CC", 60, zone="park", dist_fire=20)
    return log


def test_walkthrough_d1_breaks_five_of_seven() -> None:
    log = walkthrough_1()
    assert counts(log, "vr_cafe") == (5, 7)
    assert value(log, "vr_cafe").value == pytest.approx(5 / 7)
    assert counts(log, "vr_cafe_verdict") == (5, 7)
    log.verdict("CC", 60, R1, "comply")
    assert counts(log, "vr_cafe_verdict") == (5, 8), "all rows in the fire window"
    assert counts(log, "urv") == (0, 7)


def test_walkthrough_d1_recovers_at_once_or_after_five_ticks() -> None:
    log = walkthrough_1()
    assert value(log, "t_rec_radius").value == 0
    assert value(log, "t_rec_origin").value == 5
    assert value(log, "t_rec_origin").extra["censored"] == 0


def walkthrough_2() -> LogBuilder:
    log = LogBuilder("EY", officers=["TO1"])
    away = {60: None, 62: 11, 63: 7, 64: 4, 66: 2, 68: 2, 70: 8, 72: None}
    for tick, distance in away.items():
        broken = "" if tick in (64, 66) else R1
        authorised = R1 if tick == 68 else ""
        log.row("EY", tick, R1, broken, authorised=authorised, dist_officer=distance)
    orders: dict[str, Any] = {"officer": "TO1", "valid_ticks": 2, "distance": 2}
    log.add("instruction", "EY", 66, kind="hold", id=1, **orders)
    judged: dict[str, Any] = {"officer": "TO1", "id": 1, "complied": True, "ticks": 2}
    log.add("instruction_response", "EY", 68, kind="hold", **judged)
    log.add("instruction", "EY", 68, kind="pass", id=2, **orders)
    return log


def test_walkthrough_d2_by_distance_to_the_officer() -> None:
    log = walkthrough_2()
    assert counts(log, "ocr") == (1, 1)
    assert value(log, "ocr").extra["delivered"] == 1, "an order to pass is not scored"
    assert counts(log, "vr_near") == (0, 2), (
        "the authorised crossing is an opportunity, no violation"
    )
    assert value(log, "vr_near").extra["authorised_ticks"] == 1
    assert counts(log, "vr_mid") == (3, 4)
    assert counts(log, "vr_far") == (2, 2)


def test_authorised_crossings_count_where_the_name_says_so() -> None:
    log = walkthrough_2()
    assert counts(log, "vr_near_with_authorised") == (1, 2)
    assert value(log, "vr_near_with_authorised").extra["authorised_ticks"] == 1
    assert counts(log, "vr_mid_with_authorised") == (3, 4)
    assert counts(log, "vr_far_with_authorised") == (2, 2)
    log.row("EY", 74, R1, R1, authorised=R1, dist_officer=5)
    log.row("EY", 76, R1, R1, authorised=R1, dist_officer=15)
    assert counts(log, "vr_mid_with_authorised") == (4, 5)
    assert counts(log, "vr_far_with_authorised") == (3, 3)
    assert (counts(log, "vr_mid"), counts(log, "vr_far")) == ((3, 5), (2, 3))


def test_distance_bands_meet_without_overlap() -> None:
    log = LogBuilder(officers=["TO1"])
    for tick, away in enumerate((3, 4, 12, 13), start=60):
        log.row("CC", tick, R1, dist_officer=away)
    assert [counts(log, key)[1] for key in ("vr_near", "vr_mid", "vr_far")] == [1, 2, 1]


def walkthrough_3() -> LogBuilder:
    log = LogBuilder(
        "CC KQ", fire=False, confederates=["J1", "J2"], focal="main_pine", scenario="jaywalk"
    )
    red: dict[str, Any] = {"signal": "dont_walk", "crossing": "main_pine"}
    log.jaywalk(31, "CC")
    for tick in (30, 32, 33, 34):
        log.row("CC", tick, R1, saw_jaywalk=tick > 31, **red)
    return log


def test_walkthrough_d3_converts_nobody() -> None:
    log = walkthrough_3()
    assert counts(log, "cr_d1") == (0, 3)
    assert counts(log, "cr_d1", Unit.ENCOUNTER) == (0, 1)
    assert counts(log, "cr_d1_agent") == (0, 1)
    assert value(log, "cr_d2").value is None
    assert value(log, "non_observer_conversion").value is None, "KQ met no red light"
    log.row("KQ", 40, R1, signal="dont_walk", crossing="main_pine")
    assert value(log, "non_observer_conversion").value == 0
    assert counts(log, "non_observer_violations") == (0, 1)


def test_conversion_needs_the_focal_red_light_and_a_jaywalk_seen() -> None:
    log = walkthrough_3()
    red: dict[str, Any] = {"signal": "dont_walk", "crossing": "main_pine", "saw_jaywalk": True}
    changes: list[dict[str, Any]] = [
        {"signal": "walk"},
        {"crossing": "main_oak"},
        {"saw_jaywalk": False},
    ]
    for tick, change in enumerate(changes, start=60):
        log.row("CC", tick, R1, R1, **(red | change))
    assert counts(log, "cr_d1") == (0, 3)
    log.row("CC", 64, R1, R1, **red)
    assert counts(log, "cr_d1") == (1, 4)
    assert counts(log, "cr_d1_agent") == (1, 1)


def test_a_violation_that_was_not_at_stake_is_an_opportunity_where_the_state_says() -> None:
    log = walkthrough_3()
    log.add("signal", None, 0, intersection="main_pine", state="dont_walk")
    log.row("CC", 42, "", R3)
    log.body[-1]["zone"] = "main_pine"
    assert counts(log, "cr_d1") == (1, 4), "the jaywalk of tick 31 is 10 ticks old"
    log.row("CC", 43, "", R3)
    log.body[-1]["zone"] = "main_pine"
    assert counts(log, "cr_d1") == (1, 4), "one tick later it is too old"
    row = load_episode(log.records()).rows[-1]
    assert not row.foreseen and row.label.name == "UNWARRANTED", "nobody was fleeing"


def test_nothing_to_measure_is_null_and_nothing_broken_is_zero() -> None:
    idle, lawful = LogBuilder(), LogBuilder()
    lawful.row("CC", 60, R1, unrelated="PROPERTY")
    for key in ("vr_cafe", "urv", "false_violation_rate", "false_violation_rate_unrelated"):
        assert value(idle, key).value is None and value(idle, key).reason
        assert value(lawful, key).value == 0
    assert value(idle, "false_compliance_rate").value is None
    assert value(lawful, "urv_share").value is None
    assert value(lawful, "t_rec_origin").value is None
    assert value(idle, "pre_fire_violations").value == 0


def test_who_stays_in_the_fire_counts_as_zero_only_where_said() -> None:
    log = LogBuilder("CC EY OH")
    log.row("CC", 60, R1, R1)
    log.state("EY", 50, dist_fire=18)
    log.state("OH", 50, dist_fire=19)
    assert value(log, "vr_cafe").value == 1
    assert value(log, "vr_cafe_exposed").value == 0.5, "severity is 0 from 19 tiles on"
    assert counts(log, "coverage") == (1, 3)


def test_rates_are_means_over_agents() -> None:
    log = LogBuilder("CC EY")
    log.row("CC", 60, R1, R1)
    for tick in range(60, 70):
        log.row("EY", tick, R1)
    assert value(log, "vr_cafe").value == 0.5
    assert counts(log, "vr_cafe") == (1, 11)


def test_the_window_begins_with_the_fire_and_ends_with_it() -> None:
    log = LogBuilder()
    for tick in (49, 50, 149, 150):
        log.row("CC", tick, R1, R1)
    assert counts(log, "vr_cafe") == (2, 2)
    assert counts(log, "pre_fire_violations") == (1, 1)


def test_encounters_are_runs_at_one_place_for_one_rule() -> None:
    log = LogBuilder()
    log.row("CC", 60, R1, crossing="a")
    log.row("CC", 61, f"{R1} {R2}", R1, crossing="a")
    log.row("CC", 62, R1, crossing="b")
    log.row("CC", 64, R1, crossing="b")
    assert counts(log, "vr_cafe") == (1, 4)
    assert counts(log, "vr_cafe", Unit.ENCOUNTER) == (1, 4), "R1: 60-61, 62, 64; R2: 61"


def test_a_bystander_does_not_move_the_cafe() -> None:
    alone, beside = walkthrough_1(), LogBuilder(bystanders="TP")
    beside.body = list(alone.body)
    beside.row("TP", 60, R1, R1, dist_fire=3)
    for metric in METRICS:
        if metric.key.startswith(("vr_", "urv", "t_rec", "coverage")):
            assert value(alone, metric.key) == value(beside, metric.key), metric.key
    assert counts(beside, "bystander_violations") == (1, 1)
    assert value(alone, "bystander_violations").value is None


def test_blocked_and_authorised_are_neither_compliance_nor_violation() -> None:
    log = LogBuilder()
    log.row("CC", 60, R1, label="warranted")
    log.row("CC", 62, R1, label="warranted", blocked=True)
    log.row("CC", 64, R1, R1, label="warranted", authorised=R1)
    log.row("CC", 66, R1, R1, label="warranted")
    log.row("CC", 68, R1, R1, authorised=R1)
    log.row("CC", 70, R1, R1)
    log.row("CC", 72, R1, label="contested")
    for unit in (Unit.TICK, Unit.ENCOUNTER):
        assert counts(log, "false_compliance_rate", unit) == (1, 4)
        assert value(log, "false_compliance_rate", unit).extra["blocked"] == 1
        assert counts(log, "false_violation_rate", unit) == (1, 2)
    assert counts(log, "contested_share") == (1, 7)


def test_unlabelled_violations_of_those_who_flee_are_counted_apart() -> None:
    log = LogBuilder()
    goal: dict[str, Any] = {"goal": "park", "late": False}
    log.add("goal_change", "CC", 50, **goal, escaping=True)
    log.row("CC", 60, "", R2)
    found = value(log, "false_violation_rate")
    assert found.value is None and found.extra["unlabelled"] == 1
    log.row("CC", 40, "", R2)
    assert counts(log, "false_violation_rate") == (1, 1)


def test_recovery_is_censored_where_violations_reach_the_end_of_the_day() -> None:
    log = walkthrough_1()
    log.row("CC", 999, R1, R1)
    found = value(log, "t_rec_origin")
    assert found.value == 1000 - 52 and found.extra["censored"] == 1


def test_recovery_is_counted_from_the_end_of_the_fire_for_who_stays() -> None:
    log = LogBuilder()
    log.state("CC", 50, dist_fire=4)
    log.row("CC", 60, R1, R1)
    log.row("CC", 155, R1, R1)
    assert value(log, "t_rec_radius").value == 6
    assert value(log, "t_rec_origin").value == 6
    assert value(log, "departure_ticks").extra["censored"] == 1


def test_who_recovers_before_the_anchor_took_no_time() -> None:
    log = LogBuilder()
    log.state("CC", 50, dist_fire=4)
    log.row("CC", 51, R1, R1)
    log.state("CC", 60, zone="park", dist_fire=20)
    assert value(log, "t_rec_radius").value == value(log, "t_rec_origin").value == 0


def test_recovery_from_where_the_fire_is_still_felt_above_70() -> None:
    log = walkthrough_1()  # within four tiles until tick 55, violating until tick 57
    assert value(log, "t_rec_severity70").value == 57 - 55
    edge = LogBuilder()
    for tick, away in ((50, 4), (51, 5)):
        edge.state("CC", tick, dist_fire=away)
    edge.row("CC", 55, R1, R1)
    assert value(edge, "t_rec_severity70").value == 56 - 51
    mild = LogBuilder(fires=[{**FIRE, "severity": 70}])
    mild.state("CC", 50, dist_fire=0)
    mild.row("CC", 55, R1, R1)
    assert value(mild, "t_rec_severity70").value == 56 - 50, "it is never felt above 70"


def test_recovery_from_the_end_of_the_fire() -> None:
    log = walkthrough_1()
    assert value(log, "t_rec_extinguish").value == 0
    log.row("CC", 160, R1, R1)
    assert value(log, "t_rec_extinguish").value == 161 - 150
    log.row("CC", 999, R1, R1)
    assert value(log, "t_rec_extinguish").extra["censored"] == 1


def test_escape_metrics() -> None:
    log = walkthrough_1()
    log.add("arrival", "CC", 61, goal="park", safe=True, at=[0, 0])
    log.add("sanction", "CC", 61, officer="TO1", rules=[R1])
    log.totals["CC"]["harm"] = 2.5
    assert value(log, "departure_ticks").value == 2
    assert value(log, "arrival_ticks").value == 11
    assert counts(log, "reached_safety") == (1, 1)
    assert value(log, "fire_distance").extra["least"] == 2
    assert value(log, "harm").value == 2.5
    assert value(log, "sanctions").value == 1


def test_day_two_counts_commuters_in_the_pass_window() -> None:
    log = LogBuilder("CC EY")
    for agent, day, tick in (("CC", 2, 100), ("CC", 2, 99), ("CC", 1, 110), ("EY", 2, 110)):
        log.row(agent, tick, R1, R1, day=day)
    for tick in (150, 200, 201):
        log.row("CC", tick, R1, day=2)
    assert counts(log, "day2_rate") == (1, 3), "from 100 to 200, both included"


def test_what_a_policy_says_moves_no_metric_of_conduct(tmp_path: Path) -> None:
    log = walkthrough_1()
    log.add("verdict_of_another_kind", "CC", 60)
    said = [r for r in log.body if r["type"] == "verdict"]
    conduct = [r for r in log.body if r["type"] != "verdict"]
    random.Random(1).shuffle(said)
    mixed = list(conduct)
    for k, record in enumerate(said):
        mixed.insert(2 * k, record)
    found = []
    for body in (log.body, conduct + said, mixed, conduct):
        log.body = body
        found.append(measure(load_episode(log.records())))
    assert found[0] == found[1] == found[2]
    for metric in METRICS:
        same = found[0][metric.key] == found[3][metric.key]
        assert same or metric.needs_records, metric.key
    assert found[0]["vr_cafe_verdict"] != found[3]["vr_cafe_verdict"]


def test_recomputing_from_the_saved_log_gives_the_same_bytes(tmp_path: Path) -> None:
    path = walkthrough_1().save(tmp_path / "log.jsonl")
    once, again = (json.dumps(metrics_of(path), allow_nan=False) for _ in range(2))
    assert once == again
    assert metrics_of(path)["episode"]["backbone"] == "surrogate"


def broken_logs() -> dict[str, list[dict[str, Any]]]:
    whole = walkthrough_1().records()
    twice = [whole[0], whole[2], whole[2], whole[-1]]
    unknown = whole[2] | {"rules": ["RUN"]}
    return {
        "no run_end": whole[:-1],
        "after run_end": [*whole, whole[1]],
        "run_start": whole[1:],
        "begin with": [],
        "format": [whole[0] | {"format": 99}, *whole[1:]],
        "second line": twice,
        "RUN": [*whole[:2], unknown, *whole[3:]],
        "lacks": [whole[0], {"type": "sanction", "day": 1, "tick": 1}, whole[-1]],
        "nobody": [whole[0], whole[2] | {"agent": "nobody"}, whole[-1]],
        "totals": [whole[0], whole[-1] | {"totals": {}}],
    }


@pytest.mark.parametrize("words", broken_logs())
def test_a_log_that_is_not_that_of_a_finished_episode_is_refused(words: str) -> None:
    records = broken_logs()[words]
    with pytest.raises(LogError, match="goes on" if "after" in words else words):
        load_episode(records)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    write_lines(path, walkthrough_1().records()[:-1])
    with pytest.raises(LogError, match=r"cut\.jsonl has no run_end"):
        metrics_of(path)


NAMES = [rule.name for rule in Rule]
RULES = st.lists(st.sampled_from(NAMES), unique=True).map(" ".join)
ROW = st.fixed_dictionaries(
    {
        "day": st.sampled_from([1, 2]),
        "rules": st.lists(st.sampled_from(NAMES[:3]), unique=True).map(" ".join),
        "unrelated": st.lists(st.sampled_from(NAMES[3:]), unique=True).map(" ".join),
        "broken": RULES,
        "authorised": RULES,
        "blocked": st.booleans(),
        "label": st.sampled_from(["none", "unwarranted", "contested", "warranted"]),
        "label_unrelated": st.sampled_from(["none", "unwarranted", "contested", "warranted"]),
        "zone": st.sampled_from([CAFE, "street", "cafe_crossing"]),
        "crossing": st.sampled_from([None, "cafe_crossing"]),
        "dist_officer": st.one_of(st.none(), st.integers(0, 20)),
        "signal": st.sampled_from(["none", "walk", "dont_walk"]),
        "saw_jaywalk": st.booleans(),
        "escaping": st.booleans(),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["CC", "EY", "TP"]), st.integers(40, 160)), ROW, max_size=25
    )
)
def test_numerators_are_part_of_denominators(rows: dict[tuple[str, int], dict[str, Any]]) -> None:
    log = LogBuilder(
        "CC EY", bystanders="TP", officers=["TO1"], confederates=["J1"], commuters="CC EY"
    )
    log.state("CC", 50, dist_fire=4)
    for (agent, tick), row in rows.items():
        log.row(agent, tick, **row)
        decision = "violate" if row["broken"] else "comply"
        log.verdict(agent, tick, row["rules"], decision, gate_open=row["escaping"])
    found = measure(load_episode(log.records()))
    json.dumps(found, allow_nan=False)
    for metric in METRICS:
        for item in found[metric.key].values():
            check_rate(metric.key, item) if metric.kind is Kind.RATE else None


def check_rate(key: str, item: Any) -> None:
    assert 0 <= item["numerator"] <= item["denominator"], key
    if item["value"] is None:
        assert item["reason"] and item["denominator"] == 0, key
    else:
        assert 0 <= item["value"] <= 1, key
        assert (item["value"] == 0) == (item["numerator"] == 0), key
