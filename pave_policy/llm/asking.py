"""How a language model is asked, whatever the operation: once, and once more with a reminder."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from pave_policy.background import wait_for
from pave_policy.llm.address import read_address
from pave_policy.llm.caller import Answer, Caller, Question, Reader
from pave_policy.llm.exchange import VALID
from pave_policy.llm.generative_questions import asked_in
from pave_policy.llm.kinds import Asked
from pave_policy.llm.ledger import ledger
from pave_policy.llm.operations import FALLBACKS, OPERATIONS, PAVE_OPERATIONS
from pave_policy.llm.prompts import Template, load_templates, render
from pave_policy.llm.questions import question_of
from pave_policy.llm.reading import read_actions, read_answer
from pave_policy.llm.settings import ChatSettings
from pave_policy.llm.store import CallStore
from pave_policy.llm.transport import ChatRequest
from pave_policy.outcome import Failure, Outcome
from pave_policy.site import Site

T = TypeVar("T")
_ASKED_AGAIN = (Failure.MALFORMED, Failure.TRUNCATED)
_SWITCHES = {"threshold", "p_emp_share", "freedom"}
"""Values whose absence means something: no gate, and the share of those who comply."""


class Asking:
    """What all operations have in common: how a model is asked, and what is kept of it."""

    concurrent = True

    def __init__(
        self, settings: ChatSettings, store: CallStore | None = None, *, offline: bool = False
    ) -> None:
        """Takes its parts.

        Args:
            settings: The model and how it is asked.
            store: Where exchanges are kept; in memory unless given.
            offline: Whether only stored exchanges may be used.
        """
        self.name = settings.model
        self.options = settings
        self.templates = load_templates(settings.variant)
        self._caller = Caller(settings, store, offline=offline)
        self._site = Site()
        self._asked: Counter[str] = Counter()
        self._calls: list[dict[str, Any]] = []

    def settings(self) -> dict[str, Any]:
        """What identifies the backbone: the model, what decides its answers, and the prompts.

        Returns:
            JSON-ready values, the same wherever the endpoint is reached.
        """
        prompts = {name: template.digest for name, template in self.templates.items()}
        return {"name": self.name, **self.options.identity(), "prompts": prompts}

    def connection(self) -> dict[str, Any]:
        """How the endpoint is reached and asked, for going on with a run; no secret is in it.

        Returns:
            JSON-ready options of `make_chat`.
        """
        shown = self.options.model_dump(mode="json", exclude={"headers", "preset"})
        return {**shown, "base_url": read_address(self.options.base_url).base}

    def usage(self) -> dict[str, Any]:
        """What the run's calls came to and cost so far, failed ones included.

        Returns:
            JSON-ready: `model`, `operations`, their `total`, whether a price is known, and what had
            to be adapted to the endpoint.
        """
        endpoint = self._caller.endpoint
        return {
            "model": self.name,
            "priced": self.options.price_in is not None,
            "notes": [] if endpoint is None else list(endpoint.notes),
            **ledger(self._caller.store),
        }

    @property
    def concurrency(self) -> int:
        """How many calls may be under way at once."""
        return self.options.concurrency

    @property
    def caller(self) -> Caller:
        """Store and endpoint."""
        return self._caller

    def open_store(self, path: Path, run: str) -> None:
        """Keeps exchanges in a file from now on.

        Args:
            path: The file; made if it is missing.
            run: Which run asks: its own answers are reused whatever they are, those of others
                only where they are valid.
        """
        self._caller.use_store(CallStore(path, run))

    def at(self, site: Site, asked: Counter[str]) -> Self:
        """The backbone for one place in a run.

        Args:
            site: Where.
            asked: How often the person asked each request in this episode.

        Returns:
            The same backbone with records of its own.
        """
        here = copy.copy(self)
        here._site, here._asked, here._calls = site, asked, []
        return here

    def take_records(self) -> list[dict[str, Any]]:
        """The log record of what was asked here.

        Returns:
            One record of type `llm_call` with its calls in the order of the operations, whichever
            came back first; none where nothing was asked.
        """
        calls, self._calls = self._calls, []
        if not calls:
            return []
        calls.sort(key=lambda call: OPERATIONS.index(call["operation"]))
        site = {"agent": self._site.agent, "day": self._site.day, "tick": self._site.tick}
        return [{"type": "llm_call", **site, "rule_set": self._site.rule_set, "calls": calls}]

    async def aclose(self) -> None:
        """Closes store and connections; those of `PavePolicy.act` are closed by `close`."""
        await self._caller.aclose()

    def close(self) -> None:
        """Closes store and connections where the policy was called by `act`, without a loop."""
        wait_for(self.aclose())

    def prompt(self, request: object) -> tuple[str, str]:
        """The exact text that a model gets.

        Args:
            request: A request record of `pave_policy.backbone` or of
                `pave_policy.generative.requests`.

        Returns:
            The operation's name, and the prompt; with `paper_inputs` one of PAVE's lacks what the
            paper's own slots lack.
        """
        operation, values = question_of(request)
        template = self.templates[operation]
        if self.options.paper_inputs and operation in PAVE_OPERATIONS:
            values |= dict.fromkeys(set(template.optional_inputs) - _SWITCHES)
        return operation, render(template, values)

    async def _ask(self, request: object, convert: Callable[[Any], T]) -> Outcome[T]:
        """Asks once, and once more with a reminder where the answer is unusable."""
        operation, prompt = self.prompt(request)
        template = self.templates[operation]
        is_json = template.answer == "json"
        limit = template.max_tokens
        if self.options.paper_token_limits:
            limit = template.paper_max_tokens
        read = _reader(template, asked_in(request))
        answer = await self._exchange(template, ChatRequest(prompt, limit, is_json), read)
        answers = [answer]
        if answer.failure in _ASKED_AGAIN:
            if answer.failure is Failure.TRUNCATED and not self.options.paper_token_limits:
                limit *= 2
            reminded = ChatRequest(f"{prompt}\n\n{template.reminder}", limit, is_json)
            answer = await self._exchange(template, reminded, read)
            answers.append(answer)
        self._note(operation, answers)
        if answer.failure is not None:
            return Outcome(failure=answer.failure, detail=answer.exchange.detail)
        return Outcome(convert(answer.value))

    async def _exchange(self, template: Template, request: ChatRequest, read: Reader) -> Answer:
        sample = self._sample(request.prompt)
        return await self._caller.ask(
            Question(template.operation, request, sample, self._site, read)
        )

    def _sample(self, prompt: str) -> str:
        """Which sample of a request is wanted: at temperature 0 there is but one."""
        if self.options.temperature == 0:
            return "0"
        self._asked[prompt] += 1
        return f"{self._site.seed}:{self._site.agent}:{self._asked[prompt]}"

    def _note(self, operation: str, answers: list[Answer]) -> None:
        last = answers[-1].exchange
        call: dict[str, Any] = {
            "operation": operation,
            "outcome": last.outcome,
            "keys": [answer.exchange.key for answer in answers],
            "prompt_tokens": _total(answer.exchange.prompt_tokens for answer in answers),
            "completion_tokens": _total(answer.exchange.completion_tokens for answer in answers),
        }
        if last.outcome != VALID:
            call |= {"detail": last.detail, "fallback": FALLBACKS[operation]}
        self._calls.append(call)


def _reader(template: Template, asked: Asked) -> Reader:
    """Reads an answer to an operation; all that it goes by stands in the prompt."""
    if template.answer == "actions":
        return read_actions
    return partial(
        read_answer, operation=template.operation, examples=template.examples, asked=asked
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
