"""Both sides of the error: breaking a rule without a warrant, and keeping it in spite of one."""

from __future__ import annotations

from collections.abc import Iterator

from voville_env.core.codes import Label
from voville_env.metrics.episode import Episode, Row
from voville_env.metrics.values import (
    TREL,
    UNREL,
    MetricValue,
    Unit,
    correlation,
    nothing,
    runs,
    share,
)

NO_LABELS = "no such label"


def _labelled(episode: Episode, *, unrelated: bool) -> Iterator[tuple[Row, Label]]:
    """Rows of one set of rules with their labels; NONE where that set has none."""
    rules = UNREL if unrelated else TREL
    for row in episode.rows:
        if row.stake & rules:
            yield row, row.label_unrelated if unrelated else row.label


def _cases(episode: Episode, unit: Unit, wanted: Label, *, unrelated: bool) -> list[list[Row]]:
    """The cases with a label, each as its rows: single ticks, or runs of them.

    A label is about the whole set of rules, so here an encounter is too.
    """
    rows = [r for r, label in _labelled(episode, unrelated=unrelated) if label is wanted]
    return [[row] for row in rows] if unit is Unit.TICK else list(runs(rows))


def false_violation(episode: Episode, unit: Unit, *, unrelated: bool) -> MetricValue:
    """Violated though unwarranted ÷ opportunities labelled unwarranted (authorised: no violation).

    Args:
        episode: The episode.
        unit: Tick or encounter.
        unrelated: Which set of rules.

    Returns:
        A share pooled over agents; `unlabelled` counts violations without a label.
    """
    rules = UNREL if unrelated else TREL
    unlabelled = sum(
        1
        for row, label in _labelled(episode, unrelated=unrelated)
        if label is Label.NONE and row.violated & rules
    )
    cases = _cases(episode, unit, Label.UNWARRANTED, unrelated=unrelated)
    hits = sum(any(row.violated & rules for row in case) for case in cases)
    return share(hits, len(cases), NO_LABELS, unlabelled=unlabelled)


def false_compliance(episode: Episode, unit: Unit, *, unrelated: bool) -> MetricValue:
    """Complied though warranted ÷ opportunities labelled warranted.

    Who meant to break the rule and could not move did not comply: `blocked` counts cases without a
    violation in which a move failed, and the numerator leaves them out.

    Args:
        episode: The episode.
        unit: Tick or encounter.
        unrelated: Which set of rules.

    Returns:
        A share pooled over agents.
    """
    rules = UNREL if unrelated else TREL
    cases = _cases(episode, unit, Label.WARRANTED, unrelated=unrelated)
    kept = [case for case in cases if not any((r.violated | r.authorised) & rules for r in case)]
    blocked = sum(1 for case in kept if any(row.blocked for row in case))
    return share(len(kept) - blocked, len(cases), NO_LABELS, blocked=blocked)


def contested(episode: Episode, unit: Unit, *, unrelated: bool) -> MetricValue:
    """Opportunities on which the environment's own tests disagree ÷ labelled opportunities.

    Args:
        episode: The episode.
        unit: Tick.
        unrelated: Which set of rules.

    Returns:
        A share pooled over agents.
    """
    labels = [label for _, label in _labelled(episode, unrelated=unrelated)]
    labels = [label for label in labels if label is not Label.NONE]
    return share(labels.count(Label.CONTESTED), len(labels), "no labels")


def label_correlation(episode: Episode, unit: Unit) -> MetricValue:
    """Correlation of the environment's label (1 to 3) with breaking the rule, rules R1 to R3.

    The counterpart, without policy records, of the correlation with legitimacy (MET-02).

    Args:
        episode: The episode.
        unit: Tick.

    Returns:
        Pearson's r over opportunities.
    """
    pairs = [
        (float(label), float(bool(row.violated & TREL)))
        for row, label in _labelled(episode, unrelated=False)
        if label is not Label.NONE
    ]
    found = correlation([x for x, _ in pairs], [y for _, y in pairs])
    if found is None:
        return nothing("label or conduct is constant", pairs=len(pairs))
    return MetricValue(found, None, None, len(pairs))
