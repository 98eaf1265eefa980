"""The town in TorchRL, by TorchRL's own PettingZoo wrapper."""

from __future__ import annotations

import warnings
from typing import Any

from pettingzoo import ParallelEnv

from voville_env.errors import MissingExtraError
from voville_env.wrappers.flat import SeededFlat

try:
    from torchrl.envs.libs.pettingzoo import PettingZooWrapper
    from torchrl.envs.utils import MarlGroupMapType
except ImportError as error:
    raise MissingExtraError('torchrl_town needs TorchRL: pip install "voville[torchrl]"') from error

GROUP = "agents"
"""The one group that all agents are in."""
VECTOR = (GROUP, "observation", "observation")
"""Where the flat vectors lie in the TensorDict, `(..., N, FLAT_SIZE)` float32."""
MASK = (GROUP, "action_mask")
"""Where the masks lie, `(..., N, 10)` bool."""
ACTION = (GROUP, "action")
"""Where the actions lie, `(..., N)` int64."""


class _Living(SeededFlat):
    """TorchRL sends actions of all agents, those who have left among them."""

    def act(self, actions: dict[str, Any]) -> dict[str, Any]:
        """Those of the agents that take part."""
        return {agent: actions[agent] for agent in self.env.agents if agent in actions}


def torchrl_town(
    env: ParallelEnv[str, Any, Any], *, seed: int | None = None, early_leavers: bool = False
) -> PettingZooWrapper:
    """Wraps a town, with all agents in one group.

    Args:
        env: A town, or an environment with its observations.
        seed: From which the seeds of all runs are made; left to chance unless given.
        early_leavers: Whether agents may leave before the others, as with `terminal_goal=True`:
            the TensorDict then has `("agents", "mask")`, False for those who have left.

    Returns:
        A TorchRL environment.

    Raises:
        InvalidValueError: If the observations are others.
    """
    with warnings.catch_warnings():
        # TorchRL names the one PettingZoo that it is tested with; our tests run it with ours.
        warnings.filterwarnings("ignore", "PettingZoo in TorchRL is tested", UserWarning)
        return PettingZooWrapper(
            _Living(env),
            use_mask=early_leavers,
            group_map=MarlGroupMapType.ALL_IN_ONE_GROUP,
            categorical_actions=True,
            seed=seed,
            done_on_any=False,
        )
