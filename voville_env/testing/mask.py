"""Whether the action mask of a town says exactly what is physically possible."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from voville_env.actions import direction_of
from voville_env.core.codes import DX, DY, WIDTH, Action, Verb
from voville_env.testing.report import fail, require
from voville_env.testing.scene import Scene, distance
from voville_env.testing.trajectory import Actions, Env, MakeEnv, chooser, mask_of, play, play_on


def check_mask(
    make_env: MakeEnv,
    *,
    seed: int = 0,
    steps: int = 120,
    every: int = 5,
    actions: Actions = "random",
    wait: Any = 0,
) -> dict[str, int]:
    """A masked action does nothing; an unmasked one does what it says where nobody is in the way.

    At every few steps of a run one person tries all ten actions, each in a copy of the
    moment, while everybody else waits.

    Args:
        make_env: Makes a town, or an environment around one that takes the same ten actions.
        seed: Seed of the run.
        steps: Most steps of the run.
        every: Steps between two moments.
        actions: How the run is played between them.
        wait: The action that does nothing.

    Returns:
        How many actions were tried: `masked`, `moves`, `crossings`, `takes`.

    Raises:
        ConformanceError: If the mask is wrong, or the run offered nothing to try.
    """
    env = make_env()
    tried = {"masked": 0, "moves": 0, "crossings": 0, "takes": 0}
    frame = next(play(env, seed, 0))
    choose = chooser(env, seed, actions)
    for number, later in enumerate(play_on(env, frame, steps, choose)):
        if number % every or not env.agents:
            continue
        agent = env.agents[number // every % len(env.agents)]
        mask = mask_of(later.observations[agent], later.infos[agent])
        require(mask is not None, f"agent {agent!r} has no action_mask")
        for action in Action:
            _try(env, agent, action, bool(mask[action]), wait, tried)
    if not tried["masked"] or not tried["moves"]:
        fail(f"the run offered too little to try ({tried}); play longer or choose another seed")
    return tried


def _try(
    env: Env, agent: str, action: Action, possible: bool, wait: Any, tried: dict[str, int]
) -> None:
    twin = copy.deepcopy(env)
    scene = Scene(twin, agent)
    before = scene.me.copy()
    day = int(scene.state.tick) // int(scene.config.ticks_per_day)
    free = _target_free(scene, action)
    items = scene.state.item_tile.copy()
    twin.step({name: int(action) if name == agent else wait for name in twin.agents})
    if int(scene.state.tick) // int(scene.config.ticks_per_day) != day:
        return  # everybody starts the new day at home
    after = scene.me
    moved = int(after.tile) - int(before.tile)
    where = f"{action.name} of {agent!r} at ({before.tile % WIDTH}, {before.tile // WIDTH})"
    if not possible:
        tried["masked"] += 1
        same = moved == 0 and after.carrying == before.carrying and not after.violated_step
        require(same, f"{where} is masked, and yet it happens")
        require(bool(after.blocked), f"{where} is masked, and its failure is not shown as blocked")
    elif action is Action.TAKE:
        tried["takes"] += 1
        gone = int((items != scene.state.item_tile).sum())
        require(after.carrying and gone == 1, f"{where} is not masked, and yet nothing is taken")
    elif action is Action.WAIT:
        require(moved == 0, f"{where} moves")
    elif free:
        tried["moves" if action <= Action.MOVE_W else "crossings"] += 1
        expected = _step_of(action)
        require(moved == expected, f"{where} is not masked, nobody is in the way, and it fails")


def _step_of(action: Action) -> int:
    direction = direction_of(action)
    return 0 if direction is None else DY[direction] * WIDTH + DX[direction]


def _target_free(scene: Scene, action: Action) -> bool:
    """Whether nobody stands on the wanted tile or may walk onto it by themselves."""
    target = int(scene.me.tile) + _step_of(action)
    on_map = np.flatnonzero(scene.people["active"])
    if any(int(scene.people[k].tile) == target for k in on_map if k != scene.observer):
        return False
    walkers = range(int(scene.config.n_agents), scene.officers.start)
    return all(distance(int(scene.people[k].tile), target) > 1 for k in walkers)


def check_norms_unmasked(
    make_env: MakeEnv, *, seed: int = 0, steps: int = 400, actions: Actions = "random"
) -> int:
    """The mask says nothing about rules: it is that of the terrain and of things within reach.

    Args:
        make_env: Makes a town.
        seed: Seed of the run.
        steps: Most steps.
        actions: How the run is played.

    Returns:
        How many unmasked actions would have broken a rule.

    Raises:
        ConformanceError: If a possible step is masked or an impossible one is not.
    """
    env = make_env()
    breaking = 0
    for frame in play(env, seed, steps, actions):
        for agent in env.agents:
            scene = Scene(env, agent)
            mask = mask_of(frame.observations[agent], frame.infos[agent])
            tile = int(scene.me.tile)
            for direction in range(4):
                verb = scene.town.verb[tile, direction]
                expected = (int(verb == Verb.MOVE), int(verb == Verb.CROSS))
                found = (int(mask[1 + direction]), int(mask[5 + direction]))
                require(found == expected, f"the mask of {agent!r} at tile {tile} is {mask}")
                breaking += bool(verb and scene.town.bits[tile, direction])
    return breaking
