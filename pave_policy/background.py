"""An event loop in a thread of its own, so that a waiting policy works wherever it is called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="voville-models", daemon=True).start()
    return loop


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end, whether or not the caller's thread has a running event loop.

    Args:
        work: What to run.

    Returns:
        Its result.
    """
    waiting = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return waiting.result()
    except BaseException:
        waiting.cancel()
        raise
