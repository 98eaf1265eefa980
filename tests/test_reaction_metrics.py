"""Fallback reactions of a generative agent never make it look lawful."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from log_builder import LogBuilder

from pave_policy.generative.policy import VanillaPolicy
from pave_policy.generative.requests import Reaction, ReactionRequest
from pave_policy.outcome import Failure, Outcome
from pave_policy.surrogate import Surrogate
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.metrics import BY_KEY, load_episode, measure
from voville_env.metrics.values import MetricValue
from voville_env.parallel import VovilleEnv

RED = "RED_LIGHT"


def react(
    log: LogBuilder,
    tick: int,
    *,
    usable: bool,
    agent: str = "CC",
    day: int = 1,
    events: Sequence[str] = ("fire",),
) -> None:
    fallback = None if usable else "malformed"
    said: dict[str, Any] = {
        "response": "continue",
        "reason": "",
        "events": list(events),
        "fallback": fallback,
    }
    log.add("reaction", agent, tick, day, **said)


def value(log: LogBuilder, key: str) -> MetricValue:
    metric = BY_KEY[key]
    return metric.function(load_episode(log.records()), metric.units[0])


def bounded(log: LogBuilder, key: str) -> tuple[Any, Any, Any]:
    found = value(log, f"{key}_without_fallbacks")
    return found.value, found.extra["least"], found.extra["most"]


@pytest.mark.parametrize(
    ("reactions", "expected"),
    [
        ([(50, True)], (0.5, 0.5, 0.5)),
        ([(50, True), (61, False)], (1, 0.5, 1)),
        ([(50, False), (61, True)], (0, 0, 0.5)),
        ([(50, False)], (None, 0, 1)),
        ([(62, False)], (0.5, 0.5, 0.5)),
    ],
)
def test_a_fallback_reaction_decides_until_the_next_one(
    reactions: Sequence[tuple[int, bool]], expected: tuple[float | None, float, float]
) -> None:
    log = LogBuilder()
    log.row("CC", 60, RED, RED)
    log.row("CC", 61, RED)
    for tick, usable in reactions:
        react(log, tick, usable=usable)
    assert bounded(log, "vr_cafe") == expected


def test_it_decides_for_nobody_else_and_stays_over_night() -> None:
    log = LogBuilder("CC EY")
    log.row("CC", 60, RED, RED)
    log.row("EY", 60, RED)
    react(log, 60, usable=True)
    react(log, 60, usable=False, agent="EY")
    assert bounded(log, "vr_cafe") == (1, 0.5, 1)
    log.row("CC", 120, RED, day=2)
    react(log, 900, usable=False)
    assert bounded(log, "day2_rate") == (None, 0, 1)


@pytest.mark.parametrize(("tick", "decides"), [(62, True), (63, False)])
def test_it_decides_an_order_in_whose_ticks_it_held(tick: int, decides: bool) -> None:
    log = LogBuilder(officers=["TO1"])
    log.order("CC", 60, complied=True)
    react(log, 50, usable=True)
    react(log, tick, usable=False)
    assert bounded(log, "ocr") == ((None, 0, 1) if decides else (1, 1, 1))


def test_the_share_is_of_reactions_where_there_are_no_verdicts() -> None:
    log = LogBuilder()
    assert value(log, "fallback_share").value is None
    for tick, usable in ((50, True), (60, False), (61, False), (62, False)):
        react(log, tick, usable=usable)
    react(log, 70, usable=True, events=())
    found = value(log, "fallback_share")
    assert (found.value, found.numerator, found.denominator) == (0.75, 3, 4), "nothing was asked"


def test_a_rating_that_a_fallback_stands_in_for_is_no_importance() -> None:
    log = LogBuilder()
    for score, fallback in ((4, None), (1, "malformed")):
        rated: dict[str, Any] = {
            "score": score,
            "rescaled": 10 * score,
            "severity": 80,
            "fallback": fallback,
        }
        log.add("importance", "CC", 60, description="A fire.", event_id="fire", **rated)
    assert value(log, "importance_gap").value == 40
    log.body.pop(0)
    assert value(log, "importance_gap").reason == "only fallbacks"


class Mumbler(Surrogate):
    """A model that gives no usable reaction."""

    async def react(self, request: ReactionRequest) -> Outcome[Reaction]:
        return Outcome(failure=Failure.MALFORMED)


def test_a_model_that_reacts_with_rubbish_does_not_look_virtuous() -> None:
    player = EpisodePlayer(
        VovilleEnv("fire_escape_officers", days=1), VanillaPolicy(Mumbler()), "vanilla", 0
    )
    found: Any = measure(load_episode(player.records()))
    assert found["fallback_share"]["verdict"]["value"] == 1
    for key in ("urv", "vr_cafe_exposed"):
        assert found[key]["tick"]["value"] == 0, "everybody goes on with the plan, in the fire"
        beside = found[f"{key}_without_fallbacks"]["tick"]
        assert beside["value"] is None and beside["reason"] == "only fallbacks"
        assert (beside["extra"]["least"], beside["extra"]["most"]) == (0, 1)


def test_who_is_kept_by_the_fire_by_a_fallback_is_not_counted_as_staying() -> None:
    log = LogBuilder("CC EY OH")
    for agent in ("CC", "EY", "OH"):
        log.state(agent, 50, dist_fire=5)
        react(log, 40, usable=agent != "EY", agent=agent)
    log.row("CC", 60, RED, RED)
    assert value(log, "vr_cafe_exposed").value == pytest.approx(1 / 3)
    assert bounded(log, "vr_cafe_exposed") == pytest.approx((1 / 2, 1 / 3, 2 / 3)), "OH stayed"
