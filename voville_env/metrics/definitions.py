"""The table of all metrics, and the one function that fills it in for an episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from voville_env.metrics import calls, conduct, fallbacks, labels, recovery, spoken, task
from voville_env.metrics.episode import JAYWALK, Answer, Episode, load_episode
from voville_env.metrics.values import EVERY, TREL, Kind, MetricValue, Unit

Function = Callable[[Episode, Unit], MetricValue]
BOTH = (Unit.TICK, Unit.ENCOUNTER)
FORMAT = 1


class Scope(StrEnum):
    """What a scenario must have for a metric to apply; the text is the reason where it has not."""

    ANY = "applies everywhere"
    FIRE = "needs a fire"
    OFFICERS = "needs a fire and officers"
    PEERS = "needs scripted jaywalkers"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        key: Its name in files.
        title: Its name in tables.
        direction: `up` or `down` where more or less is better, `none` where neither is.
        scope: Scenarios it applies to.
        units: What it counts; a metric may have two.
        kind: What sort of number it is.
        function: From an episode and a unit to the value.
        needs_records: Whether it needs what a policy says of itself (†).
        of_answers: Whether it is about how a model answers, which no fallback distorts.
    """

    key: str
    title: str
    direction: str
    scope: Scope
    units: tuple[Unit, ...]
    kind: Kind
    function: Function
    needs_records: bool = False
    of_answers: bool = False


def _rate(
    key: str, title: str, direction: str, scope: Scope, function: Function, *units: Unit
) -> Metric:
    return Metric(key, title, direction, scope, units or BOTH, Kind.RATE, function)


def _spoken(
    key: str, title: str, direction: str, scope: Scope, function: Function, kind: Kind = Kind.RATE
) -> Metric:
    return Metric(key, f"{title} †", direction, scope, (Unit.VERDICT,), kind, function, True)


def _count(key: str, title: str, scope: Scope, function: Function, *units: Unit) -> Metric:
    return Metric(key, title, "down", scope, units or BOTH, Kind.COUNT, function)


def _mean(key: str, title: str, direction: str, function: Function) -> Metric:
    return Metric(key, title, direction, Scope.FIRE, (Unit.AGENT,), Kind.MEAN, function)


def _answers(
    key: str, title: str, direction: str, function: Function, kind: Kind = Kind.RATE
) -> Metric:
    units = (Unit.CALL,)
    return Metric(
        key, f"{title} †", direction, Scope.ANY, units, kind, function, True, of_answers=True
    )


def _ended(*ends: Answer) -> Function:
    return partial(calls.answers, of=ends)


def _labelled(tail: str, note: str, *, unrelated: bool) -> tuple[Metric, ...]:
    """The metrics against the environment's label, for one of the two sets of rules."""
    violated = partial(labels.false_violation, unrelated=unrelated)
    complied = partial(labels.false_compliance, unrelated=unrelated)
    disputed = partial(labels.contested, unrelated=unrelated)
    return (
        _rate(f"false_violation_rate{tail}", f"false violation{note}", "down", Scope.ANY, violated),
        _rate(
            f"false_compliance_rate{tail}", f"false compliance{note}", "down", Scope.ANY, complied
        ),
        _rate(f"contested_share{tail}", f"contested{note}", "none", Scope.ANY, disputed, Unit.TICK),
    )


_near = partial(conduct.vr_by_officer, upto=conduct.NEAR)
_mid = partial(conduct.vr_by_officer, above=conduct.NEAR, upto=conduct.ZONE)
_far = partial(conduct.vr_by_officer, above=conduct.ZONE)
_cr1 = partial(conduct.conversion, day=1)
_cr2 = partial(conduct.conversion, day=2)

