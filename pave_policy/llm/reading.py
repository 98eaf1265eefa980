"""From the text of a reply to a typed value, or a refusal with its reason; see docs/answers.md.

Only what can be read in one way is read. Nothing is repaired, and no text makes these functions
raise anything but `UnreadableError`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from pydantic import ValidationError

from pave_policy.llm.answers import ANSWERS
from pave_policy.llm.kinds import ANYTHING, MAX_ENTRY, Answer, Asked, can_be_encoded, fold
from pave_policy.llm.strict_json import TOKEN, NotJsonError, parse
from pave_policy.records import TimedAction
from voville_env.errors import VovilleError, invalid

MAX_REPLY = 100_000
"""Characters of a reply; a longer one is refused unread."""
MAX_ACTIONS = 12
"""Entries of a list of actions."""
MAX_SECONDS = 60
"""The longest duration of an action."""
WRAPPERS = ("answer", "result", "output", "response")
"""Names of a single key around an answer, besides the operation's and its model's own."""

PLACEHOLDERS = frozenset(
    {"one sentence", "short sentence", "two or three sentences", "a few words"}
)
"""What the prompts' format lines have where a text belongs."""

_NOT_ON_ITS_OWN = "an object that is not on its own but inside something else"
_TAG = re.compile(r"<(/?)(think|thinking|reasoning|reflection)\b[^<>]*>", re.IGNORECASE)
_MARK = re.compile(r"(?P<fence>`{3,})[ \t]*[\w+#.-]*|(?P<list>\[\s*+)?\{")
_LIST_GOES_ON = re.compile(r"\s*\]")
_LINE_END = re.compile(r"\r\n?|\n")
_ENTRY = re.compile(r"([0-9]{1,3})\.[ \t]+(.*)")
_NUMBERED = re.compile(r"[0-9]{1,3}\s*[.)]\s")
_DURATION = re.compile(r"\((0|[1-9][0-9]{0,3}) ?(?:s|sec|seconds)\)")


class UnreadableError(VovilleError, ValueError):
    """A reply that is refused: the message says why, in one short line that is safe to log."""


class _Piece(NamedTuple):
    """A code block, or an object in the prose, which may stand at an end of a list."""

    text: str
    in_list: bool


def read_answer(
    text: str,
    operation: str,
    examples: Sequence[Mapping[str, Any]] = (),
    asked: Asked = ANYTHING,
) -> Answer:
    """Reads the answer to an operation that asks for a JSON object.

    Args:
        text: The reply.
        operation: One of `ANSWERS`.
        examples: The answers that the prompt itself shows; they are never taken for the answer.
        asked: What the prompt says of this answer in particular.

    Returns:
        The answer.

    Raises:
        UnreadableError: If the reply does not hold exactly one answer.
        InvalidValueError: If the operation is unknown.
    """
    if operation not in ANSWERS:
        raise invalid("operation", operation, ANSWERS)
    model = ANSWERS[operation]
    _check_text(text)
    answer = _only_answer(text, operation, examples)
    try:
        read = model.model_validate(answer, context=asked)
    except ValidationError as error:
        raise UnreadableError(_reason(error)) from None
    copied = {_plain(text) for example in examples for text in _texts(example)} | PLACEHOLDERS
    said = {_plain(text) for text in _texts(read.model_dump(mode="json"))}
    if said and said <= copied:
        raise UnreadableError("nothing but texts copied from the prompt")
    return read


