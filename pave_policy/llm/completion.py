"""Reads the body of a chat completion or of an embedding, trusting nothing about its form."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pave_policy.llm.complaint import Complaint, complaint_in
from pave_policy.llm.faults import Fault, Kind, fault_of_body

CUT_OFF = frozenset({"length", "max_tokens", "model_length", "max_length"})
"""What endpoints call a reply that was cut off at its limit."""
_MOST_TOKENS = 2**53


@dataclass(frozen=True)
class Completion:
    """What a model answered.

    Attributes:
        text: The reply; None where there is none.
        finish: Why the model stopped, in the endpoint's word.
        refusal: What the model said where it declined.
        reasoning: What it thought aloud.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens received.
        raw: The body.
    """

    text: str | None
    finish: str | None
    refusal: str | None
    reasoning: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    raw: str


class _UnreadableError(Exception):
    """The body is not a chat completion: the message says why."""


def filtered(body: str) -> Completion:
    """What a content filter left.

    Args:
        body: Of the refusal.

    Returns:
        A completion without text.
    """
    return Completion(None, "content_filter", None, None, None, None, body)


def read_completion(body: str) -> Completion | Fault:
    """Reads the body of a reply whose status is a success.

    Args:
        body: As text.

    Returns:
        The completion; a fault where there is none.
    """
    data = _parse(body)
    if isinstance(data, Fault):
        return data
    sent, received = _usage(data)
    try:
        message, finish = _first_choice(data)
        text = _text(message.get("content"))
    except _UnreadableError as error:
        fault = fault_of_body(body, f"the reply is no chat completion: {error}")
        return replace(fault, prompt_tokens=sent, completion_tokens=received)
    reasoning = _string(message, "reasoning_content") or _string(message, "reasoning")
    refusal = _string(message, "refusal")
    return Completion(text, finish, refusal, reasoning, sent, received, body)


def read_embedding(body: str) -> Completion | Fault:
    """Reads the body of a reply to one text whose vector was asked for.

    Args:
        body: As text.

    Returns:
        A completion whose text is the vector, a JSON list; a fault where there is none.
    """
    data = _parse(body)
    if isinstance(data, Fault):
        return data
    sent, _ = _usage(data)
    try:
        vector = _only_vector(data)
    except _UnreadableError as error:
        fault = fault_of_body(body, f"the reply is no embedding: {error}")
        return replace(fault, prompt_tokens=sent)
    return Completion(json.dumps(vector), None, None, None, sent, 0, "")


def _only_vector(data: object) -> list[float]:
    entries = data.get("data") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise _UnreadableError("it has no data")
    if len(entries) != 1:
        raise _UnreadableError(f"it has {len(entries)} vectors, where one was asked for")
    entry = _object(entries[0])
    if entry.get("index", 0) != 0:
        raise _UnreadableError(f"its vector has the index {entry['index']!r} of another text")
    vector = entry.get("embedding")
    if not isinstance(vector, list) or not vector:
        raise _UnreadableError("it has no vector")
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in vector):
        raise _UnreadableError("its vector holds something other than numbers")
    try:
        length = math.hypot(*vector)
    except OverflowError:
        length = math.inf
    if not 0 < length < math.inf:
        raise _UnreadableError(f"its vector has length {length}")
    return [float(value) for value in vector]


def _parse(body: str) -> object | Fault:
    """The JSON of a body; a fault where it is none, or tells of an error."""
    if not body.strip():
        return fault_of_body(body, "the reply is empty")
    try:
        data: object = json.loads(body, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        return fault_of_body(body, f"the reply is no valid JSON ({error})")
    complaint = complaint_in(data) or _complaint_in_choice(data)
    if complaint is None:
        return data
    kind = Kind.QUOTA if complaint.is_about_quota else Kind.PASSING
    cause = f"the endpoint answered with an error: {complaint.message}"
    sent, received = _usage(data)
    return Fault(kind, cause, complaint, raw=body, prompt_tokens=sent, completion_tokens=received)


def _usage(data: object) -> tuple[int | None, int | None]:
    """Tokens sent and received, where they are counted."""
    usage = _object(data.get("usage")) if isinstance(data, dict) else {}
    return _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")


def read_models(body: str) -> list[str] | None:
    """Reads a list of models.

    Args:
        body: As text.

    Returns:
        Their names; None where it is no such list.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    entries = data.get("data") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        return None
    names = [_string(_object(entry), "id") for entry in entries]
    return [name for name in names if name]


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _complaint_in_choice(data: object) -> Complaint | None:
    """What broke off a reply that had begun, as some gateways tell it."""
    choices = data.get("choices") if isinstance(data, dict) else None
    for choice in choices if isinstance(choices, list) else []:
        told = _object(choice)
        if told.get("error"):
            return complaint_in({"error": told["error"]}) or Complaint("no reason given")
        if told.get("finish_reason") == "error":
            return Complaint("the model broke off with an error")
    return None


def _first_choice(data: object) -> tuple[Mapping[str, Any], str | None]:
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list) or not choices:
        raise _UnreadableError("it has no choices")
    if len(choices) > 1:
        raise _UnreadableError(f"it has {len(choices)} choices, where one was asked for")
    choice = _object(choices[0])
    if not isinstance(choice.get("message"), dict):
        raise _UnreadableError("its first choice has no message")
    finish = _string(choice, "finish_reason")
    return choice["message"], "length" if finish in CUT_OFF else finish


def _text(content: object) -> str | None:
    if content is None:
        return None
    if isinstance(content, str):
        return _whole(content)
    if not isinstance(content, list):
        raise _UnreadableError(f"its content is of type {type(content).__name__}")
    parts = [_string(_object(part), "text") for part in content]
    return "".join(part for part in parts if part is not None)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(holder: Mapping[str, Any], key: str) -> str | None:
    value = holder.get(key)
    return _whole(value) if isinstance(value, str) else None


def _whole(text: str) -> str:
    """Replaces halves of surrogate pairs, which JSON can spell but no file or request can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(usage: Mapping[str, Any], key: str) -> int | None:
    value = usage.get(key)
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
    return value if fits else None
