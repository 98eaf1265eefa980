"""The compiled kernels do what the same source does as plain Python, bit for bit.

With the JIT switched off the kernels run as they stand, on NumPy records: the slow reference.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voville_env import testing
from voville_env.parallel import VovilleEnv
from voville_env.town import tables

_CHILD = """
import json, sys, warnings
sys.path[:], windows, ways = json.loads(sys.argv[1])
# Unsigned arithmetic wraps round on purpose, of which NumPy's scalars warn.
warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
import numba
assert numba.config.DISABLE_JIT
from test_reference import traces, use_ways
if ways:
    use_ways(ways)
print(json.dumps(traces(windows)))
"""
Windows = list[tuple[str, tuple[int, int, int]]]
# A few ticks of each scenario, around the fire, the officers and the confederates.
SHORT: Windows = [
    ("fire_escape", (1, 48, 57)),
    ("fire_escape_officers", (1, 55, 66)),
    ("jaywalk", (1, 28, 36)),
    ("jaywalk", (2, 110, 114)),
]


def walk(observations: Any, infos: Any) -> dict[str, int]:
    """The way that waives the traffic rules; every tenth tile a thing is reached for."""
    chosen = {}
    for name, seen in observations.items():
        x, y, *_ = seen["self"].tolist()
        route = seen["routes"][4 if seen["self"][11] else 1]
        chosen[name] = 9 if (x + 3 * y) % 10 == 0 and seen["action_mask"][9] else int(route[1])
    return chosen


def spread(env: VovilleEnv) -> None:
    """Spreads people over the streets around the café, so that a short window holds enough."""
    tiles = [(31, 30), (31, 33), (42, 33), (43, 34), (20, 33), (43, 31), (30, 30), (36, 31)]
    for person, (x, y) in zip(env.sim.state[0].agents, tiles, strict=False):
        person.tile = person.from_tile = person.intent = y * 64 + x


def trace(name: str, window: tuple[int, int, int], actions: Any) -> list[str]:
    """Digests of every frame of a run and of its events, and how many events there were."""
    day, start, end = window
    env = VovilleEnv(name, window=(day, start, end))
    digests: list[str] = []
    events: list[Any] = []
    for number, frame in enumerate(testing.play(env, 11, None, actions)):
        digests.append(testing.digest_of(frame))
        events += env.drain_events().tolist()
        if number == 0 and actions is walk:
            spread(env)
    return [*digests, hashlib.sha256(repr(events).encode()).hexdigest(), str(len(events))]


def traces(windows: Windows) -> list[list[str]]:
    return [trace(n, w, actions) for n, w in windows for actions in ("random", walk)]


def use_ways(path: str) -> None:
    """Takes the tables of ways from a file: making them is most of the work of a short run."""

    def fill(town: Any, table: Any, lookahead: int) -> None:
        table[0] = np.load(path).view(table.dtype)[0]

    tables._fill_routes = fill


def compare(windows: Windows, ways: str = "") -> list[list[str]]:
    order = json.dumps([sys.path, windows, ways])
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, order],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )
    compiled = traces(windows)
    output, errors = child.communicate()
    assert child.returncode == 0, errors
    reference = json.loads(output.splitlines()[-1])
    for found, expected in zip(compiled, reference, strict=True):
        assert len(found) == len(expected)
        wrong = [
            k for k, pair in enumerate(zip(found, expected, strict=True)) if len(set(pair)) > 1
        ]
        assert not wrong, f"differs at step {wrong[0]}"
    return compiled


def test_a_few_ticks_are_those_of_plain_python(tmp_path: Path) -> None:
    ways = tmp_path / "ways.npy"
    np.save(ways, VovilleEnv("jaywalk").sim.town.view(np.uint8))
    compiled = compare(SHORT, str(ways))
    assert len(compiled) == 8
    # Enough happens in them, and walking is not what chance does.
    assert all(int(found[-1]) >= 10 for found in compiled), [found[-1] for found in compiled]
    assert all(a != b for a, b in zip(compiled[::2], compiled[1::2], strict=True))


@pytest.mark.slow
def test_the_focus_windows_are_those_of_plain_python() -> None:
    windows: Windows = [(name, VovilleEnv(name).world.scenario.focus) for name, _ in SHORT[:3]]
    compiled = compare(windows)
    assert [len(found) for found in compiled] == [403, 403, 403, 403, 171, 171]
