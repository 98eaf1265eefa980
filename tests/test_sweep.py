"""Sweeps: what is planned, what the report makes of it, and the command."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from test_report import episode, key, tables_of

from voville_env.benchmarks import replay
from voville_env.benchmarks.folder import planned_suite, read_manifest
from voville_env.benchmarks.report import Report, build_report
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.sensitivity import sensitivity, write_sensitivity
from voville_env.benchmarks.statistics import paired
from voville_env.benchmarks.suite import Sweep, plan
from voville_env.benchmarks.sweep import PARAMETERS, plan_sweep
from voville_env.cli.app import app
from voville_env.errors import InvalidValueError, ScenarioError
from voville_env.metrics import BY_KEY
from voville_env.policy import settable
from voville_env.scenario import load_world, scenario_names
from voville_env.viewer.style import has_matplotlib

SEEDS = range(4)
SWEEP = Sweep(
    parameter="threshold",
    kind="policy",
    key="threshold",
    values=(40, 9, 70),
    defaults={"pave": None},
    metrics=("vr_cafe", "ocr"),
    unset="own",
)
BROKEN = {"pave": 2, "pave@threshold=9": 4, "pave@threshold=40": 3, "pave@threshold=70": 0}
"""In how many of four ticks the rule is broken; one less for the first seed under 40."""


def swept(fallbacks: int = 0) -> Report:
    planned = [key("fire_escape", *names) for names in product(BROKEN, SEEDS)]
    scored = []
    for item in planned:
        policy = item["policy"]
        less = policy.endswith("40") and item["seed"] == 0
        spoilt = fallbacks * policy.endswith("70")
        scored.append(
            episode(**item, broken=BROKEN[policy] - less, verdicts=spoilt, fallbacks=spoilt)
        )
    return build_report(scored, planned, [], sweep=SWEEP)


def rows(report: Report) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report.summary()["sensitivity"]
    return found


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda item: item.name)
def test_the_catalogue_holds_what_exists(parameter: Any) -> None:
    assert set(parameter.metrics) <= set(BY_KEY)
    assert set(parameter.scenarios) <= set(scenario_names())
    assert len(set(parameter.values)) == len(parameter.values) > 1
    if parameter.kind == "policy":
        assert parameter.key in settable("pave")
        return
    suite = plan_sweep(parameter.name, scenarios=parameter.scenarios[:1], seeds=1)
    assert len(suite.scenarios) == len(parameter.values), "the default is one of them"
    section, name = parameter.key.split(".")
    values = [
        getattr(getattr(load_world(scenario).scenario, section), name)
        for scenario in suite.scenarios
    ]
    assert sorted(map(str, values)) == sorted(map(str, parameter.values))


def test_a_scenario_is_varied_beside_itself() -> None:
    suite = plan_sweep("peer-radius", "3,12", policies=["lawful", "direct"], seeds=2)
    assert suite.scenarios == ("jaywalk", "jaywalk@perception.peer_radius=3")
    assert suite.policies == ("lawful", "direct")
    assert suite.sweep is not None
    assert suite.sweep.defaults == {"jaywalk": 12} and suite.sweep.values == (3, 12)
    assert "sweep" not in suite.described()


def test_a_policy_is_varied_beside_itself_and_keeps_its_other_settings() -> None:
    names = ["pave@peer_text=true", "pave-no-gate"]
    suite = plan_sweep("oscillation_guard", "off", policies=names, scenarios=["jaywalk"], seeds=1)
    assert suite.policies == (
        "pave@peer_text=true",
        "pave@oscillation_guard=off,peer_text=true",
        "pave-no-gate",
        "pave-no-gate@oscillation_guard=off",
    )
    assert suite.sweep is not None
    assert set(suite.sweep.defaults) == {"pave@peer_text=true", "pave-no-gate"}
    assert suite.sweep.of("jaywalk", suite.policies[1])[1] == "off"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "hazard_radios"}, "parameter is .* did you mean 'hazard_radius'"),
        ({"name": "lst"}, "parameter is 'lst'; .*, list; did you mean 'list'"),
        ({"name": "peer_radius", "values": "3,6,3"}, "values of peer_radius give 3 twice"),
        (
            {"name": "hazard_radius", "scenarios": ["fire_escape", "jaywalk"]},
            "hazard_radius cannot act in 'jaywalk', which has no fires; allowed: .* fire_escape",
        ),
        (
            {"name": "instruction_radius", "scenarios": ["fire_escape"]},
            "instruction_radius cannot act in 'fire_escape', which has no officers",
        ),
        ({"name": "peer_radius", "values": "12"}, "another than the default 12"),
        ({"name": "peer_radius", "values": "3,,4"}, "peer_radius is ''"),
        (
            {"name": "oscillation_guard", "policies": ["lawful"]},
            "setting of policy 'lawful' is 'oscillation_guard'",
        ),
        (
            {"name": "oscillation_guard", "policies": ["pave@oscillation_guard=off"]},
            "sets 'oscillation_guard' itself",
        ),
        (
            {"name": "oscillation_guard", "options": {"oscillation_guard": "off"}},
            "is what is swept; leave it out",
        ),
    ],
)
def test_what_cannot_be_swept_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        plan_sweep(**given)


def test_a_value_that_the_scenario_does_not_allow_is_refused() -> None:
    with pytest.raises(ScenarioError, match="peer_radius' is 99"):
        plan_sweep("peer_radius", "3,99", policies=["lawful"])


def test_every_value_is_set_against_the_default() -> None:
    found = rows(swept())
    assert [(row["value"], row["metric"]) for row in found] == [
        *((None, "vr_cafe"), (9, "vr_cafe"), (40, "vr_cafe"), (70, "vr_cafe")),
    ], "values in order, the default first; nothing was measured of OCR"
    default, nine, forty, seventy = found
    assert [row["mean"] for row in found] == [0.5, 1.0, 0.6875, 0.0]
    assert default["default"] == "true" and default["difference"] is None
    assert (forty["seeds"], forty["difference_seeds"], forty["difference"]) == (4, 4, 0.1875)
    one = paired({0: 0.5, 1: 0.75, 2: 0.75, 3: 0.75}, dict.fromkeys(SEEDS, 0.5))
    assert forty["p"] == pytest.approx(one.p, abs=1e-6)
    assert (forty["difference_low"], forty["difference_high"]) == pytest.approx(
        (one.low, one.high), abs=1e-6
    )
    assert [row["p"] for row in (nine, seventy)] == [0.125, 0.125], "signs of four seeds"
    assert forty["p_holm"] == pytest.approx(3 * (one.p or 0), abs=1e-6)
    assert [row["p_holm"] for row in (nine, seventy)] == [0.25, 0.25]
    assert seventy["difference"] == -0.5 and seventy["verdict"] == "not distinguishable"


def test_the_report_has_a_section_of_it() -> None:
    report = swept()
    table = tables_of(report)["Sensitivity to threshold: fire_escape, pave"]
    lines = [line.split(" | ") for line in table.splitlines() if "VR_cafe (tick)" in line]
    assert [line[1] for line in lines] == ["own (default)", "9", "40", "70"]
    assert lines[2][2:6] == ["4", "0.69", "[0.49, 0.89]", "0.19"]
    assert "Holm" in table and "Sensitivity to threshold" in report.html()
    assert "Paired differences on shared seeds" not in tables_of(report), "one correction, not two"
    assert report.tables()[0].title == "Sensitivity to threshold: fire_escape, pave"


def test_what_is_not_scoreable_is_compared_with_nothing() -> None:
    report = swept(fallbacks=4)
    *others, seventy = rows(report)
    assert seventy["scoreable"] == "false"
    assert seventy["mean"] is None and seventy["difference"] is None
    assert [row["p_holm"] for row in others[1:2]] == [0.125], "a family of two now"
    table = tables_of(report)["Sensitivity to threshold: fire_escape, pave"]
    assert "| 70 | 0 | not scoreable |" in table


def test_a_sweep_of_which_nothing_was_scored_says_so() -> None:
    planned = [key("fire_escape", name, 0) for name in BROKEN]
    report = build_report([], planned, [], sweep=SWEEP)
    assert rows(report) == [] and report.points() == []
    assert "Nothing was scored that it should move." in report.markdown()


def test_points_of_a_scenario_sweep_are_grouped_by_scenario_and_policy() -> None:
    names = ("fire_escape", "fire_escape@perception.hazard_radius=12")
    sweep = Sweep(
        parameter="hazard_radius",
        kind="scenario",
        key="perception.hazard_radius",
        values=(12, 0),
        defaults={"fire_escape": 0},
        metrics=("urv",),
        words={"0": "own reach"},
    )
    planned = [key(*item) for item in product(names, ("pave", "oracle"), SEEDS)]
    report = build_report([episode(**item) for item in planned], planned, [], sweep=sweep)
    found = [(p.scenario, p.policy, p.value, p.label) for p in sensitivity(report.cells, sweep)]
    assert found == [
        ("fire_escape", "pave", 0, "own reach (0, default)"),
        ("fire_escape", "pave", 12, "12"),
        ("fire_escape", "oracle", 0, "own reach (0, default)"),
        ("fire_escape", "oracle", 12, "12"),
    ]
    assert any(name.startswith("Paired differences") for name in tables_of(report))


@pytest.mark.skipif(not has_matplotlib(), reason="figures need matplotlib")
@pytest.mark.parametrize("words", [{}, {"0": "own reach"}], ids=["numbers", "words"])
def test_a_figure_names_what_is_no_quantity_and_marks_the_default(
    words: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from voville_env.viewer import style

    drawn: list[Any] = []

    def image(figure: Any, kind: str) -> bytes:
        drawn.append(figure)
        return kind.encode()

    monkeypatch.setattr(style, "image", image)
    sweep = Sweep(
        parameter="hazard_radius",
        kind="scenario",
        key="perception.hazard_radius",
        values=(12, 0),
        defaults={"fire_escape": 0},
        metrics=("urv", "vr_cafe"),
        words=words,
    )
    names = ("fire_escape", "fire_escape@perception.hazard_radius=12")
    planned = [key(*item) for item in product(names, ("pave",), SEEDS)]
    report = build_report([episode(**item) for item in planned], planned, [], sweep=sweep)
    write_sensitivity(tmp_path, report.points())
    figure, axes = drawn[0], drawn[0].axes[0]
    assert len(drawn) == len(figure.axes) == 2
    title = "fire_escape, pave on surrogate: mean over seeds (n = 4), 95% interval"
    assert figure.get_suptitle() == title
    ticks = [(tick.get_position()[0], tick.get_text()) for tick in axes.get_xticklabels()]
    numbers = [(0, "0\n(default)"), (12, "12")]
    assert ticks == ([(0, "own reach\n(0, default)"), (1, "12")] if words else numbers)
    assert axes.get_ylabel() == "rate (tick)" and axes.get_xlabel() == "hazard_radius"
    assert axes.lines[0].get_linestyle() == ("None" if words else "-"), "no line to a word"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small sweep, played."""
    folder = tmp_path_factory.mktemp("sweep") / "run"
    suite = plan_sweep("peer_radius", "3", policies=["random"], seeds=2, days=1)
    run_suite(suite, folder)
    return folder


