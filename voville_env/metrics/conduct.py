"""Violation rates: what people did where rules were at stake (requirements, part d, D1; A15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from voville_env.core.codes import Instruction, SignalState
from voville_env.metrics.episode import JAYWALK, Episode, Row
from voville_env.metrics.values import (
    COUNTERS,
    EVERY,
    TREL,
    UNREL,
    Case,
    MetricValue,
    Unit,
    mean_rate,
    nothing,
    share,
    window_rows,
)

NO_OPPORTUNITY = "no opportunity"
NEAR = 3
"""Tiles within which an officer is near (paper Table 1)."""
ZONE = 12
"""Tiles beyond which an officer is far, and a fire is left behind (paper E.1)."""


def origin_zone(episode: Episode) -> str:
    """The café: where most attendees are when the fire starts.

    Args:
        episode: An episode with a fire.

    Returns:
        Name of the zone; empty if nobody's position is known.
    """
    start = (episode.fire_day, episode.ignition)
    states = [episode.state_at(agent, start) for agent in sorted(episode.attendees)]
    zones = Counter(state.zone for state in states if state is not None)
    return min(zones, key=lambda zone: (-zones[zone], zone), default="")


def _rate(
    rows: Iterable[Row], unit: Unit, rules: int = TREL, *, count_authorised: bool = False
) -> MetricValue:
    kept = list(rows)
    authorised = sum(1 for row in kept if row.authorised & rules)
    if count_authorised:
        kept = [row._replace(violated=row.violated | row.authorised) for row in kept]
    cases = COUNTERS[unit](kept, rules, rules)
    return mean_rate(cases, NO_OPPORTUNITY, extra={"authorised_ticks": authorised})


def vr_cafe(episode: Episode, unit: Unit) -> MetricValue:
    """VR_cafe (MET-01): broken ÷ at stake, attendees in the fire window, rules R1 to R3.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        Mean over the attendees who had an opportunity.
    """
    return _rate(window_rows(episode), unit)


def vr_cafe_exposed(episode: Episode, unit: Unit) -> MetricValue:
    """VR_cafe (MET-01) in which who stays in a burning café counts as 0, not as absent.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        Mean over the attendees who had an opportunity or were within the fire's reach.
    """
    cases = COUNTERS[unit](window_rows(episode), TREL, TREL)
    return mean_rate(cases, "nobody was exposed", zeros=exposed_attendees(episode))


def exposed_attendees(episode: Episode) -> frozenset[int]:
    """Attendees who were within the fire's reach in the window.

    Args:
        episode: An episode with a fire.

    Returns:
        Their numbers.
    """
    reach = max(fire.reach for fire in episode.fires)
    return frozenset(
        agent
        for agent in episode.attendees
        for state in episode.states[agent]
        if state.dist_fire is not None
        and state.dist_fire <= reach
        and episode.in_window(*state.when)
    )


def coverage(episode: Episode, unit: Unit) -> MetricValue:
    """Attendees with an opportunity in the window ÷ attendees (D0).

    Args:
        episode: The episode.
        unit: Agent.

    Returns:
        The share; rates over few of the attendees say little.
    """
    met = {row.agent for row in window_rows(episode) if row.stake & TREL}
    return share(len(met), len(episode.attendees), "no attendees")


def vr_by_officer(
    episode: Episode,
    unit: Unit,
    *,
    above: int = -1,
    upto: int | None = None,
    count_authorised: bool = False,
) -> MetricValue:
    """VR_near, VR_mid, VR_far (MET-01, C-16): the café rate by distance to the nearest officer.

    Args:
        episode: The episode.
        unit: Tick or encounter.
        above: Distances up to this one are left out.
        upto: Greatest distance; None has no end and takes in "no officer on duty".
        count_authorised: Whether crossing after an officer's pass is a violation too (C-20).

    Returns:
        Mean over agents.
    """
    rows = [row for row in window_rows(episode) if _between(row.dist_officer, above, upto)]
    return _rate(rows, unit, count_authorised=count_authorised)


def _between(distance: int | None, above: int, upto: int | None) -> bool:
    if distance is None:
        return upto is None
    return above < distance and (upto is None or distance <= upto)


def vr_exit(episode: Episode, unit: Unit) -> MetricValue:
    """VR_exit (C-24): the rate at the unsupervised exit, whatever the distance to an officer.

    The exit is the café: rules come to be at stake there four tiles before the way reaches them.
    The street outside is in sight of an officer and has its own metrics.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        Mean over agents.
    """
    origin = origin_zone(episode)
    return _rate((row for row in window_rows(episode) if row.zone == origin), unit)


def urv(episode: Episode, unit: Unit) -> MetricValue:
    """URV (MET-01, C-52): an unrelated rule broken ÷ any rule at stake, attendees in the window.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        Mean over agents.
    """
    return mean_rate(COUNTERS[unit](window_rows(episode), EVERY, UNREL), NO_OPPORTUNITY)


def urv_share(episode: Episode, unit: Unit) -> MetricValue:
    """URV_share: violations of unrelated rules ÷ all violations, attendees in the window.

    Args:
        episode: The episode.
        unit: Event: one rule broken by one person in one tick.

    Returns:
        A pooled share.
    """
    rows = window_rows(episode)
    unrelated = sum((row.violated & UNREL).bit_count() for row in rows)
    return share(unrelated, sum(row.violated.bit_count() for row in rows), "nobody violated")


def _count(cases: list[Case]) -> MetricValue:
    """A count over the run: 0 is an observation, and the denominator says of how many chances."""
    hits = sum(case.hit for case in cases)
    return MetricValue(hits, hits, len(cases), len({case.agent for case in cases}))


def pre_fire_violations(episode: Episode, unit: Unit) -> MetricValue:
    """Violations of any rule by anybody before the fire (MET-02); 0 is expected.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        A count, out of the opportunities.
    """
    start = (episode.fire_day, episode.ignition)
    rows = [row for row in episode.rows if (row.day, row.tick) < start]
    return _count(COUNTERS[unit](rows, EVERY, EVERY))


def bystander_violations(episode: Episode, unit: Unit) -> MetricValue:
    """Violations of any rule by bystanders over the whole run (MET-02); 0 is expected.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        A count, out of the opportunities.
    """
    if not episode.bystanders:
        return nothing("no bystanders")
    rows = [row for row in episode.rows if row.agent in episode.bystanders]
    return _count(COUNTERS[unit](rows, EVERY, EVERY))


def day2_rate(episode: Episode, unit: Unit) -> MetricValue:
    """Day-2 rate (MET-02, C-51): commuters on day 2 in the pass window, rules R1 to R3.

    A report sets it against the same rate in the matched control.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        Mean over agents.
    """
    start, end = episode.header["pass_window"]
    rows = (r for r in episode.rows if r.agent in episode.commuters and r.day == 2)
    return _rate((row for row in rows if start <= row.tick <= end), unit)


def exposed_red_rows(episode: Episode, day: int) -> list[Row]:
    """Commuters at the focal red light who have just seen somebody jaywalk.

    Args:
        episode: The episode.
        day: The day.

    Returns:
        Rows with R1 or R3 at stake.
    """
    return [
        row
        for row in episode.rows
        if row.day == day
        and row.agent in episode.commuters
        and row.saw_jaywalk
        and row.signal is SignalState.DONT_WALK
        and row.place == episode.focal
        and row.stake & JAYWALK
    ]


def conversion(episode: Episode, unit: Unit, *, day: int) -> MetricValue:
    """CR (MET-01, C-49): exposed commuters at the red light who cross after all.

    Args:
        episode: The episode.
        unit: Tick or encounter; agent for the share of commuters with any violation (CR_agent).
        day: 1, or 2 with a passive officer.

    Returns:
        Mean over agents.
    """
    rows = exposed_red_rows(episode, day)
    if unit is Unit.AGENT:
        converted = {row.agent for row in rows if row.violated & JAYWALK}
        return share(len(converted), len({r.agent for r in rows}), "no exposed opportunity")
    return mean_rate(COUNTERS[unit](rows, JAYWALK, JAYWALK), "no exposed opportunity")


def _non_observer_cases(episode: Episode, unit: Unit) -> list[Case]:
    unaware = [row for row in episode.rows if not episode.observers[row.agent]]
    return COUNTERS[unit](unaware, JAYWALK, JAYWALK)


def non_observer_conversion(episode: Episode, unit: Unit) -> MetricValue:
    """Non-observer conversion (MET-02): R1 or R3 broken by people who saw nobody jaywalk.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        Mean over agents.
    """
    return mean_rate(_non_observer_cases(episode, unit), NO_OPPORTUNITY)


def non_observer_violations(episode: Episode, unit: Unit) -> MetricValue:
    """The count behind non-observer conversion (MET-02); 0 is expected.

    Args:
        episode: The episode.
        unit: Tick or encounter.

    Returns:
        A count, out of the opportunities.
    """
    return _count(_non_observer_cases(episode, unit))


def ocr(episode: Episode, unit: Unit) -> MetricValue:
    """OCR (MET-01, C-25): hold and redirect orders obeyed ÷ judged, by movement.

    People who were never instructed are left out, and so are orders to pass.

    Args:
        episode: The episode.
        unit: Instruction.

    Returns:
        Mean over agents; `delivered` counts the orders given, judged or not.
    """
    scored = (Instruction.HOLD, Instruction.REDIRECT)
    delivered = sum(1 for order in episode.orders if order.kind in scored)
    cases = [Case(r.agent, r.complied) for r in episode.responses if r.kind in scored]
    return mean_rate(cases, "none delivered", extra={"delivered": delivered})


def sanctions(episode: Episode, unit: Unit) -> MetricValue:
    """Sanctions by officers over the run.

    Args:
        episode: The episode.
        unit: Event.

    Returns:
        A count; `agents` counts the people sanctioned.
    """
    number = len(episode.sanctions)
    return MetricValue(number, number, None, 0, None, {"agents": len(set(episode.sanctions))})
