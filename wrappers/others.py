"""Who plays the rest of the town where a learner controls one agent: a rule, or any policy.

Rules decide for all agents of all environments at once, from the observation arrays alone. Policies
are objects, one an environment, found by name as everywhere; they see what they would see in a run
of their own, less the controlled agent.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voville_env.actions import check_action
from voville_env.core.codes import DX, DY, Action, Instruction, Route, Rule, Terrain
from voville_env.core.fields import OCCUPIED, TERRAIN_MASK, WINDOW
from voville_env.core.layout import Records
from voville_env.errors import InvalidValueError, invalid
from voville_env.policy import BasePolicy, Policy, installed, load_policy, policy_variant
from voville_env.scenario import World
from voville_env.scenario.briefing import make_briefing

Arrays = Mapping[str, NDArray[Any]]
Batched = Callable[[Arrays], NDArray[np.int8]]
OthersSpec = str | Callable[[], Policy]
_ROUTES = len(Route)
_ESCAPING = 11
_RED = 1 << Rule.RED_LIGHT
_OPEN = np.zeros(TERRAIN_MASK + 1, np.bool_)
_OPEN[[Terrain.PAVEMENT, Terrain.PARK, Terrain.FLOOR, Terrain.DOOR]] = True
_STEP_X, _STEP_Y = np.array(DX), np.array(DY)


def _ahead(tiles: NDArray[np.uint8], direction: NDArray[np.intp]) -> NDArray[np.uint8]:
    """The code of the tile that a step in a direction leads to, for `(M, 11, 11)` windows."""
    middle = WINDOW // 2
    rows = np.arange(len(tiles))
    found: NDArray[np.uint8] = tiles[rows, middle + _STEP_Y[direction], middle + _STEP_X[direction]]
    return found


def _way(observations: Arrays, route: Route) -> tuple[NDArray[Any], NDArray[Any]]:
    """The way to where it counts now: `(M, 4)` columns of `routes`, and `(M,)` first actions."""
    own = observations["self"]
    escaping = own.reshape(-1, own.shape[-1])[:, _ESCAPING]
    routes = observations["routes"]
    flat = routes.reshape(-1, *routes.shape[-2:])
    way = flat[np.arange(len(flat)), _ROUTES * escaping.astype(np.intp) + route]
    return way, np.where(way[:, 0] > 0, way[:, 1], 0).astype(np.int8)


def wait(observations: Arrays) -> NDArray[np.int8]:
    """Everybody stays where they are.

    Args:
        observations: Field name to array `(..., *shape of the field)`.

    Returns:
        Actions `(...)` int8.
    """
    return np.zeros(observations["self"].shape[:-1], np.int8)


def direct_fast(observations: Arrays) -> NDArray[np.int8]:
    """Everybody takes the shortest way that waives the traffic rules, and pushes.

    Args:
        observations: Field name to array `(..., *shape of the field)`.

    Returns:
        Actions `(...)` int8.
    """
    _, action = _way(observations, Route.SCOPED)
    return action.reshape(observations["self"].shape[:-1])


def lawful_fast(observations: Arrays) -> NDArray[np.int8]:
    """Everybody takes the lawful way: waits at red, on an officer's hold and behind people.

    Who is behind somebody steps aside now and then where there is open ground beside the way, by
    a coin that depends on place and time alone. The policy `lawful` plans its ways round people
    and so gets on better in narrow places.

    Args:
        observations: Field name to array `(..., *shape of the field)`.

    Returns:
        Actions `(...)` int8.
    """
    shape = observations["self"].shape[:-1]
    own = observations["self"].reshape(-1, observations["self"].shape[-1]).astype(np.intp)
    tiles = observations["tiles"].reshape(-1, WINDOW, WINDOW)
    way, action = _way(observations, Route.LAWFUL)
    held = observations["authority"][..., 4].reshape(-1) == Instruction.HOLD
    red = (action >= Action.CROSS_N) & (way[:, 2] & _RED != 0)
    direction = (np.maximum(action, 1).astype(np.intp) - 1) % 4
    behind = (action > 0) & (_ahead(tiles, direction) & OCCUPIED != 0)
    coin = own[:, 0] * 7 + own[:, 1] * 11 + own[:, 3] * 5 + own[:, 4] * 3
    aside = (direction + np.where(coin & 2, 1, 3)) % 4
    beside = _ahead(tiles, aside)
    free = (coin & 1 == 1) & (beside & OCCUPIED == 0) & _OPEN[beside & TERRAIN_MASK]
    standing = tiles[:, WINDOW // 2, WINDOW // 2]
    around = np.where(free & _OPEN[standing & TERRAIN_MASK], Action.MOVE_N + aside, 0)
    action = np.where(behind, around, action)
    return np.where(held | red, 0, action).astype(np.int8).reshape(shape)


RULES: dict[str, Batched] = {"lawful-fast": lawful_fast, "direct-fast": direct_fast, "wait": wait}


def find_rule(others: OthersSpec) -> Batched | None:
    """The batched rule of a name.

    Args:
        others: What a user gave.

    Returns:
        The rule, or None where it names or makes a policy.

    Raises:
        InvalidValueError: If it is neither, or no rule or policy is called that.
    """
    if callable(others):
        return None
    if not isinstance(others, str):
        raise InvalidValueError(
            f"others is {others!r}; allowed: a name, or a function that makes a policy"
        )
    base = policy_variant(others).base
    if ":" not in base and base not in (known := [*RULES, *sorted(installed())]):
        raise invalid("others", others, [*known, "module:factory"])
    if base in RULES and base != others:
        raise InvalidValueError(f"others is {others!r}; {base!r} takes no settings")
    return RULES.get(others)


class PolicyOthers:
    """One policy that plays the rest of one town.

    Attributes:
        hears: Whether it wants the public events of every tick.
    """

    def __init__(self, others: OthersSpec, world: World) -> None:
        """Makes the policy.

        Args:
            others: A policy's name, or a function that makes one.
            world: The scenario.

        Raises:
            InvalidValueError: If there is none of that name, or it reads privileged labels.
        """
        self._policy = load_policy(others) if isinstance(others, str) else others()
        if getattr(self._policy, "privileged", False):
            raise InvalidValueError(
                f"others is {others!r}, which reads the oracle's privileged labels; "
                "allowed: policies that see observations only"
            )
        self._world = world
        own = getattr(type(self._policy), "observe", None)
        self.hears = own is not None and own is not BasePolicy.observe
        self._decoder = world.event_decoder()

    def begin(self, seed: int) -> None:
        """Starts an episode.

        Args:
            seed: The town's seed.
        """
        self._policy.reset(make_briefing(self._world, seed))

    def act(
        self, observations: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, int]:
        """Decides for everybody it is shown.

        Args:
            observations: One observation an agent.
            infos: One info an agent.

        Returns:
            One action for each of them.

        Raises:
            InvalidValueError: If the policy leaves somebody out or an action is not allowed.
        """
        actions = self._policy.act(observations, infos)
        missing = [agent for agent in observations if agent not in actions]
        if missing:
            raise InvalidValueError(
                f"policy {self._policy.name!r} gave no action for {', '.join(missing)}"
            )
        return {agent: check_action(agent, actions[agent]) for agent in observations}

    def close_tick(self, events: Records) -> None:
        """Tells the public events of a tick and throws away what the policy notes for a log.

        Args:
            events: The core's events since the last call; looked at only where `hears` is set.
        """
        records = getattr(self._policy, "records", None)
        if records is not None:
            records()
        if self.hears:
            decoded = self._decoder.decode(events)
            told = [event for event in decoded if event["type"] in ("sanction", "rule_event")]
            self._policy.observe(copy.deepcopy(told))  # type: ignore[attr-defined]  # optional part


def choose_agent(world: World, agent: str | None) -> str:
    """The agent that a learner controls.

    Args:
        world: The scenario.
        agent: Its id, or None for the first attendee, else the first agent.

    Returns:
        The id.

    Raises:
        InvalidValueError: If there is no such agent.
    """
    if agent is None:
        attendees = [person.id for person in world.personas if person.group == "attendee"]
        return attendees[0] if attendees else world.agent_ids[0]
    if agent not in world.agent_ids:
        raise invalid("agent", agent, world.agent_ids)
    return agent
