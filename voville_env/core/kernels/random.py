"""Counter-based randomness: a draw is a pure function of seed, stream, tick and index."""

import numpy as np

from voville_env.core.compile import kernel

MOVE = 1
TAKE = 2
OFFICER_POST = 3
CROSSING = 4

_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)
_G = np.uint64(0x9E3779B97F4A7C15)


@kernel
def mix(value):
    """The splitmix64 finaliser of one 64-bit word."""
    z = value + _G
    z = (z ^ (z >> np.uint64(30))) * _A
    z = (z ^ (z >> np.uint64(27))) * _B
    return z ^ (z >> np.uint64(31))


@kernel
def draw(seed, stream, tick, index):
    """64 random bits that depend on the four arguments alone."""
    word = mix(seed ^ np.uint64(stream) * _G)
    word = mix(word ^ np.uint64(tick) * _A)
    return mix(word ^ np.uint64(index) * _B)


@kernel
def between(seed, stream, tick, index, low, high):
    """A uniform integer in [low, high]."""
    span = np.uint64(high - low + 1)
    return low + np.int64(draw(seed, stream, tick, index) % span)
