"""Flat vectors: what the layout says is what the numbers are, for one agent and for batches."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voville_env import testing
from voville_env.core import flattening, layout
from voville_env.core.codes import Action, Behaviour, Terrain
from voville_env.core.fields import BURNING, FIELD, FIELDS, OCCUPIED, column_index
from voville_env.core.kernels.flatten import flatten_rows
from voville_env.errors import InvalidValueError
from voville_env.flat import (
    FLAT_SIZE,
    FLAT_VERSION,
    LEFT_OUT,
    PEER_ROWS,
    REACH,
    blocks,
    flat_space,
    flatten,
    layout_table,
)
from voville_env.parallel import VovilleEnv
from voville_env.wrappers.flat import ParallelFlat, SeededFlat

Observation = dict[str, np.ndarray[Any, Any]]
MIDDLE = FIELD["tiles"].rows // 2
ROWS = {"peer_behaviors": range(PEER_ROWS)}
TOLD = range(MIDDLE - REACH, MIDDLE + REACH + 1)


def blank() -> Observation:
    """An observation in bounds, the lowest everywhere."""
    return {field.name: field.bounds()[0] for field in FIELDS}


def places() -> list[tuple[str, tuple[int, ...]]]:
    """Every number that the vector tells, tiles aside."""
    found: list[tuple[str, tuple[int, ...]]] = []
    for block in blocks():
        if block.field == "tiles":
            continue
        names = {name for part in block.parts for name in part.columns}
        columns = sorted(column_index(block.field, name) for name in names)
        rows = [()] if block.rows is None else [(row,) for row in block.rows]
        found += [(block.field, (*row, column)) for row in rows for column in columns]
    return found


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    made = blank()
    for field in FIELDS:
        low, high = field.bounds()
        seed = draw(st.integers(0, 2**32 - 1))
        made[field.name] = np.random.default_rng(seed).integers(low, high, endpoint=True)
        made[field.name] = made[field.name].astype(field.dtype)
    return made


@pytest.fixture(scope="module")
def seen() -> list[Observation]:
    """What everybody saw in eventful parts of the scenarios."""
    found: list[Observation] = []
    for name, window in (("fire_escape_officers", (1, 48, 60)), ("jaywalk", (1, 28, 40))):
        env = VovilleEnv(name, window=window)
        for number, frame in enumerate(
            testing.play(env, 2, None, lambda o, _: dict.fromkeys(o, 0))
        ):
            if number % 4 == 0:
                found += frame.observations.values()
    return found


# --- the layout


def test_the_layout_of_version_1_is_kept() -> None:
    # Another digest needs another FLAT_VERSION: saved weights rely on every position.
    told = hashlib.sha256(layout_table().encode())
    for block in blocks():
        for part in block.parts:
            told.update(part.coding.table.tobytes())
    assert (FLAT_VERSION, FLAT_SIZE, told.hexdigest()[:16]) == (1, 310, "40ad8c3143cdc0a5")


def test_the_table_covers_every_position_once() -> None:
    covered: list[int] = []
    for line in layout_table().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        base, _, stride = cells[0].partition(" + ")
        first, _, last = base.partition("–")
        span = range(int(first), int(last or first) + 1)
        rows = int(cells[1].rpartition("–")[2]) + 1 if stride else 1
        step = int(stride.removesuffix("r")) if stride else 0
        covered += [place + step * row for row in range(rows) for place in span]
    assert sorted(covered) == list(range(FLAT_SIZE))


def test_the_page_holds_the_table(repository: Path) -> None:
    text = (repository / "docs" / "flat.md").read_text(encoding="utf-8")
    assert layout_table() in text
    assert f"`FLAT_VERSION` is {FLAT_VERSION}" in text and f"{FLAT_SIZE} numbers" in text
    assert all(item in text for item in LEFT_OUT)
    (snippet,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(snippet, "flat.md", "exec"), {})


def test_every_column_is_told_or_named_as_left_out() -> None:
    told = {
        (block.field, name) for block in blocks() for part in block.parts for name in part.columns
    }
    left = {
        (field.name, column.name)
        for field in FIELDS
        for column in field.columns
        if field.name not in ("tiles", "action_mask")
    } - told
    assert left == {("peer_behaviors", "rule")}


# --- the numbers


def test_named_positions_hold_what_the_table_says() -> None:
    one = blank()
    one["self"][:] = [63, 0, 1, 0, 0, 0, 63, 1, 0, 0, 0, 1]
    one["routes"][:] = -1, 0, 0, 0
    one["routes"][2] = 2000, Action.CROSS_W, 0b1000001, 32000
    one["peer_behaviors"][:] = 0
    one["peer_behaviors"][3] = -63, 1, Behaviour.PUSHING, 6, 0, 100
    one["signal"][:] = 2, 0, 255
    one["tiles"][MIDDLE, MIDDLE] = Terrain.CROSSWALK | OCCUPIED
    one["tiles"][MIDDLE, MIDDLE + 1] = Terrain.PAVEMENT | BURNING
    one["tiles"][MIDDLE, MIDDLE + 2] = Terrain.PARK
    vector = flatten(one)
    assert vector[:2].tolist() == [1, 0] and vector[7:14].tolist() == [-1, 1, 1, 0, 0, 0, 1]
    assert vector[14:34].tolist() == [0, 0, 1] + [0] * 17
    route = vector[14 + 40 : 14 + 60].tolist()
    assert route == [1, 1] + [float(k == Action.CROSS_W) for k in range(10)] + [
        *(1, 0, 0, 0, 0, 0, 1),
        1,
    ]
    peer = vector[149 + 45 : 149 + 60]
    assert peer[0] == -1 and 0 < peer[1] < 0.2 and peer[2:].tolist() == [0] * 10 + [1, -1, 1]
    assert vector[241:246].tolist() == [0, 1, 0, 0, 0]
    row = vector[260 + 10 * REACH + 2 * REACH : 260 + 10 * REACH + 2 * REACH + 6]
    assert row.tolist() == [1, 1, 1, 0, 0, 0]


@given(observations(), st.data())
@settings(max_examples=60, deadline=None)
def test_no_two_values_of_a_told_column_look_alike(one: Observation, data: st.DataObject) -> None:
    name, place = data.draw(st.sampled_from(places()))
    low, high = FIELD[name].bounds()
    other = data.draw(st.integers(int(low[place]), int(high[place])))
    two = {key: array.copy() for key, array in one.items()}
    two[name][place] = other
    same = other == one[name][place]
    assert np.array_equal(flatten(one), flatten(two)) == same


def test_neighbouring_numbers_stay_apart_to_the_end_of_their_range() -> None:
    for block in blocks():
        for part in block.parts:
            if block.field != "tiles":
                assert len(np.unique(part.coding.table, axis=0)) == len(part.coding.table), part


@given(observations())
@settings(max_examples=60, deadline=None)
def test_vectors_stay_in_their_space(one: Observation) -> None:
    vector = flatten(one)
    assert vector.dtype == np.float32 and flat_space().contains(vector)


def test_numbers_out_of_bounds_are_read_as_the_nearest() -> None:
    one, two = blank(), blank()
    one["self"][3] = 32000
    two["self"][3] = 32001
    assert np.array_equal(flatten(one), flatten(two))
    one["signal"][0] = two["signal"][0] = 255
    assert flat_space().contains(flatten(one))


def test_what_is_left_out_changes_nothing() -> None:
    one, two = blank(), blank()
    two["action_mask"][:] = 1
    two["peer_behaviors"][PEER_ROWS:] = 5
    two["peer_behaviors"][:, 3] = 4
    two["tiles"][:] = Terrain.CROSSWALK
    two["tiles"][np.ix_(TOLD, TOLD)] = one["tiles"][np.ix_(TOLD, TOLD)]
    assert np.array_equal(flatten(one), flatten(two))
    del two["action_mask"]
    assert np.array_equal(flatten(one), flatten(two))


# --- batches


def test_a_batch_a_record_and_one_agent_give_the_same(seen: list[Observation]) -> None:
    singles = np.stack([flatten(one) for one in seen])
    assert len(np.unique(singles, axis=0)) > 20
    assert all(flat_space().contains(one) for one in singles)
    batch = {key: np.stack([one[key] for one in seen]) for key in seen[0]}
    assert np.array_equal(flatten(batch), singles)
    count = len(seen) // 2
    shaped = {
        key: array[: 2 * count].reshape(2, count, *array.shape[1:]) for key, array in batch.items()
    }
    assert np.array_equal(flatten(shaped).reshape(2 * count, -1), singles[: 2 * count])
    records = layout.zeros(layout.OBSERVATION, 2, count)
    for key, array in shaped.items():
        records[key] = array
    for form in (records, layout.plain(records)):
        assert np.array_equal(flatten(form), flatten(shaped))
        assert np.array_equal(flatten(form[1, 0]), singles[count])
    before = {key: array.copy() for key, array in shaped.items()}
    flatten(shaped)
    assert all(np.array_equal(before[key], shaped[key]) for key in before)


def test_out_is_filled_and_returned(seen: list[Observation]) -> None:
    batch = {key: np.stack([one[key] for one in seen[:6]]) for key in seen[0]}
    whole = np.full((6, FLAT_SIZE + 3), 7, np.float32)
    out = whole[:, 1:-2]
    assert flatten(batch, out=out) is out
    assert np.array_equal(out, flatten(batch))
    assert (whole[:, 0] == 7).all() and (whole[:, -2:] == 7).all()
    spread = np.empty((6, 2 * FLAT_SIZE), np.float32)[:, ::2]
    assert np.array_equal(flatten(batch, out=spread), out) and np.array_equal(spread, out)
    empty = {key: array[:0] for key, array in batch.items()}
    assert flatten(empty).shape == (0, FLAT_SIZE)


def test_what_does_not_fit_is_refused() -> None:
    one = blank()
    for out in (np.empty(FLAT_SIZE), np.empty((2, FLAT_SIZE), np.float32), [0.0]):
        with pytest.raises(InvalidValueError, match=f"out is .*allowed: float32 .*{FLAT_SIZE}"):
            flatten(one, out=out)  # type: ignore[arg-type]
    for change, message in (
        ({"routes": one["routes"][0]}, "'routes'.*int16.*allowed: integers of shape \\(6, 4\\)"),
        ({"self": one["self"].astype(float)}, "'self'.*float64"),
        ({"signal": np.stack([one["signal"]] * 2)}, "'signal'.*\\(2, 3\\).*allowed.*\\(3,\\)"),
    ):
        with pytest.raises(InvalidValueError, match=message):
            flatten(one | change)
    del one["routes"]
    with pytest.raises(InvalidValueError, match="lacks field 'routes'"):
        flatten(one)
    with pytest.raises(InvalidValueError, match="lacks field 'self'"):
        flatten(np.zeros(3))


# --- the compiled way


@st.composite
def any_records(draw: st.DrawFn) -> layout.Records:
    """Records full of numbers, in bounds, at bounds and beyond them."""
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    records = layout.zeros(layout.OBSERVATION, *shape)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["bounds", "inside", "anything"]))
    for field in FIELDS:
        low, high = field.bounds()
        size = (*shape, *field.shape)
        if kind == "anything":
            limits = np.iinfo(field.dtype)
            records[field.name] = rng.integers(limits.min, limits.max, size, endpoint=True)
        elif kind == "bounds":
            records[field.name] = np.where(rng.integers(0, 2, size), low, high)
        else:
            records[field.name] = rng.integers(low, high, size, endpoint=True)
    return records


def looked_up(records: layout.Records) -> np.ndarray[Any, Any]:
    """The vectors as NumPy makes them: integers of another size have no compiled way."""
    return flatten({field.name: records[field.name].astype(np.int64) for field in FIELDS})


@given(any_records())
@settings(max_examples=80, deadline=None)
def test_compiled_vectors_are_those_of_numpy_bit_for_bit(records: layout.Records) -> None:
    expected = looked_up(records).tobytes()
    apart = {field.name: records[field.name].copy() for field in FIELDS}
    together = {field.name: records[field.name] for field in FIELDS}
    turned = {name: np.asfortranarray(array) for name, array in apart.items()}
    frozen = {name: array.copy() for name, array in apart.items()}
    for array in frozen.values():
        array.flags.writeable = False
    for form in (records, layout.plain(records), apart, together, turned, frozen):
        assert flatten(form).tobytes() == expected
    swapped = together | {"rules": apart["rules"], "tiles": apart["tiles"]}
    assert flatten(swapped).tobytes() == expected


@given(any_records())
@settings(max_examples=8, deadline=None)
def test_the_kernel_as_plain_python_gives_the_same(records: layout.Records) -> None:
    kernel: Any = flatten_rows
    plain = flattening.planned(blocks(), getattr(kernel, "py_func", kernel))
    out = np.full((records.size, FLAT_SIZE), np.nan, np.float32)
    plain.write({block.field: records[block.field] for block in blocks()}, out)
    assert out.tobytes() == looked_up(records).tobytes()


def test_views_of_other_rows_are_read_where_they_lie() -> None:
    records = layout.plain(layout.zeros(layout.OBSERVATION, 6))
    records["self"] = np.arange(72).reshape(6, 12)
    records["tiles"] = np.arange(6)[:, None, None]
    expected = looked_up(records)
    names = tuple(field.name for field in FIELDS)
    for part in (slice(2, 5), slice(None, None, 2), slice(None, None, -1), slice(3, 3)):
        rows = {name: records[name][part] for name in names}
        assert np.array_equal(flatten(rows), expected[part])
        assert np.array_equal(flatten(records[part]), expected[part])
    views = {name: records[name][2:5] for name in names}
    assert np.shares_memory(flattening.as_bytes(views, names), records)
    one = {name: records[name][4] for name in names}
    assert np.shares_memory(flattening.as_bytes(one, names), records)
    mixed = one | {"tiles": records["tiles"][1]}
    assert not np.shares_memory(flattening.as_bytes(mixed, names), records)
    assert np.array_equal(flatten(mixed)[:260], expected[4][:260])
    assert np.array_equal(flatten(mixed)[260:], expected[1][260:])


def test_without_compiling_vectors_are_the_same() -> None:
    code = """
