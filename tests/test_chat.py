"""The chat backbone in a person's ticks and in whole runs: what it costs, what it may depend on."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_kit import (
    OTHER,
    SCALARS,
    WAITS,
    WHO,
    Rounds,
    ask,
    at_the_light,
    bench,
    chat,
    desk,
    log_of,
    of_type,
    results,
    see,
    seen_at,
    short_fire,
    suite_of,
    verdict_of,
)

from pave_policy.background import wait_for
from pave_policy.llm.chat import Chat, make_chat
from pave_policy.llm.settings import ChatSettings
from pave_policy.llm.store import CallStore
from pave_policy.testing import (
    Answerer,
    StubReply,
    StubRequest,
    StubServer,
    by_operation,
    canned,
    values,
)
from voville_env.benchmarks.replay import replay, report_again
from voville_env.core.codes import Behaviour, Rule
from voville_env.errors import LifecycleError

LATE = [[2, 0, 90, 0, 0]]
"""A cue that presses more than the one at the light."""
BENT = values(legitimacy=1, decision="violate")
"""A model that breaks the rule though it sees no warrant."""


def changed(tick: int) -> Any:
    """The red light with all that the five assessments look at changed."""
    crosses = [[-1, 0, Behaviour.CROSSING_ON_RED, Rule.RED_LIGHT, 0, 0]]
    return seen_at(tick, situational_cues=LATE, peer_behaviors=crosses)


def perceived(request: StubRequest) -> StubReply:
    """A context record of its own for every observation."""
    reply = canned(request)
    if request.operation != "perceive_context":
        return reply
    number = 1 + int.from_bytes(request.prompt.encode()[-900:], "big") % 97
    record = json.loads(str(reply.content)) | {
        "peer_behaviors": [f"person {number} hums"],
        "situational_cues": [{"type": f"heron {number}", "distance_tiles": 2, "severity": number}],
        "scene_summary": f"Scene {number}.",
    }
    return StubReply(json.dumps(record))


@pytest.mark.parametrize(("perception", "calls", "rounds"), [("llm", 9, 5), ("structure", 8, 4)])
def test_a_decision_costs_so_many_calls_in_so_many_rounds(
    perception: str, calls: int, rounds: int
) -> None:
    with Rounds(perceived, together=5) as server:
        backbone = chat(server.url, retries=0, timeout=20.0)
        with at_the_light(backbone, perception=perception, elicit_threshold=True) as policy:
            see(policy, seen_at(WAITS))
            assert (len(server.requests), len(server.rounds)) == (calls, rounds)  # asked: threshold
            see(policy, changed(WAITS + 1))
    assert len(server.requests) == 2 * calls
    asked = [sorted(map(str, names)) for names in server.rounds[rounds:]]
    perceives = [["perceive_context"]] if perception == "llm" else []
    ends = [["generate_verdict"], ["emulate_action"]]
    assert asked == [["propagate_outcome"], *perceives, sorted(SCALARS), *ends]


def test_people_of_a_tick_are_asked_for_side_by_side() -> None:
    """Two people, nine assessments at once: the empirical one knows no person and is asked once."""
    with Rounds(together=9) as server:
        backbone = chat(server.url, retries=0, timeout=20.0, concurrency=9)
        with at_the_light(backbone) as policy:
            wait_for(ask(desk(backbone), "elicit_threshold"))  # a first success opens the way
            records = see(policy, seen_at(WAITS), seen_at(WAITS))
    expected = Counter({**dict.fromkeys(SCALARS, 2), "assess_empirical": 1})
    assert Counter(server.rounds[1]) == expected
    assert [record["agent"] for record in of_type(records, "verdict")] == [WHO, OTHER]


def test_an_unchanged_situation_asks_nothing_and_a_changed_one_what_changed() -> None:
    with StubServer(values(p_emp=50)) as server:
        with at_the_light(chat(server.url)) as policy:
            see(policy, seen_at(WAITS))
            see(policy, seen_at(WAITS + 1))  # shows what came of the verdict
            asked = len(server.requests)
            assert asked == 8
            for tick in range(WAITS + 2, WAITS + 6):
                assert verdict_of(see(policy, seen_at(tick)))["reused"]
            assert len(server.requests) == asked
            crosses = [[-1, 0, Behaviour.CROSSING_ON_RED, Rule.RED_LIGHT, 0, 0]]
            see(policy, seen_at(WAITS + 6, peer_behaviors=crosses))
    operations = {request.operation for request in server.requests[asked:]}
    assert operations == {"assess_risk", "assess_empirical", "assess_normative"}


def delayed(answer: Answerer, seed: int) -> Answerer:
    """Each reply takes a time of its own."""
    draws = random.Random(seed)

    def late(request: StubRequest) -> StubReply:
        reply = answer(request)
        assert isinstance(reply, StubReply)
        return replace(reply, delay=draws.random() * 0.004)

    return late


def imperfect(request: StubRequest) -> StubReply:
    """Answers well, but for some prompts in which it cannot find an answer."""
    reply = canned(request)
    hard = (
        request.operation in ("assess_benefit", "emulate_action") and len(request.prompt) % 3 == 0
    )
    return StubReply("Pardon?") if hard else reply


def test_results_do_not_depend_on_timing(tmp_path: Path) -> None:
    options = {"perception": "llm", "elicit_threshold": True, "peer_text": True}
    scenarios = (short_fire(tmp_path), "jaywalk", "jaywalk_control")
    suite = suite_of(scenarios=scenarios, options=options)
    found, ledgers = [], []
    for run, concurrency in enumerate((1, 8, 8)):
        with StubServer(delayed(imperfect, run)) as server:
            folder = tmp_path / str(run)
            summary = bench(folder, chat(server.url, concurrency=concurrency), suite)
            assert summary["status"] == "complete"
            assert server.max_in_flight <= concurrency
        found.append(results(folder))
        rows = json.loads((folder / "usage.json").read_bytes())["operations"]
        ledgers.append({row["operation"]: (row["calls"], row["outcomes"]) for row in rows})
    assert found[0] == found[1] == found[2]
    assert ledgers[0] == ledgers[1] == ledgers[2]
    assert "malformed" in ledgers[0]["assess_benefit"][1]


def test_a_run_again_costs_nothing_but_other_runs_ask_what_was_unusable(tmp_path: Path) -> None:
    shared = tmp_path / "calls.sqlite"
    rubbish = by_operation({"assess_benefit": "Pardon?"})
    with StubServer(rubbish) as server:
        bench(tmp_path / "a", chat(server.url), store=shared)
        asked = server.counts()
        bench(tmp_path / "a", chat(server.url), store=shared, resume=True)
        whole = results(tmp_path / "a")
        next((tmp_path / "a" / "episodes").iterdir()).unlink()
        bench(tmp_path / "a", chat(server.url), store=shared, resume=True)
        assert server.counts() == asked
        assert results(tmp_path / "a") == whole
        bench(tmp_path / "b", chat(server.url), store=shared)
        assert server.counts() == asked | {"assess_benefit": 2 * asked["assess_benefit"]}
    with StubServer() as server:
        bench(tmp_path / "c", chat(server.url), store=shared)
        assert set(server.counts()) >= {"assess_benefit"}
        asked = server.counts()
        bench(tmp_path / "d", chat(server.url), store=shared)
        assert server.counts() == asked
    assert results(tmp_path / "c") == results(tmp_path / "d")


def samples(url: str, store: Path, temperature: float | None) -> list[Any]:
    """The answers to one request made twice in each of two seeds, in a run that keeps its calls."""

    async def run() -> list[Any]:
        backbone = Chat(ChatSettings(base_url=url, model="stub", temperature=temperature))
        backbone.open_store(store, "run")
        found = []
        for seed in (0, 1):
            here = desk(backbone, seed=seed, agent=WHO)
            found += [(await ask(here, "assess_risk")).value for _ in range(2)]
        await backbone.aclose()
        return found

    return asyncio.run(run())


@pytest.mark.parametrize(("temperature", "asked"), [(0.0, 1), (0.7, 4), (None, 4)])
def test_only_at_temperature_zero_one_answer_serves_all(
    temperature: float | None, asked: int, tmp_path: Path
) -> None:
    def answer(request: StubRequest) -> str:
        return json.dumps({"risk": 40, "reason": f"Answer {request.number}."})

    with StubServer(answer) as server:
        found = samples(server.url, tmp_path / "calls", temperature)
        assert len(server.requests) == len(set(found)) == asked
        assert samples(server.url, tmp_path / "calls", temperature) == found
        assert len(server.requests) == asked


def test_a_run_at_a_higher_temperature_is_replayed_without_a_server(tmp_path: Path) -> None:
    def answer(request: StubRequest) -> StubReply | str:
        return values(risk=1 + request.number % 100)(request)

    with StubServer(answer) as server:
        backbone = chat(server.url, temperature=0.7)
        bench(tmp_path, backbone, suite_of(seeds=2))
        assert len(server.requests) > len({request.prompt for request in server.requests})
    before = results(tmp_path)
    offline = make_chat(offline=True, **backbone.connection())
    assert [result.same for result in replay(tmp_path, offline)] == [True, True]
    report_again(tmp_path)
    assert results(tmp_path) == before


def test_every_call_is_in_the_log_and_in_the_store(tmp_path: Path) -> None:
    with StubServer(imperfect) as server:
        summary = bench(tmp_path, chat(server.url))
        prompts = {request.prompt for request in server.requests}
    calls = [call for record in of_type(log_of(tmp_path), "llm_call") for call in record["calls"]]
    counted = summary["cells"][0]["calls"]
    for operation, counts in counted.items():
        mine = [call for call in calls if call["operation"] == operation]
        ends = Counter(call["outcome"] for call in mine)
        assert counts["asked"] == len(mine) == ends.total()
        assert {end: counts[end] for end in ends} == ends
        assert sum(counts["fallbacks"].values()) == counts["asked"] - counts["valid"]
    keys = [key for call in calls for key in call["keys"]]
    with CallStore(tmp_path / "calls.sqlite", "") as store:
        stored = store.exchanges(keys)
    assert {exchange.request["messages"][0]["content"] for exchange in stored} == prompts
    assert len(stored) == len(prompts)


def test_act_works_wherever_it_is_called() -> None:
    """In a plain script, twice, inside a running event loop and in another thread."""
    found: list[str] = []

    def decide() -> None:
        with at_the_light(chat(server.url)) as policy:
            found.append(verdict_of(see(policy, seen_at(WAITS)))["decision"])

    async def decide_inside() -> None:
        decide()

    with StubServer(values(legitimacy=100, decision="violate")) as server:
        for _ in range(2):
            decide()
            asyncio.run(decide_inside())
        thread = threading.Thread(target=decide)
        thread.start()
        thread.join()
    assert found == ["violate"] * 5


def test_a_run_works_inside_a_running_event_loop_and_again_with_the_same_backbone(
    tmp_path: Path,
) -> None:
    async def inside(name: str) -> dict[str, Any]:
        return bench(tmp_path / name, backbone)

    with StubServer() as server:
        backbone = chat(server.url)
        summaries = [asyncio.run(inside(name)) for name in ("a", "b")]
        summaries.append(bench(tmp_path / "c", backbone))
        assert len(server.requests) == 3 * len({request.prompt for request in server.requests})
    assert summaries[0]["status"] == "complete"
    assert summaries[0] == summaries[1] == summaries[2]


def test_a_run_remembers_where_its_calls_are(tmp_path: Path) -> None:
    store = tmp_path / "elsewhere" / "shared.sqlite"
    store.parent.mkdir()
    with StubServer() as server:
        bench(tmp_path / "run", chat(server.url), store=store)
        asked = len(server.requests)
        for log in (tmp_path / "run" / "episodes").iterdir():
            log.unlink()
        bench(tmp_path / "run", chat(server.url), resume=True)
        assert len(server.requests) == asked
    assert not (tmp_path / "run" / "calls.sqlite").exists()
    offline = make_chat(**chat(server.url).connection(), offline=True)
    assert all(result.same for result in replay(tmp_path / "run", offline))


def test_a_policy_that_was_told_nothing_says_what_to_call() -> None:
    with StubServer() as server, at_the_light(chat(server.url)) as policy:
        with pytest.raises(LifecycleError, match=r"policy\.reset\(env\.briefing\(\)\)"):
            policy.act({"nobody": seen_at(WAITS)}, {})
