"""Which part of a step takes how much: kernels timed inside real steps, and parts switched off."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from voville_env.benchmarks.throughput import cases, phases
from voville_env.benchmarks.throughput.timing import interleave, ratio
from voville_env.scenario import load_world
from voville_env.sim import TownSim

BATCH = 256
SWITCHES = ("observation", "oracle", "events")


def kernel_shares(
    *, batch: int = BATCH, seconds: float = 2.0, report: Callable[[str], None] = lambda text: None
) -> list[dict[str, float | str]]:
    """Plays the window kernel by kernel, over a whole batch, and times each kernel.

    Args:
        batch: Environments in the batch; enough that a call's own cost does not show.
        seconds: About how long to play; at least one whole window.
        report: Is told what runs now.

    Returns:
        For each part, `what`, `share` of all time, and `nanoseconds` an agent-step.
    """
    report("kernels of a step: compiling them one by one")
    play = _Play(batch)
    play.window()
    play.spent[:] = 0
    start = time.perf_counter()
    steps = 0
    while steps == 0 or time.perf_counter() - start < seconds:
        report("kernels of a step")
        steps += play.window()
    total = float(play.spent.sum())
    agent_steps = steps * batch * play.sim.n_agents
    return [
        {"what": phase.name, "share": spent / total, "nanoseconds": spent / agent_steps * 1e9}
        for phase, spent in zip(phases.PHASES, play.spent.tolist(), strict=True)
    ]


def switched_off(
    *,
    batch: int = BATCH,
    seconds: float = 2.0,
    rounds: int = 5,
    report: Callable[[str], None] = lambda text: None,
) -> list[dict[str, float | str]]:
    """Times the core with one part switched off at a time, in turn with the whole.

    Args:
        batch: Environments in the batch.
        seconds: Seconds of each case.
        rounds: Rounds of each case.
        report: Is told what runs now.

    Returns:
        For each part, `what` and the `share` of the step's CPU time that it saves.
    """
    whole = cases.core(batch)
    parts = [cases.core(batch, without=(part,), what=f"without {part}") for part in SWITCHES]
    rows = interleave([whole, *parts], seconds, rounds=rounds, report=report)
    return [
        {"what": part, "share": 1.0 - 1.0 / ratio(row, rows[0]).cpu}
        for part, row in zip(SWITCHES, rows[1:], strict=True)
    ]


class _Play:
    """A batch that is stepped kernel by kernel.

    Attributes:
        sim: The batch.
        spent: CPU seconds spent in each of `phases.PHASES`.
    """

    def __init__(self, batch: int) -> None:
        self.sim = TownSim(load_world(cases.SCENARIO), batch, window=cases.WINDOW)
        self.spent = np.zeros(len(phases.PHASES))
        self._seeds = np.arange(batch, dtype=np.uint64)
        self._moves = cases.random_actions(batch, self.sim.n_agents)

    def window(self) -> int:
        """Plays the window once, without its last tick.

        Returns:
            Steps played.
        """
        self.sim.reset(self._seeds)
        ticks = cases.WINDOW[2] - cases.WINDOW[1] - 1
        steps = ticks * int(self.sim.config[0].steps_per_tick)
        for number in range(steps):
            self.step(self._moves[number % len(self._moves)])
        return steps

    def step(self, actions: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> None:
        """One step of every environment, each kernel timed.

        Args:
            actions: `(B, N)` int8.
        """
        sim = self.sim
        sim.actions[:] = actions
        sim.state["event_count"] = 0
        arguments = sim.arguments
        ends = (int(sim.state[0].step) + 1) % int(sim.config[0].steps_per_tick) == 0
        for k, phase in enumerate(phases.PHASES):
            if phase.each_tick and not ends:
                continue
            start = time.thread_time()
            phase.run(*arguments)
            self.spent[k] += time.thread_time() - start
            phases.advance_clock(phase, sim.state)
