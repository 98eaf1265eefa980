"""`voville doctor`: is this installation in order?"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer


def doctor(
    warm: Annotated[bool, typer.Option("--warm", help="Compile the core now.")] = False,
    threads: Annotated[
        bool, typer.Option("--threads", help="With --warm: the form with threads, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Checks the installation: versions, data files, compiled core, policies."""
    from voville_env.benchmarks.play import versions
    from voville_env.core.compile import cache_folder, is_warm
    from voville_env.errors import InvalidValueError
    from voville_env.policy import installed
    from voville_env.scenario import load_world, scenario_names

    if threads and not warm:
        raise InvalidValueError("--threads is only of use with --warm")
    facts: dict[str, Any] = {"versions": versions()}
    facts["scenarios"] = {name: load_world(name).digest() for name in scenario_names()}
    facts["policies"] = sorted(installed())
    facts["kernel_cache"] = str(cache_folder() or "none: kernels are compiled in every process")
    if warm:
        facts["compile_seconds"] = _compile(1)
        if threads:
            facts["compile_seconds_threads"] = _compile(2)
    facts["compiled"] = is_warm()
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        parts = (
            [f"{name} {item}" for name, item in value.items()] if isinstance(value, dict) else value
        )
        typer.echo(f"{key}: {', '.join(parts) if isinstance(parts, list) else parts}")


def _compile(threads: int) -> float:
    import numpy as np

    from voville_env.scenario import load_world, scenario_names
    from voville_env.sim import TownSim

    start = time.perf_counter()
    sim = TownSim(load_world(scenario_names()[0]), threads=threads)
    sim.reset(np.zeros(1, np.uint64))
    return round(time.perf_counter() - start, 1)
