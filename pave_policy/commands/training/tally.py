"""What a training counts of what was played: returns, reward terms apart, and goals reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.core.codes import RewardTerm
from voville_env.core.fields import column_index

TERMS = tuple(term.name.lower() for term in RewardTerm)
COLUMNS = ("steps", "episodes", "return", *TERMS, "given", "success")
"""Columns of the learning curve: steps of single agents so far, episodes of single people since the
last point, and what they were like, as means over people: return and unweighted terms summed over
an episode, goals given, and `success`, goals reached ÷ goals given. Several windows count alike."""
_SUMS = 1 + len(TERMS) + 1
_ARRIVAL = 1 + RewardTerm.ARRIVAL
_GIVEN = _SUMS - 1
_GOAL = slice(column_index("self", "goal_x"), column_index("self", "goal_y") + 1)
_AT_GOAL = column_index("self", "at_goal")
_ESCAPING = column_index("self", "escaping")
_SAFETY = -1
Floats = NDArray[np.float64]


@dataclass
class Tally:
    """Counts of one batch of environments.

    Attributes:
        episodes: Episodes of single people that ended since the last point.
        sums: Return, terms and goals given in those, summed.
        latest: Means of the last episodes that ended; None before the first.
    """

    episodes: int = 0
    sums: Floats = field(default_factory=lambda: np.zeros(_SUMS))
    latest: Floats | None = None
    _running: Floats | None = field(default=None, repr=False)
    _goals: NDArray[np.int64] | None = field(default=None, repr=False)

    def begin(self, own: NDArray[Any]) -> None:
        """Notes a reset of all environments.

        Args:
            own: `(B, N, 12)` field `self` of the observations.
        """
        self._running = np.zeros((*own.shape[:2], _SUMS))
        self._goals = _goals(own)
        self._running[..., _GIVEN] = own[..., _AT_GOAL] == 0

    def note(
        self,
        own: NDArray[Any],
        rewards: NDArray[Any],
        terms: NDArray[Any],
        over: NDArray[np.bool_],
    ) -> None:
        """Notes a step.

        Args:
            own: `(B, N, 12)` field `self` after it, of the next episode where one has ended.
            rewards: `(B, N)`.
            terms: `(B, N, 5)`, unweighted.
            over: `(B,)`, which environments have ended.
        """
        assert self._running is not None and self._goals is not None
        self._running[..., 0] += rewards
        self._running[..., 1:_GIVEN] += terms
        if over.any():
            ended = self._running[over]
            self.sums += ended.sum(axis=(0, 1))
            self.episodes += ended.shape[0] * ended.shape[1]
            self._running[over] = 0
        goals = _goals(own)
        new = (goals != self._goals) | over[:, None]
        self._running[..., _GIVEN] += new & (own[..., _AT_GOAL] == 0)
        self._goals = goals

    def close(self) -> int:
        """Makes the last means from what has ended, and counts anew.

        Returns:
            Episodes that they are of.
        """
        episodes = self.episodes
        if episodes:
            self.latest = self.sums / episodes
            self.episodes = 0
            self.sums = np.zeros(_SUMS)
        return episodes


def _goals(own: NDArray[Any]) -> NDArray[np.int64]:
    """A number for the goal that counts now."""
    place = own[..., _GOAL].astype(np.int64) @ np.array([1, 64])
    return np.where(own[..., _ESCAPING] != 0, _SAFETY, place)


def point(tallies: Iterable[Tally], steps: int) -> dict[str, float | None] | None:
    """A point of the learning curve.

    Args:
        tallies: Counts of all batches.
        steps: Steps of single agents so far.

    Returns:
        The columns; None while no episode has ended since the last point, or none yet in some
        batch.
    """
    counted = list(tallies)
    episodes = sum(tally.close() for tally in counted)
    latest = [tally.latest for tally in counted if tally.latest is not None]
    if episodes == 0 or len(latest) < len(counted):
        return None
    means = np.mean(latest, axis=0)
    given = float(means[_GIVEN])
    success = min(1.0, round(float(means[_ARRIVAL]) / given, 6)) if given else None
    numbers = [steps, episodes, *(round(float(value), 6) for value in means)]
    return dict(zip(COLUMNS, [*numbers, success], strict=True))
