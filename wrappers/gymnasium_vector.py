"""The town as a Gymnasium `VectorEnv`: in every sub-environment, one agent is yours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from voville_env.errors import LifecycleError, invalid
from voville_env.flat import flat_space, flatten
from voville_env.parallel import RENDER_MODES
from voville_env.scenario import Scenario, World
from voville_env.scenario.compile import Window
from voville_env.vector import AUTORESET_MODES, VovilleVectorEnv
from voville_env.vector.edges import FIELDS, check_actions, check_counts, check_switches, read_world
from voville_env.wrappers.others import OthersSpec, PolicyOthers, choose_agent, find_rule

Batch = dict[str, NDArray[Any]]
_MODES = dict(
    zip(
        AUTORESET_MODES,
        (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED),
        strict=True,
    )
)


class VovilleGymVectorEnv(VectorEnv[Any, NDArray[Any], NDArray[Any]]):
    """`num_envs` towns with one controlled agent each, as `gymnasium.make_vec` makes them.

    A sub-environment is `VovilleGymEnv` in all respects but two: seeds of later episodes are
    hashed from the base seed, and the others are played by the rule `lawful-fast` unless told
    otherwise. Rules decide for everybody at once; a named policy is one object a sub-environment
    and asked one after the other, which is many times slower.

    `infos` holds `reward_terms`, `(B, 5)` float32, and with same-step autoreset `final_obs`
    and `final_info`, each beside its mask; no key comes and goes.

    Attributes:
        towns: The vector environment below, with all agents.
        agent: Id of the agent that is controlled.
        flat: Whether observations are vectors.
    """

    def __init__(  # noqa: PLR0913 - the settings of a whole training set-up, all by keyword
        self,
        scenario: str | Path | Scenario | World = "fire_escape",
        num_envs: int = 1,
        *,
        agent: str | None = None,
        others: OthersSpec = "lawful-fast",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        flat: bool = False,
        threads: int = 1,
        copy: bool = True,
        window: Window | None = None,
        terminal_goal: bool = False,
        days: int | None = None,
        seed_pool: Sequence[int] | None = None,
    ) -> None:
        """Loads the scenario and makes the policies of the others.

        Args:
            scenario: A shipped name, a path to a TOML file, a scenario or a loaded world.
            num_envs: Number of sub-environments, `B`.
            agent: Whom to control; the scenario's first attendee unless given.
            others: Who plays the rest: `lawful-fast`, `direct-fast` or `wait`, the name of any
                policy, or a function that makes one.
            autoreset_mode: Gymnasium's mode, or its name in `vector.AUTORESET_MODES`.
            render_mode: `"ansi"` or None.
            flat: Whether observations are vectors (`voville_env.flat`) instead of dicts of fields;
                the masks are then `action_masks()` alone.
            threads: Threads that a step may use.
            copy: Whether every step returns fresh arrays.
            window: `(day, start, end)` in ticks to run only that part; None runs all days.
            terminal_goal: Whether an agent is terminated when it arrives at its goal.
            days: Days to play; all of the scenario's unless given.
            seed_pool: The only seeds that episodes may have; any unless given.

        Raises:
            ScenarioError: If the scenario cannot be used.
            InvalidValueError: If another argument is not allowed.
        """
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise invalid("render_mode", render_mode, RENDER_MODES)
        names = {mode: name for name, mode in _MODES.items()}
        mode = _MODES.get(autoreset_mode) if isinstance(autoreset_mode, str) else autoreset_mode
        if mode not in names:
            raise invalid("autoreset_mode", autoreset_mode, AUTORESET_MODES)
        check_switches(flat=flat)
        check_counts(num_envs=num_envs)
        self._rule = find_rule(others)
        settings: dict[str, Any] = {"threads": threads, "copy": copy, "window": window}
        settings |= {"terminal_goal": terminal_goal, "days": days, "seed_pool": seed_pool}
        world = read_world(scenario)
        self.agent = choose_agent(world, agent)
        self._me = world.agent_ids.index(self.agent)
        self._policies: list[PolicyOthers] = []
        if self._rule is None:
            self._policies = [PolicyOthers(others, world) for _ in range(num_envs)]
        self.towns = VovilleVectorEnv(
            world,
            num_envs,
            autoreset=names[mode],  # type: ignore[arg-type]  # one of the three
            ends_with=self.agent,
            events=any(policy.hears for policy in self._policies),
            **settings,
        )
        self.num_envs = self.towns.num_envs
        self.render_mode = render_mode
        self.metadata = {
            "autoreset_mode": mode,
            "render_modes": list(RENDER_MODES),
            "render_fps": 4,
        }
        self.flat = flat
        native = self.towns.single_observation_space
        self._keys = tuple(native)
        self.single_observation_space = flat_space() if flat else native
        self.single_action_space = self.towns.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._seen: tuple[Batch, dict[str, Any]] = ({}, {})

    @property
    def copy(self) -> bool:
        """Whether every step returns fresh arrays."""
        return self.towns.copy

    @property
    def episode_seeds(self) -> NDArray[np.uint64]:
        """`(B,)` uint64: the seeds now being played, a copy."""
        return self.towns.episode_seeds

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode everywhere, or where `reset_mask` says.

        Args:
            seed: As for `VovilleVectorEnv.reset`: one integer is hashed into a seed for every
                episode of every sub-environment, the entries of a sequence are played as given.
            options: `{"window": [day, start, end]}`, or `{"reset_mask": mask}`.

        Returns:
            Observations and infos.

        Raises:
            InvalidValueError: If the seed or an option is not allowed; nothing has changed then.
        """
        if self.closed:
            raise LifecycleError("reset() after close(); make a new environment")
        observations, infos = self.towns.reset(seed=seed, options=options)
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        self._seen = observations, infos
        self._brief()
        return self._mine(observations), self._my_infos(infos)

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Moves the agent of every sub-environment, and everybody else as their policy says.

        Args:
            actions: `(B,)` integers 0 to 9; one is ignored where an episode has just ended and
                autoreset begins the next.

        Returns:
            Observations, rewards, terminations, truncations and infos.

        Raises:
            LifecycleError: Before the first reset, after `close()`, or, with autoreset disabled,
                where a sub-environment has ended.
            InvalidValueError: If actions are not allowed; nothing has changed then.
        """
        live = self.towns.live
        given = actions if hasattr(actions, "dtype") else [[action] for action in actions]
        if hasattr(given, "dtype"):
            given = np.asarray(given)[..., None]
        self.towns.check_running()
        checked = check_actions(given, live[:, [self._me]], [self.agent])
        chosen = self._decide(live)
        chosen[:, self._me] = np.where(live[:, self._me], checked[:, 0], 0)
        seen, rewards, terminations, truncations, infos = self.towns.step(chosen)
        self._tell()
        self._seen = seen, infos
        self._brief()
        me = self._me
        flags = (rewards[:, me], terminations[:, me], truncations[:, me])
        return self._mine(seen), *flags, self._my_infos(infos)

    def _brief(self) -> None:
        """Starts the policies of sub-environments that began an episode."""
        if self._policies:
            seeds = self.towns.episode_seeds
            for b in self.towns.restarted.nonzero()[0]:
                self._policies[b].begin(int(seeds[b]))

    def _decide(self, live: NDArray[np.bool_]) -> NDArray[np.int8]:
        seen, infos = self._seen
        if self._rule is not None:
            return self._rule(seen)
        chosen = np.zeros(live.shape, np.int8)
        for b, policy in enumerate(self._policies):
            others = [n for n in live[b].nonzero()[0] if n != self._me]
            names = {self.towns.agents[n]: n for n in others}
            observations = {
                name: {key: seen[key][b, n] for key in FIELDS} for name, n in names.items()
            }
            told = {
                name: {"reward_terms": infos["reward_terms"][b, n]} for name, n in names.items()
            }
            for name, action in policy.act(observations, told).items():
                chosen[b, names[name]] = action
        return chosen

    def _tell(self) -> None:
        if not self._policies:
            return
        sim = self.towns.sim
        for b, policy in enumerate(self._policies):
            if sim.state[b].step % sim.config[0].steps_per_tick == 0:  # also where one began anew
                events = self.towns.drain(b) if policy.hears else sim.events[b, :0]
                policy.close_tick(events)

    def _mine(self, observations: Batch) -> Any:
        mine = {key: observations[key][:, self._me] for key in self._keys}
        return flatten(mine) if self.flat else mine

    def _my_infos(self, infos: dict[str, Any]) -> dict[str, Any]:
        mine = {
            "reward_terms": infos["reward_terms"][:, self._me],
            "_reward_terms": infos["_reward_terms"],
        }
        if "final_obs" not in infos:
            return mine
        mask = infos["_final_obs"]
        final = np.full(self.num_envs, None, object)
        for b in mask.nonzero()[0]:
            last = {key: infos["final_obs"][key][b, self._me] for key in self._keys}
            final[b] = flatten(last) if self.flat else last
        terms = infos["final_info"]["reward_terms"][:, self._me]
        return {
            **mine,
            "final_obs": final,
            "_final_obs": mask,
            "final_info": {"reward_terms": terms, "_reward_terms": mask},
            "_final_info": mask,
        }

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are physically possible for the controlled agents.

        Returns:
            `(B, 10)` bool.

        Raises:
            LifecycleError: Before the first reset.
        """
        return self.towns.action_masks()[:, self._me]

    def render(self) -> tuple[str, ...] | None:
        """Draws every town.

        Returns:
            One text a sub-environment in mode `ansi`; None without a mode.

        Raises:
            LifecycleError: Before the first reset.
        """
        if self.render_mode is None:
            return None
        return tuple(self.towns.render(b) for b in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the runs.

        Args:
            **kwargs: Not used.
        """
        self.towns.close()
