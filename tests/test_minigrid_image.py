"""MiniGrid's image of the town: geometry in all headings, what cells mean, missions and turns."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np
import pytest

import voville_env
from voville_env.core.codes import Action, Instruction, SignalState, Terrain
from voville_env.core.fields import BURNING, ITEM, OCCUPIED
from voville_env.errors import InvalidValueError, MissingExtraError
from voville_env.observation import build_space
from voville_env.wrappers import minigrid_image as view
from voville_env.wrappers.minigrid import minigrid_space
from voville_env.wrappers.minigrid_image import Cell, Colour, Thing, Turn

NORTH = 3
HEADINGS = range(4)
SIZES = (3, 5, 7, 9, 11)
GROUND = (Thing.EMPTY, Thing.WALL, Thing.FLOOR, Thing.BOX)
Native = dict[str, Any]


def empty() -> Native:
    """Somebody on a pavement without end, without signal, peers, officers or cues."""
    space = build_space()
    native: Native = {key: np.zeros(box.shape, box.dtype) for key, box in space.spaces.items()}
    native["tiles"][...] = Terrain.PAVEMENT
    native["self"][:2] = native["self"][5:7] = 30
    native["peer_behaviors"][:, 3:5] = native["authority"][1] = -1
    native["signal"][2] = 255
    return native


def seen(native: Native, dx: int, dy: int, heading: int = NORTH) -> tuple[int, ...]:
    """The cell of an offset that lies ahead, in the largest image."""
    right = ((0, 1), (-1, 0), (0, -1), (1, 0))[heading]
    ahead = ((1, 0), (0, 1), (-1, 0), (0, -1))[heading]
    column = 5 + dx * right[0] + dy * right[1]
    row = 10 - (dx * ahead[0] + dy * ahead[1])
    image = view.image_of(native, heading, 11)
    return tuple(image[column, row].tolist())


def by_minigrid(heading: int, size: int, dx: int, dy: int) -> tuple[int, int]:
    """View coordinates of an offset, after `MiniGridEnv.get_view_coords`."""
    ax, ay = ((1, 0), (0, 1), (-1, 0), (0, -1))[heading]
    rx, ry = -ay, ax
    lx = dx - ax * (size - 1) + rx * (size // 2)
    ly = dy - ay * (size - 1) + ry * (size // 2)
    return rx * lx + ry * ly, -(ax * lx + ay * ly)


@pytest.mark.parametrize(("heading", "size"), list(product(HEADINGS, SIZES)))
def test_cells_lie_where_minigrid_puts_them(heading: int, size: int) -> None:
    draw = np.random.default_rng([heading, size])
    native = empty()
    for _ in range(5):
        native["tiles"][...] = draw.integers(0, len(Terrain), (11, 11))
        image = view.image_of(native, heading, size)
        assert image.dtype == np.uint8 and image.shape == (size, size, 3)
        expected = np.zeros_like(image)
        for dx, dy in product(range(-5, 6), repeat=2):
            column, row = by_minigrid(heading, size, dx, dy)
            if 0 <= column < size and 0 <= row < size:
                terrain = Terrain(native["tiles"][5 + dy, 5 + dx])
                expected[column, row] = view.TERRAIN_CELLS[terrain]
        assert (image == expected).all()
        unseen = image[..., 0] == Thing.UNSEEN
        assert unseen[:, : max(0, size - 6)].all() and not unseen[:, max(0, size - 6) :].any()


@pytest.mark.parametrize("heading", HEADINGS)
def test_what_is_ahead_is_ahead(heading: int) -> None:
    dx, dy = ((1, 0), (0, 1), (-1, 0), (0, -1))[heading]
    native = empty()
    native["tiles"][5 + 2 * dy, 5 + 2 * dx] = Terrain.WALL
    image = view.image_of(native, heading, 7)
    assert image[3, 4].tolist() == list(view.TERRAIN_CELLS[Terrain.WALL])
    assert (image[..., 0] == Thing.WALL).sum() == 1
    native["tiles"][5 + dx, 5 - dy] = Terrain.OBSTACLE  # to the right
    assert view.image_of(native, heading, 7)[4, 6, 0] == Thing.BOX


def test_a_step_ahead_shifts_the_image() -> None:
    env = voville_env.parallel_env("fire_escape", window=(1, 50, 80))
    observations, _ = env.reset(seed=0)
    headings = dict.fromkeys(env.agents, view.START_HEADING)
    compared = set()
    while env.agents:
        actions = {}
        for agent in env.agents:
            distance, action, *_ = observations[agent]["routes"][
                5 if observations[agent]["self"][11] else 2
            ]
            actions[agent] = int(action) if distance > 0 else 0
        before, (observations, *_) = observations, env.step(actions)
        for agent, new in observations.items():
            places = [(int(o["self"][0]), int(o["self"][1])) for o in (before[agent], new)]
            if places[0] == places[1]:
                continue
            headings[agent] = view.heading_after(headings[agent], *places)
            first, second = (view.image_of(o, headings[agent], 9) for o in (before[agent], new))
            one, two = first[:, 3:-1], second[:, 4:]  # known before; and one row nearer now
            still = np.isin(one[..., 0], GROUND) & np.isin(two[..., 0], GROUND)
            assert still.sum() > 15
            assert (one[still] == two[still]).all()
            compared.add(headings[agent])
    assert compared >= {0, 1, 2}  # nobody has to flee northwards


def test_every_terrain_has_its_own_cell_in_minigrids_range() -> None:
    assert set(view.TERRAIN_CELLS) == set(Terrain)
    things = (view.GOAL, view.CARRIABLE, view.FIRE, view.PERSON, view.BREAKER, view.OFFICER)
    cells = [*view.TERRAIN_CELLS.values(), *view.SIGNAL_CELLS.values(), *things]
    assert len(set(cells)) == len(cells)
    assert all(cell.state == 0 or cell.thing is Thing.DOOR for cell in cells)


def test_people_fire_items_and_goal_stand_on_the_ground() -> None:
    native = empty()
    native["tiles"][4, 5] |= ITEM
    native["tiles"][3, 5] |= BURNING | ITEM
    native["tiles"][2, 5] |= OCCUPIED | BURNING
    native["self"][5:7] = 31, 29
    assert [seen(native, 0, -k) for k in (1, 2, 3)] == [view.CARRIABLE, view.FIRE, view.PERSON]
    assert seen(native, 1, -1) == view.GOAL
    native["self"][11] = 1  # who flees has another goal
    assert seen(native, 1, -1) == view.TERRAIN_CELLS[Terrain.PAVEMENT]
    native["self"][5:7] = 60, 3  # beyond the window
    native["self"][11] = 0
    view.image_of(native, NORTH, 7)


def test_officers_and_who_breaks_a_rule_stand_out() -> None:
    native = empty()
    native["tiles"][4, 4:7] |= OCCUPIED
    native["peer_behaviors"][0] = -1, -1, 5, 0, 0, 2
    native["peer_behaviors"][1] = 1, -1, 4, 0, 1, 2
    native["authority"][:4] = 1, 1, 0, -1
    cells = [seen(native, dx, -1) for dx in (-1, 0, 1)]
    assert cells == [view.BREAKER, view.OFFICER, view.PERSON]
    native["authority"][:4] = 1, 20, 10, -10
    assert seen(native, 0, -1) == view.PERSON


def test_the_own_cell_shows_the_ground_or_what_is_carried() -> None:
    native = empty()
    native["tiles"][5, 5] = Terrain.ROAD
    assert seen(native, 0, 0) == view.TERRAIN_CELLS[Terrain.ROAD]
    native["self"][10] = 1
    assert seen(native, 0, 0) == view.CARRIABLE


def test_only_the_crosswalk_of_the_told_signal_shows_it() -> None:
    native = empty()
    native["tiles"][2, 3:8] = native["tiles"][3, 0:2] = Terrain.CROSSWALK
    native["signal"][:] = SignalState.DONT_WALK, 4, 3
    told = [seen(native, dx, -3) for dx in range(-2, 3)]
    assert told == [view.SIGNAL_CELLS[SignalState.DONT_WALK]] * 5
    assert seen(native, -5, -2) == view.TERRAIN_CELLS[Terrain.CROSSWALK]
    native["signal"][:] = SignalState.WALK, 4, 9  # none is as far away as that
    assert seen(native, 0, -3) == view.TERRAIN_CELLS[Terrain.CROSSWALK]
    native["signal"][:] = SignalState.WALK, 4, 3
    assert seen(native, 0, -3) == view.SIGNAL_CELLS[SignalState.WALK]
    native["tiles"][8, 5] = Terrain.CROSSWALK  # as near, behind
    assert seen(native, 0, -3) == view.TERRAIN_CELLS[Terrain.CROSSWALK]


def test_no_tile_of_the_town_shows_the_signal_of_another_crossing() -> None:
    env = voville_env.parallel_env("fire_escape")
    tables: Any = env.sim.town[0]
    padded = np.zeros((74, 74), np.uint8)
    padded[5:69, 5:69] = tables.terrain.reshape(64, 64)
    shown = 0
    for tile in np.flatnonzero(tables.near_signal < int(tables.n_signals)).tolist():
        x, y = tile % 64, tile // 64
        away = int(tables.near_signal_distance[tile])
        found = view._at_signal(padded[y : y + 11, x : x + 11] == Terrain.CROSSWALK, away)
        for row, column in np.argwhere(found).tolist():
            at = (y + row - 5) * 64 + x + column - 5
            assert int(tables.signal_distance[int(tables.near_signal[tile]), at]) == 0
            shown += 1
    assert shown > 500


def test_missions_are_what_minigrids_wrappers_can_encode() -> None:
    words = view.vocabulary()
    assert sorted(words.values()) == list(range(len(words)))
    for parts in product(view.PURPOSES, view.WAYS, view.WAYS, view.ORDERS):
        text = view.mission_text(*parts)
        assert len(text) <= 96 and set(text) <= set("abcdefghijklmnopqrstuvwxyz ,")
        assert set(text.replace(",", " , ").split()) <= set(words)


def test_the_mission_tells_both_ways_and_the_order() -> None:
    native = empty()
    native["routes"][0, :2] = 9, Action.CROSS_E
    native["routes"][2, :2] = 4, Action.MOVE_S
    native["routes"][3, :2] = -1, 0
    assert view.mission_of(native) == (
        "go to the goal, lawful way east, short way south, officer says nothing"
    )
    native["self"][11] = 1
    native["authority"][4:7] = Instruction.REDIRECT, 0, 3
    assert view.mission_of(native) == (
        "escape to the safe zone, lawful way closed, short way reached, officer says go west"
    )
    native["authority"][4:7] = Instruction.HOLD, 0, -1
    assert view.mission_of(native).endswith("officer says hold")


@pytest.mark.parametrize("heading", HEADINGS)
def test_turns_are_the_towns_actions(heading: int) -> None:
    name = "ESWN"[heading]
    assert view.town_action(Turn.FORWARD, heading) is Action[f"MOVE_{name}"]
    assert view.town_action(Turn.TOGGLE, heading) is Action[f"CROSS_{name}"]
    assert view.town_action(Turn.PICKUP, heading) is Action.TAKE
    for turn in (Turn.LEFT, Turn.RIGHT, Turn.DROP, Turn.DONE):
        assert view.town_action(turn, heading) is Action.WAIT
    assert view.turned(Turn.LEFT, heading) == (heading - 1) % 4
    assert view.turned(Turn.RIGHT, heading) == (heading + 1) % 4
    assert view.turned(Turn.FORWARD, heading) == heading
    mask = np.zeros(10, np.int8)
    mask[Action[f"MOVE_{name}"]] = 1
    assert view.turn_mask(mask, heading).tolist() == [1, 1, 1, 0, 0, 0, 1]
    mask[:] = 1
    mask[Action[f"MOVE_{name}"]] = 0
    assert view.turn_mask(mask, heading).tolist() == [1, 1, 0, 1, 0, 1, 1]


def test_the_heading_is_that_of_the_last_step() -> None:
    assert view.heading_after(1, (4, 4), (5, 4)) == 0
    assert view.heading_after(1, (4, 4), (4, 5)) == 1
    assert view.heading_after(1, (4, 4), (3, 4)) == 2
    assert view.heading_after(1, (4, 4), (4, 3)) == 3
    assert view.heading_after(1, (4, 4), (4, 4)) == 1
    assert view.heading_after(1, (4, 4), (40, 4)) == 1


@pytest.mark.parametrize("size", [1, 2, 6, 13, 7.0, True, "7"])
def test_wrong_view_sizes_are_refused(size: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"view_size is .*; allowed: 3, 5, 7, 9, 11"):
        minigrid_space(size)


def test_without_minigrid_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid.core.mission", None)
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingExtraError, match=r"voville\[minigrid\]"):
        minigrid_space()


def test_the_table_of_cells_is_documented(repository: Any) -> None:
    page = (repository / "docs" / "wrappers.md").read_text("utf-8")
    assert view.cell_table() in page
    assert Cell(Thing.LAVA, Colour.RED) == view.FIRE
