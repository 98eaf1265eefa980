"""A model's action list carried out: read by published rules, and seen by the metrics."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pave_policy.acting.reading import Deed, Manner, read_deed
from pave_policy.acting.script import Script, deed_now, script_of
from pave_policy.backbone import ActionRequest
from pave_policy.conditions import Condition, pave, pave_prompt_gate
from pave_policy.emulation import template_actions
from pave_policy.glance import Own
from pave_policy.outcome import Failure, Outcome
from pave_policy.phrases import BREAKING
from pave_policy.records import RuleSet, TimedAction, Verdict
from pave_policy.surrogate import Surrogate
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.core.codes import Decision, Rule, rule_bits, rules_in
from voville_env.observation import Context
from voville_env.parallel import VovilleEnv
from voville_env.policy import PersonaCard

RECORDS = list[dict[str, Any]]
FIRE = ("fire_escape", (1, 48, 62))
PLAIN = {
    "Wait for a gap": Manner.STAND,
    "Look both ways for cars": Manner.STAND,
    "Stop at the kerb": Manner.STAND,
    "Press the pedestrian button": Manner.STAND,
    "Push the button at the kerb": Manner.STAND,
    "Let the others pass": Manner.STAND,
    "Do not move": Manner.STAND,
    "Walk on": Manner.GO,
    "Run across the street to the park": Manner.GO,
    "Step off the kerb": Manner.GO,
    "Pull the door open and step outside": Manner.GO,
    "Do not stop": Manner.GO,
    "Push on towards the park": Manner.GO,
    "Take the nearest crosswalk and hurry over": Manner.GO,
    "Wait for the green light": Manner.LAWFUL,
    "Do not cross until the light is green": Manner.LAWFUL,
    "Wait at the kerb until the light turns green, then cross": Manner.LAWFUL,
    "Wait while the light is red": Manner.LAWFUL,
    "Go along the street in its legal direction": Manner.LAWFUL,
    "Follow the officer's instruction": Manner.LAWFUL,
    "Turn back": Manner.BACK,
    "Step back onto the pavement": Manner.BACK,
    "Retreat from the kerb": Manner.BACK,
}
BREAKS = {
    "Cross against the red light": [Rule.RED_LIGHT],
    "Sprint through the red light": [Rule.RED_LIGHT],
    "Dash over on red": [Rule.RED_LIGHT],
    "Cross without waiting for the green light": [Rule.RED_LIGHT],
    "Ignore the signal and run": [Rule.RED_LIGHT],
    "Go the wrong way down the street": [Rule.ONE_WAY],
    "Run against the one-way direction": [Rule.ONE_WAY],
    "Jaywalk": [Rule.CROSSWALK_ONLY],
    "Run into the road between cars": [Rule.CROSSWALK_ONLY],
    "Duck under the cordon": [Rule.CORDON],
    "Climb over the barrier tape": [Rule.CORDON],
    "Cut through the private house": [Rule.PRIVATE_BUILDING],
    "Grab the parked bicycle": [Rule.PROPERTY],
    "Smash the shop window": [Rule.PROPERTY],
    "Push past the others": [Rule.PERSONAL_SPACE],
    "Shove people aside": [Rule.PERSONAL_SPACE],
    "Force a way through": [Rule.PERSONAL_SPACE],
    "Instead of waiting for green, run across on red": [Rule.RED_LIGHT],
    "Without pushing anyone, cross on red": [Rule.RED_LIGHT],
    "Cross on red and take the bicycle": [Rule.RED_LIGHT, Rule.PROPERTY],
}
DENIED = [
    "Walk on without pushing",
    "Walk on without pushing past anyone",
    "Keep moving without pushing, shoving or jostling anybody",
    "Do not push and run on to the park",
    "Run on, never touching the parked bicycle; do not take the bicycle",
    "Hurry along rather than cutting through the private house",
    "Avoid pushing others",
    "Go on, taking no bicycle and pushing nobody, not even pushing past",
]


@pytest.mark.parametrize(("text", "manner"), PLAIN.items())
def test_words_are_read_as_a_manner(text: str, manner: Manner) -> None:
    assert read_deed(text) == Deed(manner)
    assert read_deed(text.upper()) == Deed(manner)


@pytest.mark.parametrize(("text", "rules"), BREAKS.items())
def test_words_say_which_rules_they_break(text: str, rules: list[Rule]) -> None:
    assert read_deed(text) == Deed(Manner.BREAK, rule_bits(rules))


@pytest.mark.parametrize("text", DENIED)
def test_what_is_denied_is_not_done(text: str) -> None:
    assert read_deed(text) == Deed(Manner.GO)


@pytest.mark.parametrize("text", ["Hum a tune", "", "...", "日本", "42"])
def test_what_cannot_be_read_is_no_deed(text: str) -> None:
    assert read_deed(text) is None


@pytest.mark.parametrize("rule", Rule)
def test_the_plain_words_of_a_rule_are_read_as_that_rule(rule: Rule) -> None:
    assert read_deed(BREAKING[rule]) == Deed(Manner.BREAK, 1 << rule)


def verdict_on(rules: tuple[Rule, ...], decision: Decision) -> Verdict:
    return Verdict(
        rules=rules,
        decision=decision,
        justification="",
        confidence=1,
        legitimacy=90,
        threshold=60,
        gate_open=True,
    )


@given(
    rules=st.sets(st.sampled_from(Rule), min_size=1).map(sorted),
    escaping=st.booleans(),
    scoped=st.booleans(),
    decision=st.sampled_from(Decision),
)
def test_a_plain_list_says_what_its_verdict_says(
    rules: list[Rule], escaping: bool, scoped: bool, decision: Decision
) -> None:
    scene = Context(authority_present=False, authority_distance_tiles=None, escaping=escaping)
    card = PersonaCard("CC", "", "", "", "", "attendee", 60, ())
    request = ActionRequest(verdict_on(tuple(rules), decision), scene, card, scoped)
    script = script_of(template_actions(request), (1, 50), 4)
    first, *_, last = script.deeds
    assert len(script.deeds) == 4 and not script.is_unreadable
    if decision is Decision.VIOLATE:
        assert (first, last) == (Deed(Manner.BREAK, rule_bits(rules)), Deed(Manner.GO))
    else:
        assert {first, last} == {Deed(Manner.LAWFUL)}


def own_at(tick: int, step: int, day: int = 1) -> Own:
    return Own(0, 0, day, tick, step, 0, 0, 0, 0, 0, 0, 0)


def listed(*entries: tuple[str, int]) -> list[TimedAction]:
    return [TimedAction(text=text, seconds=seconds) for text, seconds in entries]


def test_five_seconds_are_two_steps_and_a_list_runs_on_for_its_time() -> None:
    script = script_of(listed(("Wait", 5), ("Hum", 10), ("Run", 5)), (1, 50), 4)
    deeds = [script.deed_at(own_at(*divmod(step, 4))) for step in range(200, 212)]
    stand, go = Deed(Manner.STAND), Deed(Manner.GO)
    assert deeds == [stand] * 2 + [None] * 4 + [go] * 2 + [None] * 4
    assert script.deed_at(own_at(50, 0, day=2)) is None
    assert script.deed_at(own_at(49, 3)) is None
    assert script.is_unreadable
    assert len(script_of(listed(("Wait", 5), ("Run", 5)), (1, 50), 1).deeds) == 2


def test_the_list_on_traffic_rules_leads_and_the_other_one_adds_what_it_breaks() -> None:
    def now(way: str | None, other: str | None) -> Deed | None:
        scripts = {
            rule_set: script_of(listed((text, 5)), (1, 50), 4)
            for rule_set, text in ((RuleSet.RELEVANT, way), (RuleSet.UNRELATED, other))
            if text is not None
        }
        return deed_now(scripts, own_at(50, 1))

    assert now("Cross on red", "Keep to the rules") == Deed(Manner.BREAK, 1)
    assert now("Cross on red", "Take the bicycle") == Deed(Manner.BREAK, 0b100001)
    assert now("Wait", "Push past them") == Deed(Manner.BREAK, 1 << Rule.PERSONAL_SPACE)
    assert now(None, "Keep to the rules") is None
    assert now(None, "Wait") == Deed(Manner.STAND)
    assert now("Wait", "Run") == Deed(Manner.STAND)
    assert now(None, None) is None


class Says(Surrogate):
    """A model whose every action list has the same words."""

    def __init__(self, *entries: tuple[str, int]) -> None:
        super().__init__()
        self.actions = tuple(listed(*entries))

    async def emulate_action(self, request: ActionRequest) -> Outcome[tuple[TimedAction, ...]]:
        return Outcome(self.actions)


class Silent(Surrogate):
    """A model that never writes an action list."""

    async def emulate_action(self, request: ActionRequest) -> Outcome[tuple[TimedAction, ...]]:
        return Outcome(failure=Failure.REFUSED)


def played(
    backbone: Surrogate | None = None,
    scene: tuple[str, tuple[int, int, int]] = FIRE,
    executor: str = "llm",
    condition: Condition = pave,
    **options: Any,
) -> RECORDS:
    scenario, window = scene
    policy = condition(backbone, emulation_executor=executor, **options)
    player = EpisodePlayer(VovilleEnv(scenario, window=window), policy, "pave", seed=0)
    return list(player.records())


def of_type(records: RECORDS, kind: str) -> RECORDS:
    return [record for record in records if record["type"] == kind]


def broken(records: RECORDS) -> dict[str, int]:
    """How often each rule was broken."""
    found = dict.fromkeys((rule.name for rule in Rule), 0)
    for record in of_type(records, "rule_event"):
        for name in record["violated"]:
            found[name] += 1
    return found


@pytest.mark.parametrize(
    "scene",
    [
        ("fire_escape", (1, 48, 80)),
        ("fire_escape_officers", (1, 48, 80)),
        ("jaywalk", (1, 28, 58)),
    ],
    ids=lambda scene: str(scene[0]),
)
def test_plain_lists_come_to_what_the_planner_does(
    scene: tuple[str, tuple[int, int, int]],
) -> None:
    words, planner = played(scene=scene), played(scene=scene, executor="planner")
    for kind in ("rule_event", "instruction_response", "arrival", "actions"):
        assert of_type(words, kind) == of_type(planner, kind)
    assert of_type(planner, "actions")
    for one, other in zip(of_type(words, "verdict"), of_type(planner, "verdict"), strict=True):
        assert one == {**other, "plan_beyond": []}


def test_words_that_break_more_than_the_verdict_targets_are_carried_out_and_counted() -> None:
    words = Says(("Push past everybody and take the bicycle", 10))
    shoving = played(words, condition=pave_prompt_gate)
    assert not broken(played(words))["PROPERTY"], "no gate was open for it"
    lawful = broken(played())
    assert lawful["PERSONAL_SPACE"] == lawful["PROPERTY"] == 0
    assert broken(shoving)["PERSONAL_SPACE"] > 0 and broken(shoving)["PROPERTY"] > 0
    fresh = [record for record in of_type(shoving, "verdict") if not record["reused"]]
    assert fresh
    for record in fresh:
        said = {"PROPERTY", "PERSONAL_SPACE"}
        targeted = set(record["rules"]) if record["decision"] == "violate" else set()
        assert set(record["plan_beyond"]) == said - targeted
        assert record["plan_fallback"] is None


@pytest.mark.parametrize("condition", [pave, pave_prompt_gate], ids=["code", "prompt"])
def test_words_get_past_a_closed_gate_only_where_code_does_not_keep_it(
    condition: Condition,
) -> None:
    jaywalk = ("jaywalk", (1, 28, 58))
    assert broken(played(scene=jaywalk))["RED_LIGHT"] == 0
    records = played(Says(("Cross against the red light", 10)), jaywalk, condition=condition)
    assert (broken(records)["RED_LIGHT"] > 0) is (condition is pave_prompt_gate)
    on_red = [
        record
        for record in of_type(records, "verdict")
        if not record["reused"] and record["rules"] == ["RED_LIGHT"]
    ]
    assert on_red and {record["decision"] for record in on_red} == {"comply"}
    assert all(record["plan_beyond"] == ["RED_LIGHT"] for record in on_red)


ACROSS = "Run into the road, the wrong way, ignoring the red light"


def test_an_order_that_binds_holds_against_words() -> None:
    scene, words = ("fire_escape_officers", (1, 48, 80)), Says((ACROSS, 10))

    def obeyed(mode: str) -> set[bool]:
        records = played(words, scene, condition=pave_prompt_gate, authority_mode=mode)
        return {record["complied"] for record in of_type(records, "instruction_response")}

    assert False in obeyed("risk")
    assert obeyed("hard") == {True}


def test_words_that_stop_everybody_stop_them() -> None:
    def moves(records: RECORDS) -> int:
        return sum(action != 0 for row in of_type(records, "actions") for action in row["a"])

    standing, walking = played(Says(("Stand still", 600))), played()
    assert moves(standing) < moves(walking) / 2


def test_unreadable_words_leave_it_to_the_planner_and_are_counted() -> None:
    murmur = played(Says(("Hum a tune", 5), ("Walk on", 5)))
    planner = played(executor="planner")
    for kind in ("rule_event", "actions", "arrival"):
        assert of_type(murmur, kind) == of_type(planner, kind)
    for record in of_type(murmur, "verdict"):
        assert record["plan_fallback"] == (None if record["reused"] else "unreadable")
        assert record["plan_beyond"] == []


def test_a_missing_list_keeps_the_reason_why_a_plain_one_stands_in() -> None:
    records = of_type(played(Silent()), "verdict")
    reasons = {record["plan_fallback"] for record in records if not record["reused"]}
    assert reasons == {"refused"}
    assert "plan_beyond" not in of_type(played(Silent(), executor="planner"), "verdict")[0]


@given(st.text(max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    deed = read_deed(text)
    assert deed is None or bool(rules_in(deed.breaks)) is (deed.manner is Manner.BREAK)


def test_an_empty_list_says_nothing() -> None:
    script = Script(1, 50, 4, ())
    assert script.deed_at(own_at(50, 0)) is None
    assert not script.is_unreadable and script.breaks == 0
