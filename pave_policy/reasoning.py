"""What the policies have in common that reason person by person: PAVE and the generative agent."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from pave_policy.backbone import run_all, run_now
from pave_policy.background import wait_for
from pave_policy.glance import Glance, Own, look
from pave_policy.site import Site
from voville_env.core.codes import Action
from voville_env.errors import LifecycleError
from voville_env.observation import Observation
from voville_env.policy import Actions, BasePolicy, Briefing, Infos, Observations

Work = Coroutine[Any, Any, None]
Record = dict[str, Any]


class Desk(Protocol):
    """What a reasoning policy needs of a backbone, whichever operations it answers.

    Attributes:
        name: Shown in records.
        concurrent: Whether operations wait for something, so that it pays to run them side by side.
    """

    name: str
    concurrent: bool

    def settings(self) -> dict[str, Any]:
        """What identifies the backbone, JSON-ready."""
        ...

    def at(self, site: Site, asked: Counter[str]) -> Self:
        """The backbone for one place in a run; `asked` counts a person's requests in an episode."""
        ...

    def take_records(self) -> list[dict[str, Any]]:
        """Log records of what was asked here since the last call, in a fixed order."""
        ...


class HasLog(Protocol):
    """One person's state, as far as it is the same for all policies.

    Attributes:
        log: Decision records that nobody has collected yet.
    """

    log: list[Record]


P = TypeVar("P", bound=HasLog)


class ReasoningPolicy(BasePolicy, Generic[P]):
    """Deliberates at the start of a tick, person by person, and steers everybody at each step.

    Attributes:
        people: Everybody's state, from `reset` on.
    """

    def __init__(self, name: str, *, concurrent: bool) -> None:
        """Takes its name and how it deliberates.

        Args:
            name: Shown in tables.
            concurrent: Whether its backbone waits for something.
        """
        super().__init__(name=name, idle_when_settled=True)
        self.concurrent = concurrent
        self.people: dict[str, P] = {}
        self._ticks_per_day = 0

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode; a policy makes its people after this.

        Args:
            briefing: The town, the people and the clock.
        """
        super().reset(briefing)
        self._ticks_per_day = briefing.ticks_per_day

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Decides and acts; where the backbone waits for a model, this call waits too.

        Args:
            observations: One observation an agent.
            infos: Not used: rewards are ignored.

        Returns:
            One action an agent.

        Raises:
            CallFailedError: If a call to the model failed for good.
        """
        glances = glances_of(observations)
        if works := self.due(observations, glances):
            work = run_all(works, side_by_side=self.concurrent)
            _ = wait_for(work) if self.concurrent else run_now(work)
        return self.steer(observations, glances)

    async def act_async(self, observations: Observations, infos: Infos) -> Actions:
        """Decides and acts; the model calls of all agents run side by side.

        Args:
            observations: One observation an agent.
            infos: Not used.

        Returns:
            One action an agent.

        Raises:
            CallFailedError: If a call to the model failed for good.
        """
        glances = glances_of(observations)
        if works := self.due(observations, glances):
            await run_all(works, side_by_side=self.concurrent)
        return self.steer(observations, glances)

    def due(self, observations: Observations, glances: Mapping[str, Glance]) -> list[Work]:
        """The deliberations that this step asks for; none but at the start of a tick.

        Args:
            observations: One observation an agent.
            glances: What those see who may have something to do.

        Returns:
            One coroutine a person who has something to decide.

        Raises:
            LifecycleError: If the policy was not told of an agent.
        """
        if unknown := [agent for agent in glances if agent not in self.people]:
            raise LifecycleError(
                f"{self.name} was told nothing of {', '.join(unknown)}: "
                "call policy.reset(env.briefing()) before the first act()"
            )
        opened = [
            self.open_tick(agent, glance, observations[agent], glances)
            for agent, glance in self.as_perceived(glances).items()
            if glance.own.step == 0
        ]
        return [work for work in opened if work is not None]

    @abstractmethod
    def open_tick(
        self, agent: str, glance: Glance, observation: Observation, glances: Mapping[str, Glance]
    ) -> Work | None:
        """What a person has to think about at the start of a tick.

        Args:
            agent: Who.
            glance: What they perceive.
            observation: What reaches them.
            glances: What everybody sees.

        Returns:
            The deliberation; None where there is nothing to decide.
        """

    def steer(self, observations: Observations, glances: Mapping[str, Glance]) -> Actions:
        """One step of everybody.

        Args:
            observations: One observation an agent.
            glances: What those see who may have something to do.

        Returns:
            One action an agent.
        """
        seen = self.as_perceived(glances)
        return {
            agent: int(self.step(self.people[agent], seen[agent]))
            if agent in seen
            else int(Action.WAIT)
            for agent in observations
        }

    @abstractmethod
    def step(self, person: P, glance: Glance) -> int:
        """One step of a person.

        Args:
            person: Their state.
            glance: What they perceive.

        Returns:
            The action.
        """

    def as_perceived(self, glances: Mapping[str, Glance]) -> Mapping[str, Glance]:
        """What people perceive of what they see; all of it unless a policy says otherwise.

        Args:
            glances: What they see.

        Returns:
            What they perceive.
        """
        return glances

    def records(self) -> list[Record]:
        """Decision records since the last call.

        Returns:
            Records, agent by agent; `docs/log.md` has their types.
        """
        records: list[Record] = []
        for person in self.people.values():
            records += person.log
            person.log = []
        return records

    def now(self, own: Own) -> int:
        """The current tick, counted over days.

        Args:
            own: A person's own situation.

        Returns:
            The tick.
        """
        return (own.day - 1) * self._ticks_per_day + own.tick

    def site(self, agent: str, own: Own, rule_set: str | None = None) -> Site:
        """Where something is asked of the backbone.

        Args:
            agent: Whose decision it is.
            own: Their own situation.
            rule_set: Which of the two sets of rules is in question; None for what serves both.

        Returns:
            The place.
        """
        briefing = self.briefing
        return Site(
            scenario="" if briefing is None else briefing.scenario,
            policy=self.name,
            seed=0 if briefing is None else briefing.seed,
            agent=agent,
            day=own.day,
            tick=own.tick,
            rule_set=rule_set,
        )


def glances_of(observations: Observations) -> dict[str, Glance]:
    """What those see who may have something to do; people at their goal look once a tick.

    Args:
        observations: One observation an agent.

    Returns:
        Glances by agent.
    """
    glances = {}
    for agent, observation in observations.items():
        own = Own(*observation["self"].tolist())
        if own.step == 0 or own.escaping or not own.at_goal:
            glances[agent] = look(observation)
    return glances
