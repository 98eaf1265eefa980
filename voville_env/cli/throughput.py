"""`voville throughput`: how fast this machine steps the town, and other environments beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


def throughput(
    batch: Annotated[
        list[int] | None, typer.Option(help="Batch sizes; repeat for several.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Seconds measured per row.")] = 2.0,
    threads: Annotated[
        int, typer.Option(help="Above 1: larger batches also with so many threads, and the ratio.")
    ] = 1,
    parts: Annotated[
        bool, typer.Option(help="Shares of a step, copy limit and start of a process.")
    ] = True,
    cold: Annotated[
        bool, typer.Option(help="Start of a process also with nothing compiled.")
    ] = True,
    peers: Annotated[
        bool, typer.Option("--peers", help="Other environments in the same run.")
    ] = False,
    peer_python: Annotated[
        list[str] | None,
        typer.Option(help="Another Python in which peers are looked for; repeat for several."),
    ] = None,
    learner: Annotated[
        bool, typer.Option("--learner", help="A learner's loop; needs the extra rl.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measures agent-steps per second on fire_escape_officers, ticks 50-150, random actions."""
    from voville_env.benchmarks.throughput.cases import BATCHES
    from voville_env.benchmarks.throughput.measure import Settings, measure

    settings = Settings(
        batches=tuple(batch or BATCHES),
        seconds=seconds,
        threads=threads,
        parts=parts,
        cold=cold,
        peers=peers,
        pythons=tuple(peer_python or ()),
        learner=learner,
    )
    stderr = Console(stderr=True)
    with stderr.status("", spinner="line") as status:
        told = measure(settings, status.update)
    if as_json:
        typer.echo(json.dumps(told))
        return
    _print(told)


def _print(told: Mapping[str, Any]) -> None:
    """Prints the tables of what was measured."""
    console = Console()
    console.print(_rows("Steps", told["rows"]))
    if "kernels" in told:
        console.print(_kernels(told["kernels"]))
        saved = ", ".join(f"{row['what']} {row['share']:.0%}" for row in told["switched_off"])
        typer.echo(f"Share of a step's CPU time saved by switching off: {saved}.")
        for limit in told["copy_limit"]:
            typer.echo(
                f"Copying alone, batch {limit['batch']}: {limit['bytes_per_agent']} bytes an "
                f"agent, at most {_short(limit['agent_steps_per_second'])} agent-steps/s."
            )
        typer.echo(_start_up(told["start_up"]))
    if "peers" in told:
        _print_peers(console, told["peers"])
    if "learner" in told:
        for key, value in told["learner"].items():
            typer.echo(f"Learner, {key}: {value}")
    load = told["machine"]["load"]
    typer.echo(
        "Medians over rounds taken in turn; (lowest-highest). Compare only what ran in one run."
        + ("" if load is None else f" Load of the machine at the start: {load:.1f}.")
    )


def _rows(title: str, rows: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("what", title=title)
    for name in ("batch", "agent-\nsteps/s", "range", "per\nCPU s", "µs a\ncall"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        threads = f", {row['threads']} threads" if row["threads"] > 1 else ""
        table.add_row(
            row["what"] + threads,
            str(row["batch"]),
            _short(row["agent_steps_per_second"]),
            f"{_short(row['lowest'])}-{_short(row['highest'])}",
            _short(row["agent_steps_per_cpu_second"]),
            f"{row['microseconds']:,.0f}",
        )
    return table


def _short(number: float) -> str:
    """Three digits and the thousands."""
    for unit, name in ((1e6, " M"), (1e3, " k")):
        if number >= unit:
            return (
                f"{number / unit:.3g}{name}"
                if number < 100 * unit
                else f"{number / unit:.0f}{name}"
            )
    return f"{number:.3g}"


def _kernels(rows: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("part of a step", title="Kernels, batch 256")
    table.add_column("share", justify="right")
    table.add_column("ns an agent-step", justify="right")
    for row in rows:
        table.add_row(row["what"], f"{row['share']:.1%}", f"{row['nanoseconds']:,.1f}")
    return table


def _start_up(told: Mapping[str, float]) -> str:
    kinds = [kind for kind in ("warm", "cold") if kind in told]
    times = ", ".join(
        f"{kind} {told[kind]:.1f} s ({told[f'{kind}_cpu']:.1f} CPU)" for kind in kinds
    )
    return f"Start of a process to the first observation: {times}."


def _print_peers(console: Console, told: Mapping[str, Any]) -> None:
    if told["rows"]:
        console.print(_rows("In turn with each other", told["rows"]))
        for row in told["rows"]:
            if row["note"]:
                typer.echo(f"{row['what']}: {row['note']}")
    table = Table("ours", "divided by", title="Ratios")
    for name in ("ratio", "range", "by CPU time", "target", "met"):
        table.add_column(name, justify="right")
    for row in told["ratios"]:
        table.add_row(
            row["ours"],
            row["other"],
            f"{row['ratio']:.2f}",
            f"{row['lowest']:.2f}-{row['highest']:.2f}",
            f"{row['cpu_ratio']:.2f}",
            f"{row['target']:g}",
            "yes" if row["met"] else "no",
        )
    console.print(table)
    for name, reason in told["missing"].items():
        typer.echo(f"{name} is missing: {reason}")
