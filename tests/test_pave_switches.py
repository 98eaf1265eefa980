"""The switches of PAVE and of the surrogate: checked, shown, and each changing one thing."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from pave_kit import (
    ABLATIONS,
    Defiant,
    cases,
    judged,
    observed_by_commuter,
    solo,
    start,
    verdicts_of,
)

from pave_policy.assessment import Case, assess
from pave_policy.backbone import (
    ActionRequest,
    EmpiricalRequest,
    LegitimacyRequest,
    LegitimacyScore,
    Opinion,
    RiskRequest,
    VerdictRequest,
    run_now,
)
from pave_policy.calibration import SurrogateSettings
from pave_policy.conditions import (
    Condition,
    pave,
    pave_fixed_threshold,
    pave_no_gate,
)
from pave_policy.outcome import Outcome
from pave_policy.records import GateMode, TimedAction
from pave_policy.settings import PaveSettings
from pave_policy.surrogate import Surrogate
from pave_policy.verdict import ORDERS
from voville_env.core.codes import (
    Behaviour,
    CueType,
    Rule,
)
from voville_env.errors import InvalidValueError
from voville_env.observation import Context, Cue, Peer, Way

SWITCHES: dict[str, Any] = {
    "threshold": 42,
    "oscillation_guard": "memory",
    "perception": "llm",
    "elicit_threshold": True,
    "peer_text": True,
    "emulation_executor": "llm",
    "p_emp_semantics": "violation",
    "gate_scope": "zone",
    "authority_mode": "hard",
    "legitimacy_inputs": "paper",
}


OF_SURROGATE: dict[str, Any] = {
    "risk_model": "bands",
    "risk_veto": 0,
    "p_emp_estimator": "raw",
    "slip_rate": 10,
}


class Foreign:
    """A backbone that has nothing of the surrogate."""

    name = "foreign"
    concurrent = False

    def __getattr__(self, name: str) -> Any:
        return getattr(Surrogate(), name)


@given(case=cases())
def test_orders_bind_only_where_one_is_in_force(case: Case) -> None:
    free = judged(case, GateMode.CODE, Defiant())
    bound = judged(replace(case, orders_bind=True), GateMode.CODE, Defiant())
    if case.context.instruction in ORDERS:
        assert not bound.violates
        assert not free.violates or "instruction" in bound.justification
    else:
        assert bound == free


@given(case=cases())
def test_either_share_of_the_peers_leads_to_the_same_verdict(case: Case) -> None:
    other = replace(case, p_emp_share=pave(p_emp_semantics="violation").options.p_emp_semantics)
    first, second = (run_now(assess(Surrogate(), item)).value for item in (case, other))
    assert first is not None and second is not None
    assert first.p_emp + second.p_emp == 100
    assert first.model_copy(update={"p_emp": 1}) == second.model_copy(update={"p_emp": 1})
    for gate in GateMode:
        ours, theirs = judged(case, gate), judged(other, gate)
        assert (ours.decision, ours.confidence) == (theirs.decision, theirs.confidence)


class Recorder(Surrogate):
    """Keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    async def assess_empirical(self, request: EmpiricalRequest) -> Outcome[Any]:
        self.asked.append(request)
        return await super().assess_empirical(request)

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        self.asked.append(request)
        return await super().assess_legitimacy(request)

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        self.asked.append(request)
        return await super().generate_verdict(request)

    async def emulate_action(self, request: ActionRequest) -> Outcome[tuple[TimedAction, ...]]:
        self.asked.append(request)
        return await super().emulate_action(request)


def asked(kind: type, scenario: str = "fire_escape_officers", **options: Any) -> list[Any]:
    backbone = Recorder()
    solo(scenario, pave(backbone, **options))
    found = [request for request in backbone.asked if type(request) is kind]
    assert found
    return found


@pytest.mark.parametrize("name", ABLATIONS)
def test_a_condition_differs_in_one_setting(name: str) -> None:
    made, key = ABLATIONS[name]
    policy = made()
    assert policy.name == name
    full, ablated = pave().settings(), policy.settings()
    assert {item for item in full if full[item] != ablated[item]} == {key}


