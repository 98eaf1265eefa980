"""Scenario files: what ships, the error for each fault, what a seed varies, the design's facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voville_env.core import layout
from voville_env.core.codes import TRIGGER_RELEVANT, WIDTH, EventCode, Route, Terrain, rules_in
from voville_env.errors import ScenarioError
from voville_env.navigation import Navigator
from voville_env.parallel import VovilleEnv
from voville_env.scenario import Scenario, World, data_path, load_world, scenario_names
from voville_env.scenario.schema import Persona
from voville_env.town import save_town

NAMES = (
    "fire_escape",
    "fire_escape_control",
    "fire_escape_officers",
    "fire_escape_officers_control",
    "jaywalk",
    "jaywalk_control",
)
world_of = cache(load_world)


def test_six_scenarios_ship() -> None:
    assert tuple(scenario_names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_shipped_scenarios_load_and_fit_their_town(name: str) -> None:
    world = world_of(name)
    spec = world.scenario
    assert spec.name == name and spec.title and spec.description and spec.purpose
    assert len(world.agent_ids) == 10
    assert [type(persona) for persona in world.personas] == [Persona] * 10
    assert sum(persona.group == "attendee" for persona in world.personas) == 8
    assert spec.control in NAMES
    assert (spec.clock.days, spec.clock.ticks_per_day, spec.clock.steps_per_tick) == (2, 1000, 4)


@pytest.mark.parametrize("name", [n for n in NAMES if not n.endswith("control")])
def test_a_control_differs_in_its_cause_only(name: str) -> None:
    plain, control = world_of(name).scenario, world_of(f"{name}_control").scenario
    assert plain.control == control.name
    told = {"name", "title", "description", "purpose", "control"}
    cause = "confederates" if name == "jaywalk" else "fires"
    assert getattr(plain, cause) and not getattr(control, cause)
    kept = [item.model_dump(exclude=told | {cause}) for item in (plain, control)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("name", NAMES)
def test_nobody_starts_on_somebody_else(name: str) -> None:
    for window in (None, world_of(name).scenario.focus, (1, 30, 40), (1, 500, 510), (2, 150, 160)):
        env = VovilleEnv(world_of(name), window=window)
        env.reset(seed=0)
        people = env.sim.state[0].agents
        tiles = people["tile"][people["active"] != 0].tolist()
        assert len(set(tiles)) == len(tiles), (name, window)


# --- faults


def write(folder: Path, text: str, base: str = "fire_escape") -> Path:
    path = folder / "mine.toml"
    path.write_text(f'base = "{base}"\nname = "mine"\n{text}', encoding="utf-8")
    return path


def people(*plans: tuple[str, str], schedule: str = "") -> str:
    text = "commuter_ids = []\n"
    for name, start in plans:
        text += f'[[agents]]\nid = "{name}"\nstart = "{start}"\nhome = "{start}"\n'
    return text + f"schedule = [ {schedule} ]\n"


OFFICER = """[[officers]]
id = "TO9"
name = "Nine"
x = {x}
y = {y}
band = "{band}"
intersection = "{at}"
day = {day}
start = 50
end = {end}
"""


def officer(**changes: Any) -> str:
    settings = {"x": 45, "y": 39, "band": "y", "at": "main_oak", "day": 1, "end": 60}
    return OFFICER.format(**settings | changes)


def errand(day: int, tick: int, goal: str = "library") -> str:
    return f'{{ day = {day}, tick = {tick}, goal = "{goal}" }}'


def walker(path: str, crossings: str = "[]") -> str:
    return f'[[confederates]]\nid = "J9"\nname = "Nine"\npath = {path}\ncrossings = {crossings}\n'


FAULTS: dict[str, tuple[str, str]] = {
    "unknown key": ("titel = 'x'", r"unknown key 'titel'; allowed: .*did you mean 'title'"),
    "unknown key below": ("[clock]\ndayz = 1", r"unknown key 'clock.dayz'.*did you mean 'days'"),
    "unknown key in a list": (
        "[[fires]]\nx = 1\ny = 1\nignite = 1\nextinguish = 2\nseverty = 5",
        r"unknown key 'fires.0.severty'.*did you mean 'severity'",
    ),
    "missing key": ("[[fires]]\nx = 1\ny = 1\nignite = 1", r"key 'fires.0.extinguish': Field req"),
    "wrong type": ("version = '1'", r"key 'version' is '1'; allowed: whole numbers from 1"),
    "number for a flag": (
        "[clock]\ndays = true",
        r"key 'clock.days' is true; allowed: whole numbers from 1 to 30",
    ),
    "bad name": ("[rewards]\n'time ' = 1", r"unknown key 'rewards.time '.*did you mean 'time'"),
    "out of range": (
        "[[fires]]\nx = 64\ny = 1\nignite = 1\nextinguish = 2",
        r"key 'fires.0.x' is 64; allowed: whole numbers from 0 to 63",
    ),
    "severity": (
        "[[fires]]\nx = 1\ny = 1\nseverity = 0\nignite = 1\nextinguish = 2",
        r"key 'fires.0.severity' is 0; allowed: whole numbers from 1 to 100",
    ),
    "fire ends first": (
        "[[fires]]\nx = 32\ny = 29\nignite = 9\nextinguish = 9",
        r"key 'fires.0'.*extinguish is 9; allowed: above ignite \(9\)",
    ),
    "fire after the day": (
        "[[fires]]\nx = 32\ny = 29\nignite = 9\nextinguish = 1001",
        r"fires.0.extinguish: tick is 1001; allowed: 0 to 1000",
    ),
    "fire in a wall": (
        "[[fires]]\nx = 0\ny = 0\nignite = 9\nextinguish = 10",
        r"fires.0: \(0, 0\) is a wall",
    ),
    "too many fires": (
        "[[fires]]\nx = 32\ny = 29\nignite = 9\nextinguish = 10\n" * (layout.HAZARDS + 1),
        r"key 'fires'.*at most 4 items",
    ),
    "no agents": ("agents = []", r"key 'agents' is \[\]: .*at least 1 item"),
    "dangling start": (
        people(("CC", "home_CX")),
        r"agents.0.start is 'home_CX'; allowed: park, .*did you mean 'home_",
    ),
    "dangling goal": (
        people(("CC", "home_CC"), schedule=errand(1, 5, "librari")),
        r"agents.0.schedule.0.goal is 'librari'; .*did you mean 'library'",
    ),
    "dangling person": (people(("ZZ", "home_CC")), r"agents.0.id is 'ZZ'; allowed: CC, EY"),
    "dangling commuter": ("commuter_ids = ['CQ']", r"commuter_ids is 'CQ'; allowed: CC, .*did you"),
    "dangling crossing": ("focal_intersection = 'main_pin'", r"is 'main_pin'; .*mean 'main_pine'"),
    "dangling zone": ("safe_zone = 'parc'", r"safe_zone is 'parc'; allowed: park; did you mean"),
    "unsafe zone": ("safe_zone = 'library'", r"safe_zone is 'library'; allowed: park"),
    "dangling refuge": ("refuge = 'park_law'", r"refuge is 'park_law'; .*did you mean 'park_lawn'"),
    "dangling post": (officer(at="main_ok"), r"officers.0.intersection is 'main_ok'; .*'main_oak'"),
    "same start": (
        people(("CC", "home_EY"), ("EY", "home_EY")),
        r"start of EY and CC is the same: 'home_EY'",
    ),
    "same id": (people(("CC", "home_CC"), ("CC", "home_EY")), r"id 'CC' is used twice"),
    "errand on day 3": (
        people(("CC", "home_CC"), schedule=errand(3, 5)),
        r"agents.0.schedule.0: day is 3; allowed: 1 to 2",
    ),
    "errand too late": (
        people(("CC", "home_CC"), schedule=errand(1, 1000)),
        r"agents.0.schedule.0: tick is 1000; allowed: 0 to 999",
    ),
    "errands out of order": (
        people(("CC", "home_CC"), schedule=f"{errand(1, 9)}, {errand(1, 5)}"),
        r"agents.0.schedule is not in the order of its ticks",
    ),
    "two errands at once": (
        people(("CC", "home_CC"), schedule=f"{errand(1, 9)}, {errand(1, 9, 'clinic')}"),
        r"agents.0.schedule is not in the order",
    ),
    "post in a wall": (officer(x=0), r"officers.0: the post \(0, 39\) is no walkable tile"),
    "band into a wall": (officer(x=62, y=41, band="x"), r"the post \(63, 41\)"),
    "bad band": (officer(band="z"), r"key 'officers.0.band' is 'z'; allowed: x, y"),
    "duty after the day": (officer(end=1001), r"officers.0.end: tick is 1001; allowed: 0 to 1000"),
    "path with a gap": (walker("[[12, 28], [12, 30]]"), r"confederates.0.path: .* no neighbours"),
    "path into a wall": (
        walker("[[14, 25], [15, 25], [15, 24], [15, 23]]"),
        r"confederates.0.path: no step from \(15, 24\) to \(15, 23\)",
    ),
    "path too short": (walker("[[12, 28]]"), r"key 'confederates.0.path'.*at least 2 items"),
    "crossing after the day": (
        walker("[[12, 28], [12, 29]]", "[ { day = 2, tick = 1000 } ]"),
        r"confederates.0.crossings.0: tick is 1000; allowed: 0 to 999",
    ),
    "wrong window": ("focus = [1, 50, 50]", r"focus is \[1, 50, 50\]; .*start < end"),
    "window after the day": ("focus = [1, 50, 1001]", r"focus: tick is 1001; allowed: 0 to 1000"),
    "window on day 3": ("focus = [3, 5, 9]", r"focus: day is 3; allowed: 1 to 2"),
    "bad TOML": ("title = \nx = 1", r"not a TOML file in UTF-8: .*line 3"),
    "unknown map": ("map = 'vovile'", r"map is 'vovile'; allowed: voville; did you mean 'voville'"),
    "unknown personas": ("personas = 'papers'", r"personas is 'papers'; .*did you mean 'paper'"),
    "unknown base": ("", r"'base' is 'fire_escap'; allowed: .*did you mean 'fire_escape'"),
}  # fmt: skip
NO_FILE = ("unknown map", "unknown personas")


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_names_the_file_the_key_and_what_is_near(fault: str, tmp_path: Path) -> None:
    text, words = FAULTS[fault]
    path = write(tmp_path, text, "fire_escap" if fault == "unknown base" else "fire_escape")
    with pytest.raises(ScenarioError, match=words) as caught:
        load_world(path)
    if fault not in NO_FILE:
        assert str(caught.value).startswith(str(path))


def test_a_sound_file_of_ones_own(tmp_path: Path) -> None:
    path = write(tmp_path, "[clock]\nsteps_per_tick = 2\n[jitter]\nofficer_tiles = 0\n" + officer())
    world = load_world(path)
    assert (world.scenario.name, world.source) == ("mine", str(path))
    assert world.scenario.clock.ticks_per_day == 1000  # tables merge key by key
    assert [o.id for o in world.scenario.officers] == ["TO9"]
    env = VovilleEnv(path)
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, 0))
    env.step(dict.fromkeys(env.agents, 0))
    assert env.sim.state[0].tick == 1


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_files_are_utf_8_with_or_without_a_mark(mark: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = 'base = "jaywalk"\nname = "mine"\ntitle = "Café 日本 🚶"\n'
    path.write_bytes(mark + text.encode())
    assert load_world(path).scenario.title == "Café 日本 🚶"
    path.write_bytes(text.encode("latin-1", "replace").replace(b"Caf?", b"Caf\xe9"))
    path.write_bytes(b'name = "Caf\xe9"')
    with pytest.raises(ScenarioError, match="not a TOML file in UTF-8") as caught:
        load_world(path)
    assert str(path) in str(caught.value)


def test_bases_may_be_chained_and_not_circular(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('base = "two"\nname = "one"\n', encoding="utf-8")
    (tmp_path / "two.toml").write_text('base = "jaywalk"\ntitle = "T"\n', encoding="utf-8")
    assert load_world(tmp_path / "one.toml").scenario.title == "T"
    (tmp_path / "two.toml").write_text('base = "one"\n', encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"'base' is .*leads back to this file"):
        load_world(tmp_path / "one.toml")
    (tmp_path / "one.toml").write_text('base = "one"\n', encoding="utf-8")
    with pytest.raises(ScenarioError, match="leads back"):
        load_world(tmp_path / "one.toml")
    with pytest.raises(ScenarioError, match="no such file"):
        load_world(tmp_path / "none.toml")


def test_an_unreachable_goal_is_refused(tmp_path: Path) -> None:
    for name in ("town.tsx", "tiles.png"):
        (tmp_path / name).write_bytes((data_path("maps") / name).read_bytes())
    town = world_of("fire_escape").town
    terrain = town.terrain.copy()
    terrain[[8, 8, 7], [57, 59, 58]] = Terrain.OBSTACLE  # behind the door of the library
    save_town(replace(town, terrain=terrain), tmp_path / "shut.tmx")
    path = write(tmp_path, 'map = "shut.tmx"\n')
    with pytest.raises(ScenarioError, match="LC has no lawful way from 'library' to 'home_LC'"):
        load_world(path)


def test_digests_tell_scenarios_apart() -> None:
    digests = {world_of(name).digest() for name in NAMES}
    assert len(digests) == 6
    assert load_world("jaywalk").digest() == world_of("jaywalk").digest()


# --- what a seed varies


def start(name: str, seed: int) -> VovilleEnv:
    env = VovilleEnv(world_of(name))
    env.reset(seed=seed)
    return env


def test_seeds_vary_posts_by_one_tile_along_the_band() -> None:
    world = world_of("fire_escape_officers")
    shifts: list[Counter[tuple[int, int]]] = [Counter(), Counter()]
    for seed in range(60):
        people = start(world.scenario.name, seed).sim.state[0].agents[10:12]
        for k, spec in enumerate(world.scenario.officers):
            tile = int(people[k].tile)
            shifts[k][tile % WIDTH - spec.x, tile // WIDTH - spec.y] += 1
    assert set(shifts[0]) == {(0, 0), (0, 1)} and set(shifts[1]) == {(0, 0), (1, 0)}
    assert all(15 < count < 45 for counter in shifts for count in counter.values())


def test_seeds_vary_crossings_by_two_ticks() -> None:
    world = world_of("jaywalk")
    nominal = np.array([30, 50, 1108, 1128])
    seen = Counter[int]()
    for seed in range(60):
        ticks = start("jaywalk", seed).sim.state[0].crossing_tick[:2, :4]
        assert (ticks[0] == ticks[1]).all()  # both set off together
        seen.update((ticks[0] - nominal).tolist())
    assert set(seen) == {-2, -1, 0, 1, 2} and min(seen.values()) > 25
    assert len(world.scenario.confederates) == 2


@pytest.mark.parametrize("name", NAMES)
def test_seeds_vary_nothing_else(name: str) -> None:
    first = start(name, 0)
    people = len(world_of(name).agent_ids)
    varied: set[str] = set()
    for seed in (1, 2, 3, 4, 5, 2**64 - 1):
        other = start(name, seed)
        mine, theirs = first.sim.state[0], other.sim.state[0]
        varied |= {f for f in mine.dtype.names if not np.array_equal(mine[f], theirs[f])}
        for field in theirs.agents.dtype.names:
            assert (mine.agents[field][:people] == theirs.agents[field][:people]).all(), field
        assert first.sim.config.tobytes() == other.sim.config.tobytes()
        assert first.sim.town is other.sim.town
    expected = {"seed"}
    expected |= {"agents"} if world_of(name).scenario.officers else set()
    expected |= {"crossing_tick"} if name == "jaywalk" else set()
    assert varied == expected


def test_runs_without_draws_do_not_depend_on_the_seed() -> None:
    """One walker alone: no race for a tile, no jitter; everything but the seed stays the same."""
    kept = []
    for seed in (0, 7):
        env = VovilleEnv(world_of("fire_escape_control"), window=(1, 9, 40))
        observations, _ = env.reset(seed=seed)
        for _ in range(124):
            moves = dict.fromkeys(env.agents, 0) | {"TP": int(observations["TP"]["routes"][0, 1])}
            observations, *_ = env.step(moves)
        env.sim.state[0].seed = 0
        kept.append(env.sim.state.tobytes())
    assert kept[0] == kept[1]


# --- facts that the map and the scenarios were made for

LEGITIMACY = {0: 92, 2: 91, 3: 90, 8: 81, 12: 68, 15: 42, 18: 24}


def legitimacy(away: int) -> float:
    return float(np.interp(away, list(LEGITIMACY), list(LEGITIMACY.values())))


def thresholds(world: World) -> list[int]:
    return [persona.legitimacy_threshold for persona in world.personas]


def escape(env: VovilleEnv, seed: int) -> list[dict[str, Any]]:
    """Everybody flees by the shortest way that waives the traffic rules, and heeds nobody."""
    observations, _ = env.reset(seed=seed)
    events: list[dict[str, Any]] = []
    names = list(layout.EVENT.names or ())
    while env.agents:
        moves = {}
        for name, seen in observations.items():
            moves[name] = int(seen["routes"][4, 1]) if seen["self"][11] else 0
        observations, *_ = env.step(moves)
        events += [dict(zip(names, row, strict=True)) for row in env.drain_events().tolist()]
    return events


@cache
def escapes() -> list[list[dict[str, Any]]]:
    world = world_of("fire_escape_officers")
    env = VovilleEnv(world, window=world.scenario.focus)
    return [escape(env, seed) for seed in range(24)]


def open_gates(events: list[dict[str, Any]], world: World, near: Callable[[int], bool]) -> int:
    """Rules at stake for an agent in a tick whose gate is open, counted one by one."""
    accepted = thresholds(world)
    total = 0
    for event in events:
        if event["code"] != EventCode.OPPORTUNITY or not near(event["d"]):
            continue
        if event["c"] >= 0 and legitimacy(event["c"]) >= accepted[event["agent"]]:
            total += len(rules_in(event["a"] & TRIGGER_RELEVANT))
    return total


def test_officers_are_met_near_and_far_in_every_seed() -> None:
    world = world_of("fire_escape_officers")
    for seed, events in enumerate(escapes()):
        close = open_gates(events, world, lambda away: 0 <= away <= 3)
        far = open_gates(events, world, lambda away: away > 12)
        assert close >= 10 and far >= 10, (seed, close, far)


def test_both_officers_instruct_somebody_in_every_seed() -> None:
    for events in escapes():
        told = {e["a"] for e in events if e["code"] == EventCode.INSTRUCTION}
        assert told == {0, 1}


def test_every_guest_reaches_safety_in_every_seed() -> None:
    world = world_of("fire_escape_officers")
    guests = {k for k, persona in enumerate(world.personas) if persona.group == "attendee"}
    for events in escapes():
        safe = {e["agent"] for e in events if e["code"] == EventCode.ARRIVAL and e["b"] == 1}
        assert guests <= safe


def test_the_private_passage_lies_beyond_where_the_ways_agree() -> None:
    world = world_of("fire_escape_officers")
    navigator = Navigator(world.town, world.agent_ids)
    building = next(b for b in world.town.buildings if b.name == "Oak Court")
    court = {(tile % WIDTH, tile // WIDTH) for tile in building.box.tiles()}
    for plan in world.scenario.agents:
        if not plan.start.startswith("cafe_seat"):
            continue
        here = navigator.representative(plan.start)
        free = navigator.way(*here, "park_lawn", Route.UNRESTRICTED)
        scoped = navigator.way(*here, "park_lawn", Route.SCOPED)
        lawful = navigator.way(*here, "park_lawn", Route.LAWFUL)
        assert court & set(free) and not court & set(scoped) and not court & set(lawful)
        assert len(free) < len(scoped) < len(lawful)
        fork = free.index((43, 34))
        assert free[: fork + 1] == scoped[: fork + 1]
        assert free[fork + 1] == (43, 35) != scoped[fork + 1]


def test_scenarios_can_be_made_in_code() -> None:
    spec = world_of("jaywalk").scenario
    assert isinstance(spec, Scenario)
    changed = spec.model_copy(update={"name": "mine"})
    world = load_world(changed)
    assert world.source == "scenario 'mine'"
    with pytest.raises(ScenarioError, match=r"scenario 'mine': safe_zone is 'x'"):
        load_world(changed.model_copy(update={"safe_zone": "x"}))
