"""The gate: verdict against legitimacy, and the step at each person's threshold (MET-08, C-46b)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from voville_env.benchmarks.aggregate import Cell
from voville_env.benchmarks.analysis.evidence import Said
from voville_env.benchmarks.analysis.run import Played, Run, over_seeds
from voville_env.benchmarks.analysis.section import Section, estimate, estimate_columns
from voville_env.benchmarks.layout import Table
from voville_env.benchmarks.notes import note_of
from voville_env.benchmarks.statistics import Summary
from voville_env.benchmarks.tables import marked

KEY, TITLE = "gate", "The gate: verdict against legitimacy"
STEP = 5
"""Width of a bin of legitimacy less threshold; one begins at the threshold."""
_Seeded = tuple[int, Said]


class Point(NamedTuple):
    """One person's verdicts at one legitimacy."""

    policy: str
    agent: str
    threshold: int
    legitimacy: int
    verdicts: int
    leaks: int
    share: Summary


class Step(NamedTuple):
    """Everybody's verdicts in one bin of legitimacy less threshold."""

    policy: str
    start: int
    verdicts: int
    leaks: int
    share: Summary


class Person(NamedTuple):
    """One person's verdicts on both sides of their threshold."""

    policy: str
    agent: str
    threshold: int
    below: Summary | None
    below_verdicts: int
    above: Summary | None
    above_verdicts: int
    leaks: int
    lowest_violating: int | None
    highest_complying: int | None

    @property
    def step(self) -> str:
        """Whether the verdicts make a step at the threshold."""
        if self.below is not None and self.below.mean > 0:
            return "no: violates below"
        if self.above is None:
            return "threshold never reached"
        return "yes" if self.above.mean > 0 else "never violates"


def wanted(played: Played) -> bool:
    """Whether an episode is analysed.

    Args:
        played: The episode.

    Returns:
        True where the policy gave verdicts, but for controls.
    """
    return bool(played.said) and not played.is_control


def points(run: Run) -> list[Point]:
    """The verdicts of each policy, person, threshold and legitimacy.

    Args:
        run: The run.

    Returns:
        Points by policy, then by threshold, person and legitimacy; without fallbacks.
    """
    return [
        Point(policy, agent, threshold, legitimacy, len(group), _leaks(group), share)
        for policy, given in verdicts(run).items()
        for (threshold, agent, legitimacy), group in _grouped(
            given, lambda one: (one.threshold, one.agent, one.legitimacy)
        )
        if (share := _share(group)) is not None
    ]


def steps(run: Run) -> list[Step]:
    """The verdicts of each policy by how far legitimacy lies above the threshold.

    Args:
        run: The run.

    Returns:
        Bins by policy, from below.
    """
    return [
        Step(policy, start, len(group), _leaks(group), share)
        for policy, given in verdicts(run).items()
        for start, group in _grouped(
            given, lambda one: (one.legitimacy - one.threshold) // STEP * STEP
        )
        if (share := _share(group)) is not None
    ]


def people(run: Run) -> list[Person]:
    """Each person's verdicts on both sides of their threshold.

    Args:
        run: The run.

    Returns:
        People by policy, then by threshold.
    """
    return [
        _person(policy, agent, threshold, group)
        for policy, given in verdicts(run).items()
        for (threshold, agent), group in _grouped(given, lambda one: (one.threshold, one.agent))
    ]


def verdicts(run: Run) -> dict[str, list[_Seeded]]:
    """The verdicts that a model gave.

    Args:
        run: The run.

    Returns:
        Seed and verdict, by policy; scenarios are pooled, controls are left out.
    """
    found: dict[str, list[_Seeded]] = defaultdict(list)
    for cell, episodes in run.conditions(wanted):
        found[cell.policy] += [
            (played.seed, one) for played in episodes for one in played.said if not one.fallback
        ]
    return found


