"""The generative agent's options: every number by name, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from generative_kit import Played

from pave_policy.generative.policy import VanillaPolicy
from pave_policy.generative.settings import GenerativeSettings
from pave_policy.surrogate import Surrogate
from voville_env.errors import InvalidValueError
from voville_env.policy import default_setting, load_policy, settable

SHORT = [1, 44, 56]


def test_the_settings_name_every_number_of_this_agent_and_no_other() -> None:
    settings = VanillaPolicy(reflection_trigger=9).settings()
    json.dumps(settings, allow_nan=False)
    assert settings["reflection_trigger"] == 9 and settings["weight_recency"] == 1
    assert settings["calibration"]["fire"] == [2, 4]
    assert settings["backbone"] == {"name": "surrogate"}
    mechanism = {field.name for field in fields(GenerativeSettings)}
    assert set(settings) == mechanism | {"calibration", "backbone"}


def vanilla(backbone: Any = None, **numbers: Any) -> VanillaPolicy:
    """Also what the signature would refuse."""
    return VanillaPolicy(backbone, **numbers)


class Answering:
    """A backbone that is not the surrogate."""

    name, concurrent = "model", False

    def __getattr__(self, name: str) -> Any:
        return lambda *_: {"name": self.name, "more": 1}


@pytest.mark.parametrize("field", fields(GenerativeSettings), ids=lambda field: field.name)
def test_every_number_of_the_mechanism_is_an_option(field: Any) -> None:
    policy = load_policy(f"vanilla@{field.name}=1")
    assert isinstance(policy, VanillaPolicy)
    assert policy.settings()[field.name] == 1
    assert default_setting("vanilla", field.name) == VanillaPolicy().settings()[field.name]
    assert vanilla(Answering(), **{field.name: 1}).settings()["backbone"]["more"] == 1


def test_options_reach_what_they_are_for() -> None:
    heavy = {"weight_relevance": 50, "retrieved": 3}
    assert vanilla(**heavy).options.weights.relevance == 50
    runs = [
        Played(vanilla(**chosen), "fire_escape", SHORT, seed=3)
        for chosen in ({}, {"flee_at": 10}, {"flee_at": 1})
    ]
    fled = [{r["agent"] for r in run.of("reaction") if r["response"] == "flee"} for run in runs]
    assert fled[1] == set() and fled[0] < fled[2]
    whole, real = (json.dumps(vanilla(weight_relevance=v).settings()) for v in (3, 3.0))
    assert whole == real
    assert Surrogate().calibration.flee_at == 4  # nobody else's is changed
    for name in ("flee_at", "imitate_at", "officer_discount"):
        assert vanilla(**{name: 2}).settings()["calibration"][name] == 2
        with pytest.raises(
            InvalidValueError, match=f"{name} belongs to the surrogate, and 'model'"
        ):
            vanilla(Answering(), **{name: 2})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("reflection_trigger", [0, -1, True, 2.5, "5"]),
        ("retrieved", [0, 1001, None]),
        ("reflected_on", [0, 1.5]),
        ("plan_importance", [0, 11]),
        ("longest_step", [0, -3]),
        ("deepest", [-1, 7, True]),
        ("recency_decay", [-0.1, 1.01, float("nan"), "1", True]),
        ("weight_recency", [-1, float("inf")]),
        ("weight_importance", [float("nan"), None]),
        ("weight_relevance", ["3", -0.5]),
        ("flee_at", [0, 11, 2.5]),
        ("imitate_at", [0, 11]),
        ("officer_discount", [-1, 11, True]),
    ],
)
def test_numbers_that_make_no_sense_are_refused(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidValueError, match=f"^{name} is .*; allowed: "):
            vanilla(**{name: value})


def test_the_table_of_options_is_complete(repository: Path) -> None:
    page = (repository / "docs" / "models.md").read_text("utf-8")
    section = page.partition("## Vanilla's settings")[2].partition("\n## ")[0]
    told = {
        name: float(row[2])
        for row in re.findall(r"^\| ((`\w+`(?:, )?)+) \| ([\d.]+) \|", section, re.MULTILINE)
        for name in re.findall(r"\w+", row[0])
    }
    assert told == {name: default_setting("vanilla", name) for name in settable("vanilla")}


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(InvalidValueError, match="did you mean 'weight_relevance'"):
        VanillaPolicy(weight_relevence=3)
    with pytest.raises(InvalidValueError, match="did you mean 'weight_relevance'"):
        load_policy("vanilla@weight_relevence=3")
    with pytest.raises(InvalidValueError, match="option of vanilla is 'fire'"):
        VanillaPolicy(fire=(1, 2))


@pytest.mark.parametrize("backbone", ["surrogate", 5, object(), Surrogate])
def test_what_is_no_backbone_is_refused(backbone: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"backbone of vanilla is .*allowed: .*Surrogate\("):
        VanillaPolicy(backbone)


class Deaf(Surrogate):
    """A backbone for PAVE alone."""

    react = property()


def test_a_backbone_without_the_operations_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="does not answer react"):
        VanillaPolicy(Deaf())
