"""The event log: from the core's event records to JSON lines, and back.

A log is one JSON object a line. The first is `run_start`, the last `run_end`; `docs/log.md` lists
the types. Times are `day` (from 1) and `tick` (of the day).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from voville_env.core.codes import (
    WIDTH,
    Behaviour,
    EventCode,
    Instruction,
    Label,
    Rule,
    SignalState,
    rules_in,
)
from voville_env.core.layout import NO_SIGNAL, Records
from voville_env.errors import VovilleError
from voville_env.observation import BEHAVIOUR_TEXT
from voville_env.town.model import Town

Event = dict[str, Any]
FORMAT = 1


class LogError(VovilleError, ValueError):
    """A log that cannot be read: the message names the file and the line."""


def dumps(record: Event) -> str:
    """One strict JSON line: no NaN, no spaces, keys in the order given.

    Args:
        record: The record.

    Returns:
        The line, without its end.
    """
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read_log(path: Path | str) -> Iterator[Event]:
    """Reads a log line by line; only a line feed ends a line.

    Args:
        path: The file.

    Yields:
        One record a line.

    Raises:
        LogError: If a line is no strict JSON object.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line, parse_constant=_refuse)
            except ValueError as error:
                raise LogError(f"{path}, line {number}: {error}") from error
            if not isinstance(record, dict) or "type" not in record:
                raise LogError(f"{path}, line {number}: not a record with a type")
            yield record


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def finite(value: float, digits: int = 6) -> float | None:
    """A number for a log or a report.

    Args:
        value: Any float.
        digits: Decimals kept.

    Returns:
        The rounded number, or None where it is not finite.
    """
    return round(value, digits) if math.isfinite(value) else None