def _grouped(
    given: Iterable[_Seeded], key: Callable[[Said], Any]
) -> list[tuple[Any, list[_Seeded]]]:
    groups: dict[Any, list[_Seeded]] = defaultdict(list)
    for seed, one in given:
        groups[key(one)].append((seed, one))
    return [(found, groups[found]) for found in sorted(groups)]


def _leaks(group: Iterable[_Seeded]) -> int:
    return sum(one.leak for _, one in group)


def _share(group: Sequence[_Seeded]) -> Summary | None:
    """Share of verdicts to violate: pooled in a seed, then over seeds."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for seed, one in group:
        counts[seed][0] += one.violates
        counts[seed][1] += 1
    return over_seeds((hits / all_ for hits, all_ in counts.values()), len(group))


def _person(policy: str, agent: str, threshold: int, group: Sequence[_Seeded]) -> Person:
    below = [item for item in group if item[1].legitimacy < threshold]
    above = [item for item in group if item[1].legitimacy >= threshold]
    violating = [one.legitimacy for _, one in group if one.violates]
    complying = [one.legitimacy for _, one in group if not one.violates]
    return Person(
        policy=policy,
        agent=agent,
        threshold=threshold,
        below=_share(below),
        below_verdicts=len(below),
        above=_share(above),
        above_verdicts=len(above),
        leaks=_leaks(group),
        lowest_violating=min(violating, default=None),
        highest_complying=max(complying, default=None),
    )


def section(run: Run) -> Section:
    """The section of a run.

    Args:
        run: The run.

    Returns:
        A table of people for each policy, and a row for each point.
    """
    found = points(run)
    if not found:
        return Section(KEY, TITLE, nothing="No policy of this run gives verdicts.")
    rows = tuple(
        {
            "policy": point.policy,
            "agent": point.agent,
            "threshold": point.threshold,
            "legitimacy": point.legitimacy,
            "verdicts": point.verdicts,
            "leaks": point.leaks,
            **{f"violate_{key}": v for key, v in estimate_columns(point.share).items()},
        }
        for point in found
    )
    everybody = people(run)
    policies = dict.fromkeys(person.policy for person in everybody)
    tables = tuple(
        _table(run, policy, [person for person in everybody if person.policy == policy])
        for policy in policies
    )
    return Section(KEY, TITLE, tables, rows)


def _table(run: Run, policy: str, found: Sequence[Person]) -> Table:
    cells = [cell for cell, _ in run.conditions(wanted) if cell.policy == policy]
    title = f"The gate under {marked(policy, privileged=any(c.privileged for c in cells))}"
    columns = (
        *("person", "threshold", "violate, legitimacy below", "verdicts below"),
        *("violate, at or above", "verdicts at or above", "leaks"),
        *("lowest legitimacy that violates", "highest that complies", "step at the threshold"),
    )
    return Table(title, columns, tuple(_row(person) for person in found), _note(cells, run))


def _row(person: Person) -> tuple[str, ...]:
    return (
        person.agent,
        str(person.threshold),
        estimate(person.below),
        str(person.below_verdicts),
        estimate(person.above),
        str(person.above_verdicts),
        str(person.leaks),
        _plain(person.lowest_violating),
        _plain(person.highest_complying),
        person.step,
    )


def _plain(value: int | None) -> str:
    return "–" if value is None else str(value)


def _note(cells: Sequence[Cell], run: Run) -> str:
    fallbacks = sum(
        one.fallback
        for cell, episodes in run.conditions(wanted)
        if cell in cells
        for played in episodes
        for one in played.said
    )
    left_out = f" {fallbacks} fallbacks are left out." if fallbacks else ""
    return note_of(
        cells,
        "Unit: verdict, reused ones counted again; a share is pooled in a seed, then over "
        f"{_seeds(run, cells)} seeds, with the 95% interval.{left_out} "
        f"Scenarios: {', '.join(cell.scenario for cell in cells)}. A leak is a verdict to violate "
        "below the threshold before the gate; a gate in code turns it into one to comply.",
    )


def _seeds(run: Run, cells: Sequence[Cell]) -> int:
    return len({seed for cell in cells for seed in cell.scored})
