"""The generative agent as a policy: the baseline without any PAVE module (BAS-03).

Observe, rate, remember, reflect, plan, retrieve and react. It weighs neither legitimacy nor
sanctions, and knows no gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from inspect import Parameter, Signature
from typing import Any

from pave_policy.backbone import run_all
from pave_policy.generative.agent import Moment, Person
from pave_policy.generative.day_plan import minutes_of
from pave_policy.generative.perceiving import perceive
from pave_policy.generative.places import Places, name_places
from pave_policy.generative.planning import plan_day, work_out_step
from pave_policy.generative.reaction import react, step
from pave_policy.generative.reflection import is_due, reflect
from pave_policy.generative.requests import (
    MAX_IMPORTANCE,
    Event,
    GenerativeBackbone,
    ImportanceRequest,
)
from pave_policy.generative.settings import Calibration, GenerativeSettings
from pave_policy.generative.surrogate import GenerativeSurrogate
from pave_policy.generative.turn import Turn, memory_record, record, value_of
from pave_policy.glance import Glance
from pave_policy.memory import warm_up
from pave_policy.memory.stream import EntryKind
from pave_policy.outcome import Outcome
from pave_policy.reasoning import ReasoningPolicy, Work
from pave_policy.site import Site
from pave_policy.walking import walkers_of
from voville_env.errors import InvalidValueError, invalid
from voville_env.observation import Observation
from voville_env.policy import Briefing

_OPERATIONS = (
    "rate_importance",
    "plan_day",
    "decompose_plan",
    "ask_focal_points",
    "draw_insights",
    "react",
    "embed",
)
_NEEDED = ("name", "concurrent", "settings", "at", "take_records")
_OF_SURROGATE = ("flee_at", "imitate_at", "officer_discount")


def _signature() -> Signature:
    """The options with their defaults, for whoever asks what the policy takes."""
    mechanism, calibration = GenerativeSettings(), Calibration()
    defaults = {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
    defaults |= {name: getattr(calibration, name) for name in _OF_SURROGATE}
    return Signature(
        [
            Parameter("backbone", Parameter.POSITIONAL_OR_KEYWORD, default=None),
            Parameter("name", Parameter.POSITIONAL_OR_KEYWORD, default="vanilla"),
            *(
                Parameter(name, Parameter.KEYWORD_ONLY, default=value)
                for name, value in defaults.items()
            ),
        ]
    )


class VanillaPolicy(ReasoningPolicy[Person]):
    """The generative agent after Park et al. on a backbone."""

    __signature__ = _signature()

    def __init__(
        self, backbone: GenerativeBackbone | None = None, name: str = "vanilla", **numbers: Any
    ) -> None:
        """Takes its parts.

        Args:
            backbone: Who answers the operations; the surrogate unless given.
            name: Shown in tables.
            **numbers: Fields of `GenerativeSettings`, and `flee_at`, `imitate_at` and
                `officer_discount` of the surrogate's `Calibration`.

        Raises:
            InvalidValueError: If a number is not known or not allowed, or it is one of the
                surrogate's while something else answers, or what answers is no backbone or lacks
                an operation.
        """
        allowed = list(self.__signature__.parameters)[2:]
        for key in numbers:
            if key not in allowed:
                raise invalid(f"option of {name}", key, allowed)
        chosen = {key: numbers.pop(key) for key in _OF_SURROGATE if key in numbers}
        self.options = GenerativeSettings(**numbers)
        self.backbone = _adjusted(_checked(backbone, name), chosen)
        super().__init__(name, concurrent=self.backbone.concurrent)
        self._places: Places = {}

    def settings(self) -> dict[str, Any]:
        """What identifies the policy.

        Returns:
            Its numbers and its backbone; of the surrogate the numbers that answer this agent.
        """
        numbers = asdict(self.options)
        if isinstance(self.backbone, GenerativeSurrogate):
            calibration = self.backbone.calibration.described()
            return numbers | {"calibration": calibration, "backbone": {"name": self.backbone.name}}
        return numbers | {"backbone": self.backbone.settings()}

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode: nothing is carried over from the one before.

        Args:
            briefing: The town, the people and the clock.
        """
        super().reset(briefing)
        walkers = walkers_of(briefing)
        roads = warm_up(briefing.town)
        self._places = name_places(briefing.town)
        self.people = {
            agent: Person(persona, walkers[agent]) for agent, persona in briefing.personas.items()
        }
        for agent, person in self.people.items():
            dawn = Site(agent=agent, day=1)
            for text in roads:
                person.stream.add(EntryKind.ROAD, text, now=-briefing.ticks_per_day)
                person.log.append(memory_record(dawn, "warm-up", text))

    def step(self, person: Person, glance: Glance) -> int:
        """One step of a person.

        Args:
            person: Their state.
            glance: What they see.

        Returns:
            The action.
        """
        return step(person, glance)

    def open_tick(
        self, agent: str, glance: Glance, observation: Observation, glances: Mapping[str, Glance]
    ) -> Work | None:
        """What is new, on waking or later.

        Args:
            agent: Who.
            glance: What they see.
            observation: The same in full.
            glances: Not used: nobody sees what others see.

        Returns:
            The deliberation; None where nothing is new.
        """
        person, own, now = self.people[agent], glance.own, self.now(glance.own)
        moment = person.take_in(perceive(observation, glance, self._places), glance, now)
        turn = Turn(person, glance, self.backbone, self.site(agent, own), now, self.options)
        wakes = person.plan is None or person.plan.day != own.day
        if wakes or moment.new or moment.at_hand is not None or is_due(turn):
            return self._deliberate(turn, moment, observation)
        return None

    async def _deliberate(self, turn: Turn, moment: Moment, observation: Observation) -> None:
        """One person's tick: plan, rate and keep what is new, reflect, react."""
        person = turn.person
        if person.plan is None or person.plan.day != turn.site.day:
            await plan_day(turn, max(1, minutes_of(self._ticks_per_day)))
        await _rate(turn, moment.new)
        if is_due(turn):
            await reflect(turn)
        if moment.at_hand is not None:
            assert person.plan is not None
            doing = await work_out_step(turn, person.plan) if moment.at_hand else None
            activity = "" if doing is None else doing.activity
            await react(turn, activity, moment.at_hand, observation)


