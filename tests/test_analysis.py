"""The analyses of a run, worked out by hand on small logs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from analysis_kit import CONTROL, OFFICERS, PEERS, fire_log, log, rate, save_run
from log_builder import LogBuilder

from voville_env.benchmarks.analysis import (
    expectations,
    failure_modes,
    gate,
    importance,
    recovery,
    suppression,
)
from voville_env.benchmarks.analysis.evidence import Anchor, Recovery
from voville_env.benchmarks.analysis.run import load_run
from voville_env.benchmarks.analysis.section import Row, csv_text
from voville_env.benchmarks.notes import NOT_SCOREABLE
from voville_env.benchmarks.statistics import Summary, wilson
from voville_env.benchmarks.tables import paper_tables
from voville_env.metrics import BY_KEY, Unit


def mean(found: Summary | None) -> float:
    assert found is not None
    return found.mean


def test_gate_says_between_which_legitimacies_each_persons_verdicts_turn(tmp_path: Path) -> None:
    made = log("pave")
    for tick, legitimacy in enumerate((40, 64, 65, 80), 50):
        decision = "violate" if legitimacy >= 65 else "comply"
        made.verdict("CC", tick, "RED_LIGHT", decision, legitimacy=legitimacy, threshold=65)
    said = ((8, "comply"), (30, "comply"), (68, "violate"), (91, "comply"))
    for tick, (legitimacy, decision) in enumerate(said, 50):
        made.verdict("EY", tick, "RED_LIGHT", decision, legitimacy=legitimacy, threshold=40)
    run = load_run(save_run(tmp_path / "run", [made]))
    ey, cc = gate.people(run)
    assert (ey.agent, ey.threshold, cc.agent, cc.threshold) == ("EY", 40, "CC", 65)
    assert (cc.below_verdicts, mean(cc.below), cc.above_verdicts, mean(cc.above)) == (2, 0, 2, 1)
    assert (cc.lowest_violating, cc.highest_complying, cc.step) == (65, 64, "64 and 65")
    assert (ey.lowest_violating, ey.highest_complying, ey.step) == (68, 91, "30 and 68")
    bins = {step.start: (step.verdicts, mean(step.share)) for step in gate.steps(run)}
    assert bins == {
        **{-35: (1, 0), -25: (1, 0), -10: (1, 0), -5: (1, 0)},
        **{0: (1, 1), 15: (1, 1), 25: (1, 1), 50: (1, 0)},
    }


def test_gate_marks_leaks_and_leaves_fallbacks_and_controls_out(tmp_path: Path) -> None:
    made, calm = log("pave"), log("pave", "fire_escape_control")
    made.verdict("CC", 50, "RED_LIGHT", "comply", legitimacy=30, gate_open=False, gate_leak=True)
    made.verdict("CC", 51, "RED_LIGHT", "comply", legitimacy=30, gate_open=False)
    made.verdict("CC", 52, "RED_LIGHT", "violate", legitimacy=30, fallback="malformed")
    calm.verdict("CC", 50, "RED_LIGHT", "violate", legitimacy=30)
    run = load_run(save_run(tmp_path / "run", [made, calm]))
    (point,) = gate.points(run)
    assert (point.legitimacy, point.verdicts, point.leaks, point.share.mean) == (30, 2, 1, 0)
    (person,) = gate.people(run)
    assert (person.leaks, person.step) == (1, "threshold never reached")
    assert "1 fallbacks are left out" in gate.section(run).tables[0].note


def test_without_a_gate_the_table_says_that_there_is_no_step(tmp_path: Path) -> None:
    made = log("pave-no-gate")
    made.verdict("CC", 50, "RED_LIGHT", "violate", legitimacy=30, threshold=65)
    made.verdict("CC", 51, "RED_LIGHT", "violate", legitimacy=80, threshold=65)
    run = load_run(save_run(tmp_path / "run", [made]))
    assert gate.people(run)[0].step == "no step: violates below"


@pytest.mark.parametrize(
    ("said", "step"),
    [
        (((68, "violate"),), "nothing below 68"),
        (((68, "comply"),), "never violates"),
        (((66, "comply"), (68, "violate")), "66 and 68"),
    ],
)
def test_a_step_is_claimed_only_between_what_was_met(
    tmp_path: Path, said: tuple[tuple[int, str], ...], step: str
) -> None:
    made = log("pave")
    for tick, (legitimacy, decision) in enumerate(said, 50):
        made.verdict("CC", tick, "RED_LIGHT", decision, legitimacy=legitimacy, threshold=65)
    section = gate.section(load_run(save_run(tmp_path / "run", [made])))
    assert section.tables[0].columns[-1] == "step lies between"
    assert section.tables[0].rows[0][-1] == step


def test_gate_pools_plain_scenarios_and_keeps_varied_ones_apart(tmp_path: Path) -> None:
    varied = f"{OFFICERS}@perception.severity_model=walkthrough"
    logs = [log("pave", scenario) for scenario in ("fire_escape", OFFICERS, varied)]
    for made in logs:
        made.verdict("CC", 50, "RED_LIGHT", "violate")
    run = load_run(save_run(tmp_path / "run", logs))
    found = [(point.group.name, point.verdicts) for point in gate.points(run)]
    assert found == [("pave", 2), (f"pave, {varied}", 1)]
    section = gate.section(run)
    assert [table.title for table in section.tables] == [
        "The gate under pave",
        f"The gate under pave, {varied}",
    ]
    assert [row["scenario"] for row in section.rows] == ["pooled", varied]


def test_gate_keeps_what_is_not_scoreable_apart_and_without_numbers(tmp_path: Path) -> None:
    good, bad = log("pave"), log("pave", OFFICERS)
    for made, fallback in ((good, None), (bad, "malformed")):
        made.verdict("CC", 50, "RED_LIGHT", "violate", legitimacy=80, threshold=65)
        made.verdict("CC", 51, "RED_LIGHT", "comply", legitimacy=30, fallback=fallback)
    run = load_run(save_run(tmp_path / "run", [good, bad]))
    assert [(p.group.apart, p.group.scoreable, p.verdicts) for p in gate.points(run)] == [
        *[("", True, 1)] * 2,
        (OFFICERS, False, 1),
    ]
    section = gate.section(run)
    (row,) = section.tables[1].rows
    assert row == (
        *("CC", "65", NOT_SCOREABLE, "0", NOT_SCOREABLE, "1"),
        *(NOT_SCOREABLE,) * 4,
    )
    last = section.rows[-1]
    assert last["verdicts"] == 1 and last["leaks"] is None and last["violate_mean"] is None
    assert section.rows[0]["violate_mean"] == 0


def test_a_share_of_verdicts_is_pooled_in_a_seed_and_then_over_seeds(tmp_path: Path) -> None:
    logs = [log("pave", seed=seed) for seed in (0, 1)]
    logs[0].verdict("CC", 50, "RED_LIGHT", "violate")
    for tick in range(3):
        logs[1].verdict("CC", 50 + tick, "RED_LIGHT", "comply")
    run = load_run(save_run(tmp_path / "run", logs))
    (point,) = gate.points(run)
    assert (point.verdicts, point.share.n, point.share.mean) == (4, 2, 0.5)


def test_suppression_in_the_bands_of_the_metrics_is_the_metrics_themselves(tmp_path: Path) -> None:
    logs = [fire_log("pave", seed, OFFICERS) for seed in (0, 1)]
    run = load_run(save_run(tmp_path / "run", logs))
    near, middle, far = (found for found in suppression.rates(run) if not found.fine)
    assert (near.ticks, mean(near.share)) == (4, 0.0)
    assert (middle.ticks, middle.share) == (0, None)
    assert (far.ticks, mean(far.share)) == (5, 1.0)
    cell = run.cells[0]
    for found, key in ((near, "vr_near"), (far, "vr_far")):
        assert found.by_seed == cell.values(key, Unit.TICK)
        assert found.share == cell.summary(BY_KEY[key], Unit.TICK)


def test_suppression_takes_agents_before_ticks(tmp_path: Path) -> None:
    made = log("pave", OFFICERS)
    for tick in range(4):
        made.row("CC", 60 + tick, "RED_LIGHT", "RED_LIGHT", dist_officer=2)
    made.row("EY", 60, "RED_LIGHT", "", dist_officer=3)
    run = load_run(save_run(tmp_path / "run", [made]))
    assert mean(suppression.rates(run)[0].share) == 0.5


def test_suppression_sets_the_control_and_the_fire_without_officers_beside(tmp_path: Path) -> None:
    calm = log("pave", CONTROL)
    calm.row("CC", 20, "RED_LIGHT", "")
    alone = log("pave")
    alone.row("CC", 60, "RED_LIGHT", "RED_LIGHT")
    alone.row("CC", 200, "RED_LIGHT", "")
    run = load_run(save_run(tmp_path / "run", [fire_log("pave", 0, OFFICERS), alone, calm]))
    found = {rate.kind: rate for rate in suppression.rates(run) if rate.band.high is None}
    kinds = suppression.Kind
    assert (found[kinds.NO_OFFICERS].ticks, mean(found[kinds.NO_OFFICERS].share)) == (1, 1)
    assert (found[kinds.CONTROL].ticks, mean(found[kinds.CONTROL].share)) == (1, 0)


def test_every_distance_lies_in_one_narrow_band(tmp_path: Path) -> None:
    for bands in (suppression.FINE, suppression.BANDS):
        for distance in range(127):
            assert sum(band.holds(distance) for band in bands) == 1, distance
    assert not any(band.holds(None) for band in suppression.FINE)
    edges = [band.low for band in suppression.FINE]
    assert {band.low for band in suppression.BANDS} <= set(edges)


def test_recovery_counts_from_both_anchors_as_the_metric_does(tmp_path: Path) -> None:
    logs = [fire_log("pave", seed) for seed in (0, 3)]
    run = load_run(save_run(tmp_path / "run", logs))
    radius, origin = recovery.curves(run)
    assert (radius.anchor, radius.people, radius.censored) == (Anchor.RADIUS, 2, 0)
    assert mean(radius.mean) == (1 + 4) / 2
    assert mean(origin.mean) == (3 + 6) / 2
    cell = run.cells[0]
    assert radius.mean == cell.summary(BY_KEY["t_rec_radius"], Unit.AGENT)
    assert origin.mean == cell.summary(BY_KEY["t_rec_origin"], Unit.AGENT)
    left = [mean(moment.unrecovered) for moment in radius.moments]
    assert left == [1, 0.5, 0.5, 0.5, 0, 0]
    assert [mean(moment.breaking) for moment in radius.moments] == [1, 0.5, 0.5, 0.5, 0, 0]
    assert [mean(moment.breaking) for moment in origin.moments] == [0, 1, 1, 0.5, 0.5, 0.5, 0, 0]
    assert [moment.at_risk for moment in radius.moments] == [2, 2, 1, 1, 1, 0]


def test_who_is_censored_is_at_risk_until_then_and_never_counts_as_recovered() -> None:
    group = [
        Recovery(Anchor.RADIUS, ticks, censored, frozenset())
        for ticks, censored in ((1, False), (2, True), (3, False), (5, True))
    ]
    # Kaplan and Meier: 3/4 after 1, and one of the two still at risk at 3 recovers: 3/4 · 1/2.
    assert recovery.survival(group, range(7)) == pytest.approx(
        [1, 0.75, 0.75, 0.375, 0.375, 0.375, 0.375]
    )


def test_who_stops_before_leaving_has_recovered_at_once(tmp_path: Path) -> None:
    made = fire_log("pave", 0)
    made.state("CC", 80, zone="street", dist_fire=3)
    run = load_run(save_run(tmp_path / "run", [made]))
    radius, origin = recovery.curves(run)
    assert (mean(radius.mean), mean(origin.mean)) == (0, 3)
    assert [mean(moment.unrecovered) for moment in radius.moments] == [0, 0]
    assert {mean(moment.breaking) for moment in radius.moments} == {0}


def test_recovery_counts_who_breaks_rules_in_the_last_tick_of_the_day(tmp_path: Path) -> None:
    made = log("pave")
    made.state("CC", 50, zone="street", dist_fire=4)
    for tick in (60, 999):
        made.row("CC", tick, "RED_LIGHT", "RED_LIGHT")
    run = load_run(save_run(tmp_path / "run", [made]))
    for curve in recovery.curves(run):
        assert (curve.people, curve.censored) == (1, 1)
        assert len(curve.moments) == recovery.MOST + 1
        assert mean(curve.moments[-1].unrecovered) == 1


def test_failure_modes_are_the_metrics_and_one_less_them(tmp_path: Path) -> None:
    logs = [fire_log("pave", seed) for seed in (0, 1)]
    run = load_run(save_run(tmp_path / "run", logs))
    found = {mode.measure.head: mode.found for mode in failure_modes.modes(run)}
    # CC breaks 2 of 3, then 3 of 4; EY, with a chance of her own, none.
    obeys = found["1 − VR_cafe, exposed"]
    assert obeys.mean == pytest.approx(1 - (2 / 3 + 3 / 4) / 4)
    assert obeys.low is not None and obeys.high is not None
    assert obeys.low < obeys.mean < obeys.high <= 1
    assert found["violations before the fire"].mean == 0
    assert not any("CR" in head or "Day-2" in head for head in found)


def test_who_obeys_an_officer_does_not_fail_in_an_emergency(tmp_path: Path) -> None:
    logs = [fire_log("pave", 0, scenario) for scenario in ("fire_escape", OFFICERS)]
    run = load_run(save_run(tmp_path / "run", logs))
    obeys = [one for one in failure_modes.modes(run) if one.measure.mode == failure_modes.OBEYS]
    assert [one.cell.scenario for one in obeys] == ["fire_escape"]
    assert "with officers are left out" in failure_modes.section(run).tables[0].note


def test_contagion_counts_from_the_first_jaywalk_seen_on_a_day(tmp_path: Path) -> None:
    made = log("vanilla", PEERS)
    made.jaywalk(100, "CC")
    made.jaywalk(103, "CC EY")
    made.row("CC", 99, "RED_LIGHT", "RED_LIGHT")
    made.row("CC", 100, "RED_LIGHT", "RED_LIGHT")
    made.row("CC", 104, "RED_LIGHT", "RED_LIGHT", signal="dont_walk", saw_jaywalk=True)
    made.jaywalk(110, "CC", day=2)
    made.row("CC", 112, "RED_LIGHT", "", day=2, signal="dont_walk", saw_jaywalk=True)
    run = load_run(save_run(tmp_path / "run", [made]))
    first, second = failure_modes.spreads(run)
    assert (first.day, first.people, second.day, second.people) == (1, 1, 2, 1)
    assert [mean(share) for share in first.shares[:6]] == [0, 0, 0, 0, 1, 1]
    assert {mean(share) for share in second.shares} == {0}


def test_importance_is_compared_on_events_that_pave_saw_too(tmp_path: Path) -> None:
    vanilla, pave = log("vanilla"), log("pave")
    for made, where in ((vanilla, 4), (pave, 4)):
        made.state("CC", 50, dist_fire=where)
        made.state("EY", 50, dist_fire=where)
    pave.state("EY", 55, dist_fire=9)
    rate(vanilla, "CC", 50, 20, 75)
    rate(vanilla, "EY", 50, 40, 95)
    rate(vanilla, "EY", 55, 40, 75)
    rate(vanilla, "CC", 60, 10, 75, fallback="malformed")
    rate(vanilla, "CC", 61, 30, 15, description="People nearby are talking.")
    run = load_run(save_run(tmp_path / "run", [vanilla, pave]))
    (found,) = importance.comparisons(run)
    assert [(event.agent, event.tick) for event in found.events] == [("CC", 50), ("EY", 50)]
    assert [event.distance for event in found.events] == [4, 4]
    assert found.unshared == 1
    assert (found.importance.mean, found.severity.mean, mean(found.gap)) == (30, 85, 55)
    assert found.importance.sd == pytest.approx(200**0.5)
    assert (found.importance.modal, found.severity.modal) == ((20, 40), (60, 80))


@pytest.mark.parametrize(("severity", "says"), [(75, True), (95, False)])
def test_table_2_says_why_severity_stays_below_the_papers(
    tmp_path: Path, severity: int, says: bool
) -> None:
    vanilla, pave = log("vanilla"), log("pave")
    for made in (vanilla, pave):
        made.state("CC", 50, dist_fire=4)
        made.state("EY", 50, dist_fire=7)
    rate(vanilla, "CC", 50, 20, severity)
    rate(vanilla, "EY", 50, 20, 60)
    section = importance.section(load_run(save_run(tmp_path / "run", [vanilla, pave])))
    words = "people are 4 to 7 tiles from the fire when they notice it, which leaves 60 to 75"
    assert (words in section.tables[0].note) is says


def test_modal_range_is_the_fullest_and_takes_in_the_top() -> None:
    assert importance.modal_range([19, 20, 39, 40]) == (20, 40)
    assert importance.modal_range([80, 99, 100, 10]) == (80, 100)
    assert importance.modal_range([90, 10]) == (0, 20)


def test_table_2_of_the_paper_stands_beside_ours(tmp_path: Path) -> None:
    printed = paper_tables()["table_2"]
    low, high = printed["rows"]
    assert (low["mean"], low["sd"], low["modal_range"]) == (29.1, 8.4, [20, 40])
    assert (high["mean"], high["sd"], high["modal_range"]) == (86.5, 5.7, [80, 100])
    assert printed["gap"] == 57


def crossing(policy: str, seed: int, broken: int) -> LogBuilder:
    """Four exposed ticks at the red light, some of them broken."""
    made = log(policy, PEERS, seed)
    for tick in range(4):
        rules = "RED_LIGHT" if tick < broken else ""
        made.row(
            "CC",
            100 + tick,
            "RED_LIGHT",
            rules,
            signal="dont_walk",
            crossing="cafe_crossing",
            saw_jaywalk=True,
        )
    return made


@pytest.mark.parametrize(
    ("broken", "outcome"),
    [
        ((3, 4, 3, 4, 3), "holds"),
        ((0, 0, 0, 0, 0), "does not hold"),
        ((0, 3, 1, 2, 2), "not distinguishable"),
    ],
)
def test_a_direction_holds_only_where_paired_seeds_can_tell(
    tmp_path: Path, broken: tuple[int, ...], outcome: str
) -> None:
    logs = []
    for seed, number in enumerate(broken):
        own = 0 if outcome == "holds" else (4, 3, 3, 4, 4)[seed]
        own = own if outcome != "not distinguishable" else (1, 2, 2, 1, 3)[seed]
        logs += [crossing("pave", seed, own), crossing("vanilla", seed, number)]
    run = load_run(save_run(tmp_path / "run", logs))
    found = {(item.metric, item.policy): item for item in expectations.expectations(run)}
    item = found["cr_d1", "vanilla"]
    assert (item.direction, item.outcome) == ("higher", outcome)
    assert item.printed == pytest.approx(0.58 - 0.04)
    assert found["cr_d1", "pave-no-gate"].outcome == "not run"
    assert found["urv", "vanilla"].outcome == "not run"


@pytest.mark.parametrize(("seeds", "outcome"), [(5, "not distinguishable"), (6, "holds")])
def test_a_direction_that_too_few_seeds_cannot_tell_says_so(
    tmp_path: Path, seeds: int, outcome: str
) -> None:
    logs = [
        crossing(policy, seed, broken)
        for seed in range(seeds)
        for policy, broken in (("pave", 0), ("vanilla", 4))
    ]
    section = expectations.section(load_run(save_run(tmp_path / "run", logs)))
    (row,) = [r for r in section.rows if (r["policy"], r["metric"]) == ("vanilla", "cr_d1")]
    (shown,) = [r for r in section.tables[0].rows if r[0].startswith("vanilla: CR_D1")]
    assert (row["difference"], row["outcome"]) == (1, outcome)
    few = seeds == 5
    assert row["reason"] == ("same in all seeds; at least 6 needed" if few else None)
    assert shown[-1] == (f"{outcome}\n({row['reason']})" if few else outcome)


def test_an_interval_of_a_difference_of_rates_ends_at_one(tmp_path: Path) -> None:
    logs = []
    for seed, broken in enumerate((4, 4, 4, 0)):
        logs += [crossing("pave", seed, 0), crossing("vanilla", seed, broken)]
    run = load_run(save_run(tmp_path / "run", logs))
    (found,) = [one.found for one in expectations.expectations(run) if one.metric == "cr_d1"][1:]
    assert found is not None and (found.mean, found.high) == (0.75, 1)
    officers = [fire_log("pave", seed, OFFICERS) for seed in range(4)]
    for tick in range(6):
        officers[3].row("CC", 60 + tick, "RED_LIGHT", "", dist_officer=15)
    section = suppression.section(load_run(save_run(tmp_path / "other", officers)))
    assert section.tables[0].rows[0][-1].endswith("1.00]")


def test_printed_directions_are_those_of_table_6(tmp_path: Path) -> None:
    run = load_run(save_run(tmp_path / "run", [log("pave")]))
    printed = {(i.metric, i.policy): i.direction for i in expectations.expectations(run)}
    assert printed == {
        ("vr_cafe_exposed", "pave-no-gate"): "higher",
        ("vr_cafe_exposed", "vanilla"): "lower",
        ("urv", "pave-no-gate"): "higher",
        ("urv", "vanilla"): "higher",
        ("ocr", "pave-no-gate"): "lower",
        ("ocr", "vanilla"): "lower",
        ("vr_near", "pave-no-gate"): "higher",
        ("vr_near", "vanilla"): "higher",
        ("cr_d1", "pave-no-gate"): "higher",
        ("cr_d1", "vanilla"): "higher",
    }


def test_what_is_not_scoreable_is_marked_and_has_no_numbers(tmp_path: Path) -> None:
    made = [fire_log(policy, 0, OFFICERS) for policy in ("pave", "vanilla")]
    for tick in range(3):
        made[0].verdict("CC", 53 + tick, "RED_LIGHT", "comply", fallback="malformed")
    run = load_run(save_run(tmp_path / "run", made))
    for analysis in (suppression, recovery, failure_modes):
        section = analysis.section(run)
        rows = [row for table in section.tables for row in table.rows if ", pave" in row[0]]
        assert rows and all(NOT_SCOREABLE in " ".join(row) for row in rows), analysis
        numbers = [row for row in section.rows if row["policy"] == "pave"]
        assert all(row.get("mean") is None for row in numbers), analysis
    found = {item.metric: item.outcome for item in expectations.expectations(run)}
    assert found["vr_near"] == NOT_SCOREABLE


def test_a_section_with_nothing_to_show_says_so_in_one_line(tmp_path: Path) -> None:
    run = load_run(save_run(tmp_path / "run", [log("random", "fire_escape_control")]))
    for analysis in (gate, suppression, recovery, failure_modes, importance, expectations):
        section = analysis.section(run)
        assert section.tables == () and section.rows == (), analysis
        assert section.nothing.endswith(".") and "\n" not in section.nothing, analysis


def test_csv_keeps_text_and_numbers_and_runs_no_formula() -> None:
    rows: list[Row] = [
        {"text": '=1+1, "x"\n', "number": -0.5, "none": None},
        {"text": "-2 tiles", "number": 3, "none": None},
        {"text": "pave", "number": 1e-6, "none": None},
    ]
    text = csv_text(rows)
    assert text.splitlines()[0] == "text,number,none" and text.count("\r\n") == 4
    back = list(csv.reader(io.StringIO(text, newline="")))
    assert back[1:] == [
        ['\'=1+1, "x"\n', "-0.5", ""],
        ["'-2 tiles", "3", ""],
        ["pave", "1e-06", ""],
    ]


def test_where_all_seeds_agree_the_interval_is_wilsons(tmp_path: Path) -> None:
    logs = [log("pave", seed=seed) for seed in (0, 1)]
    for made in logs:
        made.verdict("CC", 50, "RED_LIGHT", "violate")
    run = load_run(save_run(tmp_path / "run", logs))
    (point,) = gate.points(run)
    assert (point.share.low, point.share.high) == wilson(1.0, 2)
