"""Short phrases for rules and acts, for whatever words a verdict, a plan or an outcome."""

from __future__ import annotations

from collections.abc import Sequence

from voville_env.core.codes import Rule

RULE_PHRASE = {
    Rule.RED_LIGHT: "the red light",
    Rule.ONE_WAY: "the one-way direction",
    Rule.CROSSWALK_ONLY: "the crosswalk rule",
    Rule.CORDON: "the cordon",
    Rule.PRIVATE_BUILDING: "the private building rule",
    Rule.PROPERTY: "other people's property",
    Rule.PERSONAL_SPACE: "personal space",
}
BREAKING = {
    Rule.RED_LIGHT: "step onto the crosswalk against the red light",
    Rule.ONE_WAY: "go against the one-way direction",
    Rule.CROSSWALK_ONLY: "enter the road away from the crosswalk",
    Rule.CORDON: "step over the cordon",
    Rule.PRIVATE_BUILDING: "go through the private building",
    Rule.PROPERTY: "take what belongs to somebody else",
    Rule.PERSONAL_SPACE: "push past the person in front",
}
SEEN_BREAKING = {
    Rule.RED_LIGHT: "crosses against the red light",
    Rule.ONE_WAY: "goes against the one-way direction",
    Rule.CROSSWALK_ONLY: "enters the road away from the crosswalk",
    Rule.CORDON: "enters the cordoned area",
    Rule.PRIVATE_BUILDING: "enters a private building",
    Rule.PROPERTY: "takes somebody else's property",
    Rule.PERSONAL_SPACE: "pushes past somebody",
}


def listed(rules: Sequence[Rule]) -> str:
    """Names rules in a sentence.

    Args:
        rules: Rules.

    Returns:
        Such as "the red light and the one-way direction".
    """
    names = [RULE_PHRASE[rule] for rule in rules]
    if not names:
        return "no rule"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
