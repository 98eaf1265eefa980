"""`voville probe`: what it finds out about an endpoint, and what it says of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from endpoint_kit import no_pauses
from rich.progress import Progress

from pave_policy.commands import probe_run
from pave_policy.commands.probe_report import duration
from pave_policy.commands.probe_run import rehearse
from pave_policy.llm.estimate import Tally
from pave_policy.llm.prompts import OPERATIONS
from pave_policy.llm.settings import ChatSettings
from pave_policy.llm.transport import Endpoint
from pave_policy.testing import (
    ERRORS,
    Answerer,
    StubReply,
    StubRequest,
    StubServer,
    by_operation,
    canned,
    refuses_parameter,
    requires_key,
    values,
)
from voville_env.benchmarks.suite import Suite
from voville_env.cli import app
from voville_env.errors import RunAbortedError

SMALL = ("--scenario", "jaywalk", "--policy", "pave", "--days", "1", "--seeds", "1")
QUESTIONS = 36
"""Chat requests without a hitch: two samples of 17 questions, and two to find out the rest."""
healthy = values(decision="comply")


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        assert self.out, self.err
        return dict(json.loads(self.out))

    @property
    def words(self) -> str:
        return " ".join(self.out.split())


Run = Callable[..., Done]
Start = Callable[..., StubServer]
_rehearsed: dict[str, Tally] = {}


def rehearse_once(suite: Suite, settings: ChatSettings, bar: Progress) -> Tally:
    """Rehearses as the command does, but the same benchmark only once for all tests."""
    key = f"{suite} {settings.identity()}"
    if key not in _rehearsed:
        _rehearsed[key] = rehearse(suite, settings, bar)
    return _rehearsed[key]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    no_pauses(monkeypatch)
    monkeypatch.setattr(probe_run, "rehearse", rehearse_once)

    def run(*args: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["voville", "probe", *args])
        with pytest.raises(SystemExit) as ended:
            app.run()
        out, err = capfd.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def stub() -> Iterator[Start]:
    servers = []

    def start(answer: Answerer = healthy, **options: Any) -> StubServer:
        servers.append(StubServer(answer, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def rows(done: Done) -> dict[str, dict[str, Any]]:
    return {row["operation"]: row for row in done.data["operations"]}


def test_a_healthy_endpoint_is_usable(probe: Run, stub: Start) -> None:
    server = stub()
    done = probe(server.url, *SMALL, "--json", "--concurrency", "3")
    data = done.data
    assert (done.code, data["fit"], data["verdict"]) == (0, True, "usable")
    assert (data["address"], data["model"], data["models"]) == (server.url, "stub", ["stub"])
    assert data["supports"] == {
        "token_limit": "max_tokens",
        "temperature_0": True,
        "json_mode": True,
        "usage": True,
        "reasoning": False,
        "notes": [],
    }
    assert [row["operation"] for row in data["operations"]] == list(OPERATIONS)
    for row in data["operations"]:
        assert (row["asked"], row["at_once"], row["failures"], row["example"]) == (2, 2, {}, "")
    assert data["gate"] == {"asked": 2, "answered": 2, "leaks": 0}
    assert data["speed"]["side_by_side"] == 3 >= server.max_in_flight
    assert len(server.requests) == data["requests"] == QUESTIONS
    assert {request.body["model"] for request in server.requests} == {"stub"}


def test_what_is_printed_says_the_same(probe: Run, stub: Start) -> None:
    server = stub()
    done = probe(server.url, *SMALL)
    assert done.code == 0
    told = (
        f"Endpoint: {server.url}",
        "Models there: stub Model used: stub It takes max_tokens;",
        "temperature 0: yes, JSON mode: yes, counts tokens: yes, reasoning apart: no",
        "Gate left to the prompt: 0 of 2 answers",
        "no known price",
        "The course of events is the surrogate's",
        "Verdict: usable.",
    )
    for words in told:
        assert words in done.words


def test_a_dialect_is_found_out_and_spoken(probe: Run, stub: Start) -> None:
    answer = healthy
    for name in ("max_tokens", "temperature", "response_format"):
        answer = refuses_parameter(name, answer)
    done = probe(stub(answer).url, *SMALL, "--json")
    supports = done.data["supports"]
    assert supports["token_limit"] == "max_completion_tokens"
    assert (supports["temperature_0"], supports["json_mode"]) == (False, False)
    assert len(supports["notes"]) == 3
    assert done.code == 0
    assert done.data["verdict"] == "usable, but temperature 0 is refused, so answers vary"


def test_json_mode_may_fail_without_a_refusal(probe: Run, stub: Start) -> None:
    def answer(request: StubRequest) -> StubReply | str:
        broken = "response_format" in request.body
        return StubReply(status=500, content="grammar engine is off") if broken else canned(request)

    done = probe(stub(answer).url, *SMALL, "--json")
    assert done.code == 0
    assert done.data["supports"]["json_mode"] is False
    assert "grammar engine is off" in done.data["supports"]["notes"][0]


def test_reasoning_that_is_told_apart_is_seen(probe: Run, stub: Start) -> None:
    def answer(request: StubRequest) -> StubReply:
        return replace(canned(request), message={"reasoning_content": "Who is looking?"})

    assert probe(stub(answer).url, *SMALL, "--json").data["supports"]["reasoning"] is True


def test_an_operation_that_never_answers_makes_it_unfit(probe: Run, stub: Start) -> None:
    server = stub(by_operation({"assess_benefit": "It depends."}, healthy))
    done = probe(server.url, *SMALL, "--json")
    assert (done.code, done.data["fit"]) == (1, False)
    assert done.data["verdict"] == (
        "not fit: assess_benefit never got a usable answer (malformed: no JSON object with the "
        "keys benefit, reason)"
    )
    row = rows(done)["assess_benefit"]
    assert (row["at_once"], row["after_reminder"], row["failures"]) == (0, 0, {"malformed": 2})
    assert rows(done)["assess_risk"]["at_once"] == 2
    assert len(server.requests) == QUESTIONS + 2
    assert "not fit: assess_benefit" in probe(server.url, *SMALL).words


def test_a_reminder_that_helps_is_counted_and_costs(probe: Run, stub: Start) -> None:
    def answer(request: StubRequest) -> StubReply | str:
        needs_it = request.operation == "assess_risk" and "Send only" not in request.prompt
        return "Well, that is hard to say." if needs_it else healthy(request)

    done = probe(stub(answer).url, *SMALL, "--json")
    row = rows(done)["assess_risk"]
    assert (done.code, row["at_once"], row["after_reminder"], row["failures"]) == (0, 0, 2, {})
    assert row["example"].startswith("malformed: no JSON object")
    assert "only after a reminder: assess_risk 2 of 2" in done.data["verdict"]
    needs = {need["operation"]: need for need in done.data["estimate"]["operations"]}
    assert needs["assess_risk"]["calls"] == 2 * needs["assess_risk"]["distinct"]
    assert needs["assess_benefit"]["calls"] == needs["assess_benefit"]["distinct"]


def test_each_kind_of_failure_is_told(probe: Run, stub: Start) -> None:
    replies: dict[str, StubReply | str | Answerer] = {
        "assess_risk": ERRORS["refusal"],
        "assess_normative": ERRORS["content_filter"],
        "assess_legitimacy": ERRORS["null_content_length"],
        "emulate_action": ERRORS["context_length_400"],
    }
    found = rows(probe(stub(by_operation(replies, healthy)).url, *SMALL, "--json"))
    assert {name: row["failures"] for name, row in found.items() if row["failures"]} == {
        "assess_risk": {"refused": 2},
        "assess_normative": {"filtered": 2},
        "assess_legitimacy": {"truncated": 2},
        "emulate_action": {"rejected": 2},
    }


def test_a_gate_that_leaks_is_told(probe: Run, stub: Start) -> None:
    def answer(request: StubRequest) -> StubReply | str:
        closed = '"legitimacy": 25' in request.prompt
        return values(decision="violate" if closed else "comply")(request)

    done = probe(stub(answer).url, *SMALL, "--json")
    assert done.code == 0
    assert done.data["gate"] == {"asked": 2, "answered": 2, "leaks": 2}
    assert "2 of 2 verdicts break the rules below the threshold" in done.data["verdict"]


def test_a_refused_key_costs_one_request(probe: Run, stub: Start) -> None:
    server = stub(requires_key("right"))
    done = probe(server.url, *SMALL, "--json")
    assert (done.code, done.out, len(server.requests)) == (4, "", 1)
    assert "the key was refused (401)" in " ".join(done.err.split())


def test_nobody_there_is_said_in_one_line(probe: Run, stub: Start) -> None:
    server = stub()
    server.close()
    for model in ((), ("--model", "m")):
        done = probe(server.url, *SMALL, *model)
        assert (done.code, done.out) == (4, "")
        assert "nothing listens" in " ".join(done.err.split())


def test_an_endpoint_in_lasting_trouble_cannot_be_used(probe: Run, stub: Start) -> None:
    done = probe(stub(lambda _: ERRORS["server_error_500"]).url, *SMALL, "--chat", "retries=0")
    assert (done.code, done.out) == (4, "")
    assert "no reply to the first request" in done.err


def test_tokens_that_are_not_counted_are_guessed(probe: Run, stub: Start) -> None:
    def answer(request: StubRequest) -> StubReply:
        return replace(canned(request), prompt_tokens=None, completion_tokens=None)

    server = stub(answer)
    data = probe(server.url, *SMALL, "--json").data
    assert data["supports"]["usage"] is False
    assert "tokens are not counted" in data["verdict"]
    assert data["speed"]["tokens_per_second"] is None
    assert data["estimate"]["prompt_tokens"] > 100 * data["estimate"]["calls"]
    assert data["estimate"]["completion_tokens"] > data["estimate"]["calls"]
    assert "guessed at one for 3 characters" in probe(server.url, *SMALL).words


def test_one_of_several_models_must_be_named(probe: Run, stub: Start) -> None:
    server = stub(models=("alpha", "beta"))
    done = probe(server.url, *SMALL)
    assert (done.code, done.out, server.requests) == (2, "", [])
    assert f"--model is missing, and {server.url} lists alpha, beta" in " ".join(done.err.split())
    assert "lists none" in probe(stub(models=()).url, *SMALL).err
    assert probe(server.url, *SMALL, "--model", "beta", "--json").data["model"] == "beta"
    assert {request.body["model"] for request in server.requests} == {"beta"}


def test_models_need_not_be_listed(
    probe: Run, stub: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: Endpoint) -> list[str]:
        raise RunAbortedError("not with this key")

    monkeypatch.setattr(Endpoint, "models", refuse)
    server = stub()
    done = probe(server.url, *SMALL, "--model", "m", "--json")
    assert (done.code, done.data["models"]) == (0, None)
    assert done.data["models_problem"] == "not with this key"
    assert probe(server.url, *SMALL).code == 4


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "Give its address, or --preset"),
        (("--preset", "olama"), "did you mean 'ollama'"),
        (("ftp://host",), "base_url is 'ftp://host'"),
        (("http://127.0.0.1:1", "--samples", "0"), "samples is 0; allowed: 1 to"),
        (("http://127.0.0.1:1", "--chat", "temprature=1"), "did you mean 'temperature'"),
        (("http://127.0.0.1:1", "--price-in", "1"), "price_in and price_out"),
        (
            ("http://127.0.0.1:1", "--policy", "lawful"),
            "none of the policies takes a backbone: lawful",
        ),
        (("http://127.0.0.1:1", "--scenario", "jaywlk"), "did you mean 'jaywalk'"),
        (("--preset", "gpt-4o"), "OPENAI_API_KEY"),
    ],
)
def test_wrong_usage_is_one_clear_line(probe: Run, args: tuple[str, ...], words: str) -> None:
    done = probe("--scenario", "jaywalk", *args)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.split())


def test_a_preset_names_the_model_and_its_price_stays_with_its_host(
    probe: Run, stub: Start
) -> None:
    server = stub()
    args = ("--preset", "gpt-4o-mini", *SMALL)
    done = probe(server.url, *args, "--json")
    assert done.data["model"] == "gpt-4o-mini-2024-07-18"
    assert (done.data["estimate"]["usd"], done.data["usd"]) == (None, None)
    printed = probe(server.url, *args).words
    assert "OpenAI's list price" not in printed and "no known price" in printed
    assert "Model used: gpt-4o-mini-2024-07-18 (not among them)" in printed


def test_prices_that_are_given_hold(probe: Run, stub: Start) -> None:
    server = stub()
    done = probe(server.url, *SMALL, "--json", "--price-in", "3", "--price-out", "0")
    assert done.data["estimate"]["usd"] == 3 * done.data["estimate"]["prompt_tokens"] / 1e6


def test_a_budget_holds_for_the_probe_too(probe: Run, stub: Start) -> None:
    server = stub()
    done = probe(server.url, *SMALL, "--json", "--chat", "max_calls=5")
    assert (done.code, len(server.requests), done.data["requests"]) == (1, 5, 5)
    assert {"over_budget": 2} in [row["failures"] for row in done.data["operations"]]


def test_nothing_secret_is_shown(
    probe: Run, stub: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secrets = ("canary-key-1", "canary-token-2", "canary-header-3", "canary-file-4")
    monkeypatch.setenv("PROBE_KEY", secrets[0])
    (tmp_path / "key").write_text(secrets[3], "utf-8")

    def echo(request: StubRequest) -> StubReply | str:
        said = f"{request.headers} {request.query}"
        if request.operation == "assess_risk":
            return StubReply(message={"refusal": said})
        return said if request.operation == "assess_benefit" else healthy(request)

    def refuse(request: StubRequest) -> StubReply:
        return StubReply(status=401, content=f"{request.headers} {request.query}")

    header = f'headers={{"X-Gate": "{secrets[2]}"}}'
    for answer in (echo, refuse):
        url = f"{stub(answer).url}?token={secrets[1]}"
        for options in (
            ("--api-key-env", "PROBE_KEY"),
            ("--api-key-file", str(tmp_path / "key"), "--json"),
        ):
            done = probe(url, *SMALL, *options, "--chat", header)
            assert done.code in (1, 4)
            assert "[secret]" in done.out + done.err
            for secret in secrets:
                assert secret not in done.out + done.err


def test_what_a_model_says_is_no_markup(probe: Run, stub: Start) -> None:
    reply = StubReply(message={"refusal": "[red]no[/red] \x1b[2J [/]"})
    done = probe(stub(by_operation({"assess_risk": reply}, healthy)).url, *SMALL)
    assert done.code == 1
    assert "[red]no[/red] \\u001b[2J [/]" in done.words
    assert "\x1b" not in done.out


def test_an_interruption_is_clean(probe: Run, stub: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe_run, "try_out", interrupt)
    done = probe(stub().url, *SMALL)
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


def test_all_seeds_are_rehearsed_unless_one_is_scaled(probe: Run, stub: Start) -> None:
    server, args = stub(), (*SMALL[:-2], "--json", "--samples", "1", "--seeds")
    one = probe(server.url, *args, "1", "--rough").data["estimate"]
    three = probe(server.url, *args, "3", "--rough").data["estimate"]
    exact = probe(server.url, *args, "3").data["estimate"]
    varied = probe(server.url, *args, "3", "--rough", "--chat", "temperature=0.7").data["estimate"]
    assert [each["rehearsed_seeds"] for each in (one, three, exact, varied)] == [1, 1, 3, 1]
    assert [each["upper_bound"] for each in (one, three, exact, varied)] == [0, 1, 0, 0]
    assert three["calls"] == 3 * one["calls"] > exact["calls"] > one["calls"]
    assert varied["calls"] > three["calls"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "under a second"), (59.4, "59 s"), (60, "1 min 0 s"), (3725, "1 h 2 min")],
)
def test_times_are_told_in_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
