"""What a model was asked and answered in a finished episode: from its log and the call store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pave_policy.commands.recorded import Recording
from pave_policy.llm.exchange import ANSWERED, VALID, Exchange
from pave_policy.llm.prompts import load_templates
from pave_policy.llm.reading import UnreadableError, read_answer
from pave_policy.llm.store import CallStore
from voville_env.benchmarks.folder import CALLS, store_of
from voville_env.errors import InvalidValueError
from voville_env.events import Event

_WHERE = ("agent", "day", "tick", "rule_set")
_TOLD = (
    *("key", "sample", "run", "outcome", "detail", "finish", "text", "refusal", "reasoning"),
    *("prompt_tokens", "completion_tokens", "cost", "latency", "attempts", "raw"),
)


@dataclass(frozen=True)
class Call:
    """An operation that a model was asked for.

    Attributes:
        record: What the log says of it, with where it was asked.
        exchanges: What the store holds of it: one for each request, None where it holds none.
    """

    record: Event
    exchanges: Sequence[Exchange | None]

    def as_json(self) -> dict[str, Any]:
        """The call as data.

        Returns:
            A JSON-ready dict.
        """
        return {**self.record, "exchanges": [_as_json(item) for item in self.exchanges]}


def calls_of(
    recording: Recording, records: Sequence[Event], store: Path | None
) -> tuple[list[Call], list[str]]:
    """Joins what a log says of model calls with what the store holds of them.

    Args:
        recording: The episode.
        records: Its records of type `llm_call` that are of interest.
        store: The store; that in the run folder unless given.

    Returns:
        One call an operation, and what there is to say about them.

    Raises:
        InvalidValueError: If the store cannot be used.
    """
    if store is not None and not store.is_file():
        raise InvalidValueError(f"store is {str(store)!r}; there is no such file")
    asked = [
        {**{name: record[name] for name in _WHERE}, **call}
        for record in records
        for call in record["calls"]
    ]
    if not asked:
        return [], []
    folder = recording.folder
    path = store_of(folder, store) if folder else store or recording.path.parent / CALLS
    if not path.is_file():
        unread = [Call(call, [None for _ in call["keys"]]) for call in asked]
        return unread, [f"There is no store of model calls at {path}; --store says where it is."]
    with closing(CallStore(path, _run_of(recording))) as found:
        calls = [
            Call(call, [_exchange(found, key, call, recording) for key in call["keys"]])
            for call in asked
        ]
    lost = sum(item is None for call in calls for item in call.exchanges)
    return calls, [f"{lost} of the exchanges are not in the store {path}."] if lost else []


def _run_of(recording: Recording) -> str:
    """The name of the run in its store; looking at a run must not give it one."""
    path = (recording.folder or recording.path.parent) / ".run-id"
    return path.read_text("utf-8").strip() if path.is_file() else ""


def _exchange(store: CallStore, key: str, call: Event, recording: Recording) -> Exchange | None:
    """The answer that was taken at a place.

    At temperature 0 a request has one answer, whoever asks. Otherwise it has one for each time that
    a person asks in an episode, and which time it was can be seen from where it was asked.
    """
    own = f"{recording.key.seed}:{call['agent']}:"
    place = (call["day"], call["tick"], call["rule_set"])
    answered = [
        item
        for item in store.exchanges([key])
        if item.outcome in ANSWERED and (item.sample == "0" or item.sample.startswith(own))
    ]
    answered.sort(key=lambda item: (item.site.day, item.site.tick, item.site.rule_set) != place)
    return store.find_any(key, answered[0].sample) if answered else None


def perceived_by(calls: Sequence[Call]) -> Mapping[str, Any] | None:
    """The context record as a model put it.

    Args:
        calls: The calls of one agent and tick.

    Returns:
        A JSON-ready dict; None where no model perceived, or its reply is not at hand.
    """
    for call in calls:
        last = call.exchanges[-1] if call.exchanges else None
        if call.record["operation"] != "perceive_context" or call.record["outcome"] != VALID:
            continue
        if last is not None and last.text is not None:
            examples = load_templates()["perceive_context"].examples
            try:
                said = read_answer(last.text, "perceive_context", examples)
            except UnreadableError:
                return None  # what is a valid answer has changed since
            return said.model_dump(mode="json")
    return None


def prompt_of(exchange: Exchange) -> str:
    """The prompt that was sent.

    Args:
        exchange: The exchange.

    Returns:
        The text of its messages.
    """
    return "\n".join(message["content"] for message in exchange.request["messages"])


def _as_json(exchange: Exchange | None) -> dict[str, Any] | None:
    if exchange is None:
        return None
    return {
        **{name: getattr(exchange, name) for name in _TOLD},
        "prompt": prompt_of(exchange),
        "max_tokens": exchange.request["max_tokens"],
    }
