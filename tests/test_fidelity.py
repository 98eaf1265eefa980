"""The list of conflicts is complete, and every path and switch that it names is really there."""

from __future__ import annotations

import re
import tomllib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin

import pytest
import typer
from pydantic import BaseModel

from pave_policy.llm.settings import ChatSettings
from voville_env.cli.app import app
from voville_env.errors import ScenarioError, VovilleError
from voville_env.metrics import BY_KEY
from voville_env.policy import accepted, installed, load_policy
from voville_env.scenario import Scenario, load_world
from voville_env.scenario.load import validate
from voville_env.variant import Scalar, Variant

CONFLICTS = [f"C-{number:02}" for number in range(1, 80)] + ["C-46b"]
NOTHING = "–"
SAMPLES = ("fire_escape_officers", "jaywalk")


class Row(NamedTuple):
    """A row of the document; the number is empty for a choice that is no conflict of the paper."""

    number: str
    question: str
    choice: str
    where: str
    switch: str


class Switch(NamedTuple):
    """A switch: of what kind, its name, and the values that are named."""

    kind: str
    name: str
    values: tuple[str, ...]


def rows_of(text: str) -> list[Row]:
    """The rows of all tables, without heads and rules."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells or cells[-1] == "switch" or set(cells[-1]) <= {"-"}:
            continue
        number = cells.pop(0).strip("*") if len(cells) == 5 else ""
        found.append(Row(number, *cells))
    return found


def switches_of(cell: str) -> list[Switch]:
    """The switches of a cell; anything but switches, a dash or a reason is an error."""
    if cell == NOTHING or re.fullmatch(r"none: \w.+", cell):
        return []
    found = []
    for part in cell.split("; "):
        match = re.fullmatch(r"`(\w+) (?:--)?([\w.-]+)(?:=([^`]+))?`", part)
        assert match, f"{part!r} is no switch"
        kind, name, values = match.groups()
        found.append(Switch(kind, name, tuple((values or "").split(r"\|")) if values else ()))
    return found


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "docs" / "fidelity.md").read_text("utf-8")


def value_of(word: str) -> Any:
    """A value as on the command line: a TOML scalar, or a bare word."""
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


# --- does a switch exist, and are its values accepted


def parts_of(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in an annotation such as `list[Officer]` or `Clock | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (list, tuple, Union, types.UnionType):
        for inner in get_args(annotation):
            yield from parts_of(inner)


def is_scenario_key(name: str) -> bool:
    models: list[type[BaseModel]] = [Scenario]
    for key in name.split("."):
        fields = [model.model_fields[key] for model in models if key in model.model_fields]
        if not fields:
            return False
        models = [part for field in fields for part in parts_of(field.annotation)]
    return True


def put(data: dict[str, Any], name: str, value: Any) -> None:
    """Sets a dotted key; in a list, of every entry."""
    head, _, rest = name.partition(".")
    if not rest:
        data[head] = value
        return
    below = data[head]
    for part in below if isinstance(below, list) else [below]:
        put(part, rest, value)


def set_scenario(name: str, value: Any) -> None:
    for sample in SAMPLES:
        load_world(Variant(sample).varied(name, value).name)


def set_file(name: str, value: Any) -> None:
    for sample in SAMPLES:
        data = load_world(sample).scenario.model_dump(mode="json")
        put(data, name, value)
        load_world(validate(Scenario, data, sample))


def is_nameable(name: str) -> bool:
    """Whether a key can be set in a name: to what it is, or to a word where it is no scalar."""
    value: Any = load_world(SAMPLES[1]).scenario.model_dump(mode="json")
    for key in name.split("."):
        value = value.get(key, "word") if isinstance(value, dict) else "word"
    kept = value if isinstance(value, Scalar) else "word"
    try:
        set_scenario(name, 1 if value is None else kept)
    except VovilleError:
        return False
    return is_scenario_key(name)


def set_policy(name: str, value: Any) -> None:
    load_policy("pave", **{name: value})


def set_vanilla(name: str, value: Any) -> None:
    load_policy("vanilla", **{name: value})


def set_backbone(name: str, value: Any) -> None:
    ChatSettings(base_url="http://127.0.0.1:9/v1", model="m", **{name: value})


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def is_flag(name: str) -> bool:
    return any(f"--{name}" in parameter.opts for parameter in commands()["bench"].params)


EXISTS: dict[str, Callable[[str], bool]] = {
    "scenario": is_nameable,
    "file": lambda name: is_scenario_key(name) and not is_nameable(name),
    "policy": lambda name: name in installed() or name in accepted("pave") - {"name", "gate"},
    "vanilla": lambda name: name in accepted("vanilla") - {"name"},
    "backbone": lambda name: name in ChatSettings.model_fields,
    "metric": lambda name: name in BY_KEY,
    "command": lambda name: name in commands(),
    "bench": is_flag,
}
SET: dict[str, Callable[[str, Any], None]] = {
    "scenario": set_scenario,
    "file": set_file,
    "policy": set_policy,
    "vanilla": set_vanilla,
    "backbone": set_backbone,
}


def check(switch: Switch) -> None:
    """Fails where a switch is not there, refuses a value that is named, or takes any value."""
    assert EXISTS[switch.kind](switch.name), f"there is no {switch.kind} {switch.name}"
    for word in switch.values:
        try:
            SET[switch.kind](switch.name, value_of(word))
        except VovilleError as error:
            raise AssertionError(f"{switch} refuses {word}") from error
    if switch.values:
        with pytest.raises(VovilleError):
            SET[switch.kind](switch.name, "nonsense")


# --- the document


def test_every_conflict_has_exactly_one_row(text: str) -> None:
    numbers = [row.number for row in rows_of(text) if row.number]
    assert sorted(numbers) == sorted(CONFLICTS)


def test_every_row_says_what_was_asked_and_chosen(text: str) -> None:
    rows = rows_of(text)
    assert len(rows) > len(CONFLICTS) + 20
    for row in rows:
        assert all(row[1:]), row
        assert row.number or not row.switch.startswith("none"), row
        assert not row.number or row.switch != NOTHING, row
        assert row.where != NOTHING or row.switch.startswith("none: not built"), row


def test_every_path_exists(text: str, repository: Path) -> None:
    for row in rows_of(text):
        paths = re.findall(r"`([^`]+)`", row.where)
        assert row.where in (NOTHING, ", ".join(f"`{path}`" for path in paths)), row
        for path in paths:
            assert (repository / path).is_file(), path


def test_every_switch_is_there_and_takes_the_values_named(text: str) -> None:
    switches = {switch for row in rows_of(text) for switch in switches_of(row.switch)}
    assert {switch.kind for switch in switches} == set(EXISTS)
    assert len(switches) > 60
    for switch in sorted(switches):
        check(switch)


def test_a_key_of_a_file_says_so_in_a_name(text: str) -> None:
    switches = {switch for row in rows_of(text) for switch in switches_of(row.switch)}
    keys = [switch.name for switch in switches if switch.kind == "file"]
    assert len(keys) > 5
    for key in keys:
        with pytest.raises(ScenarioError, match=f"'{key}' is 1; allowed: in a scenario file alone"):
            load_world(f"jaywalk@{key}=1")


def default_of(kind: str, name: str) -> Any:
    if kind == "backbone":
        return ChatSettings.model_fields[name].default
    data: Any = load_world("fire_escape_officers").scenario.model_dump()
    for key in name.split("."):
        data = data[0][key] if isinstance(data, list) else data[key]
    return data


def test_the_first_value_is_the_default(text: str) -> None:
    for row in rows_of(text):
        for switch in switches_of(row.switch):
            if switch.values and switch.kind not in ("policy", "vanilla"):
                default = default_of(switch.kind, switch.name)
                assert default in (value_of(switch.values[0]), None), (row.number, switch)


# --- the checks themselves can fail


@pytest.mark.parametrize(
    "switch",
    [
        Switch("scenario", "perception.cue_radios", ()),
        Switch("scenario", "perception.cue_radius.x", ()),
        Switch("scenario", "officers.script", ()),
        Switch("scenario", "officers.reactive", ("false", "true")),
        Switch("scenario", "pass_window", ()),
        Switch("scenario", "perception", ()),
        Switch("file", "officers.scripts", ()),
        Switch("file", "perception.cue_radius", ("12",)),
        Switch("scenario", "perception.severity_model", ("linear", "quadratic")),
        Switch("scenario", "confederate_count", ("9",)),
        Switch("scenario", "title", ("any",)),
        Switch("policy", "pave-with-no-gate", ()),
        Switch("policy", "gate", ()),
        Switch("policy", "perception", ("structure", "dream")),
        Switch("policy", "peer_text", ("7",)),
        Switch("vanilla", "reflection_triggers", ()),
        Switch("backbone", "paper_input", ()),
        Switch("backbone", "paper_inputs", ("maybe",)),
        Switch("metric", "vr_coffee", ()),
        Switch("command", "benchmark", ()),
        Switch("bench", "policies", ()),
    ],
)
def test_a_switch_that_is_not_there_or_takes_other_values_is_found(switch: Switch) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(switch)


@pytest.mark.parametrize("cell", ["", "none", "none:", "`clock.days`", "see above", "`a b`, `c d`"])
def test_a_cell_that_is_no_switch_is_found(cell: str) -> None:
    with pytest.raises(AssertionError):
        switches_of(cell)


def test_reading_a_row() -> None:
    line = r"| **C-02** | q | c | `a.py` | `scenario confederate_count=2\|1`; `bench --policy` |"
    (row,) = rows_of(f"| no. | question | choice | where | switch |\n|---|---|---|---|---|\n{line}")
    assert row.number == "C-02" and row.where == "`a.py`"
    assert switches_of(row.switch) == [
        Switch("scenario", "confederate_count", ("2", "1")),
        Switch("bench", "policy", ()),
    ]