def test_the_manifest_says_what_was_swept(run: Path) -> None:
    kept = read_manifest(run)["sweep"]
    assert (kept["parameter"], kept["values"], kept["defaults"]) == (
        *("peer_radius", [3, 12], {"jaywalk": 12}),
    )
    suite = planned_suite(run)
    again = plan_sweep("peer_radius", "3", policies=["random"], seeds=2, days=1)
    assert suite == again and suite.digest() == again.digest()
    assert "Swept: peer_radius, 3, 12" in (run / "report.md").read_text("utf-8")


def test_a_sweep_is_resumed_as_any_run_and_reported_the_same(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.glob("*") if path.is_file()}
    run_suite(planned_suite(run), run, resume=True)
    assert {path: path.read_bytes() for path in run.glob("*") if path.is_file()} == before
    other = plan_sweep("peer_radius", "4", policies=["random"], seeds=2, days=1)
    unswept = replace(planned_suite(run), sweep=None)
    for suite in (other, unswept):
        with pytest.raises(InvalidValueError, match="another plan"):
            run_suite(suite, run, resume=True)


def test_the_numbers_are_written_as_csv_and_drawn(run: Path) -> None:
    text = (run / "sensitivity.csv").read_bytes().decode("utf-8")
    found = list(csv.DictReader(text.splitlines()))
    kept = json.loads((run / "summary.json").read_text("utf-8"))["sensitivity"]
    assert [row["value"] for row in found] == [str(row["value"]) for row in kept]
    assert {row["metric"] for row in found} >= {"cr_d1", "non_observer_conversion"}
    assert text.count("\r\n") == text.count("\n") == 1 + len(kept)
    drawn = sorted(path.name for path in run.glob("sensitivity-*"))
    assert drawn == (
        [f"sensitivity-jaywalk--random.{kind}" for kind in ("png", "svg")]
        if has_matplotlib()
        else []
    )


