"""What an endpoint says is wrong, in the several ways in which endpoints say it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PAGE = re.compile(r"\s*(?:<!doctype html|<html)", re.IGNORECASE)
_TITLE = re.compile(r"<(title|h1)\b[^<>]*>([^<]{0,300})</\1>", re.IGNORECASE)
_FILTERS = frozenset({"content_filter", "content_policy_violation"})
_TITLE_WITHIN = 10_000
"""Characters of a page in which its title is looked for."""
_TOO_LONG = re.compile(r"context.?(length|window)|too (long|large|many)|at most|maximum", re.I)
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}


@dataclass(frozen=True)
class Complaint:
    """An error as an endpoint tells it.

    Attributes:
        message: For people; the whole body where it has no form that we know.
        codes: The error's code and type, for programs.
        parameter: What the endpoint names as the parameter at fault.
    """

    message: str = ""
    codes: frozenset[str] = frozenset()
    parameter: str = ""

    def names(self, parameter: str) -> bool:
        """Whether it is about a parameter.

        Args:
            parameter: Of the request.

        Returns:
            By what the endpoint says is at fault; by its words where it does not say.
        """
        words = self.parameter or self.message
        return re.search(rf"(?<![\w-]){re.escape(parameter)}(?![\w-])", words) is not None

    @property
    def is_about_length(self) -> bool:
        """Whether the prompt, or the reply asked for, is longer than the model can take."""
        return "context_length_exceeded" in self.codes or bool(_TOO_LONG.search(self.message))

    @property
    def is_about_quota(self) -> bool:
        """Whether the account has nothing left to spend."""
        return bool(self.codes & _QUOTA_CODES)

    @property
    def is_about_model(self) -> bool:
        """Whether the model is unknown."""
        return "model_not_found" in self.codes or self.names("model")


def read_complaint(body: str) -> Complaint:
    """Reads the body of a reply that is not a success.

    Args:
        body: JSON in any form, HTML, or plain text.

    Returns:
        What it says.
    """
    if is_page(body):
        return Complaint(page_title(body))
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return Complaint(body.strip())
    return complaint_in(data) or Complaint(body.strip())


def complaint_in(data: object) -> Complaint | None:
    """Finds the error in JSON.

    Args:
        data: The body of a reply.

    Returns:
        The error; None where there is none.
    """
    if isinstance(data, list) and data:
        data = data[0]
    if not isinstance(data, dict):
        return None
    error = data.get("error") or data.get("detail")
    if isinstance(error, str):
        return Complaint(error)
    if isinstance(error, list):
        return _of_validation([item for item in error if isinstance(item, dict)])
    if isinstance(error, dict):
        return _of_object(error)
    is_one = data.get("object") == "error" or ("message" in data and "choices" not in data)
    return _of_object(data) if is_one else None


def _of_object(error: Mapping[str, Any]) -> Complaint:
    told = [error.get("code"), error.get("type")]
    message, parameter = error.get("message"), error.get("param")
    return Complaint(
        message=message if isinstance(message, str) and message else json.dumps(dict(error)),
        codes=frozenset(str(code) for code in told if isinstance(code, str | int)),
        parameter=parameter if isinstance(parameter, str) else "",
    )


def _of_validation(items: list[dict[str, Any]]) -> Complaint:
    """What a server built on FastAPI says; the values it repeats name nothing."""
    places = [" ".join(str(part) for part in _as_list(item.get("loc"))) for item in items]
    messages = [f"{place}: {item.get('msg')}" for place, item in zip(places, items, strict=True)]
    return Complaint(message="; ".join(messages), parameter="; ".join(places))


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def speaks_of_filter(body: str) -> bool:
    """Whether a refusal came from a content filter.

    Args:
        body: Of the reply.

    Returns:
        Whether it has one of the codes for that.
    """
    return bool(read_complaint(body).codes & _FILTERS)


def is_page(body: str) -> bool:
    """Whether a body is a page for browsers.

    Args:
        body: Of a reply.

    Returns:
        Whether it begins as HTML does.
    """
    return _PAGE.match(body) is not None


def page_title(body: str) -> str:
    """Says what a page is about.

    Args:
        body: HTML.

    Returns:
        Such as ``"an HTML page, 'Bad Gateway'"``.
    """
    found = _TITLE.search(body[:_TITLE_WITHIN])
    title = re.sub(r"<[^>]*>", "", found[2]).strip() if found else ""
    return f"an HTML page, {title!r}" if title else "an HTML page"
