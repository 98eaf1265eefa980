"""Two hundred scripted replies: none crashes anything, none turns into behaviour silently."""

from __future__ import annotations

import asyncio
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from chat_kit import WAITS, ask, at_the_light, chat, desk, of_type, see, seen_at
from endpoint_kit import no_pauses

from pave_policy.llm.chat import FALLBACKS
from pave_policy.llm.operations import PAVE_OPERATIONS
from pave_policy.llm.prompts import load_templates
from pave_policy.llm.wording import context_data
from pave_policy.outcome import Failure
from pave_policy.records import OutcomeNote
from pave_policy.testing import (
    StubReply,
    StubRequest,
    StubServer,
    by_operation,
    canned,
    values,
)
from voville_env.errors import CallFailedError, RunAbortedError
from voville_env.observation import Context

FILE = Path(__file__).parent / "data" / "replies.toml"
VALID, ABORTED = "valid", "aborted"
UNUSABLE = tuple(failure.value for failure in Failure if not failure.is_infrastructure)
ENDS = (VALID, ABORTED, *(failure.value for failure in Failure))
ASKED_TWICE = ("malformed", "truncated", "timeout", "unavailable")
"""After a reminder, or with the one retry that is allowed here."""


@dataclass(frozen=True)
class Case:
    """A reply and what it must come to."""

    operation: str
    name: str
    reply: StubReply
    then: StubReply | None
    first: bool
    end: str
    expected: Any

    @property
    def requests(self) -> int:
        return 2 if self.then or self.end in ASKED_TWICE else 1


def read_case(operation: str, name: str, entry: dict[str, Any]) -> Case:
    entry = dict(entry)
    (end,) = set(entry) & set(ENDS)
    expected, times = entry.pop(end), entry.pop("times", 1)
    then, first = entry.pop("then", None), entry.pop("first", False)
    if not entry.pop("usage", True):
        entry |= {"prompt_tokens": None, "completion_tokens": None}
    assert set(entry) <= {field.name for field in fields(StubReply)}, f"{operation}: {name}"
    for part in {"content", "body"} & set(entry):
        entry[part] *= times
    later = None if then is None else StubReply(then)
    return Case(operation, name, StubReply(**entry), later, first, end, expected)


CASES = [
    read_case(operation, name, entry)
    for operation, entries in tomllib.loads(FILE.read_text("utf-8")).items()
    for name, entry in entries.items()
]
FIRST_OF_A_KIND = {(case.operation, case.end): case for case in reversed(CASES)}


