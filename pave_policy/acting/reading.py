"""What an action in words comes to: a manner of going on, and the rules that it says are broken."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from importlib.resources import files

from voville_env.core.codes import Rule

_BETWEEN = r"(?:\s+\w+){0,3}?\s+"
_WORD_BREAK = re.compile(r"[^\w,;:.!?()]+")
_STOP = re.compile(r"[;:.!?()]|,(?!\s*(?:(?:or|nor|and)\s+)?(?:\w+ing\b|or\b|nor\b))")


class Manner(StrEnum):
    """What an action amounts to on foot."""

    BREAK = "break"
    """Going on and breaking rules that the words name."""
    LAWFUL = "lawful"
    """Going on by the way that keeps every rule, waiting where it must."""
    BACK = "back"
    """Getting off the road."""
    GO = "go"
    """Going on by the way of the verdict."""
    STAND = "stand"
    """Staying put."""


@dataclass(frozen=True)
class Deed:
    """An action as it was read.

    Attributes:
        manner: What it amounts to.
        breaks: The rules that it says are broken, one bit each.
    """

    manner: Manner
    breaks: int = 0


@dataclass(frozen=True)
class _Phrasebook:
    """The rules of reading, compiled."""

    harmless: re.Pattern[str]
    negations: re.Pattern[str]
    clauses: re.Pattern[str]
    manners: dict[Manner, re.Pattern[str]]
    breaks: dict[Rule, re.Pattern[str]]


@lru_cache(maxsize=4096)
def read_deed(text: str) -> Deed | None:
    """Reads one action.

    Args:
        text: Its words.

    Returns:
        What it says is done; None where nothing in it is understood.
    """
    book = _phrasebook()
    plain = _WORD_BREAK.sub(" ", text.lower()).strip()
    found: set[Manner] = set()
    breaks = 0
    for part in _STOP.split(plain):
        for clause in book.clauses.split(part.replace(",", " ")):
            found |= _manners_in(clause, book)
            breaks |= _breaks_in(clause, book)
            if any(_said(book, pattern, clause, denied=True) for pattern in book.breaks.values()):
                found.add(Manner.GO)  # what is left out says how somebody goes on
    if breaks:
        return Deed(Manner.BREAK, breaks)
    return next((Deed(manner) for manner in Manner if manner in found), None)


def _breaks_in(clause: str, book: _Phrasebook) -> int:
    rest = book.harmless.sub(" ", clause)
    return sum(1 << rule for rule, pattern in book.breaks.items() if _said(book, pattern, rest))


def _manners_in(clause: str, book: _Phrasebook) -> set[Manner]:
    found = {manner for manner, pattern in book.manners.items() if _said(book, pattern, clause)}
    if not found and _said(book, book.manners[Manner.GO], clause, denied=True):
        found.add(Manner.STAND)
    if not found and _said(book, book.manners[Manner.STAND], clause, denied=True):
        found.add(Manner.GO)
    return found


def _said(
    book: _Phrasebook, pattern: re.Pattern[str], clause: str, *, denied: bool = False
) -> bool:
    """Whether a clause holds a phrase: as what is done, or, if `denied`, as what is not.

    A negation counts before a phrase and inside it; at its beginning it belongs to the phrase.
    """
    negations = [match.start() for match in book.negations.finditer(clause)]
    return any(
        any(at < match.end() and at != match.start() for at in negations) is denied
        for match in pattern.finditer(clause)
    )


@cache
def _phrasebook() -> _Phrasebook:
    text = files("pave_policy.acting").joinpath("deeds.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    openers = "|".join(data["clauses"])
    return _Phrasebook(
        harmless=_compiled(data["harmless"]),
        negations=_compiled(data["negations"]),
        clauses=re.compile(rf"(?=\b(?:{openers})\b(?!\s+\w+ing\b))"),
        manners={Manner(name): _compiled(rows) for name, rows in data["manners"].items()},
        breaks={Rule[name]: _compiled(rows) for name, rows in data["breaks"].items()},
    )


def _compiled(phrases: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(rf"\b{_BETWEEN.join(map(_word, p.split()))}\b" for p in phrases))


def _word(word: str) -> str:
    stem = word.replace("*", r"\w*")
    return f"(?:{stem})"
