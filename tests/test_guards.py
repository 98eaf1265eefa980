"""The linters fail when a rule is broken: a gate that cannot close guards nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from setuptools.config.setupcfg import read_configuration

# (module that gains an import, what it imports, words of the contract that must break)
VIOLATIONS = [
    ("voville_env.core.probe", "voville_env.parallel", "imports point downwards"),
    ("voville_env.town.probe", "voville_env.scenario", "imports point downwards"),
    ("voville_env.unplaced", "voville_env.core", "imports point downwards"),
    ("voville_env.sim", "pave_policy", "never imports a policy"),
    ("pave_policy.probe", "voville_env.sim", "only the vocabulary"),
    ("pave_policy.probe", "voville_env.core.kernels", "only the vocabulary"),
    ("voville_env.core.kernels.oracle", "pave_policy", "share no code"),
]
ALLOWED = [
    ("pave_policy.probe", "voville_env.core.codes"),
    ("pave_policy.probe", "voville_env.policy"),
    ("pave_policy.sub.probe", "voville_env.town"),
]


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """The packages laid out as an installation would, in a folder to be spoilt."""
    layout = read_configuration(repository / "setup.cfg")["options"]["package_dir"]
    for name, folder in sorted(layout.items()):
        target = tmp_path.joinpath(*name.split("."))
        shutil.copytree(repository / folder, target, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def module_file(tree: Path, name: str) -> Path:
    """The file of a module; made, with its packages, where it does not exist yet."""
    path = tree.joinpath(*name.split("."))
    if path.is_dir():
        return path / "__init__.py"
    for parent in reversed(path.relative_to(tree).parents[:-1]):
        (tree / parent).mkdir(exist_ok=True)
        (tree / parent / "__init__.py").touch()
    path.with_suffix(".py").touch()
    return path.with_suffix(".py")


def add_import(tree: Path, importer: str, imported: str) -> None:
    module_file(tree, imported)
    with module_file(tree, importer).open("a", encoding="utf-8") as file:
        file.write(f"\nimport {imported}\n")


def run_tool(name: str, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / name), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def lint_imports(repository: Path, tree: Path) -> subprocess.CompletedProcess[str]:
    wide = os.environ | {"COLUMNS": "200"}  # or the verdict of a long line wraps to the next
    settings = str(repository / "pyproject.toml")
    return run_tool("lint-imports", "--no-cache", settings, cwd=tree, env=wide)


@pytest.mark.parametrize(("importer", "imported", "contract"), VIOLATIONS)
def test_a_broken_layer_fails(
    repository: Path, tree: Path, importer: str, imported: str, contract: str
) -> None:
    add_import(tree, importer, imported)
    done = lint_imports(repository, tree)
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert done.returncode != 0, done.stdout
    assert any(contract in line for line in broken), done.stdout + done.stderr


def test_lawful_imports_pass(repository: Path, tree: Path) -> None:
    for importer, imported in ALLOWED:
        add_import(tree, importer, imported)
    done = lint_imports(repository, tree)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("folder", "owner"),
    [
        ("wrappers", "voville_env"),
        ("scenarios", "voville_env"),
        ("benchmarks", "voville_env"),
        ("prompts", "pave_policy"),
    ],
)
def test_bare_imports_fail(repository: Path, folder: str, owner: str) -> None:
    code = f'"""Probe."""\n\nimport {folder}\n\nprint({folder})\n'
    name = str(repository / "voville_env" / "probe.py")
    done = run_tool("ruff", "check", "--stdin-filename", name, "-", input=code, cwd=repository)
    assert done.returncode != 0
    assert "TID251" in done.stdout
    assert f"is imported as {owner}.{folder}" in done.stdout


def test_optional_libraries_are_not_imported_at_module_level(repository: Path) -> None:
    code = '"""Probe."""\n\nimport torch\n\nprint(torch)\n'
    name = str(repository / "voville_env" / "probe.py")
    done = run_tool("ruff", "check", "--stdin-filename", name, "-", input=code, cwd=repository)
    assert done.returncode != 0
    assert "TID253" in done.stdout
