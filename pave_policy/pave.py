"""The PAVE policy: perceive, assess, decide and act, once per person and tick.

Everything between two verdicts runs on the arrays; the typed context is made only for a verdict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pave_policy.acting.script import script_of
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
from pave_policy.perception import NOBODY, Heard, perceive, without_officers
from pave_policy.reasoning import ReasoningPolicy, Work
from pave_policy.records import Assessment, GateMode, RuleSet, Verdict
from pave_policy.settings import (
    AuthorityMode,
    Executor,
    GateScope,
    Guard,
    LegitimacyInputs,
    PaveSettings,
    Perception,
)
from pave_policy.verdict import comply_without_model, enforce, gate_is_open, give_verdict
from pave_policy.walking import walkers_of
from voville_env.core.codes import SignalState
from voville_env.observation import Context, Observation
from voville_env.policy import Briefing, PersonaCard

Told = tuple[int, int, str]
"""Day, tick and words of an act as others saw it."""
_TOLD_TICKS = 3


class PavePolicy(ReasoningPolicy[Mind]):
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
        self.people = {
            agent: Mind(
                self._with_threshold(persona),
                walkers[agent],
                Memory(roads),
                scoped=self.options.scoped,
                acts_on_words=self.options.emulation_executor is Executor.LLM,
                gate_in_code=self.options.gate is GateMode.CODE,
                orders_bind=self.options.authority_mode is AuthorityMode.HARD,
            )
            for agent, persona in briefing.personas.items()
        }
        # The last two, so that what is told in a tick does not depend on who is asked first.
        self._told = {agent: deque(maxlen=2) for agent in briefing.personas}
        for agent, mind in self.people.items():
            mind.log += [
                record("memory", agent, (1, 0), kind="warm-up", text=text, fallback=None)
                for text in roads
            ]

    def _with_threshold(self, persona: PersonaCard) -> PersonaCard:
        shared = self.options.threshold
        return persona if shared is None else replace(persona, legitimacy_threshold=shared)

    def observe(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Notes sanctions, which become part of an outcome.

        Args:
            events: Public events of a tick.
        """
        if not self.options.sees_officers:
            return
        for event in events:
            if event.get("type") == "sanction" and event.get("agent") in self.people:
                self.people[event["agent"]].sanctioned = True

    def step(self, person: Mind, glance: Glance) -> int:
        """One step of a person.

        Args:
            person: Their state.
            glance: What they perceive.

        Returns:
            The action.
        """
        return steer(person, glance)

    def open_tick(
        self, agent: str, glance: Glance, observation: Observation, glances: Mapping[str, Glance]
    ) -> Work | None:
        """What has to be decided, and what came of the last verdicts.

        Args:
            agent: Who.
            glance: What they perceive.
            observation: What reaches them.
            glances: What everybody sees.

        Returns:
            The deliberation; None where there is nothing to decide.
        """
        mind = self.people[agent]
        mind.memory.now = self.now(glance.own)
        observation = self._observation(observation)
        questions = mind.questions(glance, observation)
        passed = mind.note_authority(glance)
        acted = mind.take_acted()
        if not acted:
            mind.sanctioned = False
        if not questions:
            mind.settle({}, escaping=bool(glance.own.escaping))
        if not (questions or acted or self._elicits(mind)):
            return None
        heard = self._heard(agent, glances) if self.options.peer_text else {}
        task = Task(agent, mind, glance, observation, passed, heard)
        return self._deliberate(task, questions, acted)

    def as_perceived(self, glances: Mapping[str, Glance]) -> Mapping[str, Glance]:
        """Everything, or all but officers where they go unseen.

        Args:
            glances: What people see.

        Returns:
            What they perceive.
        """
        if self.options.sees_officers:
            return glances
        return {agent: glance._replace(officer=NOBODY) for agent, glance in glances.items()}

    def _observation(self, observation: Observation) -> Observation:
        return observation if self.options.sees_officers else without_officers(observation)

    def _elicits(self, mind: Mind) -> bool:
        asks = self.options.elicit_threshold and self.options.threshold is None
        return asks and not mind.knows_threshold

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
        if self._elicits(mind):
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
        desk, options = self._desk(task, question.rule_set), self.options
        case = Case(
            context=context,
            persona=task.mind.persona,
            rules=question.rules,
            steps_per_tick=self._steps_per_tick,
            ahead=question.ahead,
            passage_granted=task.passed,
            p_emp_share=options.p_emp_semantics,
            route_aware=options.legitimacy_inputs is LegitimacyInputs.ROUTE_AWARE,
            orders_bind=options.authority_mode is AuthorityMode.HARD,
        )
        outcome = await assess(desk, case)
        if outcome.value is None:
            verdict = comply_without_model(case, outcome.failure or Failure.MALFORMED)
            records = await self._carry_out(task, question, case, verdict, desk)
            return verdict, [*desk.take_records(), *records]
        assessed = task.assessment_record(question, outcome.value, failure, options.p_emp_semantics)
        verdict, records = await self._judge(task, question, case, outcome.value, desk)
        return verdict, [*desk.take_records(), assessed, *records]

    async def _judge(
        self, task: Task, question: Question, case: Case, assessment: Assessment, desk: Backbone
    ) -> tuple[Verdict, list[Record]]:
        """The verdict on an assessed case: reused in an unchanged situation, fresh otherwise."""
        mind, gate, guard = task.mind, self._gate_in(case.context), self.options.oscillation_guard
        is_open = gate_is_open(assessment.legitimacy, case.persona.legitimacy_threshold, gate)
        situation = situation_of(question, case.context, assessment, gate_open=is_open)
        earlier = mind.reusable(question.rule_set, situation)
        if guard is Guard.HYSTERESIS and earlier is not None:
            said = Opinion(earlier.said, earlier.justification, earlier.confidence)
            verdict = enforce(said, case, assessment, gate)
            script = mind.running(question.rule_set, task.glance.own)
            return verdict, [task.verdict_record(question, verdict, script=script)]
        prior = () if guard is Guard.OFF else mind.memory.reasons(situation)
        verdict = await give_verdict(desk, case, assessment, gate, prior)
        mind.remember(question.rule_set, situation, verdict)
        return verdict, await self._carry_out(task, question, case, verdict, desk)

    def _gate_in(self, context: Context) -> GateMode:
        """Who keeps the gate here: nobody away from signals, where its scope is their zone."""
        zoned = self.options.gate_scope is GateScope.ZONE
        return GateMode.OFF if zoned and context.signal is SignalState.NONE else self.options.gate

    async def _carry_out(
        self, task: Task, question: Question, case: Case, verdict: Verdict, desk: Backbone
    ) -> list[Record]:
        """The plan of a fresh verdict, and the records of both."""
        mind, context = task.mind, case.context
        plan, failure = await emulate(
            desk, verdict, context, case.persona, scoped=self.options.scoped
        )
        mind.expect_outcome(Acted(question.rule_set, verdict, plan, context.position, context.day))
        script = None
        if mind.acts_on_words:
            when = (task.glance.own.day, task.glance.own.tick)
            script = script_of(plan.actions, when, self._steps_per_tick)
            mind.scripts[question.rule_set] = script
        return [
            task.verdict_record(question, verdict, plan, failure, script),
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
