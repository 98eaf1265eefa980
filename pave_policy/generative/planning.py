"""Planning: the day in broad strokes, decomposed part by part down to short steps as they come up.

The plan says what is being done and when. Where people go is the environment's schedule.
"""

from __future__ import annotations

from pave_policy.generative.day_plan import DayPlan, fills, schedule_plan, told
from pave_policy.generative.requests import DayPlanRequest, DecompositionRequest, PlanEntry
from pave_policy.generative.turn import Turn
from pave_policy.memory.stream import EntryKind

_BEFORE_PLANNING = "what happened lately and what it means for the day"


async def plan_day(turn: Turn, minutes: int) -> None:
    """Plans the day with what is remembered of the days before; failing that, by the schedule.

    Args:
        turn: The person's tick.
        minutes: Length of the day.

    Raises:
        CallFailedError: If the call itself failed.
    """
    person, day = turn.person, turn.site.day
    entries = [] if day == 1 else await turn.recall((_BEFORE_PLANNING, person.persona.goal))
    request = DayPlanRequest(person.persona, day, minutes, tuple(item.text for item in entries))
    outcome, records = await turn.ask(
        "PlanDay", lambda desk: desk.plan_day(request), lambda plan: fills(plan, 0, minutes)
    )
    person.log += records
    plan = outcome.value or schedule_plan(person.persona, day, minutes)
    person.plan = DayPlan(day, minutes, plan)
    text = f"Plan for day {day}: {told(plan)}."
    person.stream.add(EntryKind.PLAN, text, turn.now, turn.settings.plan_importance)
    turn.write("plan", text, outcome.failure)


async def work_out_step(turn: Turn, plan: DayPlan) -> PlanEntry:
    """The step of the plan that is under way, decomposed as far as that takes.

    Args:
        turn: The person's tick.
        plan: The plan of the day.

    Returns:
        The step; a longer one where no usable parts were named.

    Raises:
        CallFailedError: If a call itself failed.
    """
    tick = turn.site.tick
    while (entry := plan.undecomposed(tick, turn.settings)) is not None:
        plan.parts[entry] = await _decompose(turn, plan, entry)
    return plan.path(tick)[-1]


async def _decompose(turn: Turn, plan: DayPlan, entry: PlanEntry) -> tuple[PlanEntry, ...]:
    request = DecompositionRequest(turn.person.persona, entry, plan.entries)
    outcome, records = await turn.ask(
        "DecomposePlan",
        lambda desk: desk.decompose_plan(request),
        lambda parts: fills(parts, entry.start, entry.minutes),
    )
    turn.person.log += records
    parts = outcome.value or (entry,)
    turn.write("plan", f"Steps of {entry.activity!r}: {told(parts)}.", outcome.failure)
    return parts
