"""Checks layers and types on the tree as it is installed.

Some folders have import names that only an installation knows, and an editable install serves them
through an import hook that import-linter and mypy cannot see. So the packages are installed into a
temporary folder, and both tools run on that folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import grimp
from setuptools.config.setupcfg import read_configuration

REPOSITORY = Path(__file__).resolve().parent.parent
PYPROJECT = REPOSITORY / "pyproject.toml"
BUILD_INPUTS = ("pyproject.toml", "setup.cfg", "LICENSE", "README.md")


def install(tree: Path, scratch: Path, folders: dict[str, str]) -> None:
    """Installs the packages into a folder.

    Builds from a copy, because a build leaves files beside its sources that a later one would ship.

    Args:
        tree: Where to install.
        scratch: An empty folder for the copy.
        folders: The folder of each mapped import name.
    """
    for folder in folders.values():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / folder, scratch / folder, ignore=ignored)
    for name in BUILD_INPUTS:
        shutil.copy(REPOSITORY / name, scratch / name)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-compile", "--target", str(tree), str(scratch)], check=True)


def check_graph(tree: Path, folders: dict[str, str], packages: list[str]) -> bool:
    """Checks that the import graph, from which the layers are read, lacks no package."""
    sys.path.insert(0, str(tree))
    roots = sorted({name.partition(".")[0] for name in folders})
    graph = grimp.build_graph(*roots, cache_dir=None)
    missing = sorted({*packages, *folders} - graph.modules)
    for name in missing:
        print(f"{name} is in setup.cfg but not in the import graph")
    print(f"import graph: {len(graph.modules)} modules, {len(missing)} packages missing")
    return not missing


def check_layers(tree: Path) -> bool:
    """Runs import-linter on the installed tree."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    return subprocess.run([*command, str(PYPROJECT)], cwd=tree, check=False).returncode == 0


def check_types(tree: Path, folders: dict[str, str]) -> bool:
    """Runs mypy on the installed tree, the tests and this script, with the repository's paths."""
    roots = sorted(str(tree / name) for name in folders if "." not in name)
    sources = [*roots, str(REPOSITORY / "tests"), str(REPOSITORY / ".ci")]
    cache = REPOSITORY / ".mypy_cache"
    options = ["--config-file", str(PYPROJECT), "--cache-dir", str(cache)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *sources],
        cwd=tree,
        env=os.environ | {"MYPYPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    report = (done.stdout + done.stderr).replace(f"{tree}/", "").replace(f"{REPOSITORY}/", "")
    for name, folder in folders.items():
        report = report.replace(name.replace(".", "/") + "/", folder + "/")
    print(report, end="")
    return done.returncode == 0


def main() -> int:
    """Runs the checks asked for; all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", nargs="*", help="layers, types (default: both)")
    wanted = parser.parse_args().check or ["layers", "types"]
    layout = read_configuration(REPOSITORY / "setup.cfg")["options"]
    folders, packages = layout["package_dir"], layout["packages"]
    with tempfile.TemporaryDirectory(prefix="voville-lint-") as name:
        tree, scratch = Path(name, "tree").resolve(), Path(name, "source")
        scratch.mkdir()
        install(tree, scratch, folders)
        passed = [check_graph(tree, folders, packages)]
        if "layers" in wanted:
            passed.append(check_layers(tree))
        if "types" in wanted:
            passed.append(check_types(tree, folders))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
