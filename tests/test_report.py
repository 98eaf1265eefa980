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
from voville_env.benchmarks.notes import FALLBACKS, LIMIT
from voville_env.benchmarks.report import SURROGATE, Report, build_report
from voville_env.benchmarks.statistics import wilson
from voville_env.benchmarks.tables import paper_tables
from voville_env.errors import InvalidValueError
from voville_env.metrics import load_episode, measure
from voville_env.metrics.calls import by_operation

POLICIES = ("pave", "pave-no-gate", "vanilla", "oracle")
ASKING = ("pave", "pave-no-gate", "pave-fixed-threshold", "pave-no-scope", "vanilla")
BENCHMARK = (
    *("pave", "pave-prompt-gate", "pave-no-gate", "pave-fixed-threshold", "pave-no-authority"),
    *("pave-no-scope", "vanilla", "lawful", "direct", "random", "oracle"),
)
SEEDS = range(5)
Data = dict[str, Any]


def key(scenario: str, policy: str, seed: int) -> Data:
    return {"scenario": scenario, "policy": policy, "seed": seed}


def episode(
    scenario: str,
    policy: str,
    seed: int,
    broken: int = 2,
    fallbacks: int = 0,
    verdicts: int = 0,
    calls: tuple[str, ...] = (),
    model: str = "surrogate",
) -> Data:
    """An episode in which CC breaks the rule in some of four ticks and EY stays in the fire.

    Verdicts are given tick by tick from the first; the last ones are fallbacks.
    """
    log = LogBuilder("CC EY", fire=not scenario.endswith("control"))
    log.state("EY", 50, zone=CAFE, dist_fire=5)
    for tick in range(4):
        log.row("CC", 60 + tick, "RED_LIGHT", "RED_LIGHT" if tick < broken else "")
    log.row("CC", 110, "RED_LIGHT", "RED_LIGHT" if seed % 2 else "", day=2)
    for tick in range(verdicts):
        fell = "malformed" if tick >= verdicts - fallbacks else None
        log.verdict("CC", 60 + tick, "RED_LIGHT", "comply", fallback=fell)
    for outcome in calls:
        log.call("generate_verdict", outcome)
    facts = key(scenario, policy, seed) | {
        "privileged": policy == "oracle",
        "control": "fire_escape_control",
        "backbone": model if policy in ASKING else None,
    }
    read = load_episode(log.records())
    return {
        "format": 1,
        "episode": facts,
        "metrics": measure(read),
        "calls": by_operation(read),
    }


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


def tables_of(report: Report) -> dict[str, str]:
    """The tables of the report by title."""
    parts = report.markdown().split("\n## ")[1:]
    return {part.split("\n")[0]: part for part in parts if "\n| " in part}


def row_of(table: str, start: str) -> list[str]:
    line = next(line for line in table.splitlines() if line.startswith(f"| {start}"))
    return [item.strip() for item in line.split(" | ")]


def report_of(policies: tuple[str, ...], **given: Any) -> Report:
    planned = [key("fire_escape", *names) for names in product(policies, SEEDS)]
    return build_report([episode(**item, **given) for item in planned], planned, [])


def test_every_table_that_shows_the_surrogate_says_what_it_is() -> None:
    report = full_report()
    tables = tables_of(report)
    assert len(tables) > 20
    assert all(SURROGATE in table for table in tables.values())
    assert "Answered by" not in report.markdown()
    assert report.summary()["surrogate"] == SURROGATE


def test_nothing_else_is_called_a_surrogate() -> None:
    scripted = report_of(("lawful", "oracle"))
    assert SURROGATE not in scripted.markdown() + scripted.html()
    assert scripted.summary()["surrogate"] is None and scripted.summary()["models"] == []
    asked = report_of(("pave", "oracle"), model="some-model 7B")
    assert SURROGATE not in asked.markdown() + asked.html()
    assert asked.summary()["models"] == ["some-model 7B"]
    assert "ours, pave on some-model 7B: mean" in asked.markdown()
    for title, table in tables_of(asked).items():
        assert "Answered by some-model 7B." in table, title


def test_a_table_names_those_that_it_shows() -> None:
    planned = [key("fire_escape", *names) for names in product(("pave", "vanilla"), SEEDS)]
    models = {"pave": "some-model", "vanilla": "surrogate"}
    scored = [episode(**item, model=models[item["policy"]]) for item in planned]
    mixed = build_report(scored, planned, [])
    tables = tables_of(mixed)
    for title in ("Table 6 of the paper beside ours", "Scenario fire_escape"):
        assert f"{SURROGATE} Answered by some-model." in tables[title], title
    first = tables["Table 1 of the paper beside ours"]
    assert "Answered by some-model." in first and SURROGATE not in first, "no jaywalk was played"


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
    assert "not run: 1 of 20 episodes: the run was stopped before them" in report.flags()
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


