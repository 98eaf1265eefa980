"""How kernels are compiled and where the compiled code is kept.

Numba's own cache looks only at the file a function stands in, so an edited helper in another file
would
leave old code in use. The cache folder is therefore named by a hash of all kernel sources. Where no
folder can be written, kernels are compiled anew in each process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

CORE = Path(__file__).parent
TICK_SECONDS = 10.0
MAX_ATTEMPTS = 200
"""Each function with a cache file of its own may fail to be written, one after another."""
_config: Any = numba.config
_njit: Any = numba.njit
_types: Any = numba.types


@cache
def source_hash() -> str:
    """Hash of every source that decides what the compiled code does.

    Returns:
        Twelve hex digits.
    """
    digest = hashlib.sha256(f"{numba.__version__} {sys.version_info[:2]}".encode())
    for path in sorted(CORE.rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _owned(folder: Path) -> bool:
    """Whether nobody else can put files there: they are unpickled, so they are as good as code."""
    if not hasattr(os, "getuid"):
        return True
    facts = folder.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o002


def _candidates() -> Iterator[Path]:
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given)
        return
    if base := os.environ.get("XDG_CACHE_HOME"):
        yield Path(base)
    if home := os.environ.get("HOME") or os.environ.get("USERPROFILE"):
        yield Path(home) / ".cache"
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    with suppress(OSError):
        place = Path(tempfile.gettempdir()) / f"voville-{owner}"
        place.mkdir(exist_ok=True, mode=0o700)
        if _owned(place):
            yield place


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (_owned(folder) and _owned(folder.parent)):
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def cache_folder() -> Path | None:
    """The folder for compiled kernels.

    Returns:
        A writable folder that belongs to this user, or None where there is none.
    """
    for place in _candidates():
        folder = place / "voville" / f"kernels-{source_hash()}"
        if _usable(folder):
            return folder
    return None


def is_warm() -> bool:
    """Whether compiled kernels of these very sources are on disk.

    Returns:
        True if a first call needs no compilation.
    """
    folder = cache_folder()
    return folder is not None and any(folder.rglob("step.run_batch-*.nbc"))


def announce() -> None:
    """Tells the user on stderr, once a process, that a first call is about to compile.

    Nothing is said where compiled code is at hand or `VOVILLE_QUIET` is set.
    """
    if _first.told or _config.DISABLE_JIT or is_warm():
        return
    _first.told = _first.pending = True
    folder = cache_folder()
    kept = f"once; kept in {folder}" if folder else "in this process only: no folder to keep it in"
    _say(f"compiling the simulation core, {kept}")


@dataclass
class _First:
    """The first compilation of this process.

    Attributes:
        told: Whether the user was told of it.
        pending: Whether it is still to be finished.
        seconds: How long it has taken so far.
    """

    told: bool = False
    pending: bool = False
    seconds: float = 0.0


_first = _First()


def _say(text: str) -> None:
    if not os.environ.get("VOVILLE_QUIET") and sys.stderr is not None:
        sys.stderr.write(f"voville: {text}\n")
        sys.stderr.flush()


@contextmanager
def _timed(function: Callable[..., Any]) -> Iterator[None]:
    """Shows that time passes while the core is being compiled, and says when it is done."""
    start, ended = time.perf_counter(), threading.Event()

    def tick() -> None:
        while not ended.wait(TICK_SECONDS):
            _say(f"still compiling, {_first.seconds + time.perf_counter() - start:.0f} s so far")

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        ended.set()
        ticker.join()
        _first.seconds += time.perf_counter() - start
    if "run_batch" in getattr(function, "__name__", ""):
        _first.pending = False
        _say(f"compiled in {_first.seconds:.0f} s")


def kernel(function: Function | None = None, *, entry: bool = False, parallel: bool = False) -> Any:
    """Compiles a function for the core.

    Args:
        function: A function on records, arrays and numbers.
        entry: Whether Python calls it. Only such functions are kept on disk, with all that they
            call; the others are parts of them.
        parallel: Whether `prange` loops may run on several threads.

    Returns:
        The compiled function, or the function itself with the JIT switched off.
    """
    if function is None:
        return lambda inner: kernel(inner, entry=entry, parallel=parallel)
    if _config.DISABLE_JIT:
        return function
    if not entry:
        return _part(function)
    folder = cache_folder()
    kept = _config.CACHE_DIR
    _config.CACHE_DIR = str(folder or "")
    try:
        return _njit(
            cache=folder is not None,
            nogil=True,
            error_model="numpy",
            parallel=parallel,
            no_cfunc_wrapper=True,
        )(function)
    finally:
        _config.CACHE_DIR = kept


def _part(function: Function) -> Any:
    """Compiles a function that only compiled code calls, once: its integers are 64 bits wide.

    Numba would compile it anew for each combination of widths that a caller has at hand.
    """
    part = _njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )
    compile_one = part.compile

    def compile_wide(signature: Any) -> Any:
        return compile_one(tuple(_wide(argument) for argument in signature))

    part.compile = compile_wide
    return part


def _wide(argument: Any) -> Any:
    plain = _types.unliteral(argument)
    return (
        _types.int64
        if isinstance(plain, (_types.Integer, _types.Boolean)) and (plain != _types.uint64)
        else plain
    )


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a compiled function, whatever state its cache is in.

    Damaged files are thrown away and made anew; where a file cannot be written (a full disk, say),
    the compiled function is used without.

    Args:
        function: An entry point.
        *arguments: Its arguments.

    Returns:
        What it returns.
    """
    if not _first.pending:
        return _survive(function, arguments)
    with _timed(function):
        return _survive(function, arguments)


def _survive(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    for attempt in range(MAX_ATTEMPTS):
        try:
            return function(*arguments)
        except Exception as error:
            if not _raised_by_cache(error):
                raise
            _mend(error, first=attempt == 0)
    return function(*arguments)


def _raised_by_cache(error: Exception) -> bool:
    """Whether a cache file was being read or written; then the function has not begun to run."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "numba.core.caching" for frame, _ in frames)


def _mend(error: Exception, *, first: bool) -> None:
    folder = cache_folder()
    if isinstance(error, OSError):
        # The function that could not be written is compiled all the same: the next attempt uses it.
        if first:
            _say(f"compiled code cannot be kept in {folder}: {error}")
    elif folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
