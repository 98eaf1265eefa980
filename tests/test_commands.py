"""`voville prompts` and `voville explain`: what a model gets to read, and why somebody acted."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from importlib.metadata import entry_points
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pave_policy.commands.explain import explain
from pave_policy.commands.listening import Asked, Place, find, listen
from pave_policy.commands.prompts import prompts_app
from pave_policy.commands.terminal import visible
from pave_policy.llm.chat import Chat, make_chat
from pave_policy.llm.operations import GENERATIVE_OPERATIONS
from pave_policy.llm.prompts import OPERATIONS, load_templates
from pave_policy.llm.rehearsal import in_writing
from pave_policy.outcome import Outcome
from pave_policy.site import Site
from pave_policy.surrogate import Surrogate
from pave_policy.testing import StubReply, StubRequest, StubServer, canned
from voville_env.benchmarks.episodes import Job, player_of
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import Suite, make_policy, plan
from voville_env.core.codes import Action
from voville_env.errors import VovilleError
from voville_env.events import Event, read_log
from voville_env.parallel import VovilleEnv
from voville_env.policy import COMMANDS

app = typer.Typer()
app.add_typer(prompts_app, name="prompts")
app.command("explain")(explain)

EPISODES: dict[str, tuple[str, tuple[int, int]]] = {
    "pave": ("fire_escape", (1, 51)),
    "vanilla": ("jaywalk", (1, 33)),
}
"""What each agent plays, and until when: it has asked for all of its operations by then."""
UNUSABLE = "no idea"
ALL_TEN: dict[str, Any] = {"perception": "llm", "elicit_threshold": True}
KEYS = {
    "elicit_threshold": "threshold",
    "assess_risk": "risk",
    "assess_empirical": "p_emp",
    "assess_normative": "p_norm",
    "assess_benefit": "benefit",
    "assess_legitimacy": "legitimacy",
}
HOSTILE = "\x1b[2J[red]never[/red] \u202e"


def run(*args: str) -> tuple[bytes, str]:
    """Standard output and standard error of a command that succeeds."""
    done = CliRunner().invoke(app, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout_bytes, done.stderr


def run_json(*args: str) -> Any:
    return json.loads(run(*args, "--json")[0])


def refusal(*args: str) -> str:
    with pytest.raises(VovilleError) as caught:
        run(*args)
    return str(caught.value)


def one_episode(scenario: str, policy: str = "pave", **options: Any) -> Suite:
    suite = plan([scenario], [policy], seeds=1, options=options)
    return replace(suite, scenarios=(scenario,))


def written(operation: str, value: Any) -> str:
    """A value as a model would write it."""
    if operation in GENERATIVE_OPERATIONS:
        return in_writing(operation, value)
    if operation == "emulate_action":
        entries = [f"{item.text} ({item.seconds}s)" for item in value]
        return "\n".join(f"{number}. {entry}" for number, entry in enumerate(entries, 1))
    if operation == "perceive_context":
        return json.dumps(value.published())
    fields = value.model_dump() if operation == "propagate_outcome" else asdict(value)
    return json.dumps({KEYS[operation] if key == "value" else key: v for key, v in fields.items()})


def replies_of_the_surrogate(suite: Suite, chat: Chat) -> dict[str, str]:
    """What the surrogate answers to each prompt of an episode."""
    surrogate, replies = Surrogate(), dict[str, str]()

    def remembering(ask: Callable[[Any], Awaitable[Outcome[Any]]]) -> Any:
        async def asked(request: object) -> Outcome[Any]:
            outcome = await ask(request)
            operation, prompt = chat.prompt(request)
            reply = written(operation, outcome.value)
            assert replies.setdefault(prompt, reply) == reply
            return outcome

        return asked

    for operation in OPERATIONS:
        setattr(surrogate, operation, remembering(getattr(surrogate, operation)))
    _, until = EPISODES[suite.policies[0]]
    policy = make_policy(suite, suite.policies[0], surrogate)
    for record in player_of(Job(suite.episodes()[0], "", suite), policy).records():
        if "tick" in record and (record["day"], record["tick"]) > until:
            break
    return replies


async def play_with(chat: Chat, suite: Suite) -> None:
    _, until = EPISODES[suite.policies[0]]
    policy = make_policy(suite, suite.policies[0], chat)
    async for record in player_of(Job(suite.episodes()[0], "", suite), policy).records_async():
        if "tick" in record and (record["day"], record["tick"]) > until:
            break
    await chat.aclose()


def suites() -> list[Suite]:
    (pave, _), (vanilla, _) = EPISODES["pave"], EPISODES["vanilla"]
    return [one_episode(pave, **ALL_TEN), one_episode(vanilla, "vanilla")]


@pytest.fixture(scope="module")
def offline() -> Chat:
    return make_chat(base_url="http://127.0.0.1", model="none", offline=True)


def hear(suite: Suite, chat: Chat) -> list[Asked]:
    _, until = EPISODES[suite.policies[0]]
    return list(takewhile(lambda asked: asked.when <= until, listen(suite, chat.prompt)))


def send(suite: Suite, offline: Chat) -> list[tuple[str, str]]:
    replies = replies_of_the_surrogate(suite, offline)
    with StubServer(lambda request: replies[request.prompt]) as server:
        # At a temperature no request is answered from the store.
        chat = make_chat(base_url=server.url, model="stub", temperature=1.0)
        asyncio.run(play_with(chat, suite))
        return [
            (str(request.operation), message["content"])
            for request in server.requests
            for message in request.body["messages"]
        ]


@pytest.fixture(scope="module")
def heard(offline: Chat) -> list[Asked]:
    """What the listener notes."""
    return [asked for suite in suites() for asked in hear(suite, offline)]


@pytest.fixture(scope="module")
def sent(offline: Chat) -> list[tuple[str, str]]:
    """What a server receives of the same episodes from the real chat backbone."""
    return [message for suite in suites() for message in send(suite, offline)]


def test_every_text_is_the_one_that_is_sent(
    heard: list[Asked], sent: list[tuple[str, str]]
) -> None:
    assert {operation for operation, _ in sent} == set(OPERATIONS)
    assert Counter((asked.operation, asked.text) for asked in heard) == Counter(sent)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_show_prints_what_is_sent_and_nothing_else(
    operation: str, heard: list[Asked], sent: list[tuple[str, str]]
) -> None:
    mine = [asked for asked in heard if asked.operation == operation]
    last = next(asked for asked in mine if asked.site == mine[-1].site)
    day, tick = (str(part) for part in last.when)
    args = ["--agent", last.site.agent, "--day", day, "--tick", tick]
    if last.site.rule_set is not None:
        args += ["--rule-set", last.site.rule_set]
    out, err = run("prompts", "show", operation, "--scenario", last.site.scenario, *args)
    assert out.decode() == last.text
    assert (operation, out.decode()) in sent
    template = load_templates()[operation]
    digest = hashlib.sha256(out).hexdigest()[:16]
    for word in (template.title, template.digest, digest, f"{template.max_tokens} tokens"):
        assert word in err


def test_show_needs_no_endpoint_and_plays_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("an endpoint was made")

    steps = 0
    step = VovilleEnv.step

    def counted(self: VovilleEnv, actions: dict[str, int]) -> Any:
        nonlocal steps
        steps += 1
        return step(self, actions)

    monkeypatch.setattr("pave_policy.llm.caller.Endpoint", refuse)
    monkeypatch.setattr(VovilleEnv, "step", counted)
    shown = run_json("prompts", "show", "C2", "--scenario", "jaywalk", "--tick", "52")
    assert (shown["agent"], shown["day"], shown["tick"]) == ("KQ", 1, 52)
    assert 0 < steps <= 4 * 54


def test_show_as_json_says_where_and_what() -> None:
    args = ("prompts", "show", "assess-risk", "--scenario", "jaywalk", "--seed", "3")
    shown = run_json(*args, "--day", "2", "--variant", "reasoning")
    assert (shown["seed"], shown["day"]) == (3, 2)
    assert (shown["figure"], shown["title"]) == ("C2", "AssessRisk")
    assert (shown["max_tokens"], shown["paper_max_tokens"]) == (4096, 64)
    assert shown["characters"] == len(shown["prompt"])
    assert shown["sha256"] == hashlib.sha256(shown["prompt"].encode()).hexdigest()
    assert "Think for as long as you like" in shown["prompt"]


def test_the_policy_and_its_options_shape_the_prompt() -> None:
    args = ("prompts", "show", "C7", "--scenario", "jaywalk", "--agent", "KQ")
    assert b"LEGITIMACY GATE" in run(*args)[0]
    assert b"LEGITIMACY GATE" not in run(*args, "--policy", "pave-no-gate")[0]
    args = ("prompts", "show", "C6", "--scenario", "fire_escape", "--agent", "CC")
    assert b"<route_alternatives>" in run(*args)[0]
    assert b"<route_alternatives>" not in run(*args, "--paper-inputs")[0]


def test_what_is_asked_several_times_in_a_place_is_said_to_be() -> None:
    place = ("prompts", "show", "DrawInsights", "--scenario", "jaywalk", "--tick", "33")
    assert "it is asked 3 times there; this is the first" in run(*place)[1]
    shown = run_json(*place)
    assert (shown["times"], shown["also_about"], shown["figure"]) == (3, [], None)
    assert (shown["asked_by"], shown["agent"]) == ("generative", "CC")


def asked(agent: str, tick: int, rule_set: str = "trigger_relevant", day: int = 1) -> Asked:
    site = Site(agent=agent, day=day, tick=tick, rule_set=rule_set)
    return Asked(site, "assess_risk", f"{agent} {day} {tick} {rule_set}")


STREAM = [
    asked("AA", 3),
    asked("BB", 3),
    asked("AA", 5),
    asked("AA", 5, "unrelated"),
    asked("BB", 5),
    asked("AA", 8),
    asked("BB", 2, day=2),
]


@pytest.mark.parametrize(
    ("place", "found", "nearby"),
    [
        (Place("assess_risk"), [0], []),
        (Place("assess_risk", "BB"), [1], []),
        (Place("assess_risk", tick=5), [2, 3], [1]),
        (Place("assess_risk", "AA", tick=5, rule_set="unrelated"), [3], []),
        (Place("assess_risk", "BB", day=2), [6], [4]),
        (Place("assess_risk", "AA", tick=6), [], [3, 5]),
        (Place("assess_risk", "AA", day=2), [], [5]),
        (Place("assess_risk", "BB", tick=1), [], [1]),
        (Place("assess_benefit"), [], []),
    ],
)
def test_the_place_is_found_or_its_neighbours(
    place: Place, found: list[int], nearby: list[int]
) -> None:
    taken, near = find(place, iter(STREAM))
    assert taken == [STREAM[i] for i in found]
    if not found:
        assert near == [STREAM[i] for i in nearby]


def test_list_names_all_that_matters() -> None:
    rows = run_json("prompts", "list")
    templates = load_templates()
    figures = [f"C{number}" for number in range(10)]
    assert [row["figure"] for row in rows] == [*figures, *[None] * 6]
    assert Counter(row["asked_by"] for row in rows) == {"PAVE": 10, "generative": 6}
    assert [row["operation"] for row in rows] == list(OPERATIONS)
    for row in rows:
        template = templates[row["operation"]]
        for key in ("title", "answer", "version", "digest", "max_tokens", "paper_max_tokens"):
            assert row[key] == getattr(template, key)
        assert row["inputs"] == list(template.inputs)
    text = run("prompts", "list")[0].decode()
    for row in rows:
        figure = row["figure"] or "–"
        start = f"{row['asked_by']} .* {figure} "
        assert re.search(rf"{start}.*{row['operation']} .* {row['digest']} ", text)
    other = run_json("prompts", "list", "--variant", "reasoning")
    assert {row["max_tokens"] for row in other} == {4096}
    assert not {row["digest"] for row in rows} & {row["digest"] for row in other}


SHOW = ("prompts", "show")
JAYWALK = ("--scenario", "jaywalk")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((*SHOW, "AsessRisk", *JAYWALK), ("AsessRisk", "did you mean 'AssessRisk'")),
        ((*SHOW, "C10", *JAYWALK), ("C10", "C0 to C9")),
        ((*SHOW, "C2", "--scenario", "jaywlk"), ("did you mean 'jaywalk'",)),
        ((*SHOW, "C2", *JAYWALK, "--agent", "KX"), ("did you mean 'KQ'",)),
        ((*SHOW, "C2", *JAYWALK, "--day", "3"), ("day is 3", "1 to 2")),
        ((*SHOW, "C2", *JAYWALK, "--tick", "-1"), ("tick is -1", "0 to 999")),
        ((*SHOW, "C2", *JAYWALK, "--rule-set", "unrelatd"), ("did you mean 'unrelated'",)),
        ((*SHOW, "C2", *JAYWALK, "--policy", "lawful"), ("lawful", "pave-no-gate")),
        ((*SHOW, "C2", *JAYWALK, "--option", "peertext=1"), ("did you mean 'peer_text'",)),
        ((*SHOW, "C2", *JAYWALK, "--variant", "smal"), ("did you mean 'small'",)),
        ((*SHOW, "C2", *JAYWALK, "--policy", "vanilla"), ("not asked of anybody", "vanilla")),
        (
            (*SHOW, "C2", *JAYWALK, "--agent", "KQ", "--tick", "90"),
            ("not asked of KQ", "KQ on day 1 at tick 56 and KQ on day 2 at tick"),
        ),
        (
            (*SHOW, "C1", *JAYWALK, "--option", "perception=structure"),
            ("not asked of anybody", "nor at any other time"),
        ),
        (("prompts", "list", "--variant", "smal"), ("did you mean 'small'",)),
    ],
)
def test_wrong_usage_of_prompts_is_named(args: tuple[str, ...], words: tuple[str, ...]) -> None:
    said = refusal(*args)
    for word in words:
        assert word in said


def lines(log: Path, kind: str, agent: str) -> list[Event]:
    found = (record for record in read_log(log) if record["type"] == kind)
    return [record for record in found if record["agent"] == agent]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the surrogate and of a policy that says nothing, in a scenario of one's own."""
    folder = tmp_path_factory.mktemp("town")
    text = 'base = "jaywalk"\nname = "my_street"\ntitle = "Straße"\n'
    (folder / "mine.toml").write_text(text, "utf-8")
    suite = plan([str(folder / "mine.toml")], ["pave", "lawful"], seeds=2, days=1)
    run_suite(replace(suite, scenarios=suite.scenarios[:1]), folder / "run")
    return folder


