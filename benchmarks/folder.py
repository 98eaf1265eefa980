"""The run folder: what was planned, who is at work in it, and where things lie."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from voville_env.benchmarks.play import policy_hash, versions
from voville_env.benchmarks.suite import EpisodeKey, Suite, Sweep, make_policy
from voville_env.errors import InvalidValueError
from voville_env.metrics import BY_KEY
from voville_env.scenario import load_world
from voville_env.variant import typed

MANIFEST = "manifest.json"
CALLS = "calls.sqlite"
"""The store of model calls."""
UNKNOWN_SUITE = "unknown suite"
"""The suite of a run that was made before runs named theirs."""


class _Manifest(BaseModel):
    """What a manifest says of a plan and of how it is played; anything else is left alone."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    suite: Suite
    sweep: Sweep | None = None
    scenario_hashes: dict[str, str]
    policy_hashes: dict[str, str]
    versions: dict[str, str]
    answered_by: dict[str, Any] = {}
    connection: dict[str, Any] | None = None
    store: str | None = None


def episode_path(folder: Path, key: EpisodeKey) -> Path:
    """Where an episode's log lies.

    Args:
        folder: The run folder.
        key: The episode.

    Returns:
        The path.
    """
    return folder / "episodes" / f"{key.stem}.jsonl"


def checked_manifest(
    folder: Path,
    suite: Suite,
    *,
    resume: bool,
    backbone: Any = None,
    store: Path | None = None,
) -> str:
    """Checks that a run folder is new, or holds the same plan; changes nothing.

    Args:
        folder: The run folder.
        suite: The plan.
        resume: Whether an existing run may be continued.
        backbone: Who answers the policies' questions, if not their own default.
        store: Where its calls are stored, if not in the run folder.

    Returns:
        The manifest.

    Raises:
        InvalidValueError: If the folder holds something else.
    """
    manifest = folder / MANIFEST
    scenario_titles(suite)
    if store is not None and (
        (store.exists() and not store.is_file()) or not store.parent.is_dir()
    ):
        raise InvalidValueError(f"store is {str(store)!r}; allowed: a file in a folder that exists")
    content = {
        "suite": suite.described(),
        "suite_hash": suite.digest(),
        "suite_id": suite.suite_id(),
        "suite_ids": suite.suite_ids(),
        "seed_set": suite.seed_set(),
        "scenario_hashes": {name: load_world(name).digest() for name in suite.scenarios},
        "policy_hashes": {
            name: policy_hash(make_policy(suite, name, backbone)) for name in suite.policies
        },
        "versions": versions(),
    }
    if suite.sweep is not None:
        content["sweep"] = asdict(suite.sweep)
    if backbone is not None:
        content["answered_by"] = backbone.settings()
        content["connection"] = backbone.connection()
        if store is not None:
            content["store"] = os.path.relpath(store, folder)
    if folder.exists() and any(folder.iterdir()):
        if not resume:
            raise InvalidValueError(
                f"{folder} is not empty; use --resume to continue it, or another --out"
            )
        _check_same_plan(manifest, content)
        if "store" not in content and (kept := read_manifest(folder).get("store")) is not None:
            content["store"] = kept
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def _check_same_plan(manifest: Path, content: dict[str, Any]) -> None:
    """Refuses to go on with a run that was planned or made otherwise, and says what differs."""
    kept = read_manifest(manifest.parent)
    fresh = json.loads(json.dumps(content))
    for key in ("suite", "sweep", "answered_by", "scenario_hashes", "policy_hashes", "versions"):
        old, new = kept.get(key, {}), fresh.get(key, {})
        for name in sorted({*old, *new}):
            before, now = old.get(name), new.get(name)
            if before != now:
                raise InvalidValueError(
                    f"{manifest} is another plan: {key} {name!r} was {before!r} and is now "
                    f"{now!r}; leave the options out to go on as planned, or use another --out"
                )


def planned_suite(folder: Path | None) -> Suite:
    """The plan of an existing run folder.

    Args:
        folder: The run folder.

    Returns:
        Its plan.

    Raises:
        InvalidValueError: If there is no such run.
    """
    if folder is None:
        raise InvalidValueError("--resume needs --out: which run folder to go on with")
    manifest = read_manifest(folder)
    try:
        plan = _Manifest.model_validate_json(json.dumps(manifest))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        given = "" if first["type"] == "missing" else f" is {typed(first['input'])}"
        raise InvalidValueError(
            f"{folder / MANIFEST} cannot be read as a plan: key {key!r}{given}: {first['msg']}"
        ) from error
    for name, value, allowed in _odd(plan, manifest):
        raise InvalidValueError(
            f"{folder / MANIFEST} cannot be read as a plan: {name} is {value!r}; allowed: {allowed}"
        )
    return replace(plan.suite, sweep=plan.sweep)


