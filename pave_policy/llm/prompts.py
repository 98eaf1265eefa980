"""The prompts: templates read from files and checked, then filled in with values as mere data."""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypeVar

import jinja2
import jinja2.sandbox
from jinja2 import meta, nodes
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from pave_policy.llm.operations import OPERATIONS
from voville_env.errors import VovilleError, nearest

__all__ = ["OPERATIONS", "PromptError", "Template", "load_templates", "render", "variants"]

Model = TypeVar("Model", bound=BaseModel)

MAX_ENTRIES = 12
"""A list keeps this many entries, at any depth; one of statements more."""
MAX_STATEMENTS = 30
"""As many are kept of what an agent remembers."""


class _Input(NamedTuple):
    """What a value must be, and where its strings and lists are cut."""

    kind: type[Any]
    max_chars: int
    max_entries: int = MAX_ENTRIES


_INPUTS = {
    "agent_name": _Input(str, 120),
    "agent_description": _Input(str, 2000),
    "observation": _Input(str, 6000),
    "relevant_rules": _Input(str, 2000),
    "personal_rules": _Input(str, 4000),
    "officer_instruction": _Input(str, 240),
    "p_emp_share": _Input(str, 240),
    "freedom": _Input(str, 240),
    "route_alternatives": _Input(str, 1000),
    "current_plan": _Input(str, 2000),
    "environment_feedback": _Input(str, 240),
    "threshold": _Input(int, 0),
    "context": _Input(dict, 600),
    "assessment": _Input(dict, 600),
    "verdict": _Input(dict, 600),
    "situational_cues": _Input(list, 240),
    "peer_behaviors": _Input(list, 240),
    "executed_actions": _Input(list, 240),
    "prior_justifications": _Input(list, 240),
    "event": _Input(str, 300),
    "question": _Input(str, 300),
    "doing": _Input(str, 300),
    "day": _Input(dict, 240),
    "part": _Input(dict, 300),
    "situation": _Input(dict, 120),
    "reactions": _Input(dict, 120),
    "schedule": _Input(list, 240),
    "day_plan": _Input(list, 300),
    "events": _Input(list, 300),
    "memories": _Input(list, 300, MAX_STATEMENTS),
    "statements": _Input(list, 300, MAX_STATEMENTS),
}
_EXAMPLES = "examples"
# What would close a tag, start a line of its own, or could not be sent as UTF-8.
_ESCAPED = re.compile("[<>\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class PromptError(VovilleError, ValueError):
    """A prompt that cannot be used: the message names the file and the variable or key."""


@dataclass(frozen=True)
class Template:
    """One operation's prompt, with a variant applied.

    Attributes:
        operation: Such as `assess_risk`.
        title: Its name in the paper's style, which stands in the first line of the prompt.
        version: Counts the wordings, from 1.
        inputs: Values that are always given.
        optional_inputs: Values that are None where there is nothing to say or it is switched off.
        answer: Whether a JSON object or a numbered list of actions is asked for.
        max_tokens: Limit on the reply.
        paper_max_tokens: The paper's limit.
        reminder: The line added when an unreadable answer is asked for again.
        examples: The answers that the prompt itself shows.
        summary: What the operation does, for listings.
        body: The Jinja2 source.
        digest: Identifies file and variant: sixteen hex digits of a SHA-256.
    """

    operation: str
    title: str
    version: int
    inputs: tuple[str, ...]
    optional_inputs: tuple[str, ...]
    answer: Literal["json", "actions"]
    max_tokens: int
    paper_max_tokens: int
    reminder: str
    examples: tuple[Mapping[str, Any], ...]
    summary: str
    body: str
    digest: str


_Line = Annotated[str, Field(pattern=r"^[^\r\n]+$")]
_Count = Annotated[int, Field(ge=1)]


class _Header(BaseModel):
    """The front matter of a template file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    operation: str
    title: _Line
    version: _Count
    inputs: list[str]
    optional_inputs: list[str]
    answer: Literal["json", "actions"]
    max_tokens: _Count
    paper_max_tokens: _Count
    reminder: _Line
    examples: list[dict[str, JsonValue]]
    summary: _Line


class _Change(BaseModel):
    """What a variant does to one operation, or to all of them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    append: str = ""
    max_tokens: _Count | None = None
    reminder: _Line | None = None


def variants(folder: Path | None = None) -> list[str]:
    """The variants on offer.

    Args:
        folder: A folder of prompts; None for the one that ships.

    Returns:
        Their names, sorted.
    """
    return sorted(path.stem for path in ((folder or _shipped_folder()) / "variants").glob("*.toml"))


def load_templates(variant: str = "", folder: Path | None = None) -> Mapping[str, Template]:
    """Reads and checks the templates.

    Args:
        variant: A variant to apply, or nothing.
        folder: A user's own copy of the prompts, variants included; None for those that ship.

    Returns:
        The templates by operation, in the order of `OPERATIONS`.

    Raises:
        PromptError: If a file is missing or not as it must be, or the variant does not exist.
    """
    return _shipped(variant) if folder is None else _load(variant, folder)


def render(template: Template, values: Mapping[str, Any]) -> str:
    """Fills in a template.

    Args:
        template: The template.
        values: One for each of its inputs; optional ones may be None. Long strings and lists are
            cut.

    Returns:
        The prompt.

    Raises:
        PromptError: If a value is missing, too many or of the wrong type.
    """
    file = f"{template.operation}.md"
    names = (*template.inputs, *template.optional_inputs)
    for name in values:
        if name not in names:
            raise PromptError(f"{file}: {name} is not one of its inputs{nearest(name, names)}")
    given: dict[str, Any] = {_EXAMPLES: template.examples}
    for name in names:
        if name not in values:
            raise PromptError(f"{file}: no value is given for {name}")
        optional = name in template.optional_inputs and values[name] is None
        given[name] = None if optional else _checked(file, name, values[name])
    try:
        return _compiled(template.body).render(given)
    except (jinja2.TemplateError, TypeError, ValueError) as error:
        raise PromptError(f"{file}: cannot be filled in: {error}") from error


def _checked(file: str, name: str, value: Any) -> Any:
    """A value of the right type, cut to the bounds of its input."""
    kind, max_chars, max_entries = _INPUTS[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        given = "None" if value is None else type(value).__name__
        raise PromptError(f"{file}: {name} is {given}; allowed: {kind.__name__}")
    if isinstance(value, list):
        for entry in value:
            if not isinstance(entry, str | Mapping):
                raise PromptError(
                    f"{file}: {name} has an entry {reprlib.repr(entry)}; allowed: str, dict"
                )
    try:
        return _cut(value, max_chars, max_entries)
    except TypeError as error:
        raise PromptError(f"{file}: {name} holds {error}, which is no JSON") from error


def _cut(value: Any, max_chars: int, max_entries: int = MAX_ENTRIES) -> Any:
    """A JSON value with its long strings and lists cut."""
    if isinstance(value, str):
        return value if len(value) <= max_chars else value[: max_chars - 1] + "…"
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _cut(item, max_chars) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, max_chars) for item in value[:max_entries]]
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise TypeError(reprlib.repr(value))


