"""What a scenario file may say: frozen models that refuse unknown keys."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from voville_env.core import layout

Day = Annotated[int, Field(ge=1)]
Tick = Annotated[int, Field(ge=0)]
Tile = Annotated[int, Field(ge=0, le=63)]
Position = tuple[Tile, Tile]
Shift = Annotated[int, Field(ge=-1000, le=1000)]
Coordinate = Field(ge=0, le=63)


class Part(BaseModel):
    """Base of every part: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PersonalRuleEntry(Part):
    """A rule of the personal rule database (requirement RUL-03)."""

    utility: int = Field(ge=1, le=100)
    injunctive: bool = True
    active: bool = True
    valid: bool = True


class Persona(Part):
    """A person: Table 4 of the paper, one entry each."""

    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    occupation: str
    disposition: str
    goal: str
    group: Literal["attendee", "bystander"]
    legitimacy_threshold: int = Field(ge=1, le=100)


class PersonaFile(Part):
    """The persona file: people, and the rule database that all of them carry."""

    version: int = Field(ge=1)
    rules: dict[str, PersonalRuleEntry]
    personas: list[Persona]


class Errand(Part):
    """A scheduled goal: from a tick of a day on, the person wants to be at a place."""

    day: int = Field(ge=1)
    tick: int = Field(ge=0)
    goal: str
    late: bool = False


class AgentPlan(Part):
    """Where a person starts, where their days begin and what they have to do."""

    id: str
    start: str
    home: str
    goal: str = ""
    schedule: list[Errand] = Field(default_factory=list, max_length=layout.SCHEDULE)


