"""The last observations and infos of environments that autoreset began anew in the same step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.core import fields
from voville_env.core.codes import RewardTerm


def constant(value: Any, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """A read-only array of one value that takes no memory.

    Args:
        value: The value.
        shape: Its shape.
        dtype: Its dtype.

    Returns:
        The array.
    """
    return np.broadcast_to(np.array(value, dtype), shape)


def final_rows(
    records: NDArray[Any], terms: NDArray[np.float32], ended: NDArray[np.bool_]
) -> dict[str, Any]:
    """What `infos` says of the environments that have ended.

    Args:
        records: `(B, N)` observation records.
        terms: `(B, N, 5)` reward terms.
        ended: `(B,)` bool; rows of the others mean nothing.

    Returns:
        `final_obs` and `final_info` with their masks, all copies.
    """
    kept = np.zeros(records.shape, records.dtype)
    kept[ended] = records[ended]
    kept_terms = np.zeros(terms.shape, np.float32)
    kept_terms[ended] = terms[ended]
    return {
        "final_obs": {field.name: kept[field.name] for field in fields.FIELDS},
        "_final_obs": ended.copy(),
        "final_info": {"reward_terms": kept_terms, "_reward_terms": ended.copy()},
        "_final_info": ended.copy(),
    }


def blank_rows(shape: tuple[int, ...]) -> dict[str, Any]:
    """The same keys for a step in which nothing has ended.

    Args:
        shape: `(B, N)`.

    Returns:
        The same as of `final_rows`, with masks all False; read-only, and without memory of rows.
    """
    nowhere = constant(False, shape[:1], np.bool_)
    return {
        "final_obs": {
            field.name: constant(0, (*shape, *field.shape), field.dtype) for field in fields.FIELDS
        },
        "_final_obs": nowhere,
        "final_info": {
            "reward_terms": constant(0, (*shape, len(RewardTerm)), np.float32),
            "_reward_terms": nowhere,
        },
        "_final_info": nowhere,
    }
