"""An account in the terminal: sections of aligned lines, plain where there are no colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pave_policy.commands.account import Account, Conduct, Decision, situation_of
from pave_policy.commands.calls import Call, prompt_of
from pave_policy.commands.recorded import When, when_of
from pave_policy.commands.terminal import visible
from pave_policy.llm.exchange import Exchange
from voville_env.core.codes import RULE_NAMES, Rule
from voville_env.events import Event
from voville_env.observation import RULE_TEXT, Context, compass

Row = tuple[str, str]
_GATES = {
    "code": "kept by code",
    "prompt": "told to the model and left to it",
    "off": "switched off",
}
_STYLES = {"violate": "bold red", "comply": "bold green"}


def tell(account: Account, *, raw: bool) -> Iterator[RenderableType]:
    """Tells an account.

    Args:
        account: What is known.
        raw: Whether the prompts and bodies of model calls are told too.

    Yields:
        What to print.
    """
    yield _title(account)
    for note in account.notes:
        yield Text(visible(note), style="yellow")
    if account.context is not None:
        yield from _section("What reached them", _context(account.context))
    if account.perceived is not None:
        yield from _section("What the model made of it", _published(account.perceived))
    for decision in account.decisions:
        name = str(decision.verdict.get("rule_set")).replace("_", "-")
        yield from _section(f"Decision on {name} rules", _decision(account, decision))
    if account.conduct is not None:
        yield from _section("Reaction", _reaction(account.conduct, account.when))
    if account.nearest:
        where = " and ".join(map(_when, account.nearest))
        yield from _section("Decision", [("none", f"nearest: {where}")])
    yield from _section("What they noted", map(_memory, account.memory))
    yield from _section("What else the policy says", map(_event, account.said))
    yield from _section("What was done", [("steps", ", ".join(account.done))])
    yield from _section("What the environment recorded", map(_event, account.events))
    yield from _section("What came of it", map(_outcome, account.outcome))
    for call in account.calls:
        yield from _call(call, raw=raw)


def _title(account: Account) -> Text:
    header, person = account.recording.header, account.recording.people[account.agent]
    about = f"{account.agent}, {person.get('name')} ({person.get('group')})"
    episode = f"{header['scenario']}, seed {header['seed']}, {header['policy']}"
    return Text(visible(f"{about} {_when(account.when)} of {episode}"), style="bold")


def _when(when: When) -> str:
    return f"on day {when[0]} at tick {when[1]}"


def _section(title: str, rows: Iterable[Row]) -> Iterator[RenderableType]:
    """A heading and its lines; nothing without lines."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column(overflow="fold")
    for label, text in rows:
        style = _STYLES.get(text.partition(" ")[0], "") if label == "verdict" else ""
        grid.add_row(Text(visible(label)), Text(visible(text), style=style))
    if grid.row_count:
        yield Text(f"\n{visible(title)}", style="bold")
        yield Padding(grid, (0, 0, 0, 2))


def _context(context: Context) -> Iterator[Row]:
    situation = situation_of(context)
    yield from _published(context.published())
    if (order := situation["instruction"]) is not None:
        towards = f" towards {order['towards']}" if order["towards"] else ""
        yield "order", f"{order['kind']}{towards}, for {order['ticks_left']} more ticks"
    if (signal := situation["signal"]) is not None:
        shows = signal["shows"].replace("_", " ")
        away, left = signal["distance"], signal["changes_in_ticks"]
        yield "signal", f"{shows}, {_tiles(away)} away, changes in {left} ticks"
    states = ("late", "at_goal", "escaping", "blocked", "carrying")
    marks = [name.replace("_", " ") for name in states if situation[name]]
    x, y = context.position
    goal = compass(context.goal[0] - x, context.goal[1] - y)
    yield "place", ", ".join([f"({x}, {y})", f"goal {goal}", *marks])
    yield "at stake", _rules(situation["rules_at_stake"])
    target = "safe" if context.escaping else "goal"
    ways = [_way(name, way) for name, way in situation["ways"].items() if name.startswith(target)]
    yield "ways", "\n".join(ways)


