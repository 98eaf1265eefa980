"""Whether an environment holds at its edges: calls at the wrong time, odd seeds and odd actions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from voville_env.testing.report import fail, require
from voville_env.testing.trajectory import (
    Env,
    Frame,
    MakeEnv,
    chooser,
    digest_of,
    play,
    play_on,
)

GOOD_SEEDS: tuple[Any, ...] = (0, 2**32 - 1, np.int64(5))
BAD_SEEDS: tuple[Any, ...] = (-1, "5", 1.5, True)
_ACCIDENTS = (AttributeError, LookupError, NameError, ArithmeticError, RecursionError)


def refuses(call: Callable[[], Any], what: str) -> None:
    """Requires that a call raises a deliberate error with a message.

    Args:
        call: What must be refused.
        what: The call in words.

    Raises:
        ConformanceError: If it passes, or fails by accident.
    """
    try:
        result = call()
    except _ACCIDENTS as error:
        fail(f"{what} fails by accident with {type(error).__name__}: {error}")
    except Exception as error:
        require(str(error).strip(), f"{what} raises {type(error).__name__} without a message")
    else:
        fail(f"{what} is not refused; it returned {str(result)[:80]}")


def check_lifecycle(make_env: MakeEnv, *, seed: int = 0, steps: int = 20_000) -> None:
    """Spaces before reset, no step before reset or after the end, close and reset at any time.

    Args:
        make_env: Makes the environment.
        seed: Seed of the run.
        steps: Most steps to look for the end; a run that is longer is not checked at its end.

    Raises:
        ConformanceError: If not.
    """
    env = make_env()
    everybody = list(env.possible_agents)
    require(everybody, "possible_agents is empty before the first reset")
    for name in everybody:
        require(isinstance(env.observation_space(name), spaces.Space), f"{name!r} has no space")
    idle = {name: _any_action(env, name) for name in everybody}
    refuses(lambda: env.step(idle), "step() before the first reset()")
    frame = next(play(env, seed, 0))
    require(list(env.agents) == everybody, "agents after reset() is not possible_agents")
    _check_lists(env, everybody)
    for last in play_on(env, frame, steps, chooser(env, seed, "random")):
        frame = last
    if not env.agents:
        _check_after_end(env, idle)
    env.reset(seed=seed)
    require(list(env.agents) == everybody, "a second reset() does not bring everybody back")
    close: Callable[[], None] = env.close
    close()
    close()
    again = env.reset(seed=seed)
    require(list(env.agents) == everybody, "reset() after close() does not start a run")
    fresh = make_env().reset(seed=seed)
    require(digest_of(again) == digest_of(fresh), "reset() after close() starts another run")
    require(list(env.possible_agents) == everybody, "possible_agents changed during the runs")


def _any_action(env: Env, name: Any) -> Any:
    space = copy.deepcopy(env.action_space(name))
    space.seed(0)
    return space.sample()


def _check_lists(env: Env, everybody: list[Any]) -> None:
    for attribute in ("agents", "possible_agents"):
        listed = getattr(env, attribute)
        if isinstance(listed, list):
            listed.clear()
        now = list(getattr(env, attribute))
        require(now == everybody, f"clearing the list env.{attribute} changes the environment")


def _check_after_end(env: Env, actions: dict[Any, Any]) -> None:
    """A step after the end is an error or changes nothing."""
    try:
        result = env.step(actions)
    except _ACCIDENTS as error:
        fail(f"step() after the end fails by accident with {type(error).__name__}: {error}")
    except Exception as error:
        require(str(error).strip(), "step() after the end raises an error without a message")
    else:
        require(not any(result), "step() after the end returns something, as if the run went on")
    require(not env.agents, "step() after the end starts a new run")


def check_seeds(make_env: MakeEnv, *, steps: int = 20) -> None:
    """Seeds are whole numbers from 0, of Python or NumPy; everything else is refused.

    Args:
        make_env: Makes the environment.
        steps: Steps to compare for equal seeds.

    Raises:
        ConformanceError: If not.
    """
    env = make_env()
    for seed in GOOD_SEEDS:
        try:
            env.reset(seed=seed)
        except Exception as error:
            fail(f"reset(seed={seed!r}) is refused: {error}")
    whole = [digest_of(frame) for frame in play(make_env(), 5, steps)]
    numpy = [digest_of(frame) for frame in play(env, np.int64(5), steps)]
    require(whole == numpy, "seeds 5 and np.int64(5) give different runs")
    for bad in BAD_SEEDS:
        refuses(partial(env.reset, seed=bad), f"reset(seed={bad!r})")
    after = [digest_of(frame) for frame in play(env, 5, steps)]
    require(after == whole, "a refused seed changes the next run")


def bad_actions(space: spaces.Discrete[Any]) -> list[Any]:
    """Values that are no action of a discrete space.

    Args:
        space: The space.

    Returns:
        Neighbours of the range, and values of other types that look like action 1.
    """
    low, high = int(space.start), int(space.start + space.n)
    return [low - 1, high, True, low + 1.0, float("nan"), str(low), None]


def check_actions(make_env: MakeEnv, *, seed: int = 0, lead: int = 5, steps: int = 5) -> None:
    """Integers of any kind in range are actions; everything else is refused and changes nothing.

    Args:
        make_env: Makes the environment.
        seed: Seed of the run.
        lead: Steps before the odd actions are tried.
        steps: Steps to compare afterwards.

    Raises:
        ConformanceError: If not.
    """
    env, twin = make_env(), make_env()
    frame = list(play(env, seed, lead))[-1]
    list(play(twin, seed, lead))
    name = env.agents[0]
    space = env.action_space(name)
    if not isinstance(space, spaces.Discrete):
        fail(f"action_space({name!r}) is no Discrete; check_actions cannot judge its members")
    usual = chooser(env, seed, "first")(frame.observations, frame.infos)
    for bad in bad_actions(space):
        odd = {**usual, name: bad}
        refuses(partial(env.step, odd), f"action {bad!r}")
    missing = {key: value for key, value in usual.items() if key != name}
    refuses(lambda: env.step(missing), f"step() without an action of the live agent {name!r}")
    stranger = {**usual, "nobody-of-that-name": next(iter(usual.values()))}
    refuses(lambda: env.step(stranger), "an action of an agent that does not exist")
    require(list(env.agents) == list(twin.agents), "a refused action changes the list of agents")
    for step, (one, two) in enumerate(
        zip(_rest(env, frame, seed, steps), _rest(twin, frame, seed, steps), strict=True)
    ):
        require(one == two, f"a refused action changed the state: {step + 1} steps later it shows")
    _check_integer_forms(make_env, seed, lead, name)


def _rest(env: Env, frame: Frame, seed: int, steps: int) -> list[str]:
    choose = chooser(env, seed + 1, "random")
    return [digest_of(item) for item in play_on(env, frame, steps, choose)]


def _check_integer_forms(make_env: MakeEnv, seed: int, lead: int, name: Any) -> None:
    results = []
    for form in (int, np.int64, np.array):
        env = make_env()
        frame = list(play(env, seed, lead))[-1]
        actions = chooser(env, seed, "first")(frame.observations, frame.infos)
        space: Any = env.action_space(name)
        actions[name] = form(int(space.start) + 1)
        try:
            results.append(digest_of(Frame(*env.step(copy.copy(actions)))))
        except Exception as error:
            fail(f"action {actions[name]!r} of type {type(actions[name]).__name__} fails: {error}")
    require(len(set(results)) == 1, "1, np.int64(1) and np.array(1) are not the same action")
