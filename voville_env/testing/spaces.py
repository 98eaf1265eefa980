"""Whether everything that an environment returns is what its spaces promise."""

from __future__ import annotations

import copy
import math
from numbers import Real
from typing import Any

import numpy as np
from gymnasium import spaces

from voville_env.testing.report import fail, require
from voville_env.testing.trajectory import (
    Actions,
    Chooser,
    Env,
    Frame,
    MakeEnv,
    chooser,
    digest_of,
    play,
)

_PARTS = ("observation", "reward", "termination", "truncation", "info")


def misfit(space: Any, value: Any, where: str) -> str | None:
    """Says why a value is no member of a space; stricter than `contains` about dtypes.

    Args:
        space: Any Gymnasium space.
        value: The value.
        where: What the value is, for the message.

    Returns:
        One sentence, or None where it fits.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or set(value) != set(space.spaces):
            keys = list(value) if isinstance(value, dict) else type(value).__name__
            return f"{where} has the keys {keys}, its space {list(space.spaces)}"
        found = (misfit(inner, value[key], f"{where}[{key!r}]") for key, inner in space.items())
        return next((sentence for sentence in found if sentence), None)
    if isinstance(space, spaces.Box):
        return _box_misfit(space, value, where)
    return None if space.contains(value) else f"{where} is {value!r}, which is not in {space}"


def _box_misfit(space: spaces.Box, value: Any, where: str) -> str | None:
    if not isinstance(value, np.ndarray):
        return f"{where} is a {type(value).__name__}, not an array"
    if value.dtype != space.dtype:
        return f"{where} has dtype {value.dtype}, its space {space.dtype}"
    if value.shape != space.shape:
        return f"{where} has shape {value.shape}, its space {space.shape}"
    outside = np.argwhere(~((value >= space.low) & (value <= space.high)))
    if outside.size == 0:
        return None
    at = tuple(outside[0].tolist())
    return f"{where}{list(at)} is {value[at]}, outside {space.low[at]} to {space.high[at]}"


def check_spaces(
    make_env: MakeEnv, *, seed: int = 0, steps: int | None = None, actions: Actions = "random"
) -> None:
    """Every observation lies in its space with its very dtype and shape, the terminal one included.

    Also: the five dicts hold exactly the agents that acted, rewards are finite numbers, flags are
    bools, infos are dicts, spaces are the same objects at every call, and who is done leaves.

    Args:
        make_env: Makes the environment.
        seed: Seed of the run.
        steps: Most steps; None plays to the end.
        actions: How to act.

    Raises:
        ConformanceError: If not.
    """
    env = make_env()
    acting = list(env.possible_agents)
    kept = {name: (env.observation_space(name), env.action_space(name)) for name in acting}
    for number, frame in enumerate(play(env, seed, steps, actions)):
        when = f"at step {number}" if number else "after reset"
        _check_frame(env, frame, acting, when)
        for name in acting:
            same = env.observation_space(name) is kept[name][0]
            require(
                same, f"observation_space({name!r}) is a new object {when}; return the same one"
            )
            same = env.action_space(name) is kept[name][1]
            require(same, f"action_space({name!r}) is a new object {when}; return the same one")
        acting = list(env.agents)


def _check_frame(env: Env, frame: Frame, acting: list[Any], when: str) -> None:
    first = not frame.terminations
    parts = dict(zip(_PARTS, frame, strict=True))
    for part in ("observation", "info") if first else _PARTS:
        names = set(parts[part])
        require(
            names == set(acting),
            f"{part}s {when} are of {sorted(map(str, names))}, not of "
            f"the agents that acted: {sorted(map(str, acting))}",
        )
    for name in acting:
        sentence = misfit(
            env.observation_space(name), frame.observations[name], f"the observation of {name!r}"
        )
        require(sentence is None, f"{sentence}, {when}")
        require(isinstance(frame.infos[name], dict), f"the info of {name!r} {when} is no dict")
        if not first:
            _check_outcome(frame, name, when)
    gone = {n for n in acting if not first and (frame.terminations[n] or frame.truncations[n])}
    expected = [name for name in acting if name not in gone]
    require(list(env.agents) == expected, f"agents {when} is {env.agents}, expected {expected}")


def _check_outcome(frame: Frame, name: Any, when: str) -> None:
    reward = frame.rewards[name]
    fine = isinstance(reward, Real) and math.isfinite(reward)
    require(fine, f"the reward of {name!r} {when} is {reward!r}, not a finite number")
    for flag in (frame.terminations[name], frame.truncations[name]):
        require(isinstance(flag, bool), f"a flag of {name!r} {when} is a {type(flag).__name__}")


def check_aliasing(
    make_env: MakeEnv, *, seed: int = 0, steps: int | None = 50, actions: Actions = "random"
) -> None:
    """What was returned is the caller's: no later step changes it, and writing into it is safe.

    Args:
        make_env: Makes the environment.
        seed: Seed of the run.
        steps: Most steps; None plays to the end.
        actions: How to act.

    Raises:
        ConformanceError: If not.
    """
    env = make_env()
    kept: list[tuple[Frame, Frame]] = []
    for _ in range(2):  # a second run, so that the next reset could overwrite the end of the first
        kept += [(frame, copy.deepcopy(frame)) for frame in play(env, seed, steps, actions)]
    for number, (held, copied) in enumerate(kept):
        if digest_of(held) != digest_of(copied):
            fail(f"what call {number} returned was changed by a later step or reset")
    clean = [digest_of(frame) for frame in play(make_env(), seed, steps, actions)]
    dirty = []
    for frame in play(env, seed, steps, _spoiling(env, seed, actions)):
        dirty.append(digest_of(frame))
    require(dirty == clean, "writing into a returned array changes what the environment does next")


def _spoiling(env: Env, seed: int, actions: Actions) -> Chooser:
    inner = chooser(env, seed, actions)

    def choose(observations: Any, infos: Any) -> dict[Any, Any]:
        chosen = inner(observations, infos)
        for value in (observations, infos):
            _spoil(value)
        return chosen

    return choose


def _spoil(value: Any) -> None:
    if isinstance(value, np.ndarray) and value.flags.writeable and value.dtype.kind in "iufb":
        value[...] = 1
    elif isinstance(value, dict):
        for inner in value.values():
            _spoil(inner)
