"""The movement and rule table: which steps are possible, and which rules they can break.

The table itself is the data file `movement.csv`: one row for each (from class, to class, verb).
What it
says about RED_LIGHT, ONE_WAY and CROSSWALK_ONLY holds where the street carries the rule, the
signal shows don't-walk, and the step goes against the arrow; all other rules hold everywhere.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from voville_env.core.codes import Rule, Terrain, Verb, rule_bits

TRAFFIC = rule_bits((Rule.RED_LIGHT, Rule.ONE_WAY, Rule.CROSSWALK_ONLY))
"""Rules that hold only on the streets that carry them."""
EVERYWHERE = rule_bits((Rule.CORDON, Rule.PRIVATE_BUILDING, Rule.PROPERTY, Rule.PERSONAL_SPACE))


@dataclass(frozen=True)
class StepRule:
    """What the table says about one step.

    Attributes:
        verb: The verb that makes the step possible, `Verb.NONE` if nothing does.
        bits: The rules it can break.
    """

    verb: Verb
    bits: int


@cache
def movement_table() -> dict[tuple[Terrain, Terrain], StepRule]:
    """Reads the table.

    Returns:
        One entry for each pair of terrain classes; at most one verb is possible for a pair.
    """
    table = {(a, b): StepRule(Verb.NONE, 0) for a in Terrain for b in Terrain}
    path = Path(__file__).with_name("movement.csv")
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["possible"] == "yes":
                pair = (Terrain[row["from"]], Terrain[row["to"]])
                rules = tuple(Rule[name] for name in row["rules"].split())
                table[pair] = StepRule(Verb[row["verb"]], rule_bits(rules))
    return table
