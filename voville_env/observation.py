"""What a person perceives: spaces, the typed context of the paper, and plain words.

All three views of an observation hold the same information: the arrays, `to_context` and `narrate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from voville_env.core import codes, fields
from voville_env.core.codes import Behaviour, CueType, Direction, Instruction, Rule, SignalState

Observation = Mapping[str, NDArray[Any]]

BEHAVIOUR_TEXT = {
    Behaviour.STANDING: "is standing",
    Behaviour.WALKING: "is walking",
    Behaviour.WAITING: "waits instead of breaking the rule",
    Behaviour.CROSSING: "crosses on the walk signal",
    Behaviour.CROSSING_ON_RED: "crosses against the red signal",
    Behaviour.WRONG_WAY: "goes against the one-way direction",
    Behaviour.JAYWALKING: "steps onto the road away from the crosswalk",
    Behaviour.ENTERING_CORDON: "enters the cordoned area",
    Behaviour.ENTERING_PRIVATE: "enters a private building",
    Behaviour.TAKING_PROPERTY: "takes something that belongs to somebody else",
    Behaviour.PUSHING: "pushes into another person",
}
CUE_TEXT = {
    CueType.FIRE: "fire",
    CueType.TIME_PRESSURE: "time pressure",
    CueType.CONVERSATION: "conversation",
}
RULE_TEXT = {
    Rule.RED_LIGHT: "stop at red lights",
    Rule.ONE_WAY: "follow the legal direction on one-way streets",
    Rule.CROSSWALK_ONLY: "cross only at crosswalks",
    Rule.CORDON: "do not enter cordoned areas",
    Rule.PRIVATE_BUILDING: "do not enter private buildings",
    Rule.PROPERTY: "do not take the property of others",
    Rule.PERSONAL_SPACE: "yield personal space to others",
}
ROUTE_NAMES = (
    "goal_lawful",
    "goal_scoped",
    "goal_unrestricted",
    "safe_lawful",
    "safe_scoped",
    "safe_unrestricted",
)


def build_space() -> spaces.Dict:
    """A new observation space, made from the field table.

    Returns:
        A flat `spaces.Dict`, one `Box` a field.
    """
    boxes: dict[str, spaces.Space[Any]] = {}
    for field in fields.FIELDS:
        low, high = field.bounds()
        boxes[field.name] = spaces.Box(low, high, dtype=np.dtype(field.dtype).type)
    return spaces.Dict(boxes)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Peer(_Record):
    """One person in the same local context.

    Attributes:
        dx: Their column minus one's own, in tiles.
        dy: Their row minus one's own, in tiles.
        behaviour: What they were seen to do.
        rule: The rule it bears on, if any.
        followed: Whether they followed it.
        age: Ticks since it was seen.
        text: The same in words, or the actor's observer-view sentence where peer text is on.
    """

    dx: int
    dy: int
    behaviour: Behaviour
    rule: Rule | None
    followed: bool | None
    age: int
    text: str


class Cue(_Record):
    """One situational cue (paper section 3.1): type, distance in tiles, severity 1 to 100."""

    type: CueType
    distance_tiles: int
    severity: int = Field(ge=1, le=100)
    dx: int = 0
    dy: int = 0


class Way(_Record):
    """One planned way.

    Attributes:
        distance: Steps to its end; None where there is no way.
        next_action: Its first action.
        rules: Rules that its next four tiles would break now.
        wait: Red ticks to wait at its next signal.
    """

    distance: int | None
    next_action: codes.Action
    rules: tuple[Rule, ...]
    wait: int


class Context(_Record):
    """The perceived context of one person at one step (paper figure C1), and its own situation.

    Attributes:
        authority_present: Whether an officer is in sight.
        authority_distance_tiles: Manhattan distance to the nearest, or None ("inf" in the paper).
        authority_offset: `(dx, dy)` to that officer; `(0, 0)` without one.
        instruction: The instruction in force.
        instruction_officer: Which officer gave it, by index.
        instruction_direction: Where a redirect points.
        instruction_ticks_left: Ticks until it ends.
        peer_behaviors: People in the same local context, nearest first.
        situational_cues: Cues, most severe first.
        scene_summary: One sentence.
        position: `(x, y)` in tiles.
        goal: `(x, y)` of the scheduled goal.
        day: From 1.
        tick: Of the day.
        step: Within the tick.
        late: Running late.
        at_goal: At the goal that counts now.
        blocked: The last move failed.
        carrying: Carries a taken item.
        escaping: The safe zone is the goal that counts now.
        ways: The six planned ways by name (`ROUTE_NAMES`).
        signal: What the nearest signal shows.
        signal_ticks: Ticks until it changes.
        signal_distance: Tiles to it; None where none is near.
        rules_in_force: Rules in force on this tile.
        rules_at_stake: Rules at stake in this tick.
        possible: Actions that are physically possible.
        tiles: The 11x11 tile codes around the person, row by row.
    """

    authority_present: bool
    authority_distance_tiles: int | None
    authority_offset: tuple[int, int] = (0, 0)
    instruction: Instruction = Instruction.NONE
    instruction_officer: int | None = None
    instruction_direction: Direction | None = None
    instruction_ticks_left: int = 0
    peer_behaviors: tuple[Peer, ...] = ()
    situational_cues: tuple[Cue, ...] = ()
    scene_summary: str = ""
    position: tuple[int, int] = (0, 0)
    goal: tuple[int, int] = (0, 0)
    day: int = 1
    tick: int = 0
    step: int = 0
    late: bool = False
    at_goal: bool = False
    blocked: bool = False
    carrying: bool = False
    escaping: bool = False
    ways: Mapping[str, Way] = Field(default_factory=dict)
    signal: SignalState = SignalState.NONE
    signal_ticks: int = 0
    signal_distance: int | None = None
    rules_in_force: tuple[Rule, ...] = ()
    rules_at_stake: tuple[Rule, ...] = ()
    possible: tuple[codes.Action, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()

    def fire(self) -> Cue | None:
        """The most severe fire cue.

        Returns:
            The cue, or None.
        """
        return next((cue for cue in self.situational_cues if cue.type is CueType.FIRE), None)

    def published(self) -> dict[str, Any]:
        """The context with the exact keys of the paper's figure C1.

        Returns:
            A JSON-ready dict; the distance is the string "inf" without authority.
        """
        away = self.authority_distance_tiles
        return {
            "authority_present": self.authority_present,
            "authority_distance_tiles": "inf" if away is None else away,
            "peer_behaviors": [peer.text for peer in self.peer_behaviors],
            "situational_cues": [
                {
                    "type": CUE_TEXT[cue.type],
                    "distance_tiles": cue.distance_tiles,
                    "severity": cue.severity,
                }
                for cue in self.situational_cues
            ],
            "scene_summary": self.scene_summary,
        }


def _whole(value: Any) -> int | None:
    number = int(value)
    return None if number == codes.NONE else number


def compass(dx: int, dy: int) -> str:
    """An offset in words.

    Args:
        dx: Columns, east positive.
        dy: Rows, south positive.

    Returns:
        Such as "3 east, 2 north"; "here" for no offset.
    """
    parts = []
    if dx:
        parts.append(f"{abs(dx)} {'east' if dx > 0 else 'west'}")
    if dy:
        parts.append(f"{abs(dy)} {'south' if dy > 0 else 'north'}")
    return ", ".join(parts) or "here"


def _peers(rows: NDArray[Any]) -> tuple[Peer, ...]:
    peers = []
    for dx, dy, behaviour, rule, followed, age in rows.tolist():
        if behaviour == Behaviour.NONE:
            break
        kind = Behaviour(behaviour)
        peers.append(
            Peer(
                dx=dx,
                dy=dy,
                behaviour=kind,
                rule=None if rule == codes.NONE else Rule(rule),
                followed=None if followed == codes.NONE else bool(followed),
                age=age,
                text=f"A person {compass(dx, dy)} {BEHAVIOUR_TEXT[kind]}",
            )
        )
    return tuple(peers)


def _cues(rows: NDArray[Any]) -> tuple[Cue, ...]:
    return tuple(
        Cue(type=CueType(kind), distance_tiles=away, severity=severity, dx=dx, dy=dy)
        for kind, away, severity, dx, dy in rows.tolist()
        if kind != CueType.NONE
    )


def _ways(rows: NDArray[Any]) -> dict[str, Way]:
    return {
        name: Way(
            distance=None if distance == codes.NONE else distance,
            next_action=codes.Action(action),
            rules=tuple(codes.rules_in(bits)),
            wait=wait,
        )
        for name, (distance, action, bits, wait) in zip(ROUTE_NAMES, rows.tolist(), strict=True)
    }


def summarise(cues: tuple[Cue, ...], *, authority: bool, peers: int) -> str:
    """The one-sentence scene summary.

    Args:
        cues: The cues.
        authority: Whether an officer is in sight.
        peers: How many people are around.

    Returns:
        One sentence.
    """
    parts = [
        f"{CUE_TEXT[cue.type]} at {cue.distance_tiles} "
        f"{'tile' if cue.distance_tiles == 1 else 'tiles'} (severity {cue.severity})"
        for cue in cues
    ]
    what = " and ".join(parts) if parts else "nothing unusual"
    who = f"{peers} {'person' if peers == 1 else 'people'} nearby"
    officer = "an officer in sight" if authority else "no officer in sight"
    return f"There is {what}, with {who} and {officer}."


def to_context(observation: Observation) -> Context:
    """Reads an observation into the typed record of the paper.

    Args:
        observation: One agent's observation.

    Returns:
        The same information, named.
    """
    own = [int(value) for value in observation["self"]]
    officer = [int(value) for value in observation["authority"]]
    signal = [int(value) for value in observation["signal"]]
    cues = _cues(observation["situational_cues"])
    peers = _peers(observation["peer_behaviors"])
    force, stake = observation["rules"].tolist()
    present = officer[0] == 1
    return Context(
        authority_present=present,
        authority_distance_tiles=_whole(officer[1]),
        authority_offset=(officer[2], officer[3]),
        instruction=Instruction(officer[4]),
        instruction_officer=_whole(officer[5]),
        instruction_direction=None if officer[6] == codes.NONE else Direction(officer[6]),
        instruction_ticks_left=officer[7],
        peer_behaviors=peers,
        situational_cues=cues,
        scene_summary=summarise(cues, authority=present, peers=len(peers)),
        position=(own[0], own[1]),
        day=own[2],
        tick=own[3],
        step=own[4],
        goal=(own[5], own[6]),
        late=bool(own[7]),
        at_goal=bool(own[8]),
        blocked=bool(own[9]),
        carrying=bool(own[10]),
        escaping=bool(own[11]),
        ways=_ways(observation["routes"]),
        signal=SignalState(signal[0]),
        signal_ticks=signal[1],
        signal_distance=None if signal[0] == SignalState.NONE else signal[2],
        rules_in_force=tuple(rule for rule in Rule if force[rule]),
        rules_at_stake=tuple(rule for rule in Rule if stake[rule]),
        possible=tuple(action for action in codes.Action if observation["action_mask"][action]),
        tiles=tuple(tuple(row) for row in observation["tiles"].tolist()),
    )


_GLYPHS = {
    codes.Terrain.WALL: "#",
    codes.Terrain.PAVEMENT: ".",
    codes.Terrain.ROAD: "=",
    codes.Terrain.CROSSWALK: "%",
    codes.Terrain.PARK: '"',
    codes.Terrain.FLOOR: "_",
    codes.Terrain.DOOR: "D",
    codes.Terrain.PRIVATE_FLOOR: ":",
    codes.Terrain.PRIVATE_DOOR: "d",
    codes.Terrain.CORDON: "x",
    codes.Terrain.OBSTACLE: "o",
}
LEGEND = ", ".join(f"{glyph} {terrain.name.lower()}" for terrain, glyph in _GLYPHS.items())


def glyph(code: int) -> str:
    """One character for a tile code of the `tiles` field.

    Args:
        code: Terrain and flags.

    Returns:
        `@` a person, `!` fire, `*` an item, otherwise the terrain's sign.
    """
    if code & fields.OCCUPIED:
        return "@"
    if code & fields.BURNING:
        return "!"
    if code & fields.ITEM:
        return "*"
    return _GLYPHS[codes.Terrain(code & fields.TERRAIN_MASK)]


@cache
def _rule_list(rules: tuple[Rule, ...]) -> str:
    return "; ".join(RULE_TEXT[rule] for rule in rules) or "none"


def _narrate_ways(context: Context) -> list[str]:
    lines = []
    for name, way in context.ways.items():
        target, kind = name.split("_")
        where = "goal" if target == "goal" else "safe zone"
        if way.distance is None:
            lines.append(f"- {kind} way to the {where}: none.")
            continue
        lines.append(
            f"- {kind} way to the {where}: {way.distance} steps, first {way.next_action.name}, "
            f"red wait {way.wait} ticks, breaks next: {_rule_list(way.rules)}."
        )
    return lines


def _narrate_people(context: Context) -> list[str]:
    lines = []
    if context.authority_present:
        lines.append(
            f"An officer is in sight at {context.authority_distance_tiles} tiles "
            f"({compass(*context.authority_offset)})."
        )
    else:
        lines.append("No officer is in sight.")
    if context.instruction is not Instruction.NONE:
        towards = context.instruction_direction
        suffix = f" towards {towards.name}" if towards is not None else ""
        lines.append(
            f"Officer {context.instruction_officer} orders: {context.instruction.name}{suffix}, "
            f"for {context.instruction_ticks_left} more ticks."
        )
    for peer in context.peer_behaviors:
        rule = f" (rule: {RULE_TEXT[peer.rule]})" if peer.rule is not None else ""
        lines.append(f"- {peer.text}{rule}, {peer.age} ticks ago.")
    return lines


def narrate(observation: Observation) -> str:
    """Tells an observation in plain words, for policies that read text.

    Args:
        observation: One agent's observation.

    Returns:
        Several lines with the same information as the arrays.
    """
    context = to_context(observation)
    lines = [
        f"Day {context.day}, tick {context.tick}, step {context.step}. "
        f"You are at {context.position}; your goal is at {context.goal}.",
        f"Late: {context.late}. At goal: {context.at_goal}. Escaping: {context.escaping}. "
        f"Last move blocked: {context.blocked}. Carrying something: {context.carrying}.",
    ]
    lines += [
        f"- {CUE_TEXT[cue.type]}: distance {cue.distance_tiles}, severity {cue.severity} "
        f"({compass(cue.dx, cue.dy)})"
        for cue in context.situational_cues
    ] or ["No cue stands out."]
    lines += _narrate_people(context)
    if context.signal is not SignalState.NONE:
        lines.append(
            f"The nearest signal, {context.signal_distance} tiles away, shows "
            f"{context.signal.name}; it changes in {context.signal_ticks} ticks."
        )
    lines.append(f"Rules in force here: {_rule_list(context.rules_in_force)}.")
    lines.append(f"Rules at stake now: {_rule_list(context.rules_at_stake)}.")
    lines.append("Ways:")
    lines += _narrate_ways(context)
    lines.append("Possible: " + ", ".join(action.name for action in context.possible) + ".")
    lines.append(f"Around you (north up; {LEGEND}, @ person, ! fire, * item):")
    lines += ["".join(glyph(code) for code in row) for row in context.tiles]
    return "\n".join(lines)