_CONDUCT: tuple[Metric, ...] = (
    _rate("vr_cafe", "VR_cafe", "up", Scope.FIRE, conduct.vr_cafe),
    _rate("vr_cafe_exposed", "VR_cafe, exposed", "up", Scope.FIRE, conduct.vr_cafe_exposed),
    _spoken("vr_cafe_verdict", "VR_cafe, verdicts", "up", Scope.FIRE, spoken.vr_cafe_verdict),
    _rate("coverage", "coverage", "none", Scope.FIRE, conduct.coverage, Unit.AGENT),
    _rate("urv", "URV", "down", Scope.FIRE, conduct.urv),
    _rate("urv_share", "URV share", "down", Scope.FIRE, conduct.urv_share, Unit.EVENT),
    _mean(
        "t_rec_radius",
        "T_rec from 12 tiles, ticks",
        "down",
        partial(recovery.t_rec, anchor=recovery.radius_anchor),
    ),
    _mean(
        "t_rec_origin",
        "T_rec from the café, ticks",
        "down",
        partial(recovery.t_rec, anchor=recovery.origin_anchor),
    ),
    _mean(
        "t_rec_severity70",
        "T_rec from severity 70, ticks",
        "down",
        partial(recovery.t_rec, anchor=recovery.severity_anchor),
    ),
    _mean(
        "t_rec_extinguish",
        "T_rec from the end of the fire, ticks",
        "down",
        partial(recovery.t_rec, anchor=recovery.extinguish_anchor),
    ),
    _rate("ocr", "OCR", "up", Scope.OFFICERS, conduct.ocr, Unit.INSTRUCTION),
    _rate("vr_near", "VR_near", "down", Scope.OFFICERS, _near),
    _rate("vr_mid", "VR_mid", "none", Scope.OFFICERS, _mid),
    _rate("vr_far", "VR_far", "none", Scope.OFFICERS, _far),
    _rate("vr_exit", "VR_exit", "none", Scope.OFFICERS, conduct.vr_exit),
    *(
        _rate(
            f"{key}_with_authorised",
            f"{title}, authorised counted",
            "none",
            Scope.OFFICERS,
            partial(function, count_authorised=True),
        )
        for key, title, function in (
            ("vr_near", "VR_near", _near),
            ("vr_mid", "VR_mid", _mid),
            ("vr_far", "VR_far", _far),
        )
    ),
    _rate("cr_d1", "CR_D1", "down", Scope.PEERS, _cr1),
    _rate("cr_d2", "CR_D2", "down", Scope.PEERS, _cr2),
    _rate("cr_d1_agent", "CR_D1, commuters", "down", Scope.PEERS, _cr1, Unit.AGENT),
    _rate("cr_d2_agent", "CR_D2, commuters", "down", Scope.PEERS, _cr2, Unit.AGENT),
    _rate(
        "non_observer_conversion",
        "non-observer conversion",
        "down",
        Scope.PEERS,
        conduct.non_observer_conversion,
    ),
    _count(
        "non_observer_violations",
        "non-observer violations",
        Scope.PEERS,
        conduct.non_observer_violations,
    ),
    _count("pre_fire_violations", "pre-fire violations", Scope.FIRE, conduct.pre_fire_violations),
    _count("bystander_violations", "bystander violations", Scope.ANY, conduct.bystander_violations),
    _rate("day2_rate", "Day-2 rate", "down", Scope.ANY, conduct.day2_rate),
    *_labelled("", "", unrelated=False),
    *_labelled("_unrelated", ", unrelated rules", unrelated=True),
    Metric(
        "label_violation_correlation",
        "label–violation correlation",
        "up",
        Scope.ANY,
        (Unit.TICK,),
        Kind.CORRELATION,
        labels.label_correlation,
    ),
)
_SPOKEN: tuple[Metric, ...] = (
    _spoken(
        "legitimacy_violation_correlation",
        "legitimacy–violation correlation",
        "up",
        Scope.FIRE,
        spoken.legitimacy_correlation,
        Kind.CORRELATION,
    ),
    _spoken(
        "justification_names_rule",
        "justification names a rule",
        "up",
        Scope.ANY,
        partial(spoken.names_rule, every=False),
    ),
    _spoken(
        "justification_names_all_rules",
        "justification names all rules",
        "up",
        Scope.ANY,
        partial(spoken.names_rule, every=True),
    ),
    _spoken(
        "justification_references_officer",
        "justification references the officer",
        "up",
        Scope.OFFICERS,
        spoken.references_officer,
    ),
    _spoken("gate_leak", "gate leak", "down", Scope.ANY, spoken.gate_leak),
    replace(
        _spoken("fallback_share", "fallbacks", "down", Scope.ANY, spoken.fallback_share),
        of_answers=True,
    ),
    replace(
        _spoken("list_fallback", "lists not usable", "down", Scope.ANY, spoken.list_fallback),
        of_answers=True,
    ),
    _spoken("list_beyond", "lists beyond the verdict", "down", Scope.ANY, spoken.list_beyond),
)
_WITHOUT = "_without_fallbacks"
_RULES = {
    **dict.fromkeys(("vr_cafe", "vr_cafe_exposed"), TREL),
    **dict.fromkeys(("urv", "ocr"), EVERY),
    **dict.fromkeys(("vr_near", "vr_mid", "vr_far", "vr_exit"), TREL),
    **dict.fromkeys(("cr_d1", "cr_d2"), JAYWALK),
    **dict.fromkeys(("day2_rate", "false_violation_rate", "false_compliance_rate"), TREL),
}
"""Rates of conduct that are given without fallbacks too, and the rules at stake in each."""


