"""The measurement of how busy an endpoint is kept: its arithmetic, and that it runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pave_policy.commands.busy_run import _overlap


def test_work_is_added_up_only_while_enough_is_wanted() -> None:
    served = [(0.0, 1), (1.0, 2), (3.0, 0)]
    wanted = [(0.0, 1), (1.0, 2), (2.0, 1), (3.0, 0)]
    assert _overlap(served, wanted, at_least=0) == (3.0, 1.0 + 4.0)
    assert _overlap(served, wanted, at_least=2) == (1.0, 2.0)


@pytest.mark.slow
def test_the_measurement_counts_what_a_run_sends() -> None:
    command = [sys.executable, "-m", "voville_env", "busy", "--scenario", "jaywalk", "--json"]
    small = ["--episodes", "1", "--concurrency", "2", "--latency", "0.01"]
    done = subprocess.run([*command, *small], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["requests"] > 20 and found["episodes"] == 1
    assert 0 < found["share"] <= 1
    assert found["share_pending"] is None or 0 < found["share_pending"] <= 1
