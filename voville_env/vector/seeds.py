"""Seeds of the episodes that a batch of environments plays one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.core.mixing import FIRST, SECOND, mix
from voville_env.errors import InvalidValueError
from voville_env.parallel import check_seed


def episode_seeds(
    base: NDArray[np.uint64], index: NDArray[Any], episode: NDArray[Any]
) -> NDArray[np.uint64]:
    """The seeds of episodes: 64 bits that depend on the three arguments alone.

    Args:
        base: `(B,)` base seeds.
        index: `(B,)` numbers of the environments, from 0.
        episode: `(B,)` numbers of the episodes since the base seed was given, from 0.

    Returns:
        `(B,)` uint64.
    """
    words = mix(np.atleast_1d(base).astype(np.uint64))
    words = mix(words ^ (np.atleast_1d(index).astype(np.uint64) + np.uint64(1)) * FIRST)
    return mix(words ^ (np.atleast_1d(episode).astype(np.uint64) + np.uint64(1)) * SECOND)


class SeedSource:
    """Says which seed every environment plays, now and next.

    Attributes:
        current: `(B,)` uint64, the seeds being played.
        episode: `(B,)` int64, episodes begun since the base seed was given, less one.
    """

    def __init__(self, num_envs: int, pool: Sequence[int] | None = None) -> None:
        """Knows no base seed yet.

        Args:
            num_envs: Number of environments, `B`.
            pool: The only seeds to be played, or None for any.

        Raises:
            InvalidValueError: If the pool is empty or holds something that is no seed.
        """
        self._pool = None if pool is None else _check_pool(pool)
        self._index = np.arange(num_envs)
        self._base = np.zeros(num_envs, np.uint64)
        self._based = np.zeros(num_envs, np.bool_)
        self.current = np.zeros(num_envs, np.uint64)
        self.episode = np.full(num_envs, -1, np.int64)

    def check(self, seed: Any) -> int | list[int] | None:
        """Checks what `reset` is given.

        Args:
            seed: One base seed, one seed an environment, or None.

        Returns:
            The same in plain integers.

        Raises:
            InvalidValueError: If it is anything else.
        """
        if seed is None:
            return None
        if isinstance(seed, (list, tuple, range)) or (isinstance(seed, np.ndarray) and seed.ndim):
            if len(seed) != len(self._index):
                raise InvalidValueError(
                    f"seed has {len(seed)} entries; allowed: one for each of the "
                    f"{len(self._index)} environments, or one integer"
                )
            return [check_seed(one) for one in seed]
        return check_seed(seed)

    def begin(self, seed: int | list[int] | None, which: NDArray[np.bool_]) -> None:
        """Chooses seeds for environments that the user resets.

        Args:
            seed: As `check` returns it. One number is the base of everybody's seeds. Of a list,
                each environment plays its own entry first and takes it for its base. None goes on
                from the base seed given before, drawn from the operating system if there is none.
            which: `(B,)` bool, the environments that are reset.
        """
        if seed is None:
            fresh = which & ~self._based
            if fresh.any():
                self._base[fresh] = np.uint64(check_seed(None))
                self.episode[fresh] = -1
        else:
            self._base[which] = np.array(seed, np.uint64)[which] if isinstance(seed, list) else seed
            self.episode[which] = -1
        self._based |= which
        self.advance(which)
        if isinstance(seed, list):
            self.current[which] = self._base[which]

    def advance(self, which: NDArray[np.bool_]) -> None:
        """Goes to the next episode.

        Args:
            which: `(B,)` bool, the environments that begin one.
        """
        self.episode[which] += 1
        drawn = episode_seeds(self._base[which], self._index[which], self.episode[which])
        if self._pool is None:
            self.current[which] = drawn
        else:
            pool = self._pool
            picked = [pool[int(word) % len(pool)] for word in drawn]
            self.current[which] = np.array(picked, np.uint64)


def _check_pool(pool: Any) -> Sequence[int]:
    if isinstance(pool, np.ndarray):
        pool = list(pool)
    if not isinstance(pool, (range, list, tuple)) or not pool:
        raise InvalidValueError(
            f"seed_pool is {pool!r}; allowed: a range or a sequence of at least one seed"
        )
    for seed in (pool[0], pool[-1]) if isinstance(pool, range) else pool:
        if seed is None:
            raise InvalidValueError("seed_pool holds None; allowed: integers 0 to 2**64 - 1")
        check_seed(seed)
    return pool if isinstance(pool, range) else [int(seed) for seed in pool]
