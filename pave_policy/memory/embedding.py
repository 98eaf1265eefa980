"""Embeddings without a model: words and their character trigrams, hashed into a fixed length.

The same on every machine and in every process. Texts that share words, or forms of a word, are
alike; synonyms are not, which a language model's embeddings would see.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 256
_WORD_WEIGHT = 1.0
_TRIGRAM_WEIGHT = 0.25
_WORD = re.compile(r"\w+")


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


@lru_cache(maxsize=8192)
def _vector(text: str) -> NDArray[np.float32]:
    sums = np.zeros(DIMENSIONS)
    # A text without a single word still is like itself alone.
    for word in _WORD.findall(text.casefold()) or [text]:
        sums[_slot(f"word {word}")] += _WORD_WEIGHT
        padded = f" {word} "
        for start in range(len(padded) - 2):
            sums[_slot(f"trigram {padded[start : start + 3]}")] += _TRIGRAM_WEIGHT
    vector: NDArray[np.float32] = (sums / np.linalg.norm(sums)).astype(np.float32)
    vector.flags.writeable = False
    return vector


def _slot(feature: str) -> int:
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % DIMENSIONS
