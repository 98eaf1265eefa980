"""How a language model answered: shares of an episode's calls, and counts by operation (†)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from voville_env.metrics.episode import Answer, Call, Episode, Fallback, Operation
from voville_env.metrics.values import MetricValue, Unit, nothing, share

NO_CALLS = "no model calls"
Counts = dict[str, Any]
"""Of one operation: `asked`, each `Answer`, `retried`, `fallbacks` by name, and tokens."""
TOKENS = ("prompt_tokens", "completion_tokens")


def number(episode: Episode, unit: Unit) -> MetricValue:
    """Operations that the policy asked a language model for.

    Args:
        episode: The episode.
        unit: Call.

    Returns:
        A count.
    """
    if not episode.calls:
        return nothing(NO_CALLS)
    return MetricValue(len(episode.calls), len(episode.calls), None, 0)


def answers(episode: Episode, unit: Unit, *, of: Collection[Answer]) -> MetricValue:
    """Calls that ended as the title says ÷ calls; one that was asked again counts once.

    Args:
        episode: The episode.
        unit: Call.
        of: Which ends.

    Returns:
        A share.
    """
    hits = sum(call.answer in of for call in episode.calls)
    return share(hits, len(episode.calls), NO_CALLS)


def retried(episode: Episode, unit: Unit) -> MetricValue:
    """Calls that were asked again with a reminder of the form ÷ calls.

    Args:
        episode: The episode.
        unit: Call.

    Returns:
        A share.
    """
    return share(sum(call.retried for call in episode.calls), len(episode.calls), NO_CALLS)


def tokens(episode: Episode, unit: Unit) -> MetricValue:
    """Prompt and completion tokens of a call, both attempts together.

    Args:
        episode: The episode.
        unit: Call.

    Returns:
        Mean over the calls whose tokens were counted.
    """
    if not episode.calls:
        return nothing(NO_CALLS)
    counted = [
        call.prompt_tokens + call.completion_tokens
        for call in episode.calls
        if call.prompt_tokens is not None and call.completion_tokens is not None
    ]
    if not counted:
        return nothing("tokens were not counted")
    size = len(counted)
    return MetricValue(sum(counted) / size, sum(counted), size, size)


def by_operation(episode: Episode) -> dict[str, Counts] | None:
    """What was asked of a language model in an episode.

    Args:
        episode: The episode.

    Returns:
        Counts by operation, in the order of a decision; None for a policy that made no call.
    """
    return add_up({call.operation.value: _counts(call)} for call in episode.calls) or None


def _counts(call: Call) -> Counts:
    """The counts of one call."""
    return {
        **{answer.value: int(call.answer is answer) for answer in Answer},
        "retried": int(call.retried),
        "fallbacks": {} if call.fallback is None else {call.fallback.value: 1},
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
    }


def add_up(parts: Iterable[Mapping[str, Counts]]) -> dict[str, Counts]:
    """Adds up counts by operation.

    Args:
        parts: Such as one mapping for each episode.

    Returns:
        Counts of every operation in any of them, in the order of a decision; tokens are None where
        no part has a count.
    """
    found: dict[str, list[Counts]] = {operation.value: [] for operation in Operation}
    for part in parts:
        for operation, counts in part.items():
            found[operation].append(counts)
    return {operation: sum_of(counts) for operation, counts in found.items() if counts}


def sum_of(parts: Sequence[Counts]) -> Counts:
    """Adds up counts, whatever the operation.

    Args:
        parts: At least one.

    Returns:
        Their sum; `asked` is that of all answers.
    """
    ends = {answer.value: sum(part[answer] for part in parts) for answer in Answer}
    taken = {name.value: sum(part["fallbacks"].get(name, 0) for part in parts) for name in Fallback}
    return {
        "asked": sum(ends.values()),
        **ends,
        "retried": sum(part["retried"] for part in parts),
        "fallbacks": {name: times for name, times in taken.items() if times},
        **{key: _known([part[key] for part in parts]) for key in TOKENS},
    }


def _known(counted: Sequence[int | None]) -> int | None:
    known = [number for number in counted if number is not None]
    return sum(known) if known else None
