"""JSON by the letter of the standard, and of bounded size."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

MAX_DIGITS = 100
"""Digits of a number, whatever it is for."""
MAX_DEPTH = 32
"""Objects and lists inside each other."""

TOKEN = re.compile(r'[{}\[\]]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""Brackets of both kinds, and whole strings, whose brackets do not count."""


class NotJsonError(ValueError):
    """A text that is not strict JSON."""


def parse(text: str) -> Any:
    """Parses strict JSON: no constants beyond the standard, no key twice, nothing vast.

    Args:
        text: The text.

    Returns:
        Its value.

    Raises:
        NotJsonError: If it is none.
    """
    if _is_deep(text):
        raise NotJsonError("an object that is nested too deeply")
    try:
        return json.loads(
            text,
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_repeats,
        )
    except json.JSONDecodeError:
        raise NotJsonError("an object that is not strict JSON") from None


def _is_deep(text: str) -> bool:
    depth = 0
    for token in TOKEN.finditer(text):
        depth += (token[0] in ("{", "[")) - (token[0] in ("}", "]"))
        if depth > MAX_DEPTH:
            return True
    return False


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise NotJsonError(f"a number of {len(digits)} digits")
    return int(digits)


def _parse_float(digits: str) -> float | str:
    """A float; as it is written where reading would round it to a whole number."""
    value = float(digits)
    return digits if value.is_integer() and Decimal(digits) != Decimal(value) else value


def _refuse_constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name}, which is not JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotJsonError("an object that has a key twice")
    return found
