"""Other environments, each stepped by a process of its own and timed in turn with Voville.

A peer lives in `peer_worker.py`, which runs in any Python that has the peer. Peers that are not
there are named with the reason and left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from voville_env.benchmarks.throughput import ocean
from voville_env.benchmarks.throughput.timing import Case, CaseFailedError, Sample

WORKER = Path(__file__).with_name("peer_worker.py")
_EXTRA = 'pip install "voville[peers]"'
_OCEAN = "build it: python -m voville_env.benchmarks.throughput.ocean pufferlib-3.0.0.tar.gz"


@dataclass(frozen=True)
class Peer:
    """A peer to be measured.

    Attributes:
        name: Its name in `peer_worker.PEERS` and in the tables.
        batch: Environments stepped together.
        cure: What to do where it is missing.
    """

    name: str
    batch: int
    cure: str


PEERS = (
    Peer("ocean-snake", 256, _OCEAN),
    Peer("ocean-trash-pickup", 256, _OCEAN),
    Peer("jaxmarl-overcooked", 1024, "it needs numpy<2, so a Python of its own: --peer-python"),
    Peer("envpool-minigrid", 256, _EXTRA),
    Peer("magent2-battle-12", 1, _EXTRA),
    Peer("magent2-battle-162", 1, _EXTRA),
    Peer("pettingzoo-pursuit", 1, _EXTRA),
)
LEARNER = Peer("supersuit-pursuit-learner", 80, f"{_EXTRA} and the extra rl")
"""A learner on a peer: 80 environments of 8 agents."""


class Worker:
    """A process that steps one peer."""

    def __init__(self, peer: Peer, python: str) -> None:
        """Starts the process and waits until the peer is ready.

        Args:
            peer: Which peer.
            python: Interpreter that may have it.

        Raises:
            CaseFailedError: If it cannot be started there.
        """
        command = [python, str(WORKER), peer.name, str(peer.batch), str(ocean.folder())]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            raise CaseFailedError(str(error)) from error
        try:
            told = self._read()
            if "missing" in told:
                raise CaseFailedError(str(told["missing"]))
        except CaseFailedError:
            self.close()
            raise
        self.note = str(told["note"])

    def run(self, seconds: float) -> Sample:
        """Steps the peer for some seconds.

        Args:
            seconds: How long.

        Returns:
            What it did in that time, by its own clock.

        Raises:
            CaseFailedError: If the process has ended.
        """
        entry = cast("IO[str]", self._process.stdin)
        try:
            entry.write(f"{seconds}\n")
            entry.flush()
        except OSError as error:
            raise CaseFailedError(f"its process ended: {error}") from error
        told = self._read()
        return Sample(told["agent_steps"], told["calls"], told["wall"], told["cpu"])

    def close(self) -> None:
        """Ends the process."""
        with suppress(OSError):
            cast("IO[str]", self._process.stdin).close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        cast("IO[str]", self._process.stdout).close()

    def _read(self) -> dict[str, Any]:
        line = cast("IO[str]", self._process.stdout).readline()
        if not line:
            raise CaseFailedError(f"its process ended with code {self._process.wait()}")
        return cast("dict[str, Any]", json.loads(line))


@contextmanager
def workers(
    pythons: Sequence[str] = (), peers: Sequence[Peer] = PEERS
) -> Iterator[tuple[dict[str, Case], dict[str, str]]]:
    """Starts every peer that some interpreter has, and ends them all afterwards.

    Args:
        pythons: Interpreters to try after this one.
        peers: Which peers.

    Yields:
        A case for each peer that runs, and the reason for each that does not, by name.
    """
    cases: dict[str, Case] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for peer in peers:
            reasons = []
            for python in (sys.executable, *pythons):
                try:
                    worker = Worker(peer, python)
                except CaseFailedError as error:
                    reasons.append(str(error))
                    continue
                stack.callback(worker.close)
                cases[peer.name] = Case(peer.name, peer.batch, 1, worker.run, worker.note)
                break
            else:
                missing[peer.name] = f"{reasons[-1]}; {peer.cure}"
        yield cases, missing