def log_of(folder: Path, policy: str = "pave", seed: int = 0) -> Path:
    return next((folder / "run" / "episodes").glob(f"*--{policy}--{seed}.jsonl"))


def explained(folder: Path, agent: str, tick: int, *args: str) -> Any:
    place = ("--agent", agent, "--tick", str(tick))
    return run_json("explain", str(folder / "run"), *place, *args)


def test_explain_tells_what_the_log_tells(town: Path) -> None:
    log = log_of(town)
    verdict = lines(log, "verdict", "KQ")[0]
    tick = verdict["tick"]
    account = explained(town, "KQ", tick)
    assert account["decisions"][0]["verdict"] == verdict
    assert account["decisions"][0]["assessment"] == lines(log, "assessment", "KQ")[0]
    assert account["decisions"][0]["origin"] is None
    kinds = [record["type"] for record in account["events"]]
    assert {"opportunity", "rule_event"} <= set(kinds)
    assert [record["kind"] for record in account["memory"]] == ["justification"]
    assert [record["tick"] for record in account["outcome"]] == [tick + 1]
    assert any("No model was called" in note for note in account["notes"])
    text = run("explain", str(log), "--agent", "KQ", "--tick", str(tick))[0].decode()
    for part in (verdict["justification"].split(":")[0], "gate", "kept by code", "comply", "RED_L"):
        assert part in text
    assert "\x1b" not in text


