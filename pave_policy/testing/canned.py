"""A valid answer to each operation, made from the prompt's text alone: reruns see the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from pave_policy.testing.exchange import (
    EMBED,
    StubReply,
    StubRequest,
    input_texts,
    vectors_body,
)

DIMENSIONS = 16
_DAY_END = re.compile(r'"ends at minute": (\d+)')
_PART = re.compile(r"<part>\n(\{.*\})\n</part>")


def canned(request: StubRequest) -> StubReply:
    """Answers any request as a well-behaved model would; the numbers follow from the prompt.

    Args:
        request: With any prompt.

    Returns:
        A valid answer to the operation; a vector for each text to embed; ``"OK"`` where it asks for
        neither.
    """
    if request.operation is None:
        return StubReply(content="OK")
    if request.operation == EMBED:
        return StubReply(body=vectors_body([_vector(text) for text in input_texts(request.body)]))
    if request.operation in JSON_ANSWERS:
        return StubReply(content=json.dumps(json_answer(request)))
    return StubReply(content=_emulate_action(prompt_digest(request)))


def json_answer(request: StubRequest) -> dict[str, Any]:
    """A valid answer to an operation that is answered in JSON.

    Args:
        request: With a prompt of one of `JSON_ANSWERS`.

    Returns:
        The answer; a plan ends where the prompt says that it is to.
    """
    answer = JSON_ANSWERS[str(request.operation)](prompt_digest(request))
    start, end = _span(request.prompt)
    for key in {"plan", "parts"} & set(answer):
        parts = [
            {**part, "until": start + (end - start) * part["until"] // _WHOLE}
            for part in answer[key]
        ]
        answer[key] = [part for part in parts if part["until"] > start]
    return answer


def _span(prompt: str) -> tuple[int, int]:
    """Where the plan asked for begins and ends."""
    if found := _PART.search(prompt):
        part = json.loads(found[1])
        return part["from"], part["until"]
    found = _DAY_END.search(prompt)
    return 0, int(found[1]) if found else _WHOLE


def _vector(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return [byte / 128 - 1 for byte in digest[:DIMENSIONS]]


def prompt_digest(request: StubRequest) -> bytes:
    """Condenses a prompt.

    Args:
        request: With any prompt.

    Returns:
        32 bytes that stand for its text, equal in every process.
    """
    return hashlib.sha256(request.prompt.encode("utf-8", "surrogatepass")).digest()


def _within(byte: int, low: int, high: int) -> int:
    """Spreads the values of a byte evenly over a range."""
    return low + byte * (high - low + 1) // 256


def _one_of(byte: int, *options: str) -> str:
    return options[byte % len(options)]


def _elicit_threshold(digest: bytes) -> dict[str, Any]:
    return {"threshold": _within(digest[0], 1, 100), "reason": "They weigh rules against need."}


def _perceive_context(digest: bytes) -> dict[str, Any]:
    officer = digest[0] % 2 == 0
    burning = digest[1] % 2 == 0
    fire = {
        "type": "fire",
        "distance_tiles": _within(digest[2], 1, 40),
        "severity": _within(digest[3], 1, 100),
    }
    peers = ["a man waits at the kerb", "a woman crosses on red", "a runner heads for the park"]
    return {
        "authority_present": officer,
        "authority_distance_tiles": _within(digest[4], 1, 20) if officer else "inf",
        "peer_behaviors": peers[: digest[5] % 4],
        "situational_cues": [fire] if burning else [],
        "scene_summary": "Smoke drifts over the street." if burning else "The street is calm.",
    }


def _assess_risk(digest: bytes) -> dict[str, Any]:
    return {"risk": _within(digest[0], 1, 100), "reason": "It depends on who is looking."}


def _assess_empirical(digest: bytes) -> dict[str, Any]:
    observed = digest[0] % 5
    complying = _within(digest[1], 0, observed)
    share = max(1, round(100 * complying / observed)) if observed else 50
    return {"p_emp": share, "n_observed": observed, "n_complying": complying}


def _assess_normative(digest: bytes) -> dict[str, Any]:
    return {"p_norm": _within(digest[0], 1, 100), "reason": "People here care about this rule."}


def _assess_benefit(digest: bytes) -> dict[str, Any]:
    return {"benefit": _within(digest[0], 1, 100), "reason": "It would save some time."}


def _assess_legitimacy(digest: bytes) -> dict[str, Any]:
    return {
        "legitimacy": _within(digest[0], 1, 100),
        "necessity": _one_of(digest[1], "Waiting does harm.", "Waiting does no harm."),
        "proportionality": _one_of(digest[2], "It is a small step.", "It goes too far."),
        "alternatives": _one_of(digest[3], "No lawful way is open.", "A lawful way is open."),
    }


def _generate_verdict(digest: bytes) -> dict[str, Any]:
    return {
        "decision": _one_of(digest[0], "comply", "violate"),
        "justification": "Legitimacy and risk were weighed. The benefit did not change that.",
        "confidence": _within(digest[1], 0, 100),
    }


def _propagate_outcome(digest: bytes) -> dict[str, Any]:
    followed = digest[0] % 2 == 0
    return {
        "observed_behavior": "Someone waits at the kerb."
        if followed
        else "Someone crosses on red.",
        "observed_outcome": _one_of(digest[1], "nobody reacts", "an officer looks over"),
        "rule_followed": followed,
    }


def _emulate_action(digest: bytes) -> str:
    middle = _one_of(digest[0], "Wait for a gap", "Step off the kerb", "Let the others pass")
    return f"1. Look around (5s).\n2. {middle} ({5 + digest[1] % 3 * 5}s).\n3. Walk on (5s)."


_WHOLE = 60
"""Minutes of a plan that is not told how long it is."""


def _rate_importance(digest: bytes) -> dict[str, Any]:
    return {"importance": _within(digest[0], 1, 10)}


def _plan_day(digest: bytes) -> dict[str, Any]:
    activity = _one_of(digest[0], "go about the morning", "sit with friends", "run errands")
    return {"plan": _halves(activity)}


def _halves(activity: str) -> list[dict[str, Any]]:
    return [
        {"activity": activity, "until": _WHOLE // 2},
        {"activity": "see what is left to do", "until": _WHOLE},
    ]


def _decompose_plan(digest: bytes) -> dict[str, Any]:
    activity = _one_of(digest[0], "get ready and begin", "take it slowly", "talk to somebody")
    return {"parts": _halves(activity)}


def _ask_focal_points(digest: bytes) -> dict[str, Any]:
    first = _one_of(digest[0], "Who keeps to the signal here?", "What do the neighbours care for?")
    return {"questions": [first, "Where do people meet?", "What has changed lately?"]}


def _draw_insights(digest: bytes) -> dict[str, Any]:
    insight = _one_of(digest[0], "People here take their time.", "The crossing is a busy place.")
    return {"insights": [{"insight": insight, "evidence": [1]}]}


def _react(digest: bytes) -> dict[str, Any]:
    reaction = _one_of(digest[0], "continue", "wait", "flee")
    return {"reaction": reaction, "reason": "It seems the thing to do."}


JSON_ANSWERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "elicit_threshold": _elicit_threshold,
    "perceive_context": _perceive_context,
    "assess_risk": _assess_risk,
    "assess_empirical": _assess_empirical,
    "assess_normative": _assess_normative,
    "assess_benefit": _assess_benefit,
    "assess_legitimacy": _assess_legitimacy,
    "generate_verdict": _generate_verdict,
    "propagate_outcome": _propagate_outcome,
    "rate_importance": _rate_importance,
    "plan_day": _plan_day,
    "decompose_plan": _decompose_plan,
    "ask_focal_points": _ask_focal_points,
    "draw_insights": _draw_insights,
    "react": _react,
}
"""The operations answered in JSON: the answer, from the digest of the prompt."""
JSON_KEYS = {key for answer in JSON_ANSWERS.values() for key in answer(bytes(32))}
"""Every key of those answers."""
