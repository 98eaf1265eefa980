"""Gymnasium: the single agent, the vector environment, and who plays the rest of the town."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from gymnasium.wrappers.vector import DictInfoToList
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorStatistics

import voville_env
from voville_env import ENVIRONMENTS
from voville_env.core.codes import Action, Instruction, Rule, Terrain
from voville_env.core.fields import OCCUPIED
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.flat import flatten
from voville_env.policy import BasePolicy, load_policy
from voville_env.scenario.briefing import make_briefing
from voville_env.testing import digest_of
from voville_env.wrappers.gymnasium_single import VovilleGymEnv
from voville_env.wrappers.gymnasium_vector import VovilleGymVectorEnv
from voville_env.wrappers.others import RULES, direct_fast, lawful_fast

SHORT = (1, 50, 53)
STEPS = 12


def any_action(env: Any, generator: np.random.Generator) -> int:
    return int(generator.choice(np.flatnonzero(env.get_wrapper_attr("action_masks")())))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gymnasiums_own_checks_find_nothing(name: str) -> None:
    env = gymnasium.make(name, window=SHORT, render_mode="ansi")
    assert isinstance(env.unwrapped, VovilleGymEnv)
    assert env.unwrapped.town.world.scenario.name == ENVIRONMENTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_it_is_the_parallel_environment_with_the_others_played() -> None:
    env = gymnasium.make("Voville/Jaywalk-v1", agent="KQ", window=(1, 28, 40), others="direct")
    town = voville_env.parallel_env("jaywalk", window=(1, 28, 40))
    policy = load_policy("direct")
    seen, info = env.reset(seed=2**64 - 1)
    all_seen, infos = town.reset(seed=2**64 - 1)
    policy.reset(make_briefing(town.world, 2**64 - 1))
    generator = np.random.default_rng(0)
    total = 0.0
    for t in range(48):
        assert digest_of([seen, info]) == digest_of([all_seen["KQ"], infos["KQ"]])
        action = any_action(env, generator)
        others = {name: row for name, row in all_seen.items() if name != "KQ"}
        actions = policy.act(others, {name: infos[name] for name in others})
        seen, reward, terminated, truncated, info = env.step(np.int64(action))
        all_seen, rewards, _, cuts, infos = town.step({**actions, "KQ": action})
        assert (reward, terminated, truncated) == (rewards["KQ"], False, t == 47)
        assert type(reward) is float and truncated == cuts["KQ"]
        total += reward
    assert total != 0 and set(info) == {"reward_terms"}


def test_the_run_ends_for_the_agent_when_it_arrives() -> None:
    env = VovilleGymEnv("jaywalk", agent="CC", window=(1, 28, 70), terminal_goal=True)
    seen, _ = env.reset(seed=0)
    terminated = truncated = False
    while not (terminated or truncated):
        distance, action, _, _ = seen["routes"][2]
        seen, _, terminated, truncated, info = env.step(action if distance > 0 else 0)
    assert terminated and not truncated and info["reward_terms"][1] == 1
    assert env.town.agents and "CC" not in env.town.agents
    with pytest.raises(LifecycleError, match="after the end"):
        env.step(0)
    env.reset()
    env.step(0)


def test_seeds_are_gymnasiums() -> None:
    env = VovilleGymEnv("fire_escape", window=SHORT, others="wait")
    env.reset(seed=5)
    assert env.town.seed == 5 and env.np_random_seed == 5
    played = []
    for _ in range(2):
        env.reset(seed=5)
        env.reset()
        first = env.town.seed
        env.reset(seed=None)
        played.append((first, env.town.seed))
    assert played[0] == played[1] and len({5, *played[0]}) == 3
    env.reset(seed=np.int64(7))  # type: ignore[arg-type]  # NumPy's integers are fine
    assert env.town.seed == 7
    for seed in (-1, 1.5, "5", True, 2**64):
        with pytest.raises(InvalidValueError, match="seed"):
            env.reset(seed=seed)  # type: ignore[arg-type]  # what is refused
    assert env.town.seed == 7


def test_wrong_calls_and_values_are_refused_and_change_nothing() -> None:
    env = gymnasium.make("Voville/FireEscape-v1", window=SHORT, disable_env_checker=True).unwrapped
    assert isinstance(env, VovilleGymEnv)
    for call in (partial(env.step, 0), env.action_masks):
        with pytest.raises(LifecycleError, match="before"):
            call()
    env.reset(seed=0)
    before = env.town.sim.state.tobytes()
    bad: Any = (-1, 10, True, 2.0, float("nan"), "1", None, [1])
    for action in bad:
        with pytest.raises(InvalidValueError, match="action of agent 'CC'"):
            env.step(action)
    assert env.town.sim.state.tobytes() == before
    env.step(np.array(1))  # type: ignore[arg-type]  # so are arrays of none
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"agent": "CCX"}, "agent is 'CCX'.*did you mean 'CC'"),
        ({"others": "lawfull"}, "did you mean 'lawful'"),
        ({"others": "oracle"}, "privileged"),
        ({"others": "wait@x=1"}, "takes no settings"),
        ({"others": "pave@thresold=3"}, "did you mean 'threshold'"),
        ({"others": 3}, "others is 3"),
        ({"flat": 1}, "flat is 1"),
        ({"render_mode": "human"}, "render_mode"),
        ({"window": (0, 1, 2)}, "window"),
    ]
    for maker in (VovilleGymEnv, VovilleGymVectorEnv):
        for settings, message in wrong:
            with pytest.raises(InvalidValueError, match=message):
                maker(**settings)


def test_options_render_masks_and_attributes_come_through_wrappers() -> None:
    env: Any = gymnasium.make(
        "Voville/FireEscape-v1",
        scenario="jaywalk@perception.hazard_radius=7",
        render_mode="ansi",
        agent="LC",
    )
    env = RecordEpisodeStatistics(TimeLimit(env, 6))
    seen, _ = env.reset(seed=0, options={"window": [1, 60, 70]})
    assert seen["self"][3] == 60
    assert env.render().startswith("jaywalk@")
    assert env.get_wrapper_attr("action_masks")().tolist() == seen["action_mask"].tolist()
    assert env.get_wrapper_attr("agent") == "LC"
    assert env.unwrapped.town.world.scenario.perception.hazard_radius == 7
    env.unwrapped.town.ignite(*map(int, seen["self"][:2]), severity=50)
    for _ in range(6):
        *_, truncated, info = env.step(0)
    assert truncated and info["episode"]["l"] == 6
    env.close()
    with pytest.raises(LifecycleError):
        env.unwrapped.step(0)
    with pytest.warns(UserWarning, match="windw"):
        env.unwrapped.reset(options={"windw": 1})
    quiet = VovilleGymEnv(window=SHORT)
    quiet.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert quiet.render() is None


@pytest.mark.parametrize("others", ["lawful", "lawful-fast"])
def test_a_copy_in_mid_episode_goes_on_alike(others: str) -> None:
    env = VovilleGymEnv("fire_escape", window=SHORT, others=others)
    env.reset(seed=0)
    for _ in range(5):
        env.step(0)
    found = []
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), env):
        found.append([digest_of(list(twin.step(0))) for _ in range(STEPS - 5)])
    assert found[0] == found[1] == found[2]


class Listener(BasePolicy):
    """A policy that notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []
        self.begun: list[int] = []
        self.shown: set[str] = set()

    def reset(self, briefing: Any) -> None:
        self.begun.append(briefing.seed)
        self.told.append([])

    def act(self, observations: Any, infos: Any) -> dict[str, int]:
        assert set(observations) == set(infos)
        self.shown |= set(observations)
        ways = {agent: row["routes"][4] for agent, row in observations.items()}
        return {agent: way[1] if way[0] > 0 else 0 for agent, way in ways.items()}

    def observe(self, events: Any) -> None:
        self.told[-1] += events


