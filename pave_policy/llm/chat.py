"""The chat backbone: every operation as a prompt to an OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import Any

from pave_policy.llm.generative_operations import GenerativeOperations
from pave_policy.llm.operations import FALLBACKS
from pave_policy.llm.pave_operations import PaveOperations
from pave_policy.llm.settings import chat_settings

__all__ = ["FALLBACKS", "Chat", "make_chat"]


class Chat(PaveOperations, GenerativeOperations):
    """Asks a language model. `at` gives the same backbone for one place in a run."""


def make_chat(*, offline: bool = False, **options: Any) -> Chat:
    """A chat backbone from plain options: what the command line asks for.

    Args:
        offline: Whether only stored exchanges may be used, as when a run is replayed.
        **options: Fields of `ChatSettings`, and `preset`.

    Returns:
        The backbone.

    Raises:
        InvalidValueError: If an option is unknown or not allowed.
    """
    return Chat(chat_settings(**options), offline=offline)
