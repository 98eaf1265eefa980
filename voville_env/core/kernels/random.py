"""Counter-based randomness: a draw is a pure function of seed, stream, tick and index."""

import numpy as np

from voville_env.core import mixing
from voville_env.core.compile import kernel
from voville_env.core.mixing import FIRST, GAMMA, SECOND

MOVE = 1
TAKE = 2
OFFICER_POST = 3
CROSSING = 4

mix = kernel(mixing.mix)


@kernel
def draw(seed, stream, tick, index):
    """64 random bits that depend on the four arguments alone."""
    word = mix(seed ^ np.uint64(stream) * GAMMA)
    word = mix(word ^ np.uint64(tick) * FIRST)
    return mix(word ^ np.uint64(index) * SECOND)


@kernel
def between(seed, stream, tick, index, low, high):
    """A uniform integer in [low, high]."""
    span = np.uint64(high - low + 1)
    return low + np.int64(draw(seed, stream, tick, index) % span)
