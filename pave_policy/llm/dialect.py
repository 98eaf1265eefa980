"""Which parameters an endpoint takes: found out once, from what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pave_policy.llm.complaint import Complaint
from pave_policy.llm.settings import ChatSettings

_LENGTHS = ("max_tokens", "max_completion_tokens")


class Dialect:
    """Writes the parameters of requests, and learns from refusals."""

    def __init__(self, settings: ChatSettings, notes: list[str]) -> None:
        """Starts with the parameters that most endpoints take.

        Args:
            settings: What is to be sent.
            notes: Gets a line for each thing learnt.
        """
        self._settings = settings
        self._notes = notes
        self._length = _LENGTHS[0]
        self._refused: set[str] = set()

    @property
    def embedding_model(self) -> str:
        """The model that embeds."""
        return self._settings.embedding_model

    def parameters(self, max_tokens: int, *, json_answer: bool) -> dict[str, Any]:
        """Writes the parameters of a request.

        Args:
            max_tokens: Length of the reply at most.
            json_answer: Whether JSON is expected.

        Returns:
            All but the messages.
        """
        settings = self._settings
        optional: dict[str, Any] = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "seed": settings.seed,
            "response_format": {"type": "json_object"}
            if settings.json_mode and json_answer
            else None,
        }
        wanted = {name: value for name, value in optional.items() if value is not None}
        wanted |= settings.extra_body
        taken = {name: value for name, value in wanted.items() if name not in self._refused}
        return {"model": settings.model, self._length: max_tokens, **taken}

    def adapt(self, sent: Mapping[str, Any], complaint: Complaint) -> bool:
        """Learns from a refusal.

        Args:
            sent: The parameters that were refused.
            complaint: What the endpoint said.

        Returns:
            Whether the request can now be sent in another way.
        """
        length = next(name for name in _LENGTHS if name in sent)
        if any(complaint.names(name) for name in _LENGTHS) and not complaint.is_about_length:
            return self._respell(length)
        for name in reversed(tuple(sent)):
            if name not in ("model", length) and complaint.names(name):
                if name not in self._refused:
                    self._refused.add(name)
                    self._notes.append(f"{name} is refused here: it is left out")
                return True
        return False

    def _respell(self, refused: str) -> bool:
        """Goes over to the other spelling, unless that was refused as well."""
        other = _LENGTHS[1 - _LENGTHS.index(refused)]
        if refused not in self._refused:
            self._refused.add(refused)
            if other not in self._refused:
                self._length = other
                self._notes.append(f"{refused} is refused here: {other} is sent")
        return other not in self._refused
