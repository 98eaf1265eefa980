"""The rules of a step: movement, conflicts, signals, hazards, perception, officers, nights."""

from __future__ import annotations

import ast
import csv
import importlib.resources
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voville_env.core.kernels
from voville_env.core import layout
from voville_env.core.codes import (
    DX,
    DY,
    WIDTH,
    Action,
    Behaviour,
    CueType,
    Direction,
    Instruction,
    Rule,
    SignalState,
    Terrain,
    Verb,
    rules_in,
)
from voville_env.errors import CapacityError, InvalidValueError
from voville_env.observation import to_context
from voville_env.parallel import VovilleEnv
from voville_env.scenario import load_world
from voville_env.scenario.schema import Clock
from voville_env.sim import TownSim
from voville_env.testing.scene import Scene

XY = tuple[int, int]
N, E, S, W = Action.MOVE_N, Action.MOVE_E, Action.MOVE_S, Action.MOVE_W


loaded = cache(load_world)


class Stage:
    """A town in which people are put where a test needs them; the others wait."""

    def __init__(
        self, name: str = "fire_escape", window: Any = (1, 10, 60), seed: int = 0, **settings: Any
    ) -> None:
        self.env = VovilleEnv(loaded(name), window=window, **settings)
        self.infos: dict[str, Any] = {}
        self.rewards: dict[str, float] = {}
        self.restart(seed)

    def restart(self, seed: int) -> None:
        self.log: list[dict[str, Any]] = []
        self.seen, _ = self.env.reset(seed=seed)
        self.drain()

    @property
    def state(self) -> Any:
        return self.env.sim.state[0]

    def person(self, name: str) -> Any:
        spec = self.env.world.scenario
        names = [*self.env.possible_agents]
        names += [c.id for c in spec.confederates] + [o.id for o in spec.officers]
        return self.state.agents[names.index(name)]

    def put(self, **places: XY) -> None:
        for name, (x, y) in places.items():
            person = self.person(name)
            person.tile = person.from_tile = person.intent = y * WIDTH + x

    def at(self, name: str) -> XY:
        tile = int(self.person(name).tile)
        return tile % WIDTH, tile // WIDTH

    def act(self, steps: int = 1, **actions: int) -> list[Rule]:
        """Steps; returns the rules that the first person named broke in the last step."""
        for _ in range(steps):
            chosen = dict.fromkeys(self.env.agents, 0) | actions
            self.seen, self.rewards, _, _, self.infos = self.env.step(chosen)
            self.drain()
        first = next(iter(actions), "CC")
        return rules_in(int(self.person(first).violated_step))

    def drain(self) -> None:
        decoder = self.env.world.event_decoder()
        self.log += decoder.decode(self.env.drain_events())

    def until(self, tick: int) -> None:
        """Lets everybody wait until the start of a tick."""
        while int(self.state.tick) < tick:
            self.act()

    def events(self, kind: str, **wanted: Any) -> list[dict[str, Any]]:
        fits = [e for e in self.log if e["type"] == kind]
        return [e for e in fits if all(e.get(key) == value for key, value in wanted.items())]

    def context(self, name: str) -> Any:
        return to_context(self.seen[name])


@pytest.fixture(scope="module")
def world() -> Any:
    return loaded("fire_escape_officers")


# --- the table of steps (design section 6)

STEPS = """
from          WALL PAVEMENT ROAD CROSSWALK PARK FLOOR DOOR PRIVATE_FLOOR PRIVATE_DOOR CORDON OBSTACLE
WALL          -    -       -    -         -    -     -    -             -            -      -
PAVEMENT      -    m       c23  c12       m    -     m    -             m5           m4     -
ROAD          -    m       m2   m12       m    -     m    -             m5           m4     -
CROSSWALK     -    m       m23  m2        m    -     m    -             m5           m4     -
PARK          -    m       c23  c12       m    -     m    -             m5           m4     -
FLOOR         -    -       -    -         -    m     m    -             -            -      -
DOOR          -    m       c23  c12       m    m     m    -             -            m4     -
PRIVATE_FLOOR -    -       -    -         -    -     -    m             m            -      -
PRIVATE_DOOR  -    m       c23  c12       m    -     -    m             m            m4     -
CORDON        -    m       c23  c12       m    -     m    -             m5           m      -
OBSTACLE      -    -       -    -         -    -     -    -             -            -      -
"""  # noqa: E501 - a table
"""Written by hand from the design: m for MOVE, c for CROSS, and the numbers of rules R1 to R5."""


def expected_steps() -> dict[tuple[str, str], tuple[str, set[str]] | None]:
    head, *rows = STEPS.strip().splitlines()
    steps: dict[tuple[str, str], tuple[str, set[str]] | None] = {}
    for row in rows:
        start, *cells = row.split()
        for end, cell in zip(head.split()[1:], cells, strict=True):
            verb = {"m": "MOVE", "c": "CROSS", "-": ""}[cell[0]]
            rules = {Rule(int(digit) - 1).name for digit in cell[1:]}
            steps[start, end] = (verb, rules) if verb else None
    return steps


