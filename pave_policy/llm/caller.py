"""One answer to one prompt: from the store if it was ever paid for, else from the endpoint, once.

Every exchange ends in the store, whatever came of it, before anybody acts on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pave_policy.llm.budget import Budget
from pave_policy.llm.exchange import ANSWERED, VALID
from pave_policy.llm.reading import UnreadableError
from pave_policy.llm.settings import ChatSettings
from pave_policy.llm.store import CallStore, Exchange, request_key
from pave_policy.llm.transport import CallError, Endpoint, Request
from pave_policy.outcome import Failure
from pave_policy.site import Site

_POLL = 0.2
"""Seconds between looks at a call that another process has under way."""
_REMEMBERED = 8192
"""Answers kept in memory: the same question mostly comes again a tick later."""
Reader = Callable[[str], Any]
"""Reads a value out of a reply's text, or raises `UnreadableError`."""


@dataclass(frozen=True)
class Question:
    """What is asked of a model.

    Attributes:
        operation: Which operation it belongs to.
        request: What is sent: a prompt and how long the answer may be, or a text to embed.
        sample: Which of several independent answers to the same request is wanted.
        site: Where in the run it is asked.
        read: How a value is read out of the reply.
    """

    operation: str
    request: Request
    sample: str
    site: Site
    read: Reader


@dataclass(frozen=True)
class Answer:
    """What came of a question.

    Attributes:
        exchange: The exchange as it stands in the store.
        value: What was read out of the reply; None unless the outcome is valid.
    """

    exchange: Exchange
    value: Any = None

    @property
    def failure(self) -> Failure | None:
        """Why there is no value; None where there is one."""
        return None if self.exchange.outcome == VALID else Failure(self.exchange.outcome)


def judge(exchange: Exchange, read: Reader) -> Answer:
    """Says what a reply amounts to; the same whether it just came or was stored.

    Args:
        exchange: An exchange whose reply is known.
        read: How a value is read out of it.

    Returns:
        The answer, its exchange with outcome and detail filled in.
    """
    value: Any = None
    if exchange.refusal:
        outcome, detail = Failure.REFUSED.value, exchange.refusal
    elif exchange.finish == "content_filter":
        outcome, detail = Failure.FILTERED.value, "a content filter withheld the reply"
    elif exchange.finish == "length":
        outcome, detail = Failure.TRUNCATED.value, "cut off at the token limit"
    elif exchange.text is None:
        thought = ", only reasoning" if exchange.reasoning else ""
        outcome, detail = Failure.MALFORMED.value, f"no content{thought}"
    else:
        try:
            value, outcome, detail = read(exchange.text), VALID, ""
        except UnreadableError as error:
            outcome, detail = Failure.MALFORMED.value, str(error)
    return Answer(replace(exchange, outcome=outcome, detail=" ".join(detail.split())[:200]), value)


class Caller:
    """Answers questions from the store and the endpoint, one flight at a time for each request."""

    def __init__(
        self, settings: ChatSettings, store: CallStore | None = None, *, offline: bool = False
    ) -> None:
        """Takes its parts.

        Args:
            settings: The model and how it is asked.
            store: Where exchanges are kept; in memory unless given.
            offline: Whether only stored exchanges may be used, as when a run is replayed.
        """
        self.settings = settings
        self.offline = offline
        self.store = store or CallStore(":memory:", run="")
        self.endpoint = None if offline else Endpoint(settings)
        self._flights: dict[tuple[int, str, str], asyncio.Future[Exchange]] = {}
        self._answers: dict[tuple[Request, str], Answer] = {}

    def use_store(self, store: CallStore) -> None:
        """Keeps exchanges in another store from now on; what its run has spent counts.

        Args:
            store: The store.
        """
        self.store.close()
        self.store = store
        self._answers.clear()
        if self.endpoint is not None:
            spent = store.spent()
            tokens = spent.prompt_tokens + spent.completion_tokens
            self.endpoint.budget = Budget(self.settings, (spent.calls, tokens, spent.cost))

    async def ask(self, question: Question) -> Answer:
        """Gets one answer.

        Args:
            question: What is asked.

        Returns:
            The answer; what happened to a call that failed is in its outcome.

        Raises:
            RunAbortedError: If the endpoint cannot be used at all.
        """
        asked = question.request, question.sample
        if (answer := self._answers.get(asked)) is not None:
            return answer
        answer = await self._look_up_or_call(question)
        if answer.exchange.outcome in ANSWERED:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[asked] = answer
        return answer

    async def _look_up_or_call(self, question: Question) -> Answer:
        logical = question.request.logical(self.settings)
        key = request_key(logical)
        known = (self.store.find_any if self.offline else self.store.find)(key, question.sample)
        if known is not None:
            return judge(known, question.read)
        blank = Exchange(
            key, question.sample, question.operation, question.site, logical, Failure.UNAVAILABLE
        )
        if self.offline:
            return Answer(replace(blank, detail="not among the stored calls of this run"))
        return await self._share(blank, question)

    async def _share(self, blank: Exchange, question: Question) -> Answer:
        """Makes the call, or waits for the one under way in this process."""
        flight = (id(asyncio.get_running_loop()), blank.key, blank.sample)
        if flight in self._flights:
            exchange = await asyncio.shield(self._flights[flight])
            known = Failure(exchange.outcome) if exchange.outcome != VALID else None
            if known is not None and known.is_infrastructure:
                return Answer(exchange)
            return judge(exchange, question.read)
        future: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        self._flights[flight] = future
        try:
            answer = await self._claim_and_call(blank, question)
            future.set_result(answer.exchange)
            return answer
        except Exception as error:
            future.set_exception(error)
            future.exception()  # seen, even where nobody waits for it
            raise
        finally:
            del self._flights[flight]
            future.cancel()

    async def _claim_and_call(self, blank: Exchange, question: Question) -> Answer:
        assert self.endpoint is not None
        while not self.store.claim(blank.key, blank.sample):
            if (known := self.store.find(blank.key, blank.sample)) is not None:
                return judge(known, question.read)
            await asyncio.sleep(_POLL)
        try:
            answer = await self._call(self.endpoint, blank, question)
        except BaseException:
            self.store.release(blank.key, blank.sample)
            raise
        self.store.record(answer.exchange)
        await self.endpoint.give_way()
        return answer

    async def _call(self, endpoint: Endpoint, blank: Exchange, question: Question) -> Answer:
        try:
            reply = await endpoint.send(question.request)
        except CallError as error:
            return Answer(
                replace(
                    blank,
                    outcome=error.failure.value,
                    detail=error.detail,
                    raw=error.raw,
                    prompt_tokens=error.prompt_tokens,
                    completion_tokens=error.completion_tokens,
                    cost=endpoint.cost_of(error.prompt_tokens, error.completion_tokens),
                    attempts=error.attempts,
                    latency=error.latency,
                )
            )
        exchange = replace(
            blank,
            text=reply.text,
            finish=reply.finish,
            refusal=reply.refusal,
            reasoning=reply.reasoning,
            raw=reply.raw,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cost=endpoint.cost_of(reply.prompt_tokens, reply.completion_tokens),
            latency=reply.latency,
            attempts=reply.attempts,
        )
        return judge(exchange, question.read)

    async def aclose(self) -> None:
        """Closes the connections of the running event loop, and the store."""
        if self.endpoint is not None:
            await self.endpoint.aclose()
        self.store.close()
