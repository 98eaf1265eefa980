"""What is shipped, under which names, and what importing it costs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import timeit
import zipfile
from pathlib import Path
from typing import Any

import pytest
from setuptools.config.setupcfg import read_configuration

import voville_env
from voville_env import _layout_guard

ROOT_PACKAGES = ("voville_env", "pave_policy")
# PettingZoo is not among them: importing voville_env registers its ids there.
HEAVY = {
    *("jinja2", "matplotlib", "numba", "openai", "pydantic"),
    *("pytiled_parser", "rich", "scipy", "torch", "typer"),
}
# Where the package's own code says that it was developed; nothing shipped may depend on it.
PRIVATE_PATHS = re.compile("|".join([r"(?<![\w/.-])shared" + "/", "/" + "work/", "/tmp" + "/venv"]))


@pytest.fixture(scope="module")
def layout(repository: Path) -> dict[str, Any]:
    """The `options` of setup.cfg: the package map, the list of packages and the data globs."""
    options: dict[str, Any] = read_configuration(repository / "setup.cfg")["options"]
    return options


def run_python(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def packages_in_tree(root: Path, package_dir: dict[str, str]) -> dict[str, Path]:
    """The import name of every folder with an `__init__.py` under the mapped folders."""
    found = {}
    for name, folder in package_dir.items():
        for init in sorted((root / folder).rglob("__init__.py")):
            inner = init.parent.relative_to(root / folder).parts
            found[".".join([name, *inner])] = init.parent
    return found


def test_setup_cfg_lists_every_package(repository: Path, layout: dict[str, Any]) -> None:
    expected = sorted(packages_in_tree(repository, layout["package_dir"]))
    listing = "\n".join(f"    {name}" for name in expected)
    assert layout["packages"] == expected, f"setup.cfg should say packages =\n{listing}"


def test_every_module_lies_in_a_package(repository: Path, layout: dict[str, Any]) -> None:
    packages = set(packages_in_tree(repository, layout["package_dir"]).values())
    modules = [
        path
        for folder in layout["package_dir"].values()
        for path in (repository / folder).rglob("*.py")
    ]
    assert [path for path in modules if path.parent not in packages] == []


def test_mapped_folders_refuse_their_bare_names(repository: Path, layout: dict[str, Any]) -> None:
    mapped = {name: folder for name, folder in layout["package_dir"].items() if "." in name}
    assert mapped
    for name, folder in mapped.items():
        done = run_python(f"import {folder}", env=os.environ | {"PYTHONPATH": str(repository)})
        assert done.returncode != 0, folder
        assert "ImportError" in done.stderr and name in done.stderr, done.stderr


@pytest.mark.parametrize("package", ROOT_PACKAGES)
def test_import_is_silent_and_light(package: str, tmp_path: Path) -> None:
    silent = run_python(f"import {package}", cwd=tmp_path)
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    listing = run_python(f"import sys, {package}; print(*sys.modules)", cwd=tmp_path)
    assert HEAVY & set(listing.stdout.split()) == set()


def test_layout_guard_is_quick_and_content_when_installed() -> None:
    _layout_guard.check()
    assert min(timeit.repeat(_layout_guard.check, number=10, repeat=5)) / 10 < 1e-3


def test_layout_guard_explains_a_hidden_installation(repository: Path) -> None:
    code = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
import voville_env
from voville_env import _layout_guard
_layout_guard.check()
"""
    done = run_python(code, cwd=repository)
    assert done.returncode != 0
    message = done.stderr.strip().splitlines()[-1]
    assert "ImportError" in message and "pip install -e ." in message, done.stderr
    assert str(repository / "voville_env") in message


@pytest.mark.skipif("VOVILLE_TEST_INSTALLED" not in os.environ, reason="tests the source tree")
def test_the_installed_package_is_the_one_under_test() -> None:
    installed = Path(sysconfig.get_path("purelib"))
    assert Path(voville_env.__file__).is_relative_to(installed)


def test_no_file_names_a_private_path(repository: Path) -> None:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("needs a git checkout")
    offences = []
    for name in filter(None, done.stdout.split("\0")):
        path = repository / name
        text = path.read_text(encoding="utf-8", errors="ignore") if path.is_file() else ""
        offences += [f"{name}: {match[0]}" for match in PRIVATE_PATHS.finditer(text)]
    assert offences == []


@pytest.mark.slow
def test_wheel_holds_the_packages_and_the_data(
    repository: Path, layout: dict[str, Any], tmp_path: Path
) -> None:
    # From a copy: a build leaves files beside its sources that a later build would ship.
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.cfg", "LICENSE", "README.md"):
        shutil.copy(repository / name, source / name)
    for folder in layout["package_dir"].values():
        shutil.copytree(repository / folder, source / folder)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}

    expected = set()
    for package, folder in packages_in_tree(repository, layout["package_dir"]).items():
        globs = ["*.py", *layout["package_data"].get(package, [])]
        for path in (path for pattern in globs for path in folder.glob(pattern) if path.is_file()):
            inner = path.relative_to(folder).as_posix()
            expected.add(f"{package.replace('.', '/')}/{inner}")
    assert shipped == expected


def test_every_data_file_is_covered_by_a_glob(repository: Path, layout: dict[str, Any]) -> None:
    shipped = set()
    for package, globs in layout["package_data"].items():
        folder = repository / layout["package_dir"][package]
        shipped |= {path for pattern in globs for path in folder.glob(pattern)}
    ignored = {".py", ".pyc", ".nbi", ".nbc"}
    lost = [
        str(path.relative_to(repository))
        for folder in layout["package_dir"].values()
        for path in (repository / folder).rglob("*")
        if path.is_file() and path.suffix not in ignored and path not in shipped
    ]
    assert lost == []
