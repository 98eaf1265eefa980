"""Where in a run something was asked of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    """One place in a run.

    Attributes:
        scenario: Name of the scenario.
        policy: Name of the policy.
        seed: The episode's seed.
        agent: Whose decision it is.
        day: Day, from 1.
        tick: Tick of the day.
        rule_set: Which of the two sets of rules is in question; None for what serves both.
    """

    scenario: str = ""
    policy: str = ""
    seed: int = 0
    agent: str = ""
    day: int = 0
    tick: int = 0
    rule_set: str | None = None
