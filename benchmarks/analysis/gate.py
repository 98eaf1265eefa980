"""The gate: verdict against legitimacy, and where each person's verdicts turn (MET-08, C-46b)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from voville_env.benchmarks.aggregate import Cell
from voville_env.benchmarks.analysis.evidence import Said
from voville_env.benchmarks.analysis.run import Played, Run, over_seeds
from voville_env.benchmarks.analysis.section import Row, Section, estimate, estimate_columns
from voville_env.benchmarks.layout import Table
from voville_env.benchmarks.notes import NOT_SCOREABLE, note_of
from voville_env.benchmarks.statistics import Summary
from voville_env.benchmarks.tables import marked

KEY, TITLE = "gate", "The gate: verdict against legitimacy"
STEP = 5
"""Width of a bin of legitimacy less threshold; one begins at the threshold."""
RISK_DECIDES = (
    "At or above the threshold a person still complies where the risk, as near an officer, decides."
)
_VARIED = "@"
_Seeded = tuple[int, Said]


class Group(NamedTuple):
    """Whose verdicts are read together: a policy's in all plain scenarios.

    A varied scenario, and one that is not scoreable, is a group of its own.
    """

    policy: str
    apart: str
    scoreable: bool

    @property
    def name(self) -> str:
        """The group as titles name it."""
        return f"{self.policy}, {self.apart}" if self.apart else self.policy


class Point(NamedTuple):
    """One person's verdicts at one legitimacy."""

    group: Group
    agent: str
    threshold: int
    legitimacy: int
    verdicts: int
    leaks: int
    share: Summary


class Step(NamedTuple):
    """Everybody's verdicts in one bin of legitimacy less threshold."""

    group: Group
    start: int
    verdicts: int
    leaks: int
    share: Summary


class Person(NamedTuple):
    """One person's verdicts on both sides of their threshold.

    `highest_before` is the highest legitimacy below `lowest_violating`.
    """

    group: Group
    agent: str
    threshold: int
    below: Summary | None
    below_verdicts: int
    above: Summary | None
    above_verdicts: int
    leaks: int
    highest_before: int | None
    lowest_violating: int | None
    highest_complying: int | None

    @property
    def step(self) -> str:
        """Between which two legitimacies the verdicts turn, if they do."""
        if self.below is not None and self.below.mean > 0:
            return "no step: violates below"
        if self.above is None:
            return "threshold never reached"
        if self.lowest_violating is None:
            return "never violates"
        if self.highest_before is None:
            return f"nothing below {self.lowest_violating}"
        return f"{self.highest_before} and {self.lowest_violating}"


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
        Points by group, then by threshold, person and legitimacy; without fallbacks.
    """
    return [
        Point(whose, agent, threshold, legitimacy, len(group), _leaks(group), share)
        for whose, given in verdicts(run).items()
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
        Bins by group, from below.
    """
    return [
        Step(whose, start, len(group), _leaks(group), share)
        for whose, given in verdicts(run).items()
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
        People by group, then by threshold.
    """
    return [
        _person(whose, agent, threshold, group)
        for whose, given in verdicts(run).items()
        for (threshold, agent), group in _grouped(given, lambda one: (one.threshold, one.agent))
    ]


def verdicts(run: Run) -> dict[Group, list[_Seeded]]:
    """The verdicts that a model gave.

    Args:
        run: The run.

    Returns:
        Seed and verdict, by group; controls are left out.
    """
    found: dict[Group, list[_Seeded]] = defaultdict(list)
    for cell, episodes in run.conditions(wanted):
        found[_group_of(cell)] += [
            (played.seed, one) for played in episodes for one in played.said if not one.fallback
        ]
    return found


def _group_of(cell: Cell) -> Group:
    pooled = cell.scoreable and _VARIED not in cell.scenario
    return Group(cell.policy, "" if pooled else cell.scenario, cell.scoreable)


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


def _person(whose: Group, agent: str, threshold: int, group: Sequence[_Seeded]) -> Person:
    below = [item for item in group if item[1].legitimacy < threshold]
    above = [item for item in group if item[1].legitimacy >= threshold]
    violating = [one.legitimacy for _, one in group if one.violates]
    complying = [one.legitimacy for _, one in group if not one.violates]
    lowest = min(violating, default=None)
    before = [n for n in complying if lowest is not None and n < lowest]
    return Person(
        group=whose,
        agent=agent,
        threshold=threshold,
        below=_share(below),
        below_verdicts=len(below),
        above=_share(above),
        above_verdicts=len(above),
        leaks=_leaks(group),
        highest_before=max(before, default=None),
        lowest_violating=lowest,
        highest_complying=max(complying, default=None),
    )


def section(run: Run) -> Section:
    """The section of a run.

    Args:
        run: The run.

    Returns:
        A table of people for each group, and a row for each point; what is not scoreable has no
        numbers but how many verdicts there are.
    """
    found = points(run)
    if not found:
        return Section(KEY, TITLE, nothing="No policy of this run gives verdicts.")
    everybody = people(run)
    tables = tuple(
        _table(run, group, [person for person in everybody if person.group == group])
        for group in dict.fromkeys(person.group for person in everybody)
    )
    return Section(KEY, TITLE, tables, tuple(map(_point_row, found)))


def _point_row(point: Point) -> Row:
    shows = point.group.scoreable
    return {
        "policy": point.group.policy,
        "scenario": point.group.apart or "pooled",
        "agent": point.agent,
        "threshold": point.threshold,
        "legitimacy": point.legitimacy,
        "verdicts": point.verdicts,
        "leaks": point.leaks if shows else None,
        **{
            f"violate_{key}": value
            for key, value in estimate_columns(point.share if shows else None).items()
        },
    }


def _table(run: Run, group: Group, found: Sequence[Person]) -> Table:
    cells = [cell for cell, _ in run.conditions(wanted) if _group_of(cell) == group]
    title = f"The gate under {marked(group.policy, privileged=any(c.privileged for c in cells))}"
    columns = (
        *("person", "threshold", "violate, legitimacy below", "verdicts below"),
        *("violate, at or above", "verdicts at or above", "leaks"),
        *("lowest legitimacy that violates", "highest that complies", "step lies between"),
    )
    return Table(
        f"{title}, {group.apart}" if group.apart else title,
        columns,
        tuple(_row(person) for person in found),
        _note(cells, run),
    )


def _row(person: Person) -> tuple[str, ...]:
    shares = (estimate(person.below), estimate(person.above))
    last = (
        *(str(person.leaks), _plain(person.lowest_violating), _plain(person.highest_complying)),
        person.step,
    )
    if not person.group.scoreable:
        shares, last = (NOT_SCOREABLE, NOT_SCOREABLE), (NOT_SCOREABLE,) * 4
    return (
        *(person.agent, str(person.threshold)),
        *(shares[0], str(person.below_verdicts), shares[1], str(person.above_verdicts)),
        *last,
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
        "below the threshold before the gate; a gate in code turns it into one to comply. The step "
        "lies between the lowest legitimacy that violates and the highest below it that was met: "
        f"the threshold itself may be anywhere between. {RISK_DECIDES}",
    )


def _seeds(run: Run, cells: Sequence[Cell]) -> int:
    return len({seed for cell in cells for seed in cell.scored})