def test_the_context_is_the_one_that_was_decided_on(town: Path) -> None:
    chat = make_chat(base_url="http://127.0.0.1", model="none", offline=True)
    suite = replace(one_episode(str(town / "mine.toml")), days=1)
    prompts = [one for one in listen(suite, chat.prompt) if one.operation == "assess_risk"]
    assert len(prompts) > 8
    for one in prompts[::4]:
        shown = re.search(r"<context>\n(.*)\n</context>", one.text)
        assert shown is not None
        account = explained(town, one.site.agent, one.site.tick)
        assert account["context"] == json.loads(shown[1])
        assert account["situation"]["rules_at_stake"]


def test_a_reused_verdict_names_where_it_was_given(town: Path) -> None:
    first, second = lines(log_of(town), "verdict", "KQ")[:2]
    assert second["reused"]
    account = explained(town, "KQ", second["tick"])
    assert account["decisions"][0]["origin"] == first
    assert account["outcome"] == []
    args = ("explain", str(town / "run"), "--agent", "KQ", "--tick", str(second["tick"]))
    text = run(*args)[0].decode()
    assert f"given on day 1 at tick {first['tick']}" in text
    assert first["actions"][0] in text


def test_actions_are_told_by_name_and_lead_on(town: Path) -> None:
    log = log_of(town)
    people = [item["id"] for item in next(read_log(log))["agents"]]
    record = next(item for item in read_log(log) if item["type"] == "actions")
    digits = record["a"][people.index("TP") :: len(people)]
    account = explained(town, "TP", record["tick"])
    assert account["actions"] == [Action(int(digit)).name for digit in digits]
    assert set(account["actions"]) != {"WAIT"}
    before = account["situation"]["position"]
    assert explained(town, "TP", record["tick"] + 1)["situation"]["position"] != before


