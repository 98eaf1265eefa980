"""Ready-made replies of a provider, a proxy or a model that let the caller down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pave_policy.testing.exchange import StubReply, error_body

_HTML = {"Content-Type": "text/html; charset=utf-8"}


def _completion_with(choices: list[Any] | None) -> str:
    return json.dumps(
        {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": 0,
            "model": "stub",
            "choices": choices,
            "usage": {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10},
        }
    )


_BROKEN_BODIES = {
    "empty_choices": StubReply(body=_completion_with([])),
    "null_choices": StubReply(body=_completion_with(None)),
    "error_in_200": StubReply(body=error_body("The upstream model failed.", kind="server_error")),
    "html_page": StubReply(headers=_HTML, body="<html><body>Please sign in.</body></html>"),
    "invalid_json": StubReply(body='{"id": "chatcmpl-stub", "choices": [{"index": 0, "mess'),
    "no_usage": StubReply(content="OK", prompt_tokens=None, completion_tokens=None),
}
_UNFIT_MESSAGES = {
    "null_content": StubReply(),
    "null_content_length": StubReply(finish_reason="length", completion_tokens=64),
    "reasoning_content_only": StubReply(message={"reasoning_content": "First, who is looking?"}),
    "refusal": StubReply(message={"refusal": "I will not help anyone to break a rule."}),
    "content_filter": StubReply(finish_reason="content_filter", completion_tokens=0),
    "truncated_json": StubReply('{"risk": 40, "reason": "The off', finish_reason="length"),
}
_REFUSED_CALLS = {
    "context_length_400": StubReply(
        status=400,
        body=error_body(
            "The messages are longer than the 4096 tokens that this model can take.",
            code="context_length_exceeded",
            param="messages",
        ),
    ),
    "unknown_model_404": StubReply(
        status=404,
        body=error_body("There is no such model.", code="model_not_found", param="model"),
    ),
    "bad_key_401": StubReply(
        status=401, body=error_body("This API key is not known here.", code="invalid_api_key")
    ),
    "forbidden_403": StubReply(
        status=403,
        body=error_body("This key may not use the model.", kind="permission_error"),
    ),
}
_PASSING_TROUBLES = {
    "rate_limit_429": StubReply(
        status=429,
        headers={"Retry-After": "1"},
        body=error_body("Too many requests.", kind="requests", code="rate_limit_exceeded"),
    ),
    "server_error_500": StubReply(
        status=500, body=error_body("The server had an error.", kind="server_error")
    ),
    "bad_gateway_502_html": StubReply(
        status=502, headers=_HTML, body="<html><h1>502 Bad Gateway</h1></html>"
    ),
    "overloaded_529": StubReply(
        status=529, body=error_body("The service is overloaded.", kind="overloaded_error")
    ),
}
ERRORS: Mapping[str, StubReply] = MappingProxyType(
    _BROKEN_BODIES | _UNFIT_MESSAGES | _REFUSED_CALLS | _PASSING_TROUBLES
)
"""By name: broken bodies, messages without an answer, refusals for good, and passing troubles."""
