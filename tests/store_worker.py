"""A process that works on a call store, for the tests that need several: mode, file, run, keys.

It says ``ready`` before it starts and waits for a line; what it prints after that is done for good.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from pave_policy.llm.store import CallStore, Exchange, Site


def exchange(outcome: str = "valid", key: str = "k", **rest: Any) -> Exchange:
    """An exchange, with the defaults that a test does not care about."""
    usual: dict[str, Any] = {"operation": "AssessRisk", "site": Site(), "request": {}}
    return Exchange(key=key, outcome=outcome, **({"sample": "0"} | usual | rest))


def large_exchange(key: str) -> Exchange:
    """An exchange that fills several pages of the file."""
    return exchange(key=key, text=f"{key}: " + "long " * 2000)


def hold(store: CallStore, keys: list[str]) -> None:
    """Claims keys and keeps them until killed."""
    for key in keys:
        print(f"{key} {store.claim(key, '0')}", flush=True)
    sys.stdin.readline()


def share(store: CallStore, keys: list[str]) -> None:
    """Sees to it that each key has an answer, as a backbone would."""
    for key in keys:
        while store.find(key, "0") is None:
            if store.claim(key, "0"):
                time.sleep(0.001)  # the call: long enough for the others to get in the way
                store.record(large_exchange(key))
                print(key, flush=True)
            else:
                time.sleep(0.001)


def pour(store: CallStore) -> None:
    """Records without end."""
    number = 0
    while True:
        store.record(large_exchange(f"key {number}"))
        print(f"key {number}", flush=True)
        number += 1


def main() -> None:
    """Runs the mode asked for."""
    mode, path, run, *keys = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    with CallStore(path, run) as store:
        if mode == "hold":
            hold(store, keys)
        elif mode == "share":
            share(store, keys)
        elif mode == "pour":
            pour(store)


if __name__ == "__main__":
    main()
