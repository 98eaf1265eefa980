"""One observation, three views: the field table, the typed record and the text say the same."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from voville_env import testing
from voville_env.core import fields, layout
from voville_env.core.codes import (
    NONE,
    Action,
    Behaviour,
    CueType,
    Direction,
    Instruction,
    Rule,
    SignalState,
    Terrain,
)
from voville_env.core.fields import FIELDS, column_index, markdown_table
from voville_env.observation import (
    BEHAVIOUR_TEXT,
    CUE_TEXT,
    ROUTE_NAMES,
    RULE_TEXT,
    build_space,
    compass,
    glyph,
    narrate,
    to_context,
)
from voville_env.parallel import VovilleEnv

Observation = dict[str, np.ndarray[Any, Any]]


def walk(observations: Any, infos: Any) -> dict[str, int]:
    return {
        name: int(seen["routes"][4 if seen["self"][11] else 1, 1])
        for name, seen in observations.items()
    }


@pytest.fixture(scope="module")
def seen() -> list[Observation]:
    """What everybody saw in eventful parts of the scenarios."""
    found: list[Observation] = []
    for name, window in (("fire_escape_officers", (1, 48, 75)), ("jaywalk", (1, 28, 60))):
        env = VovilleEnv(name, window=window)
        for number, frame in enumerate(testing.play(env, 2, None, walk)):
            if number % 3 == 0:
                found += frame.observations.values()
    return found


# --- the field table


def test_spaces_buffers_and_table_agree() -> None:
    space = build_space()
    assert (
        set(space.spaces) == {field.name for field in FIELDS} == set(layout.OBSERVATION.names or ())
    )
    for field in FIELDS:
        box = space[field.name]
        assert isinstance(box, spaces.Box)
        assert box.dtype == np.dtype(field.dtype) and box.shape == field.shape
        buffer = layout.OBSERVATION[field.name]
        assert (buffer.base, buffer.shape) == (box.dtype, box.shape)
        low, high = field.bounds()
        assert (box.low == low).all() and (box.high == high).all() and (low < high).all()
        for k, column in enumerate(field.columns):
            assert column_index(field.name, column.name) == k
            assert column.unit and column.meaning


def test_the_table_of_the_readme_lists_every_field_and_column() -> None:
    lines = markdown_table().splitlines()
    assert len(lines) == 2 + len(FIELDS)
    for field, line in zip(FIELDS, lines[2:], strict=True):
        assert line.startswith(f"| `{field.name}` | ") and line.count("|") == 4
        assert "×".join(map(str, field.shape)) + f" {field.dtype}" in line
        assert field.meaning in line
        if field.name in ("self", "routes", "authority", "peer_behaviors", "situational_cues"):
            assert all(f"`{column.name}`" in line for column in field.columns)


def test_codes_fit_their_columns() -> None:
    for field, column, codes in [
        ("peer_behaviors", "behaviour", Behaviour),
        ("peer_behaviors", "rule", Rule),
        ("situational_cues", "type", CueType),
        ("authority", "instruction", Instruction),
        ("authority", "direction", Direction),
        ("signal", "state", SignalState),
        ("routes", "next_action", Action),
    ]:
        entry = fields.FIELD[field].columns[column_index(field, column)]
        assert entry.high == max(codes) and entry.low <= min(codes), (field, column)
        assert entry.unit == codes.__name__
    assert max(Terrain) <= fields.TERRAIN_MASK
    assert [f.name for f in fields.FIELD["action_mask"].columns] == [a.name.lower() for a in Action]
    assert set(BEHAVIOUR_TEXT) == set(Behaviour) - {Behaviour.NONE}
    assert set(RULE_TEXT) == set(Rule) and set(CUE_TEXT) == set(CueType) - {CueType.NONE}


# --- the typed record


def arrays_of(context: Any) -> Observation:
    """The arrays again, from the record alone."""

    def number(value: int | None) -> int:
        return NONE if value is None else int(value)

    made = {f.name: np.zeros(f.shape, f.dtype) for f in FIELDS}
    c = context
    made["self"][:] = [
        *c.position, c.day, c.tick, c.step, *c.goal, c.late, c.at_goal, c.blocked, c.carrying,
        c.escaping,
    ]  # fmt: skip
    for row, name in zip(made["routes"], ROUTE_NAMES, strict=True):
        way = c.ways[name]
        bits = sum(1 << rule for rule in way.rules)
        row[:] = [number(way.distance), way.next_action, bits, way.wait]
    made["authority"][:] = [
        c.authority_present, number(c.authority_distance_tiles), *c.authority_offset,
        c.instruction, number(c.instruction_officer), number(c.instruction_direction),
        c.instruction_ticks_left,
    ]  # fmt: skip
    made["peer_behaviors"][:, 3:5] = NONE
    for row, peer in zip(made["peer_behaviors"], c.peer_behaviors, strict=False):
        rule, followed = number(peer.rule), number(peer.followed)
        row[:] = [peer.dx, peer.dy, peer.behaviour, rule, followed, peer.age]
    made["situational_cues"][:, 1] = NONE
    for row, cue in zip(made["situational_cues"], c.situational_cues, strict=False):
        row[:] = [cue.type, cue.distance_tiles, cue.severity, cue.dx, cue.dy]
    made["signal"][:] = [
        c.signal,
        c.signal_ticks,
        255 if c.signal_distance is None else c.signal_distance,
    ]
    made["rules"][0, list(c.rules_in_force)] = 1
    made["rules"][1, list(c.rules_at_stake)] = 1
    made["tiles"][:] = c.tiles
    made["action_mask"][list(c.possible)] = 1
    return made


def test_nothing_is_lost_in_the_typed_record(seen: list[Observation]) -> None:
    assert len(seen) > 600
    for observation in seen:
        again = arrays_of(to_context(observation))
        for key, array in observation.items():
            assert again[key].dtype == array.dtype
            np.testing.assert_array_equal(again[key], array, err_msg=key)


def test_what_was_seen_was_worth_it(seen: list[Observation]) -> None:
    """Every column but a few took several values, or the tests here would show little."""
    constant = set()
    for field in FIELDS:
        stacked = np.stack([observation[field.name] for observation in seen])
        for k, column in enumerate(field.columns):
            if len(np.unique(stacked[..., k])) == 1:
                constant.add((field.name, column.name))
    assert constant <= {("self", "day"), ("self", "carrying"), ("action_mask", "wait")}, constant


def test_the_record_is_frozen_and_strict(seen: list[Observation]) -> None:
    context = to_context(seen[0])
    with pytest.raises(ValueError, match="frozen"):
        context.tick = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="extra"):
        type(context).model_validate({**context.model_dump(), "mood": "good"})
    assert type(context).model_validate_json(context.model_dump_json()) == context


def test_the_published_context_has_exactly_the_keys_of_the_paper(seen: list[Observation]) -> None:
    for observation in seen:
        context = to_context(observation)
        published = context.published()
        assert list(published) == [
            "authority_present",
            "authority_distance_tiles",
            "peer_behaviors",
            "situational_cues",
            "scene_summary",
        ]
        away = published["authority_distance_tiles"]
        assert (away == "inf") is (published["authority_present"] is False)
        assert away == "inf" or 0 <= away <= 20
        assert all(isinstance(text, str) and text for text in published["peer_behaviors"])
        for cue in published["situational_cues"]:
            assert list(cue) == ["type", "distance_tiles", "severity"]
            assert cue["type"] in CUE_TEXT.values() and 1 <= cue["severity"] <= 100
        assert published["scene_summary"].endswith(".")
        assert published["scene_summary"].count(". ") == 0  # one sentence
        severities = [cue["severity"] for cue in published["situational_cues"]]
        assert severities == sorted(severities, reverse=True)
        steps = [abs(p.dx) + abs(p.dy) for p in context.peer_behaviors]
        assert steps == sorted(steps)


# --- the text


def facts_of(text: str) -> dict[str, Any]:
    """Reads a narration back."""
    lines = text.splitlines()
    head = re.match(
        r"Day (\d+), tick (\d+), step (\d+)\. You are at \((\d+), (\d+)\); "
        r"your goal is at \((\d+), (\d+)\)\.",
        lines[0],
    )
    assert head is not None
    flags = re.findall(r": (True|False)", lines[1])
    cues = re.findall(
        r"^- (fire|time pressure|conversation): distance (\d+), severity (\d+) \((.*)\)$",
        text,
        re.M,
    )
    peers = re.findall(r"^- (A person .*), (\d+) ticks ago\.$", text, re.M)
    ways = re.findall(
        r"^- (\w+) way to the (goal|safe zone): (?:none|(\d+) steps, first (\w+), "
        r"red wait (\d+) ticks, breaks next: (.*))\.$",
        text,
        re.M,
    )
    order = re.search(r"^Officer (\d+) orders: (\w+)(?: towards (\w))?, for (\d+) more", text, re.M)
    return {
        "when": tuple(map(int, head.groups())),
        "flags": [flag == "True" for flag in flags],
        "cues": [(kind, int(away), int(severity), where) for kind, away, severity, where in cues],
        "peers": [(told.partition(" (rule")[0], int(age)) for told, age in peers],
        "ways": ways,
        "officer": re.search(r"officer is in sight at (\d+) tiles \((.*)\)\.$", text, re.M),
        "order": order.groups() if order else None,
        "signal": re.search(
            r"nearest signal, (\d+) tiles away, shows (\w+); it changes in (\d+) ticks", text
        ),
        "force": re.search(r"^Rules in force here: (.*)\.$", text, re.M),
        "stake": re.search(r"^Rules at stake now: (.*)\.$", text, re.M),
        "possible": re.search(r"^Possible: (.*)\.$", text, re.M),
        "map": lines[-fields.WINDOW :],
    }


def rules_text(rules: Any) -> str:
    return "; ".join(RULE_TEXT[rule] for rule in rules) or "none"


def test_the_text_tells_what_the_record_holds(seen: list[Observation]) -> None:
    for observation in seen:
        c, facts = to_context(observation), facts_of(narrate(observation))
        assert facts["when"] == (c.day, c.tick, c.step, *c.position, *c.goal)
        assert facts["flags"] == [c.late, c.at_goal, c.escaping, c.blocked, c.carrying]
        assert facts["cues"] == [
            (CUE_TEXT[cue.type], cue.distance_tiles, cue.severity, compass(cue.dx, cue.dy))
            for cue in c.situational_cues
        ]
        assert facts["peers"] == [(peer.text, peer.age) for peer in c.peer_behaviors]
        for peer in c.peer_behaviors:
            assert (
                peer.text
                == f"A person {compass(peer.dx, peer.dy)} {BEHAVIOUR_TEXT[peer.behaviour]}"
            )
        assert len(facts["ways"]) == 6
        for name, (kind, target, steps, first, wait, broken) in zip(
            ROUTE_NAMES, facts["ways"], strict=True
        ):
            way = c.ways[name]
            assert name == f"{'goal' if target == 'goal' else 'safe'}_{kind}"
            if way.distance is None:
                assert steps == ""
            else:
                told = (int(steps), first, int(wait), broken)
                assert told == (way.distance, way.next_action.name, way.wait, rules_text(way.rules))
        officer = facts["officer"]
        assert (officer is not None) is c.authority_present
        if officer:
            assert int(officer[1]) == c.authority_distance_tiles
            assert officer[2] == compass(*c.authority_offset)
        check_order(c, facts["order"])
        signal = facts["signal"]
        assert (signal is not None) is (c.signal is not SignalState.NONE)
        if signal:
            assert (int(signal[1]), signal[2], int(signal[3])) == (
                c.signal_distance, c.signal.name, c.signal_ticks,
            )  # fmt: skip
        assert facts["force"][1] == rules_text(c.rules_in_force)
        assert facts["stake"][1] == rules_text(c.rules_at_stake)
        assert facts["possible"][1].split(", ") == [action.name for action in c.possible]
        assert facts["map"] == ["".join(glyph(code) for code in row) for row in c.tiles]


def check_order(c: Any, order: Any) -> None:
    assert (order is not None) is (c.instruction is not Instruction.NONE)
    if order:
        officer, kind, towards, ticks = order
        assert (int(officer), kind) == (c.instruction_officer, c.instruction.name)
        assert int(ticks) == c.instruction_ticks_left
        assert towards == (
            None if c.instruction_direction is None else c.instruction_direction.name
        )


def test_glyphs_tell_terrains_and_flags_apart() -> None:
    plain = [glyph(terrain) for terrain in Terrain]
    assert len(set(plain)) == len(Terrain) and not {"@", "!", "*"} & set(plain)
    assert glyph(Terrain.ROAD | fields.OCCUPIED) == "@"
    assert glyph(Terrain.ROAD | fields.BURNING) == "!"
    assert glyph(Terrain.ROAD | fields.ITEM) == "*"


@pytest.mark.parametrize(
    ("offset", "words"),
    [((0, 0), "here"), ((3, -2), "3 east, 2 north"), ((-1, 0), "1 west"), ((0, 4), "4 south")],
)
def test_offsets_in_words(offset: tuple[int, int], words: str) -> None:
    assert compass(*offset) == words


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_member_of_the_space_can_be_told(data: st.DataObject) -> None:
    """What lies in the space can be read and told, wherever in it, not only what towns make."""
    space = build_space()
    space.seed(data.draw(st.integers(0, 2**31)))
    observation = space.sample()
    observation["tiles"] %= len(Terrain)
    for row in observation["situational_cues"]:
        row[2] = max(1, row[2])
    context = to_context(observation)
    text = narrate(observation)
    assert facts_of(text)["when"][:3] == (context.day, context.tick, context.step)
    assert f"Carrying something: {context.carrying}" in text


# --- particular facts


def test_ways_point_where_they_say() -> None:
    env = VovilleEnv("fire_escape", window=(1, 49, 160))
    frames = list(testing.play(env, 0, None, walk))
    nearer = 0
    for before, after in pairwise(frames):
        for name, seen in after.observations.items():
            old = before.observations[name]
            if old["self"][11] and seen["self"][11] and old["routes"][4, 1] and not seen["self"][9]:
                assert old["routes"][4, 0] - 1 == seen["routes"][4, 0]
                nearer += 1
    assert nearer > 300
    for frame in frames:
        for observation in frame.observations.values():
            rows = observation["routes"]
            # A way that keeps more rules is never shorter, and breaks none of them.
            lengths = np.where(rows[:, 0] < 0, 9999, rows[:, 0]).reshape(2, 3)
            assert (np.diff(lengths) <= 0).all() and (lengths[:, 2] < 9999).all()
            assert not (rows[[0, 3], 2] & ~1).any() and not (rows[[1, 4], 2] & ~0b111).any()
            mask = observation["action_mask"]
            assert mask[rows[:, 1]].all()


def test_the_window_shows_the_town_around(seen: list[Observation]) -> None:
    env = VovilleEnv("jaywalk")
    padded = np.pad(env.world.town.terrain, 5, constant_values=int(Terrain.WALL))
    for observation in seen[::7]:
        x, y = observation["self"][:2].tolist()
        around = padded[y : y + 11, x : x + 11]
        assert (observation["tiles"] & fields.TERRAIN_MASK == around).all()
