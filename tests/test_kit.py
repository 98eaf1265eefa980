"""The conformance kit itself: sound environments pass, and each check fails where one is broken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils.wrappers.base_parallel import BaseParallelWrapper

from voville_env import testing
from voville_env.parallel import VovilleEnv
from voville_env.testing import ConformanceError, privilege
from voville_env.testing.scene import town_of

Patch = pytest.MonkeyPatch


class Toy(ParallelEnv[str, Any, Any]):
    """Two walkers on a line of nine tiles; whoever reaches its end is done."""

    metadata = {"name": "toy_v0"}  # noqa: RUF012 - as PettingZoo declares it

    def __init__(self) -> None:
        self._names = ("east", "west")
        self._live: list[str] = []
        boxes: dict[str, spaces.Space[Any]] = {
            "at": spaces.Box(0, 8, (1,), np.int16),
            "luck": spaces.Box(0, 1, (1,), np.float32),
            "action_mask": spaces.Box(0, 1, (3,), np.int8),
        }
        self._space = spaces.Dict(boxes)
        self._actions = spaces.Discrete(3)
        self.random = np.random.default_rng()
        self.started = False

    @property
    def agents(self) -> list[str]:
        return list(self._live)

    @agents.setter
    def agents(self, value: list[str]) -> None:
        raise ValueError("read only")

    @property
    def possible_agents(self) -> list[str]:
        return list(self._names)

    @possible_agents.setter
    def possible_agents(self, value: list[str]) -> None:
        raise ValueError("read only")

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._actions

    def check_seed(self, seed: Any) -> None:
        whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
        if seed is not None and not (whole and seed >= 0):
            raise ValueError(f"seed is {seed!r}")

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self.check_seed(seed)
        self.random = np.random.default_rng(seed)
        self.started = True
        self.at = dict.fromkeys(self._names, 4)
        self._live = list(self._names)
        return {name: self.look(name) for name in self._live}, {name: {} for name in self._live}

    def look(self, name: str) -> dict[str, Any]:
        mask = np.array([1, self.at[name] > 0, 1], np.int8)
        luck = np.array([self.random.random()], np.float32)
        return {"at": np.array([self.at[name]], np.int16), "luck": luck, "action_mask": mask}

    def check_actions(self, actions: dict[str, Any]) -> None:
        if not self.started or not self._live:
            raise ValueError("no run")
        if set(actions) != set(self._live):
            raise ValueError(f"actions of {list(actions)}")
        for action in actions.values():
            whole = isinstance(action, (int, np.integer, np.ndarray)) and action is not True
            if not whole or not 0 <= action <= 2:
                raise ValueError(f"action is {action!r}")

    def step(self, actions: dict[str, Any]) -> Any:
        self.check_actions(actions)
        acted = list(self._live)
        for name in acted:
            self.at[name] = min(8, max(0, self.at[name] + (0, -1, 1)[int(actions[name])]))
        done = {name: self.at[name] == 8 for name in acted}
        seen = {name: self.look(name) for name in acted}
        self._live = [name for name in acted if not done[name]]
        rewards, cut = dict.fromkeys(acted, 0.0), dict.fromkeys(acted, False)
        return seen, rewards, done, cut, {name: {} for name in acted}

    def close(self) -> None:
        self._live = []


class Broken(Toy):
    """A toy whose methods the faults below replace."""


class HashOrder(Toy):
    """A toy whose luck depends on the order of sets."""

    def look(self, name: str) -> dict[str, Any]:
        return super().look(name) | {"luck": np.array([hash(name) % 97 / 97], np.float32)}


def test_a_sound_environment_of_somebody_else_passes() -> None:
    results = testing.check_environment(Toy, steps=30)
    outcomes = {result.name: result.outcome for result in results}
    assert outcomes.pop("mask") == outcomes.pop("norms") == outcomes.pop("privilege") == "skipped"
    assert len(outcomes) == 10 and set(outcomes.values()) == {"passed"}


def test_the_kit_lists_every_failure(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Broken, "look", unseeded)
    with pytest.raises(ConformanceError) as caught:
        testing.check_environment(Broken, steps=5, skip=["processes"])
    text = str(caught.value)
    assert "determinism" in text and "action order" in text and "copy" in text


def test_hash_order_is_found_in_other_processes() -> None:
    with pytest.raises(ConformanceError, match="PYTHONHASHSEED changes the run"):
        testing.check_processes(HashOrder, steps=3, hash_seeds=("0", "1"))
    with pytest.raises(ConformanceError, match="cannot travel"):
        testing.check_processes(lambda: HashOrder(), steps=1)  # noqa: PLW0108 - a lambda at heart


# --- faults: each a method that is replaced, and the words of the error


def looks(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    return lambda self, name: Toy.look(self, name) | change(Toy.look(self, name))


def steps(change: Callable[[Any], Any]) -> Any:
    return lambda self, actions: change(Toy.step(self, actions))


_BUFFER = np.zeros(1, np.int16)


def shared_buffer(self: Toy, name: str) -> dict[str, Any]:
    _BUFFER[0] = self.at[name]
    return Toy.look(self, name) | {"at": _BUFFER}


def unseeded(self: Toy, name: str) -> dict[str, Any]:
    luck = np.array([np.random.default_rng().random()], np.float32)
    return Toy.look(self, name) | {"luck": luck}


def global_generator(self: Toy, name: str) -> dict[str, Any]:
    luck = np.array([np.random.random()], np.float32)  # noqa: NPY002 - the fault
    return Toy.look(self, name) | {"luck": luck}


def one_by_one(self: Toy, actions: dict[str, Any]) -> Any:
    self.check_actions(actions)
    first = next(iter(actions))
    return Toy.step(self, actions | dict.fromkeys([n for n in actions if n != first], 0))


def made_anew(self: Toy, memo: Any) -> Toy:
    twin = Broken()
    twin.reset(seed=0)
    return twin


def locked(self: Toy) -> Any:
    raise TypeError("cannot pickle a lock")


def revived(self: Toy, actions: Any) -> Any:
    if self.started and not self._live:
        self.reset()
    return Toy.step(self, actions)


def careless(self: Toy, *given: Any) -> None:
    """Checks nothing."""


def python_seeds(self: Toy, seed: Any) -> None:
    if isinstance(seed, np.integer):
        raise TypeError("no NumPy, please")
    Toy.check_seed(self, seed)


def late_refusal(self: Toy, actions: Any) -> None:
    self.random.random()
    Toy.check_actions(self, actions)


def no_arrays(self: Toy, actions: dict[str, Any]) -> None:
    if any(isinstance(action, np.ndarray) for action in actions.values()):
        raise ValueError("no arrays, please")
    Toy.check_actions(self, actions)


FAULTS: list[tuple[Any, str, Any, str]] = [
    (testing.check_spaces, "look", looks(lambda o: {"luck": o["luck"].astype(float)}), "float64"),
    (testing.check_spaces, "look", looks(lambda o: {"at": int(o["at"][0])}), "not an array"),
    (testing.check_spaces, "look", looks(lambda o: {"at": o["at"][None]}), "has shape (1, 1)"),
    (testing.check_spaces, "look", looks(lambda o: {"at": o["at"] * 3}), "outside 0 to 8"),
    (testing.check_spaces, "look", looks(lambda o: {"more": 1}), "has the keys"),
    (testing.check_spaces, "action_space", lambda self, name: spaces.Discrete(3), "new object"),
    (
        testing.check_spaces,
        "step",
        steps(lambda r: (r[0], dict.fromkeys(r[1], np.nan), *r[2:])),
        "finite",
    ),
    (testing.check_spaces, "step", steps(lambda r: (*r[:3], dict.fromkeys(r[3], 0), r[4])), "flag"),
    (testing.check_spaces, "step", steps(lambda r: (*r[:4], {})), "infos"),
    (testing.check_spaces, "agents", property(lambda self: list(self._names)), "agents at step"),
    (testing.check_aliasing, "look", shared_buffer, "changed by a later"),
    (testing.check_determinism, "look", unseeded, "differs from the first"),
    (testing.check_determinism, "look", global_generator, "differs"),
    (testing.check_action_order, "step", one_by_one, "order differs"),
    (testing.check_copy, "__deepcopy__", made_anew, "copy.deepcopy: step 1"),
    (testing.check_copy, "__deepcopy__", lambda self, memo: self, "the original after"),
    (testing.check_copy, "__getstate__", locked, "cannot pickle a lock"),
    (testing.check_lifecycle, "check_actions", careless, "before the first reset"),
    (testing.check_lifecycle, "close", lambda self: setattr(self, "_names", ()), "after close"),
    (testing.check_lifecycle, "agents", property(lambda self: self._live), "env.agents"),
    (testing.check_lifecycle, "step", revived, "after the end"),
    (testing.check_seeds, "check_seed", careless, "seed=True"),
    (testing.check_seeds, "check_seed", python_seeds, "np.int64(5)"),
    (testing.check_actions, "check_actions", careless, "action -1"),
    (testing.check_actions, "check_actions", late_refusal, "changed the state"),
    (testing.check_actions, "check_actions", no_arrays, "type ndarray"),
]


@pytest.mark.parametrize(("check", "method", "fault", "words"), FAULTS)
def test_each_fault_is_found(
    check: Any, method: str, fault: Any, words: str, monkeypatch: Patch
) -> None:
    settings = {"lead": 2} if check is testing.check_copy else {}
    check(Broken, **settings)
    monkeypatch.setattr(Broken, method, fault, raising=False)
    with pytest.raises(ConformanceError) as caught:
        check(Broken, **settings)
    assert words in str(caught.value), str(caught.value)


# --- faults that only a town can have


class Altered(BaseParallelWrapper[str, Any, Any]):
    """A town whose observations the faults below change on their way out."""

    change: Callable[[Any, Any], None] = staticmethod(lambda seen, state: None)

    def step(self, actions: Any) -> Any:
        observations, *rest = self.env.step(actions)
        for seen in observations.values():
            self.change(seen, town_of(self.env).sim.state[0])
        return observations, *rest


def altered_town() -> Any:
    return Altered(VovilleEnv("fire_escape_officers", window=(1, 49, 62)))


def leaks(secret: Callable[[Any], Any]) -> Any:
    """Adds a secret to the count of steps."""

    def change(seen: Any, state: Any) -> None:
        seen["self"][4] += int(secret(state)) % 89

    return staticmethod(change)


def masks(mask: Any) -> Any:
    def change(seen: Any, state: Any) -> None:
        seen["action_mask"][:] = mask

    return staticmethod(change)


def walk(observations: Any, infos: Any) -> dict[str, int]:
    """Everybody takes the shortest way that waives the traffic rules."""
    return {
        name: int(seen["routes"][4 if seen["self"][11] else 1, 1])
        for name, seen in observations.items()
    }


LEAKS: dict[str, Callable[[Any], Any]] = {
    "goal of people out of sight": lambda state: state.agents["goal"].sum(),
    "place of a person out of sight": lambda state: state.agents["tile"][:10].sum(),
    "lateness of others": lambda state: state.agents["late"].sum(),
    "item behind a wall": lambda state: state.item_tile.sum(),
    "officer out of sight": lambda state: state.agents["tile"][10:12].sum(),
    "oracle labels and thresholds": lambda state: state.agents["label"].sum(),
    "seed of the draws": lambda state: state.seed,
    "fire to come": lambda state: state.fire_severity.sum(),
}


def test_towns_do_not_leak() -> None:
    testing.check_no_privilege(altered_town, steps=14, actions=walk)


@pytest.mark.parametrize("name", LEAKS)
def test_leaks_are_found(name: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(privilege, "HIDDEN", {name: privilege.HIDDEN[name]})
    monkeypatch.setattr(Altered, "change", leaks(LEAKS[name]))
    with pytest.raises(ConformanceError, match=f"{name}.* learns of it"):
        testing.check_no_privilege(altered_town, steps=14, actions=walk)


def test_a_leaking_view_is_found() -> None:
    town = partial(VovilleEnv, "fire_escape_officers", window=(1, 49, 62))
    numbers = iter(range(10**6))

    def prompt(observation: Any) -> int:
        return next(numbers)  # as if a view looked elsewhere

    with pytest.raises(ConformanceError, match="prompt"):
        testing.check_no_privilege(town, steps=4, views={"prompt": prompt})


def test_blindness_is_found(monkeypatch: Patch) -> None:
    def change(seen: Any, state: Any) -> None:
        for key in ("peer_behaviors", "tiles", "situational_cues", "authority"):
            seen[key][:] = 0

    monkeypatch.setattr(Altered, "change", staticmethod(change))
    with pytest.raises(ConformanceError, match="should notice"):
        testing.check_no_privilege(altered_town, steps=14, actions=walk)


@pytest.mark.parametrize(
    ("mask", "words"),
    [(1, "not masked"), ([1, *[0] * 9], "is masked, and yet it happens")],
)
def test_wrong_masks_are_found(mask: Any, words: str, monkeypatch: Patch) -> None:
    testing.check_mask(altered_town, steps=20, actions=walk)
    monkeypatch.setattr(Altered, "change", masks(mask))
    with pytest.raises(ConformanceError, match=words):
        testing.check_mask(altered_town, steps=20, actions=walk)
    with pytest.raises(ConformanceError, match="the mask of"):
        testing.check_norms_unmasked(altered_town, steps=20, actions=walk)


def test_town_checks_want_a_town() -> None:
    with pytest.raises(ConformanceError, match="no VovilleEnv inside"):
        testing.check_no_privilege(Toy)


def test_views_of_the_same_buffers_are_found() -> None:
    with pytest.raises(ConformanceError, match="changed by a later step"):
        testing.check_aliasing(partial(VovilleEnv, "fire_escape", window=(1, 50, 60), copy=False))
