"""Command-line options that say who answers a policy's questions, shared by several commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from voville_env.errors import InvalidValueError
from voville_env.policy import installed_backbones, load_backbone

CHAT = "chat"
BACKBONE_HELP = (
    "Who answers the policies' questions: surrogate (the default), chat with --base-url and "
    "--model, or the name of a preset such as gpt-4o or ollama."
)


def backbone_of(
    name: str | None, options: Mapping[str, Any], kept: Mapping[str, Any] | None = None
) -> Any:
    """Makes the backbone that was asked for.

    Args:
        name: An installed backbone or a preset of `chat`; None for the policies' own default.
        options: What was said of it.
        kept: What a run to be continued was started with.

    Returns:
        The backbone; None for the policies' own default.

    Raises:
        InvalidValueError: If there is no such backbone, or an option is not allowed.
    """
    said = dict(options)
    if name is None:
        if kept is None and said:
            raise InvalidValueError(
                f"--{min(said).replace('_', '-')} is for a backbone; name it: --backbone chat"
            )
        return None if kept is None else load_backbone(CHAT, **{**kept, **said})
    if name in installed_backbones():
        if name != CHAT and said:
            raise InvalidValueError(
                f"--{min(said).replace('_', '-')} does not apply to --backbone {name}"
            )
        return load_backbone(name, **{**(kept or {}), **said})
    return load_backbone(CHAT, preset=name, **said)


def settings_of(pairs: list[str] | None, option: str) -> dict[str, Any]:
    """Reads `key=value` pairs.

    Args:
        pairs: What was given; a value is JSON, or else a plain word.
        option: The option's name, for the message.

    Returns:
        The settings.

    Raises:
        InvalidValueError: If one is no pair, or a key is given twice.
    """
    found: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise InvalidValueError(f"{option} is {pair!r}; allowed: key=value")
        if key in found:
            raise InvalidValueError(f"{option} gives {key!r} twice")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
