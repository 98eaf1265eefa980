"""Memory: the stream, what is retrieved from it, the local embedding, and what PAVE keeps."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import voville_env
from pave_policy.backbone import LegitimacyRequest, LegitimacyScore
from pave_policy.conditions import pave
from pave_policy.memory import Memory, warm_up
from pave_policy.memory.embedding import DIMENSIONS, embed
from pave_policy.memory.retrieval import Weights, retrieve, scale, score
from pave_policy.memory.stream import EntryKind, MemoryStream
from pave_policy.outcome import Outcome
from pave_policy.pave import PavePolicy
from pave_policy.surrogate import Surrogate
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.parallel import VovilleEnv
from voville_env.town.model import Town

TEXTS = ("a fire in the kitchen", "a talk about the weather", "a walk to the library")


def town() -> Town:
    return voville_env.parallel_env("fire_escape").world.town


def stream_of(importance: tuple[int, ...] = (1, 1, 1)) -> MemoryStream:
    stream = MemoryStream()
    for k, text in enumerate(TEXTS):
        entry = stream.add(EntryKind.OBSERVATION, text, now=10 * k, importance=importance[k])
        entry.vector = embed((text,))[0]
    return stream


def found(weights: Weights, importance: tuple[int, ...] = (1, 1, 1), query: str = "") -> list[int]:
    """The numbers of the entries, the highest score first."""
    scores = score(list(stream_of(importance)), embed((query,)), 30, weights)
    return [int(number) for number in np.argsort(-scores, kind="stable")]


def test_each_term_alone_decides_the_order() -> None:
    assert found(Weights(1, 0, 0, 0.9)) == [2, 1, 0]
    assert found(Weights(0, 1, 0, 0.9), importance=(5, 9, 1)) == [1, 0, 2]
    assert found(Weights(0, 0, 1, 0.9), query="the fire in that kitchen")[0] == 0
    assert found(Weights(0, 0, 1, 0.9), query="they talk about bad weather")[0] == 1


def test_the_terms_are_scaled_and_weighted() -> None:
    entries = list(stream_of((2, 4, 10)))
    vectors = np.array([entry.vector for entry in entries], dtype=np.float64)
    likeness = vectors @ vectors[0]
    total = score(entries, embed((TEXTS[0],)), 20, Weights(2, 3, 5, 0.5))
    decays = np.array([0.5**20, 0.5**10, 1.0])
    for k in range(3):
        expected = 2 * (decays[k] - decays[0]) / (1 - decays[0])
        expected += 3 * (entries[k].importance - 2) / 8
        expected += 5 * (likeness[k] - likeness.min()) / (1 - likeness.min())
        assert total[k] == pytest.approx(expected, abs=1e-5)
    assert scale(np.array([4.0, 4.0])).tolist() == [0, 0]


def test_what_is_retrieved_stays_fresh_and_equals_go_by_age() -> None:
    stream, x = stream_of((9, 1, 9)), embed(("x",))
    important = Weights(0, 1, 0, 0.9)
    assert [entry.number for entry in retrieve(list(stream), x, 30, important, 1)] == [2]
    assert [entry.number for entry in retrieve(list(stream), x, 30, important, 3)] == [2, 0]
    assert [entry.accessed for entry in stream] == [30, 10, 30]
    assert [entry.created for entry in stream] == [0, 10, 20]
    fresh = retrieve(list(stream), x, 40, Weights(1, 0, 0, 0.9), 3)
    assert [entry.number for entry in fresh] == [2, 0]
    assert retrieve([], x, 40, important, 3) == []


def test_only_what_stands_out_comes_to_mind() -> None:
    stream, x = stream_of(), embed(("x",))
    assert retrieve(list(stream), x, 30, Weights(0, 0, 0, 0.9), 3) == []
    assert retrieve(list(stream), x, 30, Weights(0, 0, 1, 0.9), 3) == []
    assert {
        entry.accessed for entry in retrieve(list(stream), x, 30, Weights(1, 0, 0, 0.9), 3)
    } == {30}
    assert [entry.accessed for entry in stream] == [0, 10, 30]


def test_words_of_any_sentence_and_bare_numbers_make_nothing_alike() -> None:
    road, fire, other = embed(
        (
            "There is a crosswalk of pine_garden at (4, 42).",
            "There is a fire 4 tiles away.",
            "People nearby are talking.",
        )
    )
    assert road @ fire == other @ fire == other @ road == 0
    asked = embed(("Where can one cross near the garden?",))[0]
    assert asked @ road > 0.3 and asked @ fire == asked @ other == 0
    assert embed(("the of at",))[0] @ embed(("the of at",))[0] == pytest.approx(1)


def test_several_queries_are_answered_by_the_likest() -> None:
    entries = list(stream_of())
    both = embed(("a fire", "the library"))
    numbers = [entry.number for entry in retrieve(entries, both, 30, Weights(0, 0, 1, 1), 2)]
    assert set(numbers) == {0, 2}


def test_embeddings_have_length_one_and_liken_shared_words() -> None:
    vectors = embed((*TEXTS, "", "…", "fires in a kitchen", "日本 é"))
    assert vectors.shape == (7, DIMENSIONS) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(7), abs=1e-6)
    assert vectors[0] @ vectors[5] > max(vectors[1] @ vectors[5], vectors[2] @ vectors[5])
    assert embed(("A FIRE in the kitchen",))[0] @ vectors[0] == pytest.approx(1, abs=1e-6)
    assert embed(()).shape == (0, DIMENSIONS)


def test_a_caller_cannot_spoil_an_embedding() -> None:
    first = embed(TEXTS)
    first[:] = 0
    assert embed(TEXTS).any()


def test_embeddings_are_the_same_in_every_process() -> None:
    code = (
        "import hashlib; from pave_policy.memory.embedding import embed; "
        f"print(hashlib.sha256(embed({TEXTS!r}).tobytes()).hexdigest())"
    )
    here = hashlib.sha256(embed(TEXTS).tobytes()).hexdigest()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == here


def test_the_walk_beforehand_leaves_the_roads_in_memory() -> None:
    texts = warm_up(town())
    for crossing in town().intersections:
        assert any(f"intersection {crossing.name}." in text for text in texts)
        assert sum(f"crosswalk of {crossing.name} " in text for text in texts) == len(
            crossing.crosswalks
        )
    one_way = [street for street in town().streets if street.direction is not None]
    assert sum("one-way" in text for text in texts) == len(one_way) > 0
    memory = Memory(texts)
    assert memory.roads == texts
    assert [entry.kind for entry in memory.stream] == [EntryKind.ROAD] * len(texts)


def test_reasons_and_outcomes_go_into_the_stream() -> None:
    memory = Memory(("a road",))
    for k in range(5):
        memory.now = k
        memory.keep_reason("here", f"reason {k}")
    memory.keep_reason("there", "another")
    memory.outcomes.append("it went well")
    assert memory.reasons("here") == ("reason 2", "reason 3", "reason 4")
    assert memory.reasons("there") == ("another",) and memory.reasons("nowhere") == ()
    assert len(memory.outcomes) == 1 and memory.outcomes[0] == "it went well"
    reasons = memory.stream.of(EntryKind.JUSTIFICATION)
    assert [entry.text for entry in reasons] == [*(f"reason {k}" for k in range(5)), "another"]
    assert [entry.created for entry in reasons] == [0, 1, 2, 3, 4, 4]
    assert [entry.number for entry in memory.stream] == list(range(8))


class Witness(Surrogate):
    """Keeps what the legitimacy operation was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[LegitimacyRequest] = []

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        self.shown.append(request)
        return await super().assess_legitimacy(request)


