"""Memory: the stream of entries, what is retrieved from it, and what PAVE keeps in it."""

from pave_policy.memory.kept import KEPT_REASONS, Memory
from pave_policy.memory.warm_up import warm_up

__all__ = ["KEPT_REASONS", "Memory", "warm_up"]