def _published(record: Mapping[str, Any]) -> Iterator[Row]:
    """A context record with the keys of the paper, the environment's or a model's."""
    yield "scene", record["scene_summary"]
    away = record["authority_distance_tiles"]
    yield "authority", f"{_tiles(away)} away" if record["authority_present"] else "none in sight"
    cues = [
        f"{cue['type']}, {_tiles(cue['distance_tiles'])} away, severity {cue['severity']}"
        for cue in record["situational_cues"]
    ]
    yield "cues", "\n".join(cues) or "none"
    yield "people", "\n".join(record["peer_behaviors"]) or "nobody"


def _tiles(number: object) -> str:
    return f"{number} tile" if number == 1 else f"{number} tiles"


def _way(name: str, way: Mapping[str, Any]) -> str:
    to, kind = name.split("_")
    target = "the goal" if to == "goal" else "safety"
    if way["steps"] is None:
        return f"{kind} to {target}: none"
    wait = f", {way['red_wait_ticks']} red ticks" if way["red_wait_ticks"] else ""
    breaks = f", would now break {', '.join(way['breaks'])}" if way["breaks"] else ""
    return f"{kind} to {target}: {way['steps']} steps{wait}{breaks}"


def _rules(names: Sequence[str]) -> str:
    known = [f"{name}: {RULE_TEXT[Rule[name]]}" if name in RULE_NAMES else name for name in names]
    return "\n".join(known) or "none"


def _decision(account: Account, decision: Decision) -> Iterator[Row]:
    verdict = decision.verdict
    rules = _rules(verdict.get("rules", ()))
    yield "rules", f"{rules} (ahead, not yet at stake)" if verdict.get("ahead") else rules
    if decision.assessment is None:
        yield "assessment", "none: the model gave no usable answer"
    else:
        yield from _assessment(decision.assessment)
    if (asked := account.threshold) is not None:
        yield "threshold", _elicited(asked)
    yield "gate", _gate(verdict, account.recording.header["policy_settings"].get("gate"))
    said = f"{verdict.get('decision')} (confidence {verdict.get('confidence')})"
    if verdict.get("fallback"):
        said += f", in place of an unusable answer: {verdict['fallback']}"
    yield "verdict", said
    yield "because", str(verdict.get("justification"))
    shown = verdict
    if decision.origin is not None:
        shown = decision.origin
        yield "reused", f"given {_when(when_of(shown))}; the situation is unchanged"
    style = f", {shown['style']}" if shown.get("style") else ""
    yield "way", f"{verdict.get('route')}{style}"
    plan = "\n".join(f"{number}. {text}" for number, text in enumerate(shown.get("actions", ()), 1))
    if shown.get("plan_fallback"):
        plan += f"\n(plain words in place of an unusable answer: {shown['plan_fallback']})"
    yield "plan", plan or "none"


def _reaction(conduct: Conduct, when: When) -> Iterator[Row]:
    record = conduct.reaction
    about = [str(event) for event in record.get("events", ())]
    yield (
        "noticed",
        "\n".join(_noticed(conduct.ratings.get(key), key) for key in about) or "nothing",
    )
    yield "came to mind", "\n".join(map(str, record.get("memories", ()))) or "nothing"
    if record.get("doing"):
        yield "plan", str(record["doing"])
    said = str(record.get("response"))
    if record.get("fallback"):
        said += f", in place of an unusable answer: {record['fallback']}"
    yield "reaction", said
    yield "because", str(record.get("reason"))
    if when_of(record) != when:
        yield "decided", f"{_when(when_of(record))}; nothing since asked for another reaction"
        new = [_noticed(item, "") for item in conduct.new]
        if new:
            yield "noticed now", "\n".join(new)


def _noticed(rating: Event | None, key: str) -> str:
    """An event and its importance; what is ordinary has no rating of its own."""
    if rating is None:
        return f"{key} (ordinary: importance 1 of 10)"
    said = f"{rating.get('description')} (importance {rating.get('score')} of 10"
    if rating.get("fallback"):
        said += f", in place of an unusable answer: {rating['fallback']}"
    return f"{said})"