def test_where_nothing_was_decided_the_nearest_are_named(town: Path) -> None:
    ticks = [record["tick"] for record in lines(log_of(town), "verdict", "KQ")]
    assert explained(town, "KQ", ticks[0] - 10)["nearest_verdicts"] == [[1, ticks[0]]]
    assert explained(town, "KQ", ticks[-1] + 9)["nearest_verdicts"] == [[1, ticks[-1]]]
    args = ("explain", str(town / "run"), "--agent", "KQ", "--tick", str(ticks[0] - 10))
    assert f"nearest: on day 1 at tick {ticks[0]}" in run(*args)[0].decode()


@pytest.fixture(scope="module")
def reacting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the generative agent on the surrogate."""
    folder = tmp_path_factory.mktemp("reacting")
    suite = replace(one_episode("fire_escape_officers", "vanilla"), days=1)
    run_suite(suite, folder / "run")
    return folder


def test_a_reaction_is_laid_out_like_a_verdict(reacting: Path) -> None:
    log = log_of(reacting, "vanilla")
    record = next(r for r in lines(log, "reaction", "CC") if "order" in " ".join(r["events"]))
    rated = {r["event_id"]: r for r in lines(log, "importance", "CC")}
    args = ("explain", str(reacting / "run"), "--agent", "CC", "--tick", str(record["tick"]))
    text = run(*args)[0].decode()
    section = text.partition("\nReaction\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^  (\S.*?)  ", section, re.MULTILINE)
    assert rows == ["noticed", "came to mind", "plan", "reaction", "because"]
    for event in record["events"]:
        said = f"{rated[event]['description']} (importance {rated[event]['score']} of 10)"
        assert said in section
    for part in (*record["memories"], record["doing"], record["response"], record["reason"]):
        assert part in section
    assert "What else the policy says" not in text
    account = explained(reacting, "CC", record["tick"])
    assert account["reaction"] == record and account["decisions"] == []
    assert all(rated[item["event_id"]] == item for item in account["importance"])


def test_between_two_reactions_the_one_that_holds_is_told(reacting: Path) -> None:
    reactions = lines(log_of(reacting, "vanilla"), "reaction", "CC")
    first = next(
        r for r, later in pairwise(reactions) if r["events"] and later["tick"] > r["tick"] + 1
    )
    args = ("explain", str(reacting / "run"), "--agent", "CC", "--tick", str(first["tick"] + 1))
    assert f"on day 1 at tick {first['tick']}; nothing since" in run(*args)[0].decode()
    assert explained(reacting, "CC", first["tick"] + 1)["reaction"] == first


def test_what_stood_in_for_a_reaction_is_told(tmp_path: Path) -> None:
    suite = replace(one_episode("jaywalk", "vanilla"), days=1)
    unusable = {"rate_importance": UNUSABLE, "react": UNUSABLE}
    with StubServer(lambda request: unusable.get(str(request.operation)) or canned(request)) as s:
        chat = make_chat(base_url=s.url, model="stub")
        run_suite(replace(suite, backbone=chat.name), tmp_path / "run", backbone=chat)
    log = log_of(tmp_path, "vanilla")
    rated = lines(log, "importance", "KQ")[0]
    assert rated["tick"] in {r["tick"] for r in lines(log, "reaction", "KQ")}
    args = ("explain", str(tmp_path / "run"), "--agent", "KQ", "--tick", str(rated["tick"]))
    text = " ".join(run(*args)[0].decode().split())
    assert "continue, in place of an unusable answer: malformed" in text
    assert "(importance 1 of 10, in place of an unusable answer: malformed)" in text


def test_an_agent_can_be_named_in_full(town: Path) -> None:
    by_id = explained(town, "KQ", 52)
    assert explained(town, "Kai Quinn", 52) == explained(town, "kai quinn", 52) == by_id
    assert by_id["agent"]["name"] == "Kai Quinn"
    said = refusal("explain", str(town / "run"), "--agent", "Kay Quin", "--tick", "52")
    assert "did you mean 'Kai Quinn'" in said


def test_a_silent_policy_is_said_to_be_silent(town: Path) -> None:
    account = explained(town, "KQ", 52, "--policy", "lawful")
    assert "lawful says nothing of itself" in account["notes"][0]
    assert account["policy"] == "lawful" and account["decisions"] == []
    assert account["context"] is not None
    assert any(record["type"] == "rule_event" for record in account["events"])


def test_the_first_fitting_episode_is_taken_and_named(town: Path) -> None:
    args = ("explain", str(town / "run"), "--agent", "KQ", "--tick", "52")
    assert "first of 4" in run(*args)[1] and "--pave--0" in run(*args)[1]
    assert "first of 2" in run(*args, "--seed", "1")[1]
    assert run(*args, "--seed", "1", "--policy", "lawful", "--scenario", "my_street")[1] == ""
    assert explained(town, "KQ", 52, "--seed", "1")["seed"] == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--agent", "KX", "--tick", "52"), ("did you mean 'KQ'",)),
        (("--agent", "KQ", "--tick", "1000"), ("tick is 1000", "0 to 999")),
        (("--agent", "KQ", "--tick", "52", "--day", "0"), ("day is 0", "1 to 2")),
        (("--agent", "KQ", "--tick", "52", "--day", "2"), ("day 2, tick 52 is not in",)),
        (("--agent", "KQ", "--tick", "52", "--policy", "pav"), ("did you mean 'pave'",)),
        (("--agent", "KQ", "--tick", "52", "--scenario", "my_stret"), ("mean 'my_street'",)),
        (("--agent", "KQ", "--tick", "52", "--seed", "7"), ("seed", "7", "0, 1")),
        (("--agent", "KQ", "--tick", "52", "--store", "gone.sqlite"), ("gone.sqlite",)),
    ],
)
def test_wrong_usage_of_explain_is_named(
    town: Path, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    said = refusal("explain", str(town / "run"), *args)
    for word in words:
        assert word in said


def test_what_is_no_run_is_refused(town: Path, tmp_path: Path) -> None:
    place = ("--agent", "KQ", "--tick", "52")
    assert "does not exist" in refusal("explain", str(tmp_path / "nowhere"), *place)
    assert "not a run folder" in refusal("explain", str(tmp_path), *place)
    assert "line 1" in refusal("explain", str(town / "mine.toml"), *place)
    other = tmp_path / "other.jsonl"
    other.write_text('{"type":"note"}\n', "utf-8")
    assert "not the log of an episode" in refusal("explain", str(other), *place)
    shutil.copytree(town / "run", tmp_path / "run")
    log = log_of(tmp_path)
    log.write_text(log.read_text("utf-8").replace('"a":"', '"a":"x', 1), "utf-8")
    assert "actions are" in refusal("explain", str(log), *place)


def test_a_changed_scenario_is_announced(town: Path, tmp_path: Path) -> None:
    log = tmp_path / "my.jsonl"
    shutil.copy(log_of(town), log)
    lone = run_json("explain", str(log), "--agent", "KQ", "--tick", "52")
    assert lone["context"] is None and "my_street" in lone["notes"][0]
    mine = town / "mine.toml"
    text = mine.read_text("utf-8")
    try:
        mine.write_text(text.replace("Straße", "Street"), "utf-8")
        retitled = explained(town, "KQ", 52)
        mine.write_text(text + "confederates = []\n", "utf-8")
        changed = explained(town, "KQ", 52)
        mine.unlink()
        gone = explained(town, "KQ", 52)
    finally:
        mine.write_text(text, "utf-8")
    assert "The scenario has changed" in retitled["notes"][0]
    assert retitled["context"] == explained(town, "KQ", 52)["context"]
    assert changed["context"] is None and gone["context"] is None
    assert "departs from its log" in changed["notes"][1]
    assert changed["decisions"] == gone["decisions"] == retitled["decisions"] != []


def answer(request: StubRequest) -> StubReply | str:
    """Each risk another; Tom Patel's benefit stays unknown, Carlos Cooper's verdict is hostile."""
    number = request.number % 100 + 1
    if request.operation == "assess_risk":
        return json.dumps({"risk": number, "reason": f"It is request {request.number}."})
    if request.operation == "assess_benefit" and "Tom Patel" in request.prompt:
        return UNUSABLE
    if request.operation == "generate_verdict" and "Carlos Cooper" in request.prompt:
        said = {"decision": "comply", "justification": HOSTILE, "confidence": number}
        return json.dumps(said, ensure_ascii=False)
    return canned(request)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose model perceives and is asked for thresholds, at a temperature."""
    folder = tmp_path_factory.mktemp("asking")
    suite = replace(one_episode("jaywalk", **ALL_TEN), days=1)
    with StubServer(answer) as server:
        chat = make_chat(base_url=server.url, model="stub", temperature=0.5)
        run_suite(replace(suite, backbone=chat.name), folder / "run", backbone=chat)
    return folder


