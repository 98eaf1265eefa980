"""Says in words why an endpoint cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

from pave_policy.llm.faults import Fault, Kind
from pave_policy.outcome import Failure
from voville_env.errors import nearest

_LONGEST_LINE = 500
_MODELS_SHOWN = 20


def failure_of(fault: Fault) -> Failure:
    """Names what a fault means for its call.

    Args:
        fault: The last one.

    Returns:
        The failure.
    """
    if fault.kind is Kind.TIMEOUT:
        return Failure.TIMEOUT
    if fault.kind in (Kind.REJECTED, Kind.ABSENT):
        return Failure.REJECTED
    return Failure.UNAVAILABLE


def refused_key(base: str, fault: Fault, origin: str) -> str:
    """Says that a key was refused.

    Args:
        base: The endpoint.
        fault: The refusal.
        origin: Where the key came from; empty where there is none.

    Returns:
        The cause.
    """
    source = f"the key came from {origin}" if origin else "no key was found to send with it"
    return f"{base}: {fault.cause}; {source} (api_key_env, api_key_file)"


def absent(place: str, model: str, fault: Fault, offered: Sequence[str], *, added_v1: bool) -> str:
    """Says that the model, or the whole endpoint, is not there.

    Args:
        place: The address asked.
        model: The model asked for.
        fault: What came back.
        offered: The models that are there, as far as the endpoint tells.
        added_v1: Whether `/v1` was added to what the user gave.

    Returns:
        The cause.
    """
    if fault.complaint.is_about_model or (offered and model not in offered):
        listed = ", ".join(offered[:_MODELS_SHOWN])
        near = "" if model in offered else nearest(model, offered)
        offer = f"; it offers: {listed}{near}" if offered else ""
        return f"{place}: the model {model!r} was {fault.cause}{offer}"
    without = ", nor without /v1" if added_v1 else ""
    return f"nothing at {place}{without}: {fault.cause}"


def one_line(text: str) -> str:
    """Makes a text from outside fit for a message: short, and without control characters.

    Args:
        text: Any text.

    Returns:
        A line of at most 500 characters, without the full stop of a last sentence.
    """
    words = "".join(mark if mark.isprintable() else " " for mark in text).split()
    line = " ".join(words).removesuffix(".")
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
