"""Timing that bears a busy machine: short rounds in turn, wall and CPU time, medians and ranges."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

ROUNDS = 5
"""Rounds of a measurement; every case runs once in each."""


@dataclass(frozen=True)
class Sample:
    """One case in one round.

    Attributes:
        agent_steps: Agent-steps done.
        calls: Calls made.
        wall: Seconds by the clock.
        cpu: Seconds of CPU time: of the stepping thread, or of the whole process where more than
            one may step.
    """

    agent_steps: int
    calls: int
    wall: float
    cpu: float


class CaseFailedError(Exception):
    """A case cannot be run any more; the message is the reason."""


@dataclass(frozen=True)
class Case:
    """Something that steps, and how to let it run for a while.

    Attributes:
        what: Its name in the tables.
        batch: Environments stepped together.
        threads: Threads it may use.
        run: Runs it for about so many seconds.
        note: What it is, where the name does not say.
    """

    what: str
    batch: int
    threads: int
    run: Callable[[float], Sample]
    note: str = ""


@dataclass
class Row:
    """A case with its samples, one a round.

    Attributes:
        case: What was timed.
        samples: One a round.
        failure: Why it stopped before the last round; empty where it did not.
    """

    case: Case
    samples: list[Sample] = field(default_factory=list)
    failure: str = ""

    def take(self, seconds: float, *, counts: bool = True) -> None:
        """Runs the case once, unless it has failed before.

        Args:
            seconds: For how long.
            counts: Whether the sample is kept.
        """
        if self.failure:
            return
        try:
            sample = self.case.run(seconds)
        except CaseFailedError as error:
            self.failure = str(error)
            return
        if counts:
            self.samples.append(sample)

    @property
    def rates(self) -> list[float]:
        """Agent-steps a second by the clock, round by round."""
        return [sample.agent_steps / sample.wall for sample in self.samples]

    @property
    def cpu_rates(self) -> list[float]:
        """Agent-steps a second of CPU time, round by round."""
        return [sample.agent_steps / max(sample.cpu, 1e-9) for sample in self.samples]

    def as_dict(self) -> dict[str, object]:
        """The row as plain values.

        Returns:
            Names, medians, the range over the rounds, and microseconds a call.
        """
        calls = [sample.wall / sample.calls * 1e6 for sample in self.samples]
        return {
            "what": self.case.what,
            "batch": self.case.batch,
            "threads": self.case.threads,
            "agent_steps_per_second": statistics.median(self.rates),
            "lowest": min(self.rates),
            "highest": max(self.rates),
            "agent_steps_per_cpu_second": statistics.median(self.cpu_rates),
            "microseconds": statistics.median(calls),
            "note": self.case.note,
        }


@dataclass(frozen=True)
class Ratio:
    """How two cases compare over rounds that were timed in turn.

    Attributes:
        median: Of the quotients by the clock, one a round.
        lowest: The smallest of them.
        highest: The largest of them.
        cpu: Median of the quotients by CPU time.
    """

    median: float
    lowest: float
    highest: float
    cpu: float


def stepping(
    what: str, batch: int, advance: Callable[[], int], *, threads: int = 1, note: str = ""
) -> Case:
    """A case that is stepped in this process.

    Args:
        what: Its name in the tables.
        batch: Environments stepped together.
        advance: Does some steps and returns how many agent-steps they were.
        threads: Threads it may use.
        note: What it is, where the name does not say.

    Returns:
        The case.
    """
    # Idle threads of a parallel case may spin while a serial one runs: count only its own thread.
    clock = time.thread_time if threads == 1 else time.process_time
    return Case(what, batch, threads, partial(run_for, advance, clock=clock), note)


def run_for(
    advance: Callable[[], int],
    seconds: float,
    *,
    clock: Callable[[], float] = time.process_time,
) -> Sample:
    """Calls a function again and again for some seconds, at least once.

    Args:
        advance: Does some steps and returns how many agent-steps they were.
        seconds: How long.
        clock: Tells the CPU time.

    Returns:
        What was done, and the time it took.
    """
    done = calls = 0
    cpu = clock()
    start = time.perf_counter()
    wall = 0.0
    while wall < seconds:
        done += advance()
        calls += 1
        wall = time.perf_counter() - start
    return Sample(done, calls, wall, clock() - cpu)


def interleave(
    cases: Sequence[Case],
    seconds: float,
    *,
    rounds: int = ROUNDS,
    report: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Times cases in turn, round by round, so that a busy moment strikes all of them alike.

    Args:
        cases: What is timed.
        seconds: Seconds of each case over all rounds.
        rounds: How often each case runs; one more short run of each comes first and is not counted.
        report: Is told what runs now.

    Returns:
        A row for each case, in order; those that failed on the way have their reason.
    """
    rows = [Row(case) for case in cases]
    for row in rows:
        report(f"{row.case.what}, batch {row.case.batch}: warming up")
        row.take(min(seconds / rounds, 0.2), counts=False)
    for number in range(rounds):
        for row in rows:
            report(f"{row.case.what}, batch {row.case.batch}: round {number + 1} of {rounds}")
            row.take(seconds / rounds)
    return rows


def ratio(ours: Row, other: Row) -> Ratio:
    """Divides one row by another, round by round.

    Args:
        ours: The numerator.
        other: The denominator, timed in the same rounds.

    Returns:
        Median and range of the quotients.
    """
    quotients = [a / b for a, b in zip(ours.rates, other.rates, strict=True)]
    cpu = [a / b for a, b in zip(ours.cpu_rates, other.cpu_rates, strict=True)]
    return Ratio(
        statistics.median(quotients), min(quotients), max(quotients), statistics.median(cpu)
    )
