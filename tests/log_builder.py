"""Writes small logs by hand, with the defaults that a metric test does not care about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voville_env.events import FORMAT, Event, write_lines

CAFE = "Hobbs Café"
FIRE = {"at": [32, 29], "severity": 95, "day": 1, "ignite": 50, "extinguish": 150}


class LogBuilder:
    """Collects the records of one episode."""

    def __init__(
        self,
        agents: str = "CC",
        *,
        bystanders: str = "",
        commuters: str = "CC",
        fire: bool = True,
        **header: Any,
    ) -> None:
        """Takes ids as words."""
        self.totals: dict[str, dict[str, float]] = {}
        people = []
        for group, ids in (("attendee", agents), ("bystander", bystanders)):
            for name in ids.split():
                commuter = name in commuters.split()
                people.append(
                    {
                        "id": name,
                        "name": name,
                        "group": group,
                        "threshold": 60,
                        "commuter": commuter,
                    }
                )
                self.totals[name] = {"reward": 0.0, "harm": 0.0}
        self.header: Event = {
            "type": "run_start",
            "format": FORMAT,
            "scenario": "fire_escape",
            "policy": "pave",
            "privileged": False,
            "seed": 0,
            "scenario_hash": "s",
            "policy_hash": "p",
            "policy_settings": {"backbone": {"name": "surrogate"}},
            "versions": {},
            "clock": {"days": 2, "ticks_per_day": 1000, "steps_per_tick": 4},
            "agents": people,
            "officers": [],
            "confederates": [],
            "fires": [FIRE] if fire else [],
            "focal": "cafe_crossing",
            "pass_window": [100, 200],
            "property": "",
            "control": "fire_escape_control",
            **header,
        }
        self.body: list[Event] = []

    def add(self, type_: str, agent: str | None, tick: int, day: int = 1, **fields: Any) -> None:
        who = {} if agent is None else {"agent": agent}
        self.body.append({"type": type_, "day": day, "tick": tick, **who, **fields})

    def state(self, agent: str, tick: int, **fields: Any) -> None:
        base: dict[str, Any] = {"at": [0, 0], "zone": CAFE, "dist_fire": None, "dist_officer": None}
        self.add("agent_state", agent, tick, **(base | {"officer_in_sight": False} | fields))

    def row(self, agent: str, tick: int, rules: str = "", broken: str = "", **fields: Any) -> None:
        """A tick with rules at stake and what became of them."""
        day = fields.pop("day", 1)
        authorised, blocked = fields.pop("authorised", "").split(), fields.pop("blocked", False)
        unrelated = fields.pop("unrelated", "").split()
        base: dict[str, Any] = {
            "at": [0, 0],
            "zone": "street",
            "dist_fire": None,
            "dist_officer": None,
            "label": "unwarranted" if rules else "none",
            "label_unrelated": "unwarranted" if unrelated else "none",
            "signal": "none",
            "crossing": None,
            "supervised": False,
            "saw_jaywalk": False,
            "escaping": False,
            "instruction": "none",
        }
        stake, violated = [*rules.split(), *unrelated], broken.split()
        if stake:
            rules_at_stake: dict[str, Any] = {"rules": rules.split(), "unrelated": unrelated}
            self.add("opportunity", agent, tick, day, **rules_at_stake, **(base | fields))
        self.add(
            "rule_event",
            agent,
            tick,
            day,
            violated=violated,
            complied=[rule for rule in stake if rule not in violated],
            authorised=authorised,
            blocked=blocked,
            moved=True,
        )

    def verdict(self, agent: str, tick: int, rules: str, decision: str, **fields: Any) -> None:
        base: dict[str, Any] = {
            "day": 1,
            "legitimacy": 80,
            "threshold": 60,
            "gate_open": True,
            "gate_leak": False,
            "justification": "",
            "confidence": 90,
            "fallback": None,
            "reused": False,
        }
        given = base | {"rules": rules.split(), "decision": decision} | fields
        self.add("verdict", agent, tick, **given)

    def order(
        self, agent: str, tick: int, *, complied: bool, ticks: int = 2, kind: str = "hold"
    ) -> None:
        """An officer's order, and what became of it some ticks later."""
        known: dict[str, Any] = {"officer": "TO1", "kind": kind, "id": 1}
        self.add("instruction", agent, tick, **known, valid_ticks=ticks + 1, distance=5)
        judged: dict[str, Any] = {"complied": complied, "ticks": ticks}
        self.add("instruction_response", agent, tick + ticks, **known, **judged)

    def call(self, operation: str = "assess_risk", outcome: str = "valid", **fields: Any) -> None:
        """A record of one model call."""
        call: dict[str, Any] = {
            "operation": operation,
            "outcome": outcome,
            "keys": ["k1"],
            "prompt_tokens": 100,
            "completion_tokens": 10,
        }
        if outcome != "valid":
            call |= {"detail": "no answer", "fallback": "comply"}
        rule_set = fields.pop("rule_set", "trigger_relevant")
        self.add("llm_call", "CC", 60, rule_set=rule_set, calls=[call | fields])

    def jaywalk(self, tick: int, observers: str, day: int = 1) -> None:
        self.add(
            "peer_broadcast",
            "J1",
            tick,
            day,
            behaviour="crossing on red",
            rule="RED_LIGHT",
            rule_followed=False,
            observers=observers.split(),
        )

    def records(self, ticks: int = 2000) -> list[Event]:
        end = {"type": "run_end", "steps": ticks * 4, "totals": self.totals}
        return [self.header, *self.body, end]

    def save(self, path: Path) -> Path:
        write_lines(path, self.records())
        return path