def movement_rows() -> list[dict[str, str]]:
    text = importlib.resources.files("voville_env.core").joinpath("movement.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_every_row_of_the_movement_table() -> None:
    steps, rows = expected_steps(), movement_rows()
    assert {name for pair in steps for name in pair} == set(Terrain.__members__)
    assert len(rows) == len({(r["from"], r["to"], r["verb"]) for r in rows}) == 11 * 11 * 2
    for row in rows:
        wanted = steps[row["from"], row["to"]]
        possible = wanted is not None and wanted[0] == row["verb"]
        found = (row["possible"], set(row["rules"].split()))
        assert found == (("yes", wanted[1]) if wanted and possible else ("no", set())), row


def test_town_tables_follow_the_table(world: Any) -> None:
    town = TownSim(world).town[0]
    terrain = [Terrain(int(code)).name for code in world.town.terrain.ravel()]
    steps, seen = expected_steps(), Counter[str]()
    for tile, direction in np.argwhere(town.verb).tolist():
        end = tile + DY[direction] * WIDTH + DX[direction]
        wanted = steps[terrain[tile], terrain[end]]
        assert wanted is not None, (tile, direction)
        assert Verb(int(town.verb[tile, direction])).name == wanted[0]
        broken = {rule.name for rule in rules_in(int(town.bits[tile, direction]))}
        assert broken <= wanted[1] - {"RED_LIGHT"}
        assert town.entry[tile, direction] == layout.NO_SIGNAL or "RED_LIGHT" in wanted[1]
        seen[wanted[0]] += 1
    assert seen["CROSS"] > 300 and seen["MOVE"] > 2000


@pytest.mark.parametrize(
    ("place", "action", "broken"),
    [
        ((40, 31), E, [Rule.ONE_WAY]),  # Main Street N runs west
        ((40, 31), W, []),
        ((40, 31), S, []),
        ((40, 32), N, []),
        ((40, 32), Action.CROSS_N, None),  # crossing starts off the carriageway only
        ((30, 33), Action.CROSS_N, [Rule.CROSSWALK_ONLY]),
        ((30, 33), N, None),  # a kerb is never left by walking
        ((30, 32), S, []),  # leaving the carriageway is always lawful
        ((31, 32), S, []),
        ((30, 32), Action.CROSS_S, None),
        ((30, 32), E, [Rule.ONE_WAY]),  # onto the crosswalk, while it shows walk
        ((31, 32), W, [Rule.CROSSWALK_ONLY]),
        ((54, 20), Action.CROSS_E, []),  # Birch Lane carries no rule
        ((40, 11), Action.CROSS_N, [Rule.CROSSWALK_ONLY]),  # Elm Street carries one
        ((46, 36), W, [Rule.CORDON]),
        ((45, 36), W, []),  # and on within it
        ((43, 34), S, [Rule.PRIVATE_BUILDING]),
        ((43, 35), S, []),
        ((15, 28), N, None),  # walls
        ((28, 30), N, None),
        ((30, 29), S, None),
    ],
)
def test_steps_in_the_town(place: XY, action: int, broken: list[Rule] | None) -> None:
    stage = Stage(window=(1, 22, 30))  # green at the café until tick 31
    stage.put(CC=place)
    stage.act()
    assert bool(stage.seen["CC"]["action_mask"][action]) is (broken is not None)
    found = stage.act(CC=action)
    direction = (int(action) - 1) % 4
    end = (place[0] + DX[direction], place[1] + DY[direction])
    assert (stage.at("CC"), found) == ((place, []) if broken is None else (end, broken))
    assert stage.seen["CC"]["self"][9] == (broken is None)


def test_owners_may_enter_their_home() -> None:
    stage = Stage()
    stage.put(CC=(13, 25), KQ=(13, 19))
    assert stage.act(CC=E) == []
    stage.put(KQ=(13, 25), CC=(13, 19))
    assert stage.act(KQ=E) == [Rule.PRIVATE_BUILDING]
    assert stage.act(CC=E) == [Rule.PRIVATE_BUILDING]


# --- two wishes for one tile


def duel(stage: Stage, east: str, west: str) -> str:
    stage.put(**{east: (26, 46), west: (24, 46)})
    stage.act(**{east: int(W), west: int(E)})
    inside = [name for name in (east, west) if stage.at(name) == (25, 46)]
    assert len(inside) == 1
    loser = east if inside == [west] else west
    assert stage.seen[loser]["self"][9] == 1 and stage.seen[inside[0]]["self"][9] == 0
    assert not stage.person(loser).violated  # losing a race is no push
    return inside[0]


@pytest.mark.parametrize("pair", [("CC", "LC"), ("LC", "CC"), ("KQ", "MF")])
def test_two_into_one_tile_each_win_half_of_the_time(pair: tuple[str, str]) -> None:
    stage = Stage()
    wins = Counter[str]()
    for seed in range(400):
        stage.restart(seed)
        wins[duel(stage, *pair)] += 1
    assert 160 < wins[pair[0]] < 240  # four standard deviations


def test_a_draw_is_for_the_step_and_not_for_the_run() -> None:
    stage = Stage(window=(1, 10, 100))
    winners = []
    for _ in range(40):
        winners.append(duel(stage, "CC", "LC") == "CC")
    assert 8 < sum(winners) < 32


def test_three_into_one_tile() -> None:
    stage = Stage()
    wins = Counter[str]()
    for seed in range(200):
        stage.restart(seed)
        stage.put(CC=(26, 46), NR=(24, 46), LC=(25, 45))
        stage.act(CC=W, NR=E, LC=S)
        inside = [name for name in ("CC", "NR", "LC") if stage.at(name) == (25, 46)]
        assert len(inside) == 1
        wins[inside[0]] += 1
    assert len(wins) == 3 and min(wins.values()) > 40


def test_swaps_are_blocked_and_no_push() -> None:
    stage = Stage()
    stage.put(CC=(25, 46), LC=(26, 46))
    stage.act(CC=E, LC=W)
    assert (stage.at("CC"), stage.at("LC")) == ((25, 46), (26, 46))
    assert not stage.person("CC").violated and not stage.person("LC").violated
    assert stage.seen["CC"]["self"][9] == stage.seen["LC"]["self"][9] == 1


@pytest.mark.parametrize("order", [("CC", "OH", "LC"), ("LC", "OH", "CC"), ("OH", "LC", "CC")])
def test_chains_move_together_or_not_at_all(order: tuple[str, str, str]) -> None:
    stage = Stage()
    places = {name: (24 + k, 46) for k, name in enumerate(order)}
    stage.put(**places)
    stage.act(**dict.fromkeys(order, int(E)))
    assert [stage.at(name) for name in order] == [(25, 46), (26, 46), (27, 46)]
    # Somebody stands at the head of the next one: nobody moves.
    stage.put(**{name: (17 + k, 33) for k, name in enumerate(order)}, TP=(20, 33))
    stage.act(**dict.fromkeys(order, int(E)))
    assert [stage.at(name) for name in order] == [(17, 33), (18, 33), (19, 33)]
    # Only the last of them ran into somebody who did not mean to leave.
    pushes = [bool(stage.person(name).violated >> Rule.PERSONAL_SPACE & 1) for name in order]
    assert pushes == [False, False, True]


def test_who_follows_somebody_that_meant_to_leave_does_not_push() -> None:
    stage = Stage(window=(1, 10, 100))
    lost = 0
    for _ in range(20):
        # LC and NR race for (22, 47), and CC follows LC.
        stage.put(CC=(20, 47), LC=(21, 47), NR=(23, 47))
        assert stage.act(CC=E, LC=E, NR=W) == []
        assert (stage.at("CC") == (21, 47)) is (stage.at("LC") == (22, 47))
        lost += stage.at("NR") == (22, 47)
    assert 0 < lost < 20
    # A step that is impossible is no will to leave.
    stage.put(CC=(20, 47), LC=(21, 47))
    assert stage.act(CC=E, LC=Action.CROSS_N) == [Rule.PERSONAL_SPACE]


def test_cycles_go_round() -> None:
    stage = Stage()
    ring = {"CC": (25, 46), "EY": (26, 46), "OH": (26, 47), "LC": (25, 47)}
    stage.put(**ring)
    stage.act(CC=E, EY=S, OH=W, LC=N)
    assert {name: stage.at(name) for name in ring} == {
        "CC": (26, 46),
        "EY": (26, 47),
        "OH": (25, 47),
        "LC": (25, 46),
    }


def test_a_push_is_a_step_onto_somebody_who_stays() -> None:
    stage = Stage()
    stage.put(CC=(25, 46), LC=(26, 46))
    assert stage.act(CC=E) == [Rule.PERSONAL_SPACE]
    assert stage.at("CC") == (25, 46) and stage.seen["CC"]["self"][9] == 1
    assert stage.act(CC=E, LC=E) == []
    assert stage.at("CC") == (26, 46)
    # Officers and confederates count as people.
    other = Stage("fire_escape_officers", window=(1, 50, 60))
    x, y = other.at("TO1")
    other.put(CC=(x, y + 1))
    assert other.act(CC=N) == [Rule.PERSONAL_SPACE]


def test_agents_are_conserved() -> None:
    stage = Stage("fire_escape_officers", window=(1, 50, 90), seed=3)
    generator = np.random.default_rng(1)
    for _ in range(160):
        stage.act(**{name: int(generator.integers(10)) for name in stage.env.agents})
        tiles = stage.state.agents["tile"][:12].tolist()
        assert len(set(tiles)) == 12


# --- taking things


def test_a_thing_has_one_taker() -> None:
    stage = Stage()
    wins = Counter[str]()
    for seed in range(60):
        stage.restart(seed)
        stage.put(CC=(29, 30), LC=(31, 30))
        assert stage.env.sim.state[0].item_tile[0] == 30 * WIDTH + 30
        stage.act(CC=Action.TAKE, LC=Action.TAKE)
        carrying = [name for name in ("CC", "LC") if stage.person(name).carrying]
        assert len(carrying) == 1
        loser = "LC" if carrying == ["CC"] else "CC"
        assert stage.seen[loser]["self"][9] == 1 and not stage.person(loser).violated
        assert rules_in(int(stage.person(carrying[0]).violated)) == [Rule.PROPERTY]
        wins[carrying[0]] += 1
    assert min(wins.values()) > 12
    # It has left the map, and full hands take nothing more.
    assert stage.state.item_tile[0] == -1
    assert not any(stage.seen[name]["action_mask"][Action.TAKE] for name in ("CC", "LC"))


def test_taking_from_afar_or_ones_own() -> None:
    stage = Stage()
    stage.put(CC=(28, 30))
    assert stage.act(CC=Action.TAKE) == []
    assert stage.seen["CC"]["self"][9:11].tolist() == [1, 0]
    stage.state.item_owner[0] = 0  # CC's own
    stage.put(CC=(30, 31))
    assert stage.act(CC=Action.TAKE) == []
    assert stage.seen["CC"]["self"][9:11].tolist() == [0, 1]


# --- signals


@pytest.mark.parametrize(
    ("name", "red", "green"),
    [
        ("cafe_crossing", [52, 53, 60], [41, 50, 61, 70]),
        ("oak_garden", [57, 68, 77], [58, 67, 78]),
        ("main_pine", [32, 33, 34, 35, 36], [37, 46, 57]),
        ("main_oak", [60], [61]),
    ],
)
def test_signals_honour_the_printed_facts(name: str, red: list[int], green: list[int]) -> None:
    stage = Stage("jaywalk", window=(1, 0, 80))
    signal = stage.env.world.town.intersection_index(name)
    shown = {}
    for tick in range(80):
        stage.until(tick)
        shown[tick] = SignalState(int(stage.state.signal_state[signal]))
    assert {shown[tick] for tick in red} == {SignalState.DONT_WALK}
    assert {shown[tick] for tick in green} == {SignalState.WALK}
    assert all(shown[tick] == shown[tick + 20] for tick in range(60))
    assert Counter(shown.values()) == {SignalState.WALK: 40, SignalState.DONT_WALK: 40}
    turns = [tick for tick in range(1, 80) if shown[tick] != shown[tick - 1]]
    assert [e["tick"] for e in stage.events("signal", intersection=name)][-len(turns) :] == turns


def test_red_is_broken_at_the_first_tile_only() -> None:
    stage = Stage(window=(1, 40, 70))
    stage.until(52)
    stage.put(CC=(31, 30))
    stage.act()
    assert stage.context("CC").signal is SignalState.DONT_WALK
    assert stage.context("CC").signal_ticks == 9 and stage.context("CC").signal_distance == 1
    assert stage.seen["CC"]["action_mask"][Action.CROSS_S] == 1  # norms are never masked
    assert stage.act(CC=Action.CROSS_S) == [Rule.RED_LIGHT]
    assert stage.act(CC=S) == []
    assert stage.act(CC=S) == []
    assert stage.at("CC") == (31, 33)
    stage.act(4)
    outcome = stage.events("rule_event", agent="CC", tick=52)
    assert outcome[0]["violated"] == ["RED_LIGHT"] and outcome[0]["moved"] is True
    # From the road, a crosswalk is entered like from the kerb.
    stage.put(CC=(32, 31))
    assert stage.act(CC=W) == [Rule.RED_LIGHT]
    stage.until(61)
    stage.put(CC=(31, 30))
    assert stage.act(CC=Action.CROSS_S) == []
    stage.act(3)
    assert stage.person("CC").behaviour == Behaviour.CROSSING


def test_a_red_that_turns_while_one_crosses() -> None:
    stage = Stage(window=(1, 49, 60))
    stage.until(50)
    stage.act(3)
    stage.put(CC=(31, 30))
    assert stage.act(CC=Action.CROSS_S) == []  # the last step of green
    assert stage.state.tick == 51
    assert stage.act(CC=S) == []


# --- hazards and what is perceived


def test_fire_severity_falls_by_five_a_tile() -> None:
    stage = Stage(window=(1, 49, 60))
    stage.until(50)
    assert stage.state.fire_burning[0] == 1
    for x in range(32, 52):
        stage.put(CC=(x, 29))
        stage.act()
        expected = max(0, 95 - 5 * (x - 32))
        fire = stage.context("CC").fire()
        assert (fire.severity if fire else 0) == expected
        assert stage.infos["CC"]["reward_terms"][2] == pytest.approx(expected / 400)


@pytest.mark.parametrize(("place", "perceived"), [((14, 29), True), ((13, 29), False)])
def test_a_fire_is_perceived_through_walls_to_its_reach(place: XY, perceived: bool) -> None:
    stage = Stage(window=(1, 49, 60))
    stage.put(CC=place)
    scene = Scene(stage.env, "CC")
    assert not scene.sees(29 * WIDTH + 32)
    stage.act(5)
    context = stage.context("CC")
    assert (context.fire() is not None) is perceived
    if perceived:
        assert (context.fire().distance_tiles, context.fire().severity) == (18, 5)
        assert (context.fire().dx, context.fire().dy) == (18, 0)
    assert context.escaping is perceived


def test_lines_of_sight_are_symmetric_and_blocked_by_walls(world: Any) -> None:
    visible = TownSim(world).town[0].visible
    size = layout.SIGHT
    for dy in range(-size, size + 1):
        for dx in range(-size, size + 1):
            here = (visible[:, dy + size] >> np.uint64(dx + size) & np.uint64(1)).reshape(64, 64)
            back = (visible[:, size - dy] >> np.uint64(size - dx) & np.uint64(1)).reshape(64, 64)
            ys, xs = np.nonzero(here)
            inside = (xs + dx >= 0) & (xs + dx < 64) & (ys + dy >= 0) & (ys + dy < 64)
            assert inside.all()
            assert back[ys + dy, xs + dx].all()
            assert here.sum() == back.sum()
            assert abs(dx) + abs(dy) <= size or not here.any()
    stage = Stage()
    for start, end, seen in [
        ((31, 30), (31, 33), True),
        ((31, 30), (31, 29), True),  # through the door
        ((31, 30), (31, 28), True),
        ((30, 30), (30, 29), False),  # through the wall of the café
        ((20, 33), (40, 33), False),  # more than twenty columns of pavement, but a wall at 32
        ((1, 33), (21, 33), True),
        ((1, 33), (22, 33), False),  # 21 tiles
        ((42, 33), (43, 36), False),
    ]:
        stage.put(CC=start)
        assert Scene(stage.env, "CC").sees(end[1] * WIDTH + end[0]) is seen, (start, end)


def officer_view(place: XY, officer: XY = (45, 39)) -> Any:
    stage = Stage("fire_escape_officers", window=(1, 50, 60))
    stage.put(CC=place, TO1=officer, TO2=(2, 33))
    stage.act(4)
    return stage.context("CC")


def test_authority_needs_a_line_of_sight_within_twenty() -> None:
    near = officer_view((20, 33), (25, 33))
    assert near.authority_present and near.authority_distance_tiles == 5
    assert near.authority_offset == (5, 0)
    # (45, 39) and along Oak Avenue.
    assert officer_view((46, 20), (46, 40)).authority_distance_tiles == 20
    assert officer_view((46, 19), (46, 40)).authority_distance_tiles is None
    behind = officer_view((42, 38), (45, 38))
    assert not behind.authority_present and behind.authority_offset == (0, 0)
    assert behind.published()["authority_distance_tiles"] == "inf"


def test_peers_are_seen_within_twelve_in_the_same_context() -> None:
    stage = Stage(window=(1, 10, 40))
    stage.put(CC=(22, 46), KQ=(34, 46), LC=(22, 47), NR=(35, 46), OH=(23, 46))
    stage.act()
    peers = stage.context("CC").peer_behaviors
    assert [(p.dx, p.dy) for p in peers] == [(1, 0), (0, 1), (12, 0)]
    assert {p.behaviour for p in peers} == {Behaviour.STANDING}
    # Who is indoors and who stands at the door outside see each other and share no context.
    stage.put(CC=(31, 30), KQ=(31, 28), LC=(50, 41), NR=(50, 11), OH=(50, 12), MF=(29, 24))
    stage.act()
    assert Scene(stage.env, "CC").sees(28 * WIDTH + 31)
    assert stage.context("CC").peer_behaviors == ()
    assert stage.seen["CC"]["tiles"][3, 5] & 0x10


def test_the_eight_nearest_peers_are_told() -> None:
    stage = Stage()
    names = stage.env.possible_agents
    stage.put(**{name: (22 + k, 46) for k, name in enumerate(names)})
    stage.act()
    assert [p.dx for p in stage.context("CC").peer_behaviors] == list(range(1, 9))
    middle = [abs(p.dx) for p in stage.context("KQ").peer_behaviors]
    assert middle == sorted(middle) and len(middle) == 8


def test_acts_are_seen_by_those_around_and_age() -> None:
    stage = Stage(window=(1, 52, 70))
    stage.put(CC=(31, 30), KQ=(31, 33), LC=(1, 33))
    assert stage.act(CC=Action.CROSS_S) == [Rule.RED_LIGHT]
    stage.act(3)
    seen = {p.behaviour: p for p in stage.context("KQ").peer_behaviors}[Behaviour.CROSSING_ON_RED]
    assert (seen.rule, seen.followed, seen.age) == (Rule.RED_LIGHT, False, 1)
    assert seen.text == "A person 2 north crosses against the red signal"
    event = stage.events("peer_broadcast", agent="CC")[0]
    assert event["rule"] == "RED_LIGHT" and "KQ" in event["observers"]
    assert "LC" not in event["observers"]
    ages = []
    for _ in range(4):
        stage.act(4)
        ages += [p.age for p in stage.context("KQ").peer_behaviors if p.followed is False]
    assert ages == [2, 3]


def test_cues_of_time_and_talk() -> None:
    stage = Stage("jaywalk", window=(1, 28, 60))
    stage.until(30)
    cues = {cue.type: cue for cue in stage.context("CC").situational_cues}
    assert cues[CueType.TIME_PRESSURE].severity == 25
    talk = {cue.type: cue for cue in stage.context("EY").situational_cues}
    assert talk[CueType.CONVERSATION].severity == 15
    assert CueType.CONVERSATION not in {c.type for c in stage.context("LC").situational_cues}


# --- officers


def script(stage: Stage, officer: int, start: int, ticks: int) -> list[Instruction]:
    shown = []
    for tick in range(start, start + ticks):
        stage.until(tick)
        shown.append(Instruction(int(stage.state.officer_kind[officer])))
    return shown


def test_officer_scripts_repeat() -> None:
    none, hold, passing, redirect = Instruction
    first = script(Stage("fire_escape_officers", window=(1, 45, 160)), 0, 50, 24)
    assert first == [hold, hold, passing, passing, none, none, none, none] * 3
    second = script(Stage("fire_escape_officers", window=(1, 45, 160)), 1, 50, 16)
    assert second == [none] * 4 + [redirect] * 3 + [passing] + [none] * 4 + [redirect] * 3 + [
        passing
    ]
    stage = Stage("fire_escape_officers", window=(1, 45, 160))
    for tick, active in ((49, 0), (50, 1), (149, 1), (150, 0)):
        stage.until(tick)
        assert stage.person("TO1").active == active
    assert script(stage, 0, 150, 8) == [none] * 8


def test_a_passive_officer_orders_nothing() -> None:
    stage = Stage("jaywalk", window=(2, 95, 130))
    stage.until(1100)
    assert stage.person("TO3").active == 1
    stage.put(CC=(15, 29))
    assert set(script(stage, 0, 1100, 20)) == {Instruction.NONE}
    assert stage.context("CC").authority_present and stage.events("instruction") == []


@pytest.mark.parametrize(
    ("place", "hears"), [((45, 50), True), ((45, 52), False), ((42, 39), False)]
)
def test_instructions_reach_twelve_tiles_in_sight_and_in_the_zone(place: XY, hears: bool) -> None:
    stage = Stage("fire_escape_officers", window=(1, 49, 60))
    stage.put(TO1=(45, 39), CC=place)
    stage.until(50)
    context = stage.context("CC")
    assert (context.instruction is Instruction.HOLD) is hears
    told = stage.events("instruction", agent="CC")
    if hears:
        assert (context.instruction_officer, context.instruction_ticks_left) == (0, 2)
        assert [(e["officer"], e["kind"], e["valid_ticks"], e["distance"]) for e in told] == [
            ("TO1", "hold", 2, 11)
        ]
    else:
        assert told == [] and context.instruction_officer is None


def test_a_run_may_begin_in_the_middle_of_an_order() -> None:
    stage = Stage("fire_escape_officers", window=(1, 55, 70))  # TO2 redirects from 54 to 56
    stage.put(CC=(38, 32), TO1=(2, 33))
    stage.until(57)
    told = stage.events("instruction", agent="CC")
    assert [(e["kind"], e["tick"], e["valid_ticks"]) for e in told] == [
        ("redirect", 56, 1),
        ("pass", 57, 1),
    ]
    assert responses(stage) == [("TO2", "redirect", True)]


def responses(stage: Stage) -> list[tuple[str, str, bool]]:
    events = stage.events("instruction_response", agent="CC")
    return [(e["officer"], e["kind"], e["complied"]) for e in events]


@pytest.mark.parametrize(("step", "complied"), [(0, True), (N, True), (S, False)])
def test_a_hold_forbids_to_come_nearer(step: int, complied: bool) -> None:
    stage = Stage("fire_escape_officers", window=(1, 49, 60))
    stage.put(TO1=(46, 38), CC=(46, 34), TO2=(2, 33))
    stage.until(50)
    assert stage.context("CC").instruction is Instruction.HOLD
    stage.act(CC=int(step))
    assert responses(stage) == []
    stage.act(7)
    # Judged when it ends, after two ticks.
    assert responses(stage) == [("TO1", "hold", complied)]
    assert stage.events("instruction_response", agent="CC")[0]["tick"] == 51


@pytest.mark.parametrize(("step", "complied"), [(0, True), (W, True), (N, True), (E, False)])
def test_a_redirect_is_about_the_wrong_way(step: int, complied: bool) -> None:
    stage = Stage("fire_escape_officers", window=(1, 49, 70))
    stage.put(TO1=(2, 33), CC=(38, 32))
    stage.until(54)
    context = stage.context("CC")
    assert context.instruction is Instruction.REDIRECT
    assert (context.instruction_officer, context.instruction_direction) == (1, Direction.W)
    stage.act(CC=int(step))
    stage.until(57)
    assert responses(stage) == [("TO2", "redirect", complied)]


def test_a_pass_authorises_the_traffic_rules_and_nothing_else() -> None:
    stage = Stage("fire_escape_officers", window=(1, 49, 80))
    stage.put(TO1=(46, 40), CC=(46, 41), TO2=(2, 33))
    stage.until(68)
    context = stage.context("CC")
    assert context.instruction is Instruction.PASS and context.signal is SignalState.DONT_WALK
    assert stage.act(CC=N) == [Rule.PERSONAL_SPACE]
    assert [e["rules"] for e in stage.events("sanction")] == [["PERSONAL_SPACE"]]
    assert stage.act(CC=Action.CROSS_W) == [Rule.RED_LIGHT]
    assert len(stage.events("sanction")) == 1
    stage.act(2)
    outcome = stage.events("rule_event", agent="CC", tick=68)[0]
    assert outcome["violated"] == ["RED_LIGHT", "PERSONAL_SPACE"]
    assert outcome["authorised"] == ["RED_LIGHT"]


@pytest.mark.parametrize(
    ("officer", "sanctioned"), [((30, 34), True), ((30, 35), False), ((31, 29), False)]
)
def test_sanctions_fall_within_three_tiles_in_sight(officer: XY, sanctioned: bool) -> None:
    stage = Stage("fire_escape_officers_control", window=(1, 54, 60))
    stage.put(CC=(30, 33), TO1=officer, TO2=(2, 33))
    assert stage.act(CC=Action.CROSS_N) == [Rule.CROSSWALK_ONLY]
    told = stage.events("sanction", agent="CC")
    assert bool(told) is sanctioned
    assert stage.infos["CC"]["reward_terms"][3] == float(sanctioned)
    if sanctioned:
        assert told[0]["rules"] == ["CROSSWALK_ONLY"] and told[0]["officer"] == "TO1"
        assert stage.rewards["CC"] < -0.9


# --- days


def test_a_night_puts_everybody_at_the_start_of_the_day() -> None:
    stage = Stage(window=None)
    stage.env.reset(seed=0, options={"window": None})
    stage.env.advance_idle(2)
    while int(stage.state.tick) < 998:
        stage.env.advance_idle(998)
        stage.drain()
    stage.put(CC=(30, 31), LC=(31, 30))
    stage.act(LC=Action.TAKE)
    stage.until(999)
    stage.act(3, CC=W)
    assert stage.state.tick == 999
    stage.act(CC=W)
    assert stage.state.tick == 1000
    town = stage.env.world.town
    for plan in stage.env.world.scenario.agents:
        x, y = stage.at(plan.id)
        assert y * WIDTH + x in town.place(plan.home).box.tiles()
    context = stage.context("CC")
    assert (context.day, context.tick, context.step) == (2, 0, 0)
    assert context.at_goal and not (context.late or context.escaping or context.blocked)
    assert len(stage.events("day_start", day=2, tick=0)) == 1
    # What was taken stays taken.
    assert stage.context("LC").carrying and stage.state.item_tile[0] == -1
    assert stage.env.state()[0] == 1000


def test_evacuees_stay_until_the_fire_is_out_and_then_go_home() -> None:
    stage = Stage(window=(1, 49, 160))
    stage.act(8)
    context = stage.context("CC")
    assert context.escaping and not context.at_goal
    goal = stage.events("goal_change", agent="CC")
    assert [(e["goal"], e["escaping"], e["tick"]) for e in goal] == [("park_lawn", True, 50)]
    stage.put(CC=(30, 50))
    stage.act(4)
    assert stage.context("CC").at_goal and stage.context("CC").escaping
    assert stage.events("arrival", agent="CC")[0]["safe"] is True
    stage.until(149)
    assert stage.context("CC").escaping
    stage.until(150)
    context = stage.context("CC")
    assert not context.escaping and not context.at_goal
    home = stage.env.world.town.place("home_CC").box
    assert context.goal == (home.x, home.y)
    changes = stage.events("goal_change", agent="CC", tick=150)
    assert [(e["goal"], e["escaping"]) for e in changes] == [("home_CC", False)]
    # Who was out of reach never had to flee.
    assert stage.events("goal_change", agent="LC", escaping=True) == []


def test_goals_change_at_their_tick_and_show_at_once() -> None:
    stage = Stage(window=(1, 5, 30))
    stage.until(9)
    stage.act(3)
    assert stage.context("TP").at_goal and stage.context("TP").tick == 9
    stage.act()
    context = stage.context("TP")
    assert context.tick == 10 and not context.at_goal
    assert context.goal == (18, 51)
    assert [e["goal"] for e in stage.events("goal_change", agent="TP")] == ["clinic"]


# --- calls from outside


def test_fires_can_be_lit_and_put_out() -> None:
    stage = Stage("fire_escape_control", window=(1, 20, 60))
    stage.act(2)
    stage.env.ignite(22, 26, severity=50)
    stage.put(CC=(22, 33))
    stage.act()
    assert stage.context("CC").fire() is None  # from the next tick on
    stage.act()
    assert stage.context("CC").fire().severity == 50 - 5 * 7
    assert stage.events("hazard")[-1] == {
        "type": "hazard", "day": 1, "tick": 21, "action": "ignite", "at": [22, 26], "severity": 50,
    }  # fmt: skip
    stage.env.extinguish(22, 26)
    assert stage.context("CC").fire() is not None
    stage.until(22)
    assert stage.context("CC").fire() is None
    assert stage.events("hazard")[-1]["action"] == "extinguish"
    with pytest.raises(InvalidValueError, match=r"no fire at \(22, 26\)"):
        stage.env.extinguish(22, 26)
    stage.env.ignite(22, 26, start=25, end=26)
    stage.until(25)
    assert stage.state.fire_burning.sum() == 1
    stage.until(26)
    assert stage.state.fire_burning.sum() == 0
    stage.env.reset(seed=0)
    assert stage.state.fire_severity.sum() == 0


def test_fires_are_checked() -> None:
    env = Stage("fire_escape_control", window=(1, 20, 60)).env
    cases: list[tuple[dict[str, Any], str]] = [
        ({"x": 64, "y": 0}, "0 to 63"),
        ({"x": 0, "y": -1}, "0 to 63"),
        ({"x": 1, "y": 1}, "is a wall"),
        ({"x": 12, "y": 5, "severity": 0}, "severity is 0; allowed: 1 to 100"),
        ({"x": 12, "y": 5, "severity": 101}, "severity is 101"),
        ({"x": 12, "y": 5, "start": 20}, "allowed: 20 < start"),
        ({"x": 1.0, "y": 1}, r"x is 1\.0; allowed: whole numbers"),
        ({"x": 1, "y": "1"}, "y is '1'; allowed: whole"),
        ({"x": 12, "y": 5, "severity": True}, "severity is True; allowed: whole"),
        ({"x": 12, "y": 5, "end": 50.5}, r"end is 50\.5; allowed: whole"),
        ({"x": 12, "y": 5, "start": 30, "end": 30}, "start < end"),
    ]
    for settings, words in cases:
        with pytest.raises(InvalidValueError, match=words):
            env.ignite(**settings)
    for k in range(layout.HAZARDS):
        env.ignite(20 + k, 50)
    with pytest.raises(InvalidValueError, match="4 fires are in use"):
        env.ignite(30, 50)
    env.extinguish(20, 50)
    env.step(dict.fromkeys(env.agents, 0))


def test_signals_can_be_changed() -> None:
    stage = Stage(window=(1, 20, 60))
    signal = stage.env.world.town.intersection_index("cafe_crossing")
    assert stage.state.signal_state[signal] == SignalState.DONT_WALK
    stage.env.set_signal("cafe_crossing", red=3, green=2, green_start=22)
    assert stage.state.signal_state[signal] == SignalState.DONT_WALK
    shown = []
    for tick in range(21, 33):
        stage.until(tick)
        shown.append(SignalState(int(stage.state.signal_state[signal])) is SignalState.WALK)
    assert shown == [False, True, True, False, False, False, True, True, False, False, False, True]
    stage.env.set_signal("cafe_crossing", red=0, green=1, green_start=0)
    stage.until(40)
    assert stage.state.signal_state[signal] == SignalState.WALK
    for settings in ({"red": -1, "green": 2}, {"red": 0, "green": 0}, {"red": 9999, "green": 2}):
        with pytest.raises(InvalidValueError, match="1 to 10000 together"):
            stage.env.set_signal("cafe_crossing", green_start=0, **settings)
    with pytest.raises(InvalidValueError, match=r"red is 1\.5; allowed: whole"):
        stage.env.set_signal("cafe_crossing", red=1.5, green=2, green_start=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="did you mean 'cafe_crossing'"):
        stage.env.set_signal("cafe_crosing", red=1, green=1, green_start=0)
    stage.env.reset(seed=0)
    assert stage.state.signal_red[signal] == 10


# --- the event buffer

# How often each place that writes an event can do so in one tick: for one person, or for the town.
WRITES = {
    ("conduct.py", "sanction"): "a step of a person",
    ("conduct.py", "show"): "a tick of a person",
    ("conduct.py", "judge_response"): "two ticks of a person",  # a new order, and the end of a tick
    ("conduct.py", "close_tick"): "a tick of a person",
    ("hazards.py", "update"): "a hazard",
    ("hazards.py", "update_escape"): "a tick of a person",
    ("hazards.py", "note_arrival"): "a tick of a person",  # until a goal changes, which ticks do
    ("opportunities.py", "update"): "two ticks of a person",  # a position and an opportunity
    ("schedule.py", "night"): "the town",
    ("schedule.py", "update"): "a tick of a person",  # entries of a person differ in their ticks
    ("scripts.py", "receive"): "a tick of a person",
    ("signals.py", "update"): "a signal",
}
PERSON = {"a step of a person": 8, "a tick of a person": 1, "two ticks of a person": 2}
TOWN = {"a hazard": layout.HAZARDS, "a signal": layout.SIGNALS, "the town": 1}


def places_that_write() -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for path in Path(voville_env.core.kernels.__file__).parent.glob("*.py"):
        for function in ast.parse(path.read_text("utf-8")).body:
            if isinstance(function, ast.FunctionDef):
                calls = [n.func for n in ast.walk(function) if isinstance(n, ast.Call)]
                count = sum(isinstance(f, ast.Name) and f.id == "emit" for f in calls)
                if count:
                    found[path.name, function.name] = count
    return found


def bound(characters: int) -> int:
    """Most events of a tick."""
    each = sum(PERSON.get(unit, 0) for unit in WRITES.values())
    return characters * each + sum(TOWN.get(unit, 0) for unit in WRITES.values())


def test_one_tick_cannot_overflow_the_event_buffer() -> None:
    found = places_that_write()
    assert set(found) == set(WRITES), "a new place that writes events: count it here"
    for place, count in found.items():
        assert count == (2 if place == ("opportunities.py", "update") else 1), place
    assert PERSON["a step of a person"] == 8  # the schema's most steps a tick
    with pytest.raises(ValueError, match="less than or equal to 8"):
        Clock(steps_per_tick=9)
    assert bound(layout.CHARACTERS) < layout.EVENTS // 2
    # Idling goes on until the buffer is half full, and then ends after the tick.
    assert layout.EVENTS // 2 + bound(layout.CHARACTERS) < layout.EVENTS


def test_no_tick_writes_more_than_was_counted() -> None:
    most = 0
    for seed in range(4):
        stage = Stage("fire_escape_officers", window=(1, 49, 75), seed=seed)
        generator = np.random.default_rng(seed)
        for _ in range(26):
            before = len(stage.log)
            for _ in range(4):
                stage.act(**{name: int(generator.integers(10)) for name in stage.env.agents})
            most = max(most, len(stage.log) - before)
    assert 20 < most <= bound(12)


def test_events_that_nobody_drained_are_an_error() -> None:
    env = VovilleEnv("fire_escape_officers", window=(1, 50, 150))
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    while env.agents:
        env.step({name: int(generator.integers(10)) for name in env.agents})
    with pytest.raises(CapacityError, match="events were lost: drain at least once a tick"):
        env.drain_events()
    assert len(env.drain_events()) == 0
