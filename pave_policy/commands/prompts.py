"""`voville prompts`: all prompts, and the exact text of one at any place of an episode."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from pave_policy.commands.terminal import remark, show, show_json, visible
from voville_env.cli.answering import settings_of
from voville_env.errors import InvalidValueError, invalid, nearest
from voville_env.policy import accepted, installed

if TYPE_CHECKING:
    from pave_policy.commands.listening import Asked, Place
    from pave_policy.llm.chat import Chat
    from pave_policy.llm.prompts import Template
    from voville_env.benchmarks.suite import Suite

prompts_app = typer.Typer(
    help="The prompts of both agents: list, and show one as a model gets it.",
    no_args_is_help=True,
)
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]
VariantOption = Annotated[str, typer.Option(help="Variant of the prompts; none unless given.")]
_SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "elicit_threshold": {"elicit_threshold": True},
    "perceive_context": {"perception": "llm"},
}
"""Options without which an operation is never asked."""
_ASKS = {"PAVE": "pave", "generative": "vanilla"}
"""The policy that each agent is best known as."""


@prompts_app.command("list")
def list_prompts(variant: VariantOption = "", as_json: JsonFlag = False) -> None:
    """Lists the operations: who asks, inputs, answers, token limits, versions of their prompts."""
    from pave_policy.llm.prompts import load_templates

    rows = [_described(template) for template in load_templates(variant).values()]
    if as_json:
        show_json(rows)
    else:
        _print_table(rows)


@prompts_app.command("show")
def show_prompt(
    operation: Annotated[
        str, typer.Argument(help="Such as assess_risk, AssessRisk or C2, its figure in the paper.")
    ],
    scenario: Annotated[str, typer.Option(help="Scenario name or TOML file.")],
    agent: Annotated[
        str | None, typer.Option(help="Of whom it is asked; the first one unless given.")
    ] = None,
    tick: Annotated[
        int | None, typer.Option(help="Tick of the day; the first one with it unless given.")
    ] = None,
    day: Annotated[
        int | None, typer.Option(help="Day, from 1; with --tick, 1 unless given.")
    ] = None,
    rule_set: Annotated[
        str | None,
        typer.Option(help="trigger_relevant or unrelated, where a tick has questions about both."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the episode.")] = 0,
    policy: Annotated[
        str | None,
        typer.Option(help="Policy that asks; unless given, pave or, for its operations, vanilla."),
    ] = None,
    variant: VariantOption = "",
    paper_inputs: Annotated[
        bool, typer.Option("--paper-inputs", help="Only the inputs of the paper's prompts.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(help="key=value for the policy, such as peer_text=true."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Prints the exact prompt of an operation at one place of an episode.

    The episode is played here, without a model: the surrogate gives the answers that lead there.
    Only the prompt goes to standard output. The switch that an operation needs in order to be
    asked at all is set for perceive_context and elicit_threshold.
    """
    from pave_policy.commands.listening import Place
    from pave_policy.llm.chat import Chat
    from pave_policy.llm.operations import agent_of
    from pave_policy.llm.settings import ChatSettings

    name = _operation(operation)
    # The address stands for none: offline, no endpoint is made.
    settings = ChatSettings(
        base_url="http://127.0.0.1", model="none", variant=variant, paper_inputs=paper_inputs
    )
    place = Place(name, agent, day, tick, rule_set)
    options = {**_SWITCHES.get(name, {}), **settings_of(option, "--option")}
    suite = _planned(scenario, policy or _ASKS[agent_of(name)], seed, options)
    _check(place, scenario)
    chat = Chat(settings, offline=True)
    found = _look_for(place, suite, chat)
    template = chat.templates[name]
    if as_json:
        show_json(_as_data(found, template, settings.paper_inputs))
        return
    for line in _heading(found, template):
        remark(line)
    _print_exactly(found[0].text)


def _operation(given: str) -> str:
    """The operation that is meant by its name, its name in the paper or its figure."""
    from pave_policy.llm.prompts import OPERATIONS, load_templates

    titles = [template.title for template in load_templates().values()]
    figures = [_figure(operation) for operation in OPERATIONS]
    known = {
        name.lower(): operation
        for names in (OPERATIONS, titles, figures)
        for name, operation in zip(names, OPERATIONS, strict=True)
        if name is not None
    }
    found = known.get(given.strip().lower().replace("-", "_"))
    if found is None:
        near = nearest(given, [*OPERATIONS, *titles])
        raise InvalidValueError(
            f"operation is {given!r}; allowed: {', '.join(OPERATIONS)}, their titles such as "
            f"AssessRisk, and the paper's figures C0 to C9{near}"
        )
    return found


def _figure(operation: str) -> str | None:
    """The figure of the paper that has this prompt; None for one that is not the paper's."""
    from pave_policy.llm.operations import PAVE_OPERATIONS

    return f"C{PAVE_OPERATIONS.index(operation)}" if operation in PAVE_OPERATIONS else None


