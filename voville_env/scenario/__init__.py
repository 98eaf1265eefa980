"""Scenarios: the file format, the checks, and the way to the core's arrays."""

from voville_env.scenario.load import World, data_path, load_map, load_world, scenario_names
from voville_env.scenario.schema import Persona, Scenario

__all__ = [
    "Persona",
    "Scenario",
    "World",
    "data_path",
    "load_map",
    "load_world",
    "scenario_names",
]
