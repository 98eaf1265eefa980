"""`voville throughput`: how fast the core steps on this machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def throughput(
    batch: Annotated[
        list[int] | None, typer.Option(help="Batch sizes; repeat for several.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Seconds measured per row.")] = 2.0,
    threads: Annotated[int, typer.Option(help="Threads of the batched core.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measures agent-steps per second on fire_escape_officers, ticks 50-150, everything on."""
    from voville_env.benchmarks.throughput import BATCHES, measure

    rows = measure(tuple(batch or BATCHES), seconds=seconds, threads=threads)
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table("what", "batch", "threads", "agent-steps/s", "µs a step of the batch")
    for row in rows:
        table.add_row(
            row["what"],
            str(row["batch"]),
            str(row["threads"]),
            f"{row['agent_steps_per_second']:,.0f}",
            f"{row['microseconds']:,.1f}",
        )
    Console().print(table)
    typer.echo("Median of 5 repeats each; random actions; compare only what ran side by side.")
