"""Golden traces: what happens tick by tick in the focus windows, as text that a reader can follow.

A behaviour change needs a new environment id, a changelog line and new traces, in one commit:
`VOVILLE_REFRESH_GOLDEN=1 pytest -n0 tests/test_golden.py` rewrites them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from voville_env.benchmarks.play import EpisodePlayer
from voville_env.events import Event
from voville_env.parallel import VovilleEnv
from voville_env.policy import load_policy

GOLDEN = Path(__file__).parent / "data" / "golden"
REFRESH = os.environ.get("VOVILLE_REFRESH_GOLDEN") == "1"
CASES = [
    ("fire_escape", "direct", (1, 48, 64)),
    ("fire_escape", "pave", (1, 48, 64)),
    ("fire_escape_officers", "pave", (1, 48, 72)),
    ("jaywalk", "lawful", (1, 28, 58)),
    ("jaywalk", "pave-no-gate", (2, 105, 135)),
]
SHOWN = {
    "goal_change": ("goal", "late", "escaping"),
    "opportunity": ("rules", "unrelated", "at", "dist_fire", "dist_officer", "label", "signal"),
    "rule_event": ("violated", "authorised", "blocked"),
    "instruction": ("officer", "kind", "distance"),
    "instruction_response": ("officer", "kind", "complied"),
    "sanction": ("officer", "rules"),
    "peer_broadcast": ("behaviour", "observers"),
    "hazard": ("action", "at", "severity"),
    "arrival": ("goal", "safe", "at"),
    "verdict": ("rules", "decision", "legitimacy", "gate_open"),
    "actions": ("a",),
}


def line(record: Event) -> str:
    shown = " ".join(f"{key}={record[key]}" for key in SHOWN[record["type"]])
    return f"{record['tick']:>4} {record.get('agent', '--'):<3} {record['type']:<20} {shown}"


def trace(scenario: str, policy: str, window: tuple[int, int, int]) -> list[str]:
    env = VovilleEnv(scenario, window=window)
    player = EpisodePlayer(env, load_policy(policy), policy, seed=0)
    return [line(record) for record in player.records() if record["type"] in SHOWN]


@pytest.mark.parametrize(("scenario", "policy", "window"), CASES)
def test_the_trace_is_the_golden_one(
    scenario: str, policy: str, window: tuple[int, int, int]
) -> None:
    found = trace(scenario, policy, window)
    path = GOLDEN / f"{scenario}--{policy}.txt"
    if REFRESH:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert len(found) > 40
    for number, (ours, golden) in enumerate(
        zip(found, path.read_text("utf-8").splitlines(), strict=True), start=1
    ):
        assert ours == golden, f"line {number} of {path.name}"