def _checked(backbone: GenerativeBackbone | None, name: str) -> GenerativeBackbone:
    """The backbone, or the surrogate where none is given; refuses what cannot play the agent."""
    if backbone is None:
        from pave_policy.surrogate import Surrogate

        return Surrogate()
    if isinstance(backbone, type) or not all(hasattr(backbone, item) for item in _NEEDED):
        raise InvalidValueError(
            f"backbone of {name} is {backbone!r}; allowed: an object that answers for a model, "
            "such as pave_policy.surrogate.Surrogate() or pave_policy.llm.chat.make_chat(...)"
        )
    if missing := [item for item in _OPERATIONS if not hasattr(backbone, item)]:
        raise InvalidValueError(
            f"backbone {backbone.name!r} cannot play {name!r}: "
            f"it does not answer {', '.join(missing)}"
        )
    return backbone


def _adjusted(backbone: GenerativeBackbone, chosen: dict[str, Any]) -> GenerativeBackbone:
    """The backbone with the surrogate's numbers, which no other one has."""
    if not chosen:
        return backbone
    if isinstance(backbone, GenerativeSurrogate):
        return backbone.calibrated(**chosen)
    raise InvalidValueError(
        f"{', '.join(chosen)} belongs to the surrogate, and {backbone.name!r} answers; "
        "allowed: leave it out, or answer with the surrogate"
    )


async def _rate(turn: Turn, events: tuple[Event, ...]) -> None:
    """Rates new events side by side and keeps them; one without a usable rating counts 1."""
    asked = [turn.ask("RateImportance", partial(_ask, turn, event), _in_range) for event in events]
    answers = await run_all(asked, side_by_side=turn.backbone.concurrent)
    for event, (outcome, records) in zip(events, answers, strict=True):
        score = 1 if outcome.value is None else outcome.value
        rating = record(
            "importance",
            turn.site,
            description=event.text,
            score=score,
            rescaled=100 * score // MAX_IMPORTANCE,
            event_id=event.key,
            severity=event.severity,
            fallback=value_of(outcome.failure),
        )
        turn.person.log += [*records, rating]
        turn.person.keep(event, score, turn.now)
        turn.write("observation", event.text)


async def _ask(turn: Turn, event: Event, desk: GenerativeBackbone) -> Outcome[int]:
    return await desk.rate_importance(ImportanceRequest(turn.person.persona, event))


def _in_range(score: int) -> bool:
    return 1 <= score <= MAX_IMPORTANCE
