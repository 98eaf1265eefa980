"""Ids for `pettingzoo.make` and `gymnasium.make`.

A version changes whenever the behaviour of an environment does.
"""

from __future__ import annotations

import gymnasium
import pettingzoo

ENVIRONMENTS = {
    "Voville/FireEscape-v1": "fire_escape",
    "Voville/FireEscapeControl-v1": "fire_escape_control",
    "Voville/FireEscapeOfficers-v1": "fire_escape_officers",
    "Voville/FireEscapeOfficersControl-v1": "fire_escape_officers_control",
    "Voville/Jaywalk-v1": "jaywalk",
    "Voville/JaywalkControl-v1": "jaywalk_control",
}
"""Environment id to scenario name."""


def register() -> None:
    """Registers every id with PettingZoo, parallel and AEC, and with Gymnasium.

    Repeats are no-ops. Nothing is imported until an environment is made.
    """
    for name, scenario in ENVIRONMENTS.items():
        settings = {"scenario": scenario}
        if name not in pettingzoo.parallel_registry:
            pettingzoo.register("parallel", name, "voville_env:parallel_env", kwargs=settings)
        if name not in pettingzoo.aec_registry:
            pettingzoo.register("aec", name, "voville_env:env", kwargs=settings)
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point="voville_env.wrappers.gymnasium_single:VovilleGymEnv",
                vector_entry_point="voville_env.wrappers.gymnasium_vector:VovilleGymVectorEnv",
                kwargs=settings,
            )
