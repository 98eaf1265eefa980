"""What a policy is: the protocol, what it is told at the start, and how it is found by name."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from voville_env.errors import InvalidValueError, VovilleError, invalid
from voville_env.observation import Observation
from voville_env.town.model import Town
from voville_env.variant import Scalar, Variant, read_variant

GROUP = "voville.policies"
BACKBONES = "voville.backbones"
COMMANDS = "voville.commands"
PATH = "path"
"""What a policy takes that plays a file, such as trained weights."""
_FACTS = ("briefing", "idle_when_settled", "privileged")
"""What `BasePolicy` keeps of a policy: facts about it, for its author alone to set."""
_NO_SETTINGS = ("backbone", "name", "options")
Observations = Mapping[str, Observation]
Infos = Mapping[str, Mapping[str, Any]]
Actions = dict[str, int]


@dataclass(frozen=True)
class PersonalRule:
    """One entry of a personal rule database (paper section 3.2).

    Attributes:
        rule: Name of the rule.
        content: The rule in words.
        utility: 1 to 100, how much the person values it.
        injunctive: Whether it says what one ought to do, rather than what people do.
        active: Whether the scenario uses it.
        valid: Whether the person holds it to be valid.
    """

    rule: str
    content: str
    utility: int
    injunctive: bool = True
    active: bool = True
    valid: bool = True


@dataclass(frozen=True)
class PersonaCard:
    """A person as a policy is told of them (paper appendix B).

    Attributes:
        id: Agent id.
        name: Full name.
        occupation: What they do.
        disposition: What they are like.
        goal: Their current goal in words.
        group: `attendee` or `bystander`.
        legitimacy_threshold: 1 to 100, the accepted legitimacy (paper section 3.3).
        rules: Personal rule database.
        schedule: Lines such as "day 1, tick 0: cafe_seat_CC".
    """

    id: str
    name: str
    occupation: str
    disposition: str
    goal: str
    group: str
    legitimacy_threshold: int
    rules: tuple[PersonalRule, ...]
    schedule: tuple[str, ...] = ()


@dataclass(frozen=True)
class Briefing:
    """What a policy is told before an episode.

    Attributes:
        town: The public town.
        personas: One card an agent.
        seed: The episode's seed, for the policy's own randomness.
        scenario: Name of the scenario.
        steps_per_tick: Steps in a tick.
        ticks_per_day: Ticks in a day.
    """

    town: Town
    personas: Mapping[str, PersonaCard]
    seed: int
    scenario: str
    steps_per_tick: int
    ticks_per_day: int


@runtime_checkable
class Policy(Protocol):
    """Decides for all agents at once.

    `idle_when_settled` may be declared True by a policy that always waits while a person is at the
    goal,
    has no rule at stake and nothing to flee from; the runner then skips such ticks. `privileged`
    must be True for a policy that reads the oracle's labels from `infos`; tables mark it.
    """

    name: str
    privileged: bool
    idle_when_settled: bool

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode."""
        ...

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Chooses an action for every agent in `observations`."""
        ...


@dataclass
class BasePolicy:
    """A convenient start for a policy: defaults for everything but `act`.

    Attributes:
        name: Shown in tables; the class name unless set.
        privileged: Whether it reads the oracle's labels.
        idle_when_settled: Whether the runner may skip idle ticks.
        briefing: What was told at the last reset.
    """

    name: str = ""
    privileged: bool = False
    idle_when_settled: bool = False
    briefing: Briefing | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Names the policy after its class where no name is given."""
        self.name = self.name or type(self).__name__.lower()

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode.

        Args:
            briefing: What the policy may know.
        """
        self.briefing = briefing

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Chooses actions.

        Args:
            observations: One observation an agent.
            infos: One info dict an agent.

        Returns:
            One action an agent.

        Raises:
            NotImplementedError: Always; a policy defines its own.
        """
        raise NotImplementedError(f"policy {self.name!r} does not define act()")

    def observe(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Receives the public events of a tick; ignored unless a policy defines it.

        Args:
            events: Event records.
        """

    def records(self) -> list[dict[str, Any]]:
        """Decision records since the last call, for the log.

        Returns:
            An empty list unless a policy defines it.
        """
        return []

    def settings(self) -> dict[str, Any]:
        """What identifies the policy in the episode key.

        Returns:
            JSON-ready settings.
        """
        return {}


def installed() -> dict[str, EntryPoint]:
    """The policies that installed packages offer.

    Returns:
        Entry points by name.
    """
    return {point.name: point for point in entry_points(group=GROUP)}


def installed_backbones() -> dict[str, EntryPoint]:
    """The backbones that installed packages offer: who answers a reasoning policy's questions.

    Returns:
        Entry points by name.
    """
    return {point.name: point for point in entry_points(group=BACKBONES)}


def load_backbone(name: str, **options: Any) -> Any:
    """Makes a backbone.

    Args:
        name: An installed name.
        **options: Passed to its factory.

    Returns:
        The backbone.

    Raises:
        InvalidValueError: If there is none of that name, or an option is not allowed.
    """
    points = installed_backbones()
    if name not in points:
        raise invalid("backbone", name, sorted(points))
    factory = points[name].load()
    try:
        return factory(**options)
    except TypeError as error:
        raise InvalidValueError(f"backbone {name!r} cannot be made: {error}") from error


def policy_variant(name: str) -> Variant:
    """Reads a policy's name with the settings that it may carry, such as `pave@threshold=50`.

    Args:
        name: The name; a dash in a key is an underscore.

    Returns:
        The plain name and the settings.

    Raises:
        InvalidValueError: If the settings cannot be read.
    """
    found = read_variant(name)
    settings: dict[str, Scalar] = {}
    for key, value in found.settings.items():
        plain = key.replace("-", "_")
        if plain in settings:
            raise InvalidValueError(f"{name!r} gives {plain!r} twice")
        settings[plain] = value
    return Variant(found.base, settings)


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    """What a policy's factory takes by keyword, and lets be chosen; empty where unreadable."""
    try:
        parameters = inspect.signature(_factory(policy_variant(name).base)).parameters
    except (TypeError, ValueError) as error:
        if isinstance(error, VovilleError):
            raise
        return {}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        key: item for key, item in parameters.items() if item.kind in kinds and key not in _FACTS
    }