def _as_data(value: Any) -> str:
    """The filter `data`: JSON on one line in which no tag can open or close."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_refuse)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _refuse(value: Any) -> NoReturn:
    # An undefined value raises here, on being turned into text, and says what is undefined.
    raise jinja2.TemplateRuntimeError(f"{value} is no JSON")


def _make_environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True
    )
    environment.globals.clear()  # a global would pass for a variable that is given
    environment.filters["data"] = _as_data
    return environment


_ENVIRONMENT = _make_environment()


@lru_cache(maxsize=128)
def _compiled(body: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(body)


def _shipped_folder() -> Path:
    return Path(str(files("pave_policy.prompts")))


@cache
def _shipped(variant: str) -> Mapping[str, Template]:
    return _load(variant, _shipped_folder())


def _load(variant: str, folder: Path) -> Mapping[str, Template]:
    changes = _read_variant(variant, folder) if variant else {}
    return MappingProxyType(
        {
            operation: _read_template(folder / f"{operation}.md", changes.get(operation, _Change()))
            for operation in OPERATIONS
        }
    )


def _read_template(path: Path, change: _Change) -> Template:
    text = _read_text(path)
    before, _, rest = text.partition("+++\n")
    front, closing, body = rest.partition("\n+++\n")
    if before or not closing:
        raise PromptError(f"{path}: does not begin with TOML between two lines '+++'")
    header = _validated(_Header, _parse_toml(path, front), path)
    applied = change.model_dump_json(exclude_unset=True) if change.model_fields_set else ""
    template = Template(
        **header.model_dump(exclude={"inputs", "optional_inputs", "examples"})
        | change.model_dump(include={"max_tokens", "reminder"}, exclude_unset=True),
        inputs=tuple(header.inputs),
        optional_inputs=tuple(header.optional_inputs),
        examples=tuple(header.examples),
        body="\n".join(part for part in (body.strip("\n"), change.append.strip("\n")) if part),
        digest=hashlib.sha256((text + applied).encode()).hexdigest()[:16],
    )
    _check_header(template, path)
    _check_body(template, path)
    return template


def _read_variant(name: str, folder: Path) -> dict[str, _Change]:
    """What a variant does to each operation; its own table goes before the one for all."""
    offered = variants(folder)
    if name not in offered:
        listed = ", ".join(offered) or "none"
        raise PromptError(f"variant is {name!r}; allowed: {listed}{nearest(name, offered)}")
    path = folder / "variants" / f"{name}.toml"
    tables = _parse_toml(path, _read_text(path))
    allowed = ("all", *OPERATIONS)
    for key, table in tables.items():
        if key not in allowed:
            raise PromptError(f"{path}: unknown operation {key!r}{nearest(key, allowed)}")
        _validated(_Change, table, path, key)
    shared = tables.get("all", {})
    return {each: _Change(**shared | tables.get(each, {})) for each in OPERATIONS}


def _check_header(template: Template, path: Path) -> None:
    if template.operation != path.stem:
        raise PromptError(
            f"{path}: operation is {template.operation!r}; allowed: {path.stem!r}, as the file name"
        )
    names = (*template.inputs, *template.optional_inputs)
    for name in names:
        if name not in _INPUTS:
            raise PromptError(f"{path}: unknown input {name!r}{nearest(name, _INPUTS)}")
        if names.count(name) > 1:
            raise PromptError(f"{path}: input {name!r} is listed twice")


def _check_body(template: Template, path: Path) -> None:
    """Checks that the body prints what the header lists, nothing else, and only as data."""
    opening = f"OPERATION: {template.title}"
    if template.body.partition("\n")[0] != opening:
        raise PromptError(f"{path}: the first line of the body is not {opening!r}")
    try:
        tree = _ENVIRONMENT.parse(template.body)
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(f"{path}: line {error.lineno} of the body: {error}") from error
    listed = {*template.inputs, *template.optional_inputs}
    if template.examples:
        listed.add(_EXAMPLES)
    used = meta.find_undeclared_variables(tree)
    for name in sorted(used - listed):
        raise PromptError(f"{path}: the body uses {name}, not in the header{nearest(name, listed)}")
    for name in sorted(listed - used):
        raise PromptError(f"{path}: the body never uses {name}, which the header lists")
    for output in tree.find_all(nodes.Output):
        for node in output.nodes:
            printed_as_data = isinstance(node, nodes.Filter) and node.name == "data"
            if not isinstance(node, nodes.TemplateData) and not printed_as_data:
                raise PromptError(
                    f"{path}: line {node.lineno} of the body prints a value without '| data'"
                )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise PromptError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path}: cannot be read as UTF-8 text: {error}") from error


def _parse_toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PromptError(f"{path}: not TOML: {error}") from error


def _validated(model: type[Model], data: Any, path: Path, *prefix: str) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # A misspelt key is also a missing one: the spelling is what helps.
        first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
        key = ".".join([*prefix, *(str(part) for part in first["loc"])])
        if first["type"] == "extra_forbidden":
            allowed = list(model.model_fields)
            hint = nearest(first["loc"][-1], allowed)
            raise PromptError(
                f"{path}: unknown key {key!r}; allowed: {', '.join(allowed)}{hint}"
            ) from error
        given = "" if first["type"] == "missing" else f" is {first['input']!r}"
        raise PromptError(f"{path}: key {key!r}{given}: {first['msg']}") from error
