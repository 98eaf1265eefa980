"""A generative agent in the manner of Park et al., offline: one scalar of importance drives it.

Its plan is to be where its schedule says, by the lawful way. It notes what happens, rates each
event from 1 to 10 by how much it would matter socially, and re-plans only for what it rates high.
It weighs no rules, no legitimacy and no authority. A closed-form stand-in: it shows the mechanism
and is not evidence about language models.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pave_policy.constants import Source
from pave_policy.draws import draw
from pave_policy.glance import Glance, look
from pave_policy.walking import Walker, walkers_of
from voville_env.core.codes import (
    ALL_RULES,
    CARRIAGEWAY,
    TRIGGER_RELEVANT,
    Action,
    CueType,
    Instruction,
    Route,
    Rule,
)
from voville_env.observation import CUE_TEXT, Observation
from voville_env.policy import Actions, BasePolicy, Briefing, Infos, Observations

Range = tuple[int, int]
_RED = 1 << Rule.RED_LIGHT
_CROSSING_RULES = (Rule.RED_LIGHT, Rule.CROSSWALK_ONLY)


@dataclass(frozen=True)
class VanillaSettings:
    """Every number that the agent uses.

    Attributes:
        fire: Importance of a fire, lowest and highest.
        flee_at: Importance from which on a fire changes the plan.
        talk: Importance of a conversation.
        others_cross: Importance of others crossing on red while one is late.
        imitate_at: Importance from which on it does as they do.
        officer_discount: Taken off that importance while an officer is in sight.
        order: Importance of an officer's order.
        routine: Importance of the plan itself; an order counts if rated above what one is doing.
    """

    fire: Annotated[Range, Source("paper 4.2: where a fire lands of 10", fitted=True)] = (2, 4)
    flee_at: Annotated[int, Source("ours: the upper end of the range", fitted=True)] = 4
    talk: Annotated[Range, Source("ours: an ordinary event")] = (1, 3)
    others_cross: Annotated[Range, Source("ours: what others do is social, so it counts")] = (4, 7)
    imitate_at: Annotated[int, Source("ours: above all but the lowest of that range")] = 5
    officer_discount: Annotated[int, Source("ours: an officer makes one think twice")] = 1
    order: Annotated[Range, Source("ours: rated like any other event")] = (1, 5)
    routine: Annotated[int, Source("ours: the top of ordinary events")] = 3


@dataclass(frozen=True)
class Rated:
    """An event as it is kept in memory: what, how important, and which event it was."""

    description: str
    score: int
    event: str


@dataclass
class Habit:
    """One agent's state.

    Attributes:
        walker: The person on foot.
        seed: Of the episode.
        ratings: Importance of every event so far, by event.
        fire: Importance of the fire that burns; 0 without one.
        imitates: Whether it follows others across on red.
        waits: Whether it obeys an order to hold.
        log: Records that nobody has collected yet.
    """

    walker: Walker
    seed: int
    ratings: dict[str, Rated] = field(default_factory=dict)
    fire: int = 0
    imitates: bool = False
    waits: bool = False
    log: list[dict[str, Any]] = field(default_factory=list)

    def rate(
        self, glance: Glance, event: str, description: str, scores: Range, severity: int = 0
    ) -> int:
        """The importance of an event, drawn once from the seed, the agent and the event.

        Args:
            glance: Where and when it is noticed.
            event: Which event.
            description: The event in words.
            scores: Lowest and highest importance.
            severity: Severity of its cue, 0 if it has none.

        Returns:
            The importance, 1 to 10.
        """
        if event not in self.ratings:
            score = draw((self.seed, self.walker.agent, event), *scores)
            self.ratings[event] = Rated(description, score, event)
            self.log.append(
                {
                    "type": "importance",
                    "agent": self.walker.agent,
                    "day": glance.own.day,
                    "tick": glance.own.tick,
                    "description": description,
                    "score": score,
                    "rescaled": 10 * score,
                    "event_id": event,
                    "severity": severity,
                }
            )
        return self.ratings[event].score


@dataclass
class VanillaPolicy(BasePolicy):
    """The generative agent without any PAVE module."""

    name: str = "vanilla"
    idle_when_settled: bool = True
    constants: VanillaSettings = field(default_factory=VanillaSettings)
    _habits: dict[str, Habit] = field(default_factory=dict, init=False, repr=False)

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode.

        Args:
            briefing: The town, the people and the seed.
        """
        super().reset(briefing)
        walkers = walkers_of(briefing)
        self._habits = {agent: Habit(walkers[agent], briefing.seed) for agent in walkers}

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Perceives, rates and acts.

        Args:
            observations: One observation an agent.
            infos: Not used.

        Returns:
            One action an agent.
        """
        actions = {}
        for agent, observation in observations.items():
            habit, glance = self._habits[agent], look(observation)
            if glance.own.step == 0:
                self._perceive(habit, glance, observation)
            actions[agent] = int(self._step(habit, glance))
        return actions

    def records(self) -> list[dict[str, Any]]:
        """Importance ratings since the last call.

        Returns:
            Records of type `importance`, agent by agent.
        """
        records: list[dict[str, Any]] = []
        for habit in self._habits.values():
            records += habit.log
            habit.log = []
        return records

    def settings(self) -> dict[str, Any]:
        """What identifies the policy.

        Returns:
            Its constants.
        """
        constants = asdict(self.constants)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in constants.items()}

    def _perceive(self, habit: Habit, glance: Glance, observation: Observation) -> None:
        """Rates what is new in this tick and lets it change the plan."""
        if not glance.own.escaping:
            habit.fire = 0
        for kind, away, severity, dx, dy in observation["situational_cues"].tolist():
            if kind == CueType.FIRE:
                self._notice_fire(habit, glance, (away, severity, dx, dy))
            elif kind == CueType.CONVERSATION:
                self._notice_talk(habit, glance, severity)
        self._notice_crossing(habit, glance, observation)
        self._notice_order(habit, glance)

    def _notice_fire(self, habit: Habit, glance: Glance, cue: tuple[int, int, int, int]) -> None:
        away, severity, dx, dy = cue
        own = glance.own
        event = f"fire on day {own.day} at ({own.x + dx}, {own.y + dy})"
        text = f"There is a {CUE_TEXT[CueType.FIRE]} {away} tiles away."
        score = habit.rate(glance, event, text, self.constants.fire, severity=severity)
        habit.fire = max(habit.fire, score)

    def _notice_talk(self, habit: Habit, glance: Glance, severity: int) -> None:
        event = f"conversation on day {glance.own.day}"
        text = "People nearby are talking."
        habit.rate(glance, event, text, self.constants.talk, severity=severity)

    def _notice_crossing(self, habit: Habit, glance: Glance, observation: Observation) -> None:
        """Late at a red light, it may do as the others do; once on the road it goes on."""
        if habit.imitates and glance.terrain() in CARRIAGEWAY:
            return
        habit.imitates = False
        if not glance.own.late or not glance.scheduled_leg(Route.LAWFUL).rules & _RED:
            return
        balance = sum(
            1 if row[4] == 0 else -1
            for row in observation["peer_behaviors"].tolist()
            if row[3] in _CROSSING_RULES and row[4] >= 0
        )
        if balance <= 0:
            return
        turns_green = glance.own.tick + int(observation["signal"][1])
        event = f"others cross on red on day {glance.own.day} before tick {turns_green}"
        text = "Others cross against the red light."
        score = habit.rate(glance, event, text, self.constants.others_cross)
        score -= self.constants.officer_discount if glance.officer.present else 0
        habit.imitates = score >= self.constants.imitate_at

    def _notice_order(self, habit: Habit, glance: Glance) -> None:
        habit.waits = False
        officer = glance.officer
        if officer.instruction in (Instruction.NONE, Instruction.PASS):
            return
        ends = glance.own.tick + officer.ticks_left
        event = f"order of officer {officer.officer} until tick {ends} of day {glance.own.day}"
        text = f"An officer tells people to {Instruction(officer.instruction).name.lower()}."
        score = habit.rate(glance, event, text, self.constants.order)
        doing = max(self.constants.routine, habit.fire if self._flees(habit) else 0)
        habit.waits = officer.instruction == Instruction.HOLD and score > doing

    def _flees(self, habit: Habit) -> bool:
        return habit.fire >= self.constants.flee_at

    def _step(self, habit: Habit, glance: Glance) -> int:
        walker = habit.walker
        if habit.waits:
            return Action.WAIT
        if glance.own.escaping and self._flees(habit):
            return _flee(walker, glance)
        if habit.imitates:
            return walker.follow(glance, glance.scheduled_leg(Route.SCOPED), TRIGGER_RELEVANT)
        return walker.follow(glance, glance.scheduled_leg(Route.LAWFUL))


def _flee(walker: Walker, glance: Glance) -> int:
    """One step of a flight without scruples: any bicycle in reach, any way, through anybody."""
    if glance.mask[Action.TAKE] and not glance.own.carrying:
        return Action.TAKE
    return walker.follow(glance, glance.leg(Route.UNRESTRICTED), ALL_RULES)
