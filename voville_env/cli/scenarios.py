"""`voville scenarios`: list, show and check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from voville_env.errors import VovilleError

scenarios_app = typer.Typer(help="The scenarios: list, show and check.", no_args_is_help=True)
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@scenarios_app.command("list")
def list_scenarios(as_json: JsonFlag = False) -> None:
    """Lists the scenarios that ship with the package."""
    from voville_env.scenario import load_world, scenario_names

    rows = []
    for name in scenario_names():
        spec = load_world(name).scenario
        rows.append(
            {
                "name": name,
                "version": spec.version,
                "title": spec.title,
                "control": spec.control,
                "days": spec.clock.days,
                "agents": len(spec.agents),
            }
        )
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    table = Table()
    for head in ("name", "version", "title", "control", "days", "agents"):
        table.add_column(head, no_wrap=head in ("name", "control"))
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


@scenarios_app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Scenario name or TOML file.")],
    as_json: JsonFlag = False,
) -> None:
    """Shows a scenario: its people, its scripted characters and its town as text."""
    from voville_env.parallel import VovilleEnv
    from voville_env.scenario import load_world
    from voville_env.scenario.suites import suite_of

    world = load_world(name)
    spec, suite = world.scenario, suite_of(world)
    if as_json:
        known = {"hash": world.digest(), "suite": suite.id}
        typer.echo(json.dumps({**known, **spec.model_dump(mode="json")}))
        return
    console = Console()
    console.print(f"{spec.name} v{spec.version}: {spec.title}", style="bold")
    console.print(spec.description)
    console.print(f"Purpose: {spec.purpose}")
    console.print(
        f"Suite: {suite.id}; seeds {_span(suite.evaluation)} to evaluate on, "
        f"{_span(suite.train)} to train on",
        highlight=False,
    )
    table = Table("id", "name", "group", "threshold", "starts at", "schedule")
    for plan, persona in zip(spec.agents, world.personas, strict=True):
        errands = "; ".join(f"day {e.day} tick {e.tick}: {e.goal}" for e in plan.schedule)
        table.add_row(
            persona.id,
            persona.name,
            persona.group,
            str(persona.legitimacy_threshold),
            plan.start,
            errands,
        )
    console.print(table)
    for officer in spec.officers:
        script = ", ".join(f"{phase.kind} {phase.ticks}" for phase in officer.script) or "passive"
        console.print(
            f"{officer.name}: day {officer.day}, ticks {officer.start}-{officer.end}, {script}"
        )
    for fire in spec.fires:
        console.print(
            f"Fire at ({fire.x}, {fire.y}): day {fire.day}, ticks {fire.ignite}-{fire.extinguish}"
        )
    env = VovilleEnv(world, render_mode="ansi")
    env.reset(seed=0)
    typer.echo(env.render())


def _span(seeds: range) -> str:
    return f"{seeds.start} to {seeds.stop - 1}"


@scenarios_app.command("check")
def check(
    files: Annotated[
        list[str] | None, typer.Argument(help="Names or TOML files; all unless given.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Checks scenarios, their ranges and their maps; exit code 1 if one cannot be used."""
    from voville_env.scenario import load_world, scenario_names
    from voville_env.scenario.variation import widely

    rows: list[dict[str, Any]] = []
    for name in files or scenario_names():
        try:
            world = load_world(_as_path(name))
            load_world(widely(world.scenario))
            rows.append({"name": name, "ok": True, "hash": world.digest()})
        except VovilleError as error:
            rows.append({"name": name, "ok": False, "error": str(error)})
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
    else:
        for row in rows:
            typer.echo(f"{row['name']}: ok" if row["ok"] else row["error"])
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def _as_path(name: str) -> str | Path:
    return Path(name) if name.endswith(".toml") else name
