"""Voville: a town whose people must decide when breaking a formal rule is legitimate.

`voville_env.parallel_env(scenario)` makes the PettingZoo environment, `voville_env.env(scenario)`
its AEC form. Importing the package registers the ids of `pettingzoo.make`; it compiles and reads
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voville_env import _layout_guard

_layout_guard.check()

from voville_env.registry import ENVIRONMENTS, register  # noqa: E402 - the guard must come first

if TYPE_CHECKING:
    from pathlib import Path

    from pettingzoo import AECEnv

    from voville_env.parallel import VovilleEnv

__version__ = "0.1.0"
__all__ = ["ENVIRONMENTS", "__version__", "env", "parallel_env", "raw_env"]

register()


def parallel_env(scenario: str | Path = "fire_escape", **settings: Any) -> VovilleEnv:
    """Makes the town as a PettingZoo `ParallelEnv`.

    Args:
        scenario: Name of a shipped scenario or path to a TOML file.
        **settings: See `voville_env.parallel.VovilleEnv`: `render_mode`, `copy`, `window`,
        `terminal_goal`.

    Returns:
        The environment.

    Raises:
        ScenarioError: If the scenario cannot be used.
        InvalidValueError: If a setting is not allowed.
    """
    from voville_env.parallel import VovilleEnv

    return VovilleEnv(scenario, **settings)


def env(scenario: str | Path = "fire_escape", **settings: Any) -> AECEnv[str, Any, Any]:
    """Makes the town in PettingZoo's AEC form, by PettingZoo's own conversion.

    Args:
        scenario: Name of a shipped scenario or path to a TOML file.
        **settings: As for `parallel_env`.

    Returns:
        The environment.
    """
    from pettingzoo.utils.conversions import parallel_to_aec

    return parallel_to_aec(parallel_env(scenario, **settings))


raw_env = env
