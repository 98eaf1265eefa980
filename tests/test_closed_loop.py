"""Walkthrough D.1 lived through on the map, and cases that the calibration never saw."""

from __future__ import annotations

from typing import Any

import pytest

from voville_env.benchmarks.play import EpisodePlayer
from voville_env.events import Event
from voville_env.parallel import VovilleEnv
from voville_env.policy import load_policy
from voville_env.scenario import World, load_world

RELEVANT = {"RED_LIGHT", "ONE_WAY", "CROSSWALK_ONLY"}
STRIDE = 4
# Distance from the fire up to which D.1's legitimacy reaches each threshold (interpolated).
GATE_CLOSES = {"CC": 12.3, "EY": 15.3, "OH": 13.5, "NR": 12.9, "KQ": 14.7, "MF": 11.4, "AY": 9.8}


def changed(**changes: Any) -> World:
    world = load_world("fire_escape")
    spec = world.scenario.model_copy(update=changes)
    return World(spec, world.town, world.personas, world.rules, "a changed fire_escape")


def fire(**changes: int) -> list[Any]:
    return [load_world("fire_escape").scenario.fires[0].model_copy(update=changes)]


def live(world: World | str, seed: int = 0) -> list[Event]:
    env = VovilleEnv(world, window=(1, 40, 160))
    return list(EpisodePlayer(env, load_policy("pave"), "pave", seed).records())


def of(log: list[Event], kind: str, agent: str = "CC") -> list[Event]:
    return [record for record in log if record["type"] == kind and record.get("agent") == agent]


def verdicts(log: list[Event], agent: str = "CC") -> dict[int, Event]:
    """Verdicts on the trigger-relevant rules by tick."""
    return {
        record["tick"]: record
        for record in of(log, "verdict", agent)
        if set(record["rules"]) <= RELEVANT
    }


def distances(log: list[Event], agent: str = "CC") -> dict[int, int | None]:
    return {record["tick"]: record["dist_fire"] for record in of(log, "agent_state", agent)}


def violated(log: list[Event], agent: str = "CC") -> dict[int, set[str]]:
    return {
        record["tick"]: set(record["violated"]) & RELEVANT
        for record in of(log, "rule_event", agent)
        if set(record["violated"]) & RELEVANT
    }


def test_d1_on_the_map() -> None:
    log = live("fire_escape")
    said, away = verdicts(log), distances(log)
    assert away[50] == 4 and said[50]["decision"] == "violate"
    for tick, verdict in said.items():
        distance = away.get(tick)
        if distance is not None:
            expected = "violate" if distance <= GATE_CLOSES["CC"] else "comply"
            assert verdict["decision"] == expected, (tick, distance)
    broken = violated(log)
    assert set().union(*broken.values()) == RELEVANT
    assert min(broken) >= 51
    last = max(broken)
    assert 2 <= last - 50 <= 8
    assert any(record["safe"] for record in of(log, "arrival"))


def test_d1_recovers_once_and_for_all() -> None:
    log = live("fire_escape")
    away, last = distances(log), max(violated(log))
    assert all(
        verdict["decision"] == "comply" for tick, verdict in verdicts(log).items() if tick > last
    )
    assert (away[last] or 0) <= GATE_CLOSES["CC"]


@pytest.mark.parametrize("agent", sorted(GATE_CLOSES))
def test_each_threshold_closes_the_gate_at_its_own_distance(agent: str) -> None:
    """Beyond their own distance nobody violates, but for the few steps that leave the road."""
    for seed in (0, 3):
        log = live("fire_escape", seed)
        away, said = distances(log, agent), verdicts(log, agent)
        beyond = [
            tick for tick in violated(log, agent) if (away.get(tick) or 0) > GATE_CLOSES[agent]
        ]
        assert len(beyond) <= 2
        assert all(said[tick]["decision"] == "comply" for tick in beyond)
        assert len(violated(log, agent)) > len(beyond)


def test_a_weaker_fire_elsewhere_follows_the_same_law() -> None:
    log = live(changed(fires=fire(x=33, y=23, severity=80)))
    said, away = verdicts(log), distances(log)
    decided = {
        away[tick]: verdict["decision"]
        for tick, verdict in said.items()
        if away.get(tick) is not None
    }
    assert any(decision == "violate" for decision in decided.values())
    for distance, decision in decided.items():
        assert distance is not None
        assert decision == ("violate" if distance <= GATE_CLOSES["CC"] else "comply"), decided


def test_on_green_nobody_breaks_the_red_light_rule_at_the_cafe() -> None:
    log = live(changed(fires=fire(ignite=61, extinguish=150)))
    crossing = {
        record["tick"]: record["signal"]
        for record in of(log, "opportunity")
        if record["crossing"] == "cafe_crossing"
    }
    assert crossing
    for tick, rules in violated(log).items():
        if tick in crossing and crossing[tick] == "walk":
            assert "RED_LIGHT" not in rules
    assert violated(log)


def test_a_fire_that_is_out_is_no_reason() -> None:
    log = live(changed(fires=fire(ignite=50, extinguish=54)))
    broken = {agent: violated(log, agent) for agent in GATE_CLOSES}
    assert any(broken.values())
    assert all(tick < 54 for ticks in broken.values() for tick in ticks)


def test_perception_can_be_late() -> None:
    world = load_world("fire_escape")
    late = world.scenario.perception.model_copy(update={"perception_delay": 2})
    log = live(changed(perception=late))
    assert min(verdicts(log)) == 52


def test_a_fire_out_of_reach_moves_nobody() -> None:
    log = live(changed(fires=fire(x=58, y=50)))
    assert not any(violated(log, agent) for agent in GATE_CLOSES)


def test_far_away_nobody_learns_of_it() -> None:
    log = live("fire_escape")
    for agent in ("TP", "LC"):
        assert not any(record.get("escaping") for record in of(log, "goal_change", agent))
