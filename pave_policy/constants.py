"""How a settings class says where each of its numbers comes from."""

from __future__ import annotations

from typing import NamedTuple, get_type_hints


class Source(NamedTuple):
    """The origin of a constant, to be put into its annotation.

    Attributes:
        text: A section of the paper, or "ours" with the reason.
        fitted: Whether the value was chosen to follow published behaviour.
    """

    text: str
    fitted: bool = False


def sources(settings: type) -> dict[str, Source]:
    """Where the constants of a settings class come from.

    Args:
        settings: A class whose fields are annotated `Annotated[type, Source(...)]`.

    Returns:
        The source of each annotated field, by name.
    """
    hints = get_type_hints(settings, include_extras=True)
    return {
        name: note
        for name, hint in hints.items()
        for note in getattr(hint, "__metadata__", ())
        if isinstance(note, Source)
    }
