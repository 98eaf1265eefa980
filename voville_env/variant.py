"""Names that carry settings, such as `pave@threshold=50` or `fire_escape@clock.days=1`."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

from voville_env.errors import InvalidValueError

Scalar = str | int | float | bool
_HEAD = re.compile(r"(?P<base>.*?)@(?=\s*[A-Za-z_][\w.-]*\s*=)")
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*')"""
_ITEM = re.compile(
    r"\s*(?P<key>[A-Za-z_][\w.-]*)\s*=\s*"
    rf"""(?P<value>{_QUOTED}|[^,"'\s]+)\s*(?P<more>,|\Z)"""
)
_BARE = re.compile(r"[\w./+:-]+", re.ASCII)


@dataclass(frozen=True)
class Variant:
    """A policy or scenario with some of its settings changed.

    Attributes:
        base: The plain name.
        settings: What is changed.
    """

    base: str
    settings: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name with its settings, the same for the same settings however they were written."""
        return f"{self.base}@{self.text}" if self.settings else self.base

    @property
    def text(self) -> str:
        """The settings alone, by key, as they stand in the name."""
        return ",".join(f"{key}={write_value(self.settings[key])}" for key in sorted(self.settings))

    def varied(self, key: str, value: Scalar) -> Variant:
        """The same with one more setting.

        Args:
            key: The setting.
            value: Its value.

        Returns:
            A new variant.
        """
        return Variant(self.base, {**self.settings, key: value})

    def without(self, key: str) -> Variant:
        """The same with one setting less.

        Args:
            key: The setting; it need not be there.

        Returns:
            A new variant.
        """
        return Variant(self.base, {k: v for k, v in self.settings.items() if k != key})


def read_variant(text: str) -> Variant:
    """Reads a name that may carry settings.

    Args:
        text: `name` or `name@key=value,key=value`; a value is a TOML scalar, or else a plain word.

    Returns:
        The variant; one without settings for a plain name.

    Raises:
        InvalidValueError: If what follows the `@` is no list of settings, or gives a key twice.
    """
    head = _HEAD.match(text)
    if head is None:
        if "@" in text and not text.endswith(".toml"):
            raise _no_settings(text, text.partition("@")[2])
        return Variant(text)
    rest = text[head.end() :]
    settings: dict[str, Scalar] = {}
    position, more = 0, True
    while more:
        item = _ITEM.match(rest, position)
        if item is None:
            raise _no_settings(text, rest[position:])
        key = item["key"]
        if key in settings:
            raise InvalidValueError(f"{text!r} gives {key!r} twice")
        settings[key] = read_value(item["value"], f"{key!r} in {text!r}")
        position, more = item.end(), bool(item["more"])
    return Variant(head["base"], settings)


def _no_settings(text: str, rest: str) -> InvalidValueError:
    return InvalidValueError(f"{text!r} has {rest!r} after '@'; allowed: key=value,key=value")


def read_value(text: str, name: str) -> Scalar:
    """Reads the value of a setting.

    Args:
        text: A TOML scalar, or else a plain word.
        name: What the value is of, for the message.

    Returns:
        The value; dates and times stay words.

    Raises:
        InvalidValueError: If it is neither, or not a finite number.
    """
    bare = _BARE.fullmatch(text) is not None
    allowed = f"{name} is {text!r}; allowed: a finite number, true, false, a word, quoted text"
    if not bare and re.fullmatch(_QUOTED, text) is None:
        raise InvalidValueError(allowed)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        if not bare:
            raise InvalidValueError(allowed) from error
        return text
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidValueError(allowed)
    return value if isinstance(value, str | int | float | bool) else text


def write_value(value: Scalar) -> str:
    """Writes a value so that it can be read back.

    Args:
        value: The value.

    Returns:
        A word where that is enough, and a TOML scalar otherwise.
    """
    if isinstance(value, str) and _BARE.fullmatch(value) and _is_word(value):
        return value
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def typed(value: object) -> str:
    """A value in a message: true and false as somebody types them.

    Args:
        value: What was given.

    Returns:
        The value as text.
    """
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _is_word(text: str) -> bool:
    try:
        return read_value(text, "value") == text
    except InvalidValueError:
        return False


def read_values(text: str, name: str) -> tuple[Scalar, ...]:
    """Reads a list of values with commas between them.

    Args:
        text: The list.
        name: What the values are of, for the message.

    Returns:
        The values.

    Raises:
        InvalidValueError: If one cannot be read, or is given twice.
    """
    found: dict[str, Scalar] = {}
    for part in text.split(","):
        value = read_value(part.strip(), name)
        written = write_value(value)
        if written in found:
            raise InvalidValueError(f"values of {name} give {written} twice")
        found[written] = value
    return tuple(found.values())
