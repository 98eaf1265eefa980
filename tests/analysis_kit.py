"""Run folders of hand-written logs whose analyses can be worked out on paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from log_builder import CAFE, LogBuilder

from voville_env.benchmarks.suite import EpisodeKey

OFFICERS = "fire_escape_officers"
CONTROL = "fire_escape_officers_control"
PEERS = "jaywalk"


def log(policy: str, scenario: str = "fire_escape", seed: int = 0, **given: Any) -> LogBuilder:
    """A log of CC, who commutes, and EY."""
    header: dict[str, Any] = {
        "scenario": scenario,
        "policy": policy,
        "seed": seed,
        "control": f"{scenario.removesuffix('_control')}_control",
        "officers": ["TO1"] if scenario.startswith(OFFICERS) else [],
        "confederates": ["J1"] if scenario == PEERS else [],
        "fire": scenario in ("fire_escape", OFFICERS),
    }
    return LogBuilder("CC EY", **{**header, **given})


def save_run(folder: Path, logs: Sequence[LogBuilder], **suite: Any) -> Path:
    """Writes the folder of a run with these episodes."""
    (folder / "episodes").mkdir(parents=True)
    keys = [
        EpisodeKey(one.header["scenario"], one.header["policy"], one.header["seed"]) for one in logs
    ]
    for key, one in zip(keys, logs, strict=True):
        one.save(folder / "episodes" / f"{key.stem}.jsonl")
    plan = {
        "scenarios": list(dict.fromkeys(key.scenario for key in keys)),
        "policies": list(dict.fromkeys(key.policy for key in keys)),
        "seeds": sorted({key.seed for key in keys}),
        "days": None,
        "quick": False,
        "backbone": None,
        "options": {},
    }
    manifest: dict[str, Any] = {
        "suite": plan | suite,
        "versions": {"voville": "0"},
        "scenario_hashes": {},
        "policy_hashes": {},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def fire_log(policy: str, seed: int, scenario: str = "fire_escape") -> LogBuilder:
    """CC leaves the café at tick 52 and the 12 tiles at 54, and breaks rules until `54 + seed`.

    EY leaves with CC and keeps the rules throughout; an officer is 2 tiles off where CC starts,
    15 where CC ends.
    """
    made = log(policy, scenario, seed)
    for who in ("CC", "EY"):
        made.state(who, 50, zone=CAFE, dist_fire=4)
        made.state(who, 52, zone="street", dist_fire=9)
        made.state(who, 54, zone="street", dist_fire=13)
    near, far = (2, 15) if made.header["officers"] else (None, None)
    made.row("CC", 52, "RED_LIGHT", "", dist_officer=near)
    for tick in range(53, 55 + seed):
        made.row("CC", tick, "RED_LIGHT", "RED_LIGHT", dist_officer=far)
    made.row("EY", 53, "ONE_WAY", "", dist_officer=near)
    return made


def full_run(folder: Path) -> Path:
    """A run in which every section has something to show."""
    logs = []
    for seed in (0, 1):
        for policy in ("pave", "vanilla"):
            for scenario in ("fire_escape", OFFICERS):
                made = fire_log(policy, seed, scenario)
                if policy == "vanilla":
                    rate(made, "CC", 50, 30, 75)
                else:
                    made.verdict("CC", 53, "RED_LIGHT", "violate", legitimacy=81, threshold=65)
                    made.verdict("CC", 54, "RED_LIGHT", "comply", legitimacy=30, threshold=65)
                logs.append(made)
            calm = log(policy, CONTROL, seed)
            calm.row("CC", 20, "RED_LIGHT", "")
            logs.append(calm)
            seen = log(policy, PEERS, seed)
            seen.jaywalk(100, "CC")
            broken = "RED_LIGHT" if policy != "pave" else ""
            seen.row("CC", 104, "RED_LIGHT", broken, signal="dont_walk", saw_jaywalk=True)
            logs.append(seen)
    return save_run(folder, logs)


def rate(made: LogBuilder, who: str, tick: int, rescaled: int, severity: int, **more: Any) -> None:
    """A fire rated for importance."""
    fields: dict[str, Any] = {
        "description": "There is a fire 4 tiles away.",
        "score": rescaled // 10,
        "rescaled": rescaled,
        "event_id": "fire",
        "severity": severity,
        "fallback": None,
    }
    made.add("importance", who, tick, **(fields | more))
