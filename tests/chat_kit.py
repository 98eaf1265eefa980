"""What the tests of the chat backbone share: requests, moments of an episode, runs, their files."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from pave_policy.background import wait_for
from pave_policy.conditions import Condition, pave
from pave_policy.llm.chat import Chat, make_chat
from pave_policy.llm.prompts import OPERATIONS
from pave_policy.llm.sample_requests import sample_requests
from pave_policy.outcome import Outcome
from pave_policy.pave import PavePolicy
from pave_policy.records import GateMode
from pave_policy.settings import PaveSettings
from pave_policy.site import Site
from pave_policy.testing import Answerer, StubReply, StubRequest, StubServer
from pave_policy.testing.exchange import operation_of
from pave_policy.testing.wire import HttpReply, HttpRequest
from voville_env.benchmarks.runner import run_suite
from voville_env.benchmarks.suite import Suite, plan
from voville_env.cli.app import run as run_command
from voville_env.events import Event, read_log
from voville_env.observation import Observation
from voville_env.parallel import VovilleEnv
from voville_env.policy import Briefing
from voville_env.scenario.briefing import make_briefing

SCALARS = tuple(operation for operation in OPERATIONS if operation.startswith("assess_"))
REQUESTS: Mapping[str, object] = dict(zip(OPERATIONS, sample_requests(), strict=True))
"""One request of each operation."""
PEOPLE = (WHO, OTHER) = ("CC", "KQ")
WAITS = 32
"""The tick in which the person comes to a red light; they stand there for the next two."""
RESULTS = ("summary.json", "report.md", "report.html")


class Switch:
    """An answerer whose answers can be changed while its server runs."""

    def __init__(self, now: Answerer) -> None:
        self.now = now

    def __call__(self, request: StubRequest) -> StubReply | str:
        return self.now(request)


class Rounds(StubServer):
    """Counts the rounds of a decision, and lets nobody go on before its assessments are all there.

    A round begins with a request that arrives while no other is under way.
    """

    def __init__(self, answer: Answerer | None = None, *, together: int) -> None:
        self.rounds: list[list[str | None]] = []
        self._all_there = asyncio.Barrier(together)
        self._under_way = 0
        super().__init__(answer)

    def __enter__(self) -> Rounds:
        return self

    async def _chat(self, http: HttpRequest, path: str, query: str) -> HttpReply | None:
        operation = operation_of(json.loads(http.body))
        if self._under_way == 0:
            self.rounds.append([])
        self.rounds[-1].append(operation)
        self._under_way += 1
        try:
            reply = await super()._chat(http, path, query)
            if operation in SCALARS:
                await self._all_there.wait()
            return reply
        finally:
            self._under_way -= 1


def chat(url: str, **options: Any) -> Chat:
    return make_chat(**{"base_url": url, "model": "stub", **options})


async def ask(backbone: Chat, operation: str) -> Outcome[Any]:
    outcome: Outcome[Any] = await getattr(backbone, operation)(REQUESTS[operation])
    return outcome


def desk(backbone: Chat, asked: Counter[str] | None = None, **site: Any) -> Chat:
    return backbone.at(Site(**site), Counter() if asked is None else asked)


@cache
def moments() -> tuple[Briefing, Mapping[int, Observation]]:
    """The episode, and what one person sees at the start of each tick around their red light."""
    env = VovilleEnv("jaywalk", window=(1, 28, 40))
    policy, briefing = pave(), make_briefing(env.world, 0)
    observations, infos = env.reset(seed=0)
    policy.reset(briefing)
    seen: dict[int, Observation] = {}
    while env.agents:
        tick, step = observations[WHO]["self"].tolist()[3:5]
        if step == 0:
            seen[tick] = copy.deepcopy(observations[WHO])
        observations, *_, infos = env.step(policy.act(observations, infos))
    return briefing, seen


def seen_at(tick: int, *, dx: int = 0, **rows: list[list[int]]) -> Observation:
    """What the person sees at the red light: in another tick, further east, with other rows."""
    found = {name: row.copy() for name, row in moments()[1][WAITS].items()}
    found["self"][0] += dx
    found["self"][3] = tick
    for name, values in rows.items():
        for place, row in enumerate(values):
            found[name][place] = row
    return found


@contextmanager
def at_the_light(
    backbone: Chat, gate: GateMode = GateMode.CODE, **options: Any
) -> Iterator[PavePolicy]:
    """A policy at the start of an episode, whose connections are closed in the end."""
    policy = Condition("pave", PaveSettings(gate=gate))(backbone, **options)
    policy.reset(moments()[0])
    try:
        yield policy
    finally:
        wait_for(backbone.aclose())


def see(policy: PavePolicy, *seen: Observation) -> list[Event]:
    """Lets one person, or another as well, act on what they see; gives the records of it."""
    policy.act(dict(zip(PEOPLE, seen, strict=False)), {})
    return policy.records()


def verdict_of(records: list[Event]) -> Event:
    """The one verdict among some records."""
    (verdict,) = of_type(records, "verdict")
    return verdict


def of_type(records: list[Event], kind: str) -> list[Event]:
    return [record for record in records if record["type"] == kind]


def suite_of(
    *policies: str,
    scenarios: tuple[str, ...] = ("jaywalk",),
    seeds: int = 1,
    options: Mapping[str, Any] | None = None,
) -> Suite:
    """A plan of the focus windows alone, without controls."""
    made = plan(
        list(scenarios), list(policies or ("pave",)), quick=True, backbone="stub", options=options
    )
    return replace(made, scenarios=scenarios, seeds=tuple(range(seeds)))


def bench(
    folder: Path,
    backbone: Chat,
    suite: Suite | None = None,
    *,
    resume: bool = False,
    store: Path | None = None,
) -> dict[str, Any]:
    suite = suite_of() if suite is None else suite
    return run_suite(suite, folder, backbone=backbone, resume=resume, store=store)[0]


def short_fire(folder: Path) -> str:
    """A scenario of a few ticks in which several people must decide at once."""
    path = folder / "short_fire.toml"
    path.write_text('base = "fire_escape"\nname = "short_fire"\nfocus = [1, 50, 52]\n', "utf-8")
    return str(path)


def log_of(folder: Path, stem: str = "jaywalk--pave--0") -> list[Event]:
    return list(read_log(folder / "episodes" / f"{stem}.jsonl"))


def results(folder: Path) -> dict[str, bytes]:
    """What must not depend on how a run went: the logs and everything made from them."""
    logs = sorted((folder / "episodes").glob("*.jsonl"))
    return {path.name: path.read_bytes() for path in [*logs, *(folder / n for n in RESULTS)]}


def load_strictly(data: bytes) -> Any:
    """Reads JSON as a browser would."""
    return json.loads(data.decode("utf-8", "strict"), parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def block(prompt: str, tag: str) -> Any:
    """The data in a prompt between the one pair of lines with a tag."""
    assert prompt.count(f"<{tag}>") == prompt.count(f"</{tag}>") == 1, tag
    inside = prompt.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]
    return json.loads(inside)


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str


def voville(*args: str | Path) -> Done:
    """Runs a command in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    code: Any = 0
    sys.argv = ["voville", *map(str, args)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            run_command()
    except SystemExit as done:
        code = done.code or 0
    finally:
        sys.argv = before
    return Done(int(code), out.getvalue(), err.getvalue())


def bench_command(folder: Path, url: str, *more: str | Path) -> Done:
    """`voville bench` with the stub: two short episodes, a scenario and its control."""
    plan = ("--quick", "--scenario", "jaywalk", "--policy", "pave", "--out", folder)
    model = ("--backbone", "chat", "--base-url", url, "--model", "stub")
    return voville("bench", *plan, *model, *more)
