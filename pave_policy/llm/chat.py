"""The chat backbone: the ten operations as prompts to an OpenAI-compatible endpoint."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pave_policy.backbone import (
    ActionRequest,
    BenefitRequest,
    EmpiricalRequest,
    LegitimacyRequest,
    LegitimacyScore,
    NormativeRequest,
    Opinion,
    OutcomeRequest,
    PeerScore,
    PerceptionRequest,
    RiskRequest,
    Score,
    ThresholdRequest,
    VerdictRequest,
)
from pave_policy.background import wait_for
from pave_policy.llm import wording
from pave_policy.llm.address import read_address
from pave_policy.llm.answers import ContextAnswer
from pave_policy.llm.caller import Answer, Caller, Question
from pave_policy.llm.exchange import VALID
from pave_policy.llm.ledger import ledger
from pave_policy.llm.prompts import OPERATIONS, Template, load_templates, render
from pave_policy.llm.questions import question_of
from pave_policy.llm.reading import read_actions, read_answer
from pave_policy.llm.settings import ChatSettings, chat_settings
from pave_policy.llm.store import CallStore
from pave_policy.llm.transport import ChatRequest
from pave_policy.outcome import Failure, Outcome
from pave_policy.records import OutcomeNote, TimedAction
from pave_policy.site import Site
from voville_env.core.codes import Behaviour, Decision
from voville_env.observation import Context, Peer

T = TypeVar("T")
FALLBACKS: Mapping[str, str] = {
    "elicit_threshold": "table",
    "perceive_context": "structure",
    "assess_risk": "comply",
    "assess_empirical": "comply",
    "assess_normative": "comply",
    "assess_benefit": "comply",
    "assess_legitimacy": "comply",
    "generate_verdict": "comply",
    "emulate_action": "plan",
    "propagate_outcome": "template",
}
"""What stands in where a model gave no usable answer (requirement C-70)."""
_ASKED_AGAIN = (Failure.MALFORMED, Failure.TRUNCATED)


class Chat:
    """Asks a language model. `at` gives the same backbone for one place in a run."""

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

    def at(self, site: Site, asked: Counter[str]) -> Chat:
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
            request: One of the request records of `pave_policy.backbone`.

        Returns:
            The operation's name, and the prompt; with `paper_inputs` it lacks what the paper's own
            slots lack.
        """
        operation, values = question_of(request)
        template = self.templates[operation]
        if self.options.paper_inputs:
            dropped = set(template.optional_inputs) - {"threshold"}  # no threshold means no gate
            values |= dict.fromkeys(dropped)
        return operation, render(template, values)

    async def _ask(self, request: object, convert: Callable[[Any], T]) -> Outcome[T]:
        """Asks once, and once more with a reminder where the answer is unusable."""
        operation, prompt = self.prompt(request)
        template = self.templates[operation]
        limit = template.max_tokens
        if self.options.paper_token_limits:
            limit = template.paper_max_tokens
        answer = await self._exchange(template, prompt, limit)
        answers = [answer]
        if answer.failure in _ASKED_AGAIN:
            if answer.failure is Failure.TRUNCATED and not self.options.paper_token_limits:
                limit *= 2
            answer = await self._exchange(template, f"{prompt}\n\n{template.reminder}", limit)
            answers.append(answer)
        self._note(operation, answers)
        if answer.failure is not None:
            return Outcome(failure=answer.failure, detail=answer.exchange.detail)
        return Outcome(convert(answer.value))

    async def _exchange(self, template: Template, prompt: str, limit: int) -> Answer:
        if template.answer == "actions":
            read: Callable[[str], Any] = read_actions
        else:
            read = partial(read_answer, operation=template.operation, examples=template.examples)
        request = ChatRequest(prompt, limit, json_answer=template.answer == "json")
        sample = self._sample(prompt)
        question = Question(template.operation, request, sample, self._site, read)
        return await self._caller.ask(question)

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

    async def elicit_threshold(self, request: ThresholdRequest) -> Outcome[Score]:
        """Asks for a person's legitimacy threshold (prompt C0).

        Args:
            request: The person.

        Returns:
            The threshold and a reason.
        """
        return await self._ask(request, lambda said: Score(said.threshold, said.reason))

    async def perceive_context(self, request: PerceptionRequest) -> Outcome[Context]:
        """Asks for the context record (prompt C1).

        Args:
            request: What reaches the person, and the person.

        Returns:
            The environment's structure with authority, people, cues and summary as the model put
            them; instruction, signal and ways stay the environment's.
        """
        return await self._ask(request, partial(_perceived, request.context))

    async def assess_risk(self, request: RiskRequest) -> Outcome[Score]:
        """Asks for the perceived risk (prompt C2).

        Args:
            request: The context and the person.

        Returns:
            The risk and a reason.
        """
        return await self._ask(request, lambda said: Score(said.risk, said.reason))

    async def assess_empirical(self, request: EmpiricalRequest) -> Outcome[PeerScore]:
        """Asks for the empirical expectation (prompt C3).

        Args:
            request: The people in view.

        Returns:
            The share that complies, and its counts.
        """
        return await self._ask(
            request, lambda said: PeerScore(said.p_emp, said.n_observed, said.n_complying)
        )

    async def assess_normative(self, request: NormativeRequest) -> Outcome[Score]:
        """Asks for the normative expectation (prompt C4).

        Args:
            request: The context and the person with their rules.

        Returns:
            The expectation and a reason.
        """
        return await self._ask(request, lambda said: Score(said.p_norm, said.reason))

    async def assess_benefit(self, request: BenefitRequest) -> Outcome[Score]:
        """Asks for the benefit (prompt C5).

        Args:
            request: The cues and the person.

        Returns:
            The benefit and a reason.
        """
        return await self._ask(request, lambda said: Score(said.benefit, said.reason))

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        """Asks for legitimacy (prompt C6).

        Args:
            request: The cues, the person and the ways there are.

        Returns:
            Legitimacy and a sentence on each criterion.
        """
        return await self._ask(
            request,
            lambda said: LegitimacyScore(
                said.legitimacy, said.necessity, said.proportionality, said.alternatives
            ),
        )

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        """Asks for the verdict (prompt C7).

        Args:
            request: The assessment and what bears on the decision.

        Returns:
            What the model says, before the gate is enforced.
        """
        return await self._ask(
            request,
            lambda said: Opinion(Decision(said.decision), said.justification, said.confidence),
        )

    async def emulate_action(self, request: ActionRequest) -> Outcome[tuple[TimedAction, ...]]:
        """Asks for the action list (prompt C8).

        Args:
            request: The verdict and its situation.

        Returns:
            The entries.
        """
        return await self._ask(request, lambda said: said)

    async def propagate_outcome(self, request: OutcomeRequest) -> Outcome[OutcomeNote]:
        """Asks for the observer's sentence (prompt C9).

        Args:
            request: The act and what came of it.

        Returns:
            The note.
        """
        return await self._ask(
            request,
            lambda said: OutcomeNote(
                observed_behavior=said.observed_behavior,
                observed_outcome=said.observed_outcome,
                rule_followed=said.rule_followed,
            ),
        )


def _perceived(base: Context, said: ContextAnswer) -> Context:
    """The environment's context with what the model perceived put in its place."""
    cues = tuple(
        wording.SeenCue(
            type=wording.cue_type(cue.type),
            distance_tiles=cue.distance_tiles,
            severity=cue.severity,
            text=cue.type,
        )
        for cue in said.situational_cues
    )
    peers = tuple(
        Peer(dx=0, dy=0, behaviour=Behaviour.NONE, rule=None, followed=None, age=0, text=text)
        for text in said.peer_behaviors
    )
    return base.model_copy(
        update={
            "authority_present": said.authority_present,
            "authority_distance_tiles": said.authority_distance_tiles,
            "peer_behaviors": peers,
            "situational_cues": cues,
            "scene_summary": said.scene_summary,
        }
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def make_chat(*, offline: bool = False, **options: Any) -> Chat:
    """A chat backbone from plain options: what the command line asks for.

    Args:
        offline: Whether only stored exchanges may be used, as when a run is replayed.
        **options: Fields of `ChatSettings`, and `preset`.

    Returns:
        The backbone.

    Raises:
        InvalidValueError: If an option is unknown or not allowed.
    """
    return Chat(chat_settings(**options), offline=offline)