def accepted(name: str) -> frozenset[str]:
    """The settings that a policy's factory takes by keyword.

    Args:
        name: As for `load_policy`.

    Returns:
        Their names, without what `BasePolicy` keeps; empty where its signature cannot be read.

    Raises:
        InvalidValueError: If there is no such policy.
    """
    return frozenset(_parameters(name))


def default_setting(name: str, key: str) -> Scalar | None:
    """What a setting of a policy is unless it is given.

    Args:
        name: As for `load_policy`, with the settings that it may carry.
        key: A setting that the policy takes.

    Returns:
        The default; None where there is none, or nothing that could be written in a name.
    """
    value = policy_variant(name).settings.get(key, _parameters(name)[key].default)
    if isinstance(value, Enum):
        value = value.value
    return value if isinstance(value, str | int | float | bool) else None


def settable(name: str) -> list[str]:
    """The settings of a policy that a user may choose.

    Args:
        name: As for `load_policy`.

    Returns:
        What its factory takes, without its backbone, its name and what `BasePolicy` keeps, sorted.

    Raises:
        InvalidValueError: If there is no such policy.
    """
    return sorted(accepted(name) - set(_NO_SETTINGS))


def load_policy(name: str, **settings: Any) -> Policy:
    """Makes a policy.

    Args:
        name: An installed name; `name:PATH`, as in `ppo:runs/weights.npz`, for an installed policy
            that takes a `path`; or `module:factory`, where the module may be a file in the working
            directory. Each may carry settings, as in `pave@threshold=50`, which come first.
        **settings: Passed to the factory.

    Returns:
        The policy.

    Raises:
        InvalidValueError: If there is none of that name, a setting is not one of its own, or it is
            no policy.
    """
    variant = policy_variant(name)
    factory = _factory(variant.base)
    for key in variant.settings:
        if key not in (allowed := settable(variant.base)):
            raise invalid(f"setting of policy {variant.base!r}", key, allowed or ["none"])
    try:
        policy = factory(**{**settings, **variant.settings})
    except VovilleError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidValueError(
            f"policy {name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error
    missing = [part for part in ("name", "reset", "act") if not hasattr(policy, part)]
    if missing:
        raise InvalidValueError(
            f"policy {name!r} made a {type(policy).__name__} without {', '.join(missing)}; "
            "subclass voville_env.policy.BasePolicy"
        )
    return policy


def _factory(name: str) -> Callable[..., Policy]:
    if ":" not in name:
        points = installed()
        if name not in points:
            raise invalid("policy", name, [*sorted(points), "module:factory"])
        found: Callable[..., Policy] = points[name].load()
        return found
    module_name, _, attribute = name.partition(":")
    if module_name in (points := installed()):
        of_file = _with_path(points[module_name].load(), attribute)
        if of_file is not None:
            return of_file
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InvalidValueError(
            f"policy {name!r}: cannot import {module_name!r}: {error}"
        ) from error
    if not hasattr(module, attribute):
        options = [key for key, value in vars(module).items() if callable(value)]
        raise invalid(f"factory in module {module_name!r}", attribute, options)
    made: Callable[..., Policy] = getattr(module, attribute)
    return made


def _with_path(factory: Callable[..., Policy], path: str) -> Callable[..., Policy] | None:
    """An installed factory bound to a file; None if it takes no `path`."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return None
    if PATH not in signature.parameters:
        return None
    if not path:
        raise InvalidValueError("the path after the policy's name is empty; allowed: name:PATH")

    def make(**settings: Any) -> Policy:
        return factory(**{PATH: path}, **settings)

    others = [item for key, item in signature.parameters.items() if key != PATH]
    make.__dict__["__signature__"] = signature.replace(parameters=others)
    return make
