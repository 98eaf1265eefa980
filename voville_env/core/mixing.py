"""The mixing function behind every hashed draw: the core compiles it, others give it arrays."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Words = TypeVar("Words", NDArray[np.uint64], np.uint64)

GAMMA = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


def mix(words: Words) -> Words:
    """The splitmix64 finaliser; sums and products wrap round, as they should.

    Args:
        words: One 64-bit word or an array of them.

    Returns:
        As many words.
    """
    z = words + GAMMA
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))