def spoilt_report() -> Report:
    """Seed by seed, three of four verdicts of PAVE are fallbacks; vanilla gives no verdicts."""
    planned = plan()
    scored = []
    for item in planned:
        rubbish = item["policy"] == "pave"
        scored.append(episode(**item, verdicts=4 * rubbish, fallbacks=3 * rubbish))
    return build_report(scored, planned, [])


def rows_of(table: str) -> list[str]:
    """The first column of a table, without its head."""
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [line.split(" | ")[0].strip("| ") for line in lines[2:]]


def test_table_6_completes_the_five_conditions_and_adds_what_was_run() -> None:
    report = report_of(("pave", "pave-fixed-threshold", "pave-no-scope", "pave@threshold=50"))
    names = rows_of(tables_of(report)["Table 6 of the paper beside ours"])
    assert [name for name in names if not name.startswith("–")] == [
        "paper, Full Pave",
        "ours, pave on surrogate: mean",
        "paper, Pave w/o gate",
        "ours, pave-no-gate (not run)",
        "paper, Vanilla baseline",
        "ours, vanilla (not run)",
        "ours alone, pave-prompt-gate (not run)",
        "ours alone, pave-fixed-threshold on surrogate: mean",
        "ours alone, pave-no-authority (not run)",
        "ours alone, pave-no-scope on surrogate: mean",
    ]


def test_who_looks_for_a_variant_is_told_where_it_stands() -> None:
    words = "Variants, which carry settings in their names, stand in the tables of their scenarios."
    for policies, told in ((("pave@threshold=50",), True), (("pave",), False)):
        tables = tables_of(report_of(policies))
        for title in (f"Table {number} of the paper beside ours" for number in (1, 6)):
            assert (words in tables[title]) is told, (policies, title)


@pytest.mark.parametrize(
    ("policies", "shown"),
    [(("lawful", "oracle"), ()), (("pave",), (1, 6)), (("pave-no-gate",), (6,))],
)
def test_the_terminal_shows_a_table_of_the_paper_only_beside_something(
    policies: tuple[str, ...], shown: tuple[int, ...]
) -> None:
    titles = [str(table.title) for table in report_of(policies).tables()]
    found = [n for n in (1, 6) if f"Table {n} of the paper beside ours" in titles]
    assert found == list(shown)


def test_what_is_not_scoreable_is_shown_as_bounds() -> None:
    report = spoilt_report()
    assert not cell(report, "pave")["scoreable"]
    assert cell(report, "vanilla")["scoreable"] and cell(full_report(), "pave")["scoreable"]
    tables = tables_of(report)
    first = row_of(tables["Table 1 of the paper beside ours"], "ours, pave on surrogate: mean")
    assert first[1:3] == ["not scoreable<br>[0.25, 1.00]", "not scoreable<br>[0.00, 0.75]"]
    sixth = tables["Table 6 of the paper beside ours"]
    assert "– without fallbacks" not in sixth
    assert row_of(sixth, "ours, pave on")[1] == "not scoreable<br>[0.12, 0.50]"
    assert [item.strip("| ") for item in row_of(sixth, "– 95% interval")] == [
        *("– 95% interval", *["–"] * 5),
    ]
    scenario = tables["Scenario fire_escape"]
    assert row_of(scenario, "VR_cafe ↑ (tick)")[1] == "not scoreable<br>[0.25, 1.00]"
    assert row_of(scenario, "VR_cafe ↑ (encounter)")[1] == "not scoreable"
    assert row_of(scenario, "harm an attendee")[1] == "not scoreable"
    assert row_of(scenario, "fallbacks †")[1].startswith("0.75"), "it says why"
    errors = next(table for title, table in tables.items() if title.startswith("Error rates"))
    assert row_of(errors, "fire_escape, pave ")[1] == "not scoreable<br>[0.28, 0.88]"
    assert row_of(tables["Detail: VR_cafe ↑"], "fire_escape, pave ")[3:] == [
        *["–"] * 7,
        "not scoreable<br>[0.25, 1.00] |",
    ]
    for title in ("Table 1 of the paper beside ours", "Scenario fire_escape"):
        assert LIMIT in tables[title], title


