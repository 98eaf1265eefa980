"""Lawful, scoped and unrestricted ways, with and without waits."""

from __future__ import annotations

import itertools

import pytest

from voville_env.core.codes import Action, Direction, Route, Rule
from voville_env.errors import InvalidValueError
from voville_env.navigation import WAIVED, Navigator, SignalPlan
from voville_env.scenario import load_map, load_world

KERB = (31, 30)


@pytest.fixture(scope="module")
def navigator() -> Navigator:
    world = load_world("fire_escape")
    return Navigator(world.town, world.agent_ids)


def rules_on(navigator: Navigator, way: list[tuple[int, int]]) -> set[Rule]:
    found: set[Rule] = set()
    for (x, y), (u, v) in itertools.pairwise(way):
        step = {(0, -1): 0, (1, 0): 1, (0, 1): 2, (-1, 0): 3}[u - x, v - y]
        found |= set(navigator.step_rules(x, y, Direction(step)))
    return found


def test_each_mode_breaks_only_what_it_may(navigator: Navigator) -> None:
    ways = {route: navigator.way(*KERB, "park", route) for route in Route}
    assert rules_on(navigator, ways[Route.LAWFUL]) <= {Rule.RED_LIGHT}
    assert rules_on(navigator, ways[Route.SCOPED]) <= set(WAIVED[Route.SCOPED])
    assert Rule.PRIVATE_BUILDING in rules_on(navigator, ways[Route.UNRESTRICTED])
    lengths = [len(ways[route]) for route in Route]
    assert lengths[0] > lengths[1] > lengths[2]


def test_the_tabled_distance_is_the_length_of_the_way(navigator: Navigator) -> None:
    for route in Route:
        assert (
            navigator.distance(*KERB, "park", route) == len(navigator.way(*KERB, "park", route)) - 1
        )


def test_a_plan_waits_for_red_and_knows_what_it_costs(navigator: Navigator) -> None:
    red, green = (
        navigator.plan(KERB, "park", step=52 * 4),
        navigator.plan(KERB, "park", step=61 * 4),
    )
    assert red is not None and green is not None
    assert red.rules == green.rules == ()
    assert red.tiles == green.tiles
    assert red.wait_steps >= (61 - 52) * 4 > green.wait_steps
    assert red.cost == red.steps + red.wait_steps


def test_waiving_rules_never_costs_time(navigator: Navigator) -> None:
    costs = []
    for route in Route:
        plan = navigator.plan(KERB, "park", waived=WAIVED[route], step=52 * 4)
        assert plan is not None and set(plan.rules) <= set(WAIVED[route])
        costs.append(plan.cost)
    assert costs[0] > costs[1] > costs[2]


def test_a_changed_signal_changes_the_plan(navigator: Navigator) -> None:
    always = {k: SignalPlan(0, 1, 0) for k in navigator.signals}
    plan = navigator.plan(KERB, "park", step=52 * 4, signals=always)
    assert plan is not None and plan.wait_steps == 0


def test_ones_own_home_is_no_private_building(navigator: Navigator) -> None:
    assert navigator.plan(KERB, "home_CC", agent="CC") is not None
    assert navigator.plan(KERB, "home_CC", agent="EY") is None
    waived = navigator.plan(KERB, "home_CC", agent="EY", waived=(Rule.PRIVATE_BUILDING,))
    assert waived is not None and waived.rules == (Rule.PRIVATE_BUILDING,)


def test_the_kerb_is_the_way_off_the_road(navigator: Navigator) -> None:
    assert navigator.kerb_action(*KERB) is Action.WAIT
    x, y = 38, 31
    for _ in range(20):
        if not navigator.on_carriageway(x, y):
            break
        action = navigator.kerb_action(x, y)
        dx, dy = {1: (0, -1), 2: (1, 0), 3: (0, 1), 4: (-1, 0)}[action]
        x, y = x + dx, y + dy
    assert not navigator.on_carriageway(x, y)


def test_there_is_a_lawful_way_to_safety_from_every_tile_that_can_be_reached(
    navigator: Navigator,
) -> None:
    reached = 0
    for y in range(64):
        for x in range(64):
            if navigator.distance(x, y, "park", Route.UNRESTRICTED) is not None:
                reached += 1
                assert navigator.distance(x, y, "park", Route.LAWFUL) is not None, (x, y)
    assert reached > 1000


def test_unknown_places_are_named_with_the_nearest() -> None:
    navigator = Navigator(load_map("voville"))
    with pytest.raises(InvalidValueError, match="did you mean 'park'"):
        navigator.distance(*KERB, "parkk", Route.LAWFUL)
