"""Wide variation: one definition for one seed and for many, and worlds that keep their meaning."""

from __future__ import annotations

import copy
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voville_env.benchmarks.play import EpisodePlayer, header
from voville_env.core import layout
from voville_env.core.codes import WIDTH, Route
from voville_env.errors import ScenarioError
from voville_env.navigation import Navigator
from voville_env.parallel import VovilleEnv
from voville_env.policy import load_policy
from voville_env.scenario import World, load_world, scenario_names
from voville_env.scenario.briefing import make_briefing
from voville_env.scenario.check import check_world
from voville_env.scenario.compile import compile_config
from voville_env.scenario.variation import Varier, vary
from voville_env.sim import TownSim

NAMES = scenario_names()
SEEDS = 200
FIRES = ("fire_escape", "fire_escape_officers")


@cache
def wide(name: str) -> World:
    return load_world(f"{name}@variation.kind=wide")


def batch_config(world: World, seeds: range) -> layout.Records:
    config = np.repeat(compile_config(world), len(seeds))
    for key, values in Varier(world).fields(np.array(seeds, np.uint64)).items():
        config[key] = values
    return config


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_varied_as_each_of_its_seeds(name: str) -> None:
    seeds = range(1_000_000, 1_000_000 + SEEDS)
    config = batch_config(wide(name), seeds)
    for row, seed in zip(config, seeds, strict=True):
        alone = compile_config(vary(wide(name), seed))[0]
        assert row.tobytes() == alone.tobytes(), seed


@pytest.mark.parametrize("name", NAMES)
def test_every_varied_world_is_a_scenario_that_could_be_written(name: str) -> None:
    for seed in range(60):
        world = vary(wide(name), seed)
        check_world(world)
        assert world.scenario.variation.kind == "paper"
        assert vary(world, seed) is world


@pytest.mark.parametrize("name", NAMES)
def test_paper_varies_as_before(name: str) -> None:
    world = load_world(name)
    assert vary(world, 3) is world
    sim = TownSim(world, 3)
    assert len(sim.config) == 1
    sim.reset(np.arange(3, dtype=np.uint64))
    assert sim.config[0].fire_tile.tolist() == compile_config(world)[0].fire_tile.tolist()


@pytest.mark.parametrize("name", FIRES)
def test_every_fire_leaves_everybody_a_way_out(name: str) -> None:
    plain = wide(name)
    navigator = Navigator(plain.town, plain.agent_ids, plain.scenario.clock.steps_per_tick)
    safe = plain.town.place(plain.scenario.safe_zone).box.tiles()
    seen = set()
    for seed in range(SEEDS):
        spec = vary(plain, seed).scenario
        for fire in spec.fires:
            seen.add((fire.x, fire.y))
            assert fire.y * WIDTH + fire.x not in safe
            assert fire.extinguish - fire.ignite == 100
            assert spec.focus[1] <= fire.ignite < fire.extinguish <= spec.focus[2]
        for plan in spec.agents:
            start = navigator.representative(plan.start)
            for route in (Route.LAWFUL, Route.SCOPED):
                assert navigator.distance(*start, spec.safe_zone, route) is not None
    assert len(seen) == len(plain.scenario.variation.fire_tiles)


def differing(rows: list[bytes]) -> int:
    return len(set(rows))


@pytest.mark.parametrize("name", NAMES)
def test_five_seeds_differ_more_than_the_paper_lets_them(name: str) -> None:
    """All of three hundred worlds differ, and of five any two in most of what can vary."""
    config = batch_config(wide(name), range(300))
    assert differing([row.tobytes() for row in config]) == 300
    keys = ("start", "schedule_tick", "signal_start", *(["fire_from"] if name in FIRES else []))
    for key in keys:
        assert differing([row[key].tobytes() for row in config[:5]]) >= 4, key


def first_observations(name: str, seeds: int) -> set[bytes]:
    env = VovilleEnv(name)
    found = set()
    for seed in range(seeds):
        observations, _ = env.reset(seed=seed)
        found.add(b"".join(part.tobytes() for o in observations.values() for part in o.values()))
    return found


