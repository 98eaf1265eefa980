"""A backbone whose answers a test writes, and short runs of the generative agent on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import copy
from typing import Any, Self, TypeVar

import voville_env
from pave_policy.generative.policy import VanillaPolicy
from pave_policy.generative.requests import (
    DayPlanRequest,
    DecompositionRequest,
    EventKind,
    FocalRequest,
    ImportanceRequest,
    Insight,
    InsightRequest,
    PlanEntry,
    Reaction,
    ReactionRequest,
    Response,
)
from pave_policy.generative.surrogate import GenerativeSurrogate
from pave_policy.outcome import Failure, Outcome
from pave_policy.site import Site
from voville_env.observation import Observation
from voville_env.policy import PersonaCard

T = TypeVar("T")
ATTENDEES = ("CC", "EY", "OH", "NR", "KQ", "MF", "AY", "AM")
Asked = tuple[str, str, int, Any]
"""Operation, agent, tick and request."""


def always(response: Response) -> Callable[[ReactionRequest], Reaction]:
    """A reaction to fires alone."""

    def react(request: ReactionRequest) -> Reaction:
        fire = any(event.kind is EventKind.FIRE for event in request.events)
        return Reaction(response if fire else Response.CONTINUE, "as written")

    return react


class Written(GenerativeSurrogate):
    """Answers as a test wrote it, else in closed form; notes every question and its place."""

    name = "written"
    concurrent = False

    def __init__(
        self,
        react: Callable[[ReactionRequest], Reaction] | None = None,
        *,
        failures: dict[str, Failure] | None = None,
        values: dict[str, Any] | None = None,
    ) -> None:
        self.asked: list[Asked] = []
        self._react = react
        self._failures = failures or {}
        self._values = values or {}
        self._notes: list[dict[str, Any]] = []

    def settings(self) -> dict[str, Any]:
        return {"name": self.name}

    def at(self, site: Site, asked: Counter[str]) -> Self:
        here = copy(self)
        here.site, here._notes = site, []
        return here

    def take_records(self) -> list[dict[str, Any]]:
        notes, self._notes = self._notes, []
        return notes

    def _answer(self, operation: str, request: object) -> Outcome[Any] | None:
        site = self.site
        self.asked.append((operation, site.agent, site.tick, request))
        where = {"agent": site.agent, "day": site.day, "tick": site.tick}
        self._notes.append({"type": "llm_call", **where, "operation": operation})
        if operation in self._failures:
            return Outcome(failure=self._failures[operation], detail="as written")
        return Outcome(self._values[operation]) if operation in self._values else None

    async def rate_importance(self, request: ImportanceRequest) -> Outcome[int]:
        written = self._answer("rate_importance", request)
        return written or await super().rate_importance(request)

    async def plan_day(self, request: DayPlanRequest) -> Outcome[tuple[PlanEntry, ...]]:
        written = self._answer("plan_day", request)
        return written or await super().plan_day(request)

    async def decompose_plan(self, request: DecompositionRequest) -> Outcome[tuple[PlanEntry, ...]]:
        written = self._answer("decompose_plan", request)
        return written or await super().decompose_plan(request)

    async def ask_focal_points(self, request: FocalRequest) -> Outcome[tuple[str, ...]]:
        written = self._answer("ask_focal_points", request)
        return written or await super().ask_focal_points(request)

    async def draw_insights(self, request: InsightRequest) -> Outcome[tuple[Insight, ...]]:
        written = self._answer("draw_insights", request)
        return written or await super().draw_insights(request)

    async def react(self, request: ReactionRequest) -> Outcome[Reaction]:
        written = self._answer("react", request)
        if written is None and self._react is not None:
            written = Outcome(self._react(request))
        return written or await super().react(request)

    def requests(self, operation: str) -> list[Any]:
        """The requests of one operation, in order."""
        return [request for asked, _, _, request in self.asked if asked == operation]


def card(schedule: tuple[str, ...] = ()) -> PersonaCard:
    return PersonaCard("CC", "Carlos", "scientist", "calm", "see friends", "x", 60, (), schedule)


def observations(scenario: str = "fire_escape", seed: int = 1) -> dict[str, Observation]:
    """First observations, as copies that a test may change."""
    first, _ = voville_env.parallel_env(scenario).reset(seed=seed)
    return {
        agent: {name: array.copy() for name, array in item.items()} for agent, item in first.items()
    }


class Played:
    """What happened in a run: actions a step, records, positions and the policy afterwards."""

    def __init__(
        self, policy: VanillaPolicy, scenario: str, window: list[int], seed: int = 1
    ) -> None:
        env = voville_env.parallel_env(scenario)
        seen, infos = env.reset(seed=seed, options={"window": window})
        policy.reset(env.briefing())
        self.policy = policy
        self.records: list[dict[str, Any]] = []
        self.seen: list[dict[str, Observation]] = []
        self.actions: list[dict[str, int]] = []
        self.broken: Counter[int] = Counter()
        while env.agents:
            self.seen.append(
                {name: {k: v.copy() for k, v in item.items()} for name, item in seen.items()}
            )
            actions = policy.act(seen, infos)
            self.actions.append(actions)
            seen, _, _, _, infos = env.step(actions)
            self.records += policy.records()
            for _, _, code, _, _, b, c, *_ in env.drain_events().tolist():
                if code == voville_env.core.codes.EventCode.OUTCOME:
                    self.broken.update(rule for rule in range(7) if (b & ~c) >> rule & 1)
        self.last = seen

    def of(self, type_: str, kind: str | None = None) -> list[dict[str, Any]]:
        return [r for r in self.records if r["type"] == type_ and r.get("kind") == kind]
