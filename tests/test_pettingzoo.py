"""PettingZoo's own tests, both forms of its API, and the registered ids."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pettingzoo
import pytest

import voville_env
from voville_env import ENVIRONMENTS, testing
from voville_env.parallel import VovilleEnv
from voville_env.registry import register
from voville_env.scenario import scenario_names

SHORT = (1, 48, 60)
with warnings.catch_warnings():
    # Where pygame is installed, PettingZoo's tests import games in a way that it deprecates.
    warnings.filterwarnings("ignore", "The old environment creation API", DeprecationWarning)
    # By name, since PettingZoo's tests are not annotated.
    official: Any = importlib.import_module("pettingzoo.test")


def parallel_api(env: VovilleEnv, cycles: int) -> None:
    """PettingZoo's test resets with an option that no environment knows, which ours says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        official.parallel_api_test(env, num_cycles=cycles)
    assert [str(w.message).partition(" is")[0] for w in caught] == ["reset option 'options'"]


@pytest.mark.parametrize("scenario", scenario_names())
def test_parallel_api(scenario: str) -> None:
    parallel_api(voville_env.parallel_env(scenario, window=SHORT), 200)


def test_parallel_api_where_people_leave_one_by_one() -> None:
    env = voville_env.parallel_env("jaywalk", window=(1, 28, 60), terminal_goal=True)
    parallel_api(env, 200)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["fire_escape_officers", "jaywalk"])
def test_parallel_api_for_ten_thousand_cycles(scenario: str) -> None:
    env = voville_env.parallel_env(scenario)
    parallel_api(env, 10_000)
    assert env.sim.state[0].step == 8000 and env.agents == []


def test_parallel_seed() -> None:
    official.parallel_seed_test(lambda: voville_env.parallel_env("fire_escape", window=SHORT), 5)


def test_aec_api() -> None:
    env = voville_env.env("fire_escape_officers", window=SHORT)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        official.api_test(env, num_cycles=600)
    # Observations are dicts of arrays and people have initials for names: that is all it may find
    # unusual, besides the option that it sends to see whether options are taken.
    taste = (
        "Observation is not a NumPy",
        "Observation space",
        "We recommend agents",
        "reset option",
    )
    assert [w for w in caught if not str(w.message).startswith(taste)] == []
    official.seed_test(lambda: voville_env.env("fire_escape", window=SHORT), num_cycles=5)


def test_aec_and_parallel_forms_are_the_same_run() -> None:
    turns = voville_env.env("fire_escape", window=SHORT)
    turns.reset(seed=3)

    def take_turns(observations: Any, infos: Any) -> dict[str, int]:
        """One round in the AEC form, compared with what the parallel form shows."""
        chosen = {}
        for name in list(turns.agents):
            seen, _, terminated, truncated, _ = turns.last()
            assert seen is not None
            assert (turns.agent_selection, terminated, truncated) == (name, False, False)
            assert testing.digest_of(seen) == testing.digest_of(observations[name])
            chosen[name] = int(np.flatnonzero(seen["action_mask"])[-1])
            turns.step(chosen[name])
        return chosen

    parallel = voville_env.parallel_env("fire_escape", window=SHORT)
    frames = list(testing.play(parallel, 3, None, take_turns))
    assert len(frames) == 49 and all(turns.truncations.values())
    last = frames[-1].observations["TP"]
    assert testing.digest_of(turns.observe("TP")) == testing.digest_of(last)


def test_every_scenario_has_an_id_with_a_version() -> None:
    assert sorted(ENVIRONMENTS.values()) == scenario_names()
    for name in ENVIRONMENTS:
        assert name.startswith("Voville/") and name[-3:-1] == "-v" and name[-1].isdigit()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_make_by_id(name: str) -> None:
    env = pettingzoo.make("parallel", name, window=SHORT)
    assert isinstance(env.unwrapped, VovilleEnv)
    assert env.unwrapped.world.scenario.name == ENVIRONMENTS[name]
    observations, _ = env.reset(seed=0)
    assert list(observations) == env.agents
    assert observations["CC"]["self"][3] == 48
    turns = pettingzoo.make("aec", name, window=SHORT)
    turns.reset(seed=0)
    assert turns.agents == env.agents


def test_an_id_that_is_near_is_named() -> None:
    with pytest.raises(Exception, match="Jaywalk"):
        pettingzoo.make("parallel", "Voville/Jaywalk-v9")


def test_registering_again_changes_nothing() -> None:
    before = (dict(pettingzoo.parallel_registry), dict(pettingzoo.aec_registry))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register()
        register()
    assert before == (dict(pettingzoo.parallel_registry), dict(pettingzoo.aec_registry))
    assert set(ENVIRONMENTS) <= set(before[0]) and set(ENVIRONMENTS) <= set(before[1])


def test_public_names_are_what_they_were_once_everything_is_imported() -> None:
    # A submodule that is imported takes the place of a function of its name.
    for name in voville_env.__all__:
        assert not inspect.ismodule(getattr(voville_env, name)), name


def test_importing_registers() -> None:
    code = "import voville_env, pettingzoo; print(len(pettingzoo.parallel_registry))"
    code = f"import pettingzoo; print(len(pettingzoo.parallel_registry)); {code}"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after - before == len(ENVIRONMENTS)
