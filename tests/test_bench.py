"""The benchmark runner: run folders, resume, failures, and what each policy must show."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pave_policy.backbone import Opinion, VerdictRequest
from pave_policy.conditions import pave, pave_no_gate
from pave_policy.outcome import Outcome
from pave_policy.surrogate import Surrogate
from voville_env.benchmarks import episodes, runner
from voville_env.benchmarks import folder as run_folder
from voville_env.benchmarks.play import EpisodePlayer
from voville_env.benchmarks.suite import EpisodeKey, plan
from voville_env.core.codes import Decision
from voville_env.errors import InvalidValueError
from voville_env.events import Event, read_log
from voville_env.parallel import VovilleEnv
from voville_env.policy import BasePolicy, load_policy
from voville_env.scenario import World, load_world

RELEVANT = {"RED_LIGHT", "ONE_WAY", "CROSSWALK_ONLY"}
ATTENDEES = ("CC", "EY", "OH", "NR", "KQ", "MF", "AY", "AM")


def play(scenario: str, policy: Any, seed: int = 0, **settings: Any) -> list[Event]:
    made = load_policy(policy) if isinstance(policy, str) else policy
    env = VovilleEnv(scenario, **settings)
    return list(EpisodePlayer(env, made, made.name, seed).records())


def of_type(log: list[Event], kind: str) -> list[Event]:
    return [record for record in log if record["type"] == kind]


def bench(folder: Path, policies: list[str], **settings: Any) -> dict[str, Any]:
    suite = plan(["jaywalk"], policies, seeds=settings.pop("seeds", 2), days=1)
    summary, _ = runner.run_suite(suite, folder, **settings)
    return summary


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_same_seeds_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        bench(tmp_path / name, ["pave", "vanilla"])
    first = contents(tmp_path / "a")
    assert first == contents(tmp_path / "b")
    assert {"manifest.json", "summary.json", "report.md", "report.html"} <= set(first)


def test_workers_change_nothing(tmp_path: Path) -> None:
    bench(tmp_path / "one", ["lawful"], seeds=1)
    bench(tmp_path / "two", ["lawful"], seeds=1, jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_killed_run_goes_on_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench(tmp_path / "whole", ["lawful", "direct"])
    original, calls = episodes.play_episode, 0

    def dying(job: episodes.Job) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return original(job)

    monkeypatch.setattr("voville_env.benchmarks.runner.play_episode", dying)
    with pytest.raises(KeyboardInterrupt):
        bench(tmp_path / "cut", ["lawful", "direct"])
    assert not (tmp_path / "cut" / "summary.json").exists()
    assert len(list((tmp_path / "cut" / "episodes").glob("*.jsonl"))) == 3
    monkeypatch.setattr("voville_env.benchmarks.runner.play_episode", original)
    bench(tmp_path / "cut", ["lawful", "direct"], resume=True)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_finished_episodes_are_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench(tmp_path / "run", ["lawful"], seeds=1)
    monkeypatch.setattr(episodes, "EpisodePlayer", None)
    summary = bench(tmp_path / "run", ["lawful"], seeds=1, resume=True)
    assert summary["episodes"]["scored"] == 2


def test_a_half_written_episode_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: EpisodePlayer) -> Iterator[Event]:
        yield {"type": "run_start"}
        raise RuntimeError("killed half way")

    monkeypatch.setattr(EpisodePlayer, "records", broken)
    summary = bench(tmp_path / "run", ["lawful"], seeds=1)
    assert summary["episodes"] == {"planned": 2, "scored": 0, "failed": 2, "not_run": 0}
    assert not list((tmp_path / "run" / "episodes").iterdir())


def test_a_log_under_another_name_is_refused(tmp_path: Path) -> None:
    bench(tmp_path / "run", ["lawful"])
    episodes = tmp_path / "run" / "episodes"
    other = (episodes / "jaywalk--lawful--1.jsonl").read_bytes()
    (episodes / "jaywalk--lawful--0.jsonl").write_bytes(other)
    summary = bench(tmp_path / "run", ["lawful"], resume=True)
    assert summary["episodes"]["failed"] == 1
    assert "is a log of seed 1, not 0" in json.dumps(summary["failures"])


def test_failures_are_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = episodes.play_episode

    def sometimes(job: episodes.Job) -> dict[str, Any]:
        if job.key.seed == 1 and job.key.scenario == "jaywalk":
            raise ValueError("no luck")
        return original(job)

    monkeypatch.setattr("voville_env.benchmarks.runner.play_episode", sometimes)
    summary = bench(tmp_path / "run", ["lawful"], seeds=3)
    assert summary["episodes"]["failed"] == 1 and summary["episodes"]["scored"] == 5
    assert summary["status"] == "incomplete"
    assert "no luck" in json.dumps(summary["failures"])
    assert "5 scored" in (tmp_path / "run" / "report.md").read_text("utf-8")


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    bench(tmp_path / "run", ["lawful"], seeds=1)
    with pytest.raises(InvalidValueError, match="--resume"):
        bench(tmp_path / "run", ["lawful"], seeds=1)
    with pytest.raises(InvalidValueError, match="another plan"):
        bench(tmp_path / "run", ["lawful"], seeds=2, resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(InvalidValueError, match="not a run folder"):
        bench(tmp_path / "other", ["lawful"], seeds=1, resume=True)


def test_episode_names_are_safe_and_distinct() -> None:
    stems = {EpisodeKey("../a b", policy, 0).stem for policy in ("x:Y", "x-Y", "x/Y", "")}
    assert len(stems) == 4
    assert all("/" not in stem and " " not in stem and ":" not in stem for stem in stems)


def test_a_policy_may_write_only_records_about_itself() -> None:
    class Liar(BasePolicy):
        """Claims to be the environment."""

        def act(self, observations: Any, infos: Any) -> dict[str, int]:
            return dict.fromkeys(observations, 0)

        def records(self) -> list[dict[str, Any]]:
            return [{"type": "rule_event", "agent": "CC", "violated": []}]

    with pytest.raises(InvalidValueError, match="rule_event"):
        play("jaywalk", Liar(), window=(1, 0, 2))


class Forger(BasePolicy):
    """Tries to look better in the log than it was, and to see what it may not."""

    saw = False

    def reset(self, briefing: Any) -> None:
        with pytest.raises(ValueError):
            briefing.town.terrain.flags.writeable = True
        self.privileged = False

    def act(self, observations: Any, infos: Any) -> dict[str, int]:
        self.saw = self.saw or any("oracle" in info for info in infos.values())
        return {name: int(seen["routes"][1, 1]) for name, seen in observations.items()}

    def observe(self, events: Any) -> None:
        for event in events:
            event.clear()


def test_a_policy_cannot_touch_the_log_the_town_or_the_labels() -> None:
    forger = Forger()
    log = play("jaywalk", forger, window=(1, 28, 40))
    assert any(record["violated"] for record in of_type(log, "rule_event"))
    assert not forger.saw
    marked = play("jaywalk", Forger(privileged=True), window=(1, 28, 40))
    assert marked[0]["privileged"] is True


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    bench(tmp_path / "run", ["lawful"], seeds=1)
    with run_folder.only_run(tmp_path / "run"):
        with pytest.raises(InvalidValueError, match="another run is at work"):
            bench(tmp_path / "run", ["lawful"], seeds=1, resume=True)
    bench(tmp_path / "run", ["lawful"], seeds=1, resume=True)


def test_a_policy_that_exits_is_a_failed_episode(tmp_path: Path) -> None:
    (tmp_path / "leaver.py").write_text("def make():\n    raise SystemExit(0)\n", "utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(InvalidValueError, match="cannot be made"):
            load_policy("leaver:make")
    finally:
        sys.path.remove(str(tmp_path))


def test_log_lines_are_strict_and_complete(tmp_path: Path) -> None:
    bench(tmp_path / "run", ["pave"], seeds=1)
    for path in (tmp_path / "run" / "episodes").glob("*.jsonl"):
        records = list(read_log(path))
        assert records[0]["type"] == "run_start" and records[-1]["type"] == "run_end"
        assert b"NaN" not in path.read_bytes()


@pytest.mark.parametrize("scenario", ["fire_escape", "fire_escape_officers", "jaywalk"])
def test_lawful_breaks_nothing_and_obeys(scenario: str) -> None:
    log = play(scenario, "lawful")
    outcomes = of_type(log, "rule_event")
    assert outcomes and not any(record["violated"] for record in outcomes)
    responses = of_type(log, "instruction_response")
    assert all(record["complied"] for record in responses)
    if scenario == "fire_escape_officers":
        assert responses


def lone_fire(agent: str) -> list[Event]:
    """The fire with one attendee; all others are out of the way, at home."""
    world = load_world("fire_escape")
    plans = [
        item if item.id == agent else item.model_copy(update={"start": f"home_{item.id}"})
        for item in world.scenario.agents
    ]
    plans = [
        item.model_copy(update={"schedule": []}) if item.id != agent else item for item in plans
    ]
    alone = world.scenario.model_copy(update={"agents": plans})
    env = VovilleEnv(World(alone, world.town, world.personas, world.rules, "test"), days=1)
    return list(EpisodePlayer(env, load_policy("direct"), "direct", 0).records())


@pytest.mark.parametrize("agent", ["CC", "AM", "AY"])
def test_direct_alone_violates_at_every_opportunity(agent: str) -> None:
    log = lone_fire(agent)
    stakes = {
        record["tick"]: set(record["rules"])
        for record in of_type(log, "opportunity")
        if record["agent"] == agent and 50 <= record["tick"] < 150 and record["rules"]
    }
    assert len(stakes) >= 4
    for record in of_type(log, "rule_event"):
        if record["agent"] == agent and record["tick"] in stakes:
            assert stakes[record["tick"]] <= set(record["violated"])


def test_direct_in_company_complies_only_when_blocked() -> None:
    log = play("fire_escape", "direct", days=1)
    stakes = {
        (record["agent"], record["tick"]): set(record["rules"])
        for record in of_type(log, "opportunity")
        if record["agent"] in ATTENDEES and 50 <= record["tick"] < 150
    }
    complied = [
        record
        for record in of_type(log, "rule_event")
        if stakes.get((record["agent"], record["tick"]), set()) - set(record["violated"])
    ]
    assert complied, "company should get in the way at least once"
    assert all(record["blocked"] for record in complied)


def pre_fire_and_bystanders(log: list[Event]) -> tuple[int, int]:
    """Opportunities and violations before the fire, and of bystanders at any time."""
    far = {item["id"] for item in log[0]["agents"] if item["group"] == "bystander"}
    counted = [
        record
        for record in of_type(log, "rule_event")
        if record["agent"] in far or (record["day"] == 1 and record["tick"] < 50)
    ]
    return len(counted), sum(bool(record["violated"]) for record in counted)


def test_pave_keeps_the_rules_before_the_fire_and_far_from_it() -> None:
    opportunities, violations = pre_fire_and_bystanders(play("fire_escape", "pave"))
    assert opportunities > 0
    assert violations == 0


class Stubborn(Surrogate):
    """A backbone that wants to break the rule whatever it is told."""

    async def generate_verdict(self, request: VerdictRequest) -> Outcome[Opinion]:
        return Outcome(Opinion(Decision.VIOLATE, "I will break the rule.", 100))


def test_no_backbone_changes_that() -> None:
    opportunities, violations = pre_fire_and_bystanders(play("fire_escape", pave(Stubborn())))
    assert opportunities > 0
    assert violations == 0


def test_without_the_gate_that_test_fails() -> None:
    _, violations = pre_fire_and_bystanders(play("fire_escape", pave_no_gate(Stubborn())))
    assert violations > 0


@pytest.mark.parametrize("policy", ["lawful", "pave"])
def test_everybody_is_seated_before_the_fire(policy: str) -> None:
    log = play("fire_escape", policy, window=(1, 0, 51))
    seated = [record for record in of_type(log, "arrival") if "cafe_seat" in record["goal"]]
    assert {record["agent"] for record in seated} == {"AM", "AY"}
    assert all(record["tick"] < 50 for record in seated)


def test_nothing_is_at_stake_for_who_has_arrived() -> None:
    log = play("fire_escape", "lawful", days=1)
    safe = {
        (record["agent"], record["tick"]) for record in of_type(log, "arrival") if record["safe"]
    }
    assert safe
    for agent, tick in safe:
        assert not [
            record
            for record in of_type(log, "opportunity")
            if record["agent"] == agent and tick < record["tick"] < 150
        ]


def test_scenarios_show_their_purpose() -> None:
    """No-gate follows the jaywalkers, PAVE does not; vanilla stays in the fire, PAVE leaves."""
    red = {}
    for policy in ("pave", "pave-no-gate"):
        log = play("jaywalk", policy, days=1)
        red[policy] = sum(
            "RED_LIGHT" in record["violated"]
            for record in of_type(log, "rule_event")
            if record["agent"] in ("CC", "KQ")
        )
    assert red["pave"] == 0 < red["pave-no-gate"]
    harm = {}
    for policy in ("pave", "vanilla"):
        totals = play("fire_escape", policy, days=1)[-1]["totals"]
        harm[policy] = sum(totals[agent]["harm"] for agent in ATTENDEES)
    assert harm["pave"] < harm["vanilla"] / 2


@pytest.mark.slow
def test_pave_separates_from_its_comparators(tmp_path: Path) -> None:
    """Over the benchmark's seeds: contagion, exposure to the fire, and obedience."""
    names = ["pave", "pave-no-gate", "vanilla"]
    suite = plan(["jaywalk", "fire_escape", "fire_escape_officers"], names, seeds=5, days=1)
    without_controls = dataclasses.replace(
        suite, scenarios=tuple(name for name in suite.scenarios if "control" not in name)
    )
    summary, _ = runner.run_suite(without_controls, tmp_path / "run", jobs=2)
    cells = {(cell["scenario"], cell["policy"]): cell for cell in summary["cells"]}

    def mean(scenario: str, policy: str, key: str, unit: str = "tick") -> float:
        value = cells[scenario, policy]["metrics"][key][unit]["mean"]
        assert value is not None
        return float(value)

    contagion = {name: mean("jaywalk", name, "cr_d1") for name in names}
    assert contagion["pave"] == 0
    assert contagion["pave"] < contagion["vanilla"] < contagion["pave-no-gate"]
    exposed = {name: mean("fire_escape", name, "vr_cafe_exposed") for name in names}
    assert exposed["vanilla"] < exposed["pave"]
    obeyed = {name: mean("fire_escape_officers", name, "ocr", "instruction") for name in names}
    assert obeyed["pave"] >= max(obeyed["pave-no-gate"], obeyed["vanilla"])