def one_of(cases: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", list(cases), ids=lambda c: f"{c.operation}-{c.name}")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_pauses(monkeypatch)


def answers(case: Case) -> Any:
    """Gives the reply to the operation, and another to the reminder where there is one."""
    reminder = load_templates()[case.operation].reminder

    def answer(request: StubRequest) -> StubReply:
        reminded = request.prompt.endswith(reminder)
        return case.then if case.then is not None and reminded else case.reply

    return answer


def shown(value: Any) -> Any:
    """A value as the file writes it."""
    if isinstance(value, Context):
        return context_data(value)
    if isinstance(value, OutcomeNote):
        return value.model_dump()
    if isinstance(value, tuple):
        return [action.model_dump() for action in value]
    return asdict(value)


@dataclass(frozen=True)
class Played:
    """What a reply came to."""

    end: str
    value: Any
    detail: str
    calls: list[dict[str, Any]]
    rows: dict[str, dict[str, Any]]
    texts: list[str | None]


async def play(case: Case, url: str) -> Played:
    """Asks for the operation once, as a rule after another that was answered well."""
    backbone = chat(url, retries=1, timeout=0.1 if case.reply.hang else 60.0)
    here = desk(backbone)
    value = None
    try:
        if not case.first:
            await ask(here, PAVE_OPERATIONS[PAVE_OPERATIONS.index(case.operation) - 1])
        outcome = await ask(here, case.operation)
        end, detail, value = outcome.failure or VALID, outcome.detail, outcome.value
        if end in UNUSABLE or end == VALID:
            assert outcome.conduct(case.operation) is outcome
        else:
            with pytest.raises(CallFailedError, match=f"{case.operation}: {end}: "):
                outcome.conduct(case.operation)
    except RunAbortedError as error:
        end, detail = ABORTED, str(error)
    calls = [call for record in here.take_records() for call in record["calls"]]
    rows = {row["operation"]: row for row in backbone.usage()["operations"]}
    keys = [key for call in calls for key in call["keys"]]
    stored = backbone.caller.store.exchanges(keys)
    texts = [item.text for item in stored if item.operation == case.operation]
    await backbone.aclose()
    return Played(end, value, detail, calls, rows, texts)


def test_there_are_two_hundred_for_all_operations() -> None:
    counts = Counter(case.operation for case in CASES)
    assert sum(counts.values()) >= 200
    assert set(counts) == set(PAVE_OPERATIONS)
    assert min(counts.values()) >= 18
    ends = set(ENDS) - {Failure.OVER_BUDGET}  # which no reply can bring about
    assert {case.end for case in CASES} == ends


@one_of(CASES)
def test_a_reply_comes_to_what_the_file_says(case: Case) -> None:
    with StubServer(by_operation({case.operation: answers(case)})) as server:
        played = asyncio.run(play(case, server.url))
        requests = [item for item in server.requests if item.operation == case.operation]
    assert played.end == case.end, played
    if case.end == VALID:
        assert shown(played.value) == case.expected
    else:
        assert case.expected in played.detail
        assert played.detail.isprintable()
    assert case.reply.hang or len(requests) == case.requests
    if case.end != ABORTED:
        check_counts(case, played)
    if case.end in UNUSABLE or case.then is not None:
        check_second_request(case, requests)


def check_counts(case: Case, played: Played) -> None:
    """Asked is valid and each reason, for each operation; the fallback is named; texts are kept."""
    for row in played.rows.values():
        assert row["exchanges"] == sum(row["outcomes"].values())
    earlier = "truncated" if case.reply.finish_reason == "length" else "malformed"
    ends = Counter([case.end])
    if case.end in ("malformed", "truncated") or case.then is not None:
        ends[earlier] += 1
    row = played.rows[case.operation]
    assert Counter(row["outcomes"]) == ends
    assert row["calls"] == case.requests
    call = next(call for call in played.calls if call["operation"] == case.operation)
    assert call["outcome"] == case.end
    assert len(call["keys"]) == ends.total()
    assert call.get("fallback") == (None if case.end == VALID else FALLBACKS[case.operation])
    if case.reply.body is None and case.end in UNUSABLE:
        assert played.texts[0] == case.reply.content


def check_second_request(case: Case, requests: list[StubRequest]) -> None:
    """Nothing is sent twice as it is: the second names the form, with more room if that lacked."""
    if len(requests) == 2:
        first, second = requests
        assert second.prompt == f"{first.prompt}\n\n{load_templates()[case.operation].reminder}"
        room = 2 if case.reply.finish_reason == "length" else 1
        assert second.body["max_tokens"] == room * first.body["max_tokens"]


@one_of(case for case in FIRST_OF_A_KIND.values() if case.end in UNUSABLE)
def test_no_unusable_reply_breaks_a_rule_and_each_is_counted(case: Case) -> None:
    """A model bent on breaking the rule may do so, but never by an answer that cannot be read."""
    bent = values(threshold=50, legitimacy=100, decision="violate")
    scripted = by_operation({case.operation: lambda request: case.reply}, default=bent)
    with StubServer(scripted) as server:
        backbone = chat(server.url)
        with at_the_light(backbone, perception="llm", elicit_threshold=True) as policy:
            records = [*see(policy, seen_at(WAITS)), *see(policy, seen_at(WAITS + 1))]
    calls = [call for record in of_type(records, "llm_call") for call in record["calls"]]
    mine = [call for call in calls if call["operation"] == case.operation]
    assert mine and {(call["outcome"], call["fallback"]) for call in mine} == {
        (case.end, FALLBACKS[case.operation])
    }
    verdicts = of_type(records, "verdict")
    gives_verdict = FALLBACKS[case.operation] == "comply"
    expected = ("comply", case.end) if gives_verdict else ("violate", None)
    assert {(verdict["decision"], verdict["fallback"]) for verdict in verdicts} == {expected}
    noted = [record.get("fallback") for record in records if record["type"] != "llm_call"]
    assert case.end in [*noted, *(verdict["plan_fallback"] for verdict in verdicts)]


@one_of(case for case in FIRST_OF_A_KIND.values() if case.end not in (VALID, *UNUSABLE))
def test_no_failed_call_becomes_a_verdict(case: Case) -> None:
    def answer(request: StubRequest) -> StubReply | str:
        return case.reply if request.operation == case.operation else canned(request)

    with StubServer(answer) as server:
        backbone = chat(server.url, retries=0, timeout=0.5 if case.reply.hang else 60.0)
        with at_the_light(backbone, elicit_threshold=True) as policy:
            with pytest.raises((CallFailedError, RunAbortedError)) as caught:
                see(policy, seen_at(WAITS))
            assert case.expected in str(caught.value)
            assert of_type(policy.records(), "verdict") == []


def test_tokens_of_all_attempts_are_counted() -> None:
    """Two replies that are no use and one that is, ten tokens each and five back."""
    replies = [StubReply("no", prompt_tokens=10), StubReply('{"risk": 40, "reason": "Near."}')]

    async def once() -> dict[str, Any]:
        here = desk(chat(server.url))
        assert (await ask(here, "assess_risk")).value is not None
        (call,) = here.take_records()[0]["calls"]
        await here.aclose()
        return dict(call)

    with StubServer([StubReply(status=500, content="no"), *replies]) as server:
        call = asyncio.run(once())
        assert len(server.requests) == 3
    assert (call["prompt_tokens"], call["completion_tokens"], len(call["keys"])) == (20, 10, 2)
