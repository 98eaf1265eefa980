"""A benchmark without a model: asked as one would be, answered by the surrogate in writing."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pave_policy.backbone import LegitimacyScore, Opinion, PeerScore, Score
from pave_policy.generative.requests import Insight, PlanEntry
from pave_policy.llm import wording
from pave_policy.llm.chat import Chat
from pave_policy.llm.generative_questions import asked_in
from pave_policy.llm.operations import GENERATIVE_OPERATIONS
from pave_policy.llm.reading import read_actions, read_answer
from pave_policy.llm.settings import ChatSettings
from pave_policy.memory.embedding import embed as embed_here
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

    def at(self, site: Site, asked: Counter[str]) -> Self:
        """The backbone for one place in a run.

        Args:
            site: Where.
            asked: How often the person asked each request in this episode.

        Returns:
            The same backbone; the surrogate answers for that place as well.
        """
        here = super().at(site, asked)
        here._surrogate = self._surrogate.at(site, asked)
        return here

    async def embed(self, texts: tuple[str, ...]) -> NDArray[np.float32]:
        """Vectors made here: what a model that embeds would take is not counted.

        Args:
            texts: The texts.

        Returns:
            One vector of length 1 for each.
        """
        return embed_here(texts)

    async def _ask(self, request: object, convert: Callable[[Any], T]) -> Outcome[T]:
        operation, prompt = self.prompt(request)
        digest = digest_of(prompt)
        answer = self._answers.get(digest)
        if answer is None:
            outcome = await getattr(self._surrogate, operation)(request)
            answer = self._answers[digest] = in_writing(operation, outcome.value)
        self._note_spoken(Spoken(self._site, operation, prompt, self._sample(prompt), answer))
        if self.templates[operation].answer == "actions":
            return Outcome(convert(read_actions(answer)))
        return Outcome(convert(read_answer(answer, operation, asked=asked_in(request))))


def digest_of(prompt: str) -> bytes:
    """Stands for a prompt.

    Args:
        prompt: The prompt.

    Returns:
        32 bytes.
    """
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
    if operation in GENERATIVE_OPERATIONS:
        return json.dumps(_generative_object(operation, value), ensure_ascii=False)
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


def _generative_object(operation: str, value: Any) -> dict[str, Any]:
    match operation:
        case "rate_importance":
            return {"importance": value}
        case "plan_day":
            return {"plan": [_part(entry) for entry in value]}
        case "decompose_plan":
            return {"parts": [_part(entry) for entry in value]}
        case "ask_focal_points":
            return {"questions": list(value)}
        case "draw_insights":
            return {"insights": [_insight(each) for each in value]}
        case _:
            return {"reaction": value.response.value, "reason": value.reason}


def _part(entry: PlanEntry) -> dict[str, Any]:
    return {"activity": entry.activity, "until": entry.start + entry.minutes}


def _insight(insight: Insight) -> dict[str, Any]:
    return {"insight": insight.text, "evidence": [place + 1 for place in insight.evidence]}
