"""Metrics of what a policy says of itself: null, never 0, where it says nothing (D1, †)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from voville_env.core.codes import Instruction, Rule, rules_in
from voville_env.metrics.episode import Episode, Verdict
from voville_env.metrics.values import (
    TREL,
    Case,
    MetricValue,
    Unit,
    correlation,
    deviation,
    mean,
    mean_rate,
    nothing,
    share,
)

NO_RECORDS = "no policy records"
ALIASES: dict[Rule, tuple[str, ...]] = {
    Rule.RED_LIGHT: ("red light", "red signal", "signal", "traffic light"),
    Rule.ONE_WAY: ("one-way", "wrong-way", "direction"),
    Rule.CROSSWALK_ONLY: ("crosswalk", "jaywalk", "crossing"),
    Rule.CORDON: ("cordon",),
    Rule.PRIVATE_BUILDING: ("private", "building"),
    Rule.PROPERTY: ("property", "bicycle", "vehicle"),
    Rule.PERSONAL_SPACE: ("personal space", "push"),
}
OFFICER = ("officer", "police", "authority", "instruct", "to1", "to2")


def _mentions(text: str, words: Iterable[str]) -> bool:
    lowered = re.sub(r"\s+", " ", text.lower())
    return any(word in lowered for word in words)


def _given(episode: Episode) -> list[Verdict]:
    """Verdicts that a model gave; a fallback is nobody's opinion."""
    return [verdict for verdict in episode.verdicts if not verdict.fallback]


def vr_cafe_verdict(episode: Episode, unit: Unit) -> MetricValue:
    """VR_cafe_verdict: verdicts to violate ÷ verdict ticks, the paper's own wording.

    Args:
        episode: The episode.
        unit: Verdict: one person and tick.

    Returns:
        Mean over attendees, on rules R1 to R3 in the fire window.
    """
    if not episode.verdicts:
        return nothing(NO_RECORDS)
    ticks: dict[tuple[int, int, int], bool] = defaultdict(bool)
    for v in _given(episode):
        if v.agent in episode.attendees and episode.in_window(v.day, v.tick) and v.rules & TREL:
            ticks[v.agent, v.day, v.tick] |= v.violates
    return mean_rate([Case(key[0], hit) for key, hit in sorted(ticks.items())], "no verdict")


