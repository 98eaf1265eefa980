"""The printed walkthroughs, replayed through assessment and verdict of the surrogate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pave_policy.assessment import Case, assess
from pave_policy.backbone import LegitimacyRequest, LegitimacyScore, run_now
from pave_policy.calibration import SurrogateSettings
from pave_policy.constants import sources
from pave_policy.generative.settings import Calibration, GenerativeSettings
from pave_policy.outcome import Outcome
from pave_policy.records import Assessment, GateMode, Verdict
from pave_policy.surrogate import Surrogate
from pave_policy.verdict import give_verdict
from voville_env.core.codes import Behaviour, CueType, Decision, Instruction, Rule
from voville_env.observation import Context, Cue, Peer, Way
from voville_env.policy import PersonaCard, PersonalRule

WALKTHROUGHS = json.loads(
    (Path(__file__).parent / "data" / "walkthroughs.json").read_text(encoding="utf-8")
)
CUES = {
    "fire": CueType.FIRE,
    "time pressure": CueType.TIME_PRESSURE,
    "conversation": CueType.CONVERSATION,
}
RULES = tuple(PersonalRule(rule.name, rule.name, 90) for rule in Rule)


def person(walkthrough: dict[str, Any]) -> PersonaCard:
    return PersonaCard(
        id=walkthrough["agent"],
        name="",
        occupation="",
        disposition="",
        goal="",
        group="attendee",
        legitimacy_threshold=walkthrough["threshold"],
        rules=RULES,
    )


def context(cues: list[Any], **more: Any) -> Context:
    return Context(
        authority_present=more.get("authority_distance_tiles") is not None,
        authority_distance_tiles=more.pop("authority_distance_tiles", None),
        situational_cues=tuple(
            Cue(type=CUES[kind], distance_tiles=away, severity=severity)
            for kind, away, severity in cues
        ),
        **more,
    )


def judged(
    case: Case, backbone: Surrogate | None = None, gate: GateMode = GateMode.CODE
) -> tuple[Assessment, Verdict]:
    backbone = backbone or Surrogate()
    assessment = run_now(assess(backbone, case)).value
    assert assessment is not None
    return assessment, run_now(give_verdict(backbone, case, assessment, gate))


class PrintedLegitimacy(Surrogate):
    """The surrogate with one printed legitimacy in place of its own."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.value = value

    async def assess_legitimacy(self, request: LegitimacyRequest) -> Outcome[LegitimacyScore]:
        return Outcome(LegitimacyScore(self.value, "", "", ""))


@pytest.mark.parametrize("printed_severity", [True, False], ids=["printed", "formula"])
def test_d1_gate_decisions_and_legitimacy(printed_severity: bool) -> None:
    walkthrough = WALKTHROUGHS["D1"]
    for row in walkthrough["rows"]:
        cue = row["cue"]
        if cue is not None and not printed_severity:
            cue = [cue[0], cue[1], row["severity_by_formula"]]
        rules = tuple(Rule[name] for name in row["rules"]) or (Rule.RED_LIGHT,)
        case = Case(context([cue] if cue else []), person(walkthrough), rules)
        assessment, verdict = judged(case)
        assert verdict.gate_open is row["gate_open"], row
        assert verdict.decision.value == row["decision"], row
        assert abs(assessment.legitimacy - row["legitimacy"]) <= 12, row


def test_d1_recovers_at_the_printed_tick() -> None:
    walkthrough = WALKTHROUGHS["D1"]
    late = [row for row in walkthrough["rows"] if row["tick"] >= walkthrough["ignition"]]
    decisions = []
    for row in late:
        cues = [row["cue"]] if row["cue"] else []
        case = Case(context(cues), person(walkthrough), (Rule.ONE_WAY,))
        decisions.append(judged(case)[1].decision)
    assert sum(decision is Decision.VIOLATE for decision in decisions) == 5
    back = next(
        row["tick"]
        for row, decision in zip(late, decisions, strict=True)
        if decision is Decision.COMPLY
    )
    assert back == walkthrough["recovery"]


def test_d2_risk_and_decisions_with_printed_legitimacy() -> None:
    walkthrough = WALKTHROUGHS["D2"]
    passed = False
    for row in walkthrough["rows"]:
        order = Instruction[row["instruction"].upper()] if row["instruction"] else Instruction.NONE
        passed = (passed or order is Instruction.PASS) and row["officer_tiles"] is not None
        seen = context(
            [["fire", 10, 45]], authority_distance_tiles=row["officer_tiles"], instruction=order
        )
        case = Case(seen, person(walkthrough), (Rule.RED_LIGHT,), passage_granted=passed)
        assessment, verdict = judged(case, PrintedLegitimacy(row["legitimacy"]))
        assert abs(assessment.risk - row["risk"]) <= 2, row
        assert verdict.decision.value == row["decision"], row
        assert verdict.gate_open
        if verdict.decision is Decision.COMPLY:
            assert "officer" in verdict.justification.lower()


