"""Who has nothing to decide: settled people wait, in training and in play alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.core.codes import Action

_AT_GOAL, _ESCAPING = 8, 11
_AT_STAKE = 1
_INSTRUCTION = 4


def settled(observation: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Who is at the goal, has no rule at stake, no order to obey and nothing to flee from.

    Args:
        observation: Field name to array with any leading axes, which all fields share.

    Returns:
        A flag a person, of the shape of the leading axes.
    """
    own = observation["self"]
    busy = observation["rules"][..., _AT_STAKE, :].any(axis=-1)
    busy |= observation["authority"][..., _INSTRUCTION] != 0
    found: NDArray[np.bool_] = (own[..., _AT_GOAL] != 0) & (own[..., _ESCAPING] == 0) & ~busy
    return found


def open_to(observation: Mapping[str, NDArray[Any]], masks: NDArray[Any]) -> NDArray[np.bool_]:
    """What a policy may choose from: what is possible, and for who is settled to wait.

    Args:
        observation: As for `settled`.
        masks: `(..., 10)` what is physically possible.

    Returns:
        `(..., 10)` bool.
    """
    return only_waiting(settled(observation), masks)


def only_waiting(still: NDArray[np.bool_], masks: NDArray[Any]) -> NDArray[np.bool_]:
    """Takes everything but WAIT from those who are settled.

    Args:
        still: `(...)` who is settled.
        masks: `(..., 10)` what is physically possible.

    Returns:
        `(..., 10)` bool.
    """
    wait = np.arange(masks.shape[-1]) == Action.WAIT
    found: NDArray[np.bool_] = masks.astype(np.bool_) & (wait | ~still[..., None])
    return found
