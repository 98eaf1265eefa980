"""The whole comparison on a language model on this machine: all conditions, and plain words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from chat_kit import chat, results
from test_local_model import PATIENT, voville

from pave_policy.llm.operations import OPERATIONS
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import CONDITIONS, plan
from voville_env.benchmarks.usage import read_usage
from voville_env.scenario.load import data_path

BRIEF = {**PATIENT, "model": "SmolLM2-135M-Instruct", "extra_body": {"n_predict": 48}}
AT_THE_FIRE = """
[[agents]]
id = "CC"
start = "cafe_seat_CC"
home = "home_CC"

[[agents]]
id = "EY"
start = "cafe_seat_EY"
home = "home_EY"
"""
ON_THE_WAY = """
[[agents]]
id = "CC"
start = "home_CC"
home = "home_CC"
schedule = [{ day = 1, tick = 30, goal = "office_CC", late = true }]

[[agents]]
id = "EY"
start = "home_EY"
home = "home_EY"
"""
SMALL = {
    "fire_escape": ([1, 50, 51], AT_THE_FIRE),
    "fire_escape_officers": ([1, 50, 51], AT_THE_FIRE),
    "jaywalk": ([1, 33, 34], ON_THE_WAY),
}


def written(folder: Path) -> list[str]:
    """The three scenarios with two people each, under their own names."""
    paths = []
    for name, (focus, people) in SMALL.items():
        path = folder / f"{name}.toml"
        shipped = data_path(f"{name}.toml").read_text("utf-8")
        (folder / f"whole_{name}.toml").write_text(shipped, "utf-8")
        head = f'base = "whole_{name}"\nname = "{name}"\ncommuter_ids = ["CC"]\nfocus = {focus}\n'
        path.write_text(head + people, "utf-8")
        paths.append(str(path))
    return paths


@pytest.mark.local_llm
def test_the_whole_table_runs_and_says_what_the_model_is_not_good_for(
    local_model: str, tmp_path: Path
) -> None:
    scenarios, run = written(tmp_path), tmp_path / "run"
    planned = plan(scenarios, list(CONDITIONS), quick=True, backbone="chat")
    suite = replace(planned, scenarios=tuple(scenarios))  # without the controls
    summary, _ = run_suite(suite, run, backbone=chat(local_model, **BRIEF))
    assert summary["status"] == "complete"
    assert summary["episodes"]["scored"] == len(SMALL) * len(CONDITIONS)
    report = (run / "report.md").read_text("utf-8")
    for name in CONDITIONS:
        assert f"{name} on {summary['models'][0]}" in report
    for cell in summary["cells"]:
        said = f"not scoreable: {cell['scenario']}, {cell['policy']}:"
        assert (said in report) == (not cell["scoreable"])
    used = read_usage(run)
    assert used is not None
    asked = {row["operation"] for row in used["operations"]}
    assert {"assess_legitimacy", "rate_importance", "react"} <= asked <= set(OPERATIONS)
    before = results(run)
    assert voville("report", str(run)).returncode == 0
    assert results(run) == before
    analysis = (run / "analysis" / "analysis.md").read_text("utf-8")
    assert not re.search(r"\bnan\b", analysis, re.IGNORECASE)
    spoilt = [cell for cell in summary["cells"] if not cell["scoreable"]]
    assert ("not scoreable" in analysis) == bool(spoilt)
    assert voville("replay", str(run)).returncode == 0
