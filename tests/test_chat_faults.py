"""Runs whose model endpoint fails, lies, talks nonsense or tells secrets, from start to report."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from chat_kit import (
    Done,
    Switch,
    bench,
    bench_command,
    chat,
    load_strictly,
    log_of,
    of_type,
    results,
    voville,
)
from endpoint_kit import no_pauses

from pave_policy.testing import (
    ERRORS,
    StubReply,
    StubRequest,
    StubServer,
    always,
    by_operation,
    canned,
    values,
)
from voville_env.benchmarks.replay import report_again
from voville_env.events import read_log

FOUR = "planned", "scored", "failed", "not_run"
ODD = "One.\u2028Two.\u2029Three.\u0085Four é 日 🔥."


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_pauses(monkeypatch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of a run in which nothing went wrong."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with StubServer() as server:
        assert bench_command(folder, server.url, "--concurrency", "1").code == 0
    return results(folder)


def summary_of(folder: Path) -> Any:
    return load_strictly((folder / "summary.json").read_bytes())


def counts_of(folder: Path) -> tuple[int, ...]:
    return tuple(summary_of(folder)["episodes"][name] for name in FOUR)


def resume(folder: Path, *more: str) -> Done:
    return voville("bench", "--resume", "--out", folder, *more)


def fails_among_jaywalkers(request: StubRequest) -> StubReply | str:
    """Breaks down at what only one of the two episodes asks."""
    if "crosses against the red signal" in request.prompt:
        return StubReply(status=500, content="out of order")
    return canned(request)


def test_a_call_that_fails_for_good_fails_its_episode_alone(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    switch = Switch(fails_among_jaywalkers)
    with StubServer(switch) as server:
        done = bench_command(tmp_path, server.url, "--chat", "retries=1")
        assert done.code == 1
        summary, normal = summary_of(tmp_path), load_strictly(whole["summary.json"])
        assert counts_of(tmp_path) == (2, 1, 1, 0)
        assert summary["status"] == "incomplete"
        (failure,) = summary["failures"]
        cause = "unavailable: the endpoint is in trouble (500): out of order"
        assert (failure["scenario"], failure["seed"]) == ("jaywalk", 0)
        assert failure["error"].endswith(cause)
        shown = (tmp_path / "report.md").read_text("utf-8")
        for text in (shown, " ".join(done.out.split())):
            assert cause in text
        assert "2 planned, 1 scored, 1 failed, 0 not run. **Incomplete**" in shown
        failed, other = summary["cells"]
        assert other == normal["cells"][1]
        assert failed["calls"] == {}
        assert not (tmp_path / "episodes" / "jaywalk--pave--0.jsonl").exists()
        for units in failed["metrics"].values():
            assert {(unit["n"], unit["mean"]) for unit in units.values()} == {(0, None)}
        assert failed["metrics"]["cr_d1"]["tick"]["conservative"] == 1.0  # as bad as can be
        before = results(tmp_path)
        report_again(tmp_path)
        assert results(tmp_path) == before, "why it failed is kept"
        switch.now = canned
        assert resume(tmp_path).code == 0
    assert results(tmp_path) == whole


def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (ERRORS["bad_key_401"], "the key was refused (401): This API key is not known here"),
        (ERRORS["unknown_model_404"], "the model 'stub' was not found (404)"),
        (StubReply(status=404, body="nothing"), "nothing at http://127.0.0.1"),
        (None, "(connection refused)"),
    ],
)
def test_an_unusable_endpoint_stops_the_run_at_once(
    reply: StubReply | None, cause: str, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    switch = Switch(canned if reply is None else always(reply))
    with StubServer(switch) as server:
        done = bench_command(tmp_path, nobody() if reply is None else server.url)
        assert done.code == 4
        assert len(server.requests) == (0 if reply is None else 1)
        assert "stopped: " in done.err and cause in done.err
        assert "Traceback" not in done.err
        summary = summary_of(tmp_path)
        assert (summary["status"], counts_of(tmp_path)) == ("aborted", (2, 0, 0, 2))
        assert cause in summary["aborted"]
        assert cause in (tmp_path / "report.md").read_text("utf-8")
        assert cause in (tmp_path / "report.html").read_text("utf-8").replace("&#x27;", "'")
        switch.now = canned
        assert resume(tmp_path, "--base-url", server.url).code == 0
    assert results(tmp_path) == whole


def test_what_was_finished_before_the_key_expired_is_kept(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    log = [json.loads(line) for line in whole["jaywalk--pave--0.jsonl"].split(b"\n") if line]
    calls = [call for record in of_type(log, "llm_call") for call in record["calls"]]
    first_episode = len({key for call in calls for key in call["keys"]})

    def expires(request: StubRequest) -> StubReply | str:
        return ERRORS["bad_key_401"] if request.number > first_episode else canned(request)

    switch = Switch(expires)
    with StubServer(switch) as server:
        assert bench_command(tmp_path, server.url, "--concurrency", "1").code == 4
        assert (summary_of(tmp_path)["status"], counts_of(tmp_path)) == ("aborted", (2, 1, 0, 1))
        (kept,) = (tmp_path / "episodes").iterdir()
        assert kept.read_bytes() == whole[kept.name]
        switch.now = canned
        asked = len(server.requests)
        assert resume(tmp_path).code == 0
        again = {request.prompt for request in server.requests[asked:]}
        assert not again & {request.prompt for request in server.requests[: first_episode + 1]}
    assert results(tmp_path) == whole


def test_a_budget_is_kept_and_a_larger_one_goes_on(tmp_path: Path, whole: dict[str, bytes]) -> None:
    with StubServer() as server:
        done = bench_command(tmp_path, server.url, "--max-calls", "20")
        assert (done.code, len(server.requests)) == (3, 20)
        errors = [failure["error"] for failure in summary_of(tmp_path)["failures"]]
        assert len(errors) == 2
        assert all("over_budget: max_calls is 20: 20 are used" in error for error in errors)
        assert resume(tmp_path, "--max-calls", "30").code in (1, 3)
        assert len(server.requests) == 30
        assert resume(tmp_path, "--max-calls", "1000").code == 0
        prompts = [request.prompt for request in server.requests]
    assert len(prompts) == len(set(prompts))
    usage = load_strictly((tmp_path / "usage.json").read_bytes())
    assert usage["total"]["calls"] == usage["total"]["outcomes"]["valid"] == len(prompts)
    assert usage["total"]["prompt_tokens"] == 10 * len(prompts)
    assert results(tmp_path) == whole


def test_rubbish_is_no_virtue(tmp_path: Path) -> None:
    with StubServer(always("Pardon?")) as server:
        done = bench_command(tmp_path, server.url)
    assert done.code == 0
    verdicts = of_type(log_of(tmp_path), "verdict")
    assert {(v["decision"], v["fallback"]) for v in verdicts} == {("comply", "malformed")}
    report = (tmp_path / "report.md").read_text("utf-8")
    line = next(line for line in report.split("\n") if line.startswith("| CR_D1 ↓ (tick)"))
    assert line == "| CR_D1 ↓ (tick) | not scoreable<br>[0.00, 1.00] |"
    assert "not scoreable: jaywalk, pave: 1.000 of the verdicts are fallbacks" in report
    assert "not scoreable" in done.out
    summary = summary_of(tmp_path)
    assert [cell["scoreable"] for cell in summary["cells"]] == [False, False]
    assert summary["comparisons"] == summary["baselines"] == []
    for key in ("cr_d1", "cr_d1_without_fallbacks"):
        rate = summary["cells"][0]["metrics"][key]["tick"]
        assert (rate["mean"], rate["reasons"]) == (None, ["not scoreable"])
    assert summary["cells"][0]["metrics"]["fallback_share"]["verdict"]["mean"] == 1
    for counts in summary["cells"][0]["calls"].values():
        assert counts["asked"] == counts["malformed"] == sum(counts["fallbacks"].values())


def echo(request: StubRequest) -> str:
    return json.dumps({"headers": dict(request.headers), "query": request.query})


def refuses(request: StubRequest) -> StubReply:
    return StubReply(status=401, content=f"Not with {echo(request)}.")


def breaks(request: StubRequest) -> StubReply:
    good = request.operation != "generate_verdict"
    return StubReply(
        canned(request).content if good else echo(request), status=200 if good else 500
    )


def chats(request: StubRequest) -> StubReply | str:
    """A model that weaves what it can see of the request into its answers."""
    return values(reason=echo(request), justification=echo(request)[:1900])(request)


def canary_options(key: str, tmp_path: Path) -> list[str]:
    """The key in a file or in the environment, and others in headers."""
    (tmp_path / "key").write_text("c4nary-in-a-file\n", "utf-8")
    where = ["--api-key-file", str(tmp_path / "key")]
    if key == "environment":
        where = ["--api-key-env", "CANARY"]
    headers = {"X-Canary": "c4nary in a header", "X-Token": "Token c4nary/token"}
    return [*where, "--chat", f"headers={json.dumps(headers)}"]


def contents(run: Path) -> bytes:
    """Everything in a run folder, which no secret is in."""
    data = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert b"c4nary" not in data
    return data


@pytest.mark.parametrize(
    ("answer", "code", "key"),
    [(refuses, 4, "file"), (breaks, 3, "environment"), (chats, 0, "file")],
)
def test_no_secret_is_in_any_file_or_line(
    answer: Callable[[StubRequest], Any],
    code: int,
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CANARY", "c4nary-in-the-environment")
    run = tmp_path / "run"
    with StubServer(answer) as server:
        url = f"{server.url}?token={quote('c4nary in the URL')}"
        done = bench_command(run, url, *canary_options(key, tmp_path))
        sent = f"{server.requests[0].headers} {server.requests[0].query}"
    assert (done.code, sent.count("c4nary")) == (code, 4)
    assert b"[secret]" in contents(run)  # or the endpoint would have told nothing
    for shown in (done, voville("report", run, "--json"), voville("replay", run)):
        assert "c4nary" not in shown.out + shown.err
    contents(run)


def test_no_secret_is_in_the_log_of_the_http_library(tmp_path: Path) -> None:
    run = tmp_path / "run"
    plan = ("--quick", "--scenario", "jaywalk", "--policy", "pave", "--out", str(run))
    model = ("--backbone", "chat", "--model", "stub", "--chat", "retries=0")
    command = [sys.executable, "-m", "voville_env", "bench", *plan, *model]
    with StubServer(breaks) as server:
        url = f"{server.url}?token=c4nary+in+the+URL"
        done = subprocess.run(
            [*command, "--base-url", url, *canary_options("environment", tmp_path)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            env={**os.environ, "OPENAI_LOG": "debug", "CANARY": "c4nary-in-the-environment"},
        )
        assert "c4nary" in str(server.requests[0].headers)
    assert done.returncode == 3, done.stderr
    assert "DEBUG" in done.stderr
    assert "[secret]" in done.stdout
    assert "c4nary" not in done.stdout + done.stderr
    contents(run)


def odd_texts(request: StubRequest) -> StubReply | str:
    """Separators in every text; halves of surrogate pairs, bare in one and escaped in another."""
    texts = dict.fromkeys(("reason", "justification", "necessity", "observed_behavior"), ODD)
    reply = values(**texts)(request)
    assert isinstance(reply, StubReply)
    answer = {} if request.operation == "emulate_action" else json.loads(str(reply.content))
    if request.operation == "assess_normative":
        return json.dumps(answer | {"reason": "half \ud83d pair"}, ensure_ascii=False)
    if request.operation == "assess_benefit":
        return json.dumps(answer | {"reason": "half \ud83d pair"})
    return json.dumps(answer, ensure_ascii=False) if answer else f"1. {ODD} (5s)"


def test_odd_characters_split_no_record_and_stay_as_they_are(tmp_path: Path) -> None:
    with StubServer(odd_texts) as server:
        bench(tmp_path, chat(server.url))
        asked, before = len(server.requests), results(tmp_path)
        bench(tmp_path, chat(server.url), resume=True)
        assert len(server.requests) == asked
    report_again(tmp_path)
    assert results(tmp_path) == before
    (path,) = (tmp_path / "episodes").iterdir()
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    records = [load_strictly(line) for line in lines]
    assert records == list(read_log(path))
    for name in ("summary.json", "usage.json", "manifest.json"):
        load_strictly((tmp_path / name).read_bytes())
    calls = [call for record in of_type(records, "llm_call") for call in record["calls"]]
    ends = {call["operation"]: call["outcome"] for call in calls}
    assert [name for name, end in ends.items() if end != "valid"] == ["assess_benefit"]
    actions = [action for verdict in of_type(records, "verdict") for action in verdict["actions"]]
    assert set(actions) == {f"{ODD} (5s)."}
    assert any(ODD in record["text"] for record in of_type(records, "memory"))


@pytest.mark.parametrize(
    ("reply", "failure", "cause"),
    [
        (ERRORS["html_page"], "unavailable", "the endpoint answered with an HTML page"),
        (ERRORS["bad_gateway_502_html"], "unavailable", "in trouble (502): an HTML page"),
        (ERRORS["invalid_json"], "unavailable", "the reply is no valid JSON"),
        (ERRORS["rate_limit_429"], "unavailable", "too many requests for the endpoint's limit"),
        (ERRORS["context_length_400"], "rejected", "the request was rejected (400): The messages"),
        (ERRORS["empty_choices"], "unavailable", "the reply is no chat completion"),
        (StubReply(drop=True), "unavailable", "the connection broke"),
        (StubReply(hang=True), "timeout", "no reply within 1 s"),
    ],
)
def test_the_line_of_a_failed_episode_names_the_cause(
    reply: StubReply, failure: str, cause: str, tmp_path: Path
) -> None:
    timeout = 1.0 if reply.hang else 60.0
    with StubServer(by_operation({"generate_verdict": reply})) as server:
        summary = bench(tmp_path, chat(server.url, retries=1, timeout=timeout))
    (failed,) = summary["failures"]
    assert f"{failure}: " in failed["error"] and cause in failed["error"]
    assert cause in (tmp_path / "report.md").read_text("utf-8")


def test_what_a_failed_call_used_is_counted(tmp_path: Path) -> None:
    """Two attempts at 10 tokens each, for which nothing came back."""
    with StubServer(by_operation({"generate_verdict": ERRORS["empty_choices"]})) as server:
        bench(tmp_path, chat(server.url, retries=1, price_in=1e6, price_out=0.0))
    usage = load_strictly((tmp_path / "usage.json").read_bytes())
    (row,) = [row for row in usage["operations"] if row["operation"] == "generate_verdict"]
    assert (row["calls"], row["outcomes"]) == (2, {"unavailable": 1})
    assert (row["prompt_tokens"], row["cost"]) == (20, 20.0)
