"""One exchange with an OpenAI-compatible endpoint: attempts, limits, and what went wrong."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any

from pave_policy.llm.access import find_access
from pave_policy.llm.budget import Budget, OverBudgetError, Reservation
from pave_policy.llm.complaint import speaks_of_filter
from pave_policy.llm.completion import Completion, filtered, read_models
from pave_policy.llm.diagnosis import absent, failure_of, one_line, refused_key
from pave_policy.llm.dialect import Dialect
from pave_policy.llm.faults import Fault, Kind, fault_of_body, fault_of_status
from pave_policy.llm.line import Answer, Line
from pave_policy.llm.pace import Pace
from pave_policy.llm.reply import CallError, Reply
from pave_policy.llm.request import ChatRequest, EmbeddingRequest, Request
from pave_policy.llm.settings import ChatSettings
from pave_policy.outcome import Failure
from voville_env.errors import RunAbortedError, VovilleError

__all__ = ["CallError", "ChatRequest", "EmbeddingRequest", "Endpoint", "Reply", "Request"]


@dataclass
class _Progress:
    """What a call has come to so far."""

    attempts: int = 0
    latency: float = 0.0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    sent: dict[str, Any] = field(default_factory=dict)

    def count(self, result: Completion | Fault) -> None:
        """Adds the tokens of an attempt."""
        self.prompt_tokens = _sum(self.prompt_tokens, result.prompt_tokens)
        self.completion_tokens = _sum(self.completion_tokens, result.completion_tokens)


def _sum(so_far: int | None, more: int | None) -> int | None:
    return so_far if more is None else (so_far or 0) + more


class Endpoint:
    """An endpoint in use; it may be used from several event loops, one after another or together.

    The first request goes ahead alone, so that a wrong key or a parameter that is not taken costs
    one request. What makes the run pointless raises for good.

    Attributes:
        settings: The model and how it is asked.
        secrets: What must not be shown.
        budget: What is spent, and what may be.
        notes: What was found out about the endpoint, a line each.
    """

    def __init__(self, settings: ChatSettings, spent: tuple[int, int, float] = (0, 0, 0.0)) -> None:
        """Finds the key; nothing is sent yet.

        Args:
            settings: The model and how it is asked.
            spent: Calls, tokens and US dollars that count towards the limits already.

        Raises:
            InvalidValueError: If the key is missing or unusable.
        """
        self.settings = settings
        self._access = find_access(settings)
        self.secrets = self._access.secrets()
        self.budget = Budget(settings, spent)
        self.notes: list[str] = [self._access.note] if self._access.note else []
        self._dialect = Dialect(settings, self.notes)
        self._base = self._access.address.base
        self._lines: dict[asyncio.AbstractEventLoop, Line] = {}
        self._is_untried = True
        self._has_succeeded = False
        self._added_v1 = False
        self._aborted = ""
        self._pace = Pace()

    def __repr__(self) -> str:
        return f"Endpoint({self.settings.model!r} at {self._base!r})"

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return sum(line.in_flight for line in tuple(self._lines.values()))

    @property
    def waiting(self) -> int:
        """Calls that wait for their turn, or for the end of a pause."""
        return sum(line.calls - line.in_flight for line in tuple(self._lines.values()))

    def cost_of(self, prompt_tokens: int | None, completion_tokens: int | None) -> float:
        """Prices tokens.

        Args:
            prompt_tokens: Tokens sent, as far as known.
            completion_tokens: Tokens received, as far as known.

        Returns:
            US dollars; 0 without prices.
        """
        return self.budget.cost_of(prompt_tokens, completion_tokens)

    async def send(self, request: Request) -> Reply:
        """Asks the model, or the one that embeds.

        Args:
            request: What is asked.

        Returns:
            What came back.

        Raises:
            CallError: If this call failed for good.
            RunAbortedError: If no call can succeed, such as with a wrong key; later calls raise it
                too, without a request.
        """
        line = self._line()
        line.calls += 1
        try:
            if self._is_untried:
                async with line.first:
                    if self._is_untried:
                        try:
                            return await self._exchange(request, line)
                        finally:
                            self._is_untried = False
            return await self._exchange(request, line)
        finally:
            line.calls -= 1

    async def give_way(self) -> None:
        """Lets others go first: to be awaited between keeping a reply and acting on it."""
        await self._line().answers.wait()

    async def models(self) -> list[str]:
        """Asks which models there are, once and outside the budget.

        Returns:
            Their names.

        Raises:
            CallError: If the endpoint does not tell.
            RunAbortedError: If the key is refused or nobody is there.
        """
        listed = await self._list_models()
        if isinstance(listed, Fault) and listed.kind is Kind.ABSENT and self._turn_to_v1():
            listed = await self._list_models()
        if not isinstance(listed, Fault):
            return listed
        if listed.kind is Kind.KEY:
            raise RunAbortedError(refused_key(self._base, listed, self._access.origin))
        if listed.kind is Kind.UNREACHED and not self._has_succeeded:
            raise RunAbortedError(listed.cause)
        raise CallError(failure_of(listed), listed.cause, attempts=1, raw=listed.raw)

    async def aclose(self) -> None:
        """Closes the client of the running event loop; a later call would open another."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.close()

    def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            for ended in [other for other in tuple(self._lines) if other.is_closed()]:
                self._lines.pop(ended, None)
            self._lines[loop] = Line(self._access, self.settings.concurrency)
        return self._lines[loop]

    async def _exchange(self, request: Request, line: Line) -> Reply:
        """Makes attempts until one succeeds or no further one makes sense."""
        progress = _Progress()
        failed = 0
        while True:
            result = await self._attempt(request, line, progress)
            if isinstance(result, Completion):
                self._has_succeeded = True
                return self._reply(result, progress)
            if self._adapt(result, request, progress):
                continue
            if not result.kind.is_passing or failed >= self.settings.retries:
                raise await self._error(result, request, progress)
            await self._pace.back_off(result, failed)
            failed += 1

    async def _attempt(
        self, request: Request, line: Line, progress: _Progress
    ) -> Completion | Fault:
        async with line.slots:
            await line.starts.wait()
            await self._pace.hold()
            if self._aborted:
                raise RunAbortedError(self._aborted)
            budget = self.budget  # which may be replaced in the meantime
            reserved = self._reserve(request, progress)
            progress.sent = request.parameters(self._dialect)
            progress.attempts += 1
            await line.open()
            started = time.perf_counter()
            body = {**request.content(), **progress.sent}
            answer = await line.post(self._base, request.path, body, self.settings.timeout)
            progress.latency = time.perf_counter() - started
        result = self._clean(answer) if isinstance(answer, Fault) else self._read(answer, request)
        progress.count(result)
        if isinstance(result, Fault) and result.costs_nothing:
            budget.settle(reserved, 0, 0)
        else:
            budget.settle(reserved, result.prompt_tokens, result.completion_tokens)
        return result

    def _reserve(self, request: Request, progress: _Progress) -> Reservation:
        try:
            return self.budget.reserve(request.prompt, request.max_tokens)
        except OverBudgetError as error:
            raise self._call_error(Failure.OVER_BUDGET, str(error), progress) from error

    def _read(self, answer: Answer, request: Request) -> Completion | Fault:
        if answer.status == 400 and speaks_of_filter(answer.body):
            return filtered(answer.body)
        if 200 <= answer.status < 300:
            result = request.read(answer.body)
            return self._clean(result) if isinstance(result, Fault) else result
        return self._clean(fault_of_status(answer.status, answer.headers, answer.body))

    def _clean(self, fault: Fault) -> Fault:
        """Takes out secrets before anything is cut, lest a part of one remain."""
        cause = one_line(self.secrets.redact(fault.cause))
        return replace(fault, cause=cause, raw=self.secrets.redact(fault.raw))

    def _reply(self, completion: Completion, progress: _Progress) -> Reply:
        def clean(text: str | None) -> str | None:
            return None if text is None else self.secrets.redact(text)

        return Reply(
            text=clean(completion.text),
            finish=clean(completion.finish),
            refusal=clean(completion.refusal),
            reasoning=clean(completion.reasoning),
            prompt_tokens=progress.prompt_tokens,
            completion_tokens=progress.completion_tokens,
            raw=self.secrets.redact(completion.raw),
            latency=progress.latency,
            attempts=progress.attempts,
            sent=progress.sent,
        )

    def _adapt(self, fault: Fault, request: Request, progress: _Progress) -> bool:
        """Whether the request can be sent in another way: another parameter, another path."""
        if fault.kind is Kind.REJECTED and isinstance(request, ChatRequest):
            return self._dialect.adapt(progress.sent, fault.complaint)
        if fault.kind is Kind.ABSENT and not fault.complaint.is_about_model:
            return self._turn_to_v1()
        return False

    def _turn_to_v1(self) -> bool:
        if self._base.endswith("/v1") or self._has_succeeded:
            return False
        self._added_v1 = True
        self._base += "/v1"
        self.notes.append(f"nothing is found without /v1: {self._base} is used")
        return True

    async def _error(self, fault: Fault, request: Request, progress: _Progress) -> VovilleError:
        reason = await self._reason_to_abort(fault, request)
        if not reason:
            return self._call_error(failure_of(fault), fault.cause, progress, fault.raw)
        self._aborted = reason
        return RunAbortedError(reason)

    def _call_error(
        self, failure: Failure, detail: str, progress: _Progress, raw: str = ""
    ) -> CallError:
        spent = (progress.prompt_tokens, progress.completion_tokens)
        return CallError(failure, detail, progress.attempts, progress.latency, *spent, raw)

    async def _reason_to_abort(self, fault: Fault, request: Request) -> str:
        """Why no call can succeed; empty where others may."""
        if fault.kind is Kind.KEY:
            return refused_key(self._base, fault, self._access.origin)
        if fault.kind is Kind.ABSENT:
            listed = await self._list_models()
            offered = [] if isinstance(listed, Fault) else listed
            model = request.model(self.settings)
            place = f"{self._base}{request.path}"
            return absent(place, model, fault, offered, added_v1=self._added_v1)
        if fault.kind in (Kind.QUOTA, Kind.MOVED):
            return f"{self._base}: {fault.cause}"
        if fault.kind is Kind.UNREACHED and not self._has_succeeded:
            return fault.cause
        if fault.kind is Kind.REJECTED and not self._has_succeeded:
            return f"{self._base}: the first request failed: {fault.cause}"
        return ""

    async def _list_models(self) -> list[str] | Fault:
        answer = await self._line().models(self._base, self.settings.timeout)
        if isinstance(answer, Fault):
            return self._clean(answer)
        if not 200 <= answer.status < 300:
            return self._clean(fault_of_status(answer.status, answer.headers, answer.body))
        models = read_models(answer.body)
        if models is None:
            return self._clean(fault_of_body(answer.body, "the reply is no list of models"))
        return [self.secrets.redact(name) for name in models]
