"""What a benchmark plays: scenarios, policies and seeds, and the key of each episode."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from voville_env.errors import InvalidValueError, invalid
from voville_env.policy import (
    Policy,
    accepted,
    installed,
    load_policy,
    policy_variant,
    settable,
)
from voville_env.scenario import load_world
from voville_env.scenario.load import scenario_variant
from voville_env.scenario.suites import joint_id, suite_of
from voville_env.variant import Scalar, Variant

SCENARIOS = ("fire_escape", "fire_escape_officers", "jaywalk")
CONDITIONS = (
    *("pave", "pave-prompt-gate", "pave-no-gate", "pave-fixed-threshold", "pave-no-authority"),
    *("pave-no-scope", "vanilla"),
)
"""What the benchmark compares with one another, on one backbone."""
POLICIES = (*CONDITIONS, "lawful", "direct", "random", "oracle")
SEEDS = 5
MAX_SEEDS = 100_000
BACKBONE = "backbone"
VARIATIONS = ("paper", "wide")
SEED_SETS = ("evaluation", "train")
_STEM = 80
"""Characters of a name that a file name repeats."""


def slug(text: str) -> str:
    """A part of a file name: readable, and unique for the text.

    Args:
        text: A name.

    Returns:
        The name itself, or what a file name may hold of it and a few digits of its hash.
    """
    short = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.")[:_STEM] or "x"
    return short if short == text else f"{short}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


@dataclass(frozen=True, order=True)
class EpisodeKey:
    """One planned episode.

    Attributes:
        scenario: Scenario name or path, with the keys that it changes.
        policy: Policy name or `module:factory`, with the settings that it carries.
        seed: The seed.
    """

    scenario: str
    policy: str
    seed: int

    @property
    def stem(self) -> str:
        """A file name without its ending: readable, and unique for the key."""
        return f"{slug(self.scenario)}--{slug(self.policy)}--{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """The key as a JSON-ready dict.

        Returns:
            `scenario`, `policy` and `seed`.
        """
        return asdict(self)


@dataclass(frozen=True)
class Sweep:
    """What a benchmark varies to see what depends on it.

    Attributes:
        parameter: Its name.
        kind: `policy` or `scenario`: whose names carry it.
        key: The setting in those names.
        values: The values, in the order of the report.
        defaults: What it is in each plain name that is varied; None where that has no one value.
        metrics: What it is expected to move.
        unset: What it means that there is no one value, in words.
        words: What values that are no quantity mean, by the value as it is written in a name.
    """

    parameter: str
    kind: str
    key: str
    values: tuple[Scalar, ...]
    defaults: Mapping[str, Scalar | None]
    metrics: tuple[str, ...]
    unset: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    def of(self, scenario: str, policy: str) -> tuple[Variant, Scalar | None]:
        """The value that an episode was played with.

        Args:
            scenario: Its scenario.
            policy: Its policy.

        Returns:
            The policy or scenario without the parameter, and its value.
        """
        named = policy_variant(policy) if self.kind == "policy" else scenario_variant(scenario)
        plain = named.without(self.key)
        return plain, named.settings.get(self.key, self.defaults.get(plain.name))


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
        sweep: What the names of policies or scenarios vary, if the benchmark was planned for that.
    """

    scenarios: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    days: int | None = None
    quick: bool = False
    backbone: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sweep: Sweep | None = None

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

    def described(self) -> dict[str, Any]:
        """What is played, as it is written down.

        Returns:
            A JSON-ready dict; what is swept stands in the names already.
        """
        return {key: value for key, value in asdict(self).items() if key != "sweep"}

    def suite_ids(self) -> dict[str, str]:
        """Which suite each scenario belongs to: results are comparable within one alone.

        Returns:
            Suite ids by scenario.
        """
        return {name: suite_of(load_world(name)).id for name in self.scenarios}

    def suite_id(self) -> str:
        """The suite of all that is played.

        Returns:
            The id, one of a mixture where the scenarios are of several.
        """
        return joint_id(list(self.suite_ids().values()))

    def seed_set(self) -> str:
        """What the suites keep the seeds for.

        Returns:
            `evaluation`; `train` if one of them is for training; `other` if one is for neither.
        """
        kept = [suite_of(load_world(name)) for name in self.scenarios]
        if any(seed in item.train for item in kept for seed in self.seeds):
            return "train"
        inside = all(seed in item.evaluation for item in kept for seed in self.seeds)
        return "evaluation" if inside else "other"

    def digest(self) -> str:
        """Hash of the plan.

        Returns:
            Sixteen hex digits.
        """
        return hashlib.sha256(json.dumps(self.described()).encode()).hexdigest()[:16]


