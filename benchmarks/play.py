"""Plays one episode and tells it as log records."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import platform
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from voville_env.core.codes import RewardTerm, Route
from voville_env.errors import InvalidValueError
from voville_env.events import FORMAT, Event, finite
from voville_env.parallel import VovilleEnv
from voville_env.policy import Actions, Infos, Observations, Policy
from voville_env.scenario import World
from voville_env.scenario.briefing import make_briefing
from voville_env.scenario.suites import suite_of
from voville_env.scenario.variation import vary

POLICY_RECORDS = (
    "assessment",
    "verdict",
    "importance",
    "reaction",
    "memory",
    "llm_call",
    "threshold",
)
"""What a policy may write into a log; everything else is the environment's to say."""
_PACKAGES = ("voville", "numpy", "numba")


def versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """Versions that decide what an episode looks like.

    Args:
        packages: Whose.

    Returns:
        Package versions, and Python's.
    """
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def policy_settings(policy: Policy) -> dict[str, Any]:
    """What identifies a policy besides its name.

    Args:
        policy: The policy.

    Returns:
        JSON-ready settings; empty where it names none.
    """
    settings = getattr(policy, "settings", dict)
    return dict(settings())


def policy_hash(policy: Policy) -> str:
    """Hash of a policy's name and settings.

    Args:
        policy: The policy.

    Returns:
        Sixteen hex digits.
    """
    try:
        text = json.dumps([policy.name, policy_settings(policy)], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            f"settings() of policy {policy.name!r} cannot be written as JSON: {error}"
        ) from error
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def header(world: World, policy: Policy, name: str, seed: int, *, privileged: bool) -> Event:
    """The `run_start` record.

    Args:
        world: The scenario.
        policy: The policy.
        name: The name under which it was chosen.
        seed: The seed.
        privileged: Whether it is given the oracle's labels.

    Returns:
        The record.
    """
    spec = vary(world, seed).scenario
    return {
        "type": "run_start",
        "format": FORMAT,
        "scenario": spec.name,
        "policy": name,
        "privileged": privileged,
        "seed": seed,
        "suite": suite_of(world).id,
        "scenario_hash": world.digest(),
        "policy_hash": policy_hash(policy),
        "policy_settings": policy_settings(policy),
        "versions": versions(),
        "clock": spec.clock.model_dump(),
        "purpose": spec.purpose,
        "control": spec.control,
        "focal": spec.focal_intersection,
        "pass_window": list(spec.pass_window),
        "agents": [
            {
                "id": persona.id,
                "name": persona.name,
                "group": persona.group,
                "threshold": persona.legitimacy_threshold,
                "commuter": persona.id in spec.commuter_ids,
            }
            for persona in world.personas
        ],
        "officers": [officer.id for officer in spec.officers],
        "confederates": [confederate.id for confederate in spec.confederates],
        "fires": [
            {
                "at": [fire.x, fire.y],
                "severity": fire.severity,
                "day": fire.day,
                "ignite": fire.ignite,
                "extinguish": fire.extinguish,
            }
            for fire in spec.fires
        ],
    }


def shortest_way(observations: Observations, event: Event) -> int | None:
    """Steps of the shortest way to a new goal, all rules waived.

    Args:
        observations: What everybody saw when the goal was given.
        event: The `goal_change` record.

    Returns:
        Steps; None where no way leads there, or for somebody who has left the town.
    """
    if event["agent"] not in observations:
        return None
    end = 1 if event["escaping"] else 0
    steps = int(observations[event["agent"]]["routes"][3 * end + Route.UNRESTRICTED, 0])
    return None if steps < 0 else steps


@dataclass(frozen=True)
class Turn:
    """What a policy is to act on.

    Attributes:
        observations: One observation an agent.
        infos: One info an agent.
        opens_tick: Whether it is the first step of a tick.
    """

    observations: Observations
    infos: Infos
    opens_tick: bool


