"""The documents say what the code does: tables come from it and snippets run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pave_policy.llm.exchange import VALID
from pave_policy.llm.presets import load_presets
from pave_policy.llm.prompts import OPERATIONS
from pave_policy.llm.settings import ChatSettings
from pave_policy.outcome import Failure
from voville_env.core.codes import Action, RewardTerm, Rule
from voville_env.core.fields import markdown_table
from voville_env.metrics import METRICS
from voville_env.registry import ENVIRONMENTS
from voville_env.scenario import load_world, scenario_names, schema
from voville_env.scenario.schema import Rewards


@pytest.fixture
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text("utf-8")


def snippets(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_observation_table_is_the_field_table(readme: str) -> None:
    assert markdown_table() in readme


def test_the_first_snippet_runs(readme: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippets(readme, "python")[0]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 65


def test_the_check_of_the_readme_runs(readme: str, tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(snippets(readme, "python")[2], "utf-8")
    done = subprocess.run(
        [sys.executable, "check.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "privilege" in done.stdout


def test_every_metric_and_every_scenario_key_is_documented(repository: Path) -> None:
    text = (repository / "docs" / "metrics.md").read_text("utf-8")
    assert [metric.key for metric in METRICS] == re.findall(r"^\| `(\w+)`", text, re.MULTILINE)
    text = (repository / "docs" / "scenarios.md").read_text("utf-8")
    for part in (schema.Scenario, schema.AgentPlan, schema.Officer, schema.Perception):
        for key in part.model_fields:
            assert f"| `{key}` |" in text, key


def test_the_policy_of_the_readme_is_the_one_the_cli_test_plays(readme: str) -> None:
    source = snippets(readme, "python")[1]
    assert len([line for line in source.splitlines() if line.strip()]) <= 15
    namespace: dict[str, object] = {}
    exec(compile(source, "hasty.py", "exec"), namespace)
    assert "Hasty" in namespace


def test_every_scenario_policy_action_rule_and_term_is_named(readme: str) -> None:
    named = [f"`{name}`" for name in scenario_names()]
    named += [f"`{point.name}`" for point in entry_points(group="voville.policies")]
    named += [f"`{rule.name}`" for rule in Rule] + [f"`{term.name}`" for term in RewardTerm]
    for name in named:
        assert name in readme, name
    assert f"Discrete({len(Action)})" in readme


def test_the_reward_weights_are_those_of_the_code(readme: str) -> None:
    for term in RewardTerm:
        row = next(line for line in readme.splitlines() if line.startswith(f"| `{term.name}`"))
        weight = float(row.split("|")[-2].strip().replace("−", "-"))
        assert weight == getattr(Rewards(), term.name.lower())


def test_fidelity_names_only_files_and_switches_that_exist(repository: Path) -> None:
    text = (repository / "docs" / "fidelity.md").read_text("utf-8")
    spec = load_world("fire_escape").scenario.model_dump()
    for name in re.findall(r"`([\w/]+\.(?:py|toml|csv))`", text):
        places = [repository, repository / "voville_env"]
        assert any((place / name).exists() for place in places), name
    for part, key in re.findall(r"`(clock|perception|authority|jitter|oracle)\.(\w+)`", text):
        assert key in spec[part], f"{part}.{key}"


def test_every_environment_id_has_a_version() -> None:
    assert set(ENVIRONMENTS.values()) == set(scenario_names())
    assert all(re.search(r"-v[1-9]\d*$", name) for name in ENVIRONMENTS)


def test_every_model_setting_preset_outcome_and_fallback_is_documented(repository: Path) -> None:
    text = (repository / "docs" / "models.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    settings = set(ChatSettings.model_fields) - {"preset"}
    assert settings <= named
    assert set(load_presets()) <= named
    assert {VALID, *Failure} <= named
    assert set(OPERATIONS) <= named
    for name, field in ChatSettings.model_fields.items():
        row = next((row for row in rows if row.startswith(f"| `{name}` |")), None)
        if row is not None and isinstance(field.default, (int, float)):
            shown = json.dumps(field.default).removesuffix(".0")
            assert row.split("|")[2].strip() == shown, name


@pytest.mark.parametrize(("number", "printed"), [(0, "stub 0\n"), (1, "True\n")])
def test_the_snippets_of_the_models_page_run(
    number: int, printed: str, repository: Path, tmp_path: Path
) -> None:
    text = (repository / "docs" / "models.md").read_text("utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippets(text, "python")[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
