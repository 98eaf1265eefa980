"""Whether a person of a town learns anything that they cannot perceive.

Hidden things are changed in a copy of a moment; original and copy then run on for a tick in which
everybody waits, and all that the person gets must be the same, byte for byte. The other way round,
changes in plain sight must show, or the comparison would be blind.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from voville_env.core.codes import TILES, WIDTH
from voville_env.core.fields import FIELD
from voville_env.core.layout import ITEMS
from voville_env.observation import narrate, to_context
from voville_env.testing.report import fail, require
from voville_env.testing.scene import Scene, town_of
from voville_env.testing.trajectory import Actions, Env, Frame, MakeEnv, digest_of, play

Change = Callable[[Scene], bool]
View = Callable[[Any], Any]
_FAR = 50


def _others_goal(scene: Scene) -> bool:
    hidden = [k for k in scene.others(seen=False) if k < int(scene.config.n_agents)]
    for k in hidden:
        person = scene.people[k]
        person.goal = (int(person.goal) + 1) % int(scene.town.n_destinations)
        person.reached = 0
    return bool(hidden)


def _others_place(scene: Scene) -> bool:
    tile = scene.nearest(seen=False)
    movable = [k for k in scene.others(seen=False) if scene.apart(int(scene.people[k].tile))]
    movable = [k for k in movable if k < int(scene.config.n_agents)]
    if tile is None or not movable:
        return False
    scene.people[movable[0]].tile = scene.people[movable[0]].from_tile = tile
    return True


def _others_schedule(scene: Scene) -> bool:
    ticks = int(scene.config.ticks_per_day)
    day, tick = divmod(int(scene.state.tick), ticks)
    hidden = scene.others(seen=False)
    for k in range(int(scene.config.n_agents)):
        if k != scene.observer:
            # At once for those out of sight, later for those whose waiting could be seen.
            due = tick + 1 if k in hidden else tick + _FAR
            scene.config.schedule_day[k, -1] = day + 1
            scene.config.schedule_tick[k, -1] = due
            scene.config.schedule_goal[k, -1] = int(scene.town.n_destinations) - 1
            scene.config.schedule_late[k, -1] = 1
    return int(scene.config.n_agents) > 1


def _others_lateness(scene: Scene) -> bool:
    for k in range(int(scene.config.n_agents)):
        if k != scene.observer:
            scene.people[k].late = 1 - int(scene.people[k].late)
    return int(scene.config.n_agents) > 1


def _item_behind_wall(scene: Scene) -> bool:
    tile = scene.nearest(seen=False)
    unused = np.flatnonzero(scene.state.item_tile < 0)
    if tile is None or not unused.size:
        return False
    scene.state.item_tile[unused[0]] = tile
    scene.state.item_owner[unused[0]] = -1
    return True


def _hidden_item_taken(scene: Scene) -> bool:
    tiles = scene.state.item_tile.tolist()
    hidden = [k for k in range(ITEMS) if tiles[k] >= 0 and not scene.sees(tiles[k])]
    hidden = [k for k in hidden if scene.apart(tiles[k])]
    for k in hidden:
        scene.state.item_tile[k] = -1
    return bool(hidden)


def _officer_out_of_sight(scene: Scene) -> bool:
    tile = scene.nearest(seen=False)
    posts = [k for k in scene.officers if not scene.sees(int(scene.people[k].tile))]
    posts = [k for k in posts if scene.apart(int(scene.people[k].tile))]
    if tile is None or not posts:
        return False
    scene.people[posts[0]].tile = scene.people[posts[0]].intent = tile
    return True


def _labels(scene: Scene) -> bool:
    scene.people["label"] = 3 - scene.people["label"]
    scene.people["label_unrelated"] = 3 - scene.people["label_unrelated"]
    scene.config.oracle_high = 1
    scene.config.oracle_ticks = 0.01
    scene.config.oracle_harm = 0.01
    return True


def _seed(scene: Scene) -> bool:
    scene.state.seed = int(scene.state.seed) ^ 0x5DEECE66D
    return True


def _fire_to_come(scene: Scene) -> bool:
    for k in np.flatnonzero(scene.state.fire_severity == 0)[:1]:
        scene.state.fire_tile[k] = scene.me.tile
        scene.state.fire_severity[k] = 95
        scene.state.fire_from[k] = int(scene.state.tick) + _FAR
        scene.state.fire_until[k] = int(scene.state.tick) + 2 * _FAR
        return True
    return False


def _jaywalk_jitter(scene: Scene) -> bool:
    later = scene.state.crossing_tick > int(scene.state.tick) + _FAR
    scene.state.crossing_tick[later] += 1
    return bool(later.any())


HIDDEN: dict[str, Change] = {
    "goal of people out of sight": _others_goal,
    "place of a person out of sight": _others_place,
    "schedule of others": _others_schedule,
    "lateness of others": _others_lateness,
    "item behind a wall": _item_behind_wall,
    "item out of sight is taken": _hidden_item_taken,
    "officer out of sight": _officer_out_of_sight,
    "oracle labels and thresholds": _labels,
    "seed of the draws": _seed,
    "fire to come": _fire_to_come,
    "crossings to come": _jaywalk_jitter,
}
"""What nobody may notice: each changes a moment and says whether it found something to change."""


def _own_goal(scene: Scene) -> bool:
    due = scene.config.schedule_tick[scene.observer].tolist()
    if int(scene.state.tick) % int(scene.config.ticks_per_day) + 1 in due:
        return False
    scene.me.goal = (int(scene.me.goal) + 1) % int(scene.town.n_destinations)
    return True


def _person_comes(scene: Scene) -> bool:
    tile = scene.nearest(seen=True, above=2, within=5)
    movable = [k for k in scene.others(seen=False) if k < int(scene.config.n_agents)]
    if tile is None or not movable:
        return False
    scene.people[movable[0]].tile = scene.people[movable[0]].from_tile = tile
    return True


def _item_appears(scene: Scene) -> bool:
    tile = scene.nearest(seen=True, above=1, within=4)
    unused = np.flatnonzero(scene.state.item_tile < 0)
    if tile is None or not unused.size:
        return False
    scene.state.item_tile[unused[0]] = tile
    return True


def _officer_comes(scene: Scene) -> bool:
    tile = scene.nearest(seen=True, above=1, within=15)
    posts = [k for k in scene.officers if scene.people[k].active]
    posts = [k for k in posts if not scene.sees(int(scene.people[k].tile))]
    if tile is None or not posts:
        return False
    scene.people[posts[0]].tile = scene.people[posts[0]].intent = tile
    return True


def _fire_breaks_out(scene: Scene) -> bool:
    for k in np.flatnonzero(scene.state.fire_severity == 0)[:1]:
        scene.state.fire_tile[k] = (int(scene.me.tile) + 6 * WIDTH) % TILES
        scene.state.fire_severity[k] = 95
        scene.state.fire_from[k] = int(scene.state.tick) + 1
        scene.state.fire_until[k] = int(scene.state.tick) + _FAR
        return True
    return False


def _signal_moves(scene: Scene) -> bool:
    here = int(scene.me.tile)
    signal = int(scene.town.near_signal[here])
    away = int(scene.town.near_signal_distance[here])
    if signal >= int(scene.town.n_signals) or away > int(scene.config.cue_radius):
        return False
    scene.state.signal_start[signal] += 3
    return True


SHOWN: dict[str, Change] = {
    "own goal": _own_goal,
    "a person comes into sight": _person_comes,
    "an item appears in sight": _item_appears,
    "an officer comes into sight": _officer_comes,
    "a fire breaks out near by": _fire_breaks_out,
    "the nearest signal changes": _signal_moves,
}
"""What must be noticed: the positive controls."""


def check_no_privilege(
    make_env: MakeEnv,
    *,
    seed: int = 0,
    steps: int = 120,
    every: int = 5,
    actions: Actions = "random",
    wait: Any = 0,
    views: Mapping[str, View] | None = None,
    controls: Collection[str] = tuple(SHOWN),
) -> dict[str, int]:
    """Observation, mask, info, reward and every view of them are blind to what is hidden.

    Args:
        make_env: Makes a town, or an environment around one.
        seed: Seed of the run.
        steps: Steps of the run.
        every: Steps between two moments that are looked at, each from another person.
        actions: How the run is played between them.
        wait: The action that does nothing.
        views: Functions of an observation, such as the text of a prompt; `narrate` and `to_context`
            unless given, where the observation has the town's own keys.
        controls: Changes of `SHOWN` that every view must show.

    Returns:
        How often each change was tried.

    Raises:
        ConformanceError: If something hidden shows, or something visible does not.
    """
    env = make_env()
    tried = dict.fromkeys([*HIDDEN, *controls], 0)
    for number, frame in enumerate(play(env, seed, steps, actions)):
        if number % every or not env.agents:
            continue
        agent = env.agents[number // every % len(env.agents)]
        used = _views(frame.observations[agent]) if views is None else views
        twin = copy.deepcopy(env)
        plain = _tick(twin, agent, wait, used)
        if agent not in twin.agents:
            continue  # the run ends in this tick: nothing new could show any more
        for name in tried:
            twin = copy.deepcopy(env)
            change = HIDDEN.get(name) or SHOWN[name]
            if not change(Scene(twin, agent)):
                continue
            tried[name] += 1
            changed = _tick(twin, agent, wait, used)
            _compare(name, agent, number, plain, changed)
    require(sum(tried[name] for name in HIDDEN), "the run offered nothing hidden to change")
    if not any(tried[name] for name in controls):
        fail("the run offered no visible change to compare with; play longer or from another seed")
    return tried


def _views(observation: Any) -> Mapping[str, View]:
    if isinstance(observation, Mapping) and set(FIELD) <= set(observation):
        return {"narrate": narrate, "to_context": lambda o: to_context(o).model_dump_json()}
    return {}


def _tick(env: Env, agent: str, wait: Any, views: Mapping[str, View]) -> dict[str, list[Any]]:
    """What a person gets while everybody waits, up to the first step of the next tick."""
    seen: dict[str, list[Any]] = {name: [] for name in ("observation", "info", "reward", *views)}
    for _ in range(int(town_of(env).sim.config[0].steps_per_tick)):
        if agent not in env.agents:
            break
        frame = Frame(*env.step(dict.fromkeys(env.agents, wait)))
        observation = frame.observations[agent]
        seen["observation"].append(digest_of(observation))
        seen["info"].append(digest_of(frame.infos[agent]))
        seen["reward"].append(frame.rewards[agent])
        for name, view in views.items():
            seen[name].append(view(observation))
    return seen


def _compare(
    name: str, agent: str, number: int, plain: dict[str, list[Any]], changed: dict[str, list[Any]]
) -> None:
    differing = [part for part in plain if plain[part] != changed[part]]
    if name in HIDDEN:
        require(not differing, f"{name}: {agent!r} learns of it at step {number} by {differing}")
        return
    blind = [part for part in plain if part not in (*differing, "info", "reward")]
    require(not blind, f"{name}: {agent!r} should notice at step {number}, but not by {blind}")
