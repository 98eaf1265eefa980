"""Several runs in one report: rows for each backbone, and what may not stand in one table."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_report import row_of, rows_of, tables_of

from voville_env.benchmarks import replay
from voville_env.benchmarks.folder import MANIFEST, episode_path
from voville_env.benchmarks.merge import MergedReport, report_runs
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import EpisodeKey, plan
from voville_env.errors import InvalidValueError

SCENARIOS = ("jaywalk", "jaywalk_control")
FIRST, SIXTH = (f"Table {n} of the paper beside ours" for n in (1, 6))
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three scripted policies, who stand for models that behave very differently."""
    folder = tmp_path_factory.mktemp("played") / "run"
    run_suite(plan(["jaywalk"], ["lawful", "direct", "random"], quick=True), folder)
    return folder


def run_on(played: Path, folder: Path, model: str | None, **played_by: str) -> Path:
    """A run in which each policy did what a scripted one does, and says that a model answered."""
    (folder / "episodes").mkdir(parents=True)
    manifest = json.loads((played / MANIFEST).read_text("utf-8"))
    names = {key.replace("_", "-"): value for key, value in played_by.items()}
    manifest["suite"]["policies"] = list(names)
    manifest["policy_hashes"] = {name: f"hash of {name}" for name in names}
    if model is not None:
        manifest["answered_by"] = {"name": model}
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    for scenario in SCENARIOS:
        for name, script in names.items():
            source = episode_path(played, EpisodeKey(scenario, script, 0))
            first, *rest = source.read_text("utf-8").splitlines(keepends=True)
            header = json.loads(first)
            header["policy"] = name
            if name != script:
                header["policy_settings"] = {"backbone": {"name": model or "surrogate"}}
            log = episode_path(folder, EpisodeKey(scenario, name, 0))
            log.write_text(json.dumps(header) + "\n" + "".join(rest), "utf-8")
    return folder


