"""Embeddings without a model: words and their beginnings, hashed into a fixed length.

The same on every machine and in every process. Texts that share words, or forms of a word, are
alike; synonyms are not, which a language model's embeddings would see. Words that any sentence may
hold, and bare numbers, make no two texts alike.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 2048
"""Enough that two different words seldom share a place."""
_STEM = 4
"""Letters that the forms of a word share: fire and fires, crossing and crosswalk."""
_STEM_WEIGHT = 0.5
_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset(
    "a about against all am an and any are as at away be been before but by can could day did do "
    "does down for from had has have he her here him his how i if in instead into is it its me my "
    "near nearby no not of off on one or other others our out over she so some somebody that the "
    "their them then there they this those tile tiles to towards up us was we were what when where "
    "which who why will with would you your".split()
)


def embed(texts: tuple[str, ...]) -> NDArray[np.float32]:
    """Vectors of texts.

    Args:
        texts: The texts.

    Returns:
        One vector of length 1 for each, shape (texts, `DIMENSIONS`).
    """
    vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
    for row, text in enumerate(texts):
        vectors[row] = _vector(text)
    return vectors


@lru_cache(maxsize=4096)
def _vector(text: str) -> NDArray[np.float32]:
    sums = np.zeros(DIMENSIONS)
    for word in _telling(text.casefold()):
        sums[_slot(f"word {word}")] += 1
        sums[_slot(f"stem {word[:_STEM]}")] += _STEM_WEIGHT
    vector: NDArray[np.float32] = (sums / np.linalg.norm(sums)).astype(np.float32)
    vector.flags.writeable = False
    return vector


def _telling(text: str) -> list[str]:
    """The words that tell a text from others; the text itself where it has none."""
    words = [word for word in _WORD.findall(text) if word not in _COMMON and not word.isdigit()]
    return words or [text]


def _slot(feature: str) -> int:
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % DIMENSIONS
