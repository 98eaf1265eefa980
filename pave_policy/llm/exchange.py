"""The records of the call store: exchanges with a model, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pave_policy.outcome import Failure
from pave_policy.site import Site
from voville_env.errors import InvalidValueError

VALID = "valid"
"""The outcome of an exchange whose reply holds an answer."""

OUTCOMES = (VALID, *(failure.value for failure in Failure))
"""The outcomes of an exchange."""

ANSWERED = (VALID, *(failure.value for failure in Failure if not failure.is_infrastructure))
"""Those in which the model answered, whatever it said."""


@dataclass(frozen=True)
class Exchange:
    """One request and what became of it, all its attempts together.

    Attributes:
        key: The `request_key` of the request.
        sample: Tells repetitions of one request apart.
        operation: The operation that asked.
        site: Where in the run.
        request: The logical request, JSON-ready.
        outcome: ``"valid"`` or a `Failure` value.
        detail: The failure in words.
        text: The reply.
        finish: Why the model stopped, in the endpoint's word.
        refusal: What the model said where it declined.
        reasoning: What it thought aloud, where the endpoint tells.
        raw: The body as received, without secrets.
        prompt_tokens: Tokens sent; None where the endpoint does not count.
        completion_tokens: Tokens received; None where the endpoint does not count.
        cost: US dollars.
        latency: Seconds that the last attempt took.
        attempts: Requests sent; 0 where the call was not made.
        run: The run that made the call; the store fills it in.
    """

    key: str
    sample: str
    operation: str
    site: Site
    request: Mapping[str, Any]
    outcome: str
    detail: str = ""
    text: str | None = None
    finish: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    raw: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float = 0.0
    latency: float = 0.0
    attempts: int = 1
    run: str = ""


@dataclass(frozen=True)
class Spent:
    """What a run has used so far, failed exchanges included.

    Attributes:
        exchanges: Exchanges recorded.
        calls: Requests sent: the attempts of all exchanges.
        prompt_tokens: Tokens sent, as far as they were counted.
        completion_tokens: Tokens received, as far as they were counted.
        cost: US dollars.
    """

    exchanges: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


@dataclass(frozen=True)
class OperationUse:
    """What one operation of a run has used so far.

    Attributes:
        operation: Its name.
        spent: Exchanges, calls, tokens and cost.
        outcomes: How many exchanges ended in each outcome that occurred.
        latency_mean: Mean latency in seconds of the exchanges that sent a request; None without.
        latency_median: Their median.
        latency_p95: The latency that 95 % of them do not exceed.
    """

    operation: str
    spent: Spent
    outcomes: Mapping[str, int]
    latency_mean: float | None
    latency_median: float | None
    latency_p95: float | None


def canonical(request: Mapping[str, Any]) -> str:
    """Writes a request as JSON, always the same way.

    Args:
        request: The logical request, JSON-ready; the order of its entries does not matter.

    Returns:
        JSON in ASCII.

    Raises:
        InvalidValueError: The request is not plain JSON.
    """
    try:
        return json.dumps(dict(request), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"request is {request!r}; allowed: plain JSON ({error})") from error


def request_key(request: Mapping[str, Any]) -> str:
    """Names a request by its content.

    Args:
        request: The logical request, JSON-ready; the order of its entries does not matter.

    Returns:
        20 hexadecimal digits.

    Raises:
        InvalidValueError: The request is not plain JSON.
    """
    return sha256(canonical(request).encode()).hexdigest()[:20]
