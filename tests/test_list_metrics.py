"""Action lists are counted: those that cannot be used, and those that go beyond their verdict."""

from __future__ import annotations

import pytest
from log_builder import LogBuilder
from test_executor_text import Says, Silent, of_type, played

from voville_env.metrics import BY_KEY, load_episode
from voville_env.metrics.values import MetricValue, Unit

RED = "RED_LIGHT"
ACROSS = (("Cross against the red light", 60), ("Cross against the red light", 60))
JAYWALK = ("jaywalk", (1, 28, 58))


def value(log: LogBuilder, key: str) -> MetricValue:
    return BY_KEY[key].function(load_episode(log.records()), Unit.VERDICT)


def test_lists_beyond_the_verdict_are_a_share_of_those_carried_out() -> None:
    log = LogBuilder()
    assert value(log, "list_beyond").reason == "no policy records"
    log.verdict("CC", 50, RED, "comply")
    assert value(log, "list_beyond").reason == "no action list is carried out"
    log.verdict("CC", 51, RED, "comply", plan_beyond=[RED])
    log.verdict("CC", 52, RED, "violate", plan_beyond=[])
    assert value(log, "list_beyond").value == 0.5


def test_lists_that_could_not_be_used_are_a_share_of_fresh_verdicts() -> None:
    log = LogBuilder()
    assert value(log, "list_fallback").value is None
    for tick, fallback in enumerate((None, "malformed", "unreadable", None), start=50):
        log.verdict("CC", tick, RED, "comply", plan_fallback=fallback)
    log.verdict("CC", 60, RED, "comply", reused=True)
    assert value(log, "list_fallback").value == 0.5


@pytest.mark.parametrize(("model", "share"), [(Silent(), 1), (Says(*ACROSS), 0)])
def test_a_model_without_lists_is_told_from_one_with_them(model: Says, share: float) -> None:
    episode = load_episode(played(model, JAYWALK))
    assert BY_KEY["list_fallback"].function(episode, Unit.VERDICT).value == share


def test_a_list_that_runs_on_is_told_with_the_verdict_that_is_reused() -> None:
    records = played(Says(*ACROSS), JAYWALK)
    reused = [record for record in of_type(records, "verdict") if record["reused"]]
    assert reused and any(record["plan_beyond"] == [RED] for record in reused)
    beyond = BY_KEY["list_beyond"].function(load_episode(records), Unit.VERDICT)
    assert beyond.value is not None and beyond.value > 0.5, "counted although the gate stops it"
