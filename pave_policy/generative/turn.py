"""One person's tick: how something is asked of the backbone, recalled and written down."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from pave_policy.generative.agent import Person
from pave_policy.generative.requests import GenerativeBackbone
from pave_policy.generative.settings import GenerativeSettings
from pave_policy.glance import Glance
from pave_policy.memory.retrieval import retrieve
from pave_policy.memory.stream import Entry
from pave_policy.outcome import Failure, Outcome
from pave_policy.site import Site

T = TypeVar("T")
Record = dict[str, Any]
Ask = Callable[[GenerativeBackbone], Coroutine[Any, Any, Outcome[T]]]


@dataclass(frozen=True)
class Turn:
    """One person's tick.

    Attributes:
        person: Who.
        glance: What they see.
        backbone: Who answers the operations.
        site: Where in the run.
        now: The current tick, counted over days.
        settings: The numbers of the agent.
    """

    person: Person
    glance: Glance
    backbone: GenerativeBackbone
    site: Site
    now: int
    settings: GenerativeSettings

    async def ask(
        self, operation: str, ask: Ask[T], is_usable: Callable[[T], bool] = lambda _: True
    ) -> tuple[Outcome[T], list[Record]]:
        """Asks one question at a desk of its own, so that others can be asked side by side.

        Args:
            operation: Which one it is, for messages.
            ask: Asks it of a backbone.
            is_usable: Whether a value keeps to what was asked; one that does not is malformed.

        Returns:
            A value or what the model did instead, and the records of the question.

        Raises:
            CallFailedError: If the call itself failed.
        """
        desk = self.backbone.at(self.site, self.person.asked)
        outcome = (await ask(desk)).conduct(operation)
        if outcome.value is not None and not is_usable(outcome.value):
            outcome = Outcome(failure=Failure.MALFORMED, detail="beside what was asked")
        return outcome, desk.take_records()

    async def recall(self, queries: tuple[str, ...], *, before: int | None = None) -> list[Entry]:
        """What comes to mind.

        Args:
            queries: What it should bear on.
            before: Only entries from before this tick; all of them unless given.

        Returns:
            The entries, the foremost first.
        """
        person, settings = self.person, self.settings
        entries = [item for item in person.stream if before is None or item.created < before]
        if not entries:
            return []
        missing = [entry for entry in entries if entry.vector is None]
        desk = self.backbone.at(self.site, person.asked)
        vectors = await desk.embed((*(entry.text for entry in missing), *queries))
        person.log += desk.take_records()
        for entry, vector in zip(missing, vectors, strict=False):
            entry.vector = vector
        asked = vectors[len(missing) :]
        return retrieve(entries, asked, self.now, settings.weights, settings.retrieved)

    def write(self, kind: str, text: str, failure: Failure | None = None) -> None:
        """Writes a memory into the log.

        Args:
            kind: Such as `observation` or `plan`.
            text: What is kept.
            failure: Why something else stands in for it, if it does.
        """
        self.person.log.append(memory_record(self.site, kind, text, failure))


def record(type_: str, site: Site, **fields: object) -> Record:
    """A decision record.

    Args:
        type_: Its type.
        site: Whose it is and when.
        **fields: What it says.

    Returns:
        A JSON-ready record.
    """
    return {"type": type_, "agent": site.agent, "day": site.day, "tick": site.tick, **fields}


def memory_record(site: Site, kind: str, text: str, failure: Failure | None = None) -> Record:
    """The record of a memory.

    Args:
        site: Whose it is and when.
        kind: Such as `observation` or `plan`.
        text: What is kept.
        failure: Why something else stands in for it, if it does.

    Returns:
        A JSON-ready record.
    """
    return record("memory", site, kind=kind, text=text, fallback=value_of(failure))


def value_of(failure: Failure | None) -> str | None:
    """A failure as the log has it.

    Args:
        failure: What the model did, if it gave no usable answer.

    Returns:
        Its name.
    """
    return None if failure is None else failure.value
