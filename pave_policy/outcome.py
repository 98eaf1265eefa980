"""What an operation returns: a value, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from voville_env.errors import CallFailedError

T = TypeVar("T")


class Failure(StrEnum):
    """Why an operation has no value.

    The first four are what a model did: they lead to the operation's fallback. The others are what
    happened to the call: they fail the episode and are never counted as behaviour.
    """

    MALFORMED = "malformed"
    """The reply holds no answer in the form asked for, or more than one."""
    TRUNCATED = "truncated"
    """The reply was cut off at the token limit."""
    REFUSED = "refused"
    """The model declined to answer."""
    FILTERED = "filtered"
    """A content filter withheld the reply."""
    TIMEOUT = "timeout"
    """No reply in time, in any attempt."""
    UNAVAILABLE = "unavailable"
    """The endpoint could not be reached, or answered with an error, in every attempt."""
    REJECTED = "rejected"
    """The endpoint will never accept this request, such as one too long for the model."""
    OVER_BUDGET = "over_budget"
    """The call would have gone beyond the run's budget and was not made."""

    @property
    def is_infrastructure(self) -> bool:
        """Whether it happened to the call, rather than being something that the model did."""
        return self in (
            Failure.TIMEOUT,
            Failure.UNAVAILABLE,
            Failure.REJECTED,
            Failure.OVER_BUDGET,
        )


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What an operation returned: exactly one of a value and a failure.

    Attributes:
        value: The value.
        failure: Why there is none.
        detail: The failure in words.
    """

    value: T | None = None
    failure: Failure | None = None
    detail: str = ""

    def conduct(self, operation: str) -> Outcome[T]:
        """Lets pass what the model did, a value or an unusable answer, and nothing else.

        Args:
            operation: Which one it was, for the message.

        Returns:
            The outcome itself.

        Raises:
            CallFailedError: If something happened to the call: that is never conduct.
        """
        if self.failure is not None and self.failure.is_infrastructure:
            raise CallFailedError(f"{operation}: {self.failure.value}: {self.detail}")
        return self
