"""The environment: every scenario passes the conformance kit, and what is the town's own."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from voville_env import parallel_env, testing
from voville_env.core.codes import Action
from voville_env.errors import InvalidValueError, LifecycleError, ScenarioError
from voville_env.parallel import VovilleEnv
from voville_env.scenario import load_world
from voville_env.testing.privilege import HIDDEN, SHOWN
from voville_env.testing.trajectory import MakeEnv

# Short parts of each scenario in which something goes on.
WINDOWS = {
    "fire_escape": (1, 46, 60),
    "fire_escape_control": (1, 0, 12),
    "fire_escape_officers": (1, 48, 62),
    "fire_escape_officers_control": (1, 48, 58),
    "jaywalk": (1, 28, 42),
    "jaywalk_control": (2, 106, 118),
}


def make(name: str, **settings: Any) -> MakeEnv:
    return partial(VovilleEnv, name, **settings)


def walk(observations: Any, infos: Any) -> dict[str, int]:
    """Everybody takes the shortest way that waives the traffic rules."""
    return {
        name: int(seen["routes"][4 if seen["self"][11] else 1, 1])
        for name, seen in observations.items()
    }


@pytest.mark.parametrize("name", WINDOWS)
def test_every_scenario_passes_the_kit(name: str) -> None:
    # Separate processes run the whole horizon in test_determinism.
    results = testing.check_environment(
        make(name, window=WINDOWS[name]), steps=None, skip=["processes"]
    )
    assert len(results) == 13
    assert [r.name for r in results if r.outcome != "passed"] == ["processes"]


def test_mask_is_what_is_possible_on_the_way_out_of_a_fire() -> None:
    env = make("fire_escape_officers", window=(1, 50, 75))
    tried = testing.check_mask(env, steps=60, every=1, actions=walk)
    assert all(tried.values()), tried
    assert testing.check_norms_unmasked(env, actions=walk) > 100


def test_nobody_knows_what_is_hidden_and_everybody_sees_what_is_not() -> None:
    total: Counter[str] = Counter()
    for name, window in (("fire_escape_officers", (1, 50, 62)), ("jaywalk", (1, 28, 40))):
        env = make(name, window=window)
        total.update(testing.check_no_privilege(env, every=3, actions=walk, steps=44))
    assert set(total) == {*HIDDEN, *SHOWN}
    assert min(total.values()) >= 8, total


def test_a_thing_behind_a_thin_wall_is_neither_seen_nor_taken() -> None:
    # (30, 29) is inside the café, and the bicycle stands right outside its wall at (30, 30).
    env = VovilleEnv("fire_escape", window=(1, 10, 20))
    env.reset(seed=0)
    person = env.sim.state[0].agents[env.possible_agents.index("MF")]
    person.tile = person.from_tile = 29 * 64 + 30
    observations, *_ = env.step(dict.fromkeys(env.agents, 0) | {"MF": int(Action.TAKE)})
    assert observations["MF"]["self"][9:11].tolist() == [1, 0]
    assert observations["MF"]["action_mask"][Action.TAKE] == 0
    person.tile = 30 * 64 + 31
    observations, *_ = env.step(dict.fromkeys(env.agents, 0))
    assert observations["MF"]["action_mask"][Action.TAKE] == 1


# --- what is this environment's own


def test_spaces_suit_learners() -> None:
    env = parallel_env()
    for name in env.possible_agents:
        assert env.action_space(name) == spaces.Discrete(10)
        assert env.action_space(name).start == 0
        space = env.observation_space(name)
        assert isinstance(space, spaces.Dict)
        for box in space.spaces.values():
            assert isinstance(box, spaces.Box)
            # A three-dimensional uint8 array would be taken for an image.
            assert len(box.shape) < 3 and np.issubdtype(box.dtype, np.integer)


def busiest() -> VovilleEnv:
    """Everything that can fill an observation: four fires, eight things, officers, late people."""
    world = load_world("fire_escape_officers")
    agents = [
        plan.model_copy(
            update={"schedule": [e.model_copy(update={"late": True}) for e in plan.schedule]}
        )
        for plan in world.scenario.agents
    ]
    world = replace(world, scenario=world.scenario.model_copy(update={"agents": agents}))
    env = VovilleEnv(world, window=(1, 0, 130))
    env.reset(seed=0)
    config = env.sim.config[0]
    config.fire_tile[:] = [28 * 64 + 32, 27 * 64 + 32, 26 * 64 + 32, 25 * 64 + 32]
    config.fire_severity[:] = 100
    config.fire_from[:] = [5, 10, 15, 20]
    config.fire_until[:] = 100
    config.item_tile[:] = [23 * 64 + x for x in range(29, 35)] + [22 * 64 + 29, 22 * 64 + 30]
    return env


@pytest.mark.parametrize("actions", ["random", "first", walk])
def test_spaces_hold_with_the_most_to_see(actions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env = busiest()
    # The settings above are the configuration itself; a reset would make it anew.
    monkeypatch.setattr(env.sim, "set_window", lambda window: None)
    testing.check_spaces(lambda: env, actions=actions)
    full = env.observe("CC")
    assert full["self"][3] == 129


def test_a_blocked_person_stays_within_bounds() -> None:
    env = VovilleEnv("fire_escape", window=(1, 0, 40))
    env.reset(seed=0)
    for _ in range(150):
        observations, rewards, *_ = env.step(dict.fromkeys(env.agents, int(Action.CROSS_N)))
        assert env.observation_space("CC").contains(observations["CC"])
        assert observations["CC"]["self"][9] == 1
    assert all(np.isfinite(value) for value in rewards.values())


def test_refusals_say_who_what_and_what_is_allowed() -> None:
    env = VovilleEnv("fire_escape", window=(1, 50, 60))
    with pytest.raises(LifecycleError, match=r"before the first reset\(\)"):
        env.step({})
    for call in (env.state, lambda: env.observe("CC"), lambda: env.ignite(1, 1)):
        with pytest.raises(LifecycleError, match="reset"):
            call()
    env.reset(seed=0)
    waits = dict.fromkeys(env.agents, 0)
    with pytest.raises(
        InvalidValueError, match=r"'CC' is 2\.0 \(float\); allowed: integers 0 to 9"
    ):
        env.step({**waits, "CC": 2.0})  # type: ignore[dict-item]
    with pytest.raises(InvalidValueError, match=r"'CD'; allowed: CC, EY, .*did you mean"):
        env.step({("CD" if name == "CC" else name): 0 for name in waits})
    with pytest.raises(InvalidValueError, match="actions lack TP, LC"):
        env.step({name: 0 for name in waits if name not in ("TP", "LC")})
    with pytest.raises(InvalidValueError, match="list"):
        env.step([0] * 10)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"seed is True; allowed: integers 0 to"):
        env.reset(seed=True)
    with pytest.raises(InvalidValueError, match=r"'CE'; allowed: CC, EY, .*did you mean"):
        env.observation_space("CE")
    with pytest.raises(LifecycleError, match="read only"):
        env.agents = []
    with pytest.raises(LifecycleError, match="read only"):
        env.possible_agents = []
    assert env.sim.state[0].step == 200


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"window": (3, 0, 10)}, "window is .* allowed: day 1 to 2"),
        ({"window": (1, 10, 10)}, "0 <= start < end"),
        ({"window": "abc"}, "day, start, end"),
        ({"days": 0}, "days is 0; allowed: 1 to 2"),
        ({"render_mode": "human"}, "allowed: ansi"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        VovilleEnv("jaywalk", **settings)


def test_an_unknown_scenario_says_what_is_near() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'fire_escape'"):
        VovilleEnv("fire_escap")


def test_reset_options() -> None:
    env = VovilleEnv("fire_escape", window=(1, 50, 60))
    with pytest.warns(UserWarning, match="'windw' is not known .* did you mean 'window'"):
        env.reset(seed=0, options={"windw": [1, 0, 5]})
    observations, _ = env.reset(seed=0, options={"window": [2, 100, 101]})
    assert observations["CC"]["self"][2:4].tolist() == [2, 100]
    assert len(list(testing.play(env, None, None))) > 5
    observations, _ = env.reset(seed=0, options={"window": None})
    assert observations["CC"]["self"][2:4].tolist() == [1, 0]
    with pytest.raises(InvalidValueError, match="window"):
        env.reset(seed=0, options={"window": [1, 2]})
    observations, _ = env.reset(seed=0)
    assert observations["CC"]["self"][3] == 50


def test_arrival_ends_the_run_of_a_person_only_where_asked() -> None:
    env = VovilleEnv("jaywalk", window=(1, 28, 90), terminal_goal=True)
    observations, infos = env.reset(seed=0)
    *_, terminations, truncations, _ = env.step(dict.fromkeys(env.agents, 0))
    assert not any(terminations.values()) and not any(truncations.values())
    ended = {}
    while "CC" in env.agents or "KQ" in env.agents:
        acted = env.agents
        chosen = walk({name: observations[name] for name in acted}, infos)
        observations, rewards, terminations, _, infos = env.step(chosen)
        assert list(observations) == acted
        for name in [n for n in terminations if terminations[n]]:
            ended[name] = int(env.sim.state[0].tick)
            assert name not in env.agents and infos[name]["reward_terms"][1] == 1
            assert rewards[name] > 0.9
    assert {"CC", "KQ"} <= set(ended)
    # Who has arrived is off the map: nobody can bump into them.
    gone = env.possible_agents.index("CC")
    env.step(dict.fromkeys(env.agents, 0))
    assert env.sim.state[0].agents[gone].active == 0
    for _ in range(2):
        env = VovilleEnv("jaywalk", window=(1, 28, 90))
        frames = list(testing.play(env, 0, None, walk))
        assert not any(any(frame.terminations.values()) for frame in frames)
        assert all(frames[-1].truncations.values())


def test_copies_keep_a_town_of_their_own() -> None:
    world = load_world("fire_escape")
    terrain = world.town.terrain.copy()
    terrain[31:33, 31] = terrain[31, 30]  # the café's crosswalk is gone
    world = replace(world, town=replace(world.town, terrain=terrain, name="other"))
    env = VovilleEnv(world, window=(1, 50, 60))
    env.reset(seed=1)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.world.town.digest() == world.town.digest()
        assert testing.digest_of(twin.observe("CC")) == testing.digest_of(env.observe("CC"))
    shipped = VovilleEnv("fire_escape")
    assert pickle.loads(pickle.dumps(shipped)).world.town is shipped.world.town


def test_copies_go_on_after_drawing_and_logging() -> None:
    env = VovilleEnv("fire_escape_officers", window=(1, 49, 58), render_mode="ansi")
    env.reset(seed=1)
    for _ in range(7):
        env.step(dict.fromkeys(env.agents, int(Action.MOVE_S)))
        env.render()
    env.drain_events()
    env.step(dict.fromkeys(env.agents, int(Action.MOVE_S)))
    twins = [env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    while env.agents:
        for twin in twins:
            twin.step(dict.fromkeys(twin.agents, int(Action.MOVE_E)))
        assert len({twin.render() for twin in twins}) == 1
        assert len({repr(twin.drain_events().tolist()) for twin in twins}) == 1
        assert len({twin.state().tobytes() for twin in twins}) == 1
    assert [twin.agents for twin in twins] == [[], [], []]


@pytest.mark.slow
@pytest.mark.parametrize("actions", ["first", "random"])
def test_spaces_hold_to_the_horizon(actions: Any) -> None:
    testing.check_spaces(make("jaywalk"), actions=actions)


def test_the_global_state_fits_its_space() -> None:
    env = VovilleEnv("fire_escape_officers", window=(1, 48, 60))
    env.reset(seed=0)
    sizes = set()
    for _ in range(40):
        env.step(dict.fromkeys(env.agents, 1))
        assert env.state_space.contains(env.state())
        sizes.add(env.state().shape)
    assert sizes == {env.state_space.shape}


def test_drawing() -> None:
    env = VovilleEnv("fire_escape", render_mode="ansi", window=(1, 52, 60))
    env.reset(seed=0)
    drawn = env.render()
    assert drawn is not None
    lines = drawn.splitlines()
    assert lines[0].startswith("fire_escape: day 1, tick 52")
    assert len(lines) == 65 and {len(line) for line in lines[1:]} == {64}
    assert lines[1 + 29][32] == "!" and lines[1 + 30][30] == "*"
    with pytest.warns(UserWarning, match="render_mode"):
        assert VovilleEnv("fire_escape").render() is None