def test_a_policy_of_the_others_hears_what_a_runner_would_tell() -> None:
    listeners: list[Listener] = []

    def make() -> Listener:
        listeners.append(Listener())
        return listeners[-1]

    settings: dict[str, Any] = {"window": (1, 52, 60), "others": make}
    env = VovilleGymEnv("fire_escape", **settings)
    vector = VovilleGymVectorEnv("fire_escape", 2, **settings)
    same = VovilleGymVectorEnv("fire_escape", 2, autoreset_mode="same_step", **settings)
    vector.reset(seed=[7, 8])
    same.reset(seed=[7, 8])
    for _ in range(2):
        for _ in range(32):
            vector.step(np.array([0, 0]))
            same.step(np.array([0, 0]))
        vector.step(np.array([0, 0]))
    for seed in listeners[1].begun[:2]:
        env.reset(seed=seed)
        for _ in range(32):
            env.step(0)
    single, first, _, third, _ = listeners
    assert first.told[:2] == third.told[:2] == single.told and len(single.told[0]) > 2
    assert {event["type"] for event in single.told[0]} <= {"sanction", "rule_event"}
    assert single.told[1]
    assert "CC" not in single.shown and len(single.shown) == 9
    assert len(first.begun) == len(third.begun) == 3 and first.begun == third.begun
    assert [len(told) > 0 for told in first.told] == [True, True, False]


