"""First use after installation: what is said while compiling, and caches in a poor state."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import voville_env

TINY = """
import numba

@numba.njit(cache=True)
def run_batch(x):
    return x + 1
"""
START = """
import sys, numba, voville_env.core.compile as c
folder = c.cache_folder()
numba.config.CACHE_DIR = str(folder or "")
import tiny
"""
NAMELESS = 54321
POSIX_ROOT = hasattr(os, "getuid") and os.getuid() == 0
needs_root = pytest.mark.skipif(not POSIX_ROOT, reason="only root can become somebody else")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a kernel that compiles in no time.

    Args:
        tmp_path: Made by pytest.
    """
    (tmp_path / "tiny.py").write_text(TINY)
    return tmp_path


def python(place: Path, code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh process that knows no home and no cache but those given."""
    hidden = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "VOVILLE_QUIET")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=place,
        env={**kept, "TMPDIR": str(place), **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def printed(place: Path, code: str, **settings: str) -> str:
    done = python(place, code, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FOLDER = "import voville_env.core.compile as c; print(c.cache_folder())"


def test_without_a_home_the_temporary_folder_serves(place: Path) -> None:
    found = Path(printed(place, FOLDER))
    assert found.parents[1] == place / f"voville-{os.getuid()}"
    assert found.parents[1].stat().st_mode & 0o077 == 0


def test_a_home_that_is_no_folder_is_passed_over(place: Path) -> None:
    (place / "home").write_text("")
    found = printed(place, FOLDER, HOME=str(place / "home"))
    assert found.startswith(str(place / "voville-"))


def test_an_unusable_numba_folder_means_no_cache(place: Path) -> None:
    (place / "file").write_text("")
    code = START + "print(folder, c.call(tiny.run_batch, 1)) if folder else print(folder)"
    assert printed(place, code, NUMBA_CACHE_DIR=str(place / "file")) == "None"


def test_a_cache_that_others_may_write_to_is_refused(place: Path) -> None:
    mine = place / f"voville-{os.getuid()}"
    mine.mkdir()
    mine.chmod(0o777)
    assert printed(place, FOLDER) == "None"


def test_a_link_in_place_of_the_cache_is_refused(place: Path) -> None:
    (place / "elsewhere").mkdir()
    (place / f"voville-{os.getuid()}").symlink_to(place / "elsewhere")
    assert printed(place, FOLDER) == "None"


@needs_root
def test_the_cache_of_somebody_else_is_refused(place: Path) -> None:
    other = place / f"voville-{os.getuid()}"
    other.mkdir(mode=0o755)
    os.chown(other, NAMELESS, NAMELESS)
    assert printed(place, FOLDER) == "None"


@needs_root
def test_a_user_without_a_name_can_compile() -> None:
    sources = Path(voville_env.__file__).resolve()
    if any(not folder.stat().st_mode & 0o001 for folder in sources.parents):
        pytest.skip("the package lies in a folder that is closed to other users")
    become = "numba.njit(lambda x: x + 1)(1)\n"  # loads what root's Python may hide from others
    become += f"import os; os.setgid({NAMELESS}); os.setuid({NAMELESS})\n"
    code = START.replace("folder =", become + "folder =")
    code += "print(folder, c.call(tiny.run_batch, 1))"
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        place = Path(name)
        place.chmod(0o777)
        (place / "tiny.py").write_text(TINY)
        (place / "home").mkdir(mode=0o700)
        folder, result = printed(place, code, HOME=str(place / "home")).split()
    assert (f"voville-{NAMELESS}" in folder, result) == (True, "2")


@pytest.mark.parametrize("content", [b"", b"\x80", b"nonsense"])
def test_a_damaged_cache_is_made_anew(place: Path, content: bytes) -> None:
    code = START + "print(c.call(tiny.run_batch, 1))"
    assert printed(place, code) == "2"
    files = [*place.rglob("*.nbc"), *place.rglob("*.nbi")]
    assert len(files) == 2
    for file in files:
        file.write_bytes(content)
        assert printed(place, code) == "2"
        assert file.exists() and file.read_bytes() != content


def test_a_full_disk_does_not_stop_a_run(place: Path) -> None:
    code = START + (
        "import numba.core.caching as n\n"
        "real = n.IndexDataCacheFile._open_for_write\n"
        "def full(self, path): raise OSError(28, 'No space left on device')\n"
        "n.IndexDataCacheFile._open_for_write = full\n"
        "print(c.call(tiny.run_batch, 1))"
    )
    done = python(place, code)
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr
    assert done.stderr.count("No space left on device") == 1


def test_errors_of_the_function_itself_are_raised_once(place: Path) -> None:
    code = START + (
        "def run_batch(calls):\n    calls.append(1)\n    raise EOFError\n"
        "calls = []\n"
        "try:\n    c.call(run_batch, calls)\n"
        "except EOFError:\n    print(len(calls))"
    )
    assert printed(place, code) == "1"


def test_processes_may_compile_at_once(place: Path) -> None:
    code = START + "print(c.call(tiny.run_batch, 1))"
    environment = {**os.environ, "TMPDIR": str(place), "NUMBA_CACHE_DIR": str(place / "shared")}
    command = [sys.executable, "-c", code]
    running = [
        subprocess.Popen(
            command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    ended = [(process.communicate(timeout=120), process.returncode) for process in running]
    assert [(out.strip(), code) for (out, _), code in ended] == [(b"2", 0)] * 2


SLOW_CALL = START + (
    "import time\n"
    "c.TICK_SECONDS = 0.1\n"
    "def run_batch(x):\n    time.sleep(0.35)\n    return x\n"
    "c.announce(); c.announce(); c.call(run_batch, 1); c.call(run_batch, 1)"
)


def test_a_cold_start_says_what_is_going_on_once(place: Path) -> None:
    lines = python(place, SLOW_CALL).stderr.splitlines()
    assert lines[0].startswith("voville: compiling the simulation core, once; kept in")
    assert lines[-1].startswith("voville: compiled in")
    between = lines[1:-1]
    assert between and all("still compiling" in line for line in between)


def test_it_says_nothing_when_told_so_or_warm(place: Path) -> None:
    assert python(place, SLOW_CALL, VOVILLE_QUIET="1").stderr == ""
    warm = SLOW_CALL.replace("c.announce()", "(folder / 'step.run_batch-1.py311.nbc').touch()", 1)
    assert python(place, warm).stderr == ""