def call_of(account: Any, operation: str) -> Any:
    return next(call for call in account["calls"] if call["operation"] == operation)


def test_every_exchange_is_that_of_its_own_tick(asking: Path) -> None:
    ticks = [record["tick"] for record in lines(log_of(asking), "assessment", "KQ")]
    keys = []
    for tick in ticks:
        account = explained(asking, "KQ", tick)
        for decision in account["decisions"]:
            verdict, assessed = decision["verdict"], decision["assessment"]
            calls = [c for c in account["calls"] if c["rule_set"] == verdict["rule_set"]]
            call = next(c for c in calls if c["operation"] == "assess_risk")
            keys += call["keys"]
            assert json.loads(call["exchanges"][0]["text"])["risk"] == assessed["risk"]
    assert len(set(keys)) < len(keys)  # the same request had several answers


def test_a_models_perception_threshold_and_replies_are_told(asking: Path) -> None:
    tick = lines(log_of(asking), "verdict", "KQ")[0]["tick"]
    account = explained(asking, "KQ", tick)
    said = json.loads(call_of(account, "perceive_context")["exchanges"][0]["text"])
    assert account["perceived"]["scene_summary"] == said["scene_summary"]
    assert account["threshold"]["value"] == account["decisions"][0]["verdict"]["threshold"]
    prompt = call_of(account, "generate_verdict")["exchanges"][0]["prompt"]
    args = ("explain", str(asking / "run"), "--agent", "KQ", "--tick", str(tick))
    text = run(*args)[0].decode()
    assert said["scene_summary"] in text and "It is request" in text
    asked_at = account["threshold"]["tick"]
    assert "What the model made of it" in text and f"asked for on day 1 at tick {asked_at}" in text
    assert prompt not in text
    raw = run(*args, "--raw")[0].decode()
    assert prompt in raw and "chatcmpl-stub" in raw