def test_a_policy_that_forgets_somebody_is_named() -> None:
    class Forgetful(BasePolicy):
        def act(self, observations: Any, infos: Any) -> dict[str, int]:
            return {"EY": 0}

    env = VovilleGymEnv(others=Forgetful, window=SHORT)
    env.reset()
    with pytest.raises(InvalidValueError, match=r"'forgetful' gave no action for .*OH"):
        env.step(0)


@pytest.mark.parametrize("others", ["lawful-fast", "direct-fast", "wait", "lawful", "random"])
@pytest.mark.parametrize("name", ["fire_escape_officers", "jaywalk"])
def test_a_vector_is_its_single_environments(name: str, others: str) -> None:
    settings: dict[str, Any] = {"window": (1, 50, 54), "agent": "EY", "others": others}
    seeds = [3, 2**64 - 1]
    vector = VovilleGymVectorEnv(name, 2, **settings)
    singles = [VovilleGymEnv(name, **settings) for _ in seeds]
    seen, infos = vector.reset(seed=seeds)
    all_seen = [single.reset(seed=seed) for single, seed in zip(singles, seeds, strict=True)]
    generator = np.random.default_rng(0)
    for t in range(17):
        for b, one in enumerate(all_seen):
            mine = [{key: row[b] for key, row in seen.items()}, infos["reward_terms"][b]]
            assert digest_of(mine) == digest_of([one[0], one[-1]["reward_terms"]])
        masks = vector.action_masks()
        actions = np.array([generator.choice(np.flatnonzero(mask)) for mask in masks])
        seen, rewards, ends, cuts, infos = vector.step(actions)
        if t == 16:
            assert vector.towns.restarted.all()
            break
        all_seen = [single.step(actions[b]) for b, single in enumerate(singles)]  # type: ignore[misc]  # longer rows
        for b, one in enumerate(all_seen):
            assert (rewards[b], ends[b], cuts[b]) == one[1:4]  # type: ignore[comparison-overlap]  # as above
    assert not rewards.any()


def test_a_vector_fits_its_spaces_and_statistics_wrappers() -> None:
    made = gymnasium.make_vec("Voville/FireEscape-v1", num_envs=3, window=SHORT)
    assert isinstance(made, VovilleGymVectorEnv)
    assert made.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env: Any = RecordVectorStatistics(made)
    seen, infos = env.reset(seed=0)
    assert seen in env.observation_space and env.action_space.sample() in env.action_space
    total = np.zeros(3)
    for _ in range(STEPS):
        seen, rewards, ends, cuts, infos = env.step(env.action_space.sample())
        assert seen in env.observation_space
        assert {key: value.dtype for key, value in seen.items()} == {
            key: box.dtype for key, box in env.single_observation_space.items()
        }
        assert (rewards.shape, ends.dtype, cuts.dtype) == ((3,), np.bool_, np.bool_)
        total += rewards
    assert cuts.all() and infos["_episode"].all() and infos["episode"]["l"].tolist() == [STEPS] * 3
    assert infos["episode"]["r"] == pytest.approx(total, abs=1e-5)
    assert set(infos) == {"reward_terms", "_reward_terms", "episode", "_episode"}
    env.reset(seed=0)
    for _ in range(3 * (STEPS + 1)):
        *_, infos = env.step(np.zeros(3, int))
    assert list(env.length_queue) == [STEPS] * 12
    rows = DictInfoToList(made)
    rows.reset(seed=0)
    listed: Any = rows.step(np.zeros(3, int))[-1]
    assert len(listed) == 3 and all(row["reward_terms"].shape == (5,) for row in listed)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_autoreset_is_that_of_gymnasiums_own_vector(mode: AutoresetMode) -> None:
    settings: dict[str, Any] = {"window": (1, 50, 52), "others": "lawful-fast"}
    ours = VovilleGymVectorEnv("fire_escape", 2, autoreset_mode=mode, **settings)
    theirs = gymnasium.vector.SyncVectorEnv(
        [partial(VovilleGymEnv, "fire_escape", **settings)] * 2, autoreset_mode=mode
    )
    ours.reset(seed=[1, 2])
    theirs.reset(seed=[1, 2])
    assert ours.metadata["autoreset_mode"] is mode
    for t in range(1, 9):
        mine, yours = ours.step(np.array([0, 1])), theirs.step(np.array([0, 1]))
        assert mine[3].all() == yours[3].all() == (t == 8)
        if t < 8 or mode is not AutoresetMode.SAME_STEP:
            assert digest_of(list(mine[0].items())) == digest_of(
                [(key, yours[0][key]) for key in mine[0]]
            )
        assert mine[1] == pytest.approx(yours[1])
    if mode is AutoresetMode.SAME_STEP:
        for b in range(2):
            assert digest_of(dict(mine[4]["final_obs"][b])) == digest_of(
                dict(yours[4]["final_obs"][b])
            )
        final, other = mine[4]["final_info"], yours[4]["final_info"]
        assert final["reward_terms"].tolist() == other["reward_terms"].tolist()
        assert mine[4]["_final_info"].tolist() == yours[4]["_final_info"].tolist() == [True, True]
        assert mine[0]["self"][:, 3].tolist() == [50, 50]
    elif mode is AutoresetMode.NEXT_STEP:
        seen, rewards, _, cuts, _ = ours.step(np.array([3, 3]))
        assert seen["self"][:, 3].tolist() == [50, 50] and not (rewards.any() or cuts.any())
    else:
        with pytest.raises(LifecycleError, match=r"\[0, 1\] have ended"):
            ours.step(np.array([0, 0]))
        seen, _ = ours.reset(options={"reset_mask": np.array([True, False])})
        assert seen["self"][:, 3].tolist()[0] == 50
        with pytest.raises(LifecycleError, match=r"\[1\] have ended"):
            ours.step(np.array([0, 0]))


