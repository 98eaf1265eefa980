"""Parameters whose influence on the results is worth a benchmark of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from voville_env.benchmarks.suite import Suite, Sweep, plan
from voville_env.errors import InvalidValueError, invalid
from voville_env.policy import default_setting, policy_variant, settable
from voville_env.scenario import load_world
from voville_env.scenario.load import scenario_variant
from voville_env.variant import Scalar, Variant, read_values, typed, write_value

POLICY, SCENARIO = "policy", "scenario"
LIST = "list"
"""In place of a parameter: shows what there is."""
FIRE, OFFICERS, PEERS = "fire_escape", "fire_escape_officers", "jaywalk"
_ESCAPE = ("vr_cafe", "vr_cafe_exposed", "urv", "t_rec_origin", "t_rec_radius", "harm")
_ORDERS = ("ocr", "vr_near", "vr_mid", "vr_far", "vr_exit")
_CONTAGION = ("cr_d1", "cr_d2", "day2_rate")
_ERRORS = ("false_violation_rate", "false_compliance_rate")


@dataclass(frozen=True)
class Parameter:
    """A parameter that can be swept.

    Attributes:
        name: Its name.
        kind: Whether it is a setting of the policy or a key of the scenario.
        key: That setting or key.
        values: The values played unless others are given.
        scenarios: The scenarios played unless others are given: where it can act.
        metrics: What it is expected to move.
        unset: What it means that it has no default, in words.
        words: What values that are no quantity mean, by the value as it is written in a name.
        needs: The part of a scenario without which it cannot act; empty where it can anywhere.
    """

    name: str
    kind: str
    key: str
    values: tuple[Scalar, ...]
    scenarios: tuple[str, ...]
    metrics: tuple[str, ...]
    unset: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""

    def as_json(self) -> dict[str, Any]:
        """The parameter as data.

        Returns:
            A JSON-ready dict.
        """
        return asdict(self)


PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "threshold",
        POLICY,
        "threshold",
        (20, 40, 50, 60, 70, 80),
        (FIRE, OFFICERS, PEERS),
        (*_ESCAPE, *_ORDERS, *_CONTAGION, *_ERRORS),
        unset="own",
    ),
    Parameter(
        "hazard_radius",
        SCENARIO,
        "perception.hazard_radius",
        (0, 6, 12, 15, 18),
        (FIRE,),
        (*_ESCAPE, *_ERRORS),
        words={"0": "own reach"},
        needs="fires",
    ),
    Parameter(
        "authority_radius",
        SCENARIO,
        "perception.authority_radius",
        (4, 8, 12, 16, 20),
        (OFFICERS,),
        (*_ORDERS, "urv"),
        needs="officers",
    ),
    Parameter(
        "instruction_radius",
        SCENARIO,
        "perception.instruction_radius",
        (3, 6, 12, 20),
        (OFFICERS,),
        (*_ORDERS, "urv"),
        needs="officers",
    ),
    Parameter(
        "peer_radius",
        SCENARIO,
        "perception.peer_radius",
        (3, 6, 12, 20),
        (PEERS,),
        (*_CONTAGION, "cr_d1_agent", "non_observer_conversion"),
    ),
    Parameter(
        "severity_model",
        SCENARIO,
        "perception.severity_model",
        ("linear", "walkthrough"),
        (FIRE,),
        (*_ESCAPE, *_ERRORS),
        needs="fires",
    ),
    Parameter(
        "p_emp_semantics",
        POLICY,
        "p_emp_semantics",
        ("compliance", "violation"),
        (FIRE, PEERS),
        (*_ESCAPE, *_CONTAGION),
    ),
    Parameter(
        "risk_model",
        POLICY,
        "risk_model",
        ("exponential", "bands"),
        (OFFICERS,),
        _ORDERS,
    ),
    Parameter(
        "risk_veto",
        POLICY,
        "risk_veto",
        (0, 50, 65, 80, 95),
        (OFFICERS,),
        _ORDERS,
        words={"0": "none"},
    ),
    Parameter(
        "slip_rate",
        POLICY,
        "slip_rate",
        (0, 5, 10, 20),
        (FIRE, OFFICERS, PEERS),
        (*_ESCAPE, *_ORDERS, *_CONTAGION, "gate_leak"),
    ),
    Parameter(
        "oscillation_guard",
        POLICY,
        "oscillation_guard",
        ("hysteresis", "memory", "off"),
        (FIRE, PEERS),
        (*_ESCAPE, *_CONTAGION),
    ),
    Parameter(
        "gate_scope",
        POLICY,
        "gate_scope",
        ("opportunity", "zone"),
        (FIRE, PEERS),
        (*_ESCAPE, *_CONTAGION, "bystander_violations"),
    ),
)


def parameter_of(name: str) -> Parameter:
    """Finds a parameter.

    Args:
        name: Its name; a dash is an underscore.

    Returns:
        The parameter.

    Raises:
        InvalidValueError: If there is none of that name.
    """
    known = {item.name: item for item in PARAMETERS}
    plain = name.replace("-", "_")
    if plain not in known:
        raise invalid("parameter", name, [*known, LIST])
    return known[plain]


def plan_sweep(
    name: str,
    values: str | None = None,
    *,
    scenarios: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Suite:
    """Plans a benchmark that varies one parameter; no controls come along.

    Every policy or scenario is also played as it is, which stands for the default value.

    Args:
        name: The parameter.
        values: Its values, with commas between them; those of the catalogue unless given.
        scenarios: Scenario names or paths; those where the parameter can act unless given.
        policies: Policy names; PAVE unless given.
        options: Settings for those of the policies that take them.
        **settings: As for `plan`: `seeds`, `days`, `backbone`.

    Returns:
        The plan.

    Raises:
        InvalidValueError: If a name or value is not allowed, or nothing would be varied.
        ScenarioError: If a scenario is unknown or wrong, or does not have the key.
    """
    parameter = parameter_of(name)
    chosen = parameter.values if values is None else read_values(values, parameter.name)
    places, names = list(scenarios or parameter.scenarios), list(policies or ("pave",))
    for place in places:
        _check_acts(parameter, place)
    if parameter.kind == POLICY and parameter.key in (options or {}):
        raise InvalidValueError(f"option {parameter.key!r} is what is swept; leave it out")
    swept = names if parameter.kind == POLICY else places
    defaults: dict[str, Scalar | None] = {}
    varied: list[str] = []
    for given in swept:
        plain, title, default = _default(parameter, given)
        defaults[title] = default
        others = [value for value in chosen if not _same(value, default)]
        if not others:
            raise InvalidValueError(
                f"values of {parameter.name} are {values!r}; allowed: another than the default "
                f"{typed(default)}"
            )
        varied += [plain.name, *(plain.varied(parameter.key, value).name for value in others)]
    if parameter.kind == POLICY:
        names = varied
    else:
        places = varied
    suite = plan(places, names, options=options, controls=False, **settings)
    own = [value for value in defaults.values() if value is not None]
    shown = tuple({write_value(value): value for value in (*chosen, *own)}.values())
    sweep = Sweep(
        parameter=parameter.name,
        kind=parameter.kind,
        key=parameter.key,
        values=shown,
        defaults=defaults,
        metrics=parameter.metrics,
        unset=parameter.unset,
        words=parameter.words,
    )
    return replace(suite, sweep=sweep)


def _check_acts(parameter: Parameter, place: str) -> None:
    """Refuses a scenario in which every value would give the same."""
    spec = load_world(place).scenario
    if parameter.needs and not getattr(spec, parameter.needs):
        raise InvalidValueError(
            f"{parameter.name} cannot act in {spec.name!r}, which has no {parameter.needs}; "
            f"allowed: scenarios with {parameter.needs}, such as {parameter.scenarios[0]}"
        )


def _same(value: Scalar, default: Scalar | None) -> bool:
    return default is not None and write_value(value) == write_value(default)


def _default(parameter: Parameter, given: str) -> tuple[Variant, str, Scalar | None]:
    """What is varied, by which name reports know it, and what the parameter is there."""
    key = parameter.key
    found = policy_variant(given) if parameter.kind == POLICY else scenario_variant(given)
    if key in found.settings:
        raise InvalidValueError(f"{given!r} sets {key!r} itself, which is what is swept")
    if parameter.kind == POLICY:
        allowed = settable(found.base)
        if key not in allowed:
            raise invalid(f"setting of policy {found.base!r}", key, allowed or ["none"])
        return found, found.name, default_setting(found.name, key)
    spec = load_world(found.name).scenario
    part: Any = spec.model_dump(mode="json")
    for step in key.split("."):
        if step not in part:
            raise invalid(f"key {key!r} of scenario", step, part)
        part = part[step]
    return found, spec.name, part
