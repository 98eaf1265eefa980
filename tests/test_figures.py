"""The folder `analysis/`: figures, page and CSV, the same each time, and without matplotlib."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from analysis_kit import OFFICERS, PEERS, fire_log, full_run, log, save_run
from typer.testing import CliRunner

from voville_env.benchmarks.analysis.write import write_analysis
from voville_env.cli.app import app
from voville_env.errors import InvalidValueError, MissingExtraError
from voville_env.metrics import BY_KEY
from voville_env.viewer import figures, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECTIONS = ("gate", "suppression", "recovery", "failure_modes", "importance", "expectations")
FIGURES: dict[str, Callable[[Path], Figure]] = {
    "gate": figures.gate_figure,
    "suppression": figures.suppression_figure,
    "recovery": figures.recovery_figure,
    "failure_modes": figures.failure_modes_figure,
    "importance": figures.importance_figure,
    "expectations": figures.expectations_figure,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return full_run(tmp_path_factory.mktemp("analysis") / "run")


@pytest.fixture(scope="module")
def analysis(run: Path) -> Path:
    return write_analysis(run).folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def words(figure: Figure) -> str:
    from matplotlib.text import Text

    return "\n".join(item.get_text() for item in figure.findobj(Text))


def test_every_section_has_its_figure_table_and_csv(analysis: Path) -> None:
    names = {f"{key}.{ending}" for key in SECTIONS for ending in ("csv", "png", "svg")}
    assert set(content(analysis)) == names | {"analysis.md", "analysis.html"}
    text = (analysis / "analysis.md").read_text("utf-8")
    assert all(f"({key}.png)" in text for key in SECTIONS)
    assert "NaN" not in text and "nan" not in re.findall(r"\b\w+\b", text)


def test_csv_files_are_whole_and_have_no_nan(analysis: Path) -> None:
    for key in SECTIONS:
        with (analysis / f"{key}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) > 1 and len({len(row) for row in rows}) == 1, key
        assert not {"nan", "inf", "None"} & {cell for row in rows for cell in row}, key


def test_an_analysis_comes_out_byte_for_byte_the_same(run: Path, analysis: Path) -> None:
    first = content(analysis)
    code = (
        "from pathlib import Path; import sys;"
        "from voville_env.benchmarks.analysis.write import write_analysis;"
        "write_analysis(Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, str(run)], check=False)
    assert done.returncode == 0
    assert content(analysis) == first


class Page(HTMLParser):
    """Collects what a page would fetch or run, and its ids."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.outside: list[str] = []
        self.ids: list[str] = []
        self.inside: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            text = value or ""
            if name == "id":
                self.ids.append(text)
            elif name in ("href", "xlink:href") and text.startswith("#"):
                self.inside.add(text[1:])
            elif name in ("href", "src", "xlink:href") or name.startswith("on"):
                self.outside.append(text)
            self.inside.update(re.findall(r"url\(#([^)]+)\)", text))


def test_the_page_stands_alone(analysis: Path) -> None:
    text = (analysis / "analysis.html").read_text("utf-8")
    page = Page()
    page.feed(text)
    assert not page.outside and not page.tags & {"script", "img", "link", "iframe"}
    assert "@import" not in text and "<!DOCTYPE svg" not in text
    assert text.count("<svg") == len(SECTIONS)
    assert len(page.ids) == len(set(page.ids)) and page.inside <= set(page.ids)


def test_no_figure_carries_a_date_or_a_version(analysis: Path) -> None:
    for key in SECTIONS:
        svg = (analysis / f"{key}.svg").read_text("utf-8")
        assert "<metadata>" not in svg and "dc:date" not in svg, key
        png = (analysis / f"{key}.png").read_bytes()
        assert png.startswith(b"\x89PNG") and b"tEXt" not in png, key


@pytest.mark.parametrize("key", SECTIONS)
def test_figures_name_units_and_n(run: Path, key: str) -> None:
    text = words(FIGURES[key](run))
    assert re.search(r"n = \d+|\d+ verdicts", text), text
    units = {
        "gate": "legitimacy (1 to 100)",
        "suppression": "tiles to the nearest officer",
        "recovery": "ticks since leaving\nthe café",
        "failure_modes": "ticks since the first jaywalk",
        "importance": "points of 100",
        "expectations": "difference from pave (rate)",
    }
    assert units[key] in text


def test_policies_differ_in_colour_and_in_grey() -> None:
    from matplotlib.colors import to_rgb

    names = [f"policy {i}" for i in range(11)]
    seen = style.looks(names)
    assert list(seen) == names
    assert len({(look.marker, str(look.line)) for look in seen.values()}) == len(names)
    assert len({look.marker for look in seen.values()}) == len(names)
    assert len({to_rgb(look.color) for look in list(seen.values())[:7]}) == 7


