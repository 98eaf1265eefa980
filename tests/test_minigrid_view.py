"""The MiniGrid views with MiniGrid itself: its numbers, its wrappers, a BabyAI-style network."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import voville_env
from voville_env import testing
from voville_env.core.codes import Terrain
from voville_env.errors import InvalidValueError, LifecycleError
from voville_env.testing import privilege
from voville_env.wrappers import minigrid_image as view
from voville_env.wrappers.gymnasium_single import VovilleGymEnv
from voville_env.wrappers.minigrid import MiniGridView, ParallelMiniGridView
from voville_env.wrappers.minigrid_image import Turn

pytestmark = pytest.mark.learning
minigrid: Any = pytest.importorskip("minigrid.minigrid_env")
minigrid_wrappers: Any = pytest.importorskip("minigrid.wrappers")
WINDOW = (1, 48, 54)


def parallel() -> ParallelMiniGridView:
    # No fire yet: one that breaks out is then noticed by everybody, whose mission it changes.
    env = voville_env.parallel_env("fire_escape_officers_control", window=WINDOW)
    return ParallelMiniGridView(env)


def parallel_with_turns() -> ParallelMiniGridView:
    env = voville_env.parallel_env("jaywalk", window=(1, 28, 33))
    return ParallelMiniGridView(env, view_size=11, actions="minigrid")


def single(**settings: Any) -> MiniGridView:
    env = VovilleGymEnv("fire_escape", agent="CC", others="wait", window=(1, 48, 80))
    return MiniGridView(env, **settings)


def play(env: Any, steps: int = 20, seed: int = 0) -> list[Any]:
    """Possible actions at random; every observation lies in its space."""
    draw = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)[0]]
    masks = env.get_wrapper_attr("action_masks")
    for _ in range(steps):
        seen.append(env.step(int(draw.choice(np.flatnonzero(masks()))))[0])
        assert env.observation_space.contains(seen[-1])
    return seen


def test_the_numbers_are_minigrids() -> None:
    constants = importlib.import_module("minigrid.core.constants")
    assert {t.name.lower(): int(t) for t in view.Thing} == constants.OBJECT_TO_IDX
    assert {c.name.lower(): int(c) for c in view.Colour} == constants.COLOR_TO_IDX
    assert {s.name.lower(): int(s) for s in view.DoorState} == constants.STATE_TO_IDX
    assert {t.name.lower(): int(t) for t in Turn} == {a.name: int(a) for a in minigrid.Actions}


def by_minigrid(cells: Any, heading: int, size: int) -> Any:
    """The image that MiniGrid's own environment makes of a grid, seen through walls as here."""

    class Given(minigrid.MiniGridEnv):  # type: ignore[misc]
        def __init__(self) -> None:
            space = minigrid.MissionSpace(lambda: "look")
            side = {"width": 11, "height": 11, "agent_view_size": size}
            super().__init__(space, see_through_walls=True, **side)

        def _gen_grid(self, width: int, height: int) -> None:
            self.grid = minigrid.Grid.decode(cells)[0]
            self.agent_pos, self.agent_dir = (5, 5), heading

    return Given().reset(seed=0)[0]["image"]


@pytest.mark.parametrize("size", [3, 5, 7, 11])
def test_minigrid_itself_sees_the_same(size: int) -> None:
    draw = np.random.default_rng(size)
    native = next(testing.play(voville_env.parallel_env(), 0, 0)).observations["CC"]
    for heading in range(4):
        native["tiles"] = draw.integers(0, len(Terrain), (11, 11)).astype(np.uint8)
        native["signal"][0] = 0
        native["tiles"][5, 5] = Terrain.PAVEMENT  # MiniGrid shows nothing below the agent
        native["self"][5:7] = 63, 63
        cells = view._window(native).transpose(1, 0, 2)
        image = by_minigrid(cells, heading, size)
        ours = view.image_of(native, heading, size)
        known = max(0, size - 6)
        assert (image[:, known:] == ours[:, known:]).all()


@pytest.mark.parametrize("make", [parallel, parallel_with_turns])
def test_the_kit_finds_nothing_wrong(make: Any) -> None:
    turns = make is parallel_with_turns
    skip = ["processes", "privilege", *(("mask", "norms") if turns else ())]
    testing.check_environment(make, steps=10, skip=skip)
    wait = int(Turn.DONE) if turns else 0
    fire = "a fire breaks out near by"  # what else comes into sight may lie behind one's back
    testing.check_no_privilege(make, steps=20, wait=wait, controls=[fire])