@pytest.fixture
def runs(played: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two models: the first is lawful as PAVE, the second is not."""
    return (
        run_on(played, tmp_path / "a", "model-a", pave="lawful", vanilla="direct", lawful="lawful"),
        run_on(played, tmp_path / "b", "model-b", pave="direct", vanilla="lawful", lawful="lawful"),
    )


def tables(report: MergedReport) -> dict[str, str]:
    return tables_of(report)  # type: ignore[arg-type]


def changed(run: Path, edit: Edit) -> None:
    manifest = json.loads((run / MANIFEST).read_text("utf-8"))
    edit(manifest)
    (run / MANIFEST).write_text(json.dumps(manifest), "utf-8")


def test_table_1_has_rows_for_each_backbone_and_vanilla_of_the_same(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    _, report = report_runs(runs, tmp_path / "both")
    table = tables(report)[FIRST]
    names = [name for name in rows_of(table) if name.startswith("ours")]
    assert names == ["ours, pave on model-a: mean", "ours, pave on model-b: mean"]
    lawful, direct = (row_of(table, name)[8:11:2] for name in names)
    assert (lawful[0], direct[1].strip(" |")) == ("0.00", "0.00")
    assert lawful[1].strip(" |") == direct[0] != "0.00", "each vanilla is that of its own model"
    assert "Answered by model-a, model-b." in table


def test_table_6_has_rows_for_each_backbone_below_each_row_of_the_paper(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    _, report = report_runs(runs, tmp_path / "both")
    names = [name for name in rows_of(tables(report)[SIXTH]) if not name.startswith("–")]
    assert names[:8] == [
        "paper, Full Pave",
        "ours, pave on model-a: mean",
        "ours, pave on model-b: mean",
        "paper, Pave w/o gate",
        "ours, pave-no-gate (not run)",
        "paper, Vanilla baseline",
        "ours, vanilla on model-a: mean",
        "ours, vanilla on model-b: mean",
    ]


def test_cells_are_told_apart_by_backbone_and_what_asks_nobody_counts_once(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    summary, report = report_runs(runs, tmp_path / "both")
    keys = [(cell["scenario"], cell["policy"], cell["backbone"]) for cell in summary["cells"]]
    assert len(keys) == len(set(keys)) == 10
    assert ("jaywalk", "lawful", None) in keys
    assert summary["models"] == ["model-a", "model-b"] and summary["no_score"] is True
    assert summary["episodes"] == {"planned": 10, "scored": 10, "failed": 0, "not_run": 0}
    assert "10 planned, 10 scored, 0 failed, 0 not run, in 2 runs" in report.markdown()
    assert {item["run"] for item in summary["comparisons"]} == {"model-a", "model-b"}
    assert [item["backbone"] for item in summary["merged"]] == ["model-a", "model-b"]
    titles = tables(report)
    assert {"Scenario jaywalk (model-a)", "Scenario jaywalk (model-b)"} <= set(titles)
    assert [str(table.title) for table in report.tables()] == [FIRST, SIXTH]


def test_a_model_whose_policies_are_spread_over_runs_has_one_row(
    played: Path, tmp_path: Path
) -> None:
    parts = [
        run_on(played, tmp_path / "pave", "model-a", pave="lawful"),
        run_on(played, tmp_path / "vanilla", "model-a", vanilla="direct"),
    ]
    _, report = report_runs(parts, tmp_path / "both")
    row = row_of(tables(report)[FIRST], "ours, pave on model-a: mean")
    assert row[8] == "0.00" and row[10].strip(" |") not in ("–", "0.00")
    assert "Scenario jaywalk (model-a, vanilla)" in tables(report)


def test_the_same_runs_give_the_same_bytes_and_stay_untouched(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for run in runs for path in run.rglob("*") if path.is_file()}
    out = tmp_path / "new" / "both"
    report_runs(runs, out)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    report_runs(runs, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first
    assert set(first) == {"summary.json", "report.md", "report.html"}
    assert json.loads(first["summary.json"])
    assert b"model-b: Scenarios: jaywalk" in first["report.md"]
    kept = {path: path.read_bytes() for run in runs for path in run.rglob("*") if path.is_file()}
    assert kept == before


def test_failures_stay_in_the_count(runs: tuple[Path, Path], tmp_path: Path) -> None:
    episode_path(runs[1], EpisodeKey("jaywalk", "pave", 0)).unlink()
    reason = {"scenario": "jaywalk", "policy": "pave", "seed": 0, "error": "no reply"}
    (runs[1] / "summary.json").write_text(json.dumps({"failures": [reason]}), "utf-8")
    summary, report = report_runs(runs, tmp_path / "both")
    assert summary["status"] == "incomplete"
    assert summary["episodes"] == {"planned": 10, "scored": 9, "failed": 1, "not_run": 0}
    assert "model-b: failed: jaywalk, pave, seed 0: no reply" in report.flags()
    row = row_of(tables(report)[FIRST], "ours, pave on model-b: mean")
    assert row[8] == "–" and row[10].strip(" |") == "0.00", "its vanilla was scored"


def test_a_model_that_never_answered_is_named_all_the_same(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    for scenario in SCENARIOS:
        for policy in ("pave", "vanilla"):
            episode_path(runs[1], EpisodeKey(scenario, policy, 0)).unlink()
    _, report = report_runs(runs, tmp_path / "both")
    assert "ours, pave on model-b" in rows_of(tables(report)[FIRST])


SWEPT = {
    "parameter": "threshold",
    "kind": "policy",
    "key": "threshold",
    "values": [20, 40],
    "defaults": {"pave": None},
    "metrics": ["urv"],
}


def differ(part: str, name: str, value: Any) -> Edit:
    def edit(manifest: dict[str, Any]) -> None:
        manifest[part][name] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (differ("suite", "seeds", [0, 1]), "seeds: the first has 0, the second 0, 1$"),
        (differ("suite", "days", 1), "days: the first has all, the second 1$"),
        (differ("suite", "quick", False), "quick: the first has true, the second false$"),
        (
            differ("suite", "options", {"threshold": 5, "peer_text": True}),
            "options: the first has none, the second threshold=5, peer_text=true$",
        ),
        (
            lambda manifest: manifest.update(sweep=SWEPT),
            "sweep: the first has none, the second threshold over 20, 40 in pave$",
        ),
        (
            differ("scenario_hashes", "jaywalk", "x"),
            r"hash of scenario jaywalk: the first has \w+, the second x$",
        ),
        (
            differ("versions", "numpy", "1.0"),
            r"version numpy: the first has [\d.]+, the second 1.0$",
        ),
        (differ("versions", "other", "1.0"), "version other: the first has none, the second 1.0$"),
    ],
)
def test_runs_that_were_made_otherwise_are_refused(
    runs: tuple[Path, Path], tmp_path: Path, edit: Edit, words: str
) -> None:
    changed(runs[1], edit)
    with pytest.raises(InvalidValueError, match="cannot be reported together: " + words):
        report_runs(runs, tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_runs_of_other_scenarios_may_stand_together(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    def without(manifest: dict[str, Any]) -> None:
        manifest["suite"]["scenarios"].remove("jaywalk_control")
        del manifest["scenario_hashes"]["jaywalk_control"]

    changed(runs[1], without)
    summary, _ = report_runs(runs, tmp_path / "both")
    assert summary["episodes"]["planned"] == 8, "six of the first, and the models' own two"


def test_one_policy_on_one_model_may_not_come_twice(played: Path, tmp_path: Path) -> None:
    runs = [
        run_on(played, tmp_path / "a", "model-a", pave="lawful"),
        run_on(played, tmp_path / "b", "model-a", pave="direct"),
    ]
    with pytest.raises(InvalidValueError, match="both hold jaywalk, pave on model-a"):
        report_runs(runs, tmp_path / "both")


def test_what_two_runs_agree_on_counts_once(played: Path, tmp_path: Path) -> None:
    runs = [
        run_on(played, tmp_path / "a", "model-a", pave="lawful"),
        run_on(played, tmp_path / "b", "model-a", pave="lawful", vanilla="direct"),
    ]
    summary, _ = report_runs(runs, tmp_path / "both")
    assert len(summary["cells"]) == summary["episodes"]["planned"] == 4


@pytest.mark.parametrize("how", ["folder", "way", "copy", "calls"])
def test_one_run_is_given_once(how: str, runs: tuple[Path, Path], tmp_path: Path) -> None:
    first, other = runs
    if how == "folder":
        other = first
    elif how == "way":
        other = first / ".." / first.name
    elif how == "copy":
        other = shutil.copytree(first, tmp_path / "copy")
    else:
        for run in runs:
            (run / ".run-id").write_text("0123456789abcdef\n", "utf-8")
    words = re.escape(f"{first} and {other} are the same run, given twice")
    with pytest.raises(InvalidValueError, match=words):
        report_runs([first, other], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_a_run_of_which_nothing_was_scored_says_what_it_lacks(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    for log in (runs[1] / "episodes").iterdir():
        log.unlink()
    reason = {"scenario": "jaywalk", "policy": "pave", "seed": 0, "error": "no reply"}
    (runs[1] / "summary.json").write_text(json.dumps({"failures": [reason]}), "utf-8")
    changed(runs[1], lambda manifest: manifest["suite"].update(policies=["pave", "vanilla"]))
    _, report = report_runs(runs, tmp_path / "both")
    assert [flag for flag in report.flags() if flag.startswith("model-b: n")] == [
        "model-b: nothing was scored: 4 episodes planned, 1 failed, 3 not run",
        "model-b: not run: 3 of 4 episodes: the run was stopped before them",
    ]


@pytest.mark.parametrize("kind", ["run", "other"])
def test_a_report_goes_nowhere_else(kind: str, runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine", "utf-8")
    out = runs[0] if kind == "run" else tmp_path / "other"
    with pytest.raises(InvalidValueError, match=r"is a run folder|holds something else"):
        report_runs(runs, out)
    assert not (out / "report.md").exists()


def test_what_is_no_run_is_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="not a run folder"):
        report_runs([runs[0], tmp_path / "nowhere"], tmp_path / "both")
    with pytest.raises(InvalidValueError, match="no run is given"):
        report_runs([], tmp_path / "both")


def test_one_run_says_the_same_alone_and_in_company(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    _, alone = replay.report_again(runs[0])
    _, both = report_runs(runs, tmp_path / "both")
    mine = {table.title: table.markdown() for table in alone.own_tables()}
    assert mine
    for title, text in mine.items():
        shown = tables(both)[f"{title} (model-a)"]
        assert shown.split("\n", 1)[1].strip() == text.split("\n", 1)[1].strip()
