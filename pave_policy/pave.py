"""The PAVE policy: perceive, assess, decide and act, once per person and tick.

Everything between two verdicts runs on the arrays; the typed context is made only for a verdict.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pave_policy.assessment import Case, assess
from pave_policy.backbone import Backbone, Failure, Opinion, OutcomeRequest, run_all, run_now
from pave_policy.emulation import emulate, propagate
from pave_policy.executor import steer
from pave_policy.glance import Glance, Own, look
from pave_policy.memory import Memory, warm_up
from pave_policy.mind import Acted, Mind, Question, situation_of
from pave_policy.perception import perceive
from pave_policy.records import Assessment, Plan, Verdict
from pave_policy.settings import PaveSettings
from pave_policy.verdict import comply_without_model, enforce, gate_is_open, give_verdict
from pave_policy.walking import walkers_of
from voville_env.observation import Context, Observation
from voville_env.policy import Actions, BasePolicy, Briefing, Infos, Observations

Record = dict[str, Any]
Work = Coroutine[Any, Any, None]


class PavePolicy(BasePolicy):
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
        super().__init__(name=name, idle_when_settled=True)
        if backbone is None:
            from pave_policy.surrogate import Surrogate

            backbone = Surrogate()
        self.options = options or PaveSettings()
        self.backbone = backbone
        self._minds: dict[str, Mind] = {}
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
        for agent, mind in self._minds.items():
            mind.log += [
                _record("memory", agent, (1, 0), kind="warm-up", text=text, fallback=None)
                for text in roads
            ]

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Decides and acts, with a backbone that never waits.

        Args:
            observations: One observation an agent.
            infos: Not used: PAVE ignores rewards.

        Returns:
            One action an agent.
        """
        glances = _glances(observations)
        if works := self._due(observations, glances):
            run_now(run_all(works, side_by_side=False))
        return self._steer(observations, glances)

    async def act_async(self, observations: Observations, infos: Infos) -> Actions:
        """Decides and acts; the model calls of all agents run side by side.

        Args:
            observations: One observation an agent.
            infos: Not used.

        Returns:
            One action an agent.
        """
        glances = _glances(observations)
        await run_all(self._due(observations, glances), side_by_side=self.backbone.concurrent)
        return self._steer(observations, glances)

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
            Records of type `assessment`, `verdict` and `memory`, agent by agent.
        """
        records: list[Record] = []
        for mind in self._minds.values():
            records += mind.log
            mind.log = []
        return records

    def _steer(self, observations: Observations, glances: Mapping[str, Glance]) -> Actions:
        minds = self._minds
        return {
            agent: int(steer(minds[agent], glances[agent])) if agent in glances else 0
            for agent in observations
        }

    def _due(self, observations: Observations, glances: Mapping[str, Glance]) -> list[Work]:
        """The deliberations that this step asks for; none but at the start of a tick."""
        works = []
        for agent, glance in glances.items():
            if glance.own.step != 0:
                continue
            mind = self._minds[agent]
            questions = mind.questions(glance, observations[agent])
            passed = mind.note_authority(glance)
            acted = mind.take_acted()
            if questions or acted:
                task = Task(agent, mind, glance, observations[agent], passed)
                works.append(self._deliberate(task, questions, acted))
            if not questions:
                mind.settle({}, escaping=bool(glance.own.escaping))
        return works

    async def _deliberate(self, task: Task, questions: list[Question], acted: list[Acted]) -> None:
        """One person's tick: what came of the last verdicts, then the new ones."""
        await run_all([self._note_outcome(task, item) for item in acted], side_by_side=False)
        task.mind.sanctioned = False
        if not questions:
            return
        context, failure = await perceive(self.backbone, task.observation, task.mind.persona)
        answers = await run_all(
            [self._answer(task, question, context, failure) for question in questions],
            side_by_side=self.backbone.concurrent,
        )
        verdicts = {}
        for question, (verdict, plan, log) in zip(questions, answers, strict=True):
            verdicts[question.rule_set] = verdict
            task.mind.expect_outcome(Acted(verdict, plan, context.position))
            task.mind.log += log
        task.mind.settle(verdicts, escaping=context.escaping)

    async def _answer(
        self, task: Task, question: Question, context: Context, failure: Failure | None
    ) -> tuple[Verdict, Plan, list[Record]]:
        """Assessment, verdict and plan for one question."""
        persona = task.mind.persona
        case = Case(
            context, persona, question.rules, self._steps_per_tick, question.ahead, task.passed
        )
        outcome = await assess(self.backbone, case)
        if outcome.value is None:
            verdict = comply_without_model(case, outcome.failure or Failure.MALFORMED)
            plan, unworded = await emulate(self.backbone, verdict, context, persona)
            return verdict, plan, [task.verdict_record(question, verdict, plan, unworded)]
        assessed = task.assessment_record(question, outcome.value, failure)
        verdict, plan, records = await self._judge(task, question, case, outcome.value)
        return verdict, plan, [assessed, *records]

    async def _judge(
        self, task: Task, question: Question, case: Case, assessment: Assessment
    ) -> tuple[Verdict, Plan, list[Record]]:
        """The verdict on an assessed case: reused in an unchanged situation, fresh otherwise."""
        mind, gate = task.mind, self.options.gate
        is_open = gate_is_open(assessment.legitimacy, case.persona.legitimacy_threshold, gate)
        situation = situation_of(question, case.context, assessment, gate_open=is_open)
        if self.options.oscillation_guard and (
            before := mind.reusable(question.rule_set, situation)
        ):
            earlier, plan = before
            said = Opinion(earlier.decision, earlier.justification, earlier.confidence)
            verdict = enforce(said, case, assessment, gate)
            return verdict, plan, [task.verdict_record(question, verdict, plan, None, reused=True)]
        prior = mind.memory.reasons(situation)
        verdict = await give_verdict(self.backbone, case, assessment, gate, prior)
        plan, unworded = await emulate(self.backbone, verdict, case.context, case.persona)
        mind.remember(question.rule_set, situation, verdict, plan)
        return (
            verdict,
            plan,
            [
                task.verdict_record(question, verdict, plan, unworded),
                task.memory_record("justification", verdict.justification, None),
            ],
        )

    async def _note_outcome(self, task: Task, acted: Acted) -> None:
        """Pairs a verdict with what came of it, in memory and in the log."""
        own = task.glance.own
        request = OutcomeRequest(
            verdict=acted.verdict,
            actions=acted.plan.actions,
            moved=(own.x, own.y) != acted.position,
            sanctioned=task.mind.sanctioned,
        )
        note, failure = await propagate(self.backbone, request)
        names = ", ".join(rule.name for rule in acted.verdict.rules)
        text = (
            f"Verdict {acted.verdict.decision.value} ({names}): {note.observed_behavior} "
            f"{note.observed_outcome.capitalize()}."
        )
        task.mind.memory.outcomes.append(text)
        task.mind.log.append(task.memory_record("outcome", text, failure))


