"""Rates of conduct without what a fallback decided, and how far it can have moved them (LLM-04).

A model that gives no usable verdict is made to comply, so an unusable model would look lawful. A
rate is therefore taken three times: without the cases that a fallback decided, and with all of them
for and against. Cases are ticks, or instructions: an encounter is never a fallback's alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace

from voville_env.core.codes import Instruction, Label, SignalState
from voville_env.metrics.episode import Episode, Response, Row
from voville_env.metrics.spoken import NO_RECORDS
from voville_env.metrics.values import MetricValue, Unit, nothing, window_rows

Rate = Callable[[Episode, Unit], MetricValue]
Tick = tuple[int, int, int]
"""Agent, day and tick."""
_CASE = Row(
    *(0, 0, 0, 0, 0, 0, False, Label.NONE, Label.NONE, "", None, None),
    *(SignalState.NONE, None, False, True, Instruction.NONE, False),
)


def without_fallbacks(
    episode: Episode, unit: Unit, *, rate: Rate, rules: int, exposed: bool = False
) -> MetricValue:
    """A rate of conduct without the ticks in which a fallback decided, and its bounds.

    A fallback verdict decides in its tick if it is about any of the rate's rules, and a fallback
    reaction until the person's next one; either decides an instruction in any tick between the
    order and the judgement of it.

    Args:
        episode: The episode.
        unit: Tick or instruction.
        rate: The rate.
        rules: Every rule that may be at stake in it.
        exposed: Whether it counts an attendee without an opportunity as 0; one who had nothing but
            fallbacks, or whom one kept from any opportunity, is then left out.

    Returns:
        The rate; `least` and `most` are what it is with those cases all for and all against.
    """
    if not episode.verdicts and not episode.reactions:
        return nothing(NO_RECORDS)
    fallen = {(v.agent, v.day, v.tick) for v in episode.verdicts if v.fallback and v.rules & rules}
    whole = rate(episode, unit)
    if exposed:
        episode = _with_the_kept(episode, rules)
    fallen |= _under_fallback_reaction(episode)
    rest, least, most = whole, whole.value, whole.value
    if fallen:
        left = _left(episode, fallen)
        if exposed:
            lost = _with_opportunity(episode, rules) - _with_opportunity(left, rules)
            left = replace(left, attendees=left.attendees - lost)
        rest = rate(left, unit)
        least, most = _bounds(episode, unit, rate, fallen, rules)
    number = (whole.denominator or 0) - (rest.denominator or 0)
    extra = {f"fallback_{unit}s": number, "least": least, "most": most}
    reason = "only fallbacks" if rest.value is None and whole.value is not None else rest.reason
    return replace(rest, reason=reason, extra=extra)


def _bounds(
    episode: Episode, unit: Unit, rate: Rate, fallen: set[Tick], rules: int
) -> tuple[float | None, float | None]:
    kept, broken = (
        rate(_as_if(episode, fallen, rules, kept=kept), unit).value for kept in (True, False)
    )
    if kept is None or broken is None:
        return None, None
    return min(kept, broken), max(kept, broken)


def _with_the_kept(episode: Episode, rules: int) -> Episode:
    """The episode with one case for each attendee whom a fallback reaction kept by the fire.

    Who stays there has no opportunity, and is counted as one who would not break a rule; under a
    fallback reaction nobody knows.
    """
    without = episode.attendees - _with_opportunity(episode, rules)
    spots = [
        (agent, *state.when)
        for agent in sorted(without)
        for state in episode.states[agent]
        if state.dist_fire is not None and episode.in_window(*state.when)
    ]
    spots += [r[:3] for r in episode.reactions if r.agent in without and episode.in_window(*r[1:3])]
    first = {spot[0]: spot for spot in sorted(_held(episode, spots), reverse=True)}
    added = [_CASE._replace(agent=a, day=d, tick=t, stake=rules) for a, d, t in first.values()]
    return replace(episode, rows=tuple(sorted((*episode.rows, *added), key=lambda row: row[:3])))


def _under_fallback_reaction(episode: Episode) -> set[Tick]:
    """The ticks that count in any rate and in which a fallback reaction held."""
    spots: list[Tick] = [row[:3] for row in episode.rows]
    for agent, day, last, *_, waited in episode.responses:
        spots += [(agent, day, tick) for tick in range(last - waited, last + 1)]
    return _held(episode, spots)


def _held(episode: Episode, spots: Iterable[Tick]) -> set[Tick]:
    """Those of some ticks in which a fallback reaction held."""
    starts = [reaction[:3] for reaction in episode.reactions]
    held = set()
    for spot in spots:
        number = bisect_right(starts, spot) - 1
        if number >= 0 and starts[number][0] == spot[0] and episode.reactions[number].fallback:
            held.add(spot)
    return held


def _left(episode: Episode, fallen: set[Tick]) -> Episode:
    """The episode without what a fallback decided."""
    return replace(
        episode,
        rows=tuple(row for row in episode.rows if row[:3] not in fallen),
        responses=tuple(r for r in episode.responses if not _decided(r, fallen)),
    )


def _as_if(episode: Episode, fallen: set[Tick], rules: int, *, kept: bool) -> Episode:
    """The episode in which all that a fallback decided was kept and obeyed, or none of it."""
    return replace(
        episode,
        rows=tuple(
            _row_as_if(row, rules, kept=kept) if row[:3] in fallen else row for row in episode.rows
        ),
        responses=tuple(
            r._replace(complied=kept) if _decided(r, fallen) else r for r in episode.responses
        ),
    )


def _row_as_if(row: Row, rules: int, *, kept: bool) -> Row:
    if kept:
        return row._replace(violated=0, authorised=0, blocked=False)
    return row._replace(violated=rules)


def _decided(response: Response, fallen: set[Tick]) -> bool:
    """Whether a fallback decided in any tick in which an instruction was carried out."""
    agent, day, last = response[:3]
    return any((agent, day, tick) in fallen for tick in range(last - response.ticks, last + 1))


def _with_opportunity(episode: Episode, rules: int) -> set[int]:
    return {row.agent for row in window_rows(episode) if row.stake & rules}
