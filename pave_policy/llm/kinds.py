"""The kinds of value that answers are made of; each is taken as it stands or not at all."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, model_validator

MAX_TEXT = 2000
"""Characters of a text."""
MAX_ENTRY = 300
"""Characters of a text that is an entry of a list."""
MAX_COUNT = 10_000
"""The greatest distance or number of people; beyond what any town holds."""

_PLAIN_INTEGER = re.compile("0|[1-9][0-9]{0,8}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def can_be_encoded(text: str) -> bool:
    """Whether a text can be written as UTF-8.

    Args:
        text: Any string.

    Returns:
        False where half of a surrogate pair stands alone in it.
    """
    return _SURROGATE.search(text) is None


def fold(key: str) -> str:
    """The spelling under which keys are compared.

    Args:
        key: A key of a reply.

    Returns:
        The key in lower case, with underscores for spaces and hyphens.
    """
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def show(value: object) -> str:
    """A value in a message.

    Args:
        value: Any part of a reply.

    Returns:
        Something short, on one line and free of what cannot be encoded.
    """
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return reprlib.repr(value)


def _as_whole(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if _PLAIN_INTEGER.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def between(low: int, high: int) -> Callable[[object], int]:
    """Makes a check for whole numbers.

    Args:
        low: The least.
        high: The greatest.

    Returns:
        The check, which gives the number or raises ValueError.
    """

    def check(value: object) -> int:
        number = _as_whole(value)
        if number is None or not low <= number <= high:
            raise ValueError(f"is {show(value)}; allowed: a whole number from {low} to {high}")
        return number

    return check


def text_of(max_chars: int) -> BeforeValidator:
    """Makes a check for texts.

    Args:
        max_chars: How long one may be.

    Returns:
        The check.
    """

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"is {show(value)}; allowed: a text")
        if not value.strip():
            raise ValueError("is an empty text")
        if len(value) > max_chars:
            raise ValueError(f"has {len(value)} characters; allowed: up to {max_chars}")
        if not can_be_encoded(value):
            raise ValueError("holds a character that cannot be written as UTF-8")
        return value

    return BeforeValidator(check)


def entries(limit: int, least: int = 0) -> BeforeValidator:
    """Makes a check for the length of a list.

    Args:
        limit: How many entries it may have.
        least: How many it must have.

    Returns:
        The check.
    """

    def check(value: object) -> object:
        if not isinstance(value, list | tuple):
            raise ValueError(f"is {show(value)}; allowed: a list")
        if not least <= len(value) <= limit:
            span = {0: f"up to {limit}", limit: f"exactly {limit}"}
            allowed = span.get(least, f"{least} to {limit}")
            raise ValueError(f"has {len(value)} entries; allowed: {allowed}")
        return value

    return BeforeValidator(check)


def _check_flag(value: object) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if word is True or word == "true":
        return True
    if word is False or word == "false":
        return False
    raise ValueError(f"is {show(value)}; allowed: true or false")


check_count = between(0, MAX_COUNT)

Score = Annotated[int, BeforeValidator(between(1, 100))]
Percentage = Annotated[int, BeforeValidator(between(0, 100))]
Count = Annotated[int, BeforeValidator(check_count)]
Flag = Annotated[bool, BeforeValidator(_check_flag)]
Text = Annotated[str, text_of(MAX_TEXT)]
Entry = Annotated[str, text_of(MAX_ENTRY)]


@dataclass(frozen=True)
class Asked:
    """What the prompt itself says of the answer, for the operations where that varies.

    Attributes:
        start: The minute at which a plan begins.
        end: The minute at which it ends; None where it may end at any.
        statements: How many statements are shown; None for any number.
        can_follow: Whether ``"follow"`` is among the reactions.
    """

    start: int = 0
    end: int | None = None
    statements: int | None = None
    can_follow: bool = True


ANYTHING = Asked()


def asked_of(info: ValidationInfo) -> Asked:
    """What a prompt said of the answer that is being read.

    Args:
        info: Of the validation.

    Returns:
        What it said; nothing in particular where that is not known.
    """
    return info.context if isinstance(info.context, Asked) else ANYTHING


class Answer(BaseModel):
    """An object that a model answers with: its keys are matched by `fold`, others are ignored."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def shares_a_key(cls, data: Mapping[str, Any]) -> bool:
        """Whether an object has one of the keys of this answer.

        Args:
            data: A JSON object.

        Returns:
            True if it has one at least.
        """
        return any(fold(key) in cls.model_fields for key in data)

    @model_validator(mode="before")
    @classmethod
    def _match_keys(cls, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            raise ValueError(f"is {show(data)}; allowed: an object")
        found: dict[str, Any] = {}
        for key, value in data.items():
            name = fold(key)
            if name in found:
                raise ValueError(f"has {name} in more than one spelling")
            if name in cls.model_fields:
                found[name] = value
        return found