def _planned(scenario: str, policy: str, seed: int, options: Mapping[str, Any]) -> Suite:
    """One episode as a plan, its names and options checked."""
    from voville_env.benchmarks.suite import BACKBONE, plan

    if BACKBONE not in accepted(policy):
        asking = [name for name in sorted(installed()) if BACKBONE in accepted(name)]
        raise invalid("policy that asks a model", policy, asking)
    suite = plan([scenario], [policy], seeds=1, options=options)
    return replace(suite, scenarios=(scenario,), seeds=(seed,))


def _check(place: Place, scenario: str) -> None:
    """Refuses people, days and ticks that the scenario does not have."""
    from pave_policy.records import RuleSet
    from voville_env.scenario import load_world

    world = load_world(scenario)
    clock = world.scenario.clock
    if place.agent is not None and place.agent not in world.agent_ids:
        raise invalid("agent", place.agent, world.agent_ids)
    if place.rule_set is not None and place.rule_set not in list(RuleSet):
        raise invalid("rule-set", place.rule_set, [each.value for each in RuleSet])
    limits = (("day", place.day, 1, clock.days), ("tick", place.tick, 0, clock.ticks_per_day - 1))
    for name, value, first, last in limits:
        if value is not None and not first <= value <= last:
            raise InvalidValueError(f"{name} is {value}; allowed: {first} to {last}")


def _look_for(place: Place, suite: Suite, chat: Chat) -> list[Asked]:
    """Plays until the wanted request was asked."""
    from pave_policy.backbone import run_now
    from pave_policy.commands.listening import find, listen

    try:
        found, nearby = find(place, listen(suite, chat.prompt))
    finally:
        run_now(chat.aclose())
    if found:
        return found
    raise _not_asked(place, suite, nearby)


def _not_asked(place: Place, suite: Suite, nearby: list[Asked]) -> InvalidValueError:
    near = " and ".join(
        f"{asked.site.agent} on day {asked.site.day} at tick {asked.site.tick}" for asked in nearby
    )
    where = f"{suite.scenarios[0]} with seed {suite.seeds[0]} under {suite.policies[0]}"
    hint = f"; nearest: {near}" if near else ", nor at any other time"
    return InvalidValueError(f"{place} in {where}{hint}")


def _described(template: Template) -> dict[str, Any]:
    from pave_policy.llm.operations import agent_of

    return {
        "asked_by": agent_of(template.operation),
        "figure": _figure(template.operation),
        "operation": template.operation,
        "title": template.title,
        "summary": template.summary,
        "inputs": list(template.inputs),
        "optional_inputs": list(template.optional_inputs),
        "answer": template.answer,
        "max_tokens": template.max_tokens,
        "paper_max_tokens": template.paper_max_tokens,
        "version": template.version,
        "digest": template.digest,
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = Table()
    heads = ("figure", "operation", "inputs", "answer", "tokens (paper)", "version", "digest")
    for head in ("asked by", *heads):
        table.add_column(head, no_wrap=head != "inputs")
    for row in rows:
        inputs = ", ".join([*row["inputs"], *(f"{name}?" for name in row["optional_inputs"])])
        cells = (
            row["asked_by"],
            row["figure"] or "–",
            f"{row['operation']}\n{row['title']}",
            inputs,
            row["answer"],
            f"{row['max_tokens']} ({row['paper_max_tokens'] if row['figure'] else '–'})",
            str(row["version"]),
            row["digest"],
        )
        table.add_row(*(visible(cell) for cell in cells))
    show(table, "Tokens limit the reply. An input with ? is absent where there is nothing to say.")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _as_data(found: list[Asked], template: Template, paper_inputs: bool) -> dict[str, Any]:
    """The first prompt found, and which others there are at the same place."""
    asked = found[0]
    site = asked.site
    return {
        **{name: getattr(site, name) for name in ("scenario", "policy", "seed", "agent")},
        **{name: getattr(site, name) for name in ("day", "tick", "rule_set")},
        "also_about": [other.site.rule_set for other in found[1:] if other.site.rule_set],
        "times": len(found),
        **_described(template),
        "paper_inputs": paper_inputs,
        "characters": len(asked.text),
        "sha256": _digest(asked.text),
        "prompt": asked.text,
    }


def _heading(found: list[Asked], template: Template) -> list[str]:
    asked = found[0]
    site = asked.site
    about = "" if site.rule_set is None else f", {site.rule_set} rules"
    figure = _figure(template.operation)
    papers = f" (paper: {template.paper_max_tokens})" if figure else ""
    lines = [
        f"{f'{figure} ' if figure else ''}{template.title} version {template.version}"
        f" ({template.digest}): {site.scenario}, seed {site.seed}, {site.policy},"
        f" {site.agent} on day {site.day} at tick {site.tick}{about}",
        "what the prompt owes to earlier answers is the surrogate's",
        f"reply up to {template.max_tokens} tokens{papers};"
        f" {len(asked.text)} characters, sha256 {_digest(asked.text)[:16]}",
    ]
    if site.rule_set is None and len(found) > 1:
        lines.append(f"it is asked {len(found)} times there; this is the first")
        return lines
    for other in found[1:]:
        lines.append(f"the same is asked about the {other.site.rule_set} rules: --rule-set")
    return lines


def _print_exactly(text: str) -> None:
    """Prints a prompt and not a byte more; a terminal gets the end of its last line."""
    typer.echo(text.encode(), nl=sys.stdout.isatty())
