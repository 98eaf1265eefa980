"""Keeps keys and other secrets out of everything that is said, recorded or logged."""

from __future__ import annotations

import html
import json
import logging
import re
import traceback
from collections.abc import Iterable
from urllib.parse import quote, quote_plus
from weakref import WeakSet

MASK = "[secret]"
SHORTEST = 8
"""Shorter values are not hidden: they would blot out ordinary words, also in a model's answers."""

# Those of the HTTP library and its successor that log URLs, or headers that a server may echo.
_LOGGERS = ("openai._base_client", "httpx", "httpx2", "httpcore.http11", "httpcore2.http11")


class Secrets:
    """Values that must not leave the transport."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Collects the values and hides them in the logs of the HTTP library too.

        Args:
            values: Those of fewer than `SHORTEST` characters are left out.
        """
        self._values = sorted({value for value in values if len(value.strip()) >= SHORTEST})
        forms = {form for value in self._values for form in _forms(value)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        patterns = [*map(re.escape, longest_first), *map(_spelt_out, self._values)]
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)
        _log_filter.known.add(self)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_log_filter)

    def redact(self, text: str) -> str:
        """Replaces every secret in a text.

        Args:
            text: Any text.

        Returns:
            The text with `MASK` in place of each secret, however it was escaped.
        """
        return self._pattern.sub(MASK, text) if self._values else text

    def __repr__(self) -> str:
        return f"Secrets({len(self._values)} values)"


def _forms(value: str) -> set[str]:
    """A value as it is, and as URLs, JSON, HTML and Python write it."""
    value = value.strip()
    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    slashed = {form.replace("/", "\\/") for form in escaped}
    in_urls = {quote(value, safe=""), quote(value), quote_plus(value)}
    return {value, html.escape(value), repr(value)[1:-1]} | escaped | slashed | in_urls


def _spelt_out(value: str) -> str:
    """A pattern of a value any of whose characters is escaped, once or several times over."""
    return "".join(
        rf"(?:\\*{re.escape(letter)}|\\+u{ord(letter):04x}|%{ord(letter):02x})"
        for letter in value.strip()
    )


class _LogFilter(logging.Filter):
    """Hides the secrets of every endpoint in use."""

    def __init__(self) -> None:
        super().__init__()
        self.known: WeakSet[Secrets] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        text = self._redacted(said)
        if text != said:
            record.msg, record.args = text, ()
        if record.exc_info:  # older releases of openai log it, with the URL
            trace = "".join(traceback.format_exception(*record.exc_info))
            record.exc_text, record.exc_info = self._redacted(trace.rstrip()), None
        return True

    def _redacted(self, text: str) -> str:
        for secrets in tuple(self.known):
            text = secrets.redact(text)
        return text


_log_filter = _LogFilter()
