"""Why one agent did what it did at one tick: all that a log, a store and the town know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pave_policy.commands.calls import Call, calls_of, perceived_by
from pave_policy.commands.recorded import Recording, When, look_again, when_of
from voville_env.benchmarks.play import POLICY_RECORDS
from voville_env.core.codes import Instruction, Rule, SignalState
from voville_env.events import Event
from voville_env.observation import Context, to_context

_SHOWN_APART = (
    *("assessment", "verdict", "llm_call", "threshold", "memory"),
    *("importance", "reaction"),
)


@dataclass(frozen=True)
class Decision:
    """A verdict of the tick and the assessment behind it.

    Attributes:
        verdict: The record of the verdict.
        assessment: The record of the assessment; None where the model gave none.
        origin: The verdict that is reused, where it is.
    """

    verdict: Event
    assessment: Event | None
    origin: Event | None


@dataclass(frozen=True)
class Conduct:
    """What the generative agent does at a tick, and what it rests on.

    Attributes:
        reaction: The record of the reaction that holds: this tick's or the last one before.
        ratings: The records of the importance of all that it is about, by event.
        new: The records of what was rated in this tick.
    """

    reaction: Event
    ratings: Mapping[str, Event]
    new: Sequence[Event]


@dataclass(frozen=True)
class Account:
    """What is known of one agent and tick.

    Attributes:
        recording: The episode.
        agent: Who.
        when: Day and tick.
        context: What reached them; None where it cannot be worked out.
        perceived: What a model made of it, where one was asked and its reply is at hand.
        decisions: One for each set of rules in question.
        nearest: Where nothing was decided: the nearest ticks before and after at which they did.
        conduct: What the generative agent does; None of an agent that never reacted.
        threshold: The last record of an elicited threshold, if any.
        memory: What they noted in this tick.
        outcome: What was noted later of this tick's fresh verdicts.
        said: Whatever else the policy recorded of them.
        done: What they did, step by step.
        events: What the environment recorded of them.
        calls: What a model was asked for.
        notes: What there is to say about all this.
    """

    recording: Recording
    agent: str
    when: When
    context: Context | None
    perceived: Mapping[str, Any] | None
    decisions: Sequence[Decision]
    nearest: Sequence[When]
    conduct: Conduct | None
    threshold: Event | None
    memory: Sequence[Event]
    outcome: Sequence[Event]
    said: Sequence[Event]
    done: Sequence[str]
    events: Sequence[Event]
    calls: Sequence[Call]
    notes: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """The whole account as data.

        Returns:
            A JSON-ready dict.
        """
        header = self.recording.header
        return {
            "log": str(self.recording.path),
            **{name: header[name] for name in ("scenario", "policy", "seed", "policy_settings")},
            "agent": self.recording.people[self.agent],
            "day": self.when[0],
            "tick": self.when[1],
            "context": None if self.context is None else self.context.published(),
            "situation": None if self.context is None else situation_of(self.context),
            "perceived": self.perceived,
            "decisions": [
                {"verdict": one.verdict, "assessment": one.assessment, "origin": one.origin}
                for one in self.decisions
            ],
            "nearest_verdicts": [list(when) for when in self.nearest],
            "reaction": None if self.conduct is None else self.conduct.reaction,
            "importance": [] if self.conduct is None else list(self.conduct.new),
            "threshold": self.threshold,
            "memory": list(self.memory),
            "outcome": list(self.outcome),
            "said": list(self.said),
            "actions": list(self.done),
            "events": list(self.events),
            "calls": [call.as_json() for call in self.calls],
            "notes": list(self.notes),
        }


def account_of(recording: Recording, agent: str, when: When, store: Path | None = None) -> Account:
    """Collects what is known.

    Args:
        recording: The episode.
        agent: Who.
        when: Day and tick.
        store: The store of model calls; in the run folder unless given.

    Returns:
        The account.

    Raises:
        InvalidValueError: If the store cannot be used, or the episode does not reach the tick.
    """
    here = [record for record in recording.records if when_of(record) == when]
    own = [record for record in here if record.get("agent") == agent]
    seen = look_again(recording, agent, when)
    calls, missing = calls_of(recording, _of_type(own, "llm_call"), store)
    decisions = _decisions(recording, agent, own)
    return Account(
        recording=recording,
        agent=agent,
        when=when,
        context=None if seen.observation is None else to_context(seen.observation),
        perceived=perceived_by(calls),
        decisions=decisions,
        nearest=[] if decisions else _nearest(recording, agent, when),
        conduct=_conduct(recording, agent, when),
        threshold=_threshold(recording, agent, when),
        memory=_of_type(own, "memory"),
        outcome=_outcome(recording, agent, when) if _any_fresh(decisions) else [],
        said=[
            record
            for record in own
            if record["type"] in POLICY_RECORDS and record["type"] not in _SHOWN_APART
        ],
        done=_done(recording, agent, when),
        events=_events(here, agent),
        calls=calls,
        notes=[*seen.notes, *missing, *_remarks(recording)],
    )


def situation_of(context: Context) -> dict[str, Any]:
    """What a context holds besides what the paper publishes of it, by name.

    Args:
        context: The context.

    Returns:
        A JSON-ready dict.
    """
    towards = context.instruction_direction
    plain = ("position", "goal", "late", "at_goal", "escaping", "blocked", "carrying")
    return {
        **{name: getattr(context, name) for name in plain},
        "rules_in_force": _names(context.rules_in_force),
        "rules_at_stake": _names(context.rules_at_stake),
        "signal": None
        if context.signal is SignalState.NONE
        else {
            "shows": context.signal.name.lower(),
            "distance": context.signal_distance,
            "changes_in_ticks": context.signal_ticks,
        },
        "instruction": None
        if context.instruction is Instruction.NONE
        else {
            "kind": context.instruction.name.lower(),
            "towards": None if towards is None else towards.name,
            "ticks_left": context.instruction_ticks_left,
        },
        "ways": {
            name: {"steps": way.distance, "red_wait_ticks": way.wait, "breaks": _names(way.rules)}
            for name, way in context.ways.items()
        },
    }


def _names(rules: Iterable[Rule]) -> list[str]:
    return [rule.name for rule in rules]


def _of_type(records: Iterable[Event], kind: str) -> list[Event]:
    return [record for record in records if record["type"] == kind]


def _decisions(recording: Recording, agent: str, own: Sequence[Event]) -> list[Decision]:
    assessed = {record.get("rule_set"): record for record in _of_type(own, "assessment")}
    found = []
    for verdict in _of_type(own, "verdict"):
        rule_set = verdict.get("rule_set")
        origin = None
        if verdict.get("reused"):
            for earlier in recording.of(agent, "verdict"):
                if when_of(earlier) >= when_of(verdict):
                    break
                if earlier.get("rule_set") == rule_set and not earlier.get("reused"):
                    origin = earlier
        found.append(Decision(verdict, assessed.get(rule_set), origin))
    return found


def _any_fresh(decisions: Sequence[Decision]) -> bool:
    return any(not decision.verdict.get("reused") for decision in decisions)


def _nearest(recording: Recording, agent: str, when: When) -> list[When]:
    """The last verdict before and the first one after."""
    given = [when_of(record) for record in recording.of(agent, "verdict")]
    before, after = [t for t in given if t < when], [t for t in given if t > when]
    return [*before[-1:], *after[:1]]


def _conduct(recording: Recording, agent: str, when: When) -> Conduct | None:
    reactions = [item for item in recording.of(agent, "reaction") if when_of(item) <= when]
    rated = [item for item in recording.of(agent, "importance") if when_of(item) <= when]
    new = [item for item in rated if when_of(item) == when]
    if not reactions:
        return None
    return Conduct(reactions[-1], {str(item.get("event_id")): item for item in rated}, new)


def _threshold(recording: Recording, agent: str, when: When) -> Event | None:
    asked = [item for item in recording.of(agent, "threshold") if when_of(item) <= when]
    return asked[-1] if asked else None


def _outcome(recording: Recording, agent: str, when: When) -> list[Event]:
    """What was noted of an outcome the next time anything was."""
    later = [
        record
        for record in recording.of(agent, "memory")
        if record.get("kind") == "outcome" and when_of(record) > when
    ]
    return [record for record in later if when_of(record) == when_of(later[0])]


def _done(recording: Recording, agent: str, when: When) -> list[str]:
    """The actions by name; nobody did anything but wait where the log has none."""
    index = list(recording.people).index(agent)
    steps = recording.actions().get(when)
    if steps is None:
        return ["WAIT"] * recording.header["clock"]["steps_per_tick"]
    return [step[index].name for step in steps]


def _events(here: Sequence[Event], agent: str) -> list[Event]:
    """What the environment recorded of an agent, and what it made them see of others."""
    return [
        record
        for record in here
        if record["type"] not in POLICY_RECORDS
        and (record.get("agent") == agent or agent in record.get("observers", ()))
    ]


def _remarks(recording: Recording) -> list[str]:
    """What the log as a whole says of how it came about."""
    types = {record["type"] for record in recording.records}
    settings = recording.header["policy_settings"]
    remarks = []
    if types.isdisjoint(POLICY_RECORDS):
        remarks.append(f"The policy {recording.key.policy} says nothing of itself.")
    if "backbone" in settings and "llm_call" not in types:
        remarks.append("No model was called in this episode: there are no exchanges to show.")
    if settings.get("peer_text"):
        remarks.append(
            "With peer_text, people read observers' sentences about each other, which are in the "
            "prompts and not in the context below."
        )
    return remarks
