"""What the generative agent asks of a backbone: six operations, and embeddings for relevance.

Each takes one request, which holds all that the model may see, and returns an `Outcome`. They are
the agent's own (Park et al.), and none of them is a PAVE module.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pave_policy.outcome import Outcome
from pave_policy.reasoning import Desk
from voville_env.policy import PersonaCard

MAX_IMPORTANCE = 10


class EventKind(StrEnum):
    """What an observed event is about; a language model reads its words alone."""

    FIRE = "fire"
    CONVERSATION = "conversation"
    OTHERS_CROSS = "others cross on red"
    ORDER = "order"
    OFFICER = "officer"
    PEER = "peer"
    ROUTINE = "routine"


@dataclass(frozen=True)
class Event:
    """One thing that is noticed.

    Attributes:
        kind: What it is about.
        text: The event in words.
        key: Which event it is: noticed again under the same key, it is the same one.
        severity: Severity of its cue, 0 if it has none.
    """

    kind: EventKind
    text: str
    key: str
    severity: int = 0


@dataclass(frozen=True)
class PlanEntry:
    """A part of a day: what is done, from when on and for how long, in minutes of the day."""

    activity: str
    start: int
    minutes: int


class Response(StrEnum):
    """What a person can do about what they notice."""

    CONTINUE = "continue"
    """Go on with the plan."""
    WAIT = "wait"
    """Stand still for the time being."""
    FLEE = "flee"
    """Drop the plan and make for safety the quickest way."""
    FOLLOW = "follow"
    """Do as the people around do."""


@dataclass(frozen=True)
class Reaction:
    """Whether and how to react, with a reason."""

    response: Response
    reason: str


@dataclass(frozen=True)
class Insight:
    """What was concluded, and from which of the statements shown (counted from 0)."""

    text: str
    evidence: tuple[int, ...]


@dataclass(frozen=True)
class ImportanceRequest:
    """RateImportance: how much an event would matter to the person, 1 to 10."""

    persona: PersonaCard
    event: Event


@dataclass(frozen=True)
class DayPlanRequest:
    """PlanDay: the day in broad strokes.

    Attributes:
        persona: The person, whose schedule is fixed.
        day: From 1.
        minutes: Length of the day in minutes.
        memories: What is remembered of the days before.
    """

    persona: PersonaCard
    day: int
    minutes: int
    memories: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecompositionRequest:
    """DecomposePlan: one part of a plan in smaller parts, which fill it."""

    persona: PersonaCard
    entry: PlanEntry
    day_plan: tuple[PlanEntry, ...]


@dataclass(frozen=True)
class FocalRequest:
    """AskFocalPoints: the questions that the latest memories raise."""

    persona: PersonaCard
    statements: tuple[str, ...]


@dataclass(frozen=True)
class InsightRequest:
    """DrawInsights: what the statements, retrieved for a question, add up to."""

    persona: PersonaCard
    question: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class ReactionRequest:
    """React: what to do about what is noticed now.

    Attributes:
        persona: The person.
        doing: The step of the plan that is under way.
        events: What is noticed in this tick.
        importance: Importance of each of these events.
        memories: What retrieval found for them, most relevant first, in words.
        can_follow: Whether there are people around whose conduct can be followed.
        officer_in_sight: Whether an officer is in sight.
        late: Whether the person is running late.
    """

    persona: PersonaCard
    doing: str
    events: tuple[Event, ...]
    importance: tuple[int, ...]
    memories: tuple[str, ...] = ()
    can_follow: bool = False
    officer_in_sight: bool = False
    late: bool = False


class GenerativeBackbone(Desk, Protocol):
    """Answers the six operations of the generative agent."""

    async def rate_importance(self, request: ImportanceRequest) -> Outcome[int]:
        """Importance of an event, 1 to 10."""
        ...

    async def plan_day(self, request: DayPlanRequest) -> Outcome[tuple[PlanEntry, ...]]:
        """The day in broad strokes, in order and without gaps."""
        ...

    async def decompose_plan(self, request: DecompositionRequest) -> Outcome[tuple[PlanEntry, ...]]:
        """The parts of one entry, in order; they fill it."""
        ...

    async def ask_focal_points(self, request: FocalRequest) -> Outcome[tuple[str, ...]]:
        """Three questions."""
        ...

    async def draw_insights(self, request: InsightRequest) -> Outcome[tuple[Insight, ...]]:
        """Up to five insights, each with its evidence."""
        ...

    async def react(self, request: ReactionRequest) -> Outcome[Reaction]:
        """Whether to go on with the plan, and what to do instead."""
        ...

    async def embed(self, texts: tuple[str, ...]) -> NDArray[np.float32]:
        """One vector of length 1 for each text, shape (texts, dimensions)."""
        ...