def test_the_kit_would_see_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ParallelMiniGridView.translate

    def leaking(self: Any, agent: str, native: Any) -> Any:
        told = honest(self, agent, native)
        people = self.unwrapped.sim.state[0].agents["goal"]
        told["image"][0, 0, 0] = int(people.sum()) % 11
        return told

    monkeypatch.setattr(ParallelMiniGridView, "translate", leaking)
    with pytest.raises(testing.ConformanceError, match="learns of it"):
        testing.check_no_privilege(parallel, steps=20, controls=list(privilege.SHOWN)[-2:-1])


@pytest.mark.parametrize("make", [parallel, parallel_with_turns])
def test_parallel_api(make: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        official = importlib.import_module("pettingzoo.test")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="reset option")
        official.parallel_api_test(make(), num_cycles=40)


def test_a_parallel_view_is_the_single_one() -> None:
    many = ParallelMiniGridView(
        voville_env.parallel_env("fire_escape", window=(1, 48, 80)), actions="minigrid"
    )
    one = single(actions="minigrid")
    told, infos = many.reset(seed=3)
    seen, info = one.reset(seed=3)
    draw = np.random.default_rng(0)
    for _ in range(40):
        assert testing.digest_of(told["CC"]) == testing.digest_of(seen)
        assert testing.digest_of(infos["CC"]) == testing.digest_of(info)
        assert testing.digest_of(many.observe("CC")) == testing.digest_of(seen)
        action = int(draw.choice(np.flatnonzero(one.action_masks())))
        told, *_, infos = many.step(dict.fromkeys(many.agents, Turn.DONE) | {"CC": action})
        seen, *_, info = one.step(action)


def test_turning_takes_a_step_and_walking_ahead_moves_ahead() -> None:
    env = single(actions="minigrid")
    seen, info = env.reset(seed=0)
    assert seen["direction"] == view.START_HEADING == env.agent_dir
    walked = set()
    for _ in range(40):
        if info["action_mask"][Turn.FORWARD]:
            at = env.agent_pos
            seen, *_, info = env.step(Turn.FORWARD)
            moved = env.agent_pos[0] - at[0], env.agent_pos[1] - at[1]
            ahead = ((1, 0), (0, 1), (-1, 0), (0, -1))[env.agent_dir]
            assert moved in ((0, 0), ahead)
            walked.add(env.agent_dir)
        before = seen["direction"]
        seen, *_, info = env.step(Turn.RIGHT)
        assert seen["direction"] == (before + 1) % 4 == env.agent_dir
    assert len(walked) > 1
    with pytest.raises(InvalidValueError, match="integers 0 to 6"):
        env.step(7)
    assert env.agent_dir == seen["direction"]


@pytest.mark.parametrize("actions", ["town", "minigrid"])
def test_minigrids_wrappers_take_it(actions: Any) -> None:
    env = single(actions=actions)
    plain = play(single(actions=actions))
    images = play(minigrid_wrappers.ImgObsWrapper(env))
    assert all((a["image"] == b).all() for a, b in zip(plain, images, strict=True))
    hot = play(minigrid_wrappers.OneHotPartialObsWrapper(env))
    assert hot[0]["image"].shape == (7, 7, 20) and (hot[-1]["image"].sum(axis=2) == 3).all()
    flat = play(minigrid_wrappers.FlatObsWrapper(env))
    assert flat[0].shape == (7 * 7 * 3 + 28 * 96,)
    words = view.vocabulary()
    told = minigrid_wrappers.DictObservationSpaceWrapper(env, 30, words).reset(seed=0)[0]
    names = {number + 1: word for word, number in words.items()}
    text = " ".join(names[number] for number in told["mission"] if number)
    assert text.replace(" ,", ",") == plain[0]["mission"]
    for bonus in (minigrid_wrappers.ActionBonus, minigrid_wrappers.PositionBonus):
        wrapped: Any = bonus(env)
        assert len(play(wrapped)) == 21
    for size in (3, 5, 11):
        larger = play(minigrid_wrappers.ViewSizeWrapper(env, size))
        own = play(single(actions=actions, view_size=size))
        assert all((a["image"] == b["image"]).all() for a, b in zip(larger, own, strict=True))
    pictures = play(minigrid_wrappers.RGBImgPartialObsWrapper(env, tile_size=8), 5)
    assert pictures[0]["image"].shape == (56, 56, 3) and pictures[0]["image"].std() > 0
    with pytest.raises(InvalidValueError, match="agent_pov"):
        env.get_frame(agent_pov=False)


