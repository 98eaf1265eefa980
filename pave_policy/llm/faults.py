"""What can go wrong with one request, told apart by what follows from it."""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum, auto

from pave_policy.llm.address import Address
from pave_policy.llm.complaint import Complaint, is_page, page_title, read_complaint

LONGEST_RETRY_AFTER = 120.0
_PASSING = (408, 409, 425)
_NOTHING_SAID = Complaint()


class Kind(Enum):
    """What follows from a fault."""

    PASSING = auto()
    """Worth another attempt."""
    TIMEOUT = auto()
    """Worth another attempt."""
    UNREACHED = auto()
    """Worth another attempt; nobody was there."""
    REJECTED = auto()
    """Not this request, ever."""
    KEY = auto()
    """Not with this key."""
    ABSENT = auto()
    """No such model or no such place."""
    QUOTA = auto()
    """Nothing left to spend."""
    MOVED = auto()
    """Somewhere else."""

    @property
    def is_passing(self) -> bool:
        """Whether another attempt may succeed."""
        return self in (Kind.PASSING, Kind.TIMEOUT, Kind.UNREACHED)


@dataclass(frozen=True)
class Fault:
    """Why a request has no reply that can be used.

    Attributes:
        kind: What follows.
        cause: In words.
        complaint: What the endpoint said.
        raw: The body.
        retry_after: Seconds after which the endpoint wants to be asked again.
        holds_all: Whether that goes for all requests.
        costs_nothing: Whether no model can have worked on it.
        prompt_tokens: Tokens sent, where the endpoint told.
        completion_tokens: Tokens received, where the endpoint told.
    """

    kind: Kind
    cause: str
    complaint: Complaint = _NOTHING_SAID
    raw: str = ""
    retry_after: float | None = None
    holds_all: bool = False
    costs_nothing: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def fault_of_status(status: int, headers: Mapping[str, str], body: str) -> Fault:
    """Reads a reply whose status is not a success.

    Args:
        status: The HTTP status.
        headers: By name, whatever the case.
        body: As text.

    Returns:
        The fault.
    """
    complaint = read_complaint(body)
    said = f": {complaint.message}" if complaint.message else ""
    kind, meaning = _meaning(status, complaint)
    if kind is Kind.MOVED:
        said = f" to {headers.get('location', 'nowhere')}"
    retry_after = read_retry_after(headers.get("retry-after"))
    return Fault(
        kind,
        f"{meaning} ({status}){said}",
        complaint,
        raw=body,
        retry_after=retry_after,
        holds_all=retry_after is not None and status in (429, 503),
        costs_nothing=True,
    )


_MEANINGS = {
    401: (Kind.KEY, "the key was refused"),
    402: (Kind.QUOTA, "the account has nothing left to spend"),
    403: (Kind.KEY, "access was refused"),
    404: (Kind.ABSENT, "not found"),
    429: (Kind.PASSING, "too many requests for the endpoint's limit"),
}


def _meaning(status: int, complaint: Complaint) -> tuple[Kind, str]:
    if status == 429 and complaint.is_about_quota:
        return _MEANINGS[402]
    if status in _MEANINGS:
        return _MEANINGS[status]
    if status in _PASSING or status >= 500:
        return Kind.PASSING, "the endpoint is in trouble"
    if status < 400:
        return Kind.MOVED, "the endpoint sends us elsewhere"
    return Kind.REJECTED, "the request was rejected"


def fault_of_exception(error: BaseException, address: Address) -> Fault:
    """Reads an error of the connection.

    Args:
        error: As raised; what brought it about is looked for in its chain.
        address: The endpoint.

    Returns:
        The fault.
    """
    roots = list(_chain(error))
    for root in roots:
        if isinstance(root, socket.gaierror):
            cause = f"the host name {address.host!r} is unknown (DNS: {root.strerror})"
            return Fault(Kind.UNREACHED, cause, costs_nothing=True)
        if isinstance(root, ConnectionRefusedError):
            cause = f"nothing listens at {address.base} (connection refused)"
            return Fault(Kind.UNREACHED, cause, costs_nothing=True)
        if isinstance(root, ssl.SSLError):
            cause = f"no secure connection to {address.base} (TLS: {root})"
            return Fault(Kind.UNREACHED, cause, costs_nothing=True)
    told = next((root for root in reversed(roots) if str(root)), roots[0])
    return Fault(Kind.PASSING, f"the connection broke ({type(told).__name__}: {told})")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and all that brought it about, outermost first."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _chain(inner)
    cause = error.__cause__ or error.__context__
    if cause is not None:
        yield from _chain(cause)


def fault_of_timeout(seconds: float) -> Fault:
    """Says that nothing came in time.

    Args:
        seconds: How long it was waited for.

    Returns:
        The fault.
    """
    return Fault(Kind.TIMEOUT, f"no reply within {seconds:g} s")


def fault_of_body(body: str, problem: str) -> Fault:
    """Says that a reply with the status of a success holds none.

    Args:
        body: As text.
        problem: What is wrong with it.

    Returns:
        The fault.
    """
    if is_page(body):
        problem = f"the endpoint answered with {page_title(body)}, instead of JSON"
    return Fault(Kind.PASSING, problem, raw=body)


def read_retry_after(value: str | None) -> float | None:
    """Reads when to ask again.

    Args:
        value: Seconds, or a date as HTTP writes it.

    Returns:
        Seconds from now, 120 at most; None where the value says nothing.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if math.isfinite(seconds) else None
