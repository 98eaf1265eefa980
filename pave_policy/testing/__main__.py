"""`python -m pave_policy.testing` is a stub server as a process of its own.

It prints its URL and serves until it is killed or its standard input ends.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
from pathlib import Path
from typing import TextIO

from pave_policy.testing.canned import canned
from pave_policy.testing.exchange import Answerer, StubReply, StubRequest
from pave_policy.testing.stub import StubServer


def _logged(log: TextIO) -> Answerer:
    """Answers as `canned` does, after a line on the request that a kill cannot take back."""

    def answer(request: StubRequest) -> StubReply:
        asked = request.body.get("messages", request.body.get("input"))
        line = {
            "number": request.number,
            "operation": request.operation,
            "sha256": hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest(),
        }
        print(json.dumps(line), file=log, flush=True)
        return canned(request)

    return answer


def main() -> None:
    """Serves canned answers until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m pave_policy.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 (default): any free port")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds a request takes")
    parser.add_argument("--model", default="stub", help="the model that it lists")
    parser.add_argument("--log", type=Path, help="file that gets a JSON line for each request")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        answer: Answerer = canned
        if options.log is not None:
            answer = _logged(stack.enter_context(options.log.open("a", encoding="utf-8")))
        server = StubServer(
            answer, latency=options.latency, models=[options.model], port=options.port
        )
        stack.enter_context(server)
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        print(server.url, flush=True)
        for _ in sys.stdin:
            pass


if __name__ == "__main__":
    main()
