"""What comes back from an endpoint, or why nothing does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pave_policy.outcome import Failure
from voville_env.errors import VovilleError


@dataclass(frozen=True)
class Reply:
    """What came back, without secrets.

    Attributes:
        text: The reply; None where there is none.
        finish: Why the model stopped, in the endpoint's word; ``"content_filter"`` where a filter
            refused the request.
        refusal: What the model said where it declined.
        reasoning: What it thought aloud, where the endpoint tells.
        prompt_tokens: Tokens sent in all attempts, as far as the endpoint told.
        completion_tokens: Tokens received in all attempts, as far as the endpoint told.
        raw: The body as received.
        latency: Seconds that the last attempt took.
        attempts: Requests sent.
        sent: The parameters of the last of them, without messages.
    """

    text: str | None
    finish: str | None
    refusal: str | None
    reasoning: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    raw: str
    latency: float
    attempts: int
    sent: Mapping[str, Any]


class CallError(VovilleError):
    """A call that got no reply, for good; its text is free of secrets.

    Attributes:
        failure: What kind of failure, of those that happen to calls.
        detail: The cause in words, that of the last attempt.
        attempts: Requests sent.
        latency: Seconds that the last attempt took.
        prompt_tokens: Tokens sent in all attempts, as far as the endpoint told.
        completion_tokens: Tokens received in all attempts, as far as the endpoint told.
        raw: The last body received, if any.
    """

    def __init__(
        self,
        failure: Failure,
        detail: str,
        attempts: int = 0,
        latency: float = 0.0,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        raw: str = "",
    ) -> None:
        super().__init__(
            failure, detail, attempts, latency, prompt_tokens, completion_tokens, raw
        )  # whole, so that it survives pickling
        self.failure = failure
        self.detail = detail
        self.attempts = attempts
        self.latency = latency
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        self.raw = raw

    def __str__(self) -> str:
        return self.detail
