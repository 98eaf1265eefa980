"""The town as a Gymnasium environment: one agent is yours, the others are played for you."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from voville_env.actions import check_action
from voville_env.errors import LifecycleError
from voville_env.flat import flat_space, flatten
from voville_env.parallel import RENDER_MODES, Info, Observation, VovilleEnv, check_seed
from voville_env.scenario import Scenario, World
from voville_env.scenario.compile import Window
from voville_env.vector.edges import check_switches
from voville_env.wrappers.others import OthersSpec, PolicyOthers, choose_agent, find_rule


class VovilleGymEnv(gymnasium.Env[Any, int]):
    """One agent of one town, as `gymnasium.make("Voville/FireEscape-v1")` makes it.

    The episode is terminated when the agent arrives, with `terminal_goal=True`, and truncated at
    the end of the run. `info` holds `reward_terms`, `(5,)` float32 unweighted terms by
    `core.codes.RewardTerm`, and nothing else.

    Attributes:
        town: The `ParallelEnv` below, for `ignite` and the like.
        agent: Id of the agent that is controlled.
        flat: Whether observations are vectors.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it on the instance
        "render_modes": list(RENDER_MODES),
        "render_fps": 4,
    }

    def __init__(  # noqa: PLR0913 - the settings of the town and of who plays it, by keyword
        self,
        scenario: str | Path | Scenario | World = "fire_escape",
        *,
        agent: str | None = None,
        others: OthersSpec = "lawful",
        render_mode: str | None = None,
        flat: bool = False,
        copy: bool = True,
        window: Window | None = None,
        terminal_goal: bool = False,
        days: int | None = None,
    ) -> None:
        """Loads the scenario and makes the policy of the others.

        Args:
            scenario: A shipped name, a path to a TOML file, a scenario or a loaded world.
            agent: Whom to control; the scenario's first attendee unless given.
            others: Who plays the rest: the name of any policy, which may carry settings, as in
                `pave@threshold=50`; a function that makes a policy; or one of the quick rules
                `lawful-fast`, `direct-fast` and `wait`.
            render_mode: `"ansi"` or None.
            flat: Whether observations are vectors (`voville_env.flat`) instead of a dict of
                fields; the mask is then `action_masks()` alone.
            copy: Whether every step returns fresh arrays.
            window: `(day, start, end)` in ticks to run only that part; None runs all days.
            terminal_goal: Whether an agent is terminated when it arrives at its goal.
            days: Days to play; all of the scenario's unless given.

        Raises:
            ScenarioError: If the scenario cannot be used.
            InvalidValueError: If another argument is not allowed, or the policy of the others
                reads privileged labels.
        """
        self.town = VovilleEnv(
            scenario,
            render_mode=render_mode,
            copy=copy,
            window=window,
            terminal_goal=terminal_goal,
            days=days,
        )
        self.render_mode = render_mode
        self.agent = choose_agent(self.town.world, agent)
        self._rule = find_rule(others)
        self._policy = None if self._rule is not None else PolicyOthers(others, self.town.world)
        check_switches(flat=flat)
        self.flat = flat
        native = self.town.observation_space(self.agent)
        self.observation_space = flat_space() if flat else native
        self.action_space = self.town.action_space(self.agent)
        self._seen: tuple[dict[str, Observation], dict[str, Info]] = ({}, {})
        self._over = True
        self._started = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Info]:
        """Starts a run.

        Args:
            seed: The seed of the town, 0 to 2**64 - 1. None draws the next one from the generator
                that the last seed started, as Gymnasium's environments do.
            options: As for the town: `{"window": [day, start, end]}` or `{"window": None}`.

        Returns:
            Observation and info of the agent.

        Raises:
            InvalidValueError: If the seed or an option is not allowed.
        """
        number = None if seed is None else check_seed(seed)
        chosen = int(self.np_random.integers(2**63)) if number is None else number
        self._seen = self.town.reset(seed=chosen, options=options)
        super().reset(seed=number)
        if self._policy is not None:
            self._policy.begin(chosen)
        self._over = False
        self._started = True
        return self._shown(self._seen[0][self.agent]), self._seen[1][self.agent]

    def _shown(self, observation: Observation) -> Any:
        return flatten(observation) if self.flat else observation

    def step(self, action: int) -> tuple[Any, float, bool, bool, Info]:
        """Moves the agent, and everybody else as their policy says.

        Args:
            action: 0 to 9, by `core.codes.Action`.

        Returns:
            Observation, reward, whether the agent has arrived, whether the run was cut, info.

        Raises:
            LifecycleError: Before the first reset or after the end.
            InvalidValueError: If the action is not allowed; nothing has changed then.
        """
        if self._over:
            when = "after the end of the run; call reset()" if self._started else "before reset()"
            raise LifecycleError(f"step() {when}")
        mine = check_action(self.agent, action)
        actions = {**self._decide(), self.agent: mine}
        seen, rewards, terminations, truncations, infos = self.town.step(actions)
        self._tell()
        me = self.agent
        observation, info = self._shown(seen[me]), infos[me]
        self._over = terminations[me] or truncations[me]
        staying = set(self.town.agents)
        self._seen = (
            {name: row for name, row in seen.items() if name in staying},
            {name: row for name, row in infos.items() if name in staying},
        )
        return observation, rewards[me], terminations[me], truncations[me], info

    def _decide(self) -> dict[str, int]:
        """The actions of the others who are still in the run."""
        observations, infos = self._seen
        others = {name: row for name, row in observations.items() if name != self.agent}
        if self._policy is not None:
            return self._policy.act(others, {name: infos[name] for name in others})
        assert self._rule is not None
        if not others:
            return {}
        keys = next(iter(others.values()))
        chosen = self._rule({key: np.stack([row[key] for row in others.values()]) for key in keys})
        return dict(zip(others, chosen.tolist(), strict=True))

    def _tell(self) -> None:
        policy, sim = self._policy, self.town.sim
        if policy is not None and sim.state[0].step % sim.config[0].steps_per_tick == 0:
            policy.close_tick(self.town.drain_events())

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are physically possible for the agent.

        Returns:
            `(10,)` bool, where sb3-contrib's MaskablePPO looks for it.

        Raises:
            LifecycleError: Before the first reset.
        """
        masks: NDArray[np.bool_] = self.town.observe(self.agent)["action_mask"].astype(np.bool_)
        return masks

    def render(self) -> str | None:
        """Draws the town.

        Returns:
            Text in mode `ansi`; None without a mode.

        Raises:
            LifecycleError: Before the first reset.
        """
        return self.town.render()

    def close(self) -> None:
        """Ends the run; harmless to repeat, and `reset()` starts anew."""
        self._over = True
        self.town.close()