class EpisodePlayer:
    """Plays one policy in one environment and yields the log of an episode."""

    def __init__(self, env: VovilleEnv, policy: Policy, name: str, seed: int) -> None:
        """Prepares an episode.

        Args:
            env: The environment.
            policy: The policy.
            name: The name under which it was chosen.
            seed: The seed.
        """
        self.env = env
        self.policy = policy
        self.name = name
        self.seed = seed
        self._privileged = bool(getattr(policy, "privileged", False))
        self._idles = bool(getattr(policy, "idle_when_settled", False))
        spec = env.world.scenario
        self._steps_per_tick = spec.clock.steps_per_tick
        self._ticks_per_day = spec.clock.ticks_per_day
        self._last_tick = spec.ticks
        self._decoder = env.world.event_decoder()
        self._digits: list[str] = []
        self._seen: tuple[int, Observations] = (0, {})
        self._totals = np.zeros((len(env.possible_agents), 1 + len(RewardTerm)))

    def records(self) -> Iterator[Event]:
        """Plays the episode.

        Yields:
            Log records, `run_start` first and `run_end` last.
        """
        script = self._script()
        item = next(script)
        while True:
            if isinstance(item, Turn):
                actions = self.policy.act(item.observations, item.infos)
                item = script.send(actions)
                continue
            yield item
            try:
                item = next(script)
            except StopIteration:
                return

    async def records_async(self) -> AsyncIterator[Event]:
        """Plays the episode; while its policy waits for a model, others can be played.

        Yields:
            The same records.
        """
        act = getattr(self.policy, "act_async", None)
        script = self._script()
        item = next(script)
        while True:
            if isinstance(item, Turn):
                if act is None:
                    actions = self.policy.act(item.observations, item.infos)
                else:
                    actions = await act(item.observations, item.infos)
                if item.opens_tick:
                    await asyncio.sleep(0)  # a stretch without questions must not keep others out
                item = script.send(actions)
                continue
            yield item
            try:
                item = next(script)
            except StopIteration:
                return

    def _script(self) -> Generator[Event | Turn, Actions | None, None]:
        """The episode: yields records, and turns to which it expects actions."""
        env, policy = self.env, self.policy
        first = header(env.world, policy, self.name, self.seed, privileged=self._privileged)
        observations, infos = env.reset(seed=self.seed)
        policy.reset(make_briefing(env.world, self.seed))
        yield first
        state = env.sim.state[0]
        self._seen = (int(state.tick), observations)
        while env.agents:
            within = int(state.step) % self._steps_per_tick
            if within == 0:
                if self._idles and self._settled():
                    observations, _ = env.advance_idle(self._last_tick)
                    yield from self._happened(observations)
                    continue
                if self._privileged:
                    self._attach_labels(infos)
            actions = yield Turn(observations, infos, opens_tick=within == 0)
            assert actions is not None
            tick = int(state.tick)
            observations, _, _, _, infos = env.step(actions)
            if self._privileged:
                self._attach_labels(infos)
            self._note()
            if within == self._steps_per_tick - 1 or not env.agents:
                yield from self._close_tick(tick, observations)
        yield self._end(int(state.step))

    def _settled(self) -> bool:
        people = self.env.sim.state[0].agents[: len(self.env.possible_agents)]
        busy = people["relevant"] | people["unrelated"] | people["escaping"]
        return bool(people["at_goal"].all() and not (busy | people["instruction"]).any())

    def _attach_labels(self, infos: dict[str, Any]) -> None:
        for agent, labels in self.env.oracle_labels().items():
            if agent in infos:
                infos[agent]["oracle"] = labels

    def _note(self) -> None:
        env = self.env
        self._digits.append("".join(str(action) for action in env.sim.actions[0].tolist()))
        out = env.sim.outcomes[0]
        self._totals[:, 0] += out["reward"]
        self._totals[:, 1:] += out["terms"]

    def _happened(self, observations: Observations) -> list[Event]:
        """The events since the last call; a goal comes with the shortest way to it.

        Args:
            observations: At the start of the tick that comes next.
        """
        events = self._decoder.decode(self.env.drain_events())
        last, before = self._seen
        for event in events:
            if event["type"] == "goal_change":
                now = (event["day"] - 1) * self._ticks_per_day + event["tick"]
                seen = before if now == last else observations
                event["steps"] = shortest_way(seen, event)
        self._seen = (int(self.env.sim.state[0].tick), observations)
        return events

    def _close_tick(self, tick: int, observations: Observations) -> Iterator[Event]:
        when = {"day": tick // self._ticks_per_day + 1, "tick": tick % self._ticks_per_day}
        for record in getattr(self.policy, "records", list)():
            if record.get("type") not in POLICY_RECORDS:
                raise InvalidValueError(
                    f"policy {self.name!r} made a record of type {record.get('type')!r}; "
                    f"allowed: {', '.join(POLICY_RECORDS)}"
                )
            yield record
        acted = "".join(self._digits)
        self._digits.clear()
        if acted.strip("0"):
            yield {"type": "actions", **when, "a": acted}
        events = self._happened(observations)
        observe = getattr(self.policy, "observe", None)
        if observe is not None:
            told = [event for event in events if event["type"] in ("sanction", "rule_event")]
            observe(copy.deepcopy(told))  # what a policy does with it must not reach the log
        yield from events

    def _end(self, steps: int) -> Event:
        totals = {}
        for row, agent in zip(self._totals, self.env.possible_agents, strict=True):
            totals[agent] = {
                "reward": finite(float(row[0])),
                "progress": finite(float(row[1 + RewardTerm.PROGRESS])),
                "arrivals": round(float(row[1 + RewardTerm.ARRIVAL])),
                "harm": finite(float(row[1 + RewardTerm.HARM])),
                "sanctions": round(float(row[1 + RewardTerm.SANCTION])),
            }
        return {"type": "run_end", "steps": steps, "totals": totals}
