"""One episode as the metrics see it: the log, parsed once into compact tuples.

An opportunity and its outcome become one `Row`, whatever their order in the file. What a policy
says of itself is kept apart, so that it cannot move a metric of conduct.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from voville_env.core.codes import Instruction, Label, Rule, SignalState
from voville_env.events import FORMAT, Event, LogError, read_log

When = tuple[int, int]
"""Day, from 1, and tick of the day."""
EXPOSURE_TICKS = 10
"""How long a jaywalk seen counts as fresh (requirements, part d, CR)."""
SEVERITY_LOST_PER_TILE = 5
"""The paper's decay of a fire's severity: 95 − 5·d."""
JAYWALK = 1 << Rule.RED_LIGHT | 1 << Rule.CROSSWALK_ONLY


class Row(NamedTuple):
    """One person's rules at stake in one tick, and what became of them.

    Rules are bit masks. `violated` leaves out what an officer had authorised; `stake` holds every
    rule at stake or broken, so that what is violated is always part of what could be.
    """

    agent: int
    day: int
    tick: int
    stake: int
    violated: int
    authorised: int
    blocked: bool
    label: Label
    label_unrelated: Label
    zone: str
    dist_fire: int | None
    dist_officer: int | None
    signal: SignalState
    crossing: str | None
    saw_jaywalk: bool
    escaping: bool
    instruction: Instruction
    foreseen: bool  # False where a rule was broken without having been at stake

    @property
    def place(self) -> str:
        """Where an encounter happens: the signal ahead, or the zone."""
        return self.crossing or self.zone


class State(NamedTuple):
    """Where a person is from a tick on, until the next one."""

    when: When
    zone: str
    dist_fire: int | None
    dist_officer: int | None
    officer_in_sight: bool


class Order(NamedTuple):
    """An officer's instruction that reached a person."""

    agent: int
    day: int
    tick: int
    kind: Instruction
    valid_ticks: int


class Response(NamedTuple):
    """What movement made of an instruction, judged at the end of a tick, `ticks` after it came."""

    agent: int
    day: int
    tick: int
    kind: Instruction
    complied: bool
    ticks: int


class Goal(NamedTuple):
    """A goal that a person has from a tick on.

    `steps` is the shortest way to it, all rules waived; None where there is none, or in old logs.
    """

    agent: int
    day: int
    tick: int
    escaping: bool
    steps: int | None


class Arrival(NamedTuple):
    """A person's first tick at a goal."""

    agent: int
    day: int
    tick: int
    safe: bool


class Verdict(NamedTuple):
    """A verdict that a policy says it has given, and the action list that carries it out.

    `beyond` holds the rules that the list breaks beyond the verdict, where the list itself is what
    is carried out; `list_fallback` says that something else stands in for it.
    """

    agent: int
    day: int
    tick: int
    rules: int
    violates: bool
    legitimacy: int
    gate_open: bool
    gate_leak: bool
    justification: str
    fallback: bool
    reused: bool
    beyond: int | None
    list_fallback: bool


class Reaction(NamedTuple):
    """What a policy says it does about what happens; it holds until the person's next one.

    `asked` is False where nothing was at hand, so that the plan went on without a question.
    """

    agent: int
    day: int
    tick: int
    fallback: bool
    asked: bool


class Importance(NamedTuple):
    """How important a policy says that an event is."""

    description: str
    rescaled: float
    severity: float | None
    fallback: bool


class Operation(StrEnum):
    """What a policy asks of a language model, in the order of a decision."""

    ELICIT_THRESHOLD = "elicit_threshold"
    PERCEIVE_CONTEXT = "perceive_context"
    ASSESS_RISK = "assess_risk"
    ASSESS_EMPIRICAL = "assess_empirical"
    ASSESS_NORMATIVE = "assess_normative"
    ASSESS_BENEFIT = "assess_benefit"
    ASSESS_LEGITIMACY = "assess_legitimacy"
    GENERATE_VERDICT = "generate_verdict"
    EMULATE_ACTION = "emulate_action"
    PROPAGATE_OUTCOME = "propagate_outcome"
    RATE_IMPORTANCE = "rate_importance"
    PLAN_DAY = "plan_day"
    DECOMPOSE_PLAN = "decompose_plan"
    ASK_FOCAL_POINTS = "ask_focal_points"
    DRAW_INSIGHTS = "draw_insights"
    REACT = "react"


class Answer(StrEnum):
    """What came of asking; a call that failed for another reason is in no finished log."""

    VALID = "valid"
    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"


class Fallback(StrEnum):
    """What stands in for an answer that cannot be used."""

    COMPLY = "comply"
    STRUCTURE = "structure"
    PLAN = "plan"
    TEMPLATE = "template"
    TABLE = "table"
    ORDINARY = "ordinary"
    SCHEDULE = "schedule"
    ENTRY = "entry"
    NONE = "none"
    CONTINUE = "continue"


class Call(NamedTuple):
    """One operation that a language model was asked for; tokens are None where nobody counted."""

    operation: Operation
    answer: Answer
    fallback: Fallback | None
    retried: bool
    prompt_tokens: int | None
    completion_tokens: int | None


