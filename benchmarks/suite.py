"""What a benchmark plays: scenarios, policies and seeds, and the key of each episode."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from voville_env.errors import InvalidValueError, invalid
from voville_env.policy import Policy, accepted, installed, load_policy
from voville_env.scenario import load_world, scenario_names

SCENARIOS = ("fire_escape", "fire_escape_officers", "jaywalk")
POLICIES = ("pave", "pave-no-gate", "vanilla", "lawful", "direct", "random", "oracle")
SEEDS = 5
MAX_SEEDS = 100_000
BACKBONE = "backbone"


@dataclass(frozen=True, order=True)
class EpisodeKey:
    """One planned episode.

    Attributes:
        scenario: Scenario name or path.
        policy: Policy name or `module:factory`.
        seed: The seed.
    """

    scenario: str
    policy: str
    seed: int

    @property
    def stem(self) -> str:
        """A file name without its ending: readable, and unique for the key."""
        parts = []
        for text in (self.scenario, self.policy):
            slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "x"
            if slug != text:
                slug += "-" + hashlib.sha256(text.encode()).hexdigest()[:6]
            parts.append(slug)
        return f"{parts[0]}--{parts[1]}--{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """The key as a JSON-ready dict.

        Returns:
            `scenario`, `policy` and `seed`.
        """
        return asdict(self)


@dataclass(frozen=True)
class Suite:
    """A planned benchmark.

    Attributes:
        scenarios: Scenario names or paths, controls included.
        policies: Policy names.
        seeds: Seeds, the same for every scenario and policy, so that differences are paired.
        days: Days played of each run; None for all.
        quick: A smoke run of the focus windows alone, which is no score.
        backbone: Who answers the policies that ask questions; each its own default unless named.
        options: Settings for those policies that take them.
    """

    scenarios: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    days: int | None = None
    quick: bool = False
    backbone: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def episodes(self) -> list[EpisodeKey]:
        """Every planned episode, in the order of the report.

        Returns:
            Keys.
        """
        return [
            EpisodeKey(scenario, policy, seed)
            for scenario in self.scenarios
            for policy in self.policies
            for seed in self.seeds
        ]

    def digest(self) -> str:
        """Hash of the plan.

        Returns:
            Sixteen hex digits.
        """
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


def plan(
    scenarios: list[str] | None = None,
    policies: list[str] | None = None,
    *,
    seeds: int | None = None,
    days: int | None = None,
    quick: bool = False,
    backbone: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Suite:
    """Plans a benchmark; controls of the chosen scenarios come along.

    Args:
        scenarios: Scenario names or paths; the paper's three unless given.
        policies: Policy names; the built-in ones unless given.
        seeds: How many seeds, counted from 0; five unless given.
        days: Days to play; all unless given.
        quick: Whether to play only the focus windows, with one seed.
        backbone: An installed backbone; each policy's own default unless given.
        options: Settings for those of the policies that take them.

    Returns:
        The plan.

    Raises:
        InvalidValueError: If a name is unknown or a number is out of range.
    """
    if seeds is not None and not 1 <= seeds <= MAX_SEEDS:
        raise InvalidValueError(f"seeds is {seeds!r}; allowed: 1 to {MAX_SEEDS}")
    if quick and seeds not in (None, 1):
        raise InvalidValueError(f"seeds is {seeds!r}; a quick run plays one")
    chosen = list(dict.fromkeys(scenarios or SCENARIOS))
    for name in chosen:
        if not name.endswith(".toml") and name not in scenario_names():
            raise invalid("scenario", name, scenario_names())
    specs = [load_world(name).scenario for name in chosen]
    for spec in specs:
        if days is not None and not 1 <= days <= spec.clock.days:
            raise InvalidValueError(
                f"days is {days!r}; allowed for {spec.name}: 1 to {spec.clock.days}"
            )
    played = {spec.name for spec in specs}
    chosen += [spec.control for spec in specs if spec.control and spec.control not in played]
    names = list(dict.fromkeys(policies or POLICIES))
    known = installed()
    for name in names:
        if ":" not in name and name not in known:
            raise invalid("policy", name, [*sorted(known), "module:factory"])
    numbers = tuple(range(1 if quick else seeds or SEEDS))
    given = dict(sorted((options or {}).items()))
    _check_options(names, given, backbone)
    return Suite(tuple(dict.fromkeys(chosen)), tuple(names), numbers, days, quick, backbone, given)


def _check_options(policies: list[str], options: Mapping[str, Any], backbone: str | None) -> None:
    """Refuses a setting, or a backbone, that none of the policies would take."""
    taken = frozenset[str]().union(*(accepted(name) for name in policies))
    for name in options:
        if name not in taken or name == BACKBONE:
            allowed = sorted(taken - {BACKBONE, "name", "options"})
            raise invalid(f"option for {', '.join(policies)}", name, allowed)
    if backbone is not None and BACKBONE not in taken:
        raise InvalidValueError(
            f"nobody would ask {backbone!r}: none of the policies takes a backbone: "
            f"{', '.join(policies)}"
        )


def make_policy(suite: Suite, name: str, backbone: Any = None) -> Policy:
    """Makes a policy of a suite.

    Args:
        suite: The plan.
        name: The policy's name.
        backbone: Who answers its questions, where it asks any; its own default unless given.

    Returns:
        The policy, with those of the suite's options that it takes.
    """
    given = dict(suite.options) | ({} if backbone is None else {BACKBONE: backbone})
    if not given:
        return load_policy(name)
    taken = accepted(name)
    return load_policy(name, **{key: value for key, value in given.items() if key in taken})
