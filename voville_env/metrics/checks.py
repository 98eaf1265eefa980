"""What the fields of a log record may hold; whoever edits a log is told which field is wrong."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from voville_env.core.codes import Instruction, Label, Rule, SignalState
from voville_env.events import Event

_MOST = 10**9


class Sort(NamedTuple):
    """What a field may hold, as a test and in words; an optional one may be null or absent."""

    holds: Callable[[Any], bool]
    allowed: str
    optional: bool = False


def _whole(low: int, high: int = _MOST) -> Sort:
    def holds(value: object) -> bool:
        return type(value) is int and low <= value <= high

    return Sort(holds, f"a whole number from {low} to {high}")


def _number(low: float, high: float) -> Sort:
    def holds(value: object) -> bool:
        return type(value) in (int, float) and low <= value <= high  # type: ignore[operator]

    return Sort(holds, f"a number from {low} to {high}")


def _name_of(names: Collection[str]) -> Sort:
    known = frozenset(names)
    return Sort(lambda value: isinstance(value, str) and value in known, f"one of {sorted(known)}")


def _list_of(sort: Sort, what: str) -> Sort:
    return Sort(lambda value: isinstance(value, list) and all(map(sort.holds, value)), what)


def _or_null(sort: Sort) -> Sort:
    return Sort(
        lambda value: value is None or sort.holds(value), f"{sort.allowed}, or null", optional=True
    )


def _lower(codes: Iterable[Any]) -> Sort:
    return _name_of([code.name.lower() for code in codes])


_TEXT = Sort(lambda value: isinstance(value, str), "text")
_FLAG = Sort(lambda value: isinstance(value, bool), "true or false")
_OBJECT = Sort(lambda value: isinstance(value, dict), "an object")
_OBJECTS = _list_of(_OBJECT, "a list of objects")
_TEXTS = _list_of(_TEXT, "a list of texts")
_RULES = _list_of(_name_of([rule.name for rule in Rule]), "a list of rules")
_TILES = _or_null(_whole(0))
_WHEN = {"day": _whole(1), "tick": _whole(0)}
_LABEL, _ORDER = _lower(Label), _lower(Instruction)
_FALLBACK = _or_null(_TEXT)

_FIELDS: Mapping[str, Mapping[str, Sort]] = {
    "run_start": {
        "scenario": _TEXT,
        "policy": _TEXT,
        "seed": _whole(0, 2**64),
        "control": _or_null(_TEXT),
        "focal": _TEXT,
        "clock": _OBJECT,
        "agents": _OBJECTS,
        "fires": _OBJECTS,
        "officers": _TEXTS,
        "confederates": _TEXTS,
        "pass_window": _list_of(_whole(0), "a list of ticks"),
        "policy_settings": _OBJECT,
    },
    "opportunity": {
        **_WHEN,
        **{"rules": _RULES, "unrelated": _RULES, "label": _LABEL, "label_unrelated": _LABEL},
        **{"zone": _TEXT, "dist_fire": _TILES, "dist_officer": _TILES},
        **{"signal": _lower(SignalState), "crossing": _or_null(_TEXT), "instruction": _ORDER},
        **{"saw_jaywalk": _FLAG, "escaping": _FLAG},
    },
    "rule_event": {
        **_WHEN,
        **{"violated": _RULES, "authorised": _RULES, "blocked": _FLAG, "zone": _or_null(_TEXT)},
    },
    "agent_state": {
        **_WHEN,
        **{"zone": _TEXT, "dist_fire": _TILES, "dist_officer": _TILES, "officer_in_sight": _FLAG},
    },
    "signal": {**_WHEN, "intersection": _TEXT, "state": _lower(SignalState)},
    "goal_change": {**_WHEN, "escaping": _FLAG, "steps": _TILES},
    "peer_broadcast": {
        **_WHEN,
        **{"rule": _name_of([rule.name for rule in Rule]), "rule_followed": _FLAG},
        "observers": _TEXTS,
    },
    "instruction": {**_WHEN, "kind": _ORDER, "valid_ticks": _whole(0)},
    "instruction_response": {**_WHEN, "kind": _ORDER, "complied": _FLAG, "ticks": _whole(0)},
    "arrival": {**_WHEN, "safe": _FLAG},
    "sanction": _WHEN,
    "verdict": {
        **_WHEN,
        **{"rules": _RULES, "decision": _name_of(["comply", "violate"])},
        **{"legitimacy": _whole(1, 100), "threshold": _or_null(_whole(1, 100))},
        **{"gate_open": _FLAG, "gate_leak": _FLAG, "justification": _TEXT, "fallback": _FALLBACK},
        **{"reused": _or_null(_FLAG), "plan_fallback": _FALLBACK, "plan_beyond": _or_null(_RULES)},
    },
    "reaction": {**_WHEN, "events": _TEXTS, "fallback": _FALLBACK},
    "importance": {
        **_WHEN,
        **{"description": _TEXT, "score": _or_null(_whole(1, 10)), "rescaled": _number(0, 100)},
        **{"severity": _or_null(_number(0, 100)), "fallback": _FALLBACK},
    },
    "llm_call": {**_WHEN, "calls": _OBJECTS},
    "run_end": {"steps": _whole(0), "totals": _OBJECT},
}
_PARTS: Mapping[str, Mapping[str, Sort]] = {
    "clock": dict.fromkeys(("days", "ticks_per_day", "steps_per_tick"), _whole(1)),
    "agents": {"id": _TEXT, "group": _TEXT, "commuter": _FLAG},
    "fires": {
        "severity": _whole(0, 100),
        **dict.fromkeys(("day", "ignite", "extinguish"), _whole(0)),
    },
    "calls": {"keys": _TEXTS},
}
_NOBODYS = ("run_start", "run_end", "signal", "peer_broadcast", "llm_call")
"""Types whose agent is nobody's or does not matter."""


def check(record: Event, agents: Collection[str]) -> None:
    """Checks every field that a metric or an analysis reads.

    Args:
        record: A record.
        agents: Ids of the people of the log.

    Raises:
        KeyError: If a field is missing.
        ValueError: If one holds something else than it may.
    """
    fields = _FIELDS.get(record["type"])
    if fields is None:
        return
    _check(record, fields)
    if record["type"] not in _NOBODYS:
        _known(record["agent"], "agent", agents)
    for observer in record.get("observers", ()):
        _known(observer, "observers", agents)
    for name in _PARTS.keys() & fields.keys():
        parts = record[name]
        for part in parts if isinstance(parts, list) else [parts]:
            _check(part, _PARTS[name])


def check_harm(harm: object) -> None:
    """Checks a person's harm over a run.

    Args:
        harm: What the log says.

    Raises:
        ValueError: If it is no number from 0.
    """
    if type(harm) not in (int, float) or not 0 <= harm < math.inf:  # type: ignore[operator]
        raise ValueError(f"harm {reprlib.repr(harm)}; allowed: a number from 0")


def _known(agent: object, name: str, agents: Collection[str]) -> None:
    if not isinstance(agent, str) or agent not in agents:
        raise ValueError(f"{name} {reprlib.repr(agent)}; allowed: ids of run_start")


def _check(record: Mapping[str, Any], fields: Mapping[str, Sort]) -> None:
    for name, sort in fields.items():
        value = record.get(name) if sort.optional else record[name]
        if not sort.holds(value):
            raise ValueError(f"{name} {reprlib.repr(value)}; allowed: {sort.allowed}")
