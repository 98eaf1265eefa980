"""Reflection: once enough has happened, questions are drawn from it, and insights from memory."""

from __future__ import annotations

from functools import partial

from pave_policy.backbone import run_all
from pave_policy.generative.requests import (
    FocalRequest,
    GenerativeBackbone,
    Insight,
    InsightRequest,
)
from pave_policy.generative.turn import Turn
from pave_policy.memory.stream import Entry, EntryKind
from pave_policy.outcome import Outcome


def is_due(turn: Turn) -> bool:
    """Whether what was noticed since the last reflection adds up to more than the trigger.

    Args:
        turn: The person's tick.

    Returns:
        True beyond it.
    """
    return turn.person.since_reflection > turn.settings.reflection_trigger


async def reflect(turn: Turn) -> None:
    """Keeps what the latest memories add up to; without usable questions, nothing now.

    Args:
        turn: The person's tick.

    Raises:
        CallFailedError: If a call itself failed.
    """
    person = turn.person
    person.since_reflection = 0
    lived = [entry for entry in person.stream if entry.kind is not EntryKind.ROAD]
    statements = tuple(entry.text for entry in lived[-turn.settings.reflected_on :])
    request = FocalRequest(person.persona, statements)
    focal, records = await turn.ask(
        "AskFocalPoints", lambda desk: desk.ask_focal_points(request), bool
    )
    person.log += records
    if focal.value is None:
        turn.write("reflection", "No question comes to mind.", focal.failure)
        return
    found = [(question, await turn.recall((question,))) for question in focal.value]
    borne_out = [(question, entries) for question, entries in found if entries]
    works = []
    for question, entries in borne_out:
        shown = InsightRequest(person.persona, question, tuple(item.text for item in entries))
        works.append(turn.ask("DrawInsights", partial(_draw, request=shown)))
    answers = await run_all(works, side_by_side=turn.backbone.concurrent)
    for (drawn, records), (_, entries) in zip(answers, borne_out, strict=True):
        person.log += records
        _keep(turn, drawn, entries)


async def _draw(desk: GenerativeBackbone, request: InsightRequest) -> Outcome[tuple[Insight, ...]]:
    return await desk.draw_insights(request)


def _keep(turn: Turn, drawn: Outcome[tuple[Insight, ...]], entries: list[Entry]) -> None:
    """Keeps new insights that name evidence; each is as important as the best of it."""
    if drawn.value is None:
        turn.write("reflection", "No insight comes of it.", drawn.failure)
        return
    stream = turn.person.stream
    known = {entry.text for entry in stream.of(EntryKind.REFLECTION)}
    for insight in drawn.value:
        evidence = [entries[k] for k in insight.evidence if 0 <= k < len(entries)]
        if not evidence or insight.text in known:
            continue
        known.add(insight.text)
        stream.add(
            EntryKind.REFLECTION,
            insight.text,
            turn.now,
            max(entry.importance for entry in evidence),
            tuple(entry.number for entry in evidence),
        )
        turn.write("reflection", insight.text)
