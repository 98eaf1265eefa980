"""Reports: nothing vanishes from them, and the same episodes give the same text."""

from __future__ import annotations

import io
import json
from itertools import product
from typing import Any

import pytest
from log_builder import CAFE, LogBuilder
from rich.console import Console

from voville_env.benchmarks.layout import Table
from voville_env.benchmarks.report import SURROGATE, Report, build_report
from voville_env.benchmarks.statistics import wilson
from voville_env.benchmarks.tables import paper_tables
from voville_env.errors import InvalidValueError
from voville_env.metrics import load_episode, measure

POLICIES = ("pave", "pave-no-gate", "vanilla", "oracle")
SEEDS = range(5)
Data = dict[str, Any]


def key(scenario: str, policy: str, seed: int) -> Data:
    return {"scenario": scenario, "policy": policy, "seed": seed}


def episode(scenario: str, policy: str, seed: int, broken: int = 2, **verdict: Any) -> Data:
    """An episode in which CC breaks the rule in some of four ticks and EY stays in the fire."""
    log = LogBuilder("CC EY", fire=not scenario.endswith("control"))
    log.state("EY", 50, zone=CAFE, dist_fire=5)
    for tick in range(4):
        log.row("CC", 60 + tick, "RED_LIGHT", "RED_LIGHT" if tick < broken else "")
    log.row("CC", 110, "RED_LIGHT", "RED_LIGHT" if seed % 2 else "", day=2)
    if verdict:
        log.verdict("CC", 60, "RED_LIGHT", "comply", **verdict)
    facts = key(scenario, policy, seed) | {
        "privileged": policy == "oracle",
        "control": "fire_escape_control",
        "backbone": "surrogate" if policy.startswith("pave") else None,
    }
    return {"format": 1, "episode": facts, "metrics": measure(load_episode(log.records()))}


def plan(scenarios: tuple[str, ...] = ("fire_escape", "fire_escape_control")) -> list[Data]:
    return [key(*names) for names in product(scenarios, POLICIES, SEEDS)]


def full_report() -> Report:
    return build_report([episode(**item) for item in plan()], plan(), [])


def cell(report: Report, policy: str, scenario: str = "fire_escape") -> Any:
    cells = report.summary()["cells"]
    return next(c for c in cells if (c["scenario"], c["policy"]) == (scenario, policy))


def test_the_paper_and_ours_stand_side_by_side() -> None:
    text = full_report().markdown()
    for words in (
        "Table 1 of the paper beside ours",
        "Table 6 of the paper beside ours",
        "0.81 ± 0.04",
        "4.20 ± 0.60",
        "ours, pave on surrogate: mean",
        "Unit of replication: the seed",
        "40 planned, 40 scored, 0 failed, 0 not run",
        "oracle (privileged)",
        "VR_cafe, exposed ↑ (encounter)",
        "Error rates on both sides",
        "coverage",
        SURROGATE,
    ):
        assert words in text, words


def test_every_table_that_shows_the_surrogate_says_what_it_is() -> None:
    tables = full_report().markdown().split("\n## ")
    shown = [t for t in tables if t.startswith(("Table", "Scenario"))]
    assert len(shown) == 4 and all(SURROGATE in table for table in shown)


def test_paper_tables_hold_the_printed_numbers() -> None:
    paper = paper_tables()
    first, sixth = paper["table_1"]["rows"], paper["table_6"]["rows"]
    assert [row["name"] for row in first] == [
        *("GPT-4o", "Claude-3.5 Sonnet", "Llama-3-70B", "GPT-4o-mini"),
    ]
    assert [row["vr_cafe"][0] for row in sixth] == [0.81, 0.86, 0.12]
    assert first[3]["cr_d1_vanilla"] == [0.46, 0.08]


def test_table_6_counts_who_stayed_as_zero() -> None:
    table = full_report().markdown().split("\n## ")[2]
    row = next(line for line in table.splitlines() if line.startswith("| ours, pave on"))
    assert row.split("|")[2].strip() == "0.25 =", "CC broke 2 of 4, EY stayed: (0.5 + 0) / 2"


def test_agreeing_seeds_are_flagged_and_keep_an_interval() -> None:
    report = full_report()
    found = cell(report, "pave")["metrics"]["vr_cafe"]["tick"]
    assert found["no_variance"] and found["sd"] == 0 and found["method"] == "wilson"
    assert found["low"] < found["mean"] == 0.5 < found["high"]
    assert (found["numerator"], found["denominator"], found["n"]) == (10, 20, 5)
    assert (found["low"], found["high"]) == pytest.approx(wilson(0.5, 20), abs=1e-6)
    assert "vr_cafe.tick" in cell(report, "pave")["no_variance"]
    assert any(line.startswith("fire_escape, pave:") for line in report.without_variance())
    assert "## No variance over seeds" in report.markdown()
    assert "day2_rate.tick" not in cell(report, "pave")["no_variance"]


