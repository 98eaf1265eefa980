"""What the trial of an endpoint shows: what can be used, how fast it is, and whether it is fit."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pave_policy.llm.budget import CHARACTERS_PER_TOKEN
from pave_policy.llm.estimate import Rate, Rates
from pave_policy.llm.operations import OPERATIONS
from pave_policy.llm.probing import Support, Trial, Tried, per_second
from pave_policy.llm.store import VALID, Exchange
from voville_env.core.codes import Decision


@dataclass(frozen=True)
class Answers:
    """What became of the questions of one operation.

    Attributes:
        operation: Which.
        asked: Questions.
        at_once: Usable answers to the question itself.
        after_reminder: Usable answers after a reminder.
        failures: How often each failure occurred.
        example: What was wrong with one answer that could not be used; empty if all could.
    """

    operation: str
    asked: int
    at_once: int
    after_reminder: int
    failures: Mapping[str, int]
    example: str

    @property
    def usable(self) -> int:
        """Questions that got a usable answer in the end."""
        return self.at_once + self.after_reminder


def answers_of(tried: Sequence[Tried]) -> list[Answers]:
    """Sorts questions by operation.

    Args:
        tried: Questions.

    Returns:
        One entry for each operation among them, in the order of the prompts.
    """
    return [
        _answers(operation, found)
        for operation in OPERATIONS
        if (found := [each for each in tried if each.operation == operation])
    ]


def _answers(operation: str, tried: Sequence[Tried]) -> Answers:
    usable = [len(each.exchanges) for each in tried if each.outcome == VALID]
    return Answers(
        operation,
        asked=len(tried),
        at_once=usable.count(1),
        after_reminder=len(usable) - usable.count(1),
        failures=dict(Counter(each.outcome for each in tried if each.outcome != VALID)),
        example=next((each.detail for each in tried if each.detail), ""),
    )


@dataclass(frozen=True)
class Gate:
    """Whether the model keeps a gate that is left to it.

    Attributes:
        asked: Verdicts asked for below the threshold.
        answered: Those that got a usable answer.
        leaks: Those that said violate all the same.
    """

    asked: int
    answered: int
    leaks: int


def gate_of(trial: Trial) -> Gate:
    """Counts what the model said behind a closed gate.

    Args:
        trial: The trial.

    Returns:
        The counts.
    """
    said = [each.value.decision for each in trial.closed_gate if each.value is not None]
    return Gate(len(trial.closed_gate), len(said), said.count(Decision.VIOLATE))


@dataclass(frozen=True)
class Speed:
    """How fast an endpoint is; tokens are None where it does not count them.

    Attributes:
        latency_median: Seconds of a call, others being under way.
        latency_p95: Seconds that 95 % of the calls do not exceed.
        tokens_per_second_alone: Tokens received in one call alone.
        tokens_per_second: Tokens received in all calls that are under way together.
        calls_per_second: Calls answered, side by side.
        side_by_side: Calls under way at once at most.
    """

    latency_median: float | None
    latency_p95: float | None
    tokens_per_second_alone: float | None
    tokens_per_second: float | None
    calls_per_second: float
    side_by_side: int


def speed_of(trial: Trial, support: Support) -> Speed:
    """How fast the calls of a trial were.

    Args:
        trial: The trial.
        support: With the speed of a call alone.

    Returns:
        The speed.
    """
    latencies = sorted(each.latency for each in _calls(trial.tried))
    together = _calls(trial.tried[1:])
    tokens = [each.completion_tokens for each in together if each.completion_tokens is not None]
    return Speed(
        latency_median=statistics.median(latencies) if latencies else None,
        latency_p95=latencies[math.ceil(0.95 * len(latencies)) - 1] if latencies else None,
        tokens_per_second_alone=support.tokens_per_second,
        tokens_per_second=per_second(sum(tokens) if tokens else None, trial.seconds),
        calls_per_second=len(together) / trial.seconds,
        side_by_side=trial.side_by_side,
    )


def rates_of(trial: Trial) -> Rates:
    """What questions take, as the trial shows.

    Args:
        trial: The trial.

    Returns:
        The rates; where tokens are not counted, they are taken from the lengths of the texts.
    """
    counted = [each for each in _calls(trial.tried) if each.prompt_tokens is not None]
    characters = sum(_prompt_length(each) for each in counted)
    tokens = sum(each.prompt_tokens or 0 for each in counted)
    busy = sum(each.latency for each in _calls(trial.tried[1:]))
    return Rates(
        operations={
            operation: _rate([each for each in trial.questions if each.operation == operation])
            for operation in OPERATIONS
        },
        tokens_per_character=tokens / characters if counted else 1 / CHARACTERS_PER_TOKEN,
        side_by_side=busy / trial.seconds,
    )


def _rate(tried: Sequence[Tried]) -> Rate:
    calls = _calls(tried)
    return Rate(
        calls=sum(len(each.exchanges) for each in tried) / len(tried),
        completion_tokens=sum(_received(each) for each in calls) / len(tried),
        seconds=sum(each.latency for each in calls) / len(tried),
    )


def _received(exchange: Exchange) -> float:
    if exchange.completion_tokens is not None:
        return exchange.completion_tokens
    return len(exchange.text or "") / CHARACTERS_PER_TOKEN


def _prompt_length(exchange: Exchange) -> int:
    return len(exchange.request["messages"][0]["content"])


def _calls(tried: Sequence[Tried]) -> list[Exchange]:
    return [call for each in tried for call in each.exchanges if call.attempts]


@dataclass(frozen=True)
class Fitness:
    """Whether an endpoint can be used for a benchmark.

    Attributes:
        fit: Whether every operation got a usable answer at least once.
        words: The same with what speaks against it.
    """

    fit: bool
    words: str


def fitness(answers: Sequence[Answers], gate: Gate, support: Support) -> Fitness:
    """Judges an endpoint.

    Args:
        answers: Of all operations.
        gate: Whether the gate would leak.
        support: What the endpoint takes.

    Returns:
        The judgement.
    """
    if never := [each for each in answers if not each.usable]:
        told = (f"{each.operation} never got a usable answer ({each.example})" for each in never)
        return Fitness(fit=False, words="not fit: " + "; ".join(told))
    reserves = []
    if late := [each for each in answers if each.after_reminder]:
        told = (f"{each.operation} {each.after_reminder} of {each.asked}" for each in late)
        reserves.append("some answers come only after a reminder: " + ", ".join(told))
    if failed := [each for each in answers if each.failures]:
        told = (f"{each.operation} {each.asked - each.usable} of {each.asked}" for each in failed)
        reserves.append("some answers cannot be used: " + ", ".join(told))
    if gate.leaks:
        reserves.append(
            f"{gate.leaks} of {gate.answered} verdicts break the rules below the threshold, so the "
            "gate has to be kept by code"
        )
    if not support.temperature_0:
        reserves.append("temperature 0 is refused, so answers vary")
    if not support.usage:
        reserves.append("tokens are not counted, so they are guessed from the lengths of texts")
    return Fitness(fit=True, words=f"usable, but {'; '.join(reserves)}" if reserves else "usable")