class Fire(NamedTuple):
    """A fire of the scenario; it burns from `ignite` to before `extinguish`."""

    severity: int
    day: int
    ignite: int
    extinguish: int

    @property
    def reach(self) -> int:
        """Tiles up to which its severity is at least 1."""
        return self.tiles_at(1)

    def tiles_at(self, severity: int) -> int:
        """How far some severity is felt, by the paper's formula whatever the scenario's model.

        Args:
            severity: The least that counts.

        Returns:
            Tiles; below 0 for more than the fire has.
        """
        return (self.severity - severity) // SEVERITY_LOST_PER_TILE


@dataclass(frozen=True)
class Episode:
    """A finished episode.

    Attributes:
        header: The `run_start` record.
        agents: Ids of the people, in the order of the log.
        attendees: Numbers of the people at the café.
        bystanders: Numbers of the people far away.
        commuters: Numbers of those who commute.
        fires: The fires.
        rows: Opportunities with their outcomes, by agent, day and tick.
        states: For each person, the positions noted.
        orders: Instructions delivered.
        responses: Instructions judged.
        observers: For each person, the ticks at whose end they saw someone jaywalk.
        goals: Goals given, in order for each person.
        arrivals: First ticks at goals.
        sanctions: Numbers of the people sanctioned, once each time.
        ticks: Ticks from the start of day 1 to the end of the episode.
        harm: Harm of each person over the run: severity / 100, summed over ticks.
        verdicts: What the policy says it decided; empty for a policy that says nothing.
        reactions: What the policy says it does about what happens, by agent and time.
        importance: What the policy says it rated.
        calls: What the policy asked of a language model; empty for a policy without one.
    """

    header: Mapping[str, Any]
    agents: tuple[str, ...]
    attendees: frozenset[int]
    bystanders: frozenset[int]
    commuters: frozenset[int]
    fires: tuple[Fire, ...]
    rows: tuple[Row, ...]
    states: tuple[tuple[State, ...], ...]
    orders: tuple[Order, ...]
    responses: tuple[Response, ...]
    observers: tuple[tuple[When, ...], ...]
    goals: tuple[Goal, ...]
    arrivals: tuple[Arrival, ...]
    sanctions: tuple[int, ...]
    ticks: int
    harm: tuple[float, ...]
    verdicts: tuple[Verdict, ...]
    reactions: tuple[Reaction, ...]
    importance: tuple[Importance, ...]
    calls: tuple[Call, ...]

    @property
    def focal(self) -> str:
        """The intersection that the scenario is about."""
        return str(self.header["focal"])

    @property
    def ticks_per_day(self) -> int:
        """Ticks in a day."""
        return int(self.header["clock"]["ticks_per_day"])

    @property
    def fire_day(self) -> int:
        """The day of the first fire; 0 without one."""
        return min((fire.day for fire in self.fires), default=0)

    @property
    def ignition(self) -> int:
        """Tick of the fire day at which the first fire starts."""
        return min(fire.ignite for fire in self.fires if fire.day == self.fire_day)

    @property
    def extinction(self) -> int:
        """Tick of the fire day at which the last fire is out."""
        return max(fire.extinguish for fire in self.fires if fire.day == self.fire_day)

    @property
    def end_of_fire_day(self) -> int:
        """First tick of the fire day that was not played."""
        played = self.ticks - (self.fire_day - 1) * self.ticks_per_day
        return min(self.ticks_per_day, played)

    def in_window(self, day: int, tick: int) -> bool:
        """Whether a tick lies in the fire window W.

        Args:
            day: Day.
            tick: Tick of the day.

        Returns:
            True while a fire burns.
        """
        return any(fire.day == day and fire.ignite <= tick < fire.extinguish for fire in self.fires)

    def state_at(self, agent: int, when: When) -> State | None:
        """The position noted last.

        Positions are noted while a fire burns or an officer is on duty, so outside those times the
        answer may be out of date.

        Args:
            agent: Whose.
            when: When.

        Returns:
            The last position at or before that time; None if there is none.
        """
        found = bisect_right(self.states[agent], when, key=lambda state: state.when)
        return self.states[agent][found - 1] if found else None


def load_episode(source: Path | str | Iterable[Event]) -> Episode:
    """Reads a log.

    Args:
        source: A log file, or its records.

    Returns:
        The episode.

    Raises:
        LogError: If the log is not that of a finished episode, or a record cannot be understood.
    """
    from voville_env.metrics.reading import LogReader

    if isinstance(source, str | Path):
        name, records = str(source), iter(read_log(source))
    else:
        name, records = "the log", iter(source)
    first = next(records, None)
    if first is None or first.get("type") != "run_start":
        raise LogError(f"{name} does not begin with run_start")
    if first.get("format") != FORMAT:
        raise LogError(f"{name} has format {first.get('format')!r}; allowed: {FORMAT}")
    reader = LogReader(first, name)
    for record in records:
        reader.take(record)
    return reader.episode()