def test_a_sub_environment_ends_when_its_agent_arrives() -> None:
    env = VovilleGymVectorEnv(
        "jaywalk", 2, agent="CC", window=(1, 28, 70), terminal_goal=True, others="wait"
    )
    seen, _ = env.reset(seed=0)
    ends = np.zeros(2, bool)
    while not ends.any():
        way = seen["routes"][:, 2]
        seen, _, ends, cuts, infos = env.step(np.where(way[:, 0] > 0, way[:, 1], 0))
    assert not cuts.any() and infos["reward_terms"][ends, 1].all()
    seen, rewards, _, _, _ = env.step(np.zeros(2, int))
    assert env.towns.restarted.tolist() == ends.tolist()
    assert (seen["self"][ends, 3] == 28).all() and not rewards[ends].any()


def test_a_vector_refuses_wrong_actions_and_calls() -> None:
    env = VovilleGymVectorEnv(num_envs=2, window=SHORT, render_mode="ansi")
    with pytest.raises(LifecycleError, match="call reset"):
        env.step(np.zeros(2, int))
    env.reset(seed=0)
    before = env.towns.sim.state.tobytes()
    bad: list[Any] = [np.zeros(3, int), np.zeros((2, 1), int), np.array([0, 10]), np.array([-1, 0])]
    bad += [np.array([0.0, 1.0]), np.array([True, False]), [True, 1], [0, None], [0, 1.0]]
    for actions in bad:
        with pytest.raises(InvalidValueError, match="action"):
            env.step(actions)
    assert env.towns.sim.state.tobytes() == before
    env.step([0, 1])  # type: ignore[arg-type]  # a list is fine
    frames = env.render()
    assert frames is not None and len(frames) == 2 and frames[0] != ""
    assert env.np_random_seed == 0
    with pytest.raises(InvalidValueError, match="did you mean 'next_step'"):
        VovilleGymVectorEnv(autoreset_mode="nextstep")
    env.close()
    env.close()
    with pytest.raises(LifecycleError, match="after close"):
        env.reset()


def test_the_quick_rules_keep_and_break_rules_as_they_say() -> None:
    town = voville_env.parallel_env("fire_escape_officers", window=(1, 30, 130))
    counts: dict[str, int] = {}
    for name, rule in RULES.items():
        observations, _ = town.reset(seed=1)
        reached = 0
        while town.agents:
            stacked = {
                key: np.stack([row[key] for row in observations.values()])
                for key in observations["CC"]
            }
            chosen = rule(stacked)
            if name == "lawful-fast":
                assert not chosen[stacked["authority"][:, 4] == Instruction.HOLD].any()
            actions = dict(zip(observations, chosen.tolist(), strict=True))
            observations, *_ = town.step(actions)
            reached = max(reached, sum(int(row["self"][8]) for row in observations.values()))
            events = town.drain_events()
            broken = events[events.code == 2]  # outcomes: a complied, b violated
            counts[name] = counts.get(name, 0) + int((broken.b != 0).sum())
        assert reached >= (0 if name == "wait" else 6), name
    assert counts["lawful-fast"] == counts["wait"] == 0 and counts["direct-fast"] > 0