def test_an_unusable_answer_and_what_stood_in_are_told(asking: Path) -> None:
    verdict = lines(log_of(asking), "verdict", "TP")[0]
    account = explained(asking, "TP", verdict["tick"])
    assert account["decisions"][0]["assessment"] is None
    call = call_of(account, "assess_benefit")
    assert (call["outcome"], call["fallback"]) == ("malformed", "comply")
    assert [item["text"] for item in call["exchanges"]] == [UNUSABLE, UNUSABLE]
    args = ("explain", str(asking / "run"), "--agent", "TP", "--tick", str(verdict["tick"]))
    text = run(*args)[0].decode()
    assert "the model gave no usable answer" in text
    assert text.count(f"reply     {UNUSABLE}") == 2 * len(account["decisions"])
    assert "stood in  comply" in text


def test_words_of_a_model_cannot_reach_the_terminal(asking: Path) -> None:
    tick = lines(log_of(asking), "verdict", "CC")[0]["tick"]
    args = ("explain", str(asking / "run"), "--agent", "CC", "--tick", str(tick))
    for text in (run(*args)[0].decode(), run(*args, "--raw")[0].decode()):
        assert "[red]never[/red]" in text
        assert visible(HOSTILE).strip() in text
        assert "\x1b" not in text and "\u202e" not in text


def test_without_the_store_the_log_still_speaks(asking: Path, tmp_path: Path) -> None:
    shutil.copytree(asking / "run", tmp_path / "run")
    (tmp_path / "run" / "calls.sqlite").rename(tmp_path / "elsewhere.sqlite")
    (tmp_path / "run" / ".run-id").unlink()
    tick = lines(log_of(asking), "verdict", "KQ")[0]["tick"]
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    bare = explained(tmp_path, "KQ", tick)
    assert any("--store says where it is" in note for note in bare["notes"])
    assert bare["perceived"] is None
    assert {item for call in bare["calls"] for item in call["exchanges"]} == {None}
    args = ("explain", str(tmp_path / "run"), "--agent", "KQ", "--tick", str(tick))
    assert "not at hand" in run(*args)[0].decode()
    found = explained(tmp_path, "KQ", tick, "--store", str(tmp_path / "elsewhere.sqlite"))
    assert found["calls"] == explained(asking, "KQ", tick)["calls"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before


def test_the_commands_are_installed_and_print_utf_8(tmp_path: Path) -> None:
    points = {point.name: point.load() for point in entry_points(group=COMMANDS)}
    assert (points["prompts"], points["explain"]) == (prompts_app, explain)
    args = ("prompts", "show", "C0", "--scenario", "fire_escape", "--agent", "CC")
    done = subprocess.run(
        [sys.executable, "-m", "voville_env", *args],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C"},
    )
    assert done.returncode == 0, done.stderr
    assert "Hobbs Café" in done.stdout.decode()
    assert hashlib.sha256(done.stdout).hexdigest()[:16] in done.stderr.decode()


def test_a_terminal_gets_no_control_characters() -> None:
    assert visible("a\tb\nc é 日 🔥") == "a\tb\nc é 日 🔥"
    assert visible("\x1b[31m\x9b\r\x07\ud800\u2028\u202e") == (
        "\\u001b[31m\\u009b\\u000d\\u0007\\ud800\\u2028\\u202e"
    )
