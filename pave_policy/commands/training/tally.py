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
COLUMNS = ("steps", "episodes", "return", *TERMS, "success")
"""Columns of the learning curve. `return` and the terms are sums over a person's episode, as means
over people and episodes; the terms are unweighted. `success` is goals reached ÷ goals given."""
_GOAL = slice(column_index("self", "goal_x"), column_index("self", "goal_y") + 1)
_AT_GOAL = column_index("self", "at_goal")
_ESCAPING = column_index("self", "escaping")
_SAFETY = -1


@dataclass
class Tally:
    """Counts of one batch of environments; every environment is `N` people.

    Attributes:
        episodes: Episodes that ended, of single people.
        sums: Return and terms of those, summed.
        given: Goals given.
        reached: Goals reached.
    """

    episodes: int = 0
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1 + len(TERMS)))
    given: int = 0
    reached: int = 0
    _running: NDArray[np.float64] | None = field(default=None, repr=False)
    _goals: NDArray[np.int64] | None = field(default=None, repr=False)

    def begin(self, own: NDArray[Any]) -> None:
        """Notes a reset of all environments.

        Args:
            own: `(B, N, 12)` field `self` of the observations.
        """
        self._running = np.zeros((*own.shape[:2], 1 + len(TERMS)))
        self._goals = _goals(own)
        self.given += int((own[..., _AT_GOAL] == 0).sum())

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
        self._running[..., 1:] += terms
        self.reached += int(terms[..., RewardTerm.ARRIVAL].sum())
        goals = _goals(own)
        new = (goals != self._goals) | over[:, None]
        self.given += int((new & (own[..., _AT_GOAL] == 0)).sum())
        self._goals = goals
        if over.any():
            ended = self._running[over]
            self.sums += ended.sum(axis=(0, 1))
            self.episodes += ended.shape[0] * ended.shape[1]
            self._running[over] = 0

    def clear(self) -> None:
        """Starts counting anew; episodes that are under way go on."""
        self.episodes = self.given = self.reached = 0
        self.sums = np.zeros(1 + len(TERMS))


def _goals(own: NDArray[Any]) -> NDArray[np.int64]:
    """A number for the goal that counts now."""
    place = own[..., _GOAL].astype(np.int64) @ np.array([1, 64])
    return np.where(own[..., _ESCAPING] != 0, _SAFETY, place)


def point(tallies: Iterable[Tally], steps: int) -> dict[str, float | None] | None:
    """A point of the learning curve; clears the counts that it is made of.

    Args:
        tallies: Counts of all batches.
        steps: Steps of single agents so far.

    Returns:
        The columns; None while no episode has ended since the last point.
    """
    counted = list(tallies)
    episodes = sum(tally.episodes for tally in counted)
    if episodes == 0:
        return None
    sums = sum((tally.sums for tally in counted), np.zeros(1 + len(TERMS))) / episodes
    given = sum(tally.given for tally in counted)
    success = sum(tally.reached for tally in counted) / given if given else None
    for tally in counted:
        tally.clear()
    numbers = [steps, episodes, *(round(float(value), 6) for value in sums)]
    last = None if success is None else round(min(success, 1.0), 6)
    return dict(zip(COLUMNS, [*numbers, last], strict=True))
