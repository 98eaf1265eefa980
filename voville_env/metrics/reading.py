"""Collects log records and joins them into an `Episode`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from voville_env.core.codes import (
    TRIGGER_RELEVANT,
    UNRELATED,
    Instruction,
    Label,
    Rule,
    SignalState,
)
from voville_env.events import Event, LogError
from voville_env.metrics.checks import check, check_harm
from voville_env.metrics.episode import (
    EXPOSURE_TICKS,
    JAYWALK,
    Answer,
    Arrival,
    Call,
    Episode,
    Fallback,
    Fire,
    Goal,
    Importance,
    Operation,
    Order,
    Reaction,
    Response,
    Row,
    State,
    Verdict,
    When,
)

_Key = tuple[int, int, int]
_Timed = TypeVar("_Timed", bound=tuple[Any, ...])


class LogReader:
    """Takes the records of one log, in any order between the first and the last."""

    def __init__(self, header: Event, name: str) -> None:
        """Starts with the header.

        Args:
            header: The `run_start` record.
            name: What errors call the log.
        """
        self._header = header
        self._name = name
        try:
            check(header, ())
            self._agents: tuple[str, ...] = tuple(agent["id"] for agent in header["agents"])
            self._fires = tuple(
                Fire(fire["severity"], fire["day"], fire["ignite"], fire["extinguish"])
                for fire in header["fires"]
            )
            self._confederates = set(header["confederates"])
        except (KeyError, TypeError, ValueError) as error:
            raise LogError(f"{name}: run_start lacks or spoils {error}") from error
        self._index = {agent: i for i, agent in enumerate(self._agents)}
        self._chances: dict[_Key, Event] = {}
        self._outcomes: dict[_Key, Event] = {}
        self._states: list[list[State]] = [[] for _ in self._agents]
        self._signals: dict[str, list[tuple[When, SignalState]]] = defaultdict(list)
        self._escapes: list[list[tuple[When, bool]]] = [[] for _ in self._agents]
        self._observers: list[list[When]] = [[] for _ in self._agents]
        self._orders: list[Order] = []
        self._responses: list[Response] = []
        self._goals: list[Goal] = []
        self._arrivals: list[Arrival] = []
        self._sanctions: list[int] = []
        self._verdicts: list[Verdict] = []
        self._reactions: list[Reaction] = []
        self._importance: list[Importance] = []
        self._calls: list[Call] = []
        self._end: Event | None = None
        self._takers = self._by_type()

    def _by_type(self) -> dict[str, Callable[[Event], None]]:
        """Who takes which type of record."""
        return {
            "opportunity": self._opportunity,
            "rule_event": self._outcome,
            "agent_state": self._state,
            "signal": self._signal,
            "goal_change": self._goal,
            "peer_broadcast": self._broadcast,
            "instruction": self._instruction,
            "instruction_response": self._response,
            "arrival": self._arrival,
            "sanction": self._sanction,
            "verdict": self._verdict,
            "reaction": self._reaction,
            "importance": self._rating,
            "llm_call": self._called,
            "run_end": self._finish,
        }

    def take(self, record: Event) -> None:
        """Takes one record.

        Args:
            record: Any record after the header.

        Raises:
            LogError: If it cannot be understood, or comes after the end.
        """
        if self._end is not None:
            raise LogError(f"{self._name} goes on after run_end")
        try:
            taker = self._takers.get(record["type"])
            if taker is None:
                return  # nothing that a metric needs, or a policy's own kind of record
            check(record, self._index)
            taker(record)
        except (KeyError, TypeError, ValueError) as error:
            where = f"day {record.get('day')}, tick {record.get('tick')}"
            raise LogError(
                f"{self._name}, {where}: {record['type']} lacks or spoils {error}"
            ) from error

    def episode(self) -> Episode:
        """Joins what was taken.

        Returns:
            The episode.

        Raises:
            LogError: If the log has no `run_end`.
        """
        if self._end is None:
            raise LogError(f"{self._name} has no run_end: the episode is incomplete")
        for states in self._states:
            states.sort()
        for escapes in self._escapes:
            escapes.sort()
        for signals in self._signals.values():
            signals.sort()
        for observed in self._observers:
            observed.sort()
        totals = self._end["totals"]
        return Episode(
            header=self._header,
            agents=self._agents,
            attendees=self._group("group", "attendee"),
            bystanders=self._group("group", "bystander"),
            commuters=self._group("commuter", True),
            fires=self._fires,
            rows=tuple(self._joined(key) for key in sorted(self._outcomes)),
            states=tuple(tuple(series) for series in self._states),
            orders=tuple(sorted(self._orders)),
            responses=tuple(self._responses),
            observers=tuple(tuple(series) for series in self._observers),
            goals=tuple(sorted(self._goals, key=lambda goal: goal[:3])),
            arrivals=tuple(sorted(self._arrivals)),
            sanctions=tuple(self._sanctions),
            ticks=self._end["steps"] // self._header["clock"]["steps_per_tick"],
            harm=tuple(float(totals[agent]["harm"]) for agent in self._agents),
            verdicts=tuple(sorted(self._verdicts)),
            reactions=tuple(sorted(self._reactions)),
            importance=tuple(sorted(self._importance, key=repr)),
            calls=tuple(self._calls),
        )

    def _group(self, key: str, value: object) -> frozenset[int]:
        return frozenset(i for i, a in enumerate(self._header["agents"]) if a[key] == value)

    def _key(self, record: Event) -> _Key:
        return self._index[record["agent"]], record["day"], record["tick"]

    def _joined(self, key: _Key) -> Row:
        try:
            return self._row(key)
        except (AttributeError, KeyError, TypeError) as error:
            who, day, tick = self._agents[key[0]], *key[1:]
            raise LogError(
                f"{self._name}, day {day}, tick {tick}: a line of {who} lacks or spoils {error}"
            ) from error

    def _row(self, key: _Key) -> Row:
        """The opportunity and the outcome of one person and tick."""
        agent, day, tick = key
        outcome = self._outcomes[key]
        broken, authorised = bits(outcome["violated"]), bits(outcome["authorised"])
        chance = self._chances.get(key) or self._unforeseen(key, broken, outcome)
        at_stake = bits(chance["rules"]) | bits(chance["unrelated"])
        return Row(
            agent=agent,
            day=day,
            tick=tick,
            stake=at_stake | broken,
            violated=broken & ~authorised,
            authorised=broken & authorised,
            blocked=outcome["blocked"],
            label=self._label(chance, "label", broken & TRIGGER_RELEVANT),
            label_unrelated=self._label(chance, "label_unrelated", broken & UNRELATED),
            zone=chance["zone"],
            dist_fire=chance["dist_fire"],
            dist_officer=chance["dist_officer"],
            signal=SignalState[chance["signal"].upper()],
            crossing=chance["crossing"],
            saw_jaywalk=chance["saw_jaywalk"],
            escaping=chance["escaping"],
            instruction=Instruction[chance["instruction"].upper()],
            foreseen=key in self._chances,
        )

    @staticmethod
    def _label(chance: Event, key: str, broken: int) -> Label:
        """The label of a set of rules.

        Only who flees can have a warrant, so what others break without its having been at stake is
        unwarranted; for somebody who flees it stays without a label.
        """
        label = Label[chance[key].upper()]
        if label is Label.NONE and broken and not chance["escaping"]:
            return Label.UNWARRANTED
        return label

    def _unforeseen(self, key: _Key, broken: int, outcome: Event) -> Event:
        """What an opportunity line would have said of a rule that was not at stake."""
        agent, day, tick = key
        when = (day, tick)
        state = _held(self._states[agent], when)
        if not any(f.day == day and f.ignite <= tick < f.extinguish for f in self._fires):
            state = None  # positions are noted in the window only, so this one may be old
        zone = outcome.get("zone") or (state.zone if state else "")
        signal = _held(self._signals.get(zone, []), when)
        shows = signal[1] if signal else SignalState.NONE
        if broken >> Rule.RED_LIGHT & 1:
            shows = SignalState.DONT_WALK
        escape = _held(self._escapes[agent], when)
        return {
            "rules": [],
            "unrelated": [],
            "zone": zone,
            "dist_fire": state.dist_fire if state else None,
            "dist_officer": state.dist_officer if state else None,
            "label": "none",
            "label_unrelated": "none",
            "signal": shows.name.lower(),
            "crossing": zone if zone in self._signals else None,
            "saw_jaywalk": self._exposed(agent, when),
            "escaping": escape is not None and escape[1],
            "instruction": "none",
        }

    def _exposed(self, agent: int, when: When) -> bool:
        """Whether a person saw somebody jaywalk of late; a sight counts from the next tick."""
        seen = self._observers[agent]
        before = bisect_left(seen, when)
        if before == 0:
            return False
        day, tick = seen[before - 1]
        return day == when[0] and when[1] - (tick + 1) <= EXPOSURE_TICKS

    def _opportunity(self, record: Event) -> None:
        self._once(self._chances, record)

    def _outcome(self, record: Event) -> None:
        self._once(self._outcomes, record)

    def _once(self, table: dict[_Key, Event], record: Event) -> None:
        key = self._key(record)
        if key in table:
            raise ValueError(f"a second line for {record['agent']!r}")
        table[key] = record

    def _state(self, record: Event) -> None:
        agent, *when = self._key(record)
        self._states[agent].append(
            State(
                (when[0], when[1]),
                record["zone"],
                record["dist_fire"],
                record["dist_officer"],
                record["officer_in_sight"],
            )
        )

    def _signal(self, record: Event) -> None:
        shows = SignalState[record["state"].upper()]
        self._signals[record["intersection"]].append(((record["day"], record["tick"]), shows))

    def _goal(self, record: Event) -> None:
        agent, day, tick = self._key(record)
        self._escapes[agent].append(((day, tick), record["escaping"]))
        self._goals.append(Goal(agent, day, tick, record["escaping"], record.get("steps")))

    def _broadcast(self, record: Event) -> None:
        if record["rule_followed"] or not 1 << Rule[record["rule"]] & JAYWALK:
            return
        for observer in record["observers"]:
            self._observers[self._index[observer]].append((record["day"], record["tick"]))

    def _instruction(self, record: Event) -> None:
        kind = Instruction[record["kind"].upper()]
        self._orders.append(Order(*self._key(record), kind, record["valid_ticks"]))

    def _response(self, record: Event) -> None:
        kind = Instruction[record["kind"].upper()]
        self._responses.append(
            Response(*self._key(record), kind, record["complied"], record["ticks"])
        )

    def _arrival(self, record: Event) -> None:
        self._arrivals.append(Arrival(*self._key(record), record["safe"]))

    def _sanction(self, record: Event) -> None:
        self._sanctions.append(self._index[record["agent"]])

    def _verdict(self, record: Event) -> None:
        self._verdicts.append(
            Verdict(
                *self._key(record),
                rules=bits(record["rules"]),
                violates=record["decision"] == "violate",
                legitimacy=record["legitimacy"],
                gate_open=record["gate_open"],
                gate_leak=record["gate_leak"],
                justification=record["justification"],
                fallback=record.get("fallback") is not None,
                reused=record.get("reused") is True,
                beyond=bits(record["plan_beyond"]) if "plan_beyond" in record else None,
                list_fallback=record.get("plan_fallback") is not None,
            )
        )

    def _reaction(self, record: Event) -> None:
        fallback = record.get("fallback") is not None
        self._reactions.append(Reaction(*self._key(record), fallback, bool(record["events"])))

    def _rating(self, record: Event) -> None:
        self._importance.append(
            Importance(
                record["description"],
                record["rescaled"],
                record.get("severity"),
                record.get("fallback") is not None,
            )
        )

    def _called(self, record: Event) -> None:
        for call in record["calls"]:
            fallback = call.get("fallback")
            self._calls.append(
                Call(
                    operation=Operation(call["operation"]),
                    answer=Answer(call["outcome"]),
                    fallback=None if fallback is None else Fallback(fallback),
                    retried=len(call["keys"]) > 1,
                    prompt_tokens=_tokens(call["prompt_tokens"]),
                    completion_tokens=_tokens(call["completion_tokens"]),
                )
            )

    def _finish(self, record: Event) -> None:
        if missing := [agent for agent in self._agents if agent not in record["totals"]]:
            raise ValueError(f"totals of {missing}")
        for agent in self._agents:
            check_harm(record["totals"][agent]["harm"])
        self._end = record


def bits(rules: list[str]) -> int:
    """Packs rule names.

    Args:
        rules: Names of rules.

    Returns:
        One bit a rule.
    """
    mask = 0
    for rule in rules:
        mask |= 1 << Rule[rule]
    return mask


def _tokens(counted: int | None) -> int | None:
    if counted is not None and (type(counted) is not int or counted < 0):
        raise ValueError(f"{counted!r} tokens")
    return counted


def _held(series: Sequence[_Timed], when: When) -> _Timed | None:
    """The last entry of a sorted series at or before a time."""
    found = bisect_right(series, when, key=lambda entry: entry[0])
    return series[found - 1] if found else None
