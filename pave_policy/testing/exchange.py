"""A request as a test sees it, and a reply as a test scripts one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

OPERATIONS = {
    "ElicitThreshold": "elicit_threshold",
    "PerceiveContext": "perceive_context",
    "AssessRisk": "assess_risk",
    "AssessEmpirical": "assess_empirical",
    "AssessNormative": "assess_normative",
    "AssessBenefit": "assess_benefit",
    "AssessLegitimacy": "assess_legitimacy",
    "GenerateVerdict": "generate_verdict",
    "EmulateAction": "emulate_action",
    "PropagateOutcome": "propagate_outcome",
    "RateImportance": "rate_importance",
    "PlanDay": "plan_day",
    "DecomposePlan": "decompose_plan",
    "AskFocalPoints": "ask_focal_points",
    "DrawInsights": "draw_insights",
    "React": "react",
}
"""Operations as a prompt names them in its first line, and as `StubRequest.operation` does."""
EMBED = "embed"
"""What `StubRequest.operation` calls a request for vectors."""
_OPERATION_LINE = re.compile(r"OPERATION: (\w+)[ \t]*(?:\r?\n|\Z)")


@dataclass(frozen=True)
class StubRequest:
    """A request for a chat completion or for vectors, as it arrived.

    Attributes:
        path: Without the query.
        query: What follows the question mark; empty without one.
        headers: By name in lower case.
        body: The JSON object that was sent; empty where it was none.
        operation: Which operation the prompt asks for, such as ``"assess_risk"``; ``"embed"`` for
            vectors; None for others.
        number: From 0, in order of arrival.
    """

    path: str
    query: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    operation: str | None
    number: int

    @property
    def prompt(self) -> str:
        """The text of all messages, or all texts to embed, one below the other."""
        return "\n".join(message_texts(self.body) or input_texts(self.body))


@dataclass(frozen=True)
class StubReply:
    """What the server answers; by default a completion without content.

    Attributes:
        content: The message; with a status of 400 or more, the message of the error.
        finish_reason: Why the model stopped.
        prompt_tokens: None, here or below, leaves the usage out.
        completion_tokens: As above.
        status: The HTTP status.
        headers: Added to, or put in place of, those that the server sets.
        body: Sent verbatim instead of the JSON made from the fields above.
        message: Further keys of the message, such as `refusal`.
        delay: Seconds to wait before answering, beyond the server's latency.
        drop: Closes the connection instead of answering.
        hang: Never answers: waits until either side closes the connection.
    """

    content: str | None = None
    finish_reason: str = "stop"
    prompt_tokens: int | None = 10
    completion_tokens: int | None = 5
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | bytes | None = None
    message: Mapping[str, Any] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    hang: bool = False


Answerer: TypeAlias = Callable[[StubRequest], StubReply | str]
"""Answers a request, on the server's own thread: it must not wait; a string is the content."""


def error_body(
    message: str,
    *,
    kind: str = "invalid_request_error",
    code: str | None = None,
    param: str | None = None,
) -> str:
    """Writes an error as OpenAI's API does.

    Args:
        message: For people.
        kind: Its `type`.
        code: For programs.
        param: The parameter at fault.

    Returns:
        A JSON object.
    """
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def message_texts(body: Mapping[str, Any]) -> list[str]:
    """Reads the text of each message; one made of parts gives the parts that hold text.

    Args:
        body: Of a chat request.

    Returns:
        One string a message.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        return []
    return [_text(item.get("content")) for item in messages if isinstance(item, dict)]


def input_texts(body: Mapping[str, Any]) -> list[str]:
    """Reads the texts whose vectors are asked for.

    Args:
        body: Of a request for vectors.

    Returns:
        The texts.
    """
    given = body.get("input")
    texts = given if isinstance(given, list) else [given]
    return [text for text in texts if isinstance(text, str)]


def vectors_body(vectors: Sequence[Sequence[float]], prompt_tokens: int = 10) -> str:
    """Writes vectors as OpenAI's API does.

    Args:
        vectors: One a text.
        prompt_tokens: Tokens of the texts.

    Returns:
        A JSON object.
    """
    data = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
    return json.dumps({"object": "list", "data": data, "model": "stub", "usage": usage})


def _text(content: object) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def operation_of(body: Mapping[str, Any]) -> str | None:
    """Finds which operation a chat request asks for, from the first line of its messages.

    Args:
        body: Of a chat request.

    Returns:
        Its name in snake case; None where no message begins with the line of a known operation.
    """
    for text in message_texts(body):
        if line := _OPERATION_LINE.match(text):
            return OPERATIONS.get(line[1])
    return None