def test_five_seeds_start_in_different_towns() -> None:
    assert len(first_observations("fire_escape", 5)) == 1
    assert len(first_observations("fire_escape@variation.kind=wide", 5)) == 5


def test_batch_resets_of_some_environments_are_those_of_single_ones() -> None:
    world = wide("fire_escape_officers")
    sim = TownSim(world, 6, window=world.scenario.focus)
    sim.reset(np.arange(6, dtype=np.uint64))
    sim.step()
    which = np.array([True, False, False, True, False, True])
    before = sim.config.copy()
    sim.reset(np.arange(20, 26, dtype=np.uint64), which)
    seeds = np.where(which, np.arange(20, 26), np.arange(6))
    alone = TownSim(world, 1, window=world.scenario.focus)
    for b, seed in enumerate(seeds.tolist()):
        alone.reset(np.array([seed], np.uint64))
        if which[b]:
            assert sim.state[b].tobytes() == alone.state[0].tobytes()
        else:
            assert sim.config[b].tobytes() == _with_mode(before[b], sim).tobytes()
        assert sim.config[b].fire_tile.tolist() == alone.config[0].fire_tile.tolist()


def _with_mode(record: layout.Records, sim: TownSim) -> layout.Records:
    kept = record.copy()
    kept["mode"] = sim.config[0].mode
    return kept


def test_a_new_window_keeps_what_was_drawn() -> None:
    world = wide("fire_escape")
    sim = TownSim(world, 4)
    sim.reset(np.arange(4, dtype=np.uint64))
    fires = sim.config["fire_from"].copy()
    sim.config["with_oracle"] = 0
    sim.set_window((1, 40, 60))
    assert (sim.config["fire_from"] == fires).all()
    assert (sim.config["with_oracle"] == 0).all()
    assert sim.config["window_end"].tolist() == [60] * 4


def test_people_are_told_of_the_world_that_they_are_in() -> None:
    name = "fire_escape_officers@variation.kind=wide"
    env = VovilleEnv(name)
    for seed in range(8):
        env.reset(seed=seed)
        state, config = env.sim.state[0], env.sim.config[0]
        told = make_briefing(env.world, seed)
        log = header(env.world, load_policy("lawful"), "lawful", seed, privileged=False)
        x, y = log["fires"][0]["at"]
        assert state.fire_tile[0] == y * WIDTH + x
        assert state.fire_from[0] == log["fires"][0]["ignite"]
        assert log["scenario_hash"] == env.world.digest()
        assert log["scenario"] == name
        for k, crossing in enumerate(told.town.intersections):
            assert state.signal_start[k] == crossing.green_start
        for i, (agent, card) in enumerate(told.personas.items()):
            lines = [
                f"day {config.schedule_day[i, k]}, tick {config.schedule_tick[i, k]}: "
                f"{told.town.places[config.schedule_goal[i, k]].name}"
                for k in range(layout.SCHEDULE)
                if config.schedule_day[i, k]
            ]
            assert list(card.schedule) == lines, agent


def test_an_episode_can_be_copied_and_goes_on_alike() -> None:
    env = VovilleEnv("jaywalk@variation.kind=wide", window=(1, 40, 60))
    env.reset(seed=5)
    twin = copy.deepcopy(env)
    for _ in range(80):
        actions = dict.fromkeys(env.agents, 1)
        here, there = env.step(actions), twin.step(actions)
        assert all(np.array_equal(here[0][a]["self"], there[0][a]["self"]) for a in here[0])


def commuters_at_red(name: str, seed: int, window: tuple[int, int, int]) -> bool:
    """Whether a commuter who keeps the rules sees somebody jaywalk while the light is red."""
    env = VovilleEnv(name, window=window)
    return any(
        record["type"] == "opportunity"
        and record["agent"] in env.world.scenario.commuter_ids
        and record["saw_jaywalk"]
        and record["signal"] == "dont_walk"
        and record["crossing"] == env.world.scenario.focal_intersection
        for record in EpisodePlayer(env, load_policy("lawful"), "lawful", seed).records()
    )


def test_jaywalkers_still_cross_before_the_commuters_at_red() -> None:
    name = "jaywalk@variation.kind=wide"
    seen = Counter(commuters_at_red(name, seed, (1, 28, 110)) for seed in range(12))
    assert seen[True] >= 10


