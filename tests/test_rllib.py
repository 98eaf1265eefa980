"""The town in RLlib: one training iteration with masks, agents that leave early, and its ends."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
pytest.importorskip("ray")

from voville_env.errors import InvalidValueError
from voville_env.parallel import VovilleEnv
from voville_env.wrappers.rllib import RLlibTown

pytestmark = pytest.mark.learning


def town(**settings: Any) -> VovilleEnv:
    return VovilleEnv("fire_escape", **{"window": (1, 48, 51)} | settings)


def test_observations_and_masks_have_the_names_that_rllib_looks_for() -> None:
    env = RLlibTown(town())
    twin = town()
    seen, infos = env.reset(seed=5)
    native, _ = twin.reset(seed=5)
    assert env.agents == env.possible_agents == list(native) == list(seen) == list(infos)
    for agent, one in seen.items():
        assert env.observation_space[agent].contains(one)
        assert np.array_equal(one["action_mask"], native[agent]["action_mask"])
        assert one["observations"].dtype == np.float32
    with pytest.raises(InvalidValueError, match="env is 3"):
        RLlibTown(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("early", [False, True])
def test_an_episode_is_over_when_nobody_is_left(early: bool) -> None:
    env = RLlibTown(town(window=(1, 48, 200), terminal_goal=early))
    twin = town(window=(1, 48, 200), terminal_goal=early)
    env.reset(seed=1)
    native, _ = twin.reset(seed=1)
    left = 0
    for _ in range(700):
        actions = {agent: int(native[agent]["routes"][2, 1]) for agent in twin.agents}
        seen, rewards, terminated, truncated, _ = env.step(actions)
        native, expected, *_ = twin.step(actions)
        assert rewards == expected and list(seen) == list(native)
        assert env.agents == twin.agents
        over = terminated["__all__"] or truncated["__all__"]
        assert over == (not twin.agents)
        if over:
            break
        left = len(env.possible_agents) - len(env.agents)
    else:
        pytest.fail("the town never ended")
    assert (left > 2) == early
    seen, _ = env.reset()
    assert list(seen) == env.possible_agents and env.par_env.unwrapped.seed not in (None, 1)


LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
    fcntl.ioctl(handle, 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # SIOCSIFFLAGS: UP, RUNNING
assert [name for _, name in socket.if_nameindex()] == ["lo"]
"""


@pytest.fixture
def network_of_its_own() -> list[str]:
    """A command prefix that leaves a process nothing but a loopback interface of its own."""
    prefix = ["unshare", "--map-root-user", "--net"]
    try:
        done = subprocess.run(
            [*prefix, sys.executable, "-c", LOOPBACK_UP],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        pytest.skip(f"no network namespace can be made: {error}")
    if done.returncode:
        pytest.skip(f"no network namespace can be made: {done.stderr.strip()[-200:]}")
    return prefix


@pytest.mark.filterwarnings("default")
def test_the_example_trains(
    repository: Path, tmp_path: Path, network_of_its_own: list[str]
) -> None:
    example = repository / "docs" / "examples" / "rllib_ppo.py"
    code = f"""{LOOPBACK_UP}
import runpy
example = runpy.run_path({str(example)!r})
result = example["main"](iterations=1, batch=64)
learned = result["learners"]["shared"]
print(float(learned["total_loss"]), int(result["env_runners"]["num_env_steps_sampled"]))
"""
    # In a process of its own: Ray starts servers, which must not outlive the test.
    done = subprocess.run(
        [*network_of_its_own, sys.executable, "-c", code],
        cwd=tmp_path,
        # Ray listens on all interfaces, of which there is one here, and asks for this token.
        env=os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    loss, steps = map(float, done.stdout.splitlines()[-1].split())
    assert np.isfinite(loss) and steps >= 64
