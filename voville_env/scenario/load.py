"""Reading scenario and persona files, with errors that name the file and the key."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, get_origin

from pydantic import BaseModel, ValidationError

from voville_env.errors import ScenarioError, invalid
from voville_env.events import EventDecoder
from voville_env.scenario.faults import field_of, say
from voville_env.scenario.schema import Persona, PersonaFile, Scenario
from voville_env.town import Town, load_town
from voville_env.variant import Variant, read_variant, typed

Model = TypeVar("Model", bound=BaseModel)
_ROOT = "voville_env.scenarios"
_IDENTITY = ("name", "control")


@dataclass(frozen=True, eq=False)
class World:
    """A scenario with the town and the people it names.

    Attributes:
        scenario: The scenario.
        town: Its town.
        personas: Its people, in the order of the scenario's agents.
        rules: The personal rule database that all of them carry.
        source: The file it came from.
    """

    scenario: Scenario
    town: Town
    personas: tuple[Persona, ...]
    rules: dict[str, Any]
    source: str

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """Ids of the policy agents, in order."""
        return tuple(plan.id for plan in self.scenario.agents)

    def event_decoder(self) -> EventDecoder:
        """What turns the core's events of this world into records of the log.

        Returns:
            A decoder with the names of this town and these people.
        """
        spec = self.scenario
        return EventDecoder(
            self.town,
            self.agent_ids,
            [confederate.id for confederate in spec.confederates],
            [officer.id for officer in spec.officers],
            spec.clock.ticks_per_day,
        )

    def digest(self) -> str:
        """Hash of scenario, town and people: part of every episode's key.

        Returns:
            Sixteen hex digits.
        """
        people = [persona.model_dump() for persona in self.personas]
        spec = self.scenario.model_dump(mode="json")
        if self.scenario.variation.kind == "paper":  # then its ranges decide nothing
            del spec["variation"]
        text = json.dumps([spec, people, self.rules], sort_keys=True)
        return hashlib.sha256((text + self.town.digest()).encode()).hexdigest()[:16]


def data_path(*parts: str) -> Path:
    """The path of a file that ships with the scenarios.

    Args:
        *parts: Path below the scenario folder.

    Returns:
        The path.
    """
    return Path(str(files(_ROOT).joinpath(*parts)))


def scenario_names() -> list[str]:
    """The scenarios that ship with the package.

    Returns:
        Their names, sorted.
    """
    return sorted(path.stem for path in data_path().glob("*.toml"))


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file as UTF-8, whatever the locale.

    Args:
        path: The file.

    Returns:
        Its tables.

    Raises:
        ScenarioError: If it is missing or is no TOML.
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise ScenarioError(f"{path}: no such file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: not a TOML file in UTF-8: {error}") from error


def validate(model: type[Model], data: dict[str, Any], source: str) -> Model:
    """Checks data against a model.

    Args:
        model: The model.
        data: The data, as read.
        source: The file, for the message.

    Returns:
        The model.

    Raises:
        ScenarioError: Naming file, key, value, what is allowed and the nearest match.
    """
    try:
        return model.model_validate_json(json.dumps(data))
    except (ValidationError, TypeError, ValueError) as error:
        if not isinstance(error, ValidationError):
            raise ScenarioError(f"{source}: {error}") from error
        raise ScenarioError(f"{source}: {say(model, error.errors()[0])}") from error


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Tables merge key by key; everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        kept = result.get(key)
        both = isinstance(kept, dict) and isinstance(value, dict)
        result[key] = _merged(kept, value) if both and kept is not None else value
    return result


def read_scenario(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Reads a scenario file, and below it the file that its `base` key names.

    Args:
        path: The file.
        seen: Files read on the way here.

    Returns:
        The merged tables, without `base`.

    Raises:
        ScenarioError: If a base is missing or refers to itself.
    """
    data = read_toml(path)
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str) or Path(base).name != base:
        raise ScenarioError(f"{path}: key 'base' is {base!r}; allowed: a name without folders")
    if path in seen:
        raise ScenarioError(f"{path}: key 'base' is {base!r}, which leads back to this file")
    below = path.with_name(f"{base}.toml")
    if not below.exists():
        below = data_path(f"{base}.toml")
    if not below.exists():
        names = [item.stem for item in path.parent.glob("*.toml")] + scenario_names()
        raise ScenarioError(
            f"{path}: {invalid(chr(39) + 'base' + chr(39), base, sorted(set(names)))}"
        )
    return _merged(read_scenario(below, (*seen, path)), data)