class EventDecoder:
    """Turns core records into log records for one scenario."""

    def __init__(
        self,
        town: Town,
        agents: Sequence[str],
        confederates: Sequence[str],
        officers: Sequence[str],
        ticks_per_day: int,
    ) -> None:
        """Notes the names behind the numbers.

        Args:
            town: The town.
            agents: Ids of policy agents.
            confederates: Ids of confederates.
            officers: Ids of officers.
            ticks_per_day: Ticks in a day.
        """
        self._town = town
        self._officers = list(officers)
        self._characters = [*agents, *confederates, *officers]
        self._agents = list(agents)
        self._ticks = ticks_per_day
        self._signals = [item.name for item in town.intersections]
        self._places = [place.name for place in town.places]
        self._zones: dict[int, str] = {}
        self._streets: dict[int, str | None] = {}
        self._readers: dict[int, Callable[[Any], Event]] = {
            EventCode.OPPORTUNITY: self._opportunity,
            EventCode.OUTCOME: self._outcome,
            EventCode.INSTRUCTION: self._instruction,
            EventCode.RESPONSE: self._response,
            EventCode.SANCTION: self._sanction,
            EventCode.BROADCAST: self._broadcast,
            EventCode.HAZARD: self._hazard,
            EventCode.SIGNAL: self._signal,
            EventCode.GOAL: self._goal,
            EventCode.ARRIVAL: self._arrival,
            EventCode.DAY: self._day,
            EventCode.POSITION: self._position,
        }

    def decode(self, records: Records) -> list[Event]:
        """Decodes what `drain_events` returned.

        Args:
            records: Core records of dtype `layout.EVENT`.

        Returns:
            Log records, in order.
        """
        return [self._one(row) for row in records.tolist()]

    def _one(self, row: tuple[int, ...]) -> Event:
        tick, _, code, agent, *rest = row
        head: Event = {"type": "", "day": tick // self._ticks + 1, "tick": tick % self._ticks}
        if agent >= 0:
            head["agent"] = self._characters[agent]
        head.update(self._readers[code](rest))
        return head

    def _zone(self, tile: int) -> str:
        if tile not in self._zones:
            self._zones[tile] = self._town.zone_at(tile % WIDTH, tile // WIDTH)
        return self._zones[tile]

    def _opportunity(self, v: Sequence[int]) -> Event:
        flags = v[4]
        return {
            "type": "opportunity",
            "rules": names(v[0] & 0x7F),
            "unrelated": names(v[0] >> 8 & 0x7F),
            "at": xy(v[1]),
            "zone": self._zone(v[1]),
            "dist_fire": _known(v[2]),
            "dist_officer": _known(v[3]),
            "label": Label(flags & 15).name.lower(),
            "label_unrelated": Label(flags >> 4 & 15).name.lower(),
            "signal": SignalState(flags >> 8 & 3).name.lower(),
            "crossing": None if v[5] == NO_SIGNAL else self._signals[v[5]],
            "supervised": bool(flags >> 12 & 1),
            "saw_jaywalk": bool(flags >> 13 & 1),
            "escaping": bool(flags >> 14 & 1),
            "instruction": Instruction(flags >> 16 & 3).name.lower(),
        }

    def _outcome(self, v: Sequence[int]) -> Event:
        return {
            "type": "rule_event",
            "violated": names(v[1]),
            "complied": names(v[0] & ~v[1]),
            "authorised": names(v[2]),
            "blocked": bool(v[3] & 1),
            "moved": bool(v[3] >> 1 & 1),
            "zone": self._zone(v[4]),
        }

    def _instruction(self, v: Sequence[int]) -> Event:
        return {
            "type": "instruction",
            "officer": self._officers[v[0]],
            "kind": Instruction(v[1]).name.lower(),
            "id": v[2],
            "valid_ticks": v[3],
            "distance": v[4],
        }

    def _response(self, v: Sequence[int]) -> Event:
        return {
            "type": "instruction_response",
            "officer": self._officers[v[0]],
            "kind": Instruction(v[1]).name.lower(),
            "id": v[2],
            "complied": bool(v[3]),
            "ticks": v[4],
        }

    def _sanction(self, v: Sequence[int]) -> Event:
        return {"type": "sanction", "officer": self._officers[v[0]], "rules": names(v[1])}

    def _broadcast(self, v: Sequence[int]) -> Event:
        return {
            "type": "peer_broadcast",
            "behaviour": BEHAVIOUR_TEXT[Behaviour(v[0])],
            "rule": Rule(v[1]).name,
            "rule_followed": bool(v[2]),
            "observers": [name for i, name in enumerate(self._agents) if v[3] >> i & 1],
        }

    def _hazard(self, v: Sequence[int]) -> Event:
        action = "ignite" if v[0] else "extinguish"
        return {"type": "hazard", "action": action, "at": xy(v[1]), "severity": v[2]}

    def _signal(self, v: Sequence[int]) -> Event:
        return {
            "type": "signal",
            "intersection": self._signals[v[0]],
            "state": SignalState(v[1]).name.lower(),
        }

    def _goal(self, v: Sequence[int]) -> Event:
        return {
            "type": "goal_change",
            "goal": self._places[v[0]],
            "late": bool(v[1]),
            "escaping": bool(v[2]),
        }

    def _arrival(self, v: Sequence[int]) -> Event:
        return {"type": "arrival", "goal": self._places[v[0]], "safe": bool(v[1]), "at": xy(v[2])}

    def _day(self, v: Sequence[int]) -> Event:
        return {"type": "day_start"}

    def _position(self, v: Sequence[int]) -> Event:
        return {
            "type": "agent_state",
            "at": xy(v[0]),
            "zone": self._zone(v[0]),
            "dist_fire": _known(v[1]),
            "dist_officer": _known(v[2]),
            "officer_in_sight": bool(v[3]),
        }


def xy(tile: int) -> list[int]:
    """Column and row of a tile number.

    Args:
        tile: `y * 64 + x`.

    Returns:
        `[x, y]`.
    """
    return [tile % WIDTH, tile // WIDTH]


def names(bits: int) -> list[str]:
    """Names of the rules in a bit mask.

    Args:
        bits: One bit a rule.

    Returns:
        Rule names in order.
    """
    return [rule.name for rule in rules_in(bits)]


def _known(value: int) -> int | None:
    return None if value < 0 else value


@contextmanager
def whole_file(path: Path) -> Iterator[Callable[[Event], None]]:
    """Writes a log aside and renames it when whole, so that a reader never sees half of one.

    Args:
        path: The file.

    Yields:
        What writes one record.
    """
    aside = path.with_name(path.name + ".part")
    aside.unlink(missing_ok=True)  # it may lead elsewhere
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            yield lambda record: print(dumps(record), file=file)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_lines(path: Path, records: Iterable[Event]) -> None:
    """Writes a whole log, or none.

    Args:
        path: The file.
        records: Its records.
    """
    with whole_file(path) as write:
        for record in records:
            write(record)
