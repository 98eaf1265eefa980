"""What one PAVE agent carries from tick to tick, and the questions a tick puts to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pave_policy.acting.script import Script
from pave_policy.glance import Glance, Own, bits_at_stake
from pave_policy.memory import Memory
from pave_policy.records import Assessment, Plan, RuleSet, Verdict
from pave_policy.walking import Walker
from voville_env.core.codes import (
    ALL_RULES,
    NONE,
    TRIGGER_RELEVANT,
    UNRELATED,
    CueType,
    Instruction,
    Route,
    Rule,
    SignalState,
    rule_bits,
    rules_in,
)
from voville_env.observation import Context, Observation
from voville_env.policy import PersonaCard

AUTHORITY_BANDS = (3, 5, 7, 10, 12)
"""Upper ends of the distance bands of a situation: those of the prompt and of the metrics, with the
middle cut finer, because that is where the risk of an officer turns a verdict (ours)."""
_SEVERITY_BIN = 10
_LASTING = (CueType.FIRE, CueType.TIME_PRESSURE)
CueSignature = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Question:
    """What a verdict is asked about.

    Attributes:
        rule_set: Which of the two sets.
        rules: The rules of the set that are in question.
        ahead: Whether they are the first ones ahead, rather than at stake in this tick.
    """

    rule_set: RuleSet
    rules: tuple[Rule, ...]
    ahead: bool = False


@dataclass(frozen=True)
class Situation:
    """What makes two situations the same to the oscillation guard (requirement C-44).

    The conduct of peers belongs to it: what they do must reach the verdict whenever it changes,
    since the gate alone resists contagion (EMU-07).
    """

    question: Question
    signal: SignalState
    cues: CueSignature
    authority_band: int
    instruction: Instruction
    gate_open: bool
    p_emp: int


def situation_of(
    question: Question, context: Context, assessment: Assessment, *, gate_open: bool
) -> Situation:
    """The situation of a question.

    Args:
        question: The question.
        context: The perceived context.
        assessment: The five scalars.
        gate_open: Whether the gate is open.

    Returns:
        The signature.
    """
    away = context.authority_distance_tiles
    band = NONE if away is None else sum(away > edge for edge in AUTHORITY_BANDS)
    return Situation(
        question=question,
        signal=context.signal,
        cues=tuple(
            (int(cue.type), cue.severity // _SEVERITY_BIN) for cue in context.situational_cues
        ),
        authority_band=band,
        instruction=context.instruction,
        gate_open=gate_open,
        p_emp=assessment.p_emp,
    )


@dataclass(frozen=True)
class Acted:
    """A verdict that is being carried out.

    Attributes:
        rule_set: Which of the two sets it is about.
        verdict: The verdict.
        plan: How it is carried out.
        position: Where it was given.
        day: When it was given.
    """

    rule_set: RuleSet
    verdict: Verdict
    plan: Plan
    position: tuple[int, int]
    day: int


@dataclass
class Mind:
    """One person's state.

    Attributes:
        persona: The person.
        walker: The person on foot.
        memory: What they remember.
        scoped: Whether they keep a violation to the rules that their verdict targets.
        acts_on_words: Whether action lists are carried out, rather than the planner's way.
        gate_in_code: Whether the gate is kept by code, against the words of a list as well.
        orders_bind: Whether an order in force alone decides for complying.
        opened: Rules that the words of an action list may break, one bit each: all of them, or,
            where the gate is kept by code, those of the last verdicts whose gate was open.
        route: Which rules their way keeps.
        may_break: The rules they may break on it, one bit each.
        takes: Whether this tick's verdict is to take an item within reach.
        defies: Whether this tick's verdict is to violate, whatever is ordered.
        gate_open: Whether the gate was open at the last verdict on the traffic rules.
        sanctioned: Whether an officer sanctioned them since the last verdict.
        knows_threshold: Whether their threshold was asked for in this episode.
        scripts: The action lists that are being carried out.
        asked: How often each request was made of a model in this episode.
        log: Decision records that nobody has collected yet.
    """

    persona: PersonaCard
    walker: Walker
    memory: Memory
    scoped: bool = True
    acts_on_words: bool = False
    gate_in_code: bool = True
    orders_bind: bool = False
    opened: int = 0
    route: Route = Route.LAWFUL
    may_break: int = 0
    takes: bool = False
    defies: bool = False
    gate_open: bool = True
    sanctioned: bool = False
    knows_threshold: bool = False
    scripts: dict[RuleSet, Script] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    log: list[dict[str, Any]] = field(default_factory=list)
    _cues: CueSignature = ()
    _passed_by: int = NONE
    _previous: dict[RuleSet, tuple[Situation, Verdict]] = field(default_factory=dict)
    _acted: list[Acted] = field(default_factory=list)

    def questions(self, glance: Glance, observation: Observation) -> list[Question]:
        """What has to be decided at the start of a tick.

        Args:
            glance: What the person sees.
            observation: The same in full.

        Returns:
            The trigger-relevant rules at stake, or the first ones ahead on the escape if none is at
            stake and what drives the escape has changed; and the unrelated rules at stake.
        """
        bits = bits_at_stake(observation)
        relevant = tuple(rules_in(bits & TRIGGER_RELEVANT))
        ahead = self._cues_changed(glance, observation) and not relevant
        if ahead:
            relevant = self.walker.streets.first_rules(glance.own.x, glance.own.y)
        questions = [Question(RuleSet.RELEVANT, relevant, ahead)] if relevant else []
        if bits & UNRELATED:
            questions.append(Question(RuleSet.UNRELATED, tuple(rules_in(bits & UNRELATED))))
        return questions

    def _cues_changed(self, glance: Glance, observation: Observation) -> bool:
        before, self._cues = self._cues, ()
        if not glance.own.escaping:
            return False
        self._cues = tuple(
            (row[0], row[2] // _SEVERITY_BIN)
            for row in observation["situational_cues"].tolist()
            if row[0] in _LASTING
        )
        return self._cues != before

    def note_authority(self, glance: Glance) -> bool:
        """Keeps track of whether the officer in sight has let the person pass.

        Args:
            glance: What the person sees.

        Returns:
            True from the wave on until that officer is out of sight or orders otherwise.
        """
        officer = glance.officer
        if officer.instruction == Instruction.PASS:
            self._passed_by = officer.officer
        elif not officer.present or officer.instruction != Instruction.NONE:
            self._passed_by = NONE
        return self._passed_by != NONE

    def reusable(self, rule_set: RuleSet, situation: Situation) -> Verdict | None:
        """The previous verdict of a set, if it was given in the same situation.

        Args:
            rule_set: Which set.
            situation: The situation now.

        Returns:
            The verdict; None under a live instruction, which asks for a fresh verdict,
            and where the previous one was a fallback.
        """
        before = self._previous.get(rule_set)
        if before is None or before[0] != situation or situation.instruction != Instruction.NONE:
            return None
        return None if before[1].fallback is not None else before[1]

    def remember(self, rule_set: RuleSet, situation: Situation, verdict: Verdict) -> None:
        """Keeps a verdict for the guard, and its justification for later prompts.

        Args:
            rule_set: Which set it is about.
            situation: What it was given in.
            verdict: The verdict.
        """
        self._previous[rule_set] = (situation, verdict)
        self.memory.keep_reason(situation, verdict.justification)

    def running(self, rule_set: RuleSet, own: Own) -> Script | None:
        """The action list that is still being carried out.

        Args:
            rule_set: Which set it is about.
            own: The person's own row, which holds the time.

        Returns:
            The list; None where there is none, or it is over.
        """
        script = self.scripts.get(rule_set)
        return None if script is None or script.is_over(own) else script

    def expect_outcome(self, acted: Acted) -> None:
        """Keeps a verdict until the end of the tick shows what came of it.

        Args:
            acted: The verdict, how it is carried out and where.
        """
        self._acted.append(acted)

    def take_acted(self) -> list[Acted]:
        """The verdicts whose outcome can be seen now.

        Returns:
            What was kept, in the order of the two sets, whichever was answered first; nothing is
            kept any longer.
        """
        acted, self._acted = self._acted, []
        return sorted(acted, key=lambda item: list(RuleSet).index(item.rule_set))

    def settle(self, verdicts: dict[RuleSet, Verdict], *, escaping: bool) -> None:
        """Sets the way of the tick from its verdicts.

        Without scope one verdict to violate frees the person of every rule, until the next ones.

        Args:
            verdicts: The tick's verdicts; the last way is kept without any while escaping.
            escaping: Whether the safe zone is the goal that counts.
        """
        route = self.route if escaping else Route.LAWFUL
        still_free = escaping and not verdicts and self.may_break == ALL_RULES
        relevant = verdicts.get(RuleSet.RELEVANT)
        unrelated = verdicts.get(RuleSet.UNRELATED)
        if relevant is not None:
            self.gate_open = relevant.gate_open
            route = max(route, Route.SCOPED) if relevant.violates else Route.LAWFUL
        free = relevant is None or relevant.violates
        if unrelated is not None and unrelated.violates and free:
            route = Route.UNRESTRICTED
        elif unrelated is not None and not unrelated.violates:
            route = min(route, Route.SCOPED)
        targeted = [verdict for verdict in verdicts.values() if verdict.violates]
        self.route = Route(route)
        self.defies = bool(targeted)
        self.takes = any(Rule.PROPERTY in verdict.rules for verdict in targeted)
        if verdicts:
            self.opened = 0
            for verdict in verdicts.values():
                self.opened |= rule_bits(verdict.rules) if verdict.gate_open else 0
            self.may_break = 0
            for verdict in targeted:
                self.may_break |= rule_bits(verdict.rules)
        else:
            self.may_break &= TRIGGER_RELEVANT
        if not self.scoped and (targeted or still_free):
            self.route, self.may_break, self.takes = Route.UNRESTRICTED, ALL_RULES, True