def _odd(plan: _Manifest, manifest: dict[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Values of the right type that no plan has: what, the value and what is allowed."""
    suite, known = plan.suite, [item.name for item in fields(Suite)]
    for key in manifest["suite"]:
        if key not in known:
            yield "key of suite", key, ", ".join(known)
    for name, listed in (("scenarios", suite.scenarios), ("policies", suite.policies)):
        if not listed or len(set(listed)) < len(listed):
            yield f"suite.{name}", list(listed), "one or more, each once"
    seeds = suite.seeds
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        yield "suite.seeds", list(seeds), "one or more from 0 on, each once"
    if plan.sweep is not None and plan.sweep.kind not in ("policy", "scenario"):
        yield "sweep.kind", plan.sweep.kind, "policy, scenario"
    for key in plan.sweep.metrics if plan.sweep is not None else ():
        if key not in BY_KEY:
            yield "metric of sweep", key, "those of docs/metrics.md"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an existing run folder.

    Args:
        folder: The run folder.

    Returns:
        Its content.

    Raises:
        InvalidValueError: If there is none, or it cannot be read.
    """
    manifest = folder / MANIFEST
    if not manifest.exists():
        raise InvalidValueError(f"{folder} has no {MANIFEST}: not a run folder")
    try:
        found = json.loads(manifest.read_text("utf-8"))
    except ValueError as error:
        raise InvalidValueError(f"{manifest} cannot be read as a plan: {error}") from error
    if not isinstance(found, dict):
        raise InvalidValueError(f"{manifest} cannot be read as a plan: no JSON object")
    return found


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Keeps a second run out of a folder while one is at work in it; a killed run leaves no lock.

    Args:
        folder: The run folder.

    Yields:
        Nothing.

    Raises:
        InvalidValueError: If another run is at work there.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    path = folder / ".lock"
    if path.is_symlink():
        raise InvalidValueError(f"{path} leads elsewhere; allowed: a plain file")
    with path.open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InvalidValueError(f"another run is at work in {folder}") from error
        yield


def suite_id_of(folder: Path) -> str:
    """The suite that a run is of: it may be compared with others of the same one alone.

    Args:
        folder: The run folder.

    Returns:
        The id, `unknown suite` for a run that names none.
    """
    return str(read_manifest(folder).get("suite_id", UNKNOWN_SUITE))


def seed_notes(folder: Path) -> tuple[str, ...]:
    """What is to be said of a run's seeds before its numbers are read.

    Args:
        folder: The run folder.

    Returns:
        One sentence where they are not those kept for evaluation, and none otherwise.
    """
    told = {
        "train": "training seeds: this run plays seeds that its suite keeps for training; it is "
        "no evaluation of a policy that was trained on them",
        "other": "other seeds: this run plays seeds that its suite keeps neither for training nor "
        "for evaluation",
    }
    note = told.get(read_manifest(folder).get("seed_set", "evaluation"))
    return () if note is None else (note,)


def run_facts(folder: Path) -> tuple[str, ...]:
    """What somebody who cites a run has to state with its numbers.

    Args:
        folder: The run folder.

    Returns:
        One line each, from its manifest.
    """
    manifest = read_manifest(folder)
    suite, versions = manifest["suite"], manifest["versions"]
    days = "all days" if suite["days"] is None else f"days 1 to {suite['days']} alone"
    facts = [
        f"Suite: {suite_id_of(folder)}",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in versions.items()),
        f"Seeds: {', '.join(map(str, suite['seeds']))}; {days}",
        "Scenarios: " + ", ".join(f"{k} {v}" for k, v in manifest["scenario_hashes"].items()),
        "Policies: " + ", ".join(f"{k} {v}" for k, v in manifest["policy_hashes"].items()),
    ]
    if suite.get("options"):
        facts.append(
            "Options: " + ", ".join(f"{k} {json.dumps(v)}" for k, v in suite["options"].items())
        )
    if swept := manifest.get("sweep"):
        facts.append(f"Swept: {swept['parameter']}, {', '.join(map(str, swept['values']))}")
    if answered := manifest.get("answered_by"):
        shown = {key: value for key, value in answered.items() if not isinstance(value, dict)}
        facts.append("Model: " + ", ".join(f"{k} {json.dumps(v)}" for k, v in shown.items()))
        prompts = answered.get("prompts", {})
        facts.append("Prompts: " + ", ".join(f"{k} {v}" for k, v in prompts.items()))
    return tuple(facts)


def store_of(folder: Path, given: Path | None = None) -> Path:
    """Where the model calls of a run are stored.

    Args:
        folder: The run folder.
        given: Another place, if one was asked for.

    Returns:
        That place, or the one in the manifest, or the run folder's own file.
    """
    if given is not None:
        return given
    kept = read_manifest(folder).get("store")
    return folder / (CALLS if kept is None else str(kept))


def run_id(folder: Path) -> str:
    """The name under which a run folder's model calls are stored; made at the first call.

    Args:
        folder: The run folder.

    Returns:
        Sixteen hex digits.
    """
    path = folder / ".run-id"
    if not path.exists():
        write_text(path, secrets.token_hex(8) + "\n")
    return path.read_text("utf-8").strip()


def scenario_titles(suite: Suite) -> dict[str, str]:
    """The name inside each scenario, by which logs and reports know it.

    Args:
        suite: The plan.

    Returns:
        Names by what was asked for: a shipped name or a path.

    Raises:
        InvalidValueError: If two files carry one name.
    """
    titles = {asked: load_world(asked).scenario.name for asked in suite.scenarios}
    names = list(titles.values())
    for asked, name in titles.items():
        if names.count(name) > 1:
            raise InvalidValueError(f"{asked} and another scenario are both named {name!r}")
    return titles


def write_text(path: Path, text: str) -> None:
    """Writes a file aside and renames it when whole.

    Args:
        path: The file.
        text: Its content.
    """
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file aside and renames it when whole.

    Args:
        path: The file.
        content: Its content.
    """
    aside = path.with_name(path.name + ".part")
    aside.unlink(missing_ok=True)  # it may lead elsewhere
    aside.write_bytes(content)
    aside.replace(path)
