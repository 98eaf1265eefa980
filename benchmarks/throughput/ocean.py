"""Builds the two C environments of PufferLib 3.0 that Voville is measured against.

PufferLib has no wheels, and its sdist as a whole needs torch, Cython and downloads to build. One
environment alone is one C file: download `pufferlib-3.0.0.tar.gz` from PyPI, then

    python -m voville_env.benchmarks.throughput.ocean pufferlib-3.0.0.tar.gz
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from voville_env.core.compile import cache_folder
from voville_env.errors import InvalidValueError

NAMES = ("snake", "trash_pickup")
FLAGS = ("-O2", "-flto", "-fwrapv", "-fPIC", "-shared", "-DPLATFORM_DESKTOP")
"""Those of PufferLib's own build."""
_QUIET = ("-w", "-Wno-implicit-function-declaration")
_RAYLIB = {"linux": "raylib-5.5_linux_amd64", "darwin": "raylib-5.5_macos"}
"""Drawing library in the sdist, linked and never called."""


def folder() -> Path:
    """Where the built environments lie.

    Returns:
        A folder beside the compiled kernels; it may not exist.
    """
    kernels = cache_folder()
    base = Path(tempfile.gettempdir()) if kernels is None else kernels.parent
    return base / f"ocean-3.0.0-cp{sys.version_info[0]}{sys.version_info[1]}"


def build(source: Path) -> list[Path]:
    """Compiles the environments.

    Args:
        source: The sdist `pufferlib-3.0.0.tar.gz`, or the folder it unpacks to.

    Returns:
        The files made.

    Raises:
        InvalidValueError: If the sources are not there, or do not compile.
    """
    if source.is_dir():
        return [_compile(source, name) for name in NAMES]
    if not (source.is_file() and tarfile.is_tarfile(source)):
        raise InvalidValueError(
            f"{str(source)!r} is no source of PufferLib; allowed: pufferlib-3.0.0.tar.gz "
            "from PyPI, or the folder it unpacks to"
        )
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(source) as archive:
            archive.extractall(place, filter="data")
        inside = next((path for path in Path(place).iterdir() if path.is_dir()), Path(place))
        return [_compile(inside, name) for name in NAMES]


def _compile(source: Path, name: str) -> Path:
    binding = source / "pufferlib" / "ocean" / name / "binding.c"
    drawing = source / _RAYLIB.get(sys.platform, "")
    library = drawing / "lib" / "libraylib.a"
    for needed in (binding, library):
        if not needed.is_file():
            raise InvalidValueError(
                f"{str(needed)!r} is missing; allowed: the unpacked sdist of PufferLib 3.0.0 "
                "on Linux x86-64 or macOS"
            )
    made = folder() / name / "binding.so"
    made.parent.mkdir(parents=True, exist_ok=True)
    headers = (sysconfig.get_paths()["include"], np.get_include(), str(drawing / "include"))
    command = [
        *shlex.split(sysconfig.get_config_var("CC") or "cc")[:1],
        *FLAGS,
        *_QUIET,
        *(f"-I{path}" for path in headers),
        *(str(binding), str(library), "-lm", "-lpthread", "-ldl", "-o", str(made)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InvalidValueError(f"no C compiler: {error}") from error
    if done.returncode != 0:
        raise InvalidValueError(f"{name} does not compile:\n{done.stderr[-2000:]}")
    return made


def main(arguments: Sequence[str]) -> int:
    """Builds from the command line.

    Args:
        arguments: One path.

    Returns:
        The exit code.
    """
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m voville_env.benchmarks.throughput.ocean SDIST\n")
        return 2
    try:
        made = build(Path(arguments[0]))
    except InvalidValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.writelines(f"{path}\n" for path in made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
