"""The generative agent's six operations as prompts to a language model, and vectors of texts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pave_policy.backbone import run_all
from pave_policy.generative.requests import (
    DayPlanRequest,
    DecompositionRequest,
    FocalRequest,
    ImportanceRequest,
    Insight,
    InsightRequest,
    PlanEntry,
    Reaction,
    ReactionRequest,
)
from pave_policy.llm.asking import Asking
from pave_policy.llm.caller import Question
from pave_policy.llm.generative_answers import PartAnswer
from pave_policy.llm.operations import EMBED
from pave_policy.llm.transport import EmbeddingRequest
from pave_policy.memory.embedding import embed as embed_here
from pave_policy.outcome import Outcome
from voville_env.errors import CallFailedError


class GenerativeOperations(Asking):
    """Answers the generative agent."""

    async def rate_importance(self, request: ImportanceRequest) -> Outcome[int]:
        """Asks how much an event matters.

        Args:
            request: The event and the person.

        Returns:
            1 to 10.
        """
        return await self._ask(request, lambda said: int(said.importance))

    async def plan_day(self, request: DayPlanRequest) -> Outcome[tuple[PlanEntry, ...]]:
        """Asks for the day in broad strokes.

        Args:
            request: The day and the person.

        Returns:
            Its entries, in order and without gaps, from its beginning to its end.
        """
        return await self._ask(request, lambda said: _entries(said.plan, 0))

    async def decompose_plan(self, request: DecompositionRequest) -> Outcome[tuple[PlanEntry, ...]]:
        """Asks for the parts of an entry.

        Args:
            request: The entry and its day.

        Returns:
            Its parts, in order and without gaps; they fill it.
        """
        return await self._ask(request, lambda said: _entries(said.parts, request.entry.start))

    async def ask_focal_points(self, request: FocalRequest) -> Outcome[tuple[str, ...]]:
        """Asks for the questions that memories raise.

        Args:
            request: The memories.

        Returns:
            Three questions.
        """
        return await self._ask(request, lambda said: tuple(said.questions))

    async def draw_insights(self, request: InsightRequest) -> Outcome[tuple[Insight, ...]]:
        """Asks what memories add up to.

        Args:
            request: The memories, and the question that they were retrieved for.

        Returns:
            Insights with the places of their evidence, which the prompt counts from 1.
        """
        return await self._ask(
            request,
            lambda said: tuple(
                Insight(each.insight, tuple(number - 1 for number in each.evidence))
                for each in said.insights
            ),
        )

    async def react(self, request: ReactionRequest) -> Outcome[Reaction]:
        """Asks whether to go on with the plan.

        Args:
            request: What is noticed, and what the person is doing.

        Returns:
            The reaction and a reason.
        """
        return await self._ask(request, lambda said: Reaction(said.reaction, said.reason))

    async def embed(self, texts: tuple[str, ...]) -> NDArray[np.float32]:
        """Vectors of texts: made here, or by the model that `embedding_model` names.

        A model is asked for each text by itself, so that a text has one vector whoever needs it
        next to which others.

        Args:
            texts: The texts.

        Returns:
            One vector of length 1 for each, shape (texts, dimensions).

        Raises:
            CallFailedError: If a text got no vector, or vectors differ in length: nothing could
                honestly stand in for one.
        """
        if not texts or not self.options.embedding_model:
            return embed_here(texts)
        wanted = list(dict.fromkeys(texts))
        works = [self._embed_one(text) for text in wanted]
        vectors = dict(zip(wanted, await run_all(works, side_by_side=True), strict=True))
        if len(sizes := {vector.size for vector in vectors.values()}) > 1:
            raise CallFailedError(
                f"{EMBED}: vectors of {self.options.embedding_model!r} have "
                f"{' and '.join(map(str, sorted(sizes)))} dimensions; allowed: one number of them"
            )
        return np.stack([vectors[text] for text in texts])

    async def _embed_one(self, text: str) -> NDArray[np.float32]:
        question = Question(EMBED, EmbeddingRequest(text), "0", self._site, _unit_vector)
        answer = await self._caller.ask(question)
        if answer.failure is not None:
            raise CallFailedError(f"{EMBED}: {answer.failure.value}: {answer.exchange.detail}")
        vector: NDArray[np.float32] = answer.value
        return vector


def _entries(parts: Iterable[PartAnswer], start: int) -> tuple[PlanEntry, ...]:
    """Entries that follow on each other, from the minutes at which they end."""
    found = []
    for part in parts:
        found.append(PlanEntry(part.activity, start, part.until - start))
        start = part.until
    return tuple(found)


def _unit_vector(text: str) -> NDArray[np.float32]:
    """A vector from the text that the store keeps of it."""
    values: list[float] = json.loads(text)
    vector = (np.array(values) / math.hypot(*values)).astype(np.float32)
    vector.flags.writeable = False
    return vector
