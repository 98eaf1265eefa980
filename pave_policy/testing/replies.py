"""Makers of scripted answers, for tests to compose; each returns an answerer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pave_policy.testing.canned import JSON_ANSWERS, JSON_KEYS, canned, json_answer
from pave_policy.testing.exchange import (
    EMBED,
    OPERATIONS,
    Answerer,
    StubReply,
    StubRequest,
    error_body,
)
from pave_policy.testing.faults import ERRORS
from voville_env.errors import invalid

PARAMETERS = (
    *("max_completion_tokens", "max_tokens", "reasoning_effort", "response_format"),
    *("seed", "temperature", "top_p"),
)
"""Request parameters that some endpoint or other refuses."""


def always(reply: StubReply | str) -> Answerer:
    """Gives every request the same answer.

    Args:
        reply: The answer.

    Returns:
        The answerer.
    """
    return lambda request: reply


def by_operation(
    replies: Mapping[str, StubReply | str | Answerer], default: Answerer = canned
) -> Answerer:
    """Answers some operations in their own way.

    Args:
        replies: What answers an operation, by its name in snake case; ``"embed"`` for vectors.
        default: Answers the rest.

    Returns:
        The answerer.

    Raises:
        InvalidValueError: If there is no such operation.
    """
    known = (*OPERATIONS.values(), EMBED)
    for operation in replies:
        if operation not in known:
            raise invalid("operation", operation, known)

    def answer(request: StubRequest) -> StubReply | str:
        if request.operation is None:
            return default(request)
        reply = replies.get(request.operation, default)
        return reply(request) if callable(reply) else reply

    return answer


def flaky(first: Sequence[StubReply | str], then: Answerer = canned) -> Answerer:
    """Gives some answers in order before it settles down.

    Args:
        first: One for each of the first requests, whatever they ask.
        then: Answers the rest.

    Returns:
        The answerer.
    """
    waiting = iter(tuple(first))

    def answer(request: StubRequest) -> StubReply | str:
        reply = next(waiting, None)
        return then(request) if reply is None else reply

    return answer


def script(replies: Sequence[StubReply | str]) -> Answerer:
    """Gives the answers in order, and an error once there are none left.

    Args:
        replies: One a request.

    Returns:
        The answerer.
    """
    message = f"script exhausted after {len(replies)} replies"
    return flaky(replies, then=always(StubReply(status=500, content=message)))


def values(**fixed: object) -> Answerer:
    """Answers as `canned` does, with some values fixed in every answer that has them.

    Args:
        **fixed: By the keys of the answers, as in ``values(legitimacy=95, decision="violate")``.

    Returns:
        The answerer.

    Raises:
        InvalidValueError: If no answer has such a key.
    """
    for key in fixed:
        if key not in JSON_KEYS:
            raise invalid("key of an answer", key, sorted(JSON_KEYS))

    def answer(request: StubRequest) -> StubReply:
        if request.operation not in JSON_ANSWERS:
            return canned(request)
        fields = json_answer(request)
        return StubReply(content=json.dumps({key: fixed.get(key, fields[key]) for key in fields}))

    return answer


def refuses_parameter(name: str, then: Answerer = canned) -> Answerer:
    """Refuses requests that carry a parameter, as models that know only its newer or older name do.

    Args:
        name: One of `PARAMETERS`.
        then: Answers requests without it.

    Returns:
        The answerer.

    Raises:
        InvalidValueError: If there is no such parameter.
    """
    if name not in PARAMETERS:
        raise invalid("parameter", name, PARAMETERS)
    message = f"Unsupported parameter: this model does not take {name!r}."
    body = error_body(message, code="unsupported_parameter", param=name)
    refusal = StubReply(status=400, body=body)
    return lambda request: refusal if name in request.body else then(request)


def requires_key(key: str, then: Answerer = canned) -> Answerer:
    """Refuses requests that do not carry a key.

    Args:
        key: What must stand behind ``Bearer``.
        then: Answers requests with it.

    Returns:
        The answerer.
    """

    def answer(request: StubRequest) -> StubReply | str:
        known = request.headers.get("authorization") == f"Bearer {key}"
        return then(request) if known else ERRORS["bad_key_401"]

    return answer


def rate_limited(n: int, retry_after: float, then: Answerer = canned) -> Answerer:
    """Turns the first requests away for being too many.

    Args:
        n: How many are turned away.
        retry_after: Seconds after which it asks them to come back.
        then: Answers the rest.

    Returns:
        The answerer.
    """
    refusal = replace(ERRORS["rate_limit_429"], headers={"Retry-After": f"{retry_after:g}"})
    return flaky([refusal] * n, then)
