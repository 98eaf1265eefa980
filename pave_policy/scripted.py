"""Scripted comparators: random, lawful, direct, and the privileged oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pave_policy.glance import Glance, look
from pave_policy.walking import Walker, walkers_of
from voville_env.core.codes import (
    ALL_RULES,
    CARRIAGEWAY,
    TRIGGER_RELEVANT,
    Action,
    Instruction,
    Label,
    Route,
)
from voville_env.errors import LifecycleError
from voville_env.policy import Actions, BasePolicy, Briefing, Infos, Observations

Info = Mapping[str, Any]


@dataclass
class RandomPolicy(BasePolicy):
    """Picks uniformly among the physically possible actions.

    A draw depends on the seed, the agent, the day, the tick and the step alone.
    """

    name: str = "random"
    _numbers: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _block: tuple[tuple[int, int], list[list[float]]] | None = field(
        default=None, init=False, repr=False
    )

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode.

        Args:
            briefing: Whose seed and agents count.
        """
        super().reset(briefing)
        self._numbers = {agent: number for number, agent in enumerate(sorted(briefing.personas))}
        self._block = None

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Draws an action for everybody.

        Args:
            observations: One observation an agent.
            infos: Not used.

        Returns:
            One possible action an agent.
        """
        actions = {}
        for agent, observation in observations.items():
            own = observation["self"].tolist()
            lots = self._lots(own[2], own[3])
            possible = observation["action_mask"].nonzero()[0].tolist()
            lot = lots[own[4] % len(lots)][self._numbers[agent]]
            actions[agent] = possible[int(lot * len(possible))]
        return actions

    def _lots(self, day: int, tick: int) -> list[list[float]]:
        """Uniform numbers of one tick, by step and agent, from a counter-based generator."""
        if self._block is None or self._block[0] != (day, tick):
            if self.briefing is None:
                raise LifecycleError("act() before reset()")
            key = np.array([self.briefing.seed, day << 32 | tick], np.uint64)
            generator = np.random.Generator(np.random.Philox(key=key))
            size = (self.briefing.steps_per_tick, len(self._numbers))
            self._block = ((day, tick), generator.random(size).tolist())
        return self._block[1]


@dataclass
class WalkingPolicy(BasePolicy):
    """Base of the policies that follow a planned way, one walker an agent."""

    idle_when_settled: bool = True
    _walkers: dict[str, Walker] = field(default_factory=dict, init=False, repr=False)

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode.

        Args:
            briefing: Whose town is walked.
        """
        super().reset(briefing)
        self._walkers = walkers_of(briefing)

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Takes one step with everybody.

        Args:
            observations: One observation an agent.
            infos: One info dict an agent.

        Returns:
            One action an agent.
        """
        return {
            agent: int(self.step(self._walkers[agent], look(observation), infos.get(agent, {})))
            for agent, observation in observations.items()
        }

    def step(self, walker: Walker, glance: Glance, info: Info) -> int:
        """One step of one person.

        Args:
            walker: The person.
            glance: What they see.
            info: Their info dict.

        Returns:
            The action.

        Raises:
            NotImplementedError: Always; a policy defines its own.
        """
        raise NotImplementedError


def walk_lawfully(walker: Walker, glance: Glance) -> int:
    """One step that breaks no rule: the lawful way, with waits at red, behind people and on hold.

    Args:
        walker: The person.
        glance: What they see.

    Returns:
        The action.
    """
    if glance.officer.instruction == Instruction.HOLD:
        return Action.WAIT
    return walker.follow(glance, glance.leg(Route.LAWFUL))


@dataclass
class LawfulPolicy(WalkingPolicy):
    """Keeps every rule and obeys every order."""

    name: str = "lawful"

    def step(self, walker: Walker, glance: Glance, info: Info) -> int:
        """One lawful step.

        Args:
            walker: The person.
            glance: What they see.
            info: Not used.

        Returns:
            The action.
        """
        return walk_lawfully(walker, glance)


@dataclass
class DirectPolicy(WalkingPolicy):
    """Takes the shortest way that waives the traffic rules: crosses on red, pushes, never waits."""

    name: str = "direct"

    def step(self, walker: Walker, glance: Glance, info: Info) -> int:
        """One step straight on.

        Args:
            walker: The person.
            glance: What they see.
            info: Not used.

        Returns:
            The action; WAIT at the end, and behind people within the safe zone.
        """
        return walker.follow(glance, glance.leg(Route.SCOPED), ALL_RULES)


@dataclass
class OraclePolicy(WalkingPolicy):
    """Breaks the traffic rules where the environment's own label calls it warranted.

    It reads the privileged labels. Where nothing is at stake it goes on as before, as long as it
    perceives the fire.
    """

    name: str = "oracle"
    privileged: bool = True
    _warranted: set[str] = field(default_factory=set, init=False, repr=False)

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode.

        Args:
            briefing: Whose town is walked.
        """
        super().reset(briefing)
        self._warranted = set()

    def step(self, walker: Walker, glance: Glance, info: Info) -> int:
        """One step by the label.

        Args:
            walker: The person.
            glance: What they see.
            info: Holds `oracle`, the labels of the trigger-relevant and of the unrelated set.

        Returns:
            The action.

        Raises:
            LifecycleError: If the runner gives no labels.
        """
        if "oracle" not in info:
            raise LifecycleError("the oracle policy needs infos[agent]['oracle'] from its runner")
        walker.note_ground(glance)
        label = info["oracle"][0]
        if label == Label.WARRANTED:
            self._warranted.add(walker.agent)
        elif label != Label.NONE or not glance.perceives_fire():
            self._warranted.discard(walker.agent)
        if walker.agent in self._warranted and not glance.ordered():
            return walker.follow(glance, glance.leg(Route.SCOPED), TRIGGER_RELEVANT)
        if walker.strayed and glance.terrain() in CARRIAGEWAY:
            return walker.leave_road(glance)
        return walk_lawfully(walker, glance)