def read_actions(text: str) -> tuple[TimedAction, ...]:
    """Reads the answer to `emulate_action`, a numbered list.

    Args:
        text: The reply.

    Returns:
        The actions in order.

    Raises:
        UnreadableError: If the reply does not hold exactly one list.
    """
    _check_text(text)
    lines = [line.strip() for line in _LINE_END.split(_after_reasoning(text))]
    if sum(line.startswith("```") for line in lines) % 2:
        raise UnreadableError("a code block that is never closed")
    entries = [_ENTRY.fullmatch(line) for line in lines]
    places = [index for index, entry in enumerate(entries) if entry]
    if not places:
        raise UnreadableError("no numbered list")
    for index, (line, entry) in enumerate(zip(lines, entries, strict=True)):
        if entry is None and _NUMBERED.match(line):
            raise UnreadableError("a numbered line that is not an entry")
        if entry is None and _DURATION.search(line):
            raise UnreadableError("a duration outside the numbered list")
        if entry is None and line and places[0] < index < places[-1]:
            raise UnreadableError("a line inside the list that is not an entry")
    found = [entry for entry in entries if entry]
    if len(found) > MAX_ACTIONS:
        raise UnreadableError(f"{len(found)} numbered lines; allowed: up to {MAX_ACTIONS}")
    return tuple(_action(place, entry) for place, entry in enumerate(found, 1))


def _action(place: int, entry: re.Match[str]) -> TimedAction:
    number, rest = int(entry[1]), entry[2]
    if number != place:
        again = "starts again" if number == 1 else f"has {number} where {place} is due"
        raise UnreadableError(f"the numbering {again}")
    durations = list(_DURATION.finditer(rest))
    if not durations or rest[durations[-1].end() :] not in ("", "."):
        raise UnreadableError(f"entry {place} does not end with a duration")
    if len(durations) > 1:
        raise UnreadableError(f"entry {place} has more than one duration")
    text, seconds = rest[: durations[0].start()].strip(), int(durations[0][1])
    if not 0 < len(text) <= MAX_ENTRY:
        raise UnreadableError(
            f"entry {place} has {len(text)} characters; allowed: 1 to {MAX_ENTRY}"
        )
    if seconds % 5 or not 5 <= seconds <= MAX_SECONDS:
        raise UnreadableError(
            f"entry {place} lasts {seconds} s; allowed: multiples of 5 from 5 to {MAX_SECONDS}"
        )
    return TimedAction(text=text, seconds=seconds)


def _check_text(text: str) -> None:
    if len(text) > MAX_REPLY:
        raise UnreadableError(f"{len(text)} characters; allowed: up to {MAX_REPLY}")
    if not text.strip():
        raise UnreadableError("empty reply")
    if not can_be_encoded(text):
        raise UnreadableError("a character that cannot be written as UTF-8")


def _after_reasoning(text: str) -> str:
    """What follows the last reasoning block."""
    opened: Counter[str] = Counter()
    end = 0
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if tag[1]:
            opened[name] = max(0, opened[name] - 1)
            end = tag.end()
        else:
            opened[name] += 1
    if any(opened.values()):
        raise UnreadableError("a reasoning block that is never closed")
    if not text[end:].strip():
        raise UnreadableError("nothing after the reasoning")
    return text[end:]


