"""What is wrong with a scenario or persona file, in words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from voville_env.errors import nearest
from voville_env.variant import typed

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_BOUNDS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}"}
_TYPES = {int: "whole numbers", float: "numbers", bool: "true, false", str: "a text"}
_OF_ONE_VALUE = ("_type", "literal_error", "_than", "_than_equal", "finite_number")
"""Endings of pydantic's names for what can be wrong with a single value."""


def say(model: type[BaseModel], error: ErrorDetails) -> str:
    """Says what is wrong with a key.

    Args:
        model: What was read.
        error: What pydantic found.

    Returns:
        The key, its value, what is allowed and the nearest match.
    """
    unknown = error["type"] == "extra_forbidden"
    return _unknown_key(model, error["loc"]) if unknown else _wrong_value(model, error)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models in an annotation such as `Clock` or `list[Officer]`."""
    inner = getattr(annotation, "__args__", (annotation,))
    return [item for item in inner if isinstance(item, type) and issubclass(item, BaseModel)]


def field_of(model: type[BaseModel], location: Sequence[Any]) -> tuple[list[str], FieldInfo | None]:
    """Finds a part of a model.

    Args:
        model: The model.
        location: Keys and, in lists, numbers that lead to the part.

    Returns:
        The keys allowed beside the last one, and its field if there is such a one.
    """
    models: list[type[BaseModel]] = [model]
    found: FieldInfo | None = None
    keys: list[str] = []
    for step in location:
        if isinstance(step, int):
            continue
        keys = list(models[0].model_fields) if models else []
        found = models[0].model_fields.get(step) if models else None
        models = _models(found.annotation) if found else []
    return keys, found


def _dotted(model: type[BaseModel]) -> dict[str, str]:
    """Keys below a model's tables by their last part."""
    return {
        last: f"{key}.{last}"
        for key, field in model.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        for last in field.annotation.model_fields
    }


def _unknown_key(model: type[BaseModel], location: Sequence[Any]) -> str:
    """What is wrong with a key that there is not; one without its table is found all the same."""
    key, last = ".".join(map(str, location)), str(location[-1])
    allowed, _ = field_of(model, location)
    below = _dotted(model)
    near = {**below, **{name: name for name in allowed}}
    close = difflib.get_close_matches(last, allowed, 1) if last not in below else []
    close = close or difflib.get_close_matches(last, near, 1)
    hint = f"; did you mean {near[close[0]]!r}?" if close else ""
    return f"unknown key {key!r}; allowed: {', '.join(allowed)}{hint}"


def _allowed_values(field: FieldInfo, value: Any) -> str:
    """What a key with one value may be; empty for anything else."""
    options = getattr(field.annotation, "__args__", (field.annotation,))
    if get_origin(field.annotation) is Literal:
        return ", ".join(map(str, options)) + nearest(value, options)
    kinds = [_TYPES[kind] for kind in options if kind in _TYPES]
    if get_origin(field.annotation) not in (None, UnionType) or len(kinds) != 1:
        return ""
    limits = [
        words.format(f"{limit:g}")
        for name, words in _BOUNDS.items()
        for item in field.metadata
        if (limit := getattr(item, name, None)) is not None
    ]
    return " ".join([*kinds, *limits])


def _wrong_value(model: type[BaseModel], error: ErrorDetails) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"key {key!r}: {error['msg']}"
    shown = f"key {key!r} is {typed(error['input'])}"
    _, field = field_of(model, error["loc"])
    of_value = field is not None and error["type"].endswith(_OF_ONE_VALUE)
    allowed = _allowed_values(field, error["input"]) if field is not None and of_value else ""
    return f"{shown}; allowed: {allowed}" if allowed else f"{shown}: {error['msg']}"