def _assessment(record: Event) -> Iterator[Row]:
    reasons = record.get("reasons", {})
    if record.get("fallback"):
        what = "the environment's own structure, in place of an unusable answer"
        yield "perception", f"{what}: {record['fallback']}"
    seen = f"{record.get('n_complying')} of {record.get('n_observed')} people observed comply"
    criteria = [
        f"{name}: {reasons[name]}"
        for name in ("necessity", "proportionality", "alternatives")
        if name in reasons
    ]
    texts = {**reasons, "p_emp": seen, "legitimacy": "\n     ".join(criteria)}
    for name in ("risk", "p_emp", "p_norm", "benefit", "legitimacy"):
        yield name, f"{record.get(name)!s:>3}  {texts.get(name, '')}"


def _elicited(record: Event) -> str:
    said = f"{record.get('value')}, asked for {_when(when_of(record))}: "
    if record.get("fallback"):
        return said + f"the published value, in place of an unusable answer: {record['fallback']}"
    return said + str(record.get("reason"))


def _gate(verdict: Event, keeper: object) -> str:
    kept = _GATES.get(str(keeper), "")
    at = f"legitimacy {verdict.get('legitimacy')}, threshold {verdict.get('threshold')}"
    state = "open" if verdict.get("gate_open") else "closed"
    if keeper == "off":
        return f"{kept}: {at}"
    leak = ""
    if verdict.get("gate_leak"):
        overruled = "and was overruled" if keeper == "code" else "and had its way"
        leak = f"; the model said violate all the same, {overruled}"
    return f"{state}: {at}; {kept}{leak}"


def _memory(record: Event) -> Row:
    fallback = f" (plain words: {record['fallback']})" if record.get("fallback") else ""
    return str(record.get("kind")), f"{record.get('text')}{fallback}"


def _outcome(record: Event) -> Row:
    return f"noted {_when(when_of(record))}", _memory(record)[1]


def _event(record: Event) -> Row:
    """A record's keys and values, but for when and whose it is."""
    told = []
    for key, value in record.items():
        if key in ("type", "day", "tick", "agent") or value is None:
            continue
        name = key.replace("_", " ")
        if isinstance(value, bool):
            told.append(name if value else f"not {name}")
        elif isinstance(value, list):
            told.append(f"{name} {', '.join(map(str, value)) or 'nothing'}")
        else:
            told.append(f"{name} {value}")
    return record["type"].replace("_", " "), "; ".join(told)


def _call(call: Call, *, raw: bool) -> Iterator[RenderableType]:
    record = call.record
    tokens = (
        f"{_known(record['prompt_tokens'])} tokens in, {_known(record['completion_tokens'])} out"
    )
    detail = f" ({record['detail']})" if record.get("detail") else ""
    rows = [("outcome", f"{record['outcome']}{detail}; {tokens}")]
    if record.get("fallback"):
        rows.append(("stood in", record["fallback"]))
    if not raw:
        for key, exchange in zip(record["keys"], call.exchanges, strict=True):
            rows += [("key", key), *_reply(exchange)]
    about = f" on {record['rule_set'].replace('_', '-')} rules" if record["rule_set"] else ""
    yield from _section(f"Model call {record['operation']}{about}", rows)
    if raw:
        for key, exchange in zip(record["keys"], call.exchanges, strict=True):
            yield from _raw(key, exchange)


def _known(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def _reply(exchange: Exchange | None) -> Iterator[Row]:
    if exchange is None:
        yield "reply", "not at hand"
        return
    if exchange.reasoning:
        yield "thoughts", exchange.reasoning
    if exchange.refusal:
        yield "refusal", exchange.refusal
    if exchange.text is not None:
        yield "reply", exchange.text


def _raw(key: str, exchange: Exchange | None) -> Iterator[RenderableType]:
    """An exchange as it was, to be copied: not indented, and no line is broken."""
    if exchange is None:
        yield from _section(f"Exchange {key}", _reply(exchange))
        return
    parts = (("prompt", prompt_of(exchange)), *_reply(exchange), ("body", exchange.raw))
    for name, text in parts:
        yield Text(f"\n{name} of {key}", style="bold")
        yield Text(visible(text), no_wrap=True, overflow="ignore")
