"""`voville bench`: the main job."""

from __future__ import annotations

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
Seeds = Annotated[
    int | None, typer.Option(help="How many seeds, from the suite's first on; 5 unless given.")
]
Variation = Annotated[
    str | None,
    typer.Option(help="What the seed varies: paper or wide; as the scenario says unless given."),
]
SeedSet = Annotated[
    str | None,
    typer.Option(help="Seeds of the suite: evaluation, unless given; train is no evaluation."),
]
Days = Annotated[int | None, typer.Option(help="Days to play; all unless given.")]


@with_run_options
def bench(
    run: RunOptions,
    scenario: Scenarios = None,
    policy: Policies = None,
    seeds: Seeds = None,
    days: Days = None,
    variation: Variation = None,
    seed_set: SeedSet = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smoke run of the focus windows: no score.")
    ] = False,
) -> None:
    """Plays scenarios × policies × seeds and prints the tables; controls come along.

    Exit codes: 0 all episodes scored, 1 some failed, 2 wrong usage, 3 none scored, 4 stopped
    because the model endpoint cannot be used.
    """
    from voville_env.benchmarks.suite import Suite, plan, with_seed_set, with_variation

    def make_plan(backbone: str | None) -> Suite:
        names = scenario if variation is None else with_variation(scenario, variation)
        planned = plan(
            names,
            policy,
            seeds=seeds,
            days=days,
            quick=quick,
            backbone=backbone,
            options=run.options,
        )
        return planned if seed_set is None else with_seed_set(planned, seed_set)

    given = (scenario, policy, seeds, days, variation, seed_set)
    asked = quick or bool(run.options) or any(value is not None for value in given)
    play(run, make_plan if asked or not run.resume else None, kind="bench")