@cache
def two_days() -> tuple[PavePolicy, Witness, dict[int, set[str]]]:
    """A PAVE run over a night, and the texts that were in its log by day."""
    witness = Witness()
    policy = pave(witness)
    env = VovilleEnv("jaywalk")
    told: dict[int, set[str]] = {1: set(), 2: set()}
    for record in EpisodePlayer(env, policy, "pave", 1).records():
        if record["type"] == "memory":
            told[record["day"]].add(record["text"])
    return policy, witness, told


def test_pave_forgets_nothing_over_night() -> None:
    policy, _, told = two_days()
    kept = {entry.text for mind in policy.people.values() for entry in mind.memory.stream}
    day_one = told[1] - set(warm_up(town()))
    assert day_one and told[2]
    assert kept >= told[1] | told[2]
    both = [mind.memory for mind in policy.people.values() if len(mind.memory.outcomes) > 1]
    assert both
    for memory in both:
        assert memory.roads == warm_up(town())
        assert len(memory.outcomes) == len(memory.stream.of(EntryKind.OUTCOME))


def test_no_memory_reaches_the_legitimacy_request() -> None:
    policy, witness, _ = two_days()
    assert witness.shown
    texts = {entry.text for mind in policy.people.values() for entry in mind.memory.stream}
    for request in set(map(repr, witness.shown)):
        assert not any(text in request for text in texts)