class Fire(Part):
    """A fire: ignition and extinction in ticks of a day, severity at its tile."""

    x: int = Coordinate
    y: int = Coordinate
    severity: int = Field(default=95, ge=1, le=100)
    day: int = Field(default=1, ge=1)
    ignite: int = Field(ge=0)
    extinguish: int = Field(ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Fire:
        if self.extinguish <= self.ignite:
            raise ValueError(
                f"extinguish is {self.extinguish}; allowed: above ignite ({self.ignite})"
            )
        return self


class Phase(Part):
    """One phase of an officer's script."""

    kind: Literal["hold", "pass", "redirect", "silent"]
    ticks: int = Field(ge=1, le=10000)


class Officer(Part):
    """A scripted officer (Table 5): post, duty and a script that repeats; passive without one.

    A `reactive` officer orders only people who have moved in the tick before (C-22).
    """

    id: str
    name: str
    x: int = Coordinate
    y: int = Coordinate
    band: Literal["x", "y"]
    intersection: str
    day: int = Field(ge=1)
    start: int = Field(ge=0)
    end: int = Field(ge=1)
    script: list[Phase] = Field(default_factory=list, max_length=layout.PHASES)
    redirect: Literal["N", "E", "S", "W"] = "W"
    reactive: bool = False


class Crossing(Part):
    """A nominal tick at which a confederate sets off along its path."""

    day: int = Field(ge=1)
    tick: int = Field(ge=0)


class Confederate(Part):
    """A scripted jaywalker (Table 5): walks its path to and fro, one way per crossing."""

    id: str
    name: str
    path: list[Position] = Field(min_length=2, max_length=layout.WAYPOINTS)
    crossings: list[Crossing] = Field(max_length=layout.CROSSINGS)


class Clock(Part):
    """Time: steps, ticks and days (requirements ENV-05, C-08)."""

    days: int = Field(default=2, ge=1, le=30)
    ticks_per_day: int = Field(default=1000, ge=1, le=10000)
    steps_per_tick: int = Field(default=4, ge=1, le=8)


class Perception(Part):
    """Radii in tiles and delays in ticks (requirements PER-03, C-12 to C-14, C-28).

    `cue_radius` is about what is no hazard: signals, and conversations, which carry three tiles at
    most. `hazard_radius` 0 is the hazard's own reach. Severity falls by `severity_decay` a tile, or
    along the `walkthrough` of the paper's D.1, which reaches 18 tiles (C-26).
    """

    cue_radius: int = Field(default=12, ge=1, le=20)
    hazard_radius: int = Field(default=0, ge=0, le=100)
    authority_radius: int = Field(default=20, ge=1, le=20)
    instruction_radius: int = Field(default=12, ge=1, le=20)
    peer_radius: int = Field(default=12, ge=1, le=20)
    peer_memory: int = Field(default=3, ge=1, le=20)
    perception_delay: int = Field(default=0, ge=0, le=20)
    severity_model: Literal["linear", "walkthrough"] = "linear"
    severity_decay: int = Field(default=5, ge=0, le=100)
    late_severity: int = Field(default=25, ge=1, le=100)
    conversation_severity: int = Field(default=15, ge=1, le=100)

    @model_validator(mode="after")
    def _decay_counts(self) -> Perception:
        default = type(self).model_fields["severity_decay"].default
        if self.severity_model != "linear" and self.severity_decay != default:
            raise ValueError(
                f"severity_decay is {self.severity_decay}, which severity_model "
                f"{self.severity_model!r} has no use for; allowed with it: {default}"
            )
        return self


class Authority(Part):
    """Sanctions and how a response to an instruction is judged (RUL-08, OCR)."""

    sanction_radius: int = Field(default=3, ge=0, le=20)
    supervised_radius: int = Field(default=12, ge=0, le=20)
    response_ticks: int = Field(default=3, ge=1, le=20)


class Jitter(Part):
    """What the seed varies besides tie-breaks (paper E.3).

    An officer stands 0 to `officer_tiles` tiles beyond the post, along its band; a confederate
    sets off up to `confederate_ticks` ticks earlier or later.
    """

    officer_tiles: int = Field(default=1, ge=0, le=3)
    confederate_ticks: int = Field(default=2, ge=0, le=10)


class Variation(Part):
    """What the seed varies: with `paper` the `jitter` alone, with `wide` all that stands here.

    A range is `[lowest, highest]`, in ticks. Everything happens a common `shift_ticks` later; each
    person's day differs from that by `errand_ticks`, each crossing of the confederates by
    `crossing_ticks`, and walk begins at the focal intersection `focal_ticks` and at any other
    `signal_ticks` later. Fires take different tiles of `fire_tiles`; the places of a list of
    `seats` are dealt anew among those who use them; an officer has one of the `posts`. Whoever is
    late for the first errand of a day is on time in `late_percent` of the days, and the other way
    round. `focus` stands in for the scenario's own.
    """

    kind: Literal["paper", "wide"] = "paper"
    focus: tuple[Day, Tick, Tick] | None = None
    shift_ticks: tuple[Shift, Shift] = (0, 0)
    errand_ticks: tuple[Shift, Shift] = (0, 0)
    crossing_ticks: tuple[Shift, Shift] = (0, 0)
    focal_ticks: tuple[Shift, Shift] = (0, 0)
    signal_ticks: tuple[Shift, Shift] = (0, 0)
    late_percent: int = Field(default=0, ge=0, le=100)
    fire_tiles: list[Position] = Field(default_factory=list)
    seats: list[list[str]] = Field(default_factory=list)
    posts: dict[str, list[Position]] = Field(default_factory=dict)

    @field_validator("shift_ticks", "errand_ticks", "crossing_ticks", "focal_ticks", "signal_ticks")
    @classmethod
    def _ranges(cls, given: tuple[int, int]) -> tuple[int, int]:
        if given[0] > given[1]:
            raise ValueError("allowed: [lowest, highest]")
        return given


class Oracle(Part):
    """Thresholds of the environment's own label of a violation (design section 6)."""

    high_severity: int = Field(default=60, ge=1, le=100)
    extra_ticks: float = Field(default=2.0, gt=0)
    extra_harm: float = Field(default=1.0, gt=0)
    band: float = Field(default=0.25, ge=0, lt=1)
    horizon_steps: int = Field(default=160, ge=1, le=1000)


class Rewards(Part):
    """Weights of the reward terms; ours, no document defines a reward."""

    progress: float = Field(default=0.02, ge=-1e6, le=1e6)
    arrival: float = Field(default=1.0, ge=-1e6, le=1e6)
    harm: float = Field(default=-0.5, ge=-1e6, le=1e6)
    sanction: float = Field(default=-1.0, ge=-1e6, le=1e6)
    time: float = Field(default=-0.002, ge=-1e6, le=1e6)


class Scenario(Part):
    """A scenario: everything but the seed.

    With a `confederate_count` only the first of the confederates take part (C-02).
    """

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    version: int = Field(ge=1)
    title: str
    description: str
    purpose: str
    map: str = "voville"
    personas: str = "paper"
    control: str | None = None
    safe_zone: str = "park"
    refuge: str = "park_lawn"
    focal_intersection: str
    commuter_ids: list[str]
    pass_window: tuple[Tick, Tick] = (100, 200)
    focus: tuple[Day, Tick, Tick]
    clock: Clock = Clock()
    perception: Perception = Perception()
    authority: Authority = Authority()
    jitter: Jitter = Jitter()
    variation: Variation = Variation()
    oracle: Oracle = Oracle()
    rewards: Rewards = Rewards()
    confederate_pace: int = Field(default=2, ge=1, le=8)
    agents: list[AgentPlan] = Field(min_length=1)
    fires: list[Fire] = Field(default_factory=list, max_length=layout.HAZARDS)
    officers: list[Officer] = Field(default_factory=list, max_length=4)
    confederate_count: int | None = Field(default=None, ge=0, le=4)
    confederates: list[Confederate] = Field(default_factory=list, max_length=4)

    @field_validator("confederates")
    @classmethod
    def _first(cls, listed: list[Confederate], info: ValidationInfo) -> list[Confederate]:
        return listed[: info.data.get("confederate_count")]

    @model_validator(mode="after")
    def _focus_of_variation(self) -> Scenario:
        if self.variation.kind == "wide" and self.variation.focus is not None:
            object.__setattr__(self, "focus", self.variation.focus)
        return self

    @property
    def ticks(self) -> int:
        """Ticks of the whole run."""
        return self.clock.days * self.clock.ticks_per_day

    def absolute(self, day: int, tick: int) -> int:
        """The tick since the start of the run.

        Args:
            day: From 1.
            tick: Of the day.

        Returns:
            The absolute tick.
        """
        return (day - 1) * self.clock.ticks_per_day + tick
