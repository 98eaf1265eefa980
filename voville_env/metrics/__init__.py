"""Metrics of an episode, computed from its saved log alone (requirements, part d)."""

from voville_env.metrics.definitions import (
    BY_KEY,
    METRICS,
    Metric,
    Scope,
    applies,
    companion,
    measure,
    metrics_of,
    metrics_of_episode,
)
from voville_env.metrics.episode import Episode, load_episode
from voville_env.metrics.values import Kind, MetricValue, Unit

__all__ = [
    "BY_KEY",
    "METRICS",
    "Episode",
    "Kind",
    "Metric",
    "MetricValue",
    "Scope",
    "Unit",
    "applies",
    "companion",
    "load_episode",
    "measure",
    "metrics_of",
    "metrics_of_episode",
]
