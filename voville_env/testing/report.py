"""What a check says: an error with one clear sentence, and the result that the kit lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from voville_env.errors import VovilleError


class ConformanceError(VovilleError, AssertionError):
    """An environment breaks a promise of the API: the message says which, and where."""


@dataclass(frozen=True)
class CheckResult:
    """One line of the kit's report.

    Attributes:
        name: The check.
        outcome: `passed`, `failed` or `skipped`.
        detail: Why it failed or was skipped, or what was tried.
    """

    name: str
    outcome: str
    detail: str = ""

    def __str__(self) -> str:
        """The line as text."""
        return f"{self.outcome:8}{self.name}" + (f": {self.detail}" if self.detail else "")


def fail(message: str) -> NoReturn:
    """Ends a check.

    Args:
        message: What is wrong, in one sentence.

    Raises:
        ConformanceError: Always.
    """
    raise ConformanceError(message)


def require(condition: object, message: str) -> None:
    """Ends a check unless something holds.

    Args:
        condition: What must be true.
        message: What is wrong otherwise.

    Raises:
        ConformanceError: If it is false.
    """
    if not condition:
        fail(message)
