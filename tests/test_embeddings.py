"""Vectors of texts: made here or by a model, asked for once, kept, replayed, and never made up."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_kit import bench, chat, desk, load_strictly, log_of, of_type, suite_of, voville
from endpoint_kit import no_pauses
from numpy.typing import NDArray

from pave_policy.llm.store import CallStore
from pave_policy.memory import embedding
from pave_policy.testing import (
    ERRORS,
    Answerer,
    StubReply,
    StubRequest,
    StubServer,
    canned,
    flaky,
    requires_key,
    vectors_body,
)
from voville_env.errors import CallFailedError, InvalidValueError, RunAbortedError

STEM = "jaywalk--vanilla--0"
MODEL = {"embedding_model": "vectors"}
TEXTS = ("A fire burns.", "People talk.", "A fire burns.", "An officer waits.")
Vectors = NDArray[np.float32]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_pauses(monkeypatch)


def by_text(table: dict[str, list[float]]) -> Answerer:
    def answer(request: StubRequest) -> StubReply:
        return StubReply(body=vectors_body([table[text] for text in request.body["input"]]))

    return answer


def embed(
    url: str, *texts: str, store: Path | None = None, run: str = "r", **options: Any
) -> tuple[Vectors, dict[str, Any]]:
    """The vectors of some texts, and what the calls came to."""

    async def once() -> tuple[Vectors, dict[str, Any]]:
        backbone = chat(url, **{**MODEL, "retries": 0, **options})
        if store is not None:
            backbone.caller.use_store(CallStore(store, run))
        here = desk(backbone)
        try:
            vectors = await here.embed(texts)
            assert here.take_records() == [], "what depends on a cache is not for the log"
            return vectors, backbone.usage()
        finally:
            await backbone.aclose()

    return asyncio.run(once())


def failure(answer: Answerer, *texts: str, **options: Any) -> str:
    with StubServer(answer) as server, pytest.raises(CallFailedError) as caught:
        embed(server.url, *(texts or ("A fire burns.",)), **options)
    return str(caught.value)


def test_without_a_model_vectors_are_made_here() -> None:
    with StubServer() as server:
        vectors, _ = embed(server.url, *TEXTS, embedding_model="")
        assert server.requests == []
    assert np.array_equal(vectors, embedding.embed(TEXTS))


def test_vectors_come_in_the_order_of_the_texts_and_have_length_one() -> None:
    table: dict[str, list[float]] = {
        "A fire burns.": [3.0, 4.0],
        "People talk.": [0, -2],
        "An officer waits.": [1e-9, 0],
    }
    with StubServer(by_text(table)) as server:
        vectors, used = embed(server.url, *TEXTS)
        assert server.counts() == {"embed": 3}
        bodies = [request.body for request in server.requests]
    assert vectors.dtype == np.float32
    assert vectors.tolist() == np.array([[0.6, 0.8], [0, -1], [0.6, 0.8], [1, 0]], "f4").tolist()
    assert sorted(body["input"][0] for body in bodies) == sorted(set(TEXTS))
    assert all(set(body) == {"model", "input"} for body in bodies)
    assert {body["model"] for body in bodies} == {"vectors"}
    (row,) = used["operations"]
    assert (row["operation"], row["calls"], row["outcomes"]) == ("embed", 3, {"valid": 3})
    assert (row["prompt_tokens"], row["completion_tokens"]) == (30, 0)


def test_no_text_is_asked_for_twice(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with StubServer() as server:
        first, _ = embed(server.url, *TEXTS, store=path)
        again, used = embed(server.url, *reversed(TEXTS), "New.", store=path, run="another")
        assert server.counts() == {"embed": 4}
    assert np.array_equal(again[:4], first[::-1])
    assert used["total"]["calls"] == 1
    assert np.array_equal(embed(server.url, *TEXTS, store=path, offline=True)[0], first)
    with pytest.raises(CallFailedError, match="embed: unavailable: not among the stored calls"):
        embed(server.url, "Unheard of.", store=path, offline=True)
    with pytest.raises((CallFailedError, RunAbortedError)):
        embed(server.url, "A fire burns.", store=path, embedding_model="other")


def test_two_people_who_need_the_same_at_once_wait_for_one_call() -> None:
    async def both(url: str) -> tuple[Vectors, Vectors]:
        backbone = chat(url, **MODEL)
        here, there = desk(backbone, agent="CC"), desk(backbone, agent="KQ")
        found = await asyncio.gather(here.embed(TEXTS), there.embed(TEXTS))
        await backbone.aclose()
        return found

    with StubServer() as server:
        first, second = asyncio.run(both(server.url))
        assert server.counts() == {"embed": 3}
    assert np.array_equal(first, second)


def test_a_passing_fault_is_tried_again() -> None:
    replies = [ERRORS["server_error_500"], StubReply(body='{"data": []}'), StubReply(drop=True)]
    with StubServer(flaky(replies)) as server:
        vectors, used = embed(server.url, "A fire burns.", retries=3)
    assert vectors.shape == (1, 16)
    assert used["total"]["calls"] == 4
    assert used["total"]["outcomes"] == {"valid": 1}


def body(*entries: object) -> str:
    return json.dumps({"object": "list", "data": list(entries)})


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (vectors_body([]), "it has 0 vectors, where one was asked for"),
        (vectors_body([[1.0], [2.0]]), "it has 2 vectors, where one was asked for"),
        (body({"index": 1, "embedding": [1.0]}), "the index 1 of another text"),
        (body({"index": 0}), "it has no vector"),
        (body({"index": 0, "embedding": []}), "it has no vector"),
        (body("vector"), "it has no vector"),
        (body({"index": 0, "embedding": "AACAPw=="}), "it has no vector"),
        (body({"index": 0, "embedding": [1.0, None]}), "something other than numbers"),
        (body({"index": 0, "embedding": [True]}), "something other than numbers"),
        (body({"index": 0, "embedding": [float("nan")]}), "its vector has length nan"),
        (body({"index": 0, "embedding": [1.0, float("inf")]}), "its vector has length inf"),
        (body({"index": 0, "embedding": [10**400]}), "its vector has length inf"),
        (body({"index": 0, "embedding": [0, 0.0, -0.0]}), "its vector has length 0.0"),
        ('{"object": "list"}', "it has no data"),
        ("[1]", "it has no data"),
        ("", "the reply is empty"),
        ("{", "the reply is no valid JSON"),
        ('{"error": {"message": "no room"}}', "the endpoint answered with an error: no room"),
        ('{"choices": [{"message": {"content": "1"}}]}', "it has no data"),
    ],
)
def test_what_is_no_vector_fails_the_episode_and_is_asked_for_again(
    reply: str, says: str, tmp_path: Path
) -> None:
    said = failure(lambda _: StubReply(body=reply), store=tmp_path / "calls.sqlite")
    assert said.startswith("embed: unavailable: ") and says in said
    with StubServer() as server:
        vectors, _ = embed(server.url, "A fire burns.", store=tmp_path / "calls.sqlite")
        assert server.counts() == {"embed": 1}
    assert np.isclose(np.linalg.norm(vectors), 1)


def test_vectors_of_two_lengths_are_refused() -> None:
    said = failure(by_text({"a": [1.0], "b": [1.0, 2.0]}), "a", "b")
    assert said == (
        "embed: vectors of 'vectors' have 1 and 2 dimensions; allowed: one number of them"
    )


def test_an_endpoint_without_vectors_or_without_the_model_stops_the_run() -> None:
    def absent(request: StubRequest) -> StubReply:
        return ERRORS["unknown_model_404"] if request.operation == "embed" else canned(request)

    with StubServer(absent, models=["vectors-v2"]) as server:
        with pytest.raises(RunAbortedError, match=r"the model 'vectors' was not found.*vectors-v2"):
            embed(server.url, "A fire burns.")


def test_a_budget_and_a_key_hold_for_vectors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    canary = "canary-key-1"
    monkeypatch.setenv("VECTOR_KEY", canary)
    with StubServer(requires_key(canary)) as server:
        with pytest.raises(CallFailedError, match="embed: over_budget: max_calls is 2"):
            embed(server.url, *TEXTS, api_key_env="VECTOR_KEY", max_calls=2)
        assert server.counts() == {"embed": 2}

    def echo(request: StubRequest) -> StubReply:
        return StubReply(status=500, content=f"{request.headers}")

    assert canary not in failure(echo, api_key_env="VECTOR_KEY")


def test_the_model_that_embeds_is_part_of_what_a_run_is() -> None:
    backbones = [chat("http://127.0.0.1:1", embedding_model=name) for name in ("", "v", "w")]
    identities = [backbone.settings() for backbone in backbones]
    assert "embedding_model" not in identities[0]
    assert [each.get("embedding_model") for each in identities] == [None, "v", "w"]
    for backbone in backbones:
        backbone.close()
    with pytest.raises(InvalidValueError, match="embedding_model"):
        chat("http://127.0.0.1:1", embedding_model=" v")


def test_a_run_with_vectors_is_replayed_without_a_network(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with StubServer() as server:
        summary = bench(run, chat(server.url, **MODEL), suite_of("vanilla"))
        assert server.counts()["embed"] > 0
    assert summary["status"] == "complete"
    used = load_strictly((run / "usage.json").read_bytes())
    assert [row["operation"] for row in used["operations"]][-1] == "embed"
    done = voville("replay", run)
    assert done.code == 0, done.out + done.err
    assert "1 of 1 episodes came out byte for byte the same" in " ".join(done.out.split())
    calls = [call for record in of_type(log_of(run, STEM), "llm_call") for call in record["calls"]]
    assert calls and "embed" not in {call["operation"] for call in calls}
