"""Switches of the world: each changes what it says, and its default spelt out changes nothing."""

from __future__ import annotations

import hashlib
import json
import tomllib
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from voville_env.benchmarks.play import EpisodePlayer
from voville_env.core import layout
from voville_env.core.codes import WIDTH, Action, CueType, Instruction, RewardTerm
from voville_env.errors import ScenarioError
from voville_env.events import Event
from voville_env.metrics import load_episode, measure
from voville_env.observation import to_context
from voville_env.parallel import VovilleEnv
from voville_env.policy import Actions, BasePolicy, Infos, Observations
from voville_env.scenario import Scenario, World, data_path, load_world
from voville_env.scenario.compile import severity_lost
from voville_env.scenario.load import read_scenario, validate
from voville_env.scenario.schema import Authority, Clock, Jitter, Oracle, Perception, Rewards

XY = tuple[int, int]
FIRE = (32, 29)
PARTS: dict[str, type[BaseModel]] = {
    "perception": Perception,
    "authority": Authority,
    "jitter": Jitter,
    "oracle": Oracle,
    "rewards": Rewards,
    "clock": Clock,
}


def changed(data: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key; in a list, of every entry."""
    head, _, rest = key.partition(".")
    if not rest:
        data[head] = value
        return
    below = data.setdefault(head, {})
    for part in below if isinstance(below, list) else [below]:
        changed(part, rest, value)


@cache
def variant(name: str, toml: str = "") -> World:
    """A shipped scenario with other values for some dotted keys."""
    data = read_scenario(data_path(f"{name}.toml"))
    for line in toml.splitlines():
        key, _, value = line.partition(" = ")
        changed(data, key, tomllib.loads(f"value = {value}")["value"])
    return load_world(validate(Scenario, data, "variant"))


class Stage:
    """A town in which people are put where a test needs them; who is not told otherwise waits."""

    def __init__(self, world: World, window: tuple[int, int, int], seed: int = 0) -> None:
        self.env = VovilleEnv(world, window=window)
        self.seen, _ = self.env.reset(seed=seed)

    @property
    def state(self) -> Any:
        return self.env.sim.state[0]

    def put(self, name: str, place: XY) -> None:
        person = self.state.agents[self.env.possible_agents.index(name)]
        person.tile = person.from_tile = person.intent = place[1] * WIDTH + place[0]

    def tick(self, **actions: int) -> None:
        """Plays to the start of the next tick; actions are for its first step."""
        before = int(self.state.tick)
        chosen = dict.fromkeys(self.env.agents, 0)
        self.seen, *_ = self.env.step(chosen | actions)
        while self.env.agents and int(self.state.tick) == before:
            self.seen, *_ = self.env.step(chosen)

    def until(self, tick: int) -> None:
        while int(self.state.tick) < tick:
            self.tick()

    def context(self, name: str) -> Any:
        return to_context(self.seen[name])

    def cues(self, name: str, kind: CueType) -> list[int]:
        """Severities of the cues of a kind."""
        return [cue.severity for cue in self.context(name).situational_cues if cue.type is kind]

    def moved(self, name: str, place: XY) -> Any:
        """What somebody perceives at the next tick who is put somewhere now."""
        self.put(name, place)
        self.tick()
        return self.context(name)


# --- every key of the schema that is a switch has an effect, and none at its default


class Walker(BasePolicy):
    """Everybody takes the way that waives the traffic rules, and notes all they perceive.

    They stand still in every fourth tick.
    """

    name = "walker"

    def __init__(self) -> None:
        self.noted = hashlib.sha256()

    def act(self, observations: Observations, infos: Infos) -> Actions:
        chosen = {}
        for agent, seen in observations.items():
            for key in sorted(seen):
                self.noted.update(seen[key].tobytes())
            rests = seen["self"][3] % 4 == 3
            chosen[agent] = 0 if rests else int(seen["routes"][4 if seen["self"][11] else 1, 1])
        return chosen


@cache
def trace(name: str, toml: str, window: tuple[int, int, int]) -> str:
    """All that is perceived and logged in a part of a run, without what only names it."""
    policy = Walker()
    player = EpisodePlayer(VovilleEnv(variant(name, toml), window=window), policy, "walker", seed=2)
    records = list(player.records())
    records[0] = {"type": "run_start"}
    return policy.noted.hexdigest() + json.dumps(records)


FIRES = ("fire_escape", "", (1, 46, 70))
DOUBTFUL = ("fire_escape", "oracle.extra_ticks = 5.0\noracle.extra_harm = 5.0", (1, 46, 70))
GUARDED = ("fire_escape_officers", "", (1, 46, 80))
LATE = ("jaywalk", "", (1, 28, 50))
WATCHED = ("jaywalk", "", (2, 104, 124))
SWITCHES = [
    (GUARDED, "perception.cue_radius", "5"),
    (FIRES, "perception.hazard_radius", "12"),
    (GUARDED, "perception.authority_radius", "6"),
    (GUARDED, "perception.instruction_radius", "4"),
    (FIRES, "perception.peer_radius", "2"),
    (FIRES, "perception.peer_memory", "1"),
    (FIRES, "perception.perception_delay", "2"),
    (FIRES, "perception.severity_model", '"walkthrough"'),
    (FIRES, "perception.severity_decay", "4"),
    (LATE, "perception.late_severity", "30"),
    (FIRES, "perception.conversation_severity", "20"),
    (GUARDED, "authority.sanction_radius", "12"),
    (GUARDED, "authority.supervised_radius", "3"),
    (GUARDED, "authority.response_ticks", "1"),
    (GUARDED, "jitter.officer_tiles", "0"),
    (LATE, "jitter.confederate_ticks", "0"),
    (FIRES, "oracle.high_severity", "90"),
    (FIRES, "oracle.extra_ticks", "50.0"),
    (FIRES, "oracle.extra_harm", "50.0"),
    (DOUBTFUL, "oracle.band", "0.5"),
    (FIRES, "oracle.horizon_steps", "4"),
    (FIRES, "rewards.progress", "0.5"),
    (FIRES, "rewards.arrival", "2.0"),
    (FIRES, "rewards.harm", "-1.0"),
    (GUARDED, "rewards.sanction", "-2.0"),
    (FIRES, "rewards.time", "-0.1"),
    (FIRES, "clock.steps_per_tick", "1"),
    (LATE, "confederate_pace", "4"),
    (LATE, "confederate_count", "1"),
    (GUARDED, "officers.reactive", "true"),
    (GUARDED, "officers.script", '[{ kind = "hold", ticks = 200 }]'),
    (FIRES, "fires.severity", "60"),
    (WATCHED, "officers.end", "110"),
]


@pytest.mark.parametrize(("scene", "key", "value"), SWITCHES, ids=[key for _, key, _ in SWITCHES])
def test_every_switch_has_an_effect(
    scene: tuple[str, str, tuple[int, int, int]], key: str, value: str
) -> None:
    name, text, window = scene
    assert trace(name, f"{text}\n{key} = {value}".strip(), window) != trace(name, text, window)


def test_no_key_is_left_out() -> None:
    """Days and their length decide what is played, not what happens in it."""
    keys = {f"{part}.{key}" for part, model in PARTS.items() for key in model.model_fields}
    tried = {key for _, key, _ in SWITCHES}
    assert keys - tried == {"clock.days", "clock.ticks_per_day"}


@pytest.mark.parametrize("part", PARTS)
def test_spelling_out_the_defaults_changes_nothing(part: str) -> None:
    text = "\n".join(
        f"{part}.{key} = {json.dumps(value)}" for key, value in PARTS[part]().model_dump().items()
    )
    assert text and variant("fire_escape", text).digest() == load_world("fire_escape").digest()


# --- severity (C-26) and how far a fire is felt (C-13)


def test_the_walkthrough_curve_passes_through_the_printed_cues_and_ends_at_18_tiles() -> None:
    lost = severity_lost(Perception(severity_model="walkthrough"))
    felt = [95 - loss for loss in lost]
    printed = {0: 95, 2: 95, 3: 92, 4: 85, 8: 80, 12: 65, 15: 45, 18: 30}
    assert {tiles: felt[tiles] for tiles in printed} == printed
    assert felt[6] == 82 and felt[10] == 72  # half way, to the nearest whole number
    assert felt[:19] == sorted(felt[:19], reverse=True)
    assert set(lost[19:]) == {100} and len(lost) == 127
    assert severity_lost(Perception())[:20] == [5 * tiles for tiles in range(20)]
    assert severity_lost(Perception(severity_decay=0)) == [0] * 127


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {4: 75, 12: 35, 18: 5, 19: None}),
        ('perception.severity_model = "walkthrough"', {4: 85, 12: 65, 18: 30, 19: None}),
        ("perception.severity_decay = 4", {4: 79, 12: 47, 18: 23, 23: 3}),
        ("perception.hazard_radius = 12", {4: 75, 12: 35, 13: None, 18: None}),
        ("perception.hazard_radius = 100", {18: 5, 19: None}),
    ],
)
def test_the_cue_of_a_fire(text: str, expected: dict[int, int | None]) -> None:
    stage = Stage(variant("fire_escape", text), (1, 50, 60))
    for tiles, severity in expected.items():
        stage.moved("TP", (FIRE[0] + tiles, FIRE[1]))
        assert stage.cues("TP", CueType.FIRE) == ([] if severity is None else [severity]), tiles


def test_a_cut_perception_does_not_cut_the_fire() -> None:
    harms = []
    for text in ("", "perception.hazard_radius = 2", 'perception.severity_model = "walkthrough"'):
        stage = Stage(variant("fire_escape", text), (1, 50, 60))
        stage.put("TP", (FIRE[0] + 4, FIRE[1]))
        _, _, _, _, infos = stage.env.step(dict.fromkeys(stage.env.agents, 0))
        harms.append(round(4 * float(infos["TP"]["reward_terms"][RewardTerm.HARM]), 6))
    assert harms == [0.75, 0.75, 0.85]


def test_a_decay_without_a_model_that_uses_it_is_refused() -> None:
    both = 'perception.severity_model = "walkthrough"\nperception.severity_decay = 4'
    with pytest.raises(ScenarioError, match=r"severity_decay is 4, which severity_model 'walkthr"):
        variant("fire_escape", both)
    with pytest.raises(ScenarioError, match="allowed: linear, walkthrough"):
        variant("fire_escape", 'perception.severity_model = "quadratic"')


@pytest.mark.parametrize(("delay", "first"), [(0, 50), (2, 52)])
def test_the_cue_comes_after_the_delay(delay: int, first: int) -> None:
    world = variant("fire_escape", f"perception.perception_delay = {delay}")
    stage = Stage(world, (1, 48, 60))
    while not stage.cues("CC", CueType.FIRE):
        stage.tick()
    assert int(stage.state.tick) == first


# --- the other radii (C-13, C-14, C-73)


@pytest.mark.parametrize("radius", [20, 12, 5])
def test_a_signal_is_seen_within_the_cue_radius(radius: int) -> None:
    stage = Stage(variant("fire_escape", f"perception.cue_radius = {radius}"), (1, 10, 60))
    away = stage.env.sim.town[0].near_signal_distance
    beyond = radius + 1 if radius < 20 else layout.FAR
    for tiles, shown in ((radius, radius), (beyond, None)):
        tile = int(np.flatnonzero(away == tiles)[0])
        assert stage.moved("TP", (tile % WIDTH, tile // WIDTH)).signal_distance == shown


@pytest.mark.parametrize(("radius", "talks"), [(12, True), (2, True), (1, False)])
def test_a_conversation_is_heard_within_the_cue_radius(radius: int, talks: bool) -> None:
    stage = Stage(variant("fire_escape", f"perception.cue_radius = {radius}"), (1, 30, 40))
    for name in stage.env.agents:
        stage.put(name, (1, 1))
    stage.put("CC", (33, 26))  # the seat
    stage.put("EY", (31, 26))
    stage.tick()
    assert (stage.cues("CC", CueType.CONVERSATION) == [15]) == talks


def far_sight(stage: Stage, tiles: int) -> XY:
    """A place outdoors in sight of the first officer, some tiles away."""
    town, officers = stage.env.sim.town[0], stage.env.sim.config[0].n_officers
    post = int(stage.state.agents[int(stage.state.n_characters) - int(officers)].tile)
    x, y = post % WIDTH, post // WIDTH
    for place in ((x + tiles, y), (x - tiles, y), (x, y + tiles), (x, y - tiles)):
        tile = place[1] * WIDTH + place[0]
        row = int(town.visible[tile, y - place[1] + 20])
        if town.building[tile] == 0 and row >> (x - place[0] + 20) & 1:
            return place
    raise AssertionError(f"no street {tiles} tiles from the officer")


@pytest.mark.parametrize("radius", [20, 12])
def test_an_officer_is_seen_within_the_authority_radius(radius: int) -> None:
    world = variant("fire_escape_officers", f"perception.authority_radius = {radius}")
    stage = Stage(world, (1, 54, 64))
    near = stage.moved("TP", far_sight(stage, 12))
    assert (near.authority_present, near.authority_distance_tiles) == (True, 12)
    far = stage.moved("TP", far_sight(stage, 13))
    assert far.authority_present == (radius == 20)


@pytest.mark.parametrize(("radius", "told"), [(12, True), (6, True), (5, False)])
def test_an_order_is_heard_within_the_instruction_radius(radius: int, told: bool) -> None:
    text = f"perception.instruction_radius = {radius}\n" + HOLDING
    stage = Stage(variant("fire_escape_officers", text), (1, 54, 64))
    context = stage.moved("TP", far_sight(stage, 6))
    assert (context.instruction is Instruction.HOLD) == told


@pytest.mark.parametrize(("radius", "seen"), [(12, 1), (6, 1), (5, 0)])
def test_a_peer_is_seen_within_the_peer_radius(radius: int, seen: int) -> None:
    stage = Stage(variant("fire_escape", f"perception.peer_radius = {radius}"), (1, 30, 40))
    stage.put("LC", (25, 33))
    assert len(stage.moved("TP", (31, 33)).peer_behaviors) == seen


# --- scripted characters (C-02, C-22)

HOLDING = 'officers.script = [{ kind = "hold", ticks = 3 }, { kind = "silent", ticks = 1 }]'


def test_one_confederate_crosses_when_the_first_of_two_does() -> None:
    two, one = variant("jaywalk"), variant("jaywalk", "confederate_count = 1")
    assert [person.id for person in two.scenario.confederates] == ["J1", "J2"]
    assert [person.id for person in one.scenario.confederates] == ["J1"]
    ways = []
    for world in (two, one):
        stage, way = Stage(world, (1, 28, 40), seed=3), []
        for _ in range(10):
            way.append(int(stage.state.agents[10].tile))
            stage.tick()
        ways.append(way)
    assert ways[0] == ways[1] and len(set(ways[0])) == 5


def test_a_confederate_count_is_checked() -> None:
    with pytest.raises(ScenarioError, match="confederate_count is 3; allowed: 0 to 2"):
        variant("jaywalk", "confederate_count = 3")
    with pytest.raises(ScenarioError, match="confederate_count"):
        variant("jaywalk", "confederate_count = -1")
    assert not variant("jaywalk", "confederate_count = 0").scenario.confederates
    assert not variant("jaywalk_control", "confederate_count = 1").scenario.confederates


def test_a_counted_scenario_survives_being_written_down() -> None:
    spec = variant("jaywalk", "confederate_count = 1").scenario
    assert Scenario.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize("reactive", [False, True])
def test_a_reactive_officer_orders_only_who_is_on_the_move(reactive: bool) -> None:
    text = f"officers.reactive = {json.dumps(reactive)}\n" + HOLDING
    stage = Stage(variant("fire_escape_officers", text), (1, 54, 64))
    place = far_sight(stage, 6)
    standing = stage.moved("TP", place)
    assert (standing.instruction is Instruction.HOLD) == (not reactive)
    stage.until(58)  # the next hold begins
    options = np.flatnonzero(stage.seen["TP"]["action_mask"][: Action.CROSS_N])[1:]
    stage.tick(TP=int(options[0]))
    assert stage.context("TP").position != place
    assert stage.context("TP").instruction is Instruction.HOLD


# --- time (C-08) and lateness (C-05)


def test_a_town_with_one_step_a_tick_can_be_played_and_measured() -> None:
    world = variant("fire_escape", "clock.steps_per_tick = 1")
    env = VovilleEnv(world, window=(1, 46, 90))
    tiles: list[list[int]] = []

    class Watched(Walker):
        def act(self, observations: Observations, infos: Infos) -> Actions:
            tiles.append(env.sim.state[0].agents["tile"][:10].tolist())
            return super().act(observations, infos)

    records: list[Event] = list(EpisodePlayer(env, Watched(), "watched", 0).records())
    assert len(tiles) == 90 - 46 and records[-1]["steps"] == 90
    for before, after in pairwise(tiles):
        steps = [
            abs(a % 64 - b % 64) + abs(a // 64 - b // 64)
            for a, b in zip(before, after, strict=True)
        ]
        assert max(steps) <= 1
    assert len({row[0] for row in tiles}) > 10
    found: Any = measure(load_episode(records))
    assert found["vr_cafe"]["tick"]["value"] > 0.5  # who stands still violates nothing
    assert found["departure_ticks"]["agent"]["value"] is not None


def test_people_can_be_late_in_the_fire_scenarios() -> None:
    late = [{"day": 1, "tick": 10, "goal": "atelier_CC", "late": True}]
    data = read_scenario(data_path("fire_escape.toml"))
    data["agents"][0]["schedule"] = late
    world = load_world(validate(Scenario, data, "variant"))
    for other, severities in ((world, [25]), (variant("fire_escape"), [])):
        stage = Stage(other, (1, 10, 16))
        stage.tick()
        assert stage.cues("CC", CueType.TIME_PRESSURE) == severities