from voville_env import flat
from hashlib import sha256
from voville_env.core.layout import OBSERVATION, zeros
import numpy as np
records = zeros(OBSERVATION, 50)
records.view(np.uint8)[:] = np.random.default_rng(0).integers(0, 256, records.nbytes)
print(sha256(flat.flatten(records).tobytes()).hexdigest(), flat._compiled() is None)
"""
    told = []
    for jit in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_DISABLE_JIT": jit},
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(done.stdout.split())
    assert told[0][0] == told[1][0] and [one[1] for one in told] == ["False", "True"]


# --- the PettingZoo view


def test_agents_see_vectors_and_masks() -> None:
    inner = VovilleEnv("jaywalk", window=(1, 28, 30))
    env = ParallelFlat(VovilleEnv("jaywalk", window=(1, 28, 30)))
    native, _ = inner.reset(seed=4)
    told, _ = env.reset(seed=4)
    kept = []
    while env.agents:
        assert told.keys() == native.keys()
        for agent, one in told.items():
            assert env.observation_space(agent).contains(one)
            assert np.array_equal(one["observation"], flatten(native[agent]))
            assert np.array_equal(one["action_mask"], native[agent]["action_mask"])
            kept.append((one, {key: array.copy() for key, array in one.items()}))
        actions = {agent: int(native[agent]["routes"][2, 1]) for agent in env.agents}
        told, *_ = env.step(actions)
        native, *_ = inner.step(actions)
    assert all(np.array_equal(a[key], b[key]) for a, b in kept for key in a)


def test_the_view_of_a_reused_buffer_is_its_own() -> None:
    env = ParallelFlat(VovilleEnv("jaywalk", window=(1, 28, 30), copy=False))
    told, _ = env.reset(seed=4)
    before = {agent: one["action_mask"].copy() for agent, one in told.items()}
    for _ in range(4):
        env.step(dict.fromkeys(env.agents, 6))
    assert all(np.array_equal(told[agent]["action_mask"], mask) for agent, mask in before.items())


def test_the_key_of_the_vector_can_be_another() -> None:
    env = ParallelFlat(VovilleEnv("jaywalk", window=(1, 28, 30)), vector="observations")
    told, _ = env.reset(seed=4)
    assert all(one.keys() == {"observations", "action_mask"} for one in told.values())
    with pytest.raises(InvalidValueError, match="vector is 'action_mask'"):
        ParallelFlat(VovilleEnv("jaywalk"), vector="action_mask")


def test_later_runs_follow_from_a_seed_that_is_given_once() -> None:
    town = VovilleEnv("jaywalk", window=(1, 28, 30))
    env = SeededFlat(town)
    played = []
    for seed in (4, None, None, 4, None, 5, None):
        env.reset(seed=seed)
        played.append(town.seed)
    assert played[0] == 4 and played[:2] == played[3:5] and played[5] == 5
    assert len(set(played)) == 5
    chance = SeededFlat(town)
    chance.reset()
    assert town.seed not in played