def _only_answer(
    text: str, operation: str, examples: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The one object in a reply that may be the answer, without what the prompt said itself."""
    model = ANSWERS[operation]
    found: dict[str, Mapping[str, Any]] = {}
    for value in _objects(text, model):
        inner = _unwrap(value, operation)
        if model.shares_a_key(inner):
            found.setdefault(_meaning(inner, model), inner)
        elif _holds_a_key(inner, model):
            raise UnreadableError(_NOT_ON_ITS_OWN)
    if not found:
        keys = "keys" if len(model.model_fields) > 1 else "key"
        raise UnreadableError(f"no JSON object with the {keys} {', '.join(model.model_fields)}")
    for example in examples:
        found.pop(_meaning(_unwrap(example, operation), model), None)
    if not found:
        raise UnreadableError("only the prompt's own example")
    if len(found) > 1:
        raise UnreadableError(f"{len(found)} different objects, any of which may be the answer")
    return next(iter(found.values()))


def _objects(text: str, model: type[Answer]) -> list[dict[str, Any]]:
    """The outermost JSON objects of a reply: the reply itself, or those that it holds."""
    try:
        return [_as_object(parse(text))]
    except NotJsonError:
        text = _after_reasoning(text)
    try:
        return [_as_object(parse(text))]
    except NotJsonError:
        return list(_embedded(text, model))


def _as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableError("JSON that is not an object")
    return value


def _embedded(text: str, model: type[Answer]) -> Iterator[dict[str, Any]]:
    """The objects in code blocks and prose.

    A piece that is no object of its own, yet gives a key of the answer, may have been meant as the
    answer, and then no other piece can be trusted to be.
    """
    given_key = _given_key(model)
    for piece in _pieces(text):
        try:
            value = parse(piece.text)
        except NotJsonError as error:
            if given_key.search(_unescaped(piece.text)):
                raise UnreadableError(str(error)) from None
            continue
        if isinstance(value, dict) and not piece.in_list:
            yield value
        elif given_key.search(_unescaped(piece.text)):
            raise UnreadableError(_NOT_ON_ITS_OWN)


def _unescaped(text: str) -> str:
    return re.sub(r"\\u00([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)


@cache
def _given_key(model: type[Answer]) -> re.Pattern[str]:
    """Finds a key of an answer before a colon, however it is quoted."""
    names = "|".join(name.replace("_", "[ _-]") for name in model.model_fields)
    return re.compile(rf"\b(?:{names})[\"'\\]*+\s*+(?::|=)", re.IGNORECASE)


def _pieces(text: str) -> Iterator[_Piece]:
    """Cuts out code blocks and, outside them, everything between outermost braces."""
    fence: re.Match[str] | None = None
    position = 0
    while mark := _MARK.search(text, position):
        position = mark.end()
        if not mark["fence"]:
            start, position = position - 1, _object_end(text, position - 1)
            if fence is None:
                in_list = bool(mark["list"] or _LIST_GOES_ON.match(text, position))
                yield _Piece(text[start:position], in_list)
        elif fence is None:
            fence = mark
        elif len(mark["fence"]) >= len(fence["fence"]):
            yield _Piece(text[fence.end() : mark.start()], in_list=False)
            fence = None
    if fence:
        raise UnreadableError("a code block that is never closed")


def _object_end(text: str, start: int) -> int:
    """Where the brace that opens at `start` is closed, braces in strings aside."""
    depth = 0
    for token in TOKEN.finditer(text, start):
        depth += (token[0] == "{") - (token[0] == "}")
        if depth == 0:
            return token.end()
    raise UnreadableError("an object that is never closed")


def _unwrap(value: Mapping[str, Any], operation: str) -> Mapping[str, Any]:
    """Takes off one wrapper: a single key, named for an answer, whose value is an object."""
    if len(value) == 1:
        key, inner = next(iter(value.items()))
        names = (*WRAPPERS, operation, ANSWERS[operation].__name__.lower())
        if fold(key) in names and isinstance(inner, Mapping):
            return inner
    return value


def _holds_a_key(value: Any, model: type[Answer]) -> bool:
    """Whether an object with a key of an answer lies somewhere inside a value."""
    if isinstance(value, Mapping):
        inner = value.values()
        return model.shares_a_key(value) or any(_holds_a_key(item, model) for item in inner)
    return isinstance(value, list) and any(_holds_a_key(item, model) for item in value)


def _meaning(value: Mapping[str, Any], model: type[Answer]) -> str:
    """Equal for objects that say the same, whatever their spelling, key order and whitespace."""
    try:
        said: Any = model.model_validate(value).model_dump()
    except ValidationError:
        said = dict(value)
    return json.dumps(_squeeze(said), sort_keys=True)


def _squeeze(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {key: _squeeze(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_squeeze(item) for item in value]
    return value


def _texts(answer: Mapping[str, Any]) -> list[str]:
    """The sentences of an answer, but for the word that it decides by; else those of its list."""
    own = [
        value
        for key, value in answer.items()
        if isinstance(value, str) and key not in ("decision", "reaction")
    ]
    lists = [value for value in answer.values() if isinstance(value, list)]
    return own or [text for entries in lists for text in _words(entries)]


def _words(entries: Sequence[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, Mapping) else [entry]:
            if isinstance(value, str):
                yield value


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", "", text).casefold().split())


def _reason(error: ValidationError) -> str:
    """The first thing wrong with an answer."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    what = "is missing" if first["type"] == "missing" else first["msg"]
    return f"{where} {what.removeprefix('Value error, ')}".strip()