def test_the_quick_lawful_rule_case_by_case() -> None:
    town = voville_env.parallel_env("fire_escape", window=SHORT)
    observations, _ = town.reset(seed=0)
    one = {key: array.copy() for key, array in observations["CC"].items()}
    one["self"][11] = 0
    one["authority"][4] = 0
    one["tiles"][:] &= 15

    def decide(**changes: Any) -> int:
        row = {key: array.copy() for key, array in one.items()}
        row["routes"][0] = changes.get("way", (5, Action.MOVE_E, 0, 0))
        row["authority"][4] = changes.get("order", 0)
        if "ahead" in changes:
            row["tiles"][5, 6] = changes["ahead"]
            row["tiles"][4, 5] = row["tiles"][6, 5] = changes["beside"]
            row["self"][4] = changes["step"]
        return int(lawful_fast({key: array[None] for key, array in row.items()})[0])

    red = 1 << Rule.RED_LIGHT
    assert decide() == Action.MOVE_E
    assert decide(way=(5, Action.CROSS_E, 0, 0)) == Action.CROSS_E
    assert decide(way=(5, Action.CROSS_E, red, 3)) == Action.WAIT
    assert decide(way=(5, Action.MOVE_E, red, 3)) == Action.MOVE_E
    assert decide(way=(0, 0, 0, 0)) == decide(way=(-1, Action.MOVE_E, 0, 0)) == Action.WAIT
    assert decide(order=Instruction.HOLD) == Action.WAIT
    one["tiles"][5, 5] = Terrain.PAVEMENT
    behind = OCCUPIED | Terrain.PAVEMENT
    for beside, moves in (
        (Terrain.PAVEMENT, {Action.WAIT, Action.MOVE_N, Action.MOVE_S}),
        (behind, {Action.WAIT}),
        (Terrain.ROAD, {Action.WAIT}),
        (Terrain.PRIVATE_FLOOR, {Action.WAIT}),
        (Terrain.CORDON, {Action.WAIT}),
    ):
        found = {decide(ahead=behind, beside=beside, step=step) for step in range(8)}
        assert found == moves, beside
    batch = {key: np.stack([array, array])[None] for key, array in one.items()}
    assert lawful_fast(batch).shape == direct_fast(batch).shape == (1, 2)


@pytest.mark.learning
def test_sb3_finds_nothing_either() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(VovilleGymEnv("fire_escape", window=SHORT, flat=True))


def test_flat_observations_are_the_same_in_one_vector() -> None:
    settings: dict[str, Any] = {"window": (1, 50, 51), "others": "wait"}
    plain = VovilleGymVectorEnv(num_envs=2, autoreset_mode="same_step", **settings)
    flat = VovilleGymVectorEnv(num_envs=2, autoreset_mode="same_step", flat=True, **settings)
    single = VovilleGymEnv(flat=True, **settings)
    vector, (seen, _) = flat.reset(seed=[1, 2])[0], plain.reset(seed=[1, 2])
    assert vector in flat.observation_space and vector.dtype == np.float32
    assert single.reset(seed=2)[0].tolist() == vector[1].tolist() == flatten(seen)[1].tolist()
    assert vector[1] in single.observation_space
    for _ in range(4):
        vector, *_, infos = flat.step(np.array([1, 2]))
        seen, *_, told = plain.step(np.array([1, 2]))
        assert vector.tolist() == flatten(seen).tolist()
    last = infos["final_obs"][1]
    assert last.tolist() == flatten(told["final_obs"][1]).tolist()
    for _ in range(4):
        vector, *_ = single.step(2)
    assert vector.tolist() == last.tolist()


@pytest.mark.parametrize("name", ["gymnasium_single.py", "gymnasium_vector.py"])
def test_the_examples_run(name: str, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (repository / "docs" / "examples" / name).read_text("utf-8")
    exec(compile(source, name, "exec"), {"__name__": "__main__"})
    assert "return" in capsys.readouterr().out


@pytest.mark.parametrize("number", range(3))
def test_the_snippets_of_the_wrappers_page_run(
    number: int, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / "docs" / "wrappers.md").read_text("utf-8")
    sections = text.split("\n## ")[1:4]
    source = re.findall(r"```python\n(.*?)```", sections[number], re.DOTALL)[0]
    # On one thread: those of numba would live on in the process of the other tests.
    exec(compile(source.replace("threads=2", "threads=1"), "snippet", "exec"), {})
    assert capsys.readouterr().out
