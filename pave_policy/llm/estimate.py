"""What a benchmark would ask of a model, counted by a rehearsal without one, and what it costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pave_policy.llm.operations import OPERATIONS
from pave_policy.llm.rehearsal import Rehearsal, Spoken, digest_of
from pave_policy.llm.settings import ChatSettings

__all__ = ["Estimate", "Need", "Rate", "Rates", "Rehearsal", "Spoken", "Tally", "estimate"]

_STAGES: Mapping[str, tuple[str, ...]] = {
    "elicit": ("elicit_threshold",),
    "propagate": ("propagate_outcome",),
    "perceive": ("perceive_context",),
    "assess": tuple(name for name in OPERATIONS if name.startswith("assess_")),
    "decide": ("generate_verdict",),
    "emulate": ("emulate_action",),
    "plan": ("plan_day",),
    "decompose": ("decompose_plan",),
    "rate": ("rate_importance",),
    "focus": ("ask_focal_points",),
    "conclude": ("draw_insights",),
    "react": ("react",),
}
"""What follows on what in a tick; the questions of one stage are asked side by side."""
_STAGE_OF = {name: stage for stage, names in _STAGES.items() for name in names}


@dataclass
class Tally:
    """Counts the questions of a rehearsal.

    Attributes:
        asked: How often each operation was asked.
        distinct: How many of these a model would have to answer; the store knows the others.
        characters: Of their prompts.
        chains: How often each episode waits for each stage of a tick, by scenario, policy and seed.
    """

    asked: Counter[str] = field(default_factory=Counter)
    distinct: Counter[str] = field(default_factory=Counter)
    characters: Counter[str] = field(default_factory=Counter)
    chains: dict[tuple[str, str, int], Counter[str]] = field(default_factory=dict)
    _known: set[tuple[bytes, str]] = field(default_factory=set, repr=False)
    _waits: set[tuple[object, ...]] = field(default_factory=set, repr=False)

    def note(self, spoken: Spoken) -> None:
        """Counts a question.

        Args:
            spoken: The question.
        """
        self.asked[spoken.operation] += 1
        key = digest_of(spoken.prompt), spoken.sample
        if key in self._known:
            return
        self._known.add(key)
        self.distinct[spoken.operation] += 1
        self.characters[spoken.operation] += len(spoken.prompt)
        site, stage = spoken.site, _STAGE_OF[spoken.operation]
        episode = site.scenario, site.policy, site.seed
        wait = (*episode, site.day, site.tick, stage)
        if wait not in self._waits:
            self._waits.add(wait)
            self.chains.setdefault(episode, Counter())[stage] += 1


@dataclass(frozen=True)
class Rate:
    """What one question of an operation takes, on average.

    Attributes:
        calls: Calls to the model: more than one where a reminder is needed.
        completion_tokens: Tokens received, of all its calls.
        seconds: Time of all its calls.
    """

    calls: float
    completion_tokens: float
    seconds: float


@dataclass(frozen=True)
class Rates:
    """What questions take at an endpoint, as measured there.

    Attributes:
        operations: By operation.
        tokens_per_character: Of prompts.
        side_by_side: Calls that the endpoint works on at once.
    """

    operations: Mapping[str, Rate]
    tokens_per_character: float
    side_by_side: float


@dataclass(frozen=True)
class Need:
    """What one operation, or all of them, comes to in a benchmark.

    Attributes:
        operation: Which.
        asked: Questions.
        distinct: Those that the store cannot answer.
        calls: Calls to the model for these, reminders included.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens received.
        seconds: Time of these calls, one after the other.
    """

    operation: str
    asked: int
    distinct: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """What a benchmark comes to.

    Attributes:
        needs: One for each operation that is asked.
        total: Their sum.
        seconds: Time of all calls at the measured throughput; that of the longest episode where its
            calls, which follow on each other, take longer; None where no call was timed.
        cost: US dollars; None where no price is known.
    """

    needs: tuple[Need, ...]
    total: Need
    seconds: float | None
    cost: float | None


def estimate(tally: Tally, rates: Rates, settings: ChatSettings, *, times: int = 1) -> Estimate:
    """Estimates a benchmark from its rehearsal and what was measured at the endpoint.

    Args:
        tally: What was asked in the rehearsal.
        rates: What was measured.
        settings: With the prices, if they are known.
        times: How many times as much as the rehearsal the benchmark is.

    Returns:
        The estimate.
    """
    needs = tuple(_need(name, tally, rates, times) for name in OPERATIONS if tally.asked[name])
    total = Need(
        "all",
        asked=sum(need.asked for need in needs),
        distinct=sum(need.distinct for need in needs),
        calls=sum(need.calls for need in needs),
        prompt_tokens=sum(need.prompt_tokens for need in needs),
        completion_tokens=sum(need.completion_tokens for need in needs),
        seconds=sum(need.seconds for need in needs),
    )
    cost = None
    if settings.price_in is not None and settings.price_out is not None:
        sent = total.prompt_tokens * settings.price_in
        cost = (sent + total.completion_tokens * settings.price_out) / 1_000_000
    seconds = None
    if rates.side_by_side:
        seconds = max(total.seconds / rates.side_by_side, _longest_chain(tally, rates))
    return Estimate(needs, total, seconds, cost)


def _longest_chain(tally: Tally, rates: Rates) -> float:
    """Seconds that an episode takes however many calls are made at once."""
    waits = {
        stage: max(rates.operations[name].seconds for name in names)
        for stage, names in _STAGES.items()
    }
    return max(
        (sum(waits[stage] * n for stage, n in chain.items()) for chain in tally.chains.values()),
        default=0.0,
    )


def _need(operation: str, tally: Tally, rates: Rates, times: int) -> Need:
    rate = rates.operations[operation]
    distinct = tally.distinct[operation] * times
    characters = tally.characters[operation] * times
    return Need(
        operation,
        asked=tally.asked[operation] * times,
        distinct=distinct,
        calls=math.ceil(distinct * rate.calls),
        prompt_tokens=math.ceil(characters * rate.calls * rates.tokens_per_character),
        completion_tokens=math.ceil(distinct * rate.completion_tokens),
        seconds=distinct * rate.seconds,
    )
