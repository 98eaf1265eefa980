"""What comes from outside: scenarios, actions, buffers and reset masks, checked before use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.actions import N_ACTIONS, check_action
from voville_env.core import fields, layout
from voville_env.errors import InvalidValueError, invalid
from voville_env.scenario import Scenario, World, load_world

FIELDS = tuple(field.name for field in fields.FIELDS)
FLAGS = ("rewards", "terminations", "truncations")
"""What a mapping of buffers may hold besides the fields of the observation."""


def read_world(scenario: Any) -> World:
    """Reads a scenario in any of the forms in which users give one.

    Args:
        scenario: A shipped name, a path to a TOML file, a scenario or a loaded world.

    Returns:
        The scenario with its town.

    Raises:
        ScenarioError: If the scenario cannot be used.
        InvalidValueError: If it is anything else.
    """
    if not isinstance(scenario, (str, Path, Scenario, World)):
        raise InvalidValueError(
            f"scenario is {scenario!r}; allowed: a name, a path, a Scenario or a World"
        )
    return scenario if isinstance(scenario, World) else load_world(scenario)


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Checks that a value is one of a few names.

    Args:
        name: What the value is for.
        value: What was given.
        allowed: The names.

    Raises:
        InvalidValueError: If it is none of them.
    """
    if not isinstance(value, str) or value not in allowed:
        raise invalid(name, value, allowed)


def check_switches(**switches: Any) -> None:
    """Checks that settings are True or False.

    Args:
        **switches: Value by name.

    Raises:
        InvalidValueError: If one is anything else.
    """
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InvalidValueError(f"{name} is {value!r}; allowed: True, False")


def check_counts(**counts: Any) -> None:
    """Checks that settings are whole numbers from 1.

    Args:
        **counts: Value by name.

    Raises:
        InvalidValueError: If one is anything else.
    """
    for name, number in counts.items():
        whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not whole or number < 1:
            raise InvalidValueError(f"{name} is {number!r}; allowed: integers from 1")


def check_actions(
    actions: Any, live: NDArray[np.bool_], names: Sequence[str]
) -> NDArray[np.integer[Any]]:
    """Checks a batch of actions.

    Args:
        actions: `(B, N)` integers, an array or nested sequences.
        live: `(B, N)` bool; the actions of others are not looked at.
        names: `(N,)` agent ids, for the message.

    Returns:
        The actions as an array; those of agents that are not live may be anything.

    Raises:
        InvalidValueError: If the shape, the dtype or a live agent's action is not allowed.
    """
    try:
        array = np.asarray(actions)
    except ValueError as error:
        raise InvalidValueError(f"actions have no regular shape: {error}") from error
    if array.shape != live.shape or array.dtype.kind not in "iu":
        raise InvalidValueError(
            f"actions have shape {array.shape}, dtype {array.dtype}; "
            f"allowed: shape {live.shape} of integers"
        )
    if not hasattr(actions, "dtype"):  # in a list, NumPy would take True for 1
        for b, n in zip(*live.nonzero(), strict=True):
            check_action(names[n], actions[b][n])
    # Seen without a sign, a negative number is a large one: one pass finds both.
    unsigned = array.view(array.dtype.str.replace("i", "u"))
    if np.maximum.reduce(unsigned, axis=None) >= N_ACTIONS:
        wrong = ((array < 0) | (array >= N_ACTIONS)) & live
        if wrong.any():
            b, n = np.argwhere(wrong)[0]
            raise InvalidValueError(
                f"action of agent {names[n]!r} in environment {b} is {array[b, n]}; "
                f"allowed: integers 0 to {N_ACTIONS - 1} (voville_env.core.codes.Action)"
            )
    return array


def check_reset_mask(mask: Any, num_envs: int) -> NDArray[np.bool_]:
    """Checks which environments are to be reset.

    Args:
        mask: `(B,)` bool array.
        num_envs: Number of environments, `B`.

    Returns:
        A copy of it.

    Raises:
        InvalidValueError: If it is anything else, or chooses none.
    """
    is_mask = isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (num_envs,)
    if not is_mask or not mask.any():
        raise InvalidValueError(
            f"reset_mask is {mask!r}; allowed: a bool array of shape ({num_envs},), "
            "True where an environment is to be reset, at least once"
        )
    kept: NDArray[np.bool_] = mask.copy()
    return kept


def check_buffers(buffers: Any, shape: tuple[int, int]) -> layout.Records | dict[str, Any]:
    """Checks buffers that a caller owns.

    Args:
        buffers: `(B, N)` records of dtype `core.layout.OBSERVATION`, or a mapping with an array
            `(B, N, ...)` for each field of the observation and, if wanted, for `FLAGS`.
        shape: `(B, N)`.

    Returns:
        The records with the core's own dtype, or the mapping as a dict.

    Raises:
        InvalidValueError: If something is missing, unknown, or has the wrong dtype, shape or
            layout.
    """
    if isinstance(buffers, np.ndarray):
        _check_array("buffers", buffers, layout.OBSERVATION, shape)
        records: layout.Records = buffers.view(layout.OBSERVATION).view(np.recarray)
        return records
    if not isinstance(buffers, Mapping):
        raise InvalidValueError(
            f"buffers is a {type(buffers).__name__}; allowed: records of dtype "
            "core.layout.OBSERVATION, or a mapping of field name to array"
        )
    wanted: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        field.name: (np.dtype(field.dtype), (*shape, *field.shape)) for field in fields.FIELDS
    }
    missing = [name for name in wanted if name not in buffers]
    if missing:
        raise InvalidValueError(f"buffers lack {', '.join(missing)}; every field needs one")
    wanted["rewards"] = (np.dtype(np.float32), shape)
    wanted["terminations"] = wanted["truncations"] = (np.dtype(np.bool_), shape)
    for name, array in buffers.items():
        if name not in wanted:
            raise invalid("buffer", name, wanted)
        _check_array(f"buffer {name!r}", array, *wanted[name])
    for name, array in buffers.items():
        for other, twin in buffers.items():
            if name < other and np.may_share_memory(array, twin):
                raise InvalidValueError(f"buffers {name!r} and {other!r} share memory")
    return dict(buffers)


def _check_array(name: str, array: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray):
        raise InvalidValueError(f"{name} is a {type(array).__name__}; allowed: a NumPy array")
    flags = array.flags
    usable = flags.c_contiguous and flags.aligned and flags.writeable
    if array.dtype != dtype or array.shape != shape or not usable:
        kind = "core.layout.OBSERVATION" if dtype.names else str(dtype)
        given = "that dtype" if array.dtype == dtype else f"dtype {str(array.dtype)[:60]}"
        raise InvalidValueError(
            f"{name} has {given}, shape {array.shape}, "
            f"C-contiguous {flags.c_contiguous}, aligned {flags.aligned}, "
            f"writable {flags.writeable}; allowed: dtype {kind}, shape {shape}, all three True"
        )
