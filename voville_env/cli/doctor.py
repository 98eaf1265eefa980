"""`voville doctor`: is this installation in order?"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer


def doctor(
    warm: Annotated[bool, typer.Option("--warm", help="Compile the core now.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Checks the installation: versions, data files, compiled core, policies."""
    from voville_env.benchmarks.play import versions
    from voville_env.core.compile import cache_folder, is_warm
    from voville_env.policy import installed
    from voville_env.scenario import load_world, scenario_names

    facts: dict[str, Any] = {"versions": versions()}
    facts["scenarios"] = {name: load_world(name).digest() for name in scenario_names()}
    facts["policies"] = sorted(installed())
    facts["kernel_cache"] = str(cache_folder() or "none: kernels are compiled in every process")
    if warm:
        from voville_env.parallel import VovilleEnv

        start = time.perf_counter()
        VovilleEnv().reset(seed=0)
        facts["compile_seconds"] = round(time.perf_counter() - start, 1)
    facts["compiled"] = is_warm()
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        parts = (
            [f"{name} {item}" for name, item in value.items()] if isinstance(value, dict) else value
        )
        typer.echo(f"{key}: {', '.join(parts) if isinstance(parts, list) else parts}")
