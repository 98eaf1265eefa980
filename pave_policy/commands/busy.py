"""`voville busy`: how well a benchmark keeps a model endpoint busy."""

from __future__ import annotations

from typing import Annotated

import typer


def busy(
    concurrency: Annotated[int, typer.Option(help="Calls allowed in flight.")] = 16,
    latency: Annotated[float, typer.Option(help="Seconds that each call takes.")] = 0.25,
    episodes: Annotated[int, typer.Option(help="Episodes played, side by side.")] = 8,
    scenario: Annotated[str, typer.Option(help="Scenario name or TOML file.")] = "fire_escape",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measures it with a stub server of fixed latency in a process of its own; takes minutes.

    What counts is the share of the allowed calls in flight while at least so many are wanted.
    """
    from pave_policy.commands.busy_run import measure_busy
    from pave_policy.commands.terminal import show_json

    found = measure_busy(scenario, episodes, concurrency, latency)
    if as_json:
        show_json(found.as_json())
        return
    pending = "–" if found.share_pending is None else f"{found.share_pending:.1%}"
    typer.echo(
        f"{pending} of {concurrency} calls in flight while as many were wanted "
        f"({found.pending:.0f} of {found.wall:.0f} s), {found.share:.1%} over the whole run\n"
        f"{found.requests} calls at {found.rate:.0f} a second, {found.ideal_rate:.0f} at best; "
        f"{1000 * found.cpu / found.requests:.1f} ms of processor time a call"
    )
