"""The command line, run as users run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import plan
from voville_env.cli.app import app

HASTY = """
from voville_env.policy import BasePolicy


class Hasty(BasePolicy):
    def act(self, observations, infos):
        actions = {}
        for agent, observation in observations.items():
            escaping = observation["self"][11]
            distance, action, rules, wait = observation["routes"][4 if escaping else 1]
            actions[agent] = int(action) if distance > 0 else 0
        return actions


class Broken(BasePolicy):
    def act(self, observations, infos):
        raise RuntimeError("no idea")
"""


def voville(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "voville_env", *args]
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        encoding="utf-8",
    )


def as_json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hasty.py").write_text(HASTY, "utf-8")
    return tmp_path


def test_a_policy_from_a_file_reaches_the_table(folder: Path) -> None:
    args = ("--policy", "hasty:Hasty", "--scenario", "jaywalk", "--seeds", "2", "--days", "1")
    done = voville("bench", *args, "--jobs", "2", "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "hasty:Hasty" in done.stdout and "of the paper beside ours" not in done.stdout
    assert "not evidence about language models" not in " ".join(done.stdout.split())


def test_resume_needs_no_more_than_the_folder(folder: Path) -> None:
    args = ("--policy", "lawful", "--scenario", "jaywalk", "--quick", "--jobs", "1")
    assert voville("bench", *args, "--out", "run", cwd=folder).returncode == 0
    whole = (folder / "run" / "summary.json").read_bytes()
    next((folder / "run" / "episodes").glob("*.jsonl")).unlink()
    assert voville("bench", "--resume", "--out", "run", cwd=folder).returncode == 0
    assert (folder / "run" / "summary.json").read_bytes() == whole
    changed = ("--quick", "--scenario", "jaywalk", "--policy", "direct")
    other = voville("bench", "--resume", "--out", "run", *changed, cwd=folder)
    assert other.returncode == 2 and "policies" in other.stderr


def test_json_is_the_whole_output(folder: Path) -> None:
    args = ("--policy", "lawful", "--scenario", "jaywalk", "--quick", "--jobs", "1", "--json")
    summary = as_json(voville("bench", *args, cwd=folder))
    assert summary["no_score"] is True
    assert summary["episodes"]["scored"] == 2
    assert len(list((folder / "runs").iterdir())) == 1


def test_all_failed_and_some_failed_have_their_own_codes(folder: Path) -> None:
    common = ("--scenario", "jaywalk", "--quick", "--jobs", "1")
    done = voville("bench", "--policy", "hasty:Broken", *common, "--out", "a", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert "no idea" in done.stdout
    both = ("--policy", "hasty:Broken", "--policy", "lawful")
    done = voville("bench", *both, *common, "--out", "b", cwd=folder)
    assert done.returncode == 1
    assert json.loads((folder / "b" / "summary.json").read_text("utf-8"))["episodes"]["failed"] == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--policy", "pavee"), ("policy", "pavee", "did you mean 'pave'")),
        (("--scenario", "fire_escpae"), ("scenario", "did you mean 'fire_escape'")),
        (("--policy", "lawful@speed=3"), ("setting of policy 'lawful' is 'speed'",)),
        (
            ("--policy", "hasty:Hasty@privileged=true"),
            ("setting of policy 'hasty:Hasty' is 'privileged'; allowed: none",),
        ),
        (
            ("--policy", "hasty:Hasty", "--option", "privileged=true"),
            ("option for hasty:Hasty is 'privileged'; allowed: none",),
        ),
        (("--policy", "lawful@speed"), ("'lawful@speed'", "allowed: key=value")),
        (
            ("--scenario", "jaywalk@perception.peer_radios=3"),
            ("jaywalk.toml with perception.peer_radios=3", "did you mean 'peer_radius'"),
        ),
        (("--seeds", "0"), ("seeds", "allowed: 1 to 100000")),
        (("--policy", "nowhere:Thing"), ("nowhere", "cannot import")),
        (("--policy", "hasty:Hastey"), ("Hastey", "did you mean 'Hasty'")),
        (("--scenario", "missing.toml"), ("missing.toml", "no such file")),
        (("--policy", "lawful", "--jobs", "0"), ("jobs", "at least 1")),
        (("--days", "9"), ("days", "1 to 2")),
        (("--quick", "--seeds", "3"), ("seeds", "plays one")),
        (("--resume",), ("--resume needs --out",)),
        (("--resume", "--out", "nowhere"), ("nowhere", "not a run folder")),
    ],
)
def test_wrong_usage_is_one_clear_line(
    folder: Path, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = voville("bench", *args, cwd=folder)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert not (folder / "runs").exists()


def test_a_report_of_a_run_without_a_score_has_the_code_of_such_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_suite(plan(["jaywalk"], ["lawful"], quick=True), run)
    assert CliRunner().invoke(app, ["report", str(run), "--json"]).exit_code == 0
    for log in (run / "episodes").iterdir():
        log.unlink()
    done = CliRunner().invoke(app, ["report", str(run)])
    assert done.exit_code == 3, done.exception
    assert "nothing was scored: 2 episodes planned, 0 failed, 2 not run" in done.stdout
    assert "not run: 2 of 2 episodes: the run was stopped before them" in done.stdout
    help_text = CliRunner().invoke(app, ["report", "--help"]).stdout
    assert "3 nothing was scored" in " ".join(help_text.replace("\u2502", " ").split())


def test_unknown_options_are_refused(folder: Path) -> None:
    assert voville("bench", "--sedes", "3", cwd=folder).returncode == 2


def test_scenarios_are_listed_shown_and_checked(folder: Path) -> None:
    rows = as_json(voville("scenarios", "list", "--json", cwd=folder))
    assert {"fire_escape", "fire_escape_officers", "jaywalk"} <= {row["name"] for row in rows}
    shown = voville("scenarios", "show", "jaywalk", cwd=folder)
    assert shown.returncode == 0 and "Carlos Cooper" in shown.stdout
    assert all(row["ok"] for row in as_json(voville("scenarios", "check", "--json", cwd=folder)))
    (folder / "bad.toml").write_text('base = "jaywalk"\ntitel = "x"\n', "utf-8")
    done = voville("scenarios", "check", "bad.toml", cwd=folder)
    assert done.returncode == 1
    assert "titel" in done.stdout and "did you mean 'title'" in done.stdout


def test_one_own_scenario_is_scored_under_its_name(folder: Path) -> None:
    text = 'base = "jaywalk"\nname = "my_street"\ntitle = "Straße mit é"\n'
    (folder / "mine.toml").write_text(text, "utf-8")
    args = ("--scenario", "mine.toml", "--policy", "lawful", "--quick", "--jobs", "1", "--json")
    summary = as_json(voville("bench", *args, cwd=folder, PYTHONUTF8="0", LC_ALL="C"))
    assert summary["episodes"] == {"planned": 2, "scored": 2, "failed": 0, "not_run": 0}
    assert {cell["scenario"] for cell in summary["cells"]} == {"my_street", "jaywalk_control"}


def test_doctor_and_version(folder: Path) -> None:
    facts = as_json(voville("doctor", "--json", cwd=folder))
    assert "pave" in facts["policies"]
    assert voville("--version", cwd=folder).stdout.startswith("voville ")


def test_throughput_prints_each_batch(folder: Path) -> None:
    args = ("--batch", "2", "--seconds", "0.05", "--no-parts", "--json")
    rows = as_json(voville("throughput", *args, cwd=folder))["rows"]
    dicts = {"dict API", "dict API, copy=False", "dict API, flat vectors"}
    batches = {"batched core", "VovilleVectorEnv", "VovilleVectorEnv, copy=False"}
    assert {row["what"] for row in rows} == dicts | batches
    assert all(row["agent_steps_per_second"] > 0 for row in rows)


def test_works_without_a_home_or_a_cache_folder(folder: Path) -> None:
    code = (
        "import voville_env.core.compile as c; c._candidates = lambda: []; "
        "assert c.cache_folder() is None; print(c.is_warm())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "HOME"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr
