"""Finds out what `voville probe` tells: at the endpoint, and in a rehearsal of the benchmark."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rich.progress import Progress

from pave_policy.llm.address import read_address
from pave_policy.llm.chat import Chat
from pave_policy.llm.estimate import Estimate, Rehearsal, Tally, estimate
from pave_policy.llm.findings import (
    Answers,
    Fitness,
    Gate,
    Speed,
    answers_of,
    fitness,
    gate_of,
    rates_of,
    speed_of,
)
from pave_policy.llm.presets import load_presets
from pave_policy.llm.probing import (
    QUESTIONS_PER_SAMPLE,
    Listing,
    Support,
    Trial,
    find_support,
    list_models,
    samples_for,
    try_out,
)
from pave_policy.llm.settings import ChatSettings, chat_settings
from voville_env.benchmarks.episodes import Job, player_of
from voville_env.benchmarks.suite import BACKBONE, Suite, make_policy
from voville_env.errors import InvalidValueError, RunAbortedError
from voville_env.policy import accepted

_UNNAMED = "unnamed"
"""Stands for the model while the endpoint is asked which there are."""


@dataclass(frozen=True)
class Visit:
    """What was found out at an endpoint.

    Attributes:
        settings: How it was asked.
        listing: The models that it lists.
        support: What it takes.
        trial: What was asked of the model, and what it answered.
        requests: Requests that this took, those that were refused included.
        cost: What they cost in US dollars; None where no price is known.
    """

    settings: ChatSettings
    listing: Listing
    support: Support
    trial: Trial
    requests: int
    cost: float | None

    @property
    def address(self) -> str:
        """The endpoint without anything secret."""
        return read_address(self.settings.base_url).base


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark takes.

    Attributes:
        suite: The part of the plan that asks a model.
        rehearsed_seeds: How many of its seeds were rehearsed; the others are taken to be alike.
        estimate: What it comes to.
    """

    suite: Suite
    rehearsed_seeds: int
    estimate: Estimate

    @property
    def is_scaled(self) -> bool:
        """Whether some seeds were not rehearsed."""
        return self.rehearsed_seeds < len(self.suite.seeds)


@dataclass(frozen=True)
class Probe:
    """All that is told.

    Attributes:
        visit: What was found out at the endpoint.
        answers: By operation.
        gate: Whether the model keeps a gate that is left to it.
        speed: How fast it is.
        benchmark: What a benchmark takes.
        fitness: Whether it can be used.
    """

    visit: Visit
    answers: list[Answers]
    gate: Gate
    speed: Speed
    benchmark: Benchmark
    fitness: Fitness


def run_probe(
    suite: Suite,
    preset: str | None,
    options: Mapping[str, Any],
    samples: int,
    bar: Progress,
    *,
    rough: bool = False,
) -> Probe:
    """Tries an endpoint out and estimates a benchmark.

    Args:
        suite: The benchmark.
        preset: A preset, if one is used; `chat` is none.
        options: Of `ChatSettings`; None stands for nothing said.
        samples: How often each operation is asked.
        bar: Shows what is going on.
        rough: Whether one seed is rehearsed instead of all.

    Returns:
        What was found out.

    Raises:
        InvalidValueError: If an option is not allowed, or no model can be chosen.
        RunAbortedError: If the endpoint cannot be used.
    """
    visit = asyncio.run(_visit(None if preset == "chat" else preset, options, samples, bar))
    asking = asking_part(suite)
    rehearsed = replace(asking, seeds=asking.seeds[:1]) if rough else asking
    tally = rehearse(rehearsed, visit.settings, bar)
    times = len(asking.seeds) // len(rehearsed.seeds)
    come_to = estimate(tally, rates_of(visit.trial), visit.settings, times=times)
    answers, gate = answers_of(visit.trial.questions), gate_of(visit.trial)
    return Probe(
        visit,
        answers,
        gate,
        speed_of(visit.trial, visit.support),
        Benchmark(asking, len(rehearsed.seeds), come_to),
        fitness(answers, gate, visit.support),
    )


async def _visit(
    preset: str | None, options: Mapping[str, Any], samples: int, bar: Progress
) -> Visit:
    settings, is_named = _settings(preset, options)
    times = samples_for(samples, settings.concurrency)
    listing = await list_models(settings)
    if not is_named:
        settings, _ = _settings(preset, {**options, "model": _only_model(settings, listing)})
    chat = Chat(settings)
    endpoint = chat.caller.endpoint
    assert endpoint is not None
    try:
        support = await find_support(chat, times)
        task = bar.add_task("questions", total=times * QUESTIONS_PER_SAMPLE)
        trial = await try_out(chat, times, lambda: bar.advance(task))
    finally:
        await chat.aclose()
    cost = None if settings.price_in is None else endpoint.budget.cost
    return Visit(settings, listing, support, trial, endpoint.budget.calls, cost)


def _settings(preset: str | None, options: Mapping[str, Any]) -> tuple[ChatSettings, bool]:
    """The settings, and whether the model was named by the user or the preset."""
    known = load_presets().get(preset or "")
    if preset is None and options.get("base_url") is None:
        raise InvalidValueError("which endpoint? Give its address, or --preset")
    is_named = options.get("model") is not None or bool(known and known.model)
    given = options if is_named else {**options, "model": _UNNAMED}
    return chat_settings(preset, **given), is_named


def _only_model(settings: ChatSettings, listing: Listing) -> str:
    """The model of an endpoint that has just one."""
    if isinstance(listing.problem, RunAbortedError):
        raise listing.problem
    if len(listing.models) == 1:
        return listing.models[0]
    base = read_address(settings.base_url).base
    if listing.problem is not None:
        told = f"{base} does not list its models ({listing.problem})"
    elif listing.models:
        told = f"{base} lists {', '.join(listing.models)}"
    else:
        told = f"{base} lists none"
    raise InvalidValueError(f"--model is missing, and {told}")


def asking_part(suite: Suite) -> Suite:
    """The part of a benchmark that asks a model.

    Args:
        suite: The benchmark.

    Returns:
        The same with those policies alone that take a backbone.
    """
    asking = tuple(name for name in suite.policies if BACKBONE in accepted(name))
    return replace(suite, policies=asking)


def rehearse(suite: Suite, settings: ChatSettings, bar: Progress) -> Tally:
    """Plays a benchmark without a model and counts what one would be asked.

    Args:
        suite: Policies that take a backbone.
        settings: How a model would be asked.
        bar: Shows how far it is.

    Returns:
        The counts.
    """
    tally = Tally()
    rehearsal = Rehearsal(settings, tally.note)
    for key in bar.track(suite.episodes(), description="rehearsal"):
        policy = make_policy(suite, key.policy, rehearsal)
        for _ in player_of(Job(key, "", suite), policy).records():
            pass
    rehearsal.caller.store.close()
    return tally