def test_what_is_not_scoreable_is_compared_with_nothing() -> None:
    report = spoilt_report()
    summary = report.summary()
    assert summary["comparisons"] == [], "all comparisons are with pave"
    assert {item["first"] for item in summary["baselines"]} == set(POLICIES) - {"pave"}
    tables = tables_of(report)
    named = "Left out, because not scoreable: fire_escape, pave; fire_escape_control, pave."
    assert named in tables["Day-2 rate less that of the control"]
    flag = "not scoreable: fire_escape, pave: 0.750 of the verdicts are fallbacks (limit 0.20)"
    assert any(line.startswith(flag) for line in report.flags())
    planned = plan(("fire_escape",))
    scored = []
    for item in planned:
        rubbish = "gate" in item["policy"]
        scored.append(episode(**item, verdicts=4 * rubbish, fallbacks=3 * rubbish))
    report = build_report(scored, planned, [])
    assert {item["second"] for item in report.summary()["comparisons"]} == {"vanilla", "oracle"}
    table = tables_of(report)["Paired differences on shared seeds"]
    assert "Left out, because not scoreable: fire_escape, pave-no-gate." in table


def test_rates_without_fallbacks_stand_below_ours_where_there_were_any() -> None:
    assert "– without fallbacks" not in full_report().markdown()
    planned = plan(("fire_escape",))
    scored = []
    for item in planned:
        verdicts = 4 * (item["policy"] == "pave")
        scored.append(episode(**item, verdicts=verdicts, fallbacks=int(item["seed"] < 4)))
    report = build_report(scored, planned, [])
    assert cell(report, "pave")["scoreable"], "one verdict in five of a seed, none in the last"
    table = tables_of(report)["Table 1 of the paper beside ours"]
    assert row_of(table, "ours, pave on surrogate: mean")[1] == "0.50 ="
    shown = row_of(table, "– without fallbacks")
    assert shown[1] == "0.63 [0.50, 0.70]", "four seeds 2/3 [2/4, 3/4], one 1/2"
    assert shown[3] == "–", "times have no bounds"
    assert FALLBACKS in table
    sixth = tables_of(report)["Table 6 of the paper beside ours"]
    assert sixth.count("– without fallbacks") == 1, "of PAVE alone"


def test_model_calls_are_added_up_by_operation() -> None:
    planned = plan()
    scored = []
    for item in planned[: -len(POLICIES)]:
        asked = ("valid", "malformed", "refused") if item["policy"] == "pave" else ()
        scored.append(episode(**item, calls=asked, model="some-model"))
    report = build_report(scored, planned, [])
    counts = cell(report, "pave")["calls"]["generate_verdict"]
    assert counts["asked"] == 15 == counts["valid"] + counts["malformed"] + counts["refused"]
    assert counts["fallbacks"] == {"comply": 10}
    assert cell(report, "vanilla")["calls"] == {}
    table = tables_of(report)["Model calls by operation: pave"]
    assert row_of(table, "operation")[1:7] == [
        *("asked", "valid", "malformed", "truncated", "refused", "filtered"),
    ]
    rates = ["0.333", "0.667"]
    expected = ["30", "10", "10", "0", "10", "0", "0", *rates, "20 comply", "3000", "300 |"]
    assert row_of(table, "generate_verdict")[1:] == row_of(table, "all")[1:] == expected
    assert "Answered by some-model." in table
    assert not any("pave-no-gate" in title for title in tables_of(report)), "it asked nothing"
    assert "Model calls" not in full_report().markdown()
    assert "Model calls by operation: pave" in report.html()


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


def columns_of(table: Any, width: int, edge: str) -> list[str]:
    """What stands in each column of a printed table between lines like this, without spaces."""
    console = Console(width=width, file=io.StringIO())
    with console.capture() as captured:
        console.print(table)
    lines = [line.split(edge)[1:-1] for line in captured.get().splitlines() if edge in line]
    return ["".join(column).replace(" ", "") for column in zip(*lines, strict=True)]


@pytest.mark.parametrize("width", [80, 160])
def test_heads_of_many_policies_can_be_told_apart(width: int) -> None:
    tables = [t for t in report_of(BENCHMARK).tables() if "Scenario" in str(t.title)]
    assert [str(table.title) for table in tables] == [
        f"Scenario fire_escape ({span} of 11)" for span in ("1 to 5", "6 to 10", "11 to 11")
    ]
    heads = [columns_of(table, width, "\u2503")[1:] for table in tables]
    names = [name.replace("oracle", "oracle(privileged)") for name in BENCHMARK]
    assert heads == [names[:5], names[5:10], names[10:]]


@pytest.mark.parametrize("width", [80, 160])
def test_nothing_in_a_terminal_table_is_cut(width: int) -> None:
    words = ("not distinguishable", "VR_cafe, exposed (encounter)", "sign-flip", "[0.00, 1.00]")
    cells = ("VR_cafe (tick)", *words, *words, "1")
    table = Table("t", ("what", *"abcdefghi"), (cells,))
    assert columns_of(table.rich(), width, "\u2502") == [cell.replace(" ", "") for cell in cells]


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
    flag = "nothing was scored: 40 episodes planned, 0 failed, 40 not run"
    assert flag in report.flags() and flag not in full_report().flags()
    assert report.tables()
    assert build_report([], [], []).markdown()
