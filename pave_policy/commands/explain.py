"""`voville explain`: why one agent did what it did at one tick of a finished episode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pave_policy.commands.terminal import remark, show, show_json
from voville_env.errors import InvalidValueError, invalid

if TYPE_CHECKING:
    from pave_policy.commands.recorded import Recording


def explain(
    run: Annotated[Path, typer.Argument(help="Run folder, or the log of one of its episodes.")],
    agent: Annotated[str, typer.Option(help="Whose decision: id or full name.")],
    tick: Annotated[int, typer.Option(help="Tick of the day, from 0.")],
    day: Annotated[int, typer.Option(help="Day, from 1.")] = 1,
    scenario: Annotated[
        str | None, typer.Option(help="Scenario; the first in the run unless given.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Policy; the first in the run unless given.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed; the first unless given.")] = None,
    store: Annotated[
        Path | None, typer.Option(help="Store of model calls, if not in the run folder.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print prompts and reply bodies as they were.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all that is known as JSON.")
    ] = False,
) -> None:
    """Explains one tick: context, assessment, gate, verdict or reaction, plan, what was done.

    Works from the log, the stored model calls and the scenario, with neither key nor network.
    """
    from pave_policy.commands.account import account_of
    from pave_policy.commands.recorded import choose
    from pave_policy.commands.telling import tell

    recording, fitting = choose(run, scenario, policy, seed)
    if fitting > 1:
        remark(
            f"the first of {fitting} episodes that fit: {recording.path.stem}; "
            "--scenario, --policy and --seed choose another"
        )
    agent = _id_of(recording, agent)
    _check_time(recording, day, tick)
    account = account_of(recording, agent, (day, tick), store)
    if as_json:
        show_json(account.as_json())
    else:
        show(*tell(account, raw=raw))


def _id_of(recording: Recording, agent: str) -> str:
    """Who is meant, by id or by full name."""
    if agent in recording.people:
        return agent
    names = {key: str(item.get("name")) for key, item in recording.people.items()}
    found = [key for key, name in names.items() if name.casefold() == agent.casefold()]
    if len(found) != 1:
        raise invalid("agent", agent, [*names, *names.values()])
    return found[0]


def _check_time(recording: Recording, day: int, tick: int) -> None:
    """Refuses times that the episode does not have."""
    clock = recording.header["clock"]
    for name, value, first, last in (
        ("day", day, 1, clock["days"]),
        ("tick", tick, 0, clock["ticks_per_day"] - 1),
    ):
        if not first <= value <= last:
            raise InvalidValueError(f"{name} is {value}; allowed: {first} to {last}")
