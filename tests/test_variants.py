"""Names with settings: read, written in one form, and understood wherever a name is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voville_env.benchmarks import replay
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import EpisodeKey, make_policy, plan
from voville_env.errors import InvalidValueError, ScenarioError
from voville_env.events import read_log
from voville_env.policy import BasePolicy, default_setting, load_policy, settable
from voville_env.scenario import load_world
from voville_env.variant import Scalar, Variant, read_value, read_variant, write_value

TALLY = f"{__name__}:Tally"
RADIUS = "perception.hazard_radius"
SCALARS: st.SearchStrategy[Scalar] = st.one_of(
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=8),
)


class Plain(BasePolicy):
    """Has no settings of its own."""


@dataclass
class Fielded(BasePolicy):
    """Has one, as a field."""

    patience: int = 1


class Tally(BasePolicy):
    """Waits, and says what it was given."""

    def __init__(self, step: int = 1, words: str = "", backbone: object = None) -> None:
        super().__init__(name="tally")
        self.given = {"step": step, "words": words}

    def act(self, observations: object, infos: object) -> dict[str, int]:
        return dict.fromkeys(observations, 0)  # type: ignore[call-overload, no-any-return]

    def settings(self) -> dict[str, object]:
        return dict(self.given)


@given(st.dictionaries(st.from_regex(r"\A[a-z_]{1,5}(\.[a-z]{1,3})?\Z"), SCALARS, max_size=4))
def test_what_is_written_is_read_again(settings: dict[str, Scalar]) -> None:
    variant = Variant("module.name:Thing", settings)
    again = read_variant(variant.name)
    assert again.base == variant.base
    assert [(key, type(value), value) for key, value in sorted(again.settings.items())] == [
        (key, type(value), value) for key, value in sorted(settings.items())
    ]
    assert again.name == variant.name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pave", "pave"),
        ("pave@threshold=50,risk_model=bands", "pave@risk_model=bands,threshold=50"),
        ("pave@ b = 1e1 , a='x,y' ", 'pave@a="x,y",b=10.0'),
        ('pave@a="bands",b=0x10', "pave@a=bands,b=16"),
        ('pave@a="50",b="true"', 'pave@a="50",b="true"'),
        ("pave@a=010,b=12:30,c=no", "pave@a=010,b=12:30,c=no"),
        ("people/mine@home.toml", "people/mine@home.toml"),
        ("mine@home.toml@clock.days=2", "mine@home.toml@clock.days=2"),
    ],
)
def test_a_name_has_one_form(text: str, name: str) -> None:
    assert read_variant(text).name == name


def test_values_are_toml_scalars_or_words() -> None:
    texts = ("5", "5.0", "true", "True", "010", "12:30", "1979-05-27", '"5"', "a/b")
    values = (5, 5.0, True, "True", "010", "12:30", "1979-05-27", "5", "a/b")
    assert [(type(value), value) for value in map(read_of, texts)] == [
        (type(value), value) for value in values
    ]


def read_of(text: str) -> Scalar:
    return read_value(text, "value")


@pytest.mark.parametrize(
    "text", ["", "nan", "-inf", "[1", "1#2", '"a"\nb = 2', "a b", '"a', '"a\\q"', "{a=1}"]
)
def test_other_values_are_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"value is .* allowed: a finite number"):
        read_value(text, "value")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pave@", "has '' after '@'; allowed: key=value"),
        ("pave@threshold", "has 'threshold' after '@'"),
        ("pave@threshold=", "has 'threshold='"),
        ("pave@a=1,", "has '' after '@'"),
        ("pave@a=1,,b=2", "has ',b=2'"),
        ("pave@a=1,a=2", "gives 'a' twice"),
        ("pave@a=nan", "'a' in 'pave@a=nan' is 'nan'"),
    ],
)
def test_settings_that_cannot_be_read_are_named(text: str, words: str) -> None:
    with pytest.raises(InvalidValueError, match="^.*" + words):
        read_variant(text)


def test_a_word_that_looks_like_a_number_keeps_its_quotes() -> None:
    assert [write_value(text) for text in ("5", "five", "true", "nan")] == [
        *('"5"', "five", '"true"', '"nan"'),
    ]


def test_a_policy_takes_its_settings_from_its_name() -> None:
    made = load_policy(f"{TALLY}@step=3,words=many", words="few")
    assert isinstance(made, Tally) and made.given == {"step": 3, "words": "many"}
    assert default_setting(TALLY, "step") == 1
    assert default_setting(f"{TALLY}@step=7", "step") == 7
    assert default_setting(TALLY, "backbone") is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{TALLY}@stepp=3", "setting of policy .* is 'stepp'; allowed: step, words; did you mean"),
        (f"{TALLY}@backbone=chat", "is 'backbone'; allowed: step, words"),
        ("lawful@speed=3", "setting of policy 'lawful' is 'speed'"),
        ("lawfull@speed=3", "policy is 'lawfull'; .* did you mean 'lawful'"),
        (f"{TALLY}@a-b=1,a_b=2", "gives 'a_b' twice"),
    ],
)
def test_a_setting_that_a_policy_does_not_have_is_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        load_policy(name)
    with pytest.raises(InvalidValueError, match=words):
        make_policy(plan(["jaywalk"], [name], seeds=1), name)


@pytest.mark.parametrize("key", ["briefing", "idle_when_settled", "privileged"])
def test_what_a_policy_is_cannot_be_set_by_whoever_plays_it(key: str) -> None:
    for factory, allowed in ((Plain, []), (Fielded, ["patience"])):
        name = f"{__name__}:{factory.__name__}"
        assert settable(name) == allowed
        words = f"is '{key}'; allowed: {', '.join(allowed) or 'none'}$"
        with pytest.raises(InvalidValueError, match=words):
            load_policy(f"{name}@{key}=true")
        with pytest.raises(InvalidValueError, match=words):
            plan(["jaywalk"], [name], seeds=1, options={key: True})


@pytest.mark.parametrize("key", ["name", "backbone", "stepp"])
def test_an_option_is_a_setting_too(key: str) -> None:
    with pytest.raises(InvalidValueError, match=f"is '{key}'; allowed: step, words"):
        plan(["jaywalk"], [TALLY], seeds=1, options={key: "x"})


def test_the_name_wins_over_an_option() -> None:
    names = [TALLY, f"{TALLY}@step=3"]
    suite = plan(["jaywalk"], names, seeds=1, options={"step": 2, "words": "both"})
    given = [getattr(make_policy(suite, name), "given") for name in suite.policies]  # noqa: B009
    assert given == [{"step": 2, "words": "both"}, {"step": 3, "words": "both"}]


def test_a_scenario_takes_keys_from_its_name() -> None:
    world = load_world(f"fire_escape@{RADIUS}=12,clock.steps_per_tick=2")
    plain = load_world("fire_escape")
    assert world.scenario.perception.hazard_radius == 12
    assert world.scenario.clock.steps_per_tick == 2
    assert world.scenario.perception.cue_radius == plain.scenario.perception.cue_radius
    settings = f"clock.steps_per_tick=2,{RADIUS}=12"
    assert world.scenario.name == f"fire_escape@{settings}"
    assert world.scenario.control == f"fire_escape_control@{settings}"
    assert load_world(str(world.scenario.control)).scenario.control == world.scenario.control
    assert world.digest() != plain.digest()
    assert load_world(f"fire_escape@{settings}").digest() == world.digest()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fire_escape@perception.hazrad_radius=1", "hazrad_radius.*did you mean 'hazard_radius'"),
        (f"fire_escape@{RADIUS}=many", "key 'perception.hazard_radius' is 'many'"),
        (
            f"fire_escape@{RADIUS}=999",
            "hazard_radius' is 999; allowed: whole numbers from 0 to 100",
        ),
        ("fire_escape@perception=3", "key 'perception' is 3"),
        ("fire_escape@hazard_radius=12", "did you mean 'perception.hazard_radius'"),
        ("fire_escape@hazrad_radius=12", "did you mean 'perception.hazard_radius'"),
        ("fire_escape@oracle.band=1", "oracle.band' is 1; allowed: numbers from 0 below 1$"),
        ("fire_escape@oracle.extra_ticks=0", "extra_ticks' is 0; allowed: numbers above 0$"),
        ("fire_escape@clock.days=true", "clock.days' is true; allowed: whole numbers from 1 to 30"),
        ("jaywalk@confederate_count=x", "count' is 'x'; allowed: whole numbers from 0 to 4$"),
        ("fire_escape@map=5", "key 'map' is 5; allowed: a text$"),
        (
            "fire_escape@perception.severity_model=liner",
            "severity_model' is 'liner'; allowed: linear, walkthrough; did you mean 'linear'",
        ),
        ("fire_escape@name=mine", "key 'name' is 'mine'; allowed: in a scenario file alone"),
        (
            "fire_escape@officers.reactive=true",
            "key 'officers.reactive' is true; allowed: in a scenario file alone .docs/scenarios.md",
        ),
        (
            "fire_escape@agents.schedule.late=true",
            "key 'agents.schedule.late' is true; allowed: in",
        ),
        ("fire_escape@commuter_ids=CC", "key 'commuter_ids' is 'CC'; allowed: in a scenario file"),
        ("fire_escape@pass_window=3", "key 'pass_window' is 3; allowed: in a scenario file"),
        ("fire_escape@clock.days=1", "with clock.days=1: agents.* day is 2; allowed: 1 to 1"),
        (f"fire_escpae@{RADIUS}=1", "scenario is 'fire_escpae'.*did you mean 'fire_escape'"),
    ],
)
def test_a_wrong_key_of_a_scenario_is_named(name: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        load_world(name)


def test_a_file_takes_keys_too_and_may_have_an_at_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a@b=c.toml"
    path.write_text('base = "jaywalk"\nname = "mine"\n', "utf-8")
    assert load_world(str(path)).scenario.name == "mine"
    plain = tmp_path / "mine.toml"
    plain.write_bytes(path.read_bytes())
    world = load_world(f"{plain}@perception.peer_radius=3")
    assert world.scenario.name == "mine@perception.peer_radius=3"
    assert world.scenario.control == "jaywalk_control@perception.peer_radius=3"


def test_names_in_a_plan_have_one_form_and_bring_their_controls() -> None:
    names = ["jaywalk@perception.peer_radius=3,perception.cue_radius=9", "jaywalk"]
    suite = plan(names, [f"{TALLY}@words=x,step=2", f"{TALLY}@step=2,words='x'"], seeds=1)
    keys = "perception.cue_radius=9,perception.peer_radius=3"
    assert suite.scenarios == (
        *(f"jaywalk@{keys}", "jaywalk", f"jaywalk_control@{keys}", "jaywalk_control"),
    )
    assert suite.policies == (f"{TALLY}@step=2,words=x",)
    without = plan(names, ["lawful"], seeds=1, controls=False)
    assert without.scenarios == suite.scenarios[:2]


def test_file_names_of_variants_are_readable_distinct_and_short() -> None:
    names = [f"pave@threshold={n}" for n in range(40, 60)] + [
        f"pave@words={'x' * 300}{n}" for n in "ab"
    ]
    stems = {EpisodeKey("jaywalk", name, 0).stem for name in names}
    assert len(stems) == len(names)
    assert all(len(stem) < 130 for stem in stems)
    assert EpisodeKey("jaywalk", "pave@threshold=50", 0).stem.startswith(
        "jaywalk--pave-threshold-50-"
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a variant of a scenario, with two variants of a policy."""
    folder = tmp_path_factory.mktemp("variants") / "run"
    policies = [f"{TALLY}@step={step}" for step in (1, 2)]
    suite = plan(["jaywalk@perception.peer_radius=3"], policies, quick=True)
    run_suite(suite, folder)
    return folder