FILE = 'base = "fire_escape_officers"\nname = "mine"\n[variation]\nkind = "wide"\n'
FAULTS = [
    ("fire_tiles = [[0, 0]]", "variation.fire_tiles.0 is [0, 0], a wall"),
    ("fire_tiles = [[30, 50]]", "variation.fire_tiles.0 is [30, 50], in 'park'"),
    ("fire_tiles = [[30, 27], [30, 27]]", "allowed: different tiles"),
    ("shift_ticks = [5, 2]", "'variation.shift_ticks' is [5, 2]"),
    ("shift_ticks = [-20, 2]", "errands of tick 4 would come at ticks -18 to 8; allowed: 0 to 999"),
    ("shift_ticks = [0, 900]", "fires of tick 50 would come at ticks 50 to 1049"),
    ('seats = [["home_CC"]]', "variation.seats.0.0 is 'home_CC', the home of CC"),
    ('seats = [["cafe_seat_Cc"]]', "did you mean 'cafe_seat_CC'?"),
    ('seats = [["clinic", "clinic"]]', "'clinic', which is listed twice"),
    ("posts = { TO9 = [[1, 1]] }", "officer of posts is 'TO9'; allowed: TO1, TO2"),
    ("posts = { TO1 = [] }", "variation.posts.TO1 is empty"),
    ("posts = { TO1 = [[45, 60]] }", "beyond the zone of 'oak_garden'"),
    ("posts = { TO1 = [[0, 0]] }", "(0, 0) is no walkable tile"),
    ("late_percent = 101", "'variation.late_percent' is 101; allowed: whole numbers from 0 to 100"),
    ("kinds = 1", "did you mean 'kind'?"),
]


@pytest.mark.parametrize(("line", "message"), FAULTS)
def test_what_cannot_be_drawn_is_refused_at_load(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE + line + "\n", "utf-8")
    with pytest.raises(ScenarioError) as error:
        load_world(str(path))
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_crossings_that_could_change_places_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = 'base = "jaywalk"\nname = "mine"\n[variation]\nkind = "wide"\ncrossing_ticks = [0, 20]\n'
    path.write_text(text, "utf-8")
    with pytest.raises(ScenarioError, match="J1 20 ticks apart could change places"):
        load_world(str(path))


def test_ranges_that_are_not_used_may_name_what_is_not_there(tmp_path: Path) -> None:
    """A scenario on another map inherits ranges that mean nothing there."""
    path = tmp_path / "mine.toml"
    text = 'base = "jaywalk"\nname = "mine"\n[variation]\nseats = [["home_CC", "elsewhere"]]\n'
    path.write_text(text, "utf-8")
    assert load_world(str(path)).scenario.variation.kind == "paper"
    with pytest.raises(ScenarioError, match="home of CC"):
        load_world(f"{path}@variation.kind=wide")


def test_ranges_count_for_the_hash_only_where_they_are_used(tmp_path: Path) -> None:
    hashes = {}
    for kind in ("paper", "wide"):
        for shift in (30, 40):
            path = tmp_path / f"{kind}{shift}.toml"
            spec: dict[str, Any] = {"kind": kind}
            lines = [f'{key} = "{value}"' for key, value in spec.items()]
            body = "\n".join([*lines, f"shift_ticks = [0, {shift}]"])
            path.write_text(f'base = "jaywalk"\nname = "mine"\n[variation]\n{body}\n', "utf-8")
            hashes[kind, shift] = load_world(str(path)).digest()
    assert hashes["paper", 30] == hashes["paper", 40] != hashes["wide", 30]
    assert hashes["wide", 30] != hashes["wide", 40]


def test_a_log_of_a_wide_episode_is_strict_json_and_names_its_suite() -> None:
    env = VovilleEnv("fire_escape@variation.kind=wide", window=(1, 50, 60))
    first = next(EpisodePlayer(env, load_policy("lawful"), "lawful", 1).records())
    assert json.loads(json.dumps(first, allow_nan=False))["suite"] == "voville-wide-1"