@pytest.mark.parametrize(("key", "value"), (SWITCHES | OF_SURROGATE).items())
def test_every_switch_reaches_the_settings(key: str, value: object) -> None:
    def shown(**options: Any) -> object:
        settings = pave(**options).settings()
        json.dumps(settings, allow_nan=False)
        return settings["backbone"]["constants"][key] if key in OF_SURROGATE else settings[key]

    assert shown(**{key: value}) == value != shown()
    default = inspect.signature(pave).parameters[key].default
    assert shown() == default


def test_a_condition_takes_every_setting_but_those_that_define_one() -> None:
    names = set(inspect.signature(pave).parameters)
    assert names == {"backbone", *SWITCHES, *OF_SURROGATE}
    defining = {key for _, key in ABLATIONS.values()} - {"threshold"}
    assert {item.name for item in fields(PaveSettings)} == {*SWITCHES, *defining}
    assert inspect.signature(pave_fixed_threshold).parameters["threshold"].default == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"oscilation_guard": "off"}, "did you mean 'oscillation_guard'"),
        ({"gate": "off"}, "option of pave is 'gate'"),
        ({"oscillation_guard": "hysterisis"}, "did you mean 'hysteresis'"),
        ({"oscillation_guard": True}, "oscillation_guard is True; allowed: hysteresis"),
        ({"emulation_executor": "plan"}, "did you mean 'planner'"),
        ({"p_emp_semantics": "complience"}, "did you mean 'compliance'"),
        ({"gate_scope": "zones"}, "did you mean 'zone'"),
        ({"authority_mode": "hart"}, "did you mean 'hard'"),
        ({"legitimacy_inputs": "route-aware"}, "did you mean 'route_aware'"),
        ({"legitimacy_inputs": ["paper"]}, "legitimacy_inputs is"),
        ({"threshold": 0}, "threshold is 0; allowed: whole numbers from 1 to 100"),
        ({"threshold": 101}, "threshold is 101"),
        ({"threshold": True}, "threshold is true; allowed: .* without one"),
        ({"threshold": 60.0}, "threshold is 60.0"),
        ({"peer_text": "yes"}, "peer_text is 'yes'; allowed: true, false"),
        ({"risk_model": "band"}, "did you mean 'bands'"),
        ({"p_emp_estimator": "row"}, "did you mean 'raw'"),
        ({"risk_veto": -1}, "risk_veto is -1; allowed: whole numbers from 1 to 100, 0 for none"),
        ({"risk_veto": False}, "risk_veto is False"),
    ],
)
def test_what_is_not_allowed_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        pave(**options)


@pytest.mark.parametrize(("key", "value"), OF_SURROGATE.items())
def test_what_belongs_to_the_surrogate_is_refused_elsewhere(key: str, value: object) -> None:
    with pytest.raises(InvalidValueError, match=f"{key} belongs to the surrogate, and 'foreign'"):
        pave(Foreign(), **{key: value})
    mine = Surrogate()
    constants = pave(mine, **{key: value}).settings()["backbone"]["constants"]
    assert constants[key] == value
    assert mine.constants == SurrogateSettings()


def test_the_share_asked_for_is_also_the_one_weighed() -> None:
    for kind in (EmpiricalRequest, VerdictRequest):
        for share in ("violation", "compliance"):
            requests = asked(kind, "jaywalk", p_emp_semantics=share)
            assert {request.p_emp_share.value for request in requests} == {share}
    first = solo("jaywalk", pave_no_gate())
    second = solo("jaywalk", pave_no_gate(p_emp_semantics="violation"))
    assert first.actions == second.actions
    logged = [
        [(r["p_emp"], r["p_emp_violation"]) for r in run.records if r["type"] == "assessment"]
        for run in (first, second)
    ]
    assert [(100 - p, q) for p, q in logged[0]] == logged[1]
    assert any(p > 50 and p == q for p, q in logged[1])


def test_away_from_signals_a_zoned_gate_is_not_evaluated() -> None:
    briefing, near = observed_by_commuter(
        lambda _, now: now["self"].tolist()[3:5] == [32, 0]  # the light is red
    )
    away = {**near, "signal": np.zeros_like(near["signal"])}

    def gate_open(seen: Mapping[str, Any], scope: str) -> bool:
        policy = pave(gate_scope=scope)
        policy.reset(briefing)
        policy.act({"CC": seen}, {})
        (verdict,) = verdicts_of(policy).values()
        assert verdict["legitimacy"] < verdict["threshold"]
        return bool(verdict["gate_open"])

    assert [gate_open(seen, "zone") for seen in (near, away)] == [False, True]
    assert [gate_open(seen, "opportunity") for seen in (near, away)] == [False, False]
    for request in asked(ActionRequest):
        verdict = request.verdict
        assert verdict.gate_open is (verdict.legitimacy >= verdict.threshold)