def test_failed_episodes_stay_in_the_denominator() -> None:
    planned = plan(("fire_escape",))
    failed = [item | {"error": "TimeoutError:\nno reply"} for item in planned[:2]]
    scored = [episode(**item) for item in planned[3:]]
    report = build_report(scored, planned, failed)
    summary = report.summary()
    assert summary["status"] == "incomplete"
    assert summary["episodes"] == {"planned": 20, "scored": 17, "failed": 2, "not_run": 1}
    assert "failed: fire_escape, pave, seed 0: TimeoutError: no reply" in report.flags()
    text = report.markdown()
    assert "20 planned, 17 scored, 2 failed, 1 not run. **Incomplete**" in text
    found = cell(report, "pave")["metrics"]["vr_cafe"]["tick"]
    assert found["n"] == 2 and found["mean"] == 0.5
    assert (found["least"], found["most"], found["conservative"]) == (0.2, 0.8, 0.2)
    lower_is_better = cell(report, "pave")["metrics"]["urv"]["tick"]
    assert lower_is_better["conservative"] == lower_is_better["most"] == 0.6


def test_more_failures_never_improve_the_conservative_score() -> None:
    planned = plan(("fire_escape",))
    scores = []
    for count in range(6):
        scored = [episode(**item) for item in planned[count:]]
        report = build_report(scored, planned, planned[:count])
        scores.append(cell(report, "pave")["metrics"]["vr_cafe"]["tick"]["conservative"])
    assert scores == sorted(scores, reverse=True) and scores[0] > scores[-1] == 0


def test_null_is_not_zero_in_a_report() -> None:
    found = cell(full_report(), "pave")["metrics"]["ocr"]["instruction"]
    assert found["mean"] is None and found["n"] == 0
    assert found["reasons"] == ["needs a fire and officers"] and found["null_seeds"] == 5


def test_policies_are_compared_on_shared_seeds_with_the_reference() -> None:
    planned = plan(("fire_escape",))
    broken = {"pave": 2, "vanilla": 0}
    scored = []
    for item in planned:
        policy, seed = item["policy"], item["seed"]
        hits = broken.get(policy, 2) + (policy == "vanilla" and seed == 0)
        scored.append(episode(**item, broken=hits))
    report = build_report(scored, planned, [])
    found = {(item["metric"], item["second"]): item for item in report.summary()["comparisons"]}
    item = found["vr_cafe_exposed", "vanilla"]
    assert item["n"] == 5 and item["verdict"] == "higher" and item["p"] < item["p_holm"]
    assert found["vr_cafe_exposed", "oracle"]["verdict"] == "not distinguishable"
    assert ("ocr", "vanilla") not in found


def test_day_two_is_set_against_the_control_of_the_same_policy() -> None:
    baselines = full_report().summary()["baselines"]
    assert [(b["first"], b["second"]) for b in baselines] == [
        (name, f"{name} in fire_escape_control") for name in POLICIES
    ]
    assert all(b["n"] == 5 and b["mean"] == 0 for b in baselines)


def test_rubbish_replies_are_not_scoreable() -> None:
    planned = [key("fire_escape", "pave", seed) for seed in SEEDS]
    scored = [episode(**item, fallback="malformed") for item in planned]
    report = build_report(scored, planned, [])
    assert not cell(report, "pave")["scoreable"]
    assert "not scoreable" in report.markdown()
    assert cell(full_report(), "pave")["scoreable"]


def test_summary_is_strict_json_and_text_is_the_same_each_time() -> None:
    one, other = full_report(), full_report()
    text = json.dumps(one.summary(), allow_nan=False)
    assert text == json.dumps(other.summary(), allow_nan=False)
    assert one.markdown() == other.markdown()


def test_the_order_of_the_episodes_does_not_matter() -> None:
    scored = [episode(**item) for item in plan()]
    one, other = build_report(scored, plan(), []), build_report(scored[::-1], plan(), [])
    assert one.summary() == other.summary()


def test_an_episode_is_counted_once() -> None:
    item = key("fire_escape", "pave", 0)
    scored = episode(**item)
    with pytest.raises(InvalidValueError, match="twice"):
        build_report([scored, scored], [item], [])
    with pytest.raises(InvalidValueError, match="as scored and as failed"):
        build_report([scored], [item], [item])


def test_a_scenario_file_goes_by_its_stem() -> None:
    item = key("mine/fire_escape.toml", "pave", 0)
    report = build_report([episode("fire_escape", "pave", 0)], [item], [])
    assert report.counts() == {"planned": 1, "scored": 1, "failed": 0, "not_run": 0}


def test_terminal_tables_print() -> None:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        for table in full_report().tables():
            console.print(table)
    assert "Table 1 of the paper beside ours" in captured.get()
    assert "[0." in captured.get(), "intervals are not taken for markup"


def test_names_are_no_markup() -> None:
    table = Table("[b]title", ("[b]column",), (("[b]cell",),), "[b]note")
    console = Console(width=80, file=io.StringIO())
    with console.capture() as captured:
        console.print(table.rich())
    assert captured.get().count("[b]") == 4
    assert "a\\|b" in Table("t", ("c",), (("a|b",),)).markdown()


def test_nothing_scored_at_all() -> None:
    report = build_report([], plan(), [])
    assert report.summary()["status"] == "incomplete"
    assert "40 planned, 0 scored, 0 failed, 40 not run" in report.markdown()
    assert report.tables()
    assert build_report([], [], []).markdown()