def test_gymnasiums_checker_passes() -> None:
    checker = importlib.import_module("gymnasium.utils.env_checker")
    with warnings.catch_warnings():
        # It advises against wrappers, and to seed the town's unused generator.
        warnings.filterwarnings("ignore", message=".*env passed is different to the unwrapped")
        checker.check_env(single(), skip_render_check=True)


def test_a_babyai_network_learns_from_it() -> None:
    torch: Any = pytest.importorskip("torch")
    nn = torch.nn
    module: Any = nn.Module
    torch.manual_seed(0)
    torch.set_num_threads(1)

    class Network(module):  # type: ignore[misc]
        """Image embedding, convolutions, a GRU over the mission that scales them (FiLM)."""

        def __init__(self, words: int, actions: int) -> None:
            super().__init__()
            self.cells = nn.Embedding(3 * 16, 16)
            self.look = nn.Conv2d(16, 32, 3, padding=1)
            self.words = nn.Embedding(words, 16)
            self.read = nn.GRU(16, 32, batch_first=True)
            self.film = nn.Linear(32, 64)
            self.actor = nn.Linear(32, actions)

        def forward(self, image: Any, mission: Any) -> Any:
            offsets = torch.tensor([0, 16, 32])
            cells = self.cells(image.long() + offsets).sum(-2).permute(0, 3, 1, 2)
            told = self.read(self.words(mission))[1][0]
            scale, shift = self.film(told).chunk(2, dim=1)
            seen = self.look(cells) * scale[..., None, None] + shift[..., None, None]
            return self.actor(torch.relu(seen).amax((2, 3)))

    env = minigrid_wrappers.DictObservationSpaceWrapper(
        single(actions="minigrid"), 30, view.vocabulary()
    )
    seen = []
    actions = [Turn.RIGHT, Turn.FORWARD] * 8
    told = env.reset(seed=0)[0]
    for action in actions:
        seen.append(told)
        told = env.step(action)[0]
    network = Network(len(view.vocabulary()) + 1, int(env.action_space.n))
    images = torch.as_tensor(np.stack([o["image"] for o in seen]))
    missions = torch.as_tensor(np.array([o["mission"] for o in seen]))
    wanted = torch.as_tensor([int(o["direction"]) for o in seen])
    optimiser = torch.optim.Adam(network.parameters(), 0.02)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(network(images, missions), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]  # the four headings look different


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("make", [parallel_with_turns, lambda: single(actions="minigrid")])
def test_a_copy_goes_on_alike(twin_of: Any, make: Any) -> None:
    env = make()
    env.reset(seed=3)

    def left(one: Any) -> Any:
        many = isinstance(one, ParallelMiniGridView)
        return one.step(dict.fromkeys(one.agents, Turn.LEFT) if many else Turn.LEFT)

    left(env)
    twin = twin_of(env)
    for _ in range(4):
        assert testing.digest_of(left(env)) == testing.digest_of(left(twin))


def test_wrong_arguments_are_refused() -> None:
    env = voville_env.parallel_env("jaywalk")
    with pytest.raises(InvalidValueError, match="did you mean 'minigrid'"):
        ParallelMiniGridView(env, actions="mini_grid")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="view_size is 8"):
        ParallelMiniGridView(env, view_size=8)
    with pytest.raises(InvalidValueError, match="agent is 'XX'"):
        ParallelMiniGridView(env).action_space("XX")
    with pytest.raises(InvalidValueError, match="observation space of env"):
        MiniGridView(gymnasium.make("CartPole-v1"))
    with pytest.raises(LifecycleError, match="before the first reset"):
        single().action_masks()


def test_the_example_runs(repository: Path, tmp_path: Path) -> None:
    script = repository / "docs" / "examples" / "minigrid_view.py"
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lawful way" in done.stdout
