"""The parts of the generative agent: senses, plans, reflection and the closed-form answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from generative_kit import Played, Written, card, observations

import voville_env
from pave_policy.backbone import run_now
from pave_policy.generative.agent import Person
from pave_policy.generative.day_plan import DayPlan, fills, schedule_plan, split, told
from pave_policy.generative.perceiving import CONDUCT_TEXT, Percept, perceive
from pave_policy.generative.places import name_places, place_in_words
from pave_policy.generative.planning import work_out_step
from pave_policy.generative.policy import VanillaPolicy
from pave_policy.generative.reflection import is_due, reflect
from pave_policy.generative.requests import (
    Event,
    EventKind,
    ImportanceRequest,
    Insight,
    PlanEntry,
    Reaction,
    ReactionRequest,
    Response,
)
from pave_policy.generative.settings import Calibration, GenerativeSettings
from pave_policy.generative.turn import Turn
from pave_policy.glance import Glance, Own, look
from pave_policy.memory.stream import EntryKind
from pave_policy.site import Site
from pave_policy.streets import streets_of
from pave_policy.surrogate import Surrogate
from pave_policy.walking import Walker
from voville_env.core.codes import Behaviour, CueType, Instruction, Route, Rule
from voville_env.observation import Observation, to_context

FIRE = Event(EventKind.FIRE, "There is a fire 3 tiles away.", "fire", 90)
CROWD = Event(EventKind.OTHERS_CROSS, "Others cross against the red light.", "crowd")
HOLD = Event(EventKind.ORDER, "An officer tells people to hold.", "order")
OF_CUE = {
    CueType.FIRE: EventKind.FIRE,
    CueType.CONVERSATION: EventKind.CONVERSATION,
    CueType.TIME_PRESSURE: EventKind.ROUTINE,
}
DETOUR = Event(EventKind.ORDER, "An officer tells people to go another way.", "detour")


def turn_of(backbone: Written, tick: int = 0, **settings: Any) -> Turn:
    walker, glance = on_foot()
    person = Person(card(), replace(walker))
    site = Site(agent="CC", day=1, tick=tick)
    return Turn(person, glance, backbone, site, tick, GenerativeSettings(**settings))


def events_of(observation: Observation) -> list[Percept]:
    return perceive(observation, look(observation), name_places(town()))


@cache
def town() -> Any:
    return voville_env.parallel_env("fire_escape").world.town


@cache
def on_foot() -> tuple[Walker, Glance]:
    briefing = voville_env.parallel_env("fire_escape").briefing()
    return Walker("CC", streets_of(briefing)), look(observations()["CC"])


@cache
def under_officers() -> Played:
    return Played(VanillaPolicy(), "fire_escape_officers", [1, 45, 75])


def test_a_part_of_the_same_span_ends_the_way_down() -> None:
    walk, stroll = PlanEntry("walk", 0, 60), PlanEntry("stroll", 0, 60)
    plan = DayPlan(1, 60, (walk,), {walk: (stroll,), stroll: (walk,)})
    assert plan.path(0) == [walk, stroll]
    assert plan.undecomposed(0, GenerativeSettings()) is None


def test_whatever_the_context_of_pave_names_is_an_event() -> None:
    named = {"officer": 0, "order": 0, "cue": 0, "peer": 0}
    for seen in under_officers().seen[::4]:
        for observation in seen.values():
            context = to_context(observation)
            events = [percept.event for percept in events_of(observation)]
            kinds = {event.kind for event in events}
            assert (EventKind.OFFICER in kinds) >= context.authority_present
            ordered = context.instruction in (Instruction.HOLD, Instruction.REDIRECT)
            assert (EventKind.ORDER in kinds) == ordered
            severities = {(event.kind, event.severity) for event in events}
            for cue in context.situational_cues:
                assert (OF_CUE[cue.type], cue.severity) in severities
            texts = {event.text for event in events}
            for peer in context.peer_behaviors:
                assert f"Somebody nearby {CONDUCT_TEXT[peer.behaviour]}." in texts
            named["officer"] += context.authority_present
            named["order"] += ordered
            named["cue"] += len(context.situational_cues)
            named["peer"] += len(context.peer_behaviors)
    assert all(count > 5 for count in named.values()), named


def test_a_far_fire_is_noticed_as_far_as_pave_perceives_it() -> None:
    away = {
        cue.distance_tiles
        for seen in under_officers().seen[::4]
        for observation in seen.values()
        for cue in to_context(observation).situational_cues
        if any(p.event.kind is EventKind.FIRE for p in events_of(observation))
    }
    assert max(away) > 10  # beyond the four tiles of the released agents


def test_people_walking_by_are_ordinary_and_those_who_break_rules_are_not() -> None:
    run = Played(VanillaPolicy(), "fire_escape", [1, 48, 60], seed=0)
    percepts = [p for seen in run.seen[::4] for o in seen.values() for p in events_of(o)]
    ordinary = {p.event.text for p in percepts if p.ordinary}
    striking = {p.event.text for p in percepts if not p.ordinary}
    assert {"Somebody nearby is walking.", "Somebody nearby is standing."} <= ordinary
    assert "Somebody nearby crosses against the red signal." in striking
    assert not ordinary & striking


def test_nobody_is_told_of_rules_in_what_others_do() -> None:
    assert set(CONDUCT_TEXT) == set(Behaviour) - {Behaviour.NONE}
    assert not any("rule" in words for words in CONDUCT_TEXT.values())
    assert CONDUCT_TEXT[Behaviour.WAITING] == "is waiting"


def test_a_fire_next_to_one_is_one_tile_away() -> None:
    cues = observations()["TP"]["situational_cues"].copy()
    texts = []
    for away in (1, 2):
        cues[0] = (CueType.FIRE, away, 80, 0, away)
        seen = events_of({**observations()["TP"], "situational_cues": cues})
        texts += [p.event.text for p in seen if p.event.kind is EventKind.FIRE]
    assert texts == ["There is a fire 1 tile away.", "There is a fire 2 tiles away."]


def test_an_errand_names_its_place_in_words() -> None:
    texts = {p.event.text for o in observations().values() for p in events_of(o)}
    assert {"At home, as planned.", "On the way to the cafe seat."} & texts == {
        "At home, as planned."
    }
    assert place_in_words("cafe_seat_AY") == "the cafe seat"
    assert (place_in_words("home_TP"), place_in_words("library")) == ("home", "the library")
    homeward = observations()["TP"]["self"].copy()
    homeward[Own._fields.index("at_goal")] = 0
    assert "On the way home." in {
        p.event.text for p in events_of({**observations()["TP"], "self": homeward})
    }


def test_the_schedule_fills_the_day() -> None:
    plan = schedule_plan(card(("day 1, tick 12: clinic", "day 2, tick 0: library")), 1, 40)
    assert plan == (PlanEntry("see friends", 0, 2), PlanEntry("be at the clinic", 2, 38))
    assert told(plan) == "0:00 to 0:02 see friends; 0:02 to 0:40 be at the clinic"
    assert schedule_plan(card(("day 2, tick 0: library",)), 2, 9) == (
        PlanEntry("be at the library", 0, 9),
    )
    seated = card(("day 1, tick 12: cafe_seat_AY", "day 1, tick 24: home_AY"))
    assert [entry.activity for entry in schedule_plan(seated, 1, 40)] == [
        "see friends",
        "be at the cafe seat",
        "be at home",
    ]
    assert fills(schedule_plan(card(("day 1, tick 999: park",)), 1, 40), 0, 40)
    assert fills(schedule_plan(card(), 3, 40), 0, 40)


def test_a_plan_with_a_gap_or_an_overlap_does_not_fill() -> None:
    first, second = PlanEntry("a", 0, 5), PlanEntry("b", 5, 5)
    assert fills((first, second), 0, 10)
    assert not fills((first, PlanEntry("b", 6, 4)), 0, 10)
    assert not fills((first, PlanEntry("b", 4, 6)), 0, 10)
    assert not fills((first, second), 0, 11) and not fills((second,), 0, 10)
    assert not fills((), 0, 10) and not fills((PlanEntry("b", 0, 0), first), 0, 5)


def test_a_day_is_decomposed_down_to_short_steps_which_fill_it() -> None:
    entries = schedule_plan(card(("day 1, tick 300: clinic",)), 1, 166)
    plan, turn = DayPlan(1, 166, entries), turn_of(Written())
    minutes = []
    for tick in range(0, 1000, 3):
        now = replace(turn, site=Site(agent="CC", day=1, tick=tick))
        step = run_now(work_out_step(now, plan))
        assert step.minutes <= turn.settings.longest_step
        assert step.start <= min(tick * 10 // 60, 165) < step.start + step.minutes
        minutes.append(step)
        chain = plan.path(tick)
        assert len(chain) > 2
        for outer, inner in pairwise(chain):
            assert outer.start <= inner.start
            assert inner.start + inner.minutes <= outer.start + outer.minutes
    steps = list(dict.fromkeys(minutes))
    assert fills(steps, 0, 166) and len(steps) > 12
    for entry, parts in plan.parts.items():
        assert fills(parts, entry.start, entry.minutes)


def test_the_closed_form_parts_the_time_and_invents_no_words() -> None:
    assert split(PlanEntry("work", 5, 8)) == (
        PlanEntry("work", 5, 2),
        PlanEntry("work", 7, 2),
        PlanEntry("work", 9, 4),
    )
    for minutes in (1, 2, 3):
        entry = PlanEntry("work", 5, minutes)
        assert fills(split(entry), 5, minutes) and len(split(entry)) == minutes
    plan, turn = DayPlan(1, 40, (PlanEntry("work", 0, 40),)), turn_of(Written(), longest_step=1)
    turn = replace(turn, settings=replace(turn.settings, deepest=6))
    assert run_now(work_out_step(turn, plan)) == PlanEntry("work", 0, 1)
    assert not any(record["fallback"] for record in turn.person.log if record["type"] == "memory")


def test_only_the_part_under_way_is_decomposed() -> None:
    entries = (PlanEntry("first", 0, 60), PlanEntry("second", 60, 60))
    plan, backbone = DayPlan(1, 120, entries), Written()
    run_now(work_out_step(turn_of(backbone, 0), plan))
    assert entries[0] in plan.parts and entries[1] not in plan.parts
    count = len(backbone.asked)
    run_now(work_out_step(turn_of(backbone, 1), plan))
    assert len(backbone.asked) == count


def test_decomposition_ends_where_the_parts_stay_long() -> None:
    whole = PlanEntry("wait", 0, 120)
    backbone = Written(values={"decompose_plan": (PlanEntry("keep waiting", 0, 120),)})
    plan = DayPlan(1, 120, (whole,))
    assert run_now(work_out_step(turn_of(backbone), plan)).minutes == 120
    assert len(backbone.asked) <= GenerativeSettings().deepest


def test_reflection_is_due_beyond_the_trigger_and_not_at_it() -> None:
    turn = turn_of(Written(), reflection_trigger=5)
    turn.person.keep(Event(EventKind.PEER, "one", "1"), 3, 0)
    turn.person.keep(Event(EventKind.PEER, "two", "2"), 2, 0)
    assert not is_due(turn)
    turn.person.keep(Event(EventKind.PEER, "three", "3"), 1, 0)
    assert is_due(turn)
    run_now(reflect(turn))
    assert not is_due(turn)


def test_insights_cite_their_evidence_and_are_memories_themselves() -> None:
    insights = (Insight("a danger", (1, 0)), Insight("nothing behind it", (7,)))
    written = Written(values={"ask_focal_points": ("what burns?",), "draw_insights": insights})
    turn = turn_of(written)
    for street in ("Elm", "Oak", "Pine"):
        turn.person.stream.add(EntryKind.ROAD, f"{street} Street is one-way.", now=-100)
    for k, text in enumerate(("a fire burns", "a dog barks", "a fire burns high")):
        turn.person.keep(Event(EventKind.PEER, text, text), k + 1, k)
    run_now(reflect(turn))
    (request,) = written.requests("draw_insights")
    (kept,) = turn.person.stream.of(EntryKind.REFLECTION)
    assert kept.text == "a danger"
    cited = [turn.person.stream[number] for number in kept.evidence]
    assert [entry.text for entry in cited] == [request.statements[1], request.statements[0]]
    assert kept.importance == max(entry.importance for entry in cited)
    assert written.requests("ask_focal_points")[0].statements == (
        "a fire burns",
        "a dog barks",
        "a fire burns high",
    )
    run_now(reflect(turn))
    assert len(turn.person.stream.of(EntryKind.REFLECTION)) == 1  # said again, kept once


def test_a_question_that_nothing_bears_on_is_not_thought_about() -> None:
    written = Written(values={"ask_focal_points": ("what sings?", "who knocks?")})
    turn = turn_of(written, weight_recency=0, weight_importance=0)
    for text in ("a bird sings", "a bell rings", "a dog barks"):
        turn.person.keep(Event(EventKind.PEER, text, text), 2, 0)
    run_now(reflect(turn))
    (request,) = written.requests("draw_insights")
    assert (request.question, request.statements) == ("what sings?", ("a bird sings",))


def test_what_lasts_is_reacted_to_when_it_begins_and_when_it_ends() -> None:
    person = turn_of(Written()).person
    glance = look(observations()["CC"])
    officer = Percept(Event(EventKind.OFFICER, "An officer is in sight.", "officer"), lasts=True)
    passer = Percept(Event(EventKind.PEER, "Somebody walks.", "walks"), ordinary=True)
    assert person.take_in([passer], glance, 0).at_hand is None
    begins = person.take_in([officer, passer], glance, 1)
    assert begins.new == begins.at_hand == (officer.event,)
    person.keep(officer.event, 2, 1)
    goes_on = person.take_in([officer, passer], glance, 2)
    assert goes_on.new == () and goes_on.at_hand is None
    assert person.take_in([], glance, 3).at_hand == ()
    again = person.take_in([officer], glance, 4)
    assert again.new == () and again.at_hand == (officer.event,)
    assert [entry.text for entry in person.stream] == ["Somebody walks.", officer.event.text]


def reaction(*rated: tuple[Event, int], **more: Any) -> Response:
    events, importance = zip(*rated, strict=True)
    request = ReactionRequest(card(), "walk", events, importance, (), True, **more)
    said = run_now(Surrogate().react(request)).value
    assert isinstance(said, Reaction)
    return said.response


def test_the_closed_form_acts_on_importance_alone() -> None:
    c = Calibration()
    assert reaction((FIRE, c.flee_at)) is Response.FLEE
    assert reaction((FIRE, c.flee_at - 1)) is Response.CONTINUE
    assert reaction((CROWD, c.imitate_at), late=True) is Response.FOLLOW
    assert reaction((CROWD, c.imitate_at - 1), late=True) is Response.CONTINUE
    assert reaction((CROWD, 7), late=False) is Response.CONTINUE
    watched = {"late": True, "officer_in_sight": True}
    assert reaction((CROWD, c.imitate_at), **watched) is Response.CONTINUE
    assert reaction((CROWD, c.imitate_at + c.officer_discount), **watched) is Response.FOLLOW
    assert reaction((HOLD, c.routine)) is Response.CONTINUE
    assert reaction((HOLD, c.routine + 1)) is Response.WAIT
    assert reaction((DETOUR, 5)) is Response.CONTINUE
    assert reaction((HOLD, 4), (FIRE, 4)) is Response.FLEE
    assert reaction((HOLD, 5), (FIRE, 4)) is Response.WAIT


@pytest.mark.parametrize(
    ("event", "low", "high"), [(FIRE, 2, 4), (CROWD, 4, 7), (HOLD, 1, 5)], ids=lambda x: str(x)[:9]
)
def test_importance_is_drawn_from_its_range(event: Event, low: int, high: int) -> None:
    scores = set()
    for seed in range(60):
        desk = Surrogate().at(Site(seed=seed, agent="CC"), Counter())
        request = ImportanceRequest(card(), event)
        first = run_now(desk.rate_importance(request)).value
        assert first == run_now(desk.rate_importance(request)).value
        scores.add(first)
    assert scores == set(range(low, high + 1))


def test_a_red_light_and_a_crowd_make_an_event() -> None:
    observation = dict(observations()["TP"])
    assert not any(p.event.kind is EventKind.OTHERS_CROSS for p in events_of(observation))
    routes = observation["routes"].copy()
    routes[Route.LAWFUL, 2] |= 1 << Rule.RED_LIGHT
    peers = np.zeros_like(observation["peer_behaviors"])
    peers[:, 3:5] = -1
    peers[0] = (1, 0, 6, Rule.RED_LIGHT, 0, 0)
    changed = observation | {"routes": routes, "peer_behaviors": peers}
    assert any(p.event.kind is EventKind.OTHERS_CROSS for p in events_of(changed))
    peers[1] = (2, 0, 3, Rule.RED_LIGHT, 1, 0)  # one waits, one crosses
    assert not any(p.event.kind is EventKind.OTHERS_CROSS for p in events_of(changed))