def legitimacy_correlation(episode: Episode, unit: Unit) -> MetricValue:
    """Correlation of legitimacy with the decision to violate (MET-02, C-53).

    Args:
        episode: The episode.
        unit: Verdict.

    Returns:
        Point-biserial r over verdicts; `agent_means` over agents' means, `binned` over ten-point
        bins of legitimacy.
    """
    if not episode.verdicts:
        return nothing(NO_RECORDS)
    verdicts = _given(episode)
    scores = [float(v.legitimacy) for v in verdicts]
    decisions = [float(v.violates) for v in verdicts]
    extra = {
        "agent_means": _grouped(verdicts, [v.agent for v in verdicts]),
        "binned": _grouped(verdicts, [(v.legitimacy - 1) // 10 for v in verdicts]),
    }
    found = correlation(scores, decisions)
    if found is None:
        return MetricValue(None, None, None, 0, "legitimacy or decision is constant", extra)
    return MetricValue(found, None, None, len(verdicts), None, extra)


def _grouped(verdicts: Sequence[Verdict], keys: Sequence[int]) -> float | None:
    groups: dict[int, list[Verdict]] = defaultdict(list)
    for key, verdict in zip(keys, verdicts, strict=True):
        groups[key].append(verdict)
    ordered = [groups[key] for key in sorted(groups)]
    return correlation(
        [mean([float(v.legitimacy) for v in group]) for group in ordered],
        [mean([float(v.violates) for v in group]) for group in ordered],
    )


def names_rule(episode: Episode, unit: Unit, *, every: bool) -> MetricValue:
    """Justification names the rule (MET-02): share of verdicts to violate whose reason says which.

    Args:
        episode: The episode.
        unit: Verdict.
        every: Whether all targeted rules must be named, rather than one.

    Returns:
        A share of verdicts.
    """
    if not episode.verdicts:
        return nothing(NO_RECORDS)
    verdicts = [v for v in _given(episode) if v.violates and v.rules]
    combine = all if every else any
    named = sum(
        combine(_mentions(v.justification, ALIASES[rule]) for rule in rules_in(v.rules))
        for v in verdicts
    )
    return share(named, len(verdicts), "no verdict to violate")


def references_officer(episode: Episode, unit: Unit) -> MetricValue:
    """Justification references the officer (MET-02): verdicts to comply near authority that say so.

    Args:
        episode: The episode.
        unit: Verdict.

    Returns:
        A share of the verdicts to comply, in the fire window, with an officer in sight or an
        instruction in force.
    """
    if not episode.verdicts:
        return nothing(NO_RECORDS)
    ordered = {(r.agent, r.day, r.tick) for r in episode.rows if r.instruction != Instruction.NONE}
    for order in episode.orders:
        for tick in range(order.tick, order.tick + order.valid_ticks):
            ordered.add((order.agent, order.day, tick))
    ids = tuple(str(officer).lower() for officer in episode.header["officers"])
    verdicts = [
        v
        for v in _given(episode)
        if not v.violates
        and episode.in_window(v.day, v.tick)
        and ((v.agent, v.day, v.tick) in ordered or _in_sight(episode, v))
    ]
    said = sum(_mentions(v.justification, (*OFFICER, *ids)) for v in verdicts)
    return share(said, len(verdicts), "no verdict to comply near authority")


def _in_sight(episode: Episode, verdict: Verdict) -> bool:
    state = episode.state_at(verdict.agent, (verdict.day, verdict.tick))
    return state is not None and state.officer_in_sight


def gate_leak(episode: Episode, unit: Unit) -> MetricValue:
    """Gate leak: the model said violate below the threshold ÷ verdicts below the threshold.

    Args:
        episode: The episode.
        unit: Verdict.

    Returns:
        A share; null without a gate.
    """
    if not episode.verdicts:
        return nothing(NO_RECORDS)
    gated = [v for v in _given(episode) if not v.gate_open]
    return share(sum(v.gate_leak for v in gated), len(gated), "no verdict met a closed gate")


def fallback_share(episode: Episode, unit: Unit) -> MetricValue:
    """Decisions that no model gave ÷ decisions asked for (LLM-04): verdicts, else reactions.

    Args:
        episode: The episode.
        unit: Verdict.

    Returns:
        A share.
    """
    asked = [reaction for reaction in episode.reactions if reaction.asked]
    decided = [item.fallback for item in episode.verdicts or asked]
    return share(sum(decided), len(decided), NO_RECORDS)


def list_beyond(episode: Episode, unit: Unit) -> MetricValue:
    """Verdicts whose action list breaks more than they target ÷ verdicts with a list to carry out.

    Args:
        episode: The episode.
        unit: Verdict.

    Returns:
        A share, counted whether or not a gate in code stops it; null where the planner acts.
    """
    if not episode.verdicts:
        return nothing(NO_RECORDS)
    lists = [v for v in episode.verdicts if v.beyond is not None]
    return share(sum(v.beyond != 0 for v in lists), len(lists), "no action list is carried out")


def list_fallback(episode: Episode, unit: Unit) -> MetricValue:
    """Fresh verdicts without an action list of their own that could be used ÷ fresh verdicts.

    Args:
        episode: The episode.
        unit: Verdict.

    Returns:
        A share.
    """
    if not episode.verdicts:
        return nothing(NO_RECORDS)
    fresh = [v for v in episode.verdicts if not v.reused]
    return share(sum(v.list_fallback for v in fresh), len(fresh), "no fresh verdict")


def importance_gap(episode: Episode, unit: Unit) -> MetricValue:
    """Importance gap (MET-03, Table 2): severity less importance of the same fire events.

    Args:
        episode: The episode.
        unit: Event.

    Returns:
        The difference of the means, with mean, sd and modal decade of both.
    """
    if not episode.importance:
        return nothing(NO_RECORDS)
    fires = [
        event
        for event in episode.importance
        if event.severity and "fire" in event.description.lower()
    ]
    if not fires:
        return nothing("no fire rated")
    # What stands in for a rating is nobody's.
    pairs = [(float(e.severity or 0), float(e.rescaled)) for e in fires if not e.fallback]
    if not pairs:
        return nothing("only fallbacks")
    severity, rating = [s for s, _ in pairs], [r for _, r in pairs]
    extra = {
        "severity_mean": mean(severity),
        "severity_sd": deviation(severity),
        "severity_mode": _modal_decade(severity),
        "importance_mean": mean(rating),
        "importance_sd": deviation(rating),
        "importance_mode": _modal_decade(rating),
    }
    return MetricValue(mean(severity) - mean(rating), None, None, len(pairs), None, extra)


def _modal_decade(values: Sequence[float]) -> float:
    """Lower end of the fullest decade; the lowest of several."""
    decades = Counter(int(value // 10) * 10 for value in values)
    return float(min(decades, key=lambda decade: (-decades[decade], decade)))