@dataclass(frozen=True)
class Task:
    """One person's tick, and how it is written down.

    Attributes:
        agent: Who.
        mind: Their state.
        glance: What they see.
        observation: The same in full.
        passed: Whether the officer in sight has let them pass.
    """

    agent: str
    mind: Mind
    glance: Glance
    observation: Observation
    passed: bool

    def assessment_record(
        self, question: Question, assessment: Assessment, failure: Failure | None
    ) -> Record:
        """The record of an assessment.

        Args:
            question: What it is about.
            assessment: The five scalars.
            failure: Why the structured context stands in for the perceived one, if it does.

        Returns:
            A JSON-ready record; `p_emp_violation` is the share in the direction of the paper's D.3.
        """
        return self._record(
            "assessment",
            **_asked(question),
            **assessment.model_dump(),
            p_emp_violation=100 - assessment.p_emp,
            fallback=None if failure is None else failure.value,
        )

    def verdict_record(
        self,
        question: Question,
        verdict: Verdict,
        plan: Plan,
        failure: Failure | None,
        *,
        reused: bool = False,
    ) -> Record:
        """The record of a verdict and its plan.

        Args:
            question: What it is about.
            verdict: The verdict.
            plan: How it is carried out.
            failure: Why a plain action list stands in, if it does.
            reused: Whether the previous verdict was reused.

        Returns:
            A JSON-ready record.
        """
        said = verdict.model_dump(mode="json", exclude={"rules"})
        return self._record(
            "verdict",
            **_asked(question),
            **said,
            reused=reused,
            route=plan.route.name.lower(),
            style=plan.style.value,
            actions=[f"{action.text} ({action.seconds}s)." for action in plan.actions],
            plan_fallback=None if failure is None else failure.value,
        )

    def memory_record(self, kind: str, text: str, failure: Failure | None) -> Record:
        """The record of a memory entry.

        Args:
            kind: `justification` or `outcome`.
            text: What is kept.
            failure: Why plain words stand in, if they do.

        Returns:
            A JSON-ready record.
        """
        fallback = None if failure is None else failure.value
        return self._record("memory", kind=kind, text=text, fallback=fallback)

    def _record(self, type_: str, **fields: object) -> Record:
        return _record(type_, self.agent, (self.glance.own.day, self.glance.own.tick), **fields)


def _record(type_: str, agent: str, when: tuple[int, int], **fields: object) -> Record:
    return {"type": type_, "agent": agent, "day": when[0], "tick": when[1], **fields}


def _asked(question: Question) -> Record:
    return {
        "rule_set": question.rule_set.value,
        "rules": [rule.name for rule in question.rules],
        "ahead": question.ahead,
    }


def _glances(observations: Observations) -> dict[str, Glance]:
    """What everybody sees who may have something to do; people at their goal look once a tick."""
    glances = {}
    for agent, observation in observations.items():
        own = Own(*observation["self"].tolist())
        if own.step == 0 or own.escaping or not own.at_goal:
            glances[agent] = look(observation)
    return glances
