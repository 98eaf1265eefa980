"""`voville sweep`: a benchmark that varies one parameter."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from voville_env.cli.bench import Days, Policies, Scenarios, Seeds
from voville_env.cli.running import RunOptions, play, with_run_options
from voville_env.errors import InvalidValueError


@with_run_options
def sweep(
    run: RunOptions,
    parameter: Annotated[
        str | None, typer.Argument(help="What to vary; `list` shows what there is.")
    ] = None,
    values: Annotated[
        str | None, typer.Option(help="Values with commas between them; the usual unless given.")
    ] = None,
    scenario: Scenarios = None,
    policy: Policies = None,
    seeds: Seeds = None,
    days: Days = None,
) -> None:
    """Varies one parameter and shows what it moves; the default is played besides.

    Exit codes as for bench.
    """
    from voville_env.benchmarks.sweep import LIST, plan_sweep

    if parameter == LIST:
        _list(as_json=run.as_json)
        return
    asked = (values, scenario, policy, seeds, days, run.options or None)
    if parameter is None:
        if not run.resume:
            raise InvalidValueError(
                "PARAMETER is missing; `voville sweep list` shows what there is"
            )
        if any(item is not None for item in asked):
            raise InvalidValueError("PARAMETER is missing; leave all out to go on as planned")
        play(run, None, kind="sweep")
        return
    make_plan = partial(
        plan_sweep,
        parameter,
        values,
        scenarios=scenario,
        policies=policy,
        seeds=seeds,
        days=days,
        options=run.options,
    )
    play(run, lambda backbone: make_plan(backbone=backbone), kind="sweep")


def _list(*, as_json: bool) -> None:
    from voville_env.benchmarks.sweep import PARAMETERS

    if as_json:
        typer.echo(json.dumps([item.as_json() for item in PARAMETERS]))
        return
    table = Table()
    for head in ("parameter", "varies", "values", "scenarios", "should move"):
        table.add_column(head, no_wrap=head == "parameter", overflow="fold")
    for item in PARAMETERS:
        table.add_row(
            item.name,
            f"{item.kind} {item.key}",
            ", ".join(map(str, item.values)),
            ", ".join(item.scenarios),
            ", ".join(item.metrics),
        )
    Console().print(table)
