"""Tries out an endpoint: what it takes, and what it answers to each operation."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pave_policy.backbone import run_all
from pave_policy.llm.chat import Chat
from pave_policy.llm.operations import OPERATIONS
from pave_policy.llm.sample_requests import closed_gate_request, sample_requests
from pave_policy.llm.settings import ChatSettings
from pave_policy.llm.store import VALID, Exchange
from pave_policy.llm.transport import CallError, ChatRequest, Endpoint, Reply
from pave_policy.site import Site
from voville_env.errors import InvalidValueError, RunAbortedError, VovilleError

MOST_SAMPLES = 100
Progress = Callable[[], None]
_VERDICT = OPERATIONS.index("generate_verdict")
QUESTIONS_PER_SAMPLE = len(OPERATIONS) + 1
"""Questions: one an operation, and one more verdict, behind a closed gate."""


@dataclass(frozen=True)
class Listing:
    """The models that an endpoint lists.

    Attributes:
        models: Their names.
        problem: Why there are none, if it does not tell.
    """

    models: tuple[str, ...]
    problem: VovilleError | None = None


async def list_models(settings: ChatSettings) -> Listing:
    """Asks which models there are.

    Args:
        settings: Of the endpoint; the model in them does not matter.

    Returns:
        The models. A problem is part of the answer, since an endpoint need not list any.
    """
    endpoint = Endpoint(settings)
    try:
        return Listing(tuple(await endpoint.models()))
    except (CallError, RunAbortedError) as error:
        return Listing((), error)
    finally:
        await endpoint.aclose()


@dataclass(frozen=True)
class Support:
    """What an endpoint takes and tells.

    Attributes:
        token_limit: The parameter that limits the length of a reply.
        temperature_0: Whether temperature 0 is taken.
        json_mode: Whether JSON mode is taken.
        usage: Whether tokens are counted.
        reasoning: Whether the model thinks aloud apart from its reply.
        tokens_per_second: Tokens received in one call alone; None where they are not counted.
        notes: What was found out besides, a line each.
    """

    token_limit: str
    temperature_0: bool
    json_mode: bool
    usage: bool
    reasoning: bool
    tokens_per_second: float | None
    notes: tuple[str, ...]


async def find_support(chat: Chat, number: int) -> Support:
    """Tries each thing in which endpoints differ, once.

    Args:
        chat: The backbone; what is tried counts towards its budget.
        number: Which of the sample requests is used, and the one after it.

    Returns:
        What was found.

    Raises:
        RunAbortedError: If there is no reply at all.
    """
    endpoint = Endpoint(chat.options.model_copy(update={"temperature": 0.0, "json_mode": True}))
    if chat.caller.endpoint is not None:
        endpoint.budget = chat.caller.endpoint.budget
    replies, failed = [], []
    try:
        replies.append(await _send(endpoint, chat, number, json_answer=False))
        replies.append(await _send(endpoint, chat, number + 1, json_answer=True))
    except CallError as error:
        if not replies:
            raise RunAbortedError(f"no reply to the first request: {error}") from error
        failed.append(f"JSON mode fails here: {error}")
    finally:
        await endpoint.aclose()
    last = replies[-1]
    return Support(
        token_limit=next(name for name in last.sent if name.startswith("max_")),
        temperature_0="temperature" in last.sent,
        json_mode="response_format" in last.sent,
        usage=all(reply.completion_tokens is not None for reply in replies),
        reasoning=any(reply.reasoning for reply in replies),
        tokens_per_second=per_second(last.completion_tokens, last.latency),
        notes=(*endpoint.notes, *failed),
    )


async def _send(endpoint: Endpoint, chat: Chat, number: int, *, json_answer: bool) -> Reply:
    operation, prompt = chat.prompt(sample_requests(number)[_VERDICT])
    limit = chat.templates[operation].max_tokens
    return await endpoint.send(ChatRequest(prompt, limit, json_answer))


def per_second(tokens: int | None, seconds: float) -> float | None:
    """The speed of an endpoint.

    Args:
        tokens: Tokens received; None where they are not counted.
        seconds: How long that took.

    Returns:
        Tokens in a second; None where it cannot be told.
    """
    return None if tokens is None or seconds <= 0 else tokens / seconds


@dataclass(frozen=True)
class Tried:
    """A question that was put to the model as in a run.

    Attributes:
        operation: Which operation.
        outcome: What became of it in the end: `valid`, or the name of a failure.
        exchanges: The calls that it took, a second one where a reminder was needed.
        value: What the operation returned; None without a usable answer.
    """

    operation: str
    outcome: str
    exchanges: tuple[Exchange, ...]
    value: Any = field(repr=False)

    @property
    def detail(self) -> str:
        """What was wrong with the first answer that could not be used; empty if all could."""
        unusable = (each for each in self.exchanges if each.outcome != VALID)
        return next((f"{each.outcome}: {each.detail}" for each in unusable), "")


@dataclass(frozen=True)
class Trial:
    """Everything that was asked of the model.

    Attributes:
        questions: All operations, each as often as any other.
        closed_gate: Verdicts in which nothing but the gate speaks for keeping the rules.
        side_by_side: Calls under way at once at most, of all questions but the first.
        seconds: How long those took.
    """

    questions: tuple[Tried, ...]
    closed_gate: tuple[Tried, ...]
    side_by_side: int
    seconds: float

    @property
    def tried(self) -> tuple[Tried, ...]:
        """All questions in the order in which they were put."""
        return (*self.questions, *self.closed_gate)


def samples_for(samples: int, concurrency: int) -> int:
    """How often each operation is asked.

    Args:
        samples: How often it is to be, at least.
        concurrency: Calls that are to be under way at once; the first goes ahead alone.

    Returns:
        The number.

    Raises:
        InvalidValueError: If `samples` is not allowed.
    """
    if not 1 <= samples <= MOST_SAMPLES:
        raise InvalidValueError(f"samples is {samples!r}; allowed: 1 to {MOST_SAMPLES}")
    return max(samples, math.ceil((concurrency + 1) / QUESTIONS_PER_SAMPLE))


async def try_out(chat: Chat, samples: int, progress: Progress = lambda: None) -> Trial:
    """Asks each operation several times, side by side, the way a run asks.

    Args:
        chat: The backbone.
        samples: How often.
        progress: Called after each question.

    Returns:
        What came of it.

    Raises:
        RunAbortedError: If the endpoint cannot be used.
    """
    requests = [request for number in range(samples) for request in sample_requests(number)]
    closed = [closed_gate_request(number) for number in range(samples)]
    first = await _ask(chat, requests[0], progress)
    works = [_ask(chat, request, progress) for request in (*requests[1:], *closed)]
    concurrency = min(chat.concurrency, len(works))
    started = time.perf_counter()
    others = await run_all(works, side_by_side=True)
    seconds = time.perf_counter() - started
    tried = (first, *others)
    return Trial(tried[: len(requests)], tried[len(requests) :], concurrency, seconds)


async def _ask(chat: Chat, request: object, progress: Progress) -> Tried:
    desk = chat.at(Site(), Counter())
    operation, _ = desk.prompt(request)
    outcome = await getattr(desk, operation)(request)
    ((call,),) = (record["calls"] for record in desk.take_records())
    progress()
    exchanges = tuple(desk.caller.store.exchanges(call["keys"]))
    return Tried(operation, call["outcome"], exchanges, outcome.value)