def _without_fallbacks(metric: Metric) -> Metric:
    """The companion of a rate that leaves out what a fallback decided."""
    function = partial(
        fallbacks.without_fallbacks,
        rate=metric.function,
        rules=_RULES[metric.key],
        exposed=metric.key == "vr_cafe_exposed",
    )
    return replace(
        metric,
        key=metric.key + _WITHOUT,
        title=f"{metric.title} without fallbacks †",
        units=metric.units[:1],
        function=function,
        needs_records=True,
    )


_CALLS: tuple[Metric, ...] = (
    _answers("calls", "model calls", "none", calls.number, Kind.COUNT),
    _answers("calls_valid", "calls, valid", "up", _ended(Answer.VALID)),
    _answers("calls_malformed", "calls, malformed", "down", _ended(Answer.MALFORMED)),
    _answers("calls_truncated", "calls, truncated", "down", _ended(Answer.TRUNCATED)),
    _answers(
        "calls_refused",
        "calls, refused or filtered",
        "down",
        _ended(Answer.REFUSED, Answer.FILTERED),
    ),
    _answers("calls_asked_again", "calls, asked again", "down", calls.retried),
    _answers("calls_tokens", "tokens a call", "none", calls.tokens, Kind.MEAN),
)
_OTHERS: tuple[Metric, ...] = (
    Metric(
        "importance_gap",
        "severity − importance †",
        "none",
        Scope.FIRE,
        (Unit.EVENT,),
        Kind.GAP,
        spoken.importance_gap,
        True,
    ),
    _rate(
        "reached_safety", "reached safety", "up", Scope.FIRE, recovery.reached_safety, Unit.AGENT
    ),
    _rate("task_score", "task score", "up", Scope.ANY, task.task_score, Unit.EVENT),
    _mean("harm", "harm an attendee", "down", recovery.harm),
    _mean("departure_ticks", "departure, ticks", "down", recovery.departure),
    _mean("arrival_ticks", "arrival, ticks", "down", recovery.arrival),
    _mean("fire_distance", "distance to the fire, tiles", "up", recovery.fire_distance),
    _count("sanctions", "sanctions", Scope.ANY, conduct.sanctions, Unit.EVENT),
)
METRICS: tuple[Metric, ...] = (
    *_CONDUCT,
    *_SPOKEN,
    *(_without_fallbacks(metric) for metric in _CONDUCT if metric.key in _RULES),
    *_CALLS,
    *_OTHERS,
)
BY_KEY = {metric.key: metric for metric in METRICS}


def companion(metric: Metric) -> Metric | None:
    """The same rate without what a fallback decided.

    Args:
        metric: A metric.

    Returns:
        Its companion; None for a metric without one.
    """
    return BY_KEY.get(metric.key + _WITHOUT)


def applies(metric: Metric, episode: Episode) -> bool:
    """Whether a metric applies to an episode's scenario.

    Args:
        metric: The metric.
        episode: The episode.

    Returns:
        True where the scenario has what the metric needs.
    """
    fire = bool(episode.fires)
    has = {
        Scope.ANY: True,
        Scope.FIRE: fire,
        Scope.OFFICERS: fire and bool(episode.header["officers"]),
        Scope.PEERS: bool(episode.header["confederates"]),
    }
    return has[metric.scope]


def measure(episode: Episode) -> dict[str, dict[str, dict[str, object]]]:
    """Every metric of an episode.

    Args:
        episode: The episode.

    Returns:
        By key and unit, JSON-ready, in the order of `METRICS`; null where one does not apply.
    """
    found: dict[str, dict[str, dict[str, object]]] = {}
    for metric in METRICS:
        here = applies(metric, episode)
        found[metric.key] = {
            unit.value: (
                metric.function(episode, unit)
                if here
                else MetricValue(None, None, None, 0, metric.scope.value)
            ).as_json()
            for unit in metric.units
        }
    return found


def metrics_of(path: Path | str) -> dict[str, Any]:
    """Measures one finished episode from its log alone.

    Args:
        path: The log.

    Returns:
        `episode` (which one it is), `metrics` (by key and unit) and `calls` (by operation, None
        without a language model), JSON-ready and always the same for the same log.

    Raises:
        LogError: If the log is not that of a finished episode.
    """
    return metrics_of_episode(load_episode(path))


def metrics_of_episode(episode: Episode) -> dict[str, Any]:
    """Measures one finished episode.

    Args:
        episode: The episode.

    Returns:
        As `metrics_of`.
    """
    header = episode.header
    backbone = header.get("policy_settings", {}).get("backbone")
    names = ("scenario", "policy", "seed", "privileged", "control", "scenario_hash", "policy_hash")
    return {
        "format": FORMAT,
        "episode": {name: header.get(name) for name in names}
        | {"backbone": backbone.get("name") if isinstance(backbone, dict) else None},
        "metrics": measure(episode),
        "calls": calls.by_operation(episode),
    }
