"""A valid answer to each operation, made from the prompt's text alone: reruns see the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from pave_policy.testing.exchange import StubReply, StubRequest


def canned(request: StubRequest) -> StubReply:
    """Answers any request as a well-behaved model would; the numbers follow from the prompt.

    Args:
        request: With any prompt.

    Returns:
        A valid answer to the operation; ``"OK"`` where it asks for none.
    """
    if request.operation is None:
        return StubReply(content="OK")
    digest = prompt_digest(request)
    if request.operation in JSON_ANSWERS:
        return StubReply(content=json.dumps(JSON_ANSWERS[request.operation](digest)))
    return StubReply(content=_emulate_action(digest))


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
}
"""The operations answered in JSON: the answer, from the digest of the prompt."""
JSON_KEYS = {key for answer in JSON_ANSWERS.values() for key in answer(bytes(32))}
"""Every key of those answers."""
