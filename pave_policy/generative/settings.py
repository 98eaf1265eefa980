"""The numbers of the generative agent, and those of the closed-form answers to its operations."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

from pave_policy.constants import Source
from pave_policy.generative.requests import MAX_IMPORTANCE
from pave_policy.memory.retrieval import Weights
from voville_env.errors import InvalidValueError

Range = tuple[int, int]
_WHOLE: dict[str, Range] = {
    "retrieved": (1, 1000),
    "reflection_trigger": (1, 1_000_000),
    "reflected_on": (1, 1000),
    "plan_importance": (1, MAX_IMPORTANCE),
    "longest_step": (1, 1440),
    "deepest": (0, 6),
    "flee_at": (1, MAX_IMPORTANCE),
    "imitate_at": (1, MAX_IMPORTANCE),
    "officer_discount": (0, MAX_IMPORTANCE),
}
"""The lowest and the highest allowed of whole numbers that can be chosen."""
_REAL = {
    "recency_decay": 1.0,
    "weight_recency": 1000.0,
    "weight_importance": 1000.0,
    "weight_relevance": 1000.0,
}
"""The highest allowed of other numbers that can be chosen; the lowest is 0."""
_EQUAL = "Park et al. 4.1: all three weights are 1"


@dataclass(frozen=True)
class GenerativeSettings:
    """Every number that the agent itself uses, whoever answers its operations.

    Attributes:
        recency_decay: Factor of recency for each tick since an entry was last retrieved.
        weight_recency: Weight of recency in retrieval.
        weight_importance: Weight of importance in retrieval.
        weight_relevance: Weight of relevance in retrieval.
        retrieved: Most entries that one retrieval brings to mind.
        reflection_trigger: Summed importance of what was noticed since the last reflection; the
            next one takes place when the sum is beyond it.
        reflected_on: Latest entries that the questions of a reflection are about.
        plan_importance: Importance of plans and changes of plan.
        longest_step: Minutes from which down a step of the plan is not decomposed further.
        deepest: Most decompositions between the day plan and a step.
    """

    recency_decay: Annotated[
        float, Source("Park et al. 4.1: 0.995, there for an hour; ours for a tick of shorter days")
    ] = 0.995
    weight_recency: Annotated[float, Source(_EQUAL)] = 1.0
    weight_importance: Annotated[float, Source(_EQUAL)] = 1.0
    weight_relevance: Annotated[float, Source(_EQUAL)] = 1.0
    retrieved: Annotated[int, Source("ours: few enough to weigh one by one")] = 10
    reflection_trigger: Annotated[
        int, Source("ours: 150 in Park et al. 4.2; days here hold few events, mostly ordinary")
    ] = 5
    reflected_on: Annotated[int, Source("Park et al. 4.2: the 100 latest entries")] = 100
    plan_importance: Annotated[int, Source("ours: the top of ordinary events")] = 3
    longest_step: Annotated[int, Source("Park et al. 4.3: steps of 5 to 15 minutes")] = 15
    deepest: Annotated[int, Source("ours: a day, its parts, their parts and the steps")] = 3

    def __post_init__(self) -> None:
        """Checks what can be chosen.

        Raises:
            InvalidValueError: If a number is not allowed.
        """
        _check(self)

    @property
    def weights(self) -> Weights:
        """The weights of retrieval."""
        return Weights(
            self.weight_recency, self.weight_importance, self.weight_relevance, self.recency_decay
        )


@dataclass(frozen=True)
class Calibration:
    """Every number of the closed-form answers.

    Attributes:
        fire: Importance of a fire, lowest and highest.
        flee_at: Importance from which on a fire changes the plan.
        ordinary: Importance of a conversation, an officer in sight or somebody breaking a rule.
        others_cross: Importance of others crossing on red.
        imitate_at: Importance from which on one who is late does as they do.
        officer_discount: Taken off that importance while an officer is in sight.
        order: Importance of an officer's order.
        routine: Importance of the plan itself; an order counts if rated above what one is doing.
    """

    fire: Annotated[Range, Source("paper 4.2: where a fire lands of 10", fitted=True)] = (2, 4)
    flee_at: Annotated[int, Source("ours: the upper end of the range", fitted=True)] = 4
    ordinary: Annotated[Range, Source("ours: what any day may bring")] = (1, 3)
    others_cross: Annotated[Range, Source("ours: what others do is social, so it counts")] = (4, 7)
    imitate_at: Annotated[int, Source("ours: above all but the lowest of that range")] = 5
    officer_discount: Annotated[int, Source("ours: an officer makes one think twice")] = 1
    order: Annotated[Range, Source("ours: rated like any other event")] = (1, 5)
    routine: Annotated[int, Source("ours: the top of ordinary events")] = 3

    def __post_init__(self) -> None:
        """Checks what can be chosen.

        Raises:
            InvalidValueError: If a number is not allowed.
        """
        _check(self)

    def described(self) -> dict[str, Any]:
        """The numbers as they identify a backbone.

        Returns:
            JSON-ready values.
        """
        numbers = asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in numbers.items()}


def _check(settings: GenerativeSettings | Calibration) -> None:
    """Refuses numbers beyond their limits; brings those that need not be whole to one type."""
    for field in fields(settings):
        name, value = field.name, getattr(settings, field.name)
        if name in _WHOLE:
            low, high = _WHOLE[name]
            if type(value) is not int or not low <= value <= high:
                raise InvalidValueError(
                    f"{name} is {value!r}; allowed: whole numbers from {low} to {high}"
                )
        elif name in _REAL:
            if type(value) not in (int, float) or not 0 <= value <= _REAL[name]:
                raise InvalidValueError(f"{name} is {value!r}; allowed: 0 to {_REAL[name]:g}")
            object.__setattr__(settings, name, float(value))