def test_drawing_leaves_the_users_settings_alone(run: Path) -> None:
    from matplotlib import rcParams

    plain = style.image(figures.importance_figure(run), "svg")
    before = rcParams["font.size"]
    rcParams["font.size"] = 23
    try:
        assert style.image(figures.importance_figure(run), "svg") == plain
        assert rcParams["font.size"] == 23
    finally:
        rcParams["font.size"] = before


def test_drawing_needs_no_pyplot_and_no_display(run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from voville_env.viewer import figures, style;"
        "style.image(figures.importance_figure(Path(sys.argv[1])), 'png');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], check=False, env={"PATH": ""})
    assert done.returncode == 0


def test_without_matplotlib_there_are_tables_and_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = full_run(tmp_path / "run")
    (folder / "analysis").mkdir()
    (folder / "analysis" / "gate.svg").write_text("of an earlier analysis", encoding="utf-8")
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    written = write_analysis(folder)
    assert "voville[figures]" in written.notice and "\n" not in written.notice
    names = {f"{key}.csv" for key in SECTIONS} | {"analysis.md", "analysis.html"}
    assert set(content(written.folder)) == names
    assert "voville[figures]" in (written.folder / "analysis.md").read_text("utf-8")
    with pytest.raises(MissingExtraError, match=r"voville\[figures\]"):
        figures.gate_figure(folder)


def test_what_an_earlier_analysis_showed_does_not_stay(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", [log("random", "fire_escape_control")])
    target = folder / "analysis"
    target.mkdir()
    for name in ("gate.csv", "gate.png", "notes.txt"):
        (target / name).write_text("old", encoding="utf-8")
    write_analysis(folder)
    assert set(content(target)) == {"analysis.md", "analysis.html", "notes.txt"}
    assert "No policy of this run gives verdicts." in (target / "analysis.md").read_text("utf-8")
    with pytest.raises(InvalidValueError, match="nothing to draw"):
        figures.gate_figure(folder)


def test_an_analysis_is_not_written_elsewhere(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", [log("random")])
    (tmp_path / "elsewhere").mkdir()
    (folder / "analysis").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidValueError, match="leads elsewhere"):
        write_analysis(folder)
    assert not content(tmp_path / "elsewhere")


def test_a_quick_run_is_marked_as_no_score(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", [log("random")], quick=True)
    text = (write_analysis(folder).folder / "analysis.md").read_text("utf-8")
    assert "no score" in text


def test_the_surrogate_and_unfinished_episodes_are_named(run: Path, tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", [log("pave")], seeds=[0, 1, 2])
    text = (write_analysis(folder).folder / "analysis.md").read_text("utf-8")
    assert "Episodes: 3 planned, 1 finished and analysed." in text
    assert "not evidence about language models" in text


def test_report_analyses_one_run_and_says_where(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", [log("random")])
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    assert "analysis.html" in done.output
    assert (folder / "analysis" / "analysis.html").exists()
    as_json = CliRunner().invoke(app, ["report", str(folder), "--json"])
    assert json.loads(as_json.stdout)["episodes"]["scored"] == 1


@pytest.mark.parametrize(
    ("extra", "message"),
    [(["--out", "x"], "with several runs alone"), (["{run}"], "several runs need --out")],
)
def test_report_refuses_what_it_cannot_do(tmp_path: Path, extra: list[str], message: str) -> None:
    folder = save_run(tmp_path / "run", [log("random")])
    given = [item.format(run=folder) for item in extra]
    done = CliRunner().invoke(app, ["report", str(folder), *given])
    assert done.exit_code != 0 and isinstance(done.exception, InvalidValueError)
    assert message in str(done.exception)
    assert not (folder / "analysis").exists()


def test_a_sweep_is_one_panel_a_metric_with_its_intervals() -> None:
    points = [
        figures.SweepPoint(value, metric, 0.1 * number, 0.0, 0.5)
        for number, value in enumerate((40, 50, 60))
        for metric in ("urv", "cr_d1", "harm")
    ]
    figure = figures.line_of_sweep(points, "threshold (1 to 100)")
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == ["URV", "CR_D1", BY_KEY["harm"].title]
    line = figure.axes[0].get_lines()[0]
    assert np.asarray(line.get_xdata()).tolist() == [40, 50, 60]
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([0, 0.1, 0.2])
    assert "threshold (1 to 100)" in words(figure)
    by_name = [figures.SweepPoint(name, "urv", 0.5, None, None) for name in ("linear", "bands")]
    labels = [tick.get_text() for tick in figures.line_of_sweep(by_name).axes[0].get_xticklabels()]
    assert labels == ["linear", "bands"]
    with pytest.raises(InvalidValueError, match="nothing to draw"):
        figures.line_of_sweep([])


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (("made_up", 0.1, None, None), "metric is 'made_up'; allowed: vr_cafe"),
        (("urv", 0.5, 0.6, 0.7), "urv at 40 has the mean 0.5 and the interval 0.6 to 0.7"),
        (("urv", 0.5, 0.1, 0.4), "allowed: an interval around the mean"),
        (("urv", float("nan"), None, None), "allowed: an interval around the mean"),
    ],
)
def test_a_sweep_refuses_points_that_cannot_be(
    point: tuple[str, float, float | None, float | None], message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message):
        figures.line_of_sweep([figures.SweepPoint(40, *point)])


def test_figures_take_a_path_as_text(run: Path) -> None:
    assert words(figures.importance_figure(str(run))) == words(figures.importance_figure(run))


def test_a_folder_that_is_no_single_run_is_refused_with_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidValueError, match=r"no manifest.json; allowed: the folder of one run"
    ):
        figures.gate_figure(tmp_path)


def test_the_gate_figure_explains_its_marks_and_has_one_range(tmp_path: Path) -> None:
    logs = [log(policy) for policy in ("pave", "pave-no-gate")]
    for made, legitimacy in zip(logs, (30, 90), strict=True):
        made.verdict("CC", 50, "RED_LIGHT", "comply", legitimacy=legitimacy)
    bad = log("pave-no-scope")
    bad.verdict("CC", 50, "RED_LIGHT", "violate")
    bad.verdict("CC", 51, "RED_LIGHT", "violate", fallback="malformed")
    figure = figures.gate_figure(save_run(tmp_path / "run", [*logs, bad]))
    text = words(figure)
    for said in ("sometimes complies, sometimes violates", "1 verdict", "16 verdicts or more"):
        assert f"\n{said}" in text
    assert "still complies where the risk" in text
    assert "pave-no-scope" not in text
    assert len(figure.axes) == 4
    for column in (0, 1):
        assert len({axes.get_xlim() for axes in figure.axes[column::2]}) == 1


def test_distances_that_nobody_had_are_left_out_and_a_last_row_is_labelled(tmp_path: Path) -> None:
    logs = [fire_log(f"pave@threshold={number}", 0, OFFICERS) for number in range(40, 44)]
    figure = figures.suppression_figure(save_run(tmp_path / "run", logs))
    for axes in figure.axes[:4]:
        labels = [tick for tick in axes.get_xticklabels() if tick.get_visible()]
        assert [tick.get_text() for tick in labels] == ["2–3", "13–16", "no officers", "no fire"]


def test_censored_stands_in_the_legend_where_it_is_drawn(tmp_path: Path) -> None:
    ended = fire_log("pave", 0)
    plain = figures.recovery_figure(save_run(tmp_path / "plain", [ended]))
    assert "\ncensored" not in words(plain)
    short_day = {"days": 2, "ticks_per_day": 160, "steps_per_tick": 4}
    lasting = log("vanilla", clock=short_day)
    lasting.state("CC", 50, zone="street", dist_fire=4)
    lasting.state("CC", 130, zone="street", dist_fire=20)
    for tick in (140, 159):
        lasting.row("CC", tick, "RED_LIGHT", "RED_LIGHT")
    some = figures.recovery_figure(save_run(tmp_path / "some", [ended, lasting]))
    assert "\ncensored" in words(some)


def test_differences_without_an_interval_are_hollow_and_explained(tmp_path: Path) -> None:
    logs = []
    for seed in range(3):
        for policy, broken in (("pave", ""), ("vanilla", "RED_LIGHT")):
            made = log(policy, PEERS, seed)
            rules = broken if seed or policy == "pave" else ""
            lit = {"signal": "dont_walk", "crossing": "cafe_crossing", "saw_jaywalk": True}
            made.row("CC", 104, "RED_LIGHT", rules, **lit)
            burns = fire_log(policy, 0)
            burns.header["seed"] = seed
            logs += [made, burns]
    figure = figures.expectations_figure(save_run(tmp_path / "run", logs))
    text = words(figure)
    assert "this run (n = 3 seeds, 95% interval)" in text
    assert "no interval: same in all seeds; at least 6 needed to tell" in text
    faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines()]
    assert "white" in faces


def test_figures_say_what_could_be_misread(run: Path) -> None:
    assert "severity of pave's cue" in words(figures.importance_figure(run))
    assert "at the same value, as at 0, lie on each other" in words(
        figures.failure_modes_figure(run)
    )
