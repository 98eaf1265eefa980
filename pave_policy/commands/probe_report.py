"""What `voville probe` prints, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from pave_policy.commands.probe_run import Benchmark, Probe, Visit
from pave_policy.commands.terminal import show, visible
from pave_policy.llm.budget import CHARACTERS_PER_TOKEN
from pave_policy.llm.estimate import Need
from pave_policy.llm.findings import Answers, Gate, Speed
from pave_policy.llm.presets import load_presets

_MODELS_SHOWN = 20
_COURSE = (
    "The course of events is the surrogate's: a model that decides otherwise meets other "
    "situations and is asked more or less."
)
_SCALED = "One seed was rehearsed and stands for each of the others; without --rough all are."
_UPPER_BOUND = (
    "This is an upper bound: at temperature 0 a question that seeds have in common is asked once."
)
_GUESSED = (
    "The endpoint does not count tokens: they are guessed at one for "
    f"{CHARACTERS_PER_TOKEN} characters."
)


def as_data(probe: Probe) -> dict[str, Any]:
    """Everything that was found out.

    Args:
        probe: What was found out.

    Returns:
        A JSON-ready dict.
    """
    visit = probe.visit
    problem = visit.listing.problem
    support = asdict(visit.support)
    del support["tokens_per_second"]
    return {
        "fit": probe.fitness.fit,
        "verdict": probe.fitness.words,
        "address": visit.address,
        "model": visit.settings.model,
        "models": None if problem else list(visit.listing.models),
        "models_problem": str(problem) if problem else None,
        "requests": visit.requests,
        "usd": visit.cost,
        "supports": support,
        "operations": [asdict(answers) for answers in probe.answers],
        "gate": asdict(probe.gate),
        "speed": asdict(probe.speed),
        "estimate": _estimate_data(probe),
    }


def _estimate_data(probe: Probe) -> dict[str, Any]:
    benchmark = probe.benchmark
    suite, estimate = benchmark.suite, benchmark.estimate
    total = asdict(estimate.total)
    del total["operation"], total["seconds"]
    return {
        "scenarios": list(suite.scenarios),
        "policies": list(suite.policies),
        "seeds": len(suite.seeds),
        "days": suite.days,
        "rehearsed_seeds": benchmark.rehearsed_seeds,
        "upper_bound": _is_upper_bound(probe),
        "assumes": _COURSE,
        **total,
        "usd": estimate.cost,
        "seconds": estimate.seconds,
        "operations": [asdict(need) for need in estimate.needs],
    }


def print_probe(probe: Probe) -> None:
    """Prints everything that was found out.

    Args:
        probe: What was found out.
    """
    visit = probe.visit
    _say(*_about(visit))
    show(_answer_table(probe.answers))
    _say(_about_gate(probe.gate), _about_speed(probe.speed))
    show(_need_table(probe.benchmark))
    _say(*_about_benchmark(probe), f"Verdict: {probe.fitness.words}.")


def _say(*lines: str) -> None:
    show(*(visible(line) for line in lines))


def _about(visit: Visit) -> list[str]:
    listing, support = visit.listing, visit.support
    listed = ", ".join(listing.models[:_MODELS_SHOWN]) or "none"
    if len(listing.models) > _MODELS_SHOWN:
        listed += f" and {len(listing.models) - _MODELS_SHOWN} more"
    if listing.problem is not None:
        listed = f"not listed ({listing.problem})"
    is_listed = not listing.models or visit.settings.model in listing.models
    found = {
        "temperature 0": support.temperature_0,
        "JSON mode": support.json_mode,
        "counts tokens": support.usage,
        "reasoning apart": support.reasoning,
    }
    told = ", ".join(f"{name}: {'yes' if is_so else 'no'}" for name, is_so in found.items())
    return [
        f"Endpoint: {visit.address}",
        f"Models there: {listed}",
        f"Model used: {visit.settings.model}{'' if is_listed else ' (not among them)'}",
        f"It takes {support.token_limit}; {told}",
        *(f"Note: {note}" for note in support.notes),
    ]


def _answer_table(answers: Sequence[Answers]) -> Table:
    failures = list(dict.fromkeys(name for each in answers for name in each.failures))
    heads = ["operation", "asked", "at once", "after a reminder", *failures, "such as"]
    rows = [
        [
            *(each.operation, str(each.asked), str(each.at_once), str(each.after_reminder)),
            *(str(each.failures.get(name, 0)) for name in failures),
            each.example,
        ]
        for each in answers
    ]
    return _table("Answers, asked as in a run", heads, rows, words=("operation", "such as"))


def _about_gate(gate: Gate) -> str:
    keeps = "keeps it" if not gate.leaks else "it leaks"
    if not gate.answered:
        keeps = "nothing can be said"
    return (
        f"Gate left to the prompt: {gate.leaks} of {gate.answered} answers (of {gate.asked} asked) "
        f"say violate below the threshold: {keeps}."
    )


def _about_speed(speed: Speed) -> str:
    latency = "no call was answered"
    if speed.latency_median is not None:
        latency = f"median {speed.latency_median:.2f} s, p95 {speed.latency_p95:.2f} s a call"
    tokens = " tokens not counted"
    if speed.tokens_per_second is not None and speed.tokens_per_second_alone is not None:
        tokens = (
            f" {speed.tokens_per_second_alone:.0f} tokens/s in one call alone, "
            f"{speed.tokens_per_second:.0f} in {speed.side_by_side} side by side"
        )
    return f"Speed: {latency};{tokens}; {speed.calls_per_second:.2f} calls/s"


def _need_table(benchmark: Benchmark) -> Table:
    rows = [_need_row(need) for need in (*benchmark.estimate.needs, benchmark.estimate.total)]
    heads = ["operation", "asked", "distinct", "calls", "tokens in", "tokens out"]
    return _table("Estimate of the benchmark", heads, rows, words=("operation",))


def _need_row(need: Need) -> list[str]:
    numbers = (need.asked, need.distinct, need.calls, need.prompt_tokens, need.completion_tokens)
    return [need.operation, *(grouped(number) for number in numbers)]


def _about_benchmark(probe: Probe) -> list[str]:
    benchmark, support = probe.benchmark, probe.visit.support
    suite, estimate = benchmark.suite, benchmark.estimate
    total = estimate.total
    time = "unknown time" if estimate.seconds is None else f"about {duration(estimate.seconds)}"
    lines = [
        f"{len(suite.scenarios)} scenarios, controls included, with "
        f"{', '.join(suite.policies)} and {len(suite.seeds)} seeds: "
        f"{_how_sure(probe)}{grouped(total.calls)} calls, "
        f"{grouped(total.prompt_tokens)} tokens in, {grouped(total.completion_tokens)} out, "
        f"{_money(probe)}, {time} with {probe.speed.side_by_side} calls side by side. Of "
        f"{grouped(total.asked)} questions {grouped(total.distinct)} are distinct; the store "
        "answers the others.",
        _COURSE,
    ]
    if benchmark.is_scaled:
        lines.append(f"{_SCALED} {_UPPER_BOUND}" if _is_upper_bound(probe) else _SCALED)
    if not support.usage:
        lines.append(_GUESSED)
    return lines


def _is_upper_bound(probe: Probe) -> bool:
    return probe.benchmark.is_scaled and probe.visit.settings.temperature == 0


def _how_sure(probe: Probe) -> str:
    if not probe.benchmark.is_scaled:
        return ""
    return "at most " if _is_upper_bound(probe) else "about "


def _money(probe: Probe) -> str:
    settings, cost = probe.visit.settings, probe.benchmark.estimate.cost
    preset = load_presets().get(settings.preset or "")
    if cost is None:
        return "no known price (--price-in, --price-out)"
    prices = f"at {settings.price_in:g} and {settings.price_out:g} US dollars a million"
    is_presets = preset is not None and preset.price_in == settings.price_in
    note = f"; {preset.price_note}" if preset is not None and is_presets else ""
    return f"{cost:.2f} US dollars ({prices}{note})"


def _table(title: str, heads: list[str], rows: list[list[str]], words: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for head in heads:
        table.add_column(head, justify="left" if head in words else "right")
    for row in rows:
        table.add_row(*(visible(cell) for cell in row))
    return table


def grouped(number: int) -> str:
    """A whole number with its digits in groups of three.

    Args:
        number: The number.

    Returns:
        The text.
    """
    return f"{number:,}".replace(",", " ")


def duration(seconds: float) -> str:
    """A time in words, to two units.

    Args:
        seconds: The time.

    Returns:
        Such as "2 h 5 min".
    """
    if seconds < 1:
        return "under a second"
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
