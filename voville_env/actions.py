"""Actions: their checks at the edge, and the way from a direction to an action."""

from __future__ import annotations

from typing import Any

import numpy as np

from voville_env.core.codes import Action, Direction
from voville_env.errors import InvalidValueError

N_ACTIONS = len(Action)


def check_action(agent: str, value: Any) -> int:
    """Checks one action.

    Args:
        agent: Who acts, for the message.
        value: A Python or NumPy integer, or a 0-dimensional integer array.

    Returns:
        The action as an int in 0..9.

    Raises:
        InvalidValueError: If it is anything else.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if type(value) is int and 0 <= value < N_ACTIONS:
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        number = int(value)
        if 0 <= number < N_ACTIONS:
            return number
    raise InvalidValueError(
        f"action of agent {agent!r} is {value!r} ({type(value).__name__}); "
        f"allowed: integers 0 to {N_ACTIONS - 1} (voville_env.core.codes.Action)"
    )


def move(direction: Direction | int) -> Action:
    """The MOVE action of a direction.

    Args:
        direction: Where to.

    Returns:
        The action.
    """
    return Action(Action.MOVE_N + direction)


def cross(direction: Direction | int) -> Action:
    """The CROSS action of a direction.

    Args:
        direction: Where to.

    Returns:
        The action.
    """
    return Action(Action.CROSS_N + direction)


def direction_of(action: int) -> Direction | None:
    """The direction of a step.

    Args:
        action: Any action.

    Returns:
        Its direction, or None for WAIT and TAKE.
    """
    if Action.MOVE_N <= action <= Action.CROSS_W:
        return Direction((action - 1) % 4)
    return None