def test_variants_stand_apart_in_logs_and_reports(run: Path) -> None:
    headers = [next(read_log(path)) for path in sorted((run / "episodes").iterdir())]
    assert {(item["policy"], item["policy_settings"]["step"]) for item in headers} == {
        (f"{TALLY}@step=1", 1),
        (f"{TALLY}@step=2", 2),
    }
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    assert summary["episodes"] == {"planned": 4, "scored": 4, "failed": 0, "not_run": 0}
    assert [(cell["scenario"], cell["policy"]) for cell in summary["cells"]] == [
        (f"{scenario}@perception.peer_radius=3", f"{TALLY}@step={step}")
        for scenario in ("jaywalk", "jaywalk_control")
        for step in (1, 2)
    ]


def test_a_variant_is_set_against_the_same_variant_of_its_control(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    assert {item["scenario"] for item in summary["baselines"]} <= {
        "jaywalk@perception.peer_radius=3"
    }
    assert {item["second"] for item in summary["baselines"]} == {
        f"{TALLY}@step={step} in jaywalk_control@perception.peer_radius=3" for step in (1, 2)
    }


def test_runs_of_variants_are_replayed_and_reported_again(run: Path) -> None:
    before = (run / "summary.json").read_bytes()
    assert all(result.same for result in replay.replay(run))
    replay.report_again(run)
    assert (run / "summary.json").read_bytes() == before