def plan(
    scenarios: list[str] | None = None,
    policies: list[str] | None = None,
    *,
    seeds: int | None = None,
    days: int | None = None,
    quick: bool = False,
    backbone: str | None = None,
    options: Mapping[str, Any] | None = None,
    controls: bool = True,
) -> Suite:
    """Plans a benchmark; controls of the chosen scenarios come along.

    Args:
        scenarios: Scenario names or paths; the paper's three unless given.
        policies: Policy names; the built-in ones unless given.
        seeds: How many of those kept for evaluation, from the first on; five unless given.
        days: Days to play; all unless given.
        quick: Whether to play only the focus windows, with one seed.
        backbone: An installed backbone; each policy's own default unless given.
        options: Settings for those of the policies that take them.
        controls: Whether the controls come along.

    Returns:
        The plan.

    Raises:
        InvalidValueError: If a policy is unknown or a number is out of range.
        ScenarioError: If a scenario is unknown or wrong.
    """
    if seeds is not None and not 1 <= seeds <= MAX_SEEDS:
        raise InvalidValueError(f"seeds is {seeds!r}; allowed: 1 to {MAX_SEEDS}")
    if quick and seeds not in (None, 1):
        raise InvalidValueError(f"seeds is {seeds!r}; a quick run plays one")
    chosen = list(dict.fromkeys(scenario_variant(name).name for name in scenarios or SCENARIOS))
    specs = [load_world(name).scenario for name in chosen]
    for spec in specs:
        if days is not None and not 1 <= days <= spec.clock.days:
            raise InvalidValueError(
                f"days is {days!r}; allowed for {spec.name}: 1 to {spec.clock.days}"
            )
    if controls:
        played = {spec.name for spec in specs}
        chosen += [spec.control for spec in specs if spec.control and spec.control not in played]
    names = _named(policies or POLICIES)
    numbers = tuple(suite_of(load_world(chosen[0])).evaluation[: 1 if quick else seeds or SEEDS])
    given = dict(sorted((options or {}).items()))
    _check_options(names, given, backbone)
    return Suite(tuple(dict.fromkeys(chosen)), tuple(names), numbers, days, quick, backbone, given)


def with_variation(scenarios: Iterable[str] | None, variation: str) -> list[str]:
    """Names the scenarios with what the seed is to vary in them.

    Args:
        scenarios: Scenario names or paths; the paper's three unless given.
        variation: `paper` or `wide`.

    Returns:
        The names; changed where a scenario does not say so itself.

    Raises:
        InvalidValueError: If there is no such variation.
    """
    if variation not in VARIATIONS:
        raise invalid("variation", variation, VARIATIONS)
    named = [scenario_variant(name) for name in scenarios or SCENARIOS]
    return [
        item.name
        if load_world(item.name).scenario.variation.kind == variation
        else item.varied("variation.kind", variation).name
        for item in named
    ]


def with_seed_set(suite: Suite, seed_set: str) -> Suite:
    """The same plan on as many seeds of a set.

    Args:
        suite: The plan.
        seed_set: `evaluation`, or `train`, on which no evaluation is made.

    Returns:
        The plan on the first seeds of that set.

    Raises:
        InvalidValueError: If there is no such set.
    """
    if seed_set not in SEED_SETS:
        raise invalid("seed_set", seed_set, SEED_SETS)
    kept = suite_of(load_world(suite.scenarios[0]))
    seeds = kept.train if seed_set == "train" else kept.evaluation
    return replace(suite, seeds=tuple(seeds[: len(suite.seeds)]))


def _named(policies: Iterable[str]) -> list[str]:
    """The policies by their names as they are written down; refuses those that are unknown."""
    known = installed()
    found = [policy_variant(name) for name in policies]
    for item in found:
        if ":" not in item.base and item.base not in known:
            raise invalid("policy", item.base, [*sorted(known), "module:factory"])
    return list(dict.fromkeys(item.name for item in found))


def _check_options(policies: list[str], options: Mapping[str, Any], backbone: str | None) -> None:
    """Refuses a setting, or a backbone, that none of the policies would take."""
    allowed = sorted({key for policy in policies for key in settable(policy)})
    for name in options:
        if name not in allowed:
            raise invalid(f"option for {', '.join(policies)}", name, allowed or ["none"])
    if backbone is not None and not any(BACKBONE in accepted(name) for name in policies):
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