def test_binding_orders_are_always_obeyed() -> None:
    def disobeyed(mode: str) -> int:
        requests = asked(ActionRequest, authority_mode=mode, risk_veto=0)
        ordered = [item for item in requests if item.context.instruction in ORDERS]
        assert ordered
        return sum(request.verdict.violates for request in ordered)

    assert disobeyed("risk") > 0 == disobeyed("hard")


def test_with_the_papers_inputs_legitimacy_knows_no_ways() -> None:
    told = asked(LegitimacyRequest, legitimacy_inputs="paper")
    assert {(request.escape, request.errand) for request in told} == {(None, None)}
    assert all(request.escape is not None for request in asked(LegitimacyRequest))


def risk_at(away: int, **options: Any) -> int:
    scene = Context(authority_present=True, authority_distance_tiles=away)
    card = start()[0].personas["CC"]
    request = RiskRequest(scene, card, (Rule.RED_LIGHT,), passage_granted=False)
    score = run_now(Surrogate().adjusted(**options).assess_risk(request)).value
    assert score is not None
    return score.value


def test_risk_in_bands_is_the_middle_of_the_prompts_bands() -> None:
    risks = [risk_at(away, risk_model="bands") for away in (0, 3, 4, 10, 11, 50)]
    assert risks == [82, 82, 45, 45, 18, 18]
    smooth = [risk_at(away) for away in range(20)]
    assert smooth == sorted(smooth, reverse=True) and len(set(smooth)) > 15


def test_without_a_veto_risk_does_not_block_a_legitimate_violation() -> None:
    fire = Cue(type=CueType.FIRE, distance_tiles=2, severity=90)
    near = Context(authority_present=True, authority_distance_tiles=1, situational_cues=(fire,))
    case = Case(near, start()[0].personas["CC"], (Rule.RED_LIGHT,))
    assert not judged(case, GateMode.CODE).violates
    assert judged(case, GateMode.CODE, Surrogate().adjusted(risk_veto=0)).violates


@pytest.mark.parametrize(
    ("complying", "breaking", "raw", "succession"),
    [(0, 0, 50, 50), (0, 2, 1, 25), (2, 0, 100, 75), (1, 3, 25, 33)],
)
def test_the_share_as_counted_and_by_succession(
    complying: int, breaking: int, raw: int, succession: int
) -> None:
    seen = tuple(
        Peer(
            dx=1,
            dy=0,
            behaviour=Behaviour.WAITING,
            rule=Rule.RED_LIGHT,
            followed=followed,
            age=0,
            text="",
        )
        for followed in [True] * complying + [False] * breaking
    )
    request = EmpiricalRequest(seen, (Rule.RED_LIGHT,))
    for estimator, share in (("raw", raw), ("succession", succession)):
        score = run_now(Surrogate().adjusted(p_emp_estimator=estimator).assess_empirical(request))
        assert score.value is not None
        assert (score.value.value, score.value.n_complying) == (share, complying)


def test_a_way_without_rules_in_question_caps_legitimacy_only_where_ways_are_known() -> None:
    fire = Cue(type=CueType.FIRE, distance_tiles=2, severity=90)
    way = Way(distance=20, next_action=1, rules=(), wait=0)
    scene = Context(
        authority_present=False,
        authority_distance_tiles=None,
        situational_cues=(fire,),
        ways={"safe_lawful": way, "safe_scoped": way},
    )
    case = Case(scene, start()[0].personas["CC"], (Rule.RED_LIGHT,))
    blind = replace(case, route_aware=False)
    assert judged(case, GateMode.CODE).legitimacy == SurrogateSettings().legitimacy_cap
    assert judged(blind, GateMode.CODE).legitimacy > 80


def test_a_condition_of_ones_own_is_one_line() -> None:
    mine = Condition("mine", PaveSettings(threshold=42))
    assert (mine().name, mine().options.threshold) == ("mine", 42)
