"""`voville bench`: the main job."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from voville_env.cli.running import RunOptions, play, with_run_options

Scenarios = Annotated[
    list[str] | None,
    typer.Option(
        help="Scenario name or TOML file, also with changed keys as in "
        "fire_escape@perception.hazard_radius=12; repeat for several."
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        help="Policy name or module:factory, also with settings as in pave@threshold=50; repeat "
        "for several."
    ),
]
Seeds = Annotated[int | None, typer.Option(help="How many seeds, counted from 0; 5 unless given.")]
Days = Annotated[int | None, typer.Option(help="Days to play; all unless given.")]


@with_run_options
def bench(
    run: RunOptions,
    scenario: Scenarios = None,
    policy: Policies = None,
    seeds: Seeds = None,
    days: Days = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smoke run of the focus windows: no score.")
    ] = False,
) -> None:
    """Plays scenarios × policies × seeds and prints the tables; controls come along.

    Exit codes: 0 all episodes scored, 1 some failed, 2 wrong usage, 3 none scored, 4 stopped
    because the model endpoint cannot be used.
    """
    from voville_env.benchmarks.suite import plan

    asked = any(value is not None for value in (scenario, policy, seeds, days))
    make_plan = partial(
        plan, scenario, policy, seeds=seeds, days=days, quick=quick, options=run.options
    )
    anew = not run.resume or asked or quick or bool(run.options)
    play(run, (lambda backbone: make_plan(backbone=backbone)) if anew else None, kind="bench")