def jaywalking(count: int) -> tuple[Peer, ...]:
    return tuple(
        Peer(
            dx=k + 1,
            dy=0,
            behaviour=Behaviour.CROSSING_ON_RED,
            rule=Rule.RED_LIGHT,
            followed=False,
            age=0,
            text="",
        )
        for k in range(count)
    )


def d3_rows(gate: GateMode, officer: int | None = None) -> list[tuple[dict[str, Any], Any, Any]]:
    walkthrough = WALKTHROUGHS["D3"]
    rows = []
    for row in walkthrough["rows"]:
        late = [["time pressure", 0, 25]] if row["tick"] < walkthrough["green"] else []
        peers = jaywalking(row["jaywalkers"])
        seen = context(late, peer_behaviors=peers, authority_distance_tiles=officer)
        case = Case(seen, person(walkthrough), (Rule.RED_LIGHT,))
        rows.append((row, *judged(case, gate=gate)))
    return rows


def test_d3_complies_although_the_peers_do_not() -> None:
    for row, assessment, verdict in d3_rows(GateMode.CODE):
        assert verdict.decision.value == row["decision"], row
        assert not verdict.gate_open
        assert 100 - assessment.p_emp == (75 if row["jaywalkers"] == 2 else 50), row
        assert abs(assessment.legitimacy - row["legitimacy"]) <= 12, row


def test_d3_without_the_gate_follows_the_peers() -> None:
    violated = [row["tick"] for row, _, v in d3_rows(GateMode.OFF) if v.violates]
    assert violated == [32, 33, 34]
    assert not any(verdict.violates for _, _, verdict in d3_rows(GateMode.OFF, officer=4))
    assert any(verdict.violates for _, _, verdict in d3_rows(GateMode.OFF, officer=6))


def test_c5_gate() -> None:
    walkthrough = WALKTHROUGHS["C5"]
    for row in walkthrough["rows"]:
        case = Case(context(row["cues"]), person(walkthrough), (Rule.ONE_WAY,))
        assessment, verdict = judged(case)
        assert verdict.gate_open is row["gate_open"], row
        assert abs(assessment.legitimacy - row["legitimacy"]) <= 12, row


def test_legitimacy_is_capped_where_the_violation_is_needless() -> None:
    def way(distance: int, *rules: Rule, wait: int = 0) -> Way:
        return Way(distance=distance, next_action=1, rules=rules, wait=wait)

    def legitimacy(lawful: Way, scoped: Way, rule: Rule, *, ahead: bool = False) -> int:
        seen = context([["fire", 2, 85]], ways={"safe_lawful": lawful, "safe_scoped": scoped})
        case = Case(seen, person(WALKTHROUGHS["D1"]), (rule,), ahead=ahead)
        return judged(case)[0].legitimacy

    cap = SurrogateSettings().legitimacy_cap
    red = way(20, Rule.RED_LIGHT)
    assert legitimacy(way(40), red, Rule.RED_LIGHT) == 91
    assert legitimacy(way(40), red, Rule.PROPERTY) == cap
    assert legitimacy(way(40), way(20), Rule.RED_LIGHT) == cap
    assert legitimacy(way(40), way(20), Rule.RED_LIGHT, ahead=True) == 91
    assert legitimacy(way(20, wait=1), red, Rule.RED_LIGHT) == 91
    assert legitimacy(way(20), red, Rule.RED_LIGHT) == cap
    assert legitimacy(way(12, wait=2), red, Rule.RED_LIGHT) == cap


def test_every_constant_names_its_source_and_only_two_things_are_fitted() -> None:
    surrogate, vanilla = sources(SurrogateSettings), sources(Calibration)
    mechanism = sources(GenerativeSettings)
    assert set(surrogate) == set(SurrogateSettings.__dataclass_fields__)
    assert set(vanilla) == set(Calibration.__dataclass_fields__)
    assert set(mechanism) == set(GenerativeSettings.__dataclass_fields__)
    named = (*surrogate.values(), *vanilla.values(), *mechanism.values())
    assert all(source.text for source in named)
    assert not any(source.fitted for source in mechanism.values())
    fitted = [name for name, source in (surrogate | vanilla).items() if source.fitted]
    assert all(name.startswith("legitimacy") or name in {"fire", "flee_at"} for name in fitted)
    assert "legitimacy_curve" in fitted and "fire" in fitted
