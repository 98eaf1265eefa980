"""Which process holds a claim, and whether it still runs."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process, told apart from any other that bears its number.

    Attributes:
        host: The machine, and on Linux the namespace in which the number means something.
        pid: Its number.
        started: When it began, as the system tells it; empty where it does not.
    """

    host: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> Process:
        """The process that asks.

        Returns:
            Its identity.
        """
        namespace = Path("/proc/self/ns/pid")
        host = f"{platform.node()} {os.readlink(namespace) if namespace.exists() else ''}"
        return cls(host, os.getpid(), _start_of(os.getpid()) or "")

    @property
    def is_running(self) -> bool:
        """Whether it still runs; only a process of the same host can tell."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it runs, as another user
        return _start_of(self.pid) == self.started


def _start_of(pid: int) -> str | None:
    """When a process began; None where it has ended, empty where the system does not tell."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():
        return ""
    try:
        # The name in brackets may hold anything; the state is the third field, the start the 22nd.
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if status[0] in "ZX" else f"{boot.read_text().strip()} {status[19]}"
