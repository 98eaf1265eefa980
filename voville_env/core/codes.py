"""The closed vocabularies of the town: every small integer in an array has its name here."""

from __future__ import annotations

from enum import IntEnum, StrEnum

WIDTH = 64
HEIGHT = 64
TILES = WIDTH * HEIGHT
NONE = -1


class Action(IntEnum):
    """What a person can do in one step (design section 6)."""

    WAIT = 0
    MOVE_N = 1
    MOVE_E = 2
    MOVE_S = 3
    MOVE_W = 4
    CROSS_N = 5
    CROSS_E = 6
    CROSS_S = 7
    CROSS_W = 8
    TAKE = 9


class Direction(IntEnum):
    """Compass directions; north is towards smaller y."""

    N = 0
    E = 1
    S = 2
    W = 3


class Rule(IntEnum):
    """The seven rules (paper appendix B), in the order R1 to R7."""

    RED_LIGHT = 0
    ONE_WAY = 1
    CROSSWALK_ONLY = 2
    CORDON = 3
    PRIVATE_BUILDING = 4
    PROPERTY = 5
    PERSONAL_SPACE = 6


class Terrain(IntEnum):
    """What a tile is made of."""

    WALL = 0
    PAVEMENT = 1
    ROAD = 2
    CROSSWALK = 3
    PARK = 4
    FLOOR = 5
    DOOR = 6
    PRIVATE_FLOOR = 7
    PRIVATE_DOOR = 8
    CORDON = 9
    OBSTACLE = 10


class Verb(IntEnum):
    """How a step between two tiles is made."""

    NONE = 0
    MOVE = 1
    CROSS = 2


class Route(IntEnum):
    """Which rules a planned way keeps."""

    LAWFUL = 0
    SCOPED = 1
    UNRESTRICTED = 2


class SignalState(IntEnum):
    """What a pedestrian signal shows."""

    NONE = 0
    WALK = 1
    DONT_WALK = 2


class CueType(IntEnum):
    """Kinds of situational cue."""

    NONE = 0
    FIRE = 1
    TIME_PRESSURE = 2
    CONVERSATION = 3


class Behaviour(IntEnum):
    """What an observer sees another person do."""

    NONE = 0
    STANDING = 1
    WALKING = 2
    WAITING = 3
    CROSSING = 4
    CROSSING_ON_RED = 5
    WRONG_WAY = 6
    JAYWALKING = 7
    ENTERING_CORDON = 8
    ENTERING_PRIVATE = 9
    TAKING_PROPERTY = 10
    PUSHING = 11


class Instruction(IntEnum):
    """What an officer orders."""

    NONE = 0
    HOLD = 1
    PASS = 2
    REDIRECT = 3


class Role(IntEnum):
    """Kinds of character (paper section 4, ENV-04)."""

    REGULATED = 0
    CONFEDERATE = 1
    OFFICER = 2


class Label(IntEnum):
    """The environment's own judgement of a violation at an opportunity."""

    NONE = 0
    UNWARRANTED = 1
    CONTESTED = 2
    WARRANTED = 3


class RewardTerm(IntEnum):
    """The named reward terms."""

    PROGRESS = 0
    ARRIVAL = 1
    HARM = 2
    SANCTION = 3
    TIME = 4


class EventCode(IntEnum):
    """Kinds of record in the core's event buffer."""

    NONE = 0
    OPPORTUNITY = 1
    OUTCOME = 2
    INSTRUCTION = 3
    RESPONSE = 4
    SANCTION = 5
    BROADCAST = 6
    HAZARD = 7
    SIGNAL = 8
    GOAL = 9
    ARRIVAL = 10
    DAY = 11
    POSITION = 12


class Decision(StrEnum):
    """The two verdicts."""

    COMPLY = "comply"
    VIOLATE = "violate"


DX = (0, 1, 0, -1)
DY = (-1, 0, 1, 0)
ALL_RULES = 0b1111111
TRIGGER_RELEVANT = 0b0000111
UNRELATED = ALL_RULES & ~TRIGGER_RELEVANT
CARRIAGEWAY = (Terrain.ROAD, Terrain.CROSSWALK)
IMPASSABLE = (Terrain.WALL, Terrain.OBSTACLE)

RULE_NAMES = tuple(rule.name for rule in Rule)
"""Rule names in bit order."""


def rules_in(bits: int) -> list[Rule]:
    """Lists the rules set in a bit mask.

    Args:
        bits: One bit a rule, bit ``k`` for ``Rule(k)``.

    Returns:
        The rules, in order.
    """
    return [rule for rule in Rule if bits >> rule & 1]


def rule_bits(rules: list[Rule] | tuple[Rule, ...]) -> int:
    """Packs rules into a bit mask.

    Args:
        rules: Any rules.

    Returns:
        One bit a rule.
    """
    bits = 0
    for rule in rules:
        bits |= 1 << rule
    return bits
