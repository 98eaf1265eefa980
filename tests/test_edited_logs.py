"""Logs that somebody edited: each spoilt field is named in one line, and nothing falls over."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from analysis_kit import fire_log, full_run, log, rate, save_run
from log_builder import LogBuilder

from voville_env.benchmarks.analysis.run import load_run
from voville_env.cli.app import run
from voville_env.cli.replay import report
from voville_env.events import LogError, write_lines
from voville_env.metrics import load_episode

Case = tuple[str, str, Any]
CASES: list[Case] = [
    ("verdict", "legitimacy", "50"),
    ("verdict", "legitimacy", 10**30),
    ("verdict", "legitimacy", 1e308),
    ("verdict", "legitimacy", 0),
    ("verdict", "legitimacy", 80.0),
    ("verdict", "threshold", -5),
    ("verdict", "threshold", True),
    ("verdict", "gate_leak", "no"),
    ("verdict", "gate_open", 1),
    ("verdict", "decision", "maybe"),
    ("verdict", "decision", {}),
    ("verdict", "rules", [[]]),
    ("verdict", "fallback", True),
    ("verdict", "reused", "yes"),
    ("verdict", "plan_beyond", ["NONE_SUCH"]),
    ("verdict", "agent", "ZZ"),
    ("verdict", "agent", {}),
    ("verdict", "tick", ""),
    ("importance", "rescaled", 1e308),
    ("importance", "rescaled", 500),
    ("importance", "score", 11),
    ("importance", "description", None),
    ("importance", "severity", "9"),
    ("importance", "agent", "ZZ"),
    ("reaction", "day", "1"),
    ("signal", "tick", ""),
    ("signal", "tick", {}),
    ("signal", "state", -1),
    ("signal", "state", True),
    ("agent_state", "dist_fire", "near"),
    ("opportunity", "dist_officer", 1.5),
    ("opportunity", "zone", 7),
    ("rule_event", "blocked", None),
    ("peer_broadcast", "observers", ["ZZ"]),
    ("peer_broadcast", "observers", 3),
    ("run_end", "steps", {}),
    ("run_end", "steps", "8000"),
    ("run_end", "totals", []),
    ("run_start", "seed", "x"),
    ("run_start", "officers", 5),
    ("run_start", "clock", {"days": 2, "ticks_per_day": 1000, "steps_per_tick": 0}),
    ("run_start", "fires", [{"severity": "9", "day": 1, "ignite": 5, "extinguish": 9}]),
]
INSIDE = {"clock": "steps_per_tick", "fires": "severity"}


def whole() -> LogBuilder:
    """A log with a record of each type that the cases spoil."""
    made = fire_log("vanilla", 0)
    made.verdict("CC", 53, "RED_LIGHT", "violate")
    made.add("reaction", "CC", 53, response="flee", events=["fire"], fallback=None)
    made.add("signal", None, 53, intersection="cafe_crossing", state="walk")
    made.jaywalk(60, "CC")
    rate(made, "CC", 53, 30, 75)
    return made


def spoilt(records: list[dict[str, Any]], case: Case) -> list[dict[str, Any]]:
    """The records with one field of the first record of a type changed."""
    type_, name, value = case
    first = next(record for record in records if record["type"] == type_)
    changed = {**first, name: value}
    return [changed if record is first else record for record in records]


def edited_run(folder: Path, case: Case) -> Path:
    """The folder of a run whose one log has a spoilt field."""
    made = whole()
    save_run(folder, [made])
    (path,) = (folder / "episodes").iterdir()
    write_lines(path, spoilt(made.records(), case))
    return path


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_report_of_an_edited_log_names_what_is_wrong(tmp_path: Path, case: Case) -> None:
    path = edited_run(tmp_path / "run", case)
    with pytest.raises(LogError) as refused:
        report([tmp_path / "run"])
    message = str(refused.value)
    assert message.startswith(str(path)) and "\n" not in message
    assert f"{case[0]} lacks or spoils {INSIDE.get(case[1], case[1])} " in message


def test_on_the_command_line_that_is_one_line_and_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edited_run(tmp_path / "run", CASES[0])
    monkeypatch.setattr("sys.argv", ["voville", "report", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ") and "legitimacy '50'; allowed: a whole number" in line


def test_harm_and_records_of_no_type_are_checked_too() -> None:
    records = whole().records()
    records[-1] = {**records[-1], "totals": {**records[-1]["totals"], "CC": {"harm": "1"}}}
    with pytest.raises(LogError, match="run_end lacks or spoils harm '1'"):
        load_episode(records)
    made = whole()
    made.body.append({"type": {}})
    with pytest.raises(LogError, match="unhashable"):
        load_episode(made.records())


def test_an_analysis_names_the_file(tmp_path: Path) -> None:
    made = log("pave")
    made.verdict("CC", 53, "RED_LIGHT", "violate", legitimacy="50")
    folder = save_run(tmp_path / "run", [made])
    named = re.escape(str(folder / "episodes")) + r".*day 1, tick 53: .*legitimacy '50'; allowed"
    with pytest.raises(LogError, match=named):
        load_run(folder)


def test_what_is_whole_passes(tmp_path: Path) -> None:
    assert load_episode(whole().records()).reactions
    assert len(load_run(full_run(tmp_path / "run")).episodes) == 16
