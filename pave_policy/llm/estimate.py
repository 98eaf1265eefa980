"""What a benchmark would ask of a model, counted by a rehearsal without one, and what it costs."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from pave_policy.backbone import LegitimacyScore, Opinion, PeerScore, Score
from pave_policy.llm import wording
from pave_policy.llm.chat import Chat
from pave_policy.llm.prompts import OPERATIONS
from pave_policy.llm.reading import read_actions, read_answer
from pave_policy.llm.settings import ChatSettings
from pave_policy.outcome import Outcome
from pave_policy.records import OutcomeNote, TimedAction
from pave_policy.site import Site
from pave_policy.surrogate import Surrogate
from voville_env.observation import Context

T = TypeVar("T")


@dataclass(frozen=True)
class Spoken:
    """A question of a rehearsal, and what was answered in a model's place.

    Attributes:
        site: Where in the run.
        operation: Which operation.
        prompt: What a model would get.
        sample: Which of several independent answers is wanted; an answer known is not asked for.
        answer: What a model might write.
    """

    site: Site
    operation: str
    prompt: str
    sample: str
    answer: str


class Rehearsal(Chat):
    """The chat backbone without a model: asked as it is, answered by the surrogate in writing.

    Every answer is read as a model's would be, and the same prompt gets the same answer.
    """

    concurrent = False

    def __init__(self, settings: ChatSettings, note: Callable[[Spoken], None]) -> None:
        """Takes its parts; no key is needed and nothing is sent.

        Args:
            settings: How a model would be asked.
            note: Called with each question.
        """
        super().__init__(settings, offline=True)
        self._note_spoken = note
        self._surrogate = Surrogate()
        self._answers: dict[bytes, str] = {}

    async def _ask(self, request: object, convert: Callable[[Any], T]) -> Outcome[T]:
        operation, prompt = self.prompt(request)
        digest = _digest(prompt)
        answer = self._answers.get(digest)
        if answer is None:
            outcome = await getattr(self._surrogate, operation)(request)
            answer = self._answers[digest] = in_writing(operation, outcome.value)
        self._note_spoken(Spoken(self._site, operation, prompt, self._sample(prompt), answer))
        if self.templates[operation].answer == "actions":
            return Outcome(convert(read_actions(answer)))
        return Outcome(convert(read_answer(answer, operation)))


def _digest(prompt: str) -> bytes:
    return hashlib.sha256(prompt.encode()).digest()


def in_writing(operation: str, value: Any) -> str:
    """An answer as a model would write it.

    Args:
        operation: Which operation.
        value: What it returns.

    Returns:
        JSON, or a numbered list of actions.
    """
    if operation == "emulate_action":
        actions: tuple[TimedAction, ...] = value
        return "\n".join(
            f"{place}. {action.text} ({action.seconds}s)" for place, action in enumerate(actions, 1)
        )
    return json.dumps(_as_object(operation, value), ensure_ascii=False)


_SCORES = {
    "elicit_threshold": "threshold",
    "assess_risk": "risk",
    "assess_normative": "p_norm",
    "assess_benefit": "benefit",
}


def _as_object(operation: str, value: Any) -> dict[str, Any]:
    match value:
        case Context():
            return wording.context_data(value)
        case Score():
            return {_SCORES[operation]: value.value, "reason": value.reason}
        case PeerScore(share, observed, complying):
            return {"p_emp": share, "n_observed": observed, "n_complying": complying}
        case LegitimacyScore():
            fields = asdict(value)
            return {"legitimacy": fields.pop("value"), **fields}
        case Opinion():
            return asdict(value)
        case OutcomeNote():
            return value.model_dump()
    raise TypeError(f"{operation} returned a {type(value).__name__}")


_STAGES: Mapping[str, tuple[str, ...]] = {
    "elicit": ("elicit_threshold",),
    "propagate": ("propagate_outcome",),
    "perceive": ("perceive_context",),
    "assess": tuple(name for name in OPERATIONS if name.startswith("assess_")),
    "decide": ("generate_verdict",),
    "emulate": ("emulate_action",),
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
        key = _digest(spoken.prompt), spoken.sample
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