def test_an_ordinary_run_knows_of_no_sweep(tmp_path: Path) -> None:
    suite = plan(["jaywalk"], ["lawful"], quick=True)
    summary, _ = run_suite(suite, tmp_path / "run")
    assert "sweep" not in summary and "sweep" not in read_manifest(tmp_path / "run")
    assert "sweep" not in summary["suite"]
    assert not (tmp_path / "run" / "sensitivity.csv").exists()


def command(*args: str) -> Any:
    from typer.testing import CliRunner

    return CliRunner().invoke(app, ["sweep", *args])


def test_the_command_lists_what_there_is() -> None:
    listed = json.loads(command("list", "--json").stdout)
    assert [item["name"] for item in listed] == [item.name for item in PARAMETERS]
    shown = command("list").stdout
    assert all(item.name in shown for item in PARAMETERS)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where matplotlib is not installed; drawing takes most of the time of a small run."""
    monkeypatch.setattr("voville_env.viewer.style.has_matplotlib", lambda: False)


@pytest.mark.usefixtures("undrawn")
def test_the_command_plays_prints_and_resumes(tmp_path: Path) -> None:
    args = ("--values", "3", "--policy", "lawful", "--seeds", "1", "--days", "1", "--jobs", "1")
    out = ("--out", str(tmp_path / "run"))
    done = command("peer-radius", *args, *out)
    assert done.exit_code == 0 and "Sensitivity to peer_radius: jaywalk, lawful" in done.stdout
    again = command("--resume", "--json", *out)
    assert again.exit_code == 0 and not list(tmp_path.rglob("*.png"))
    assert json.loads(again.stdout)["episodes"]["scored"] == 2
    assert command("peer_radius", *args, *out, "--resume").exit_code == 0


@pytest.mark.parametrize("args", [("sweep", "peer_radius"), ("bench",)], ids=lambda args: args[0])
def test_who_interrupts_a_run_is_told_how_it_goes_on(
    args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("voville_env.benchmarks.runner.run_suite", interrupted)
    out = tmp_path / "my run"
    done = CliRunner().invoke(app, [*args, "--out", str(out)])
    assert done.exit_code == 130
    assert f"go on with: voville {args[0]} --resume --out '{out}'" in done.stderr


@pytest.mark.usefixtures("undrawn")
def test_a_sweep_is_reported_again_from_its_folder(run: Path) -> None:
    before = (run / "report.md").read_bytes()
    replay.report_again(run)
    assert (run / "report.md").read_bytes() == before and b"Sensitivity to" in before


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "PARAMETER is missing"),
        (("lisst",), "did you mean 'list'"),
        (("--resume", "--out", "x", "--seeds", "2"), "leave all out to go on as planned"),
        (("peer_radios",), "did you mean 'peer_radius'"),
        (("peer_radius", "--model", "m"), "--model is for a backbone"),
    ],
)
def test_wrong_usage_of_the_command_is_refused(args: tuple[str, ...], words: str) -> None:
    done = command(*args)
    assert isinstance(done.exception, InvalidValueError) and words in str(done.exception)


def test_the_page_on_sweeps_holds_the_catalogue(repository: Path) -> None:
    text = (repository / "docs" / "sweeps.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    expected = []
    for item in PARAMETERS:
        values = ", ".join(map(str, item.values))
        places = ", ".join(f"`{name}`" for name in item.scenarios)
        expected.append(f"| `{item.name}` | {item.kind} `{item.key}` | {values} | {places} |")
    assert rows == expected, "in the same order"
