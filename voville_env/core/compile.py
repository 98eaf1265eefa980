"""How kernels are compiled and where the compiled code is kept.

Numba's own cache looks only at the file a function stands in, so an edited helper in another file
would
leave old code in use. The cache folder is therefore named by a hash of all kernel sources. Where no
folder can be written, kernels are compiled anew in each process.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

CORE = Path(__file__).parent
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


def _candidates() -> list[Path]:
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(given)]
    places = []
    if base := os.environ.get("XDG_CACHE_HOME"):
        places.append(Path(base))
    if home := os.environ.get("HOME") or os.environ.get("USERPROFILE"):
        places.append(Path(home) / ".cache")
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    places.append(Path(tempfile.gettempdir()) / f"voville-{owner}")
    return places


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
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
    """Tells the user on stderr that a first call is about to compile."""
    if not _config.DISABLE_JIT and not is_warm():
        sys.stderr.write("voville: compiling the simulation core, once; about twenty seconds\n")
        sys.stderr.flush()


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
    """Calls a compiled function; damaged files of the cache are thrown away and made anew.

    Args:
        function: An entry point.
        *arguments: Its arguments.

    Returns:
        What it returns.
    """
    try:
        return function(*arguments)
    except (EOFError, pickle.UnpicklingError):
        folder = cache_folder()
        if folder is None:
            raise
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        return function(*arguments)