@cache
def load_personas(name: str = "paper") -> PersonaFile:
    """Reads a persona file.

    Args:
        name: Name of a shipped file, or a path to a TOML file.

    Returns:
        Its people and rules.

    Raises:
        ScenarioError: If it is missing or wrong.
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = data_path("personas", f"{name}.toml")
        if not path.exists():
            names = [item.stem for item in data_path("personas").glob("*.toml")]
            raise ScenarioError(str(invalid("personas", name, names)))
    return validate(PersonaFile, read_toml(path), str(path))


@cache
def load_map(name: str) -> Town:
    """Reads a town.

    Args:
        name: Name of a shipped map, or a path to a TMX file.

    Returns:
        The town.

    Raises:
        ScenarioError: If there is no such map.
        MapError: If it is wrong.
    """
    path = Path(name)
    if path.suffix != ".tmx":
        path = data_path("maps", f"{name}.tmx")
        if not path.exists():
            names = [item.stem for item in data_path("maps").glob("*.tmx")]
            raise ScenarioError(str(invalid("map", name, names)))
    return load_town(path)


def scenario_variant(name: str) -> Variant:
    """Reads a scenario's name with the keys that it may change.

    Args:
        name: A shipped name or a path, and after an `@` dotted keys with values.

    Returns:
        The plain name or path and the changes.

    Raises:
        InvalidValueError: If the changes cannot be read.
    """
    if name.endswith(".toml") and Path(name).exists():
        return Variant(name)
    return read_variant(name)


def file_only(key: str) -> bool:
    """Whether a key can be set in a scenario file, and not in a name.

    Args:
        key: The key, with dots.

    Returns:
        True for what tells scenarios apart, and for lists and whatever stands in one.
    """
    if key in _IDENTITY:
        return True
    steps = key.split(".")
    fields = [field_of(Scenario, steps[: end + 1])[1] for end in range(len(steps))]
    return any(field and get_origin(field.annotation) in (list, tuple) for field in fields)


def _read_variant(scenario: str | Path) -> tuple[Scenario, str]:
    """Reads a scenario and changes what its name says; also tells where it comes from."""
    variant = scenario_variant(scenario) if isinstance(scenario, str) else Variant(str(scenario))
    path = Path(variant.base)
    if path.suffix != ".toml":
        path = data_path(f"{variant.base}.toml")
        if not path.exists():
            raise ScenarioError(str(invalid("scenario", variant.base, scenario_names())))
    source = f"{path} with {variant.text}" if variant.settings else str(path)
    data = read_scenario(path)
    for key, value in variant.settings.items():
        if file_only(key):
            raise ScenarioError(
                f"{source}: key {key!r} is {typed(value)}; allowed: in a scenario file alone "
                "(docs/scenarios.md)"
            )
        table: dict[str, Any] = {}
        inner = table
        *parents, last = key.split(".")
        for parent in parents:
            inner[parent] = inner = {}
        inner[last] = value
        data = _merged(data, table)
    spec = _with_local_files(validate(Scenario, data, source), path.parent)
    return _renamed(spec, variant), source


def _renamed(spec: Scenario, variant: Variant) -> Scenario:
    """A variant goes by its own name, and is controlled by the same variant of its control."""
    if not variant.settings:
        return spec
    changes = {
        key: Variant(name, variant.settings).name
        for key in _IDENTITY
        if (name := getattr(spec, key)) is not None
    }
    return spec.model_copy(update=changes)


def load_world(scenario: str | Path | Scenario) -> World:
    """Loads a scenario with its town and people, and checks that they fit together.

    Args:
        scenario: Name of a shipped scenario or path to a TOML file, either with changed keys as in
            `fire_escape@perception.hazard_radius=12`, or a scenario.

    Returns:
        The world.

    Raises:
        ScenarioError: If a file is missing or wrong; it names the file and the key.
        MapError: If the map is wrong.
    """
    from voville_env.scenario.check import check_world

    if isinstance(scenario, Scenario):
        source = f"scenario {scenario.name!r}"
        spec = scenario
    else:
        spec, source = _read_variant(scenario)
    people = load_personas(spec.personas)
    by_id = {persona.id: persona for persona in people.personas}
    for index, plan in enumerate(spec.agents):
        if plan.id not in by_id:
            raise ScenarioError(f"{source}: {invalid(f'agents.{index}.id', plan.id, by_id)}")
    personas = tuple(by_id[plan.id] for plan in spec.agents)
    rules = {name: entry.model_dump() for name, entry in people.rules.items()}
    world = World(spec, load_map(spec.map), personas, rules, source)
    check_world(world)
    return world


def _with_local_files(spec: Scenario, folder: Path) -> Scenario:
    """Resolves map and persona paths against the scenario's own folder."""
    changes = {}
    for key in ("map", "personas"):
        value = getattr(spec, key)
        if value.endswith((".tmx", ".toml")) and not Path(value).is_absolute():
            changes[key] = str(folder / value)
    return spec.model_copy(update=changes) if changes else spec
