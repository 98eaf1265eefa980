"""The PAVE policy: perceive, assess, decide and act, once per person and tick.

Everything between two verdicts runs on the arrays; the typed context is made only for a verdict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pave_policy.assessment import Case, assess
from pave_policy.backbone import (
    Backbone,
    Opinion,
    OutcomeRequest,
    ThresholdRequest,
    run_all,
)
from pave_policy.emulation import emulate, propagate
from pave_policy.executor import steer
from pave_policy.glance import Glance
from pave_policy.journal import Record, Task, record
from pave_policy.memory import Memory, warm_up
from pave_policy.mind import Acted, Mind, Question, situation_of
from pave_policy.outcome import Failure
from pave_policy.perception import Heard, perceive
from pave_policy.reasoning import ReasoningPolicy, Work
from pave_policy.records import Assessment, RuleSet, Verdict
from pave_policy.settings import PaveSettings, Perception
from pave_policy.verdict import comply_without_model, enforce, gate_is_open, give_verdict
from pave_policy.walking import walkers_of
from voville_env.errors import LifecycleError
from voville_env.observation import Context
from voville_env.policy import Actions, Briefing, Observations

Told = tuple[int, int, str]
"""Day, tick and words of an act as others saw it."""
_TOLD_TICKS = 3


class PavePolicy(ReasoningPolicy):
    """Perception, Assessment, Verdict and Emulation on a backbone."""

    def __init__(
        self,
        options: PaveSettings | None = None,
        backbone: Backbone | None = None,
        name: str = "pave",
    ) -> None:
        """Takes its parts.

        Args:
            options: What is switched on; all of PAVE unless given.
            backbone: Who answers the operations; the surrogate unless given.
            name: Shown in tables.
        """
        if backbone is None:
            from pave_policy.surrogate import Surrogate

            backbone = Surrogate()
        super().__init__(name, concurrent=backbone.concurrent)
        self.options = options or PaveSettings()
        self.backbone = backbone
        self._minds: dict[str, Mind] = {}
        self._told: dict[str, deque[Told]] = {}
        self._steps_per_tick = 4

    def settings(self) -> dict[str, Any]:
        """What identifies the policy.

        Returns:
            Its switches, and its backbone with all constants.
        """
        return self.options.described() | {"backbone": self.backbone.settings()}

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode: nothing is carried over from the one before.

        Args:
            briefing: The town, the people and the clock.
        """
        super().reset(briefing)
        walkers = walkers_of(briefing)
        roads = warm_up(briefing.town)
        self._steps_per_tick = briefing.steps_per_tick
        self._minds = {
            agent: Mind(persona, walkers[agent], Memory(roads))
            for agent, persona in briefing.personas.items()
        }
        # The last two, so that what is told in a tick does not depend on who is asked first.
        self._told = {agent: deque(maxlen=2) for agent in briefing.personas}
        for agent, mind in self._minds.items():
            mind.log += [
                record("memory", agent, (1, 0), kind="warm-up", text=text, fallback=None)
                for text in roads
            ]

    def observe(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Notes sanctions, which become part of an outcome.

        Args:
            events: Public events of a tick.
        """
        for event in events:
            if event.get("type") == "sanction" and event.get("agent") in self._minds:
                self._minds[event["agent"]].sanctioned = True

    def records(self) -> list[Record]:
        """Decision records since the last call.

        Returns:
            Records of type `llm_call`, `threshold`, `assessment`, `verdict` and `memory`, agent by
            agent.
        """
        records: list[Record] = []
        for mind in self._minds.values():
            records += mind.log
            mind.log = []
        return records

    def steer(self, observations: Observations, glances: Mapping[str, Glance]) -> Actions:
        """One step of everybody.

        Args:
            observations: One observation an agent.
            glances: What those see who may have something to do.

        Returns:
            One action an agent.
        """
        minds = self._minds
        return {
            agent: int(steer(minds[agent], glances[agent])) if agent in glances else 0
            for agent in observations
        }

    def due(self, observations: Observations, glances: Mapping[str, Glance]) -> list[Work]:
        """The deliberations that this step asks for; none but at the start of a tick.

        Args:
            observations: One observation an agent.
            glances: What those see who may have something to do.

        Returns:
            One coroutine a person who has something to decide.

        Raises:
            LifecycleError: If the policy was not told of an agent.
        """
        works = []
        if unknown := [agent for agent in glances if agent not in self._minds]:
            raise LifecycleError(
                f"{self.name} was told nothing of {', '.join(unknown)}: "
                "call policy.reset(env.briefing()) before the first act()"
            )
        for agent, glance in glances.items():
            if glance.own.step != 0:
                continue
            mind = self._minds[agent]
            questions = mind.questions(glance, observations[agent])
            passed = mind.note_authority(glance)
            acted = mind.take_acted()
            elicits = self.options.elicit_threshold and not mind.knows_threshold
            if questions or acted or elicits:
                heard = self._heard(agent, glances) if self.options.peer_text else {}
                task = Task(agent, mind, glance, observations[agent], passed, heard)
                works.append(self._deliberate(task, questions, acted))
            if not acted:
                mind.sanctioned = False
            if not questions:
                mind.settle({}, escaping=bool(glance.own.escaping))
        return works

    def _heard(self, agent: str, glances: Mapping[str, Glance]) -> Heard:
        """What is told of the others' acts in earlier ticks, by their offset from one person."""
        own = glances[agent].own
        heard = {}
        for other, told in self._told.items():
            if other == agent or other not in glances:
                continue
            place = glances[other].own
            recent = [
                text
                for day, tick, text in told
                if day == own.day and 0 < own.tick - tick <= _TOLD_TICKS
            ]
            if recent:
                heard[place.x - own.x, place.y - own.y] = recent[-1]
        return heard

    def _desk(self, task: Task, rule_set: RuleSet | None = None) -> Backbone:
        """The backbone for one question of one person and tick."""
        name = None if rule_set is None else rule_set.value
        site = self.site(task.agent, task.glance.own, name)
        return self.backbone.at(site, task.mind.asked)

    async def _deliberate(self, task: Task, questions: list[Question], acted: list[Acted]) -> None:
        """One person's tick: what came of the last verdicts, then the new ones."""
        mind = task.mind
        if self.options.elicit_threshold and not mind.knows_threshold:
            await self._elicit(task)
        notes = [self._note_outcome(task, item) for item in acted]
        for text, log in await run_all(notes, side_by_side=self.backbone.concurrent):
            mind.memory.outcomes.append(text)
            mind.log += log
        mind.sanctioned = False
        if not questions:
            return
        asks = self.options.perception is Perception.LLM
        desk = self._desk(task) if asks else None
        context, failure = await perceive(desk, task.observation, mind.persona, task.heard)
        if desk is not None:
            mind.log += desk.take_records()
        answers = await run_all(
            [self._answer(task, question, context, failure) for question in questions],
            side_by_side=self.backbone.concurrent,
        )
        verdicts = {}
        for question, (verdict, log) in zip(questions, answers, strict=True):
            verdicts[question.rule_set] = verdict
            mind.log += log
        mind.settle(verdicts, escaping=context.escaping)

    async def _elicit(self, task: Task) -> None:
        """Asks for a person's threshold; the published one stands in where that fails."""
        mind, desk = task.mind, self._desk(task)
        mind.knows_threshold = True
        outcome = await desk.elicit_threshold(ThresholdRequest(mind.persona))
        outcome.conduct("ElicitThreshold")
        if outcome.value is not None:
            mind.persona = replace(mind.persona, legitimacy_threshold=outcome.value.value)
        mind.log += [*desk.take_records(), task.threshold_record(outcome)]

    async def _answer(
        self, task: Task, question: Question, context: Context, failure: Failure | None
    ) -> tuple[Verdict, list[Record]]:
        """Assessment, verdict and plan for one question, and the records of it."""
        persona, desk = task.mind.persona, self._desk(task, question.rule_set)
        case = Case(
            context, persona, question.rules, self._steps_per_tick, question.ahead, task.passed
        )
        outcome = await assess(desk, case)
        if outcome.value is None:
            verdict = comply_without_model(case, outcome.failure or Failure.MALFORMED)
            records = await self._carry_out(task, question, case, verdict, desk)
            return verdict, [*desk.take_records(), *records]
        assessed = task.assessment_record(question, outcome.value, failure)
        verdict, records = await self._judge(task, question, case, outcome.value, desk)
        return verdict, [*desk.take_records(), assessed, *records]

    async def _judge(
        self, task: Task, question: Question, case: Case, assessment: Assessment, desk: Backbone
    ) -> tuple[Verdict, list[Record]]:
        """The verdict on an assessed case: reused in an unchanged situation, fresh otherwise."""
        mind, gate = task.mind, self.options.gate
        is_open = gate_is_open(assessment.legitimacy, case.persona.legitimacy_threshold, gate)
        situation = situation_of(question, case.context, assessment, gate_open=is_open)
        if self.options.oscillation_guard and (
            earlier := mind.reusable(question.rule_set, situation)
        ):
            said = Opinion(earlier.said, earlier.justification, earlier.confidence)
            verdict = enforce(said, case, assessment, gate)
            return verdict, [task.verdict_record(question, verdict)]
        prior = mind.memory.reasons(situation)
        verdict = await give_verdict(desk, case, assessment, gate, prior)
        mind.remember(question.rule_set, situation, verdict)
        return verdict, await self._carry_out(task, question, case, verdict, desk)

    async def _carry_out(
        self, task: Task, question: Question, case: Case, verdict: Verdict, desk: Backbone
    ) -> list[Record]:
        """The plan of a fresh verdict, and the records of both."""
        plan, failure = await emulate(desk, verdict, case.context, case.persona)
        context = case.context
        task.mind.expect_outcome(
            Acted(question.rule_set, verdict, plan, context.position, context.day)
        )
        return [
            task.verdict_record(question, verdict, plan, failure),
            task.memory_record("justification", verdict.justification, None),
        ]

    async def _note_outcome(self, task: Task, acted: Acted) -> tuple[str, list[Record]]:
        """Pairs a verdict with what came of it, for memory and for the log."""
        own, desk = task.glance.own, self._desk(task, acted.rule_set)
        request = OutcomeRequest(
            verdict=acted.verdict,
            actions=acted.plan.actions,
            moved=(own.x, own.y) != acted.position and own.day == acted.day,
            sanctioned=task.mind.sanctioned,
        )
        note, failure = await propagate(desk, request)
        if acted.rule_set is RuleSet.RELEVANT:
            self._told[task.agent].append((own.day, own.tick, note.observed_behavior))
        names = ", ".join(rule.name for rule in acted.verdict.rules)
        text = (
            f"Verdict {acted.verdict.decision.value} ({names}): {note.observed_behavior} "
            f"{note.observed_outcome.capitalize()}."
        )
        return text, [*desk.take_records(), task.memory_record("outcome", text, failure)]
