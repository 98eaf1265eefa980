"""The errors that Voville raises at its edges, and the did-you-mean helper they share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class VovilleError(Exception):
    """Base class of every error the package raises on purpose."""


class InvalidValueError(VovilleError, ValueError):
    """A value that is not allowed: the message names it, what is allowed and the nearest match."""


class LifecycleError(VovilleError, RuntimeError):
    """A call at the wrong moment, such as a step before the first reset."""


class MapError(VovilleError, ValueError):
    """A map file that cannot be read as a town: the message names the file and the item."""


class ScenarioError(VovilleError, ValueError):
    """A scenario file that cannot be used: the message names the file and the key."""


class CapacityError(VovilleError, RuntimeError):
    """A fixed buffer of the core overflowed; nothing after the overflow was recorded."""


class CallFailedError(VovilleError, RuntimeError):
    """A call to something outside failed for good: it fails the episode and is never conduct."""


class RunAbortedError(VovilleError, RuntimeError):
    """What a run depends on cannot be used at all, such as a wrong key: the whole run stops."""


class MissingExtraError(VovilleError, ImportError):
    """An optional dependency is missing: the message names the extra that brings it."""


def nearest(value: object, allowed: Iterable[object]) -> str:
    """Says which allowed name is closest to a value.

    Args:
        value: What was given.
        allowed: What is allowed.

    Returns:
        ``"; did you mean 'x'?"``, or an empty string where nothing is close.
    """
    names = {str(item).casefold(): str(item) for item in allowed}
    found = difflib.get_close_matches(str(value).casefold(), names, n=1, cutoff=0.5)
    return f"; did you mean {names[found[0]]!r}?" if found else ""


def invalid(name: str, value: object, allowed: Iterable[object]) -> InvalidValueError:
    """Builds the standard error for a value outside a closed set.

    Args:
        name: What the value is for.
        value: What was given.
        allowed: The allowed values.

    Returns:
        The error, for the caller to raise.
    """
    options = list(allowed)
    listed = ", ".join(str(item) for item in options)
    return InvalidValueError(f"{name} is {value!r}; allowed: {listed}{nearest(value, options)}")
