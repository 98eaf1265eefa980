"""Counter-based draws: pure functions of their key, so that neither order nor history matters."""

from __future__ import annotations

import hashlib


def draw(key: tuple[int | str, ...], low: int, high: int) -> int:
    """A uniform integer that depends on its arguments alone.

    Args:
        key: What the draw is for, such as a seed, an agent and an event.
        low: Smallest value.
        high: Largest value.

    Returns:
        An integer from `low` to `high`.
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return low + int.from_bytes(digest, "little") % (high - low + 1)
