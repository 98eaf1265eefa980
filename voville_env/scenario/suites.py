"""Suites: which worlds a result is about, and which seeds are for training and for evaluation.

A suite is frozen: its file holds the hash of each of its worlds, and a world that has changed is no
longer in it. Whatever else is played has a suite of its own, named after the hash of its world.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache

from pydantic import Field

from voville_env.errors import ScenarioError
from voville_env.scenario.load import World, data_path, read_toml, validate
from voville_env.scenario.schema import Part

CUSTOM = "custom:"
MIXED = "mixed:"
_TOLD = {"name", "version", "title", "description", "purpose", "control", "focus", "rewards"}
"""What a scenario says of itself, and what its worlds are used for: no part of them."""


@dataclass(frozen=True)
class Suite:
    """The worlds that results may be compared over, and their seeds.

    Attributes:
        id: Its name with a version, such as `voville-wide-1`; `custom:` and a hash for a world of
            one's own.
        train: Seeds to train on.
        evaluation: Seeds to evaluate on; none is in `train`.
    """

    id: str
    train: range
    evaluation: range


class _Seeds(Part):
    """Seeds from the first to one before the end."""

    first: int = Field(ge=0)
    end: int = Field(ge=1, le=2**63)


class _Suite(Part):
    id: str = Field(pattern=r"^[a-z0-9-]+$")
    worlds: dict[str, str]


class _File(Part):
    train: _Seeds
    evaluation: _Seeds
    suites: list[_Suite]


@cache
def _read() -> _File:
    path = data_path("suites", "suites.toml")
    found = validate(_File, read_toml(path), str(path))
    first, second = found.train, found.evaluation
    if first.first < second.end and second.first < first.end:
        raise ScenarioError(f"{path}: train and evaluation share seeds")
    return found


def world_hash(world: World) -> str:
    """Hash of all that decides what happens in a scenario: its own parts, town, people, variation.

    Names, texts, the focus window and reward weights are left out.

    Args:
        world: The scenario.

    Returns:
        Sixteen hex digits.
    """
    spec = world.scenario
    left_out = _TOLD | ({"variation"} if spec.variation.kind == "paper" else set())
    told = spec.model_dump(mode="json", exclude=left_out)
    if "variation" in told:
        del told["variation"]["focus"]
    people = [persona.model_dump() for persona in world.personas]
    text = json.dumps([told, people, world.rules], sort_keys=True)
    return hashlib.sha256((text + world.town.digest()).encode()).hexdigest()[:16]


def suites() -> dict[str, dict[str, str]]:
    """The suites that ship with the package.

    Returns:
        For each id the hash of each of its worlds, by the scenario's name.
    """
    return {item.id: dict(item.worlds) for item in _read().suites}


def suite_of(world: World) -> Suite:
    """The suite that a scenario belongs to.

    Args:
        world: The scenario.

    Returns:
        The shipped suite that holds its world, or one of its own.
    """
    file, found = _read(), world_hash(world)
    ids = [name for name, worlds in suites().items() if found in worlds.values()]
    seeds = (range(part.first, part.end) for part in (file.train, file.evaluation))
    train, evaluation = seeds
    return Suite(ids[0] if ids else CUSTOM + found, train, evaluation)


def joint_id(ids: list[str]) -> str:
    """The id of what is played together.

    Args:
        ids: Suite ids of the scenarios, at least one.

    Returns:
        Their id where all are the same, and else one of the mixture.
    """
    distinct = sorted(set(ids))
    if len(distinct) == 1:
        return distinct[0]
    return MIXED + hashlib.sha256(" ".join(distinct).encode()).hexdigest()[:16]
