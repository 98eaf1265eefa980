"""What a language model was asked in an episode, and what came of it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_builder import LogBuilder

from pave_policy.backbone import Backbone
from pave_policy.generative.requests import GenerativeBackbone
from pave_policy.outcome import Failure
from voville_env.events import LogError
from voville_env.metrics import BY_KEY, METRICS, load_episode, metrics_of
from voville_env.metrics.calls import add_up, by_operation, sum_of
from voville_env.metrics.episode import Answer, Fallback, Operation
from voville_env.metrics.values import Unit


def operations(log: LogBuilder) -> dict[str, dict[str, Any]]:
    found = by_operation(load_episode(log.records()))
    assert found is not None
    return found


def value(log: LogBuilder, key: str) -> float | None:
    return BY_KEY[key].function(load_episode(log.records()), Unit.CALL).value


def test_the_names_are_those_that_the_policy_writes() -> None:
    from pave_policy.llm.operations import FALLBACKS

    unusable = {failure.value for failure in Failure if not failure.is_infrastructure}
    assert {"valid", *unusable} == set(Answer)
    asked = {name for kind in (Backbone, GenerativeBackbone) for name in vars(kind)} & set(
        Operation
    )
    assert asked == set(FALLBACKS) == set(Operation)
    assert set(FALLBACKS.values()) == set(Fallback)


def a_few_calls() -> LogBuilder:
    log = LogBuilder()
    log.call("generate_verdict", "truncated", keys=["k1", "k2"], prompt_tokens=200)
    log.call("generate_verdict", "valid", keys=["k3", "k4"])
    log.call("generate_verdict", "refused")
    log.call("assess_risk", "filtered")
    log.call("propagate_outcome", "malformed", fallback="template", prompt_tokens=None)
    log.call("propagate_outcome", "valid", prompt_tokens=None, completion_tokens=7)
    log.call("elicit_threshold", "malformed", fallback="table", rule_set=None)
    return log


def test_calls_are_counted_by_operation_in_the_order_of_a_decision() -> None:
    found = operations(a_few_calls())
    assert list(found) == [
        *("elicit_threshold", "assess_risk", "generate_verdict", "propagate_outcome"),
    ]
    assert found["generate_verdict"] == {
        "asked": 3,
        "valid": 1,
        "malformed": 0,
        "truncated": 1,
        "refused": 1,
        "filtered": 0,
        "retried": 2,
        "fallbacks": {"comply": 2},
        "prompt_tokens": 400,
        "completion_tokens": 30,
    }
    noted = found["propagate_outcome"]
    assert noted["fallbacks"] == {"template": 1}
    assert noted["prompt_tokens"] is None, "not counted is not 0"
    assert noted["completion_tokens"] == 17


def test_shares_are_of_all_calls() -> None:
    log = a_few_calls()
    assert value(log, "calls") == 7
    assert value(log, "calls_valid") == value(log, "calls_malformed") == pytest.approx(2 / 7)
    assert value(log, "calls_truncated") == pytest.approx(1 / 7)
    assert value(log, "calls_refused") == pytest.approx(2 / 7), "filtered is refused"
    assert value(log, "calls_asked_again") == pytest.approx(2 / 7)
    assert value(log, "calls_tokens") == pytest.approx((210 + 4 * 110) / 5)


def test_without_calls_there_is_nothing_to_count(tmp_path: Path) -> None:
    log = LogBuilder()
    log.verdict("CC", 60, "RED_LIGHT", "comply")
    assert metrics_of(log.save(tmp_path / "log.jsonl"))["calls"] is None
    for metric in METRICS:
        if metric.units == (Unit.CALL,):
            assert value(log, metric.key) is None, metric.key
    log.call(prompt_tokens=None)
    assert value(log, "calls_tokens") is None and value(log, "calls") == 1


def test_calls_stand_beside_the_metrics_of_an_episode(tmp_path: Path) -> None:
    log = a_few_calls()
    log.add("threshold", "CC", 0, value=60, reason=None, fallback="malformed")
    found = metrics_of(log.save(tmp_path / "log.jsonl"))
    assert found["calls"] == operations(log)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"operation": "assess_mood"}, "'assess_mood' is not a valid Operation"),
        ({"outcome": "timeout"}, "'timeout' is not a valid Answer"),
        ({"outcome": None}, "None is not a valid Answer"),
        ({"fallback": "guess"}, "'guess' is not a valid Fallback"),
        ({"prompt_tokens": -1}, "-1 tokens"),
        ({"completion_tokens": "7"}, "llm_call"),
        ({"keys": None}, "llm_call"),
    ],
)
def test_a_record_that_cannot_be_counted_is_refused(fields: dict[str, Any], words: str) -> None:
    log = LogBuilder()
    log.call(**fields)
    with pytest.raises(LogError, match=words):
        load_episode(log.records())


def test_a_record_that_lacks_its_outcome_is_refused() -> None:
    log = LogBuilder()
    log.call()
    del log.body[-1]["calls"][0]["outcome"]
    with pytest.raises(LogError, match="day 1, tick 60: llm_call lacks or spoils 'outcome'"):
        load_episode(log.records())


TOKENS = st.one_of(st.none(), st.integers(0, 9))
CALL = st.fixed_dictionaries(
    {
        "operation": st.sampled_from(Operation),
        "outcome": st.sampled_from(Answer),
        "fallback": st.one_of(st.none(), st.sampled_from(Fallback)),
        "keys": st.lists(st.just("k"), min_size=1, max_size=2),
        "prompt_tokens": TOKENS,
        "completion_tokens": TOKENS,
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(CALL, min_size=1, max_size=30), st.randoms())
def test_asked_is_the_sum_of_what_came_back(calls: Any, order: random.Random) -> None:
    log, shuffled = LogBuilder(), LogBuilder()
    for call in calls:
        log.call(**call)
    shuffled.body = order.sample(log.body, len(log.body))
    found = operations(log)
    assert found == operations(shuffled)
    for counts in found.values():
        assert counts["asked"] == sum(counts[answer] for answer in Answer) > 0
        assert sum(counts["fallbacks"].values()) <= counts["asked"] >= counts["retried"]
    assert sum_of(list(found.values()))["asked"] == len(calls)
    shares = [value(log, f"calls_{name}") for name in ("valid", "malformed", "truncated")]
    refused = value(log, "calls_refused")
    assert refused is not None
    assert sum(share or 0 for share in shares) + refused == pytest.approx(1)
    half = len(calls) // 2
    parts = []
    for body in (log.body[:half], log.body[half:]):
        part = LogBuilder()
        part.body = body
        parts.append(by_operation(load_episode(part.records())) or {})
    assert add_up(parts) == found, "an episode's calls are the sum of its parts"
