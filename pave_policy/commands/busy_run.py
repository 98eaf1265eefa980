"""Measures how busy a benchmark keeps an endpoint of fixed latency."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pave_policy.llm.chat import make_chat
from pave_policy.llm.settings import ChatSettings
from pave_policy.llm.transport import Endpoint, Reply, Request
from pave_policy.testing import StubServer
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import Suite
from voville_env.errors import InvalidValueError

MODEL = "stub"
POLICY = "pave"
Levels = Sequence[tuple[float, int]]
"""How many there were from a time on, after each change; times of the clock all processes share."""


@dataclass(frozen=True)
class Busy:
    """How busy an endpoint was kept.

    Attributes:
        concurrency: Requests allowed in flight.
        latency: Seconds that the endpoint takes for each.
        episodes: Episodes played.
        requests: Requests that reached the endpoint.
        wall: Seconds from the first request to the last answer.
        share: Share of the allowed requests that the endpoint had in hand over that time.
        pending: Seconds in which at least `concurrency` calls were wanted, from the first one on.
        share_pending: The share over these; None where there were none.
        cpu: Seconds of processor time that the run took, from its start to its end.
        load: Load average of the machine; None where it does not tell.
    """

    concurrency: int
    latency: float
    episodes: int
    requests: int
    wall: float
    share: float
    pending: float
    share_pending: float | None
    cpu: float
    load: float | None

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.wall

    @property
    def ideal_rate(self) -> float:
        """Requests a second with every slot always in use."""
        return self.concurrency / self.latency

    def as_json(self) -> dict[str, Any]:
        """All that was measured, as data.

        Returns:
            A JSON-ready dict.
        """
        return {**asdict(self), "rate": self.rate, "ideal_rate": self.ideal_rate}


def measure_busy(scenario: str, seeds: int, concurrency: int, latency: float) -> Busy:
    """Plays a benchmark against a stub server in a process of its own.

    Args:
        scenario: What is played, for one day, with the policy `pave`.
        seeds: How many episodes, side by side as far as `concurrency` allows.
        concurrency: Requests allowed in flight.
        latency: Seconds that the server takes for each.

    Returns:
        What was measured.

    Raises:
        InvalidValueError: If a number is out of range or there is no such scenario.
    """
    if seeds < 1 or not 0 < latency < float("inf"):
        raise InvalidValueError(
            f"seeds is {seeds!r}, latency {latency!r}; allowed: at least 1, and above 0"
        )
    suite = Suite((scenario,), (POLICY,), tuple(range(seeds)), days=1, backbone=MODEL)
    with TemporaryDirectory(prefix="voville-busy-") as scratch, _stub(latency) as (url, line):
        chat = make_chat(base_url=url, model=MODEL, concurrency=concurrency)
        watched = _Watched(chat.options)
        chat.caller.endpoint = watched
        started = time.process_time()
        run_suite(suite, Path(scratch), backbone=chat)
        cpu = time.process_time() - started
        line.send(None)
        served: Levels = line.recv()
    wall = served[-1][0] - served[0][0]
    _, work = _overlap(served, watched.wanted, at_least=0)
    pending, work_pending = _overlap(served, watched.wanted, at_least=concurrency)
    return Busy(
        concurrency=concurrency,
        latency=latency,
        episodes=seeds,
        requests=len(served) // 2,
        wall=wall,
        share=work / wall / concurrency,
        pending=pending,
        share_pending=work_pending / pending / concurrency if pending else None,
        cpu=cpu,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    )


class _Watched(Endpoint):
    """An endpoint that notes how many calls are wanted: those that wait and those in flight."""

    def __init__(self, settings: ChatSettings) -> None:
        super().__init__(settings)
        self.wanted: list[tuple[float, int]] = []

    async def send(self, request: Request) -> Reply:
        """Asks as any endpoint does."""
        self._note(1)
        try:
            return await super().send(request)
        finally:
            self._note(-1)

    def _note(self, change: int) -> None:
        before = self.wanted[-1][1] if self.wanted else 0
        self.wanted.append((time.monotonic(), before + change))


@contextmanager
def _stub(latency: float) -> Iterator[tuple[str, Connection]]:
    """A stub server that shares no interpreter with the run, and the line to it."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(theirs, latency), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv(), ours
    finally:
        process.terminate()
        process.join()
        ours.close()


def _serve(line: Connection, latency: float) -> None:
    """Serves until what was counted is asked for."""
    with StubServer(latency=latency, models=[MODEL]) as server:
        line.send(server.url)
        line.recv()
        line.send(server.busy())


def _overlap(served: Levels, wanted: Levels, at_least: int) -> tuple[float, float]:
    """Adds up what was in hand while much was wanted.

    Args:
        served: Requests in hand.
        wanted: Calls wanted.
        at_least: How many must be wanted.

    Returns:
        Seconds in which so many were, and request-seconds in hand over these.
    """
    changes = sorted(
        [(when, 0, level) for when, level in served] + [(when, 1, level) for when, level in wanted]
    )
    levels = [0, 0]
    seconds = work = 0.0
    for (when, which, level), (until, _, _) in pairwise(changes):
        levels[which] = level
        if levels[1] >= at_least:
            seconds += until - when
            work += levels[0] * (until - when)
    return seconds, work
